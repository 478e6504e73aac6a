// The face of predictions by trees towards Python: check what comes, release the GIL, call.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <limits>
#include <string>

#include "bindings/without_gil.hpp"
#include "trees/bindings/tree_arguments.hpp"
#include "trees/bins/categories.hpp"
#include "trees/predictor.hpp"

namespace snapml::native {

namespace nb = nanobind;

void bind_leaves(nb::module_& m);

namespace {

// The nodes of scikit-learn's arrays: a walk stays inside them and comes to an end.
void check_links(const int64* l, const int64* r, const int64* column, int64 n_nodes, int64 n_cols) {
  bool is_valid = n_nodes > 0 && n_nodes <= std::numeric_limits<int32>::max();
  for (int64 id = 0; id < n_nodes && is_valid; ++id) {
    is_valid = l[id] < 0 || (l[id] > id && l[id] < n_nodes && r[id] > id && r[id] < n_nodes &&
                             column[id] >= 0 && column[id] < n_cols);
  }
  if (!is_valid) {
    throw std::invalid_argument(
        "nodes: expected children after their parents and features of the rows");
  }
}

trees::WalkTree checked_nodes(const ReadOnlyArray& left, const ReadOnlyArray& right,
                              const ReadOnlyArray& feature, const ReadOnlyArray& threshold,
                              const ReadOnlyArray& missing_left, int64 n_cols) {
  const auto n_nodes = static_cast<int64>(left.size());
  const int64* l = vector_argument<int64>(left, "left_child", n_nodes);
  const int64* r = vector_argument<int64>(right, "right_child", n_nodes);
  const int64* column = vector_argument<int64>(feature, "feature", n_nodes);
  check_links(l, r, column, n_nodes, n_cols);
  return trees::walk_tree(l, r, column, vector_argument<double>(threshold, "threshold", n_nodes),
                          vector_argument<uint8>(missing_left, "missing_go_to_left", n_nodes),
                          n_nodes);
}

bool find_leaves_of(ThreadPool& pool, const Rows& rows, const ReadOnlyArray& left,
                    const ReadOnlyArray& right, const ReadOnlyArray& feature,
                    const ReadOnlyArray& threshold, const ReadOnlyArray& missing_left,
                    const AnyArray& leaves) {
  const trees::WalkTree tree =
      checked_nodes(left, right, feature, threshold, missing_left, rows.n_cols());
  int64* out = vector_argument<int64>(leaves, "leaves", rows.n_rows());
  const auto find = [&](const auto& view) {
    return without_gil(
        [&](Interrupt& interrupt) { return trees::find_leaves(view, tree, out, pool, interrupt); });
  };
  const bool is_dense = std::holds_alternative<DenseView<float>>(rows.view) ||
                        std::holds_alternative<DenseView<double>>(rows.view);
  return is_dense ? with_dense(rows, find) : with_compressed(rows, find);
}

void find_leaves_of_codes_of(ThreadPool& pool, const Rows& rows, const ReadOnlyArray& left,
                             const ReadOnlyArray& right, const ReadOnlyArray& feature,
                             const ReadOnlyArray& threshold, const ReadOnlyArray& missing_left,
                             const ReadOnlyArray& left_codes, const ReadOnlyArray& n_codes,
                             const AnyArray& leaves) {
  const auto n_nodes = static_cast<int64>(left.size());
  const auto n_bytes = static_cast<int64>(left_codes.size());
  const trees::CodeNodes nodes{vector_argument<int64>(left, "left_child", n_nodes),
                               vector_argument<int64>(right, "right_child", n_nodes),
                               vector_argument<int64>(feature, "feature", n_nodes),
                               vector_argument<double>(threshold, "threshold", n_nodes),
                               vector_argument<uint8>(missing_left, "missing_go_to_left", n_nodes),
                               vector_argument<uint8>(left_codes, "left_codes", n_bytes),
                               vector_argument<int32>(n_codes, "n_codes", rows.n_cols())};
  check_links(nodes.left, nodes.right, nodes.column, n_nodes, rows.n_cols());
  for (int64 j = 0; j < rows.n_cols(); ++j) {
    if (nodes.n_codes[j] < 0 || nodes.n_codes[j] > trees::kMostCategories) {
      throw std::invalid_argument("n_codes: expected 0 to 255, which a set has bits for, got " +
                                  std::to_string(nodes.n_codes[j]));
    }
  }
  for (int64 id = 0; id < n_nodes; ++id) {
    if (nodes.left[id] < 0 || nodes.n_codes[nodes.column[id]] == 0) continue;
    const double set = nodes.threshold[id];
    if (!(set >= 0 && set < static_cast<double>(n_bytes / trees::kCodeBytes))) {
      throw std::invalid_argument("threshold: expected the number of a set of codes, got " +
                                  std::to_string(set));
    }
  }
  int64* out = vector_argument<int64>(leaves, "leaves", rows.n_rows());
  with_dense(rows, [&](const auto& view) {
    return without_gil([&](Interrupt& interrupt) {
      trees::find_leaves_of_codes(view, nodes, out, pool, interrupt);
      return true;
    });
  });
}

}  // namespace

void bind_leaves(nb::module_& m) {
  m.def("find_leaves", &find_leaves_of, nb::arg("pool"), nb::arg("rows"), nb::arg("left_child"),
        nb::arg("right_child"), nb::arg("feature"), nb::arg("threshold"),
        nb::arg("missing_go_to_left"), nb::arg("leaves"));
  m.def("find_leaves_of_codes", &find_leaves_of_codes_of, nb::arg("pool"), nb::arg("rows"),
        nb::arg("left_child"), nb::arg("right_child"), nb::arg("feature"), nb::arg("threshold"),
        nb::arg("missing_go_to_left"), nb::arg("left_codes"), nb::arg("n_codes"),
        nb::arg("leaves"));
}

}  // namespace snapml::native
