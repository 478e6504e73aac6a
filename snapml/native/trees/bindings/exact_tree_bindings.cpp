// The face of trees with exact splits towards Python: check what comes, release the GIL, call.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "bindings/without_gil.hpp"
#include "trees/bindings/tree_arguments.hpp"
#include "trees/exact/exact_growing.hpp"

namespace snapml::native {

namespace nb = nanobind;

void bind_exact_trees(nb::module_& m);

namespace {

template <class Real>
struct ExactRows {
  trees::KeptRows<Real> rows;
  trees::RawTargets targets;
  bool is_entropy;
};

template <class Targets, class Real>
trees::TreeArrays grow_on(const ExactRows<Real>& data, const Targets& targets,
                          const trees::ExactOptions& options, ThreadPool& pool,
                          Interrupt& interrupt) {
  trees::SortedColumns columns(data.rows, pool, interrupt);
  if (interrupt.requested() || !columns.is_finite()) return {};
  return trees::ExactGrower<Targets>(columns, targets, options, pool, interrupt).grow();
}

template <class Real>
trees::TreeArrays grow_exactly(const ExactRows<Real>& data, const trees::ExactOptions& options,
                               ThreadPool& pool, Interrupt& interrupt) {
  const trees::RawTargets& raw = data.targets;
  if (raw.classes == nullptr) {
    return grow_on(data, trees::ExactValues(raw.values, raw.weights), options, pool, interrupt);
  }
  const int64 n_rows = data.rows.n_rows;
  if (raw.n_classes == 2 && raw.weights == nullptr && !data.is_entropy) {
    return grow_on(data, trees::ExactPairs(raw.classes, n_rows), options, pool, interrupt);
  }
  if (raw.n_classes <= 256) {
    const trees::ExactClasses<uint8> targets(raw.classes, raw.weights, n_rows, raw.n_classes,
                                             data.is_entropy);
    return grow_on(data, targets, options, pool, interrupt);
  }
  const trees::ExactClasses<int32> targets(raw.classes, raw.weights, n_rows, raw.n_classes,
                                           data.is_entropy);
  return grow_on(data, targets, options, pool, interrupt);
}

// Named as scikit-learn's tree names them.
nb::dict as_dict(trees::TreeArrays tree) {
  nb::dict arrays;
  arrays["max_depth"] = tree.max_depth;
  arrays["children_left"] = as_array(std::move(tree.left));
  arrays["children_right"] = as_array(std::move(tree.right));
  arrays["feature"] = as_array(std::move(tree.column));
  arrays["threshold"] = as_array(std::move(tree.threshold));
  arrays["impurity"] = as_array(std::move(tree.impurity));
  arrays["n_node_samples"] = as_array(std::move(tree.n_rows));
  arrays["weighted_n_node_samples"] = as_array(std::move(tree.weight));
  arrays["missing_go_to_left"] = as_array(std::move(tree.missing_left));
  arrays["value"] = as_array(std::move(tree.values));
  return arrays;
}

nb::dict grow_exact_tree(ThreadPool& pool, const Rows& rows,
                         const std::optional<ReadOnlyArray>& kept, const ReadOnlyArray& targets,
                         const std::optional<ReadOnlyArray>& weights, int64 n_classes,
                         const std::string& criterion_name, int64 max_depth,
                         int64 min_samples_split, int64 min_samples_leaf, double min_weight_leaf,
                         double min_impurity_decrease, int64 max_features, uint32_t seed,
                         int64 most_values) {
  const trees::Criterion criterion = criterion_of(criterion_name);
  if (criterion == trees::Criterion::kPoisson) {
    throw std::invalid_argument("criterion: expected gini, entropy or squared_error, got poisson");
  }
  const int64* kept_rows = kept_argument(kept, rows.n_rows());
  const int64 n_rows = kept ? static_cast<int64>(kept->size()) : rows.n_rows();
  check_size(n_rows, rows.n_cols());
  if (max_features < 1 || max_features > rows.n_cols()) {
    throw std::invalid_argument("max_features: expected 1 to " + std::to_string(rows.n_cols()) +
                                ", got " + std::to_string(max_features));
  }
  const trees::RawTargets raw = raw_targets(n_rows, targets, weights, n_classes, criterion);
  double all_weight = static_cast<double>(n_rows);
  if (raw.weights != nullptr) all_weight = sum_of(raw.weights, n_rows);
  const trees::ExactOptions options{max_depth,
                                    min_samples_split,
                                    min_samples_leaf,
                                    min_weight_leaf,
                                    min_impurity_decrease,
                                    all_weight,
                                    max_features,
                                    seed,
                                    most_values};
  return as_dict(with_dense(rows, [&](const auto& view) {
    using Real = typename std::decay_t<decltype(view)>::Real;
    const ExactRows<Real> data{
        {view, kept_rows, n_rows}, raw, criterion == trees::Criterion::kEntropy};
    return without_gil(
        [&](Interrupt& interrupt) { return grow_exactly(data, options, pool, interrupt); });
  }));
}

}  // namespace

void bind_exact_trees(nb::module_& m) {
  m.def("grow_exact_tree", &grow_exact_tree, nb::arg("pool"), nb::arg("rows"),
        nb::arg("kept").none(), nb::arg("targets"), nb::arg("weights").none(), nb::arg("n_classes"),
        nb::arg("criterion"), nb::arg("max_depth"), nb::arg("min_samples_split"),
        nb::arg("min_samples_leaf"), nb::arg("min_weight_leaf"), nb::arg("min_impurity_decrease"),
        nb::arg("max_features"), nb::arg("seed"), nb::arg("most_values"));
}

}  // namespace snapml::native
