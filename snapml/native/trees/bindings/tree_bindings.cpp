// The face of decision trees towards Python: bins and finished trees here, growth and predictions
// in their own files.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/variant.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "bindings/without_gil.hpp"
#include "trees/bindings/tree_arguments.hpp"
#include "trees/bins/binning.hpp"
#include "trees/bins/sparse_binning.hpp"
#include "trees/tree.hpp"

namespace snapml::native {

namespace nb = nanobind;

void bind_trees(nb::module_& m);
void bind_byte_trees(nb::module_& m);    // byte_tree_bindings.cpp
void bind_wide_trees(nb::module_& m);    // wide_tree_bindings.cpp
void bind_sparse_trees(nb::module_& m);  // sparse_tree_bindings.cpp
void bind_leaves(nb::module_& m);        // leaf_bindings.cpp

namespace {

using trees::BinnedColumns;
using trees::BinnedRows;
using trees::WideRows;

void check_max_bins(int max_bins) {
  if (max_bins < 2 || max_bins > trees::kMaxBins) {
    throw std::invalid_argument("max_bins: expected 2 to 65535, got " + std::to_string(max_bins));
  }
}

std::variant<BinnedRows, WideRows> bin_rows_of(ThreadPool& pool, const Rows& rows, int max_bins,
                                               const std::optional<ReadOnlyArray>& kept) {
  check_max_bins(max_bins);
  const int64* kept_rows = kept_argument(kept, rows.n_rows());
  const int64 n_rows = kept ? static_cast<int64>(kept->size()) : rows.n_rows();
  check_size(n_rows, rows.n_cols());
  return with_dense(rows, [&](const auto& view) {
    using Real = typename std::decay_t<decltype(view)>::Real;
    const trees::KeptRows<Real> taken{view, kept_rows, n_rows};
    return without_gil(
        [&](Interrupt& interrupt) { return trees::bin_rows(taken, max_bins, pool, interrupt); });
  });
}

// The bins of compressed columns.
BinnedColumns bin_columns_of(ThreadPool& pool, const Rows& columns, int max_bins) {
  check_max_bins(max_bins);
  check_size(columns.n_cols(), columns.n_rows());
  return with_compressed(columns, [&](const auto& view) {
    return without_gil(
        [&](Interrupt& interrupt) { return trees::bin_columns(view, max_bins, pool, interrupt); });
  });
}

// A vector of one number of each node, at any distances.
template <class T>
trees::Column<T> column_argument(const AnyArray& array, const char* name, std::size_t size) {
  if (array.dtype() != nb::dtype<T>() || array.ndim() != 1 || array.shape(0) != size) {
    throw std::invalid_argument(std::string(name) + ": expected a vector of " +
                                std::to_string(size) + " numbers of the type of the tree's nodes");
  }
  return {static_cast<T*>(array.data()), array.stride(0)};
}

// Writes the nodes into a tree's own arrays, once; returns its depth and the sets of codes.
nb::tuple write_tree_to(ThreadPool& pool, trees::UnvaluedTree& tree, const ReadOnlyArray& targets,
                        const std::optional<ReadOnlyArray>& weights, const AnyArray& left,
                        const AnyArray& right, const AnyArray& feature, const AnyArray& threshold,
                        const AnyArray& impurity, const AnyArray& n_samples, const AnyArray& weight,
                        const AnyArray& missing_left, const AnyArray& values) {
  if (tree.grown.lists.empty()) {
    throw std::invalid_argument("grown: expected a tree, got one that was written before");
  }
  const trees::RawTargets raw =
      raw_targets(tree.n_rows, targets, weights, tree.n_classes, tree.criterion);
  const std::size_t size = tree.n_nodes();
  const trees::TreeColumns columns{
      size,
      static_cast<std::size_t>(tree.n_classes),
      column_argument<int64>(left, "children_left", size),
      column_argument<int64>(right, "children_right", size),
      column_argument<int64>(feature, "feature", size),
      column_argument<int64>(n_samples, "n_node_samples", size),
      column_argument<double>(threshold, "threshold", size),
      column_argument<double>(impurity, "impurity", size),
      column_argument<double>(weight, "weighted_n_node_samples", size),
      column_argument<uint8>(missing_left, "missing_go_to_left", size),
      vector_argument<double>(values, "value", static_cast<int64>(size) * tree.n_classes)};
  trees::Numbering numbering = without_gil(
      [&](Interrupt&) { return trees::write_tree(std::move(tree), raw, pool, columns); });
  return nb::make_tuple(numbering.max_depth, as_array(std::move(numbering.left_codes)));
}

}  // namespace

void bind_trees(nb::module_& m) {
  nb::class_<trees::BinTable>(m, "BinTable")
      .def_prop_ro("n_rows", [](const trees::BinTable& b) { return b.n_rows; })
      .def_prop_ro("is_finite", [](const trees::BinTable& b) { return b.is_finite; })
      .def_prop_ro("n_bins", [](const trees::BinTable& b) { return b.all_bins(); });
  nb::class_<BinnedRows, trees::BinTable>(m, "BinnedRows");
  nb::class_<WideRows, trees::BinTable>(m, "WideRows");
  nb::class_<BinnedColumns, trees::BinTable>(m, "BinnedColumns");
  m.def("bin_rows", &bin_rows_of, nb::arg("pool"), nb::arg("rows"), nb::arg("max_bins"),
        nb::arg("kept").none());
  m.def("bin_columns", &bin_columns_of, nb::arg("pool"), nb::arg("columns"), nb::arg("max_bins"));
  nb::class_<trees::UnvaluedTree>(m, "GrownTree")
      .def_prop_ro("n_nodes", [](const trees::UnvaluedTree& t) { return t.n_nodes(); });
  m.def("write_tree", &write_tree_to, nb::arg("pool"), nb::arg("grown"), nb::arg("targets"),
        nb::arg("weights").none(), nb::arg("children_left"), nb::arg("children_right"),
        nb::arg("feature"), nb::arg("threshold"), nb::arg("impurity"), nb::arg("n_node_samples"),
        nb::arg("weighted_n_node_samples"), nb::arg("missing_go_to_left"), nb::arg("value"));
  bind_byte_trees(m);
  bind_wide_trees(m);
  bind_sparse_trees(m);
  bind_leaves(m);
}

}  // namespace snapml::native
