// One binding of `grow_tree`, for one kind of bins; each kind has a file, which compile side by
// side.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "bindings/without_gil.hpp"
#include "threads/free_memory.hpp"
#include "trees/bindings/tree_arguments.hpp"
#include "trees/bins/binning.hpp"
#include "trees/histogram/large_nodes.hpp"
#include "trees/histogram/sparse_growing.hpp"
#include "trees/tree.hpp"

namespace snapml::native {

namespace nb = nanobind;

using trees::BinnedColumns;
using trees::Criterion;

// The bins that sums are held of at once.
template <class Bin>
int64 held_bins(const trees::RowsOfBins<Bin>& binned) {
  return binned.all_bins();
}
inline int64 held_bins(const BinnedColumns& binned) { return binned.most_bins() + 1; }

template <class Targets, class Binned>
trees::GrownTree grow_on(const trees::Growth<Targets, Binned>& growth, ThreadPool& pool,
                         Interrupt& interrupt) {
  return trees::TreeGrower<Targets, Binned>(growth, pool, interrupt).grow();
}

template <class Targets>
trees::GrownTree grow_on(const trees::Growth<Targets, BinnedColumns>& growth, ThreadPool& pool,
                         Interrupt& interrupt) {
  return trees::SparseTreeGrower<Targets>(growth, pool, interrupt).grow();
}

// The parameters of a tree; `min_weight` is in the units of the weights.
struct TreeOptions {
  trees::GrowOptions grow;
  double min_weight;
  int64 most_values, most_histogram_bytes;
};

template <class Binned, class Targets>
trees::UnvaluedTree grow_with(const Binned& binned, const Targets& targets,
                              const trees::RawTargets& raw, TreeOptions options, double centre,
                              double all_weight, ThreadPool& pool, Interrupt& interrupt) {
  const bool is_weighted = raw.weights != nullptr;
  const double scale = targets.weight_scale();
  // Each weight is rounded by up to half a unit; a side has at least one unit.
  const double slack = is_weighted ? static_cast<double>(binned.n_rows) : 0;
  options.grow.min_weight = std::max(options.min_weight * scale - slack, 1.0);
  options.grow.all_weight = all_weight * scale;
  const trees::Growth<Targets, Binned> growth(binned, targets, options.grow);
  const int64 n_bins = held_bins(binned);
  const double bytes =
      static_cast<double>(n_bins * targets.n_sums()) * sizeof(typename Targets::Sum);
  if (bytes > static_cast<double>(options.most_histogram_bytes)) {
    throw std::length_error("a histogram of " + std::to_string(n_bins) + " bins and " +
                            std::to_string(raw.n_classes) +
                            " classes does not fit into memory: expected fewer classes or bins");
  }
  trees::GrownTree grown = grow_on(growth, pool, interrupt);
  if (interrupt.requested()) return {};
  return_free_memory();
  return trees::unvalued_tree(std::move(grown), options.grow, binned.n_rows, raw.n_classes, centre,
                              options.most_values);
}

template <class Binned>
trees::UnvaluedTree grow_classes(const Binned& binned, const trees::RawTargets& raw,
                                 const TreeOptions& options, ThreadPool& pool,
                                 Interrupt& interrupt) {
  const auto grow = [&](const auto& targets, double weight) {
    return grow_with(binned, targets, raw, options, 0, weight, pool, interrupt);
  };
  if (raw.weights != nullptr) {
    const double weight = sum_of(raw.weights, binned.n_rows);
    return grow(trees::ClassWeights{raw.classes, raw.weights, raw.n_classes,
                                    trees::fixed_point_scale(weight)},
                weight);
  }
  const auto weight = static_cast<double>(binned.n_rows);
  if (raw.n_classes == 2) return grow(trees::ClassCounts<2>{raw.classes, 2}, weight);
  return grow(trees::ClassCounts<0>{raw.classes, raw.n_classes}, weight);
}

// A number near the mean that integers and short fractions are not rounded by.
inline double centre_of(const trees::RawTargets& raw, int64 n_rows) {
  double least = raw.values[0], most = raw.values[0], mean = 0;
  for (int64 i = 0; i < n_rows; ++i) {
    least = std::min(least, raw.values[i]);
    most = std::max(most, raw.values[i]);
    mean += raw.values[i] / static_cast<double>(n_rows);
  }
  if (most == least) return least;
  int exponent = 0;
  std::frexp(most - least, &exponent);
  const double unit = std::ldexp(1.0, exponent);
  return std::floor(mean / unit) * unit;
}

template <class Binned>
trees::UnvaluedTree grow_values(const Binned& binned, const trees::RawTargets& raw,
                                const TreeOptions& options, ThreadPool& pool,
                                Interrupt& interrupt) {
  const int64 n_rows = binned.n_rows;
  const bool is_poisson = options.grow.criterion == Criterion::kPoisson;
  const double centre = is_poisson ? 0 : centre_of(raw, n_rows);
  double magnitude = 0;
  for (int64 i = 0; i < n_rows; ++i) {
    magnitude += raw.weight(i) * std::abs(raw.values[i] - centre);
  }
  const double scale = trees::fixed_point_scale(magnitude);
  if (raw.weights == nullptr) {
    const trees::ValueSums<false> targets{raw.values, nullptr, centre, scale, 1};
    return grow_with(binned, targets, raw, options, centre, static_cast<double>(n_rows), pool,
                     interrupt);
  }
  const double weight = sum_of(raw.weights, n_rows);
  const trees::ValueSums<true> targets{raw.values, raw.weights, centre, scale,
                                       trees::fixed_point_scale(weight)};
  return grow_with(binned, targets, raw, options, centre, weight, pool, interrupt);
}

inline const int32* codes_argument(const std::optional<ReadOnlyArray>& n_codes,
                                   const trees::BinTable& binned) {
  if (!n_codes) return nullptr;
  const auto* numbers = vector_argument<int32>(*n_codes, "n_codes", binned.n_cols);
  for (int64 j = 0; j < binned.n_cols; ++j) {
    if (numbers[j] != 0 &&
        !trees::has_codes(binned.columns[static_cast<std::size_t>(j)], numbers[j])) {
      throw std::invalid_argument("n_codes: expected at most max_bins codes in [0, " +
                                  std::to_string(numbers[j]) + "), and that at most 255, got " +
                                  "others in column " + std::to_string(j));
    }
  }
  return numbers;
}

template <class Binned>
trees::UnvaluedTree grow_tree_of(
    ThreadPool& pool, const Binned& binned, const ReadOnlyArray& targets,
    const std::optional<ReadOnlyArray>& weights, int64 n_classes, const std::string& criterion,
    int64 max_depth, int64 min_samples_split, int64 min_samples_leaf, double min_weight,
    double min_impurity_decrease, int64 max_features, uint64 seed, int64 max_leaf_nodes,
    int64 most_values, int64 most_histogram_bytes, const std::optional<ReadOnlyArray>& monotonic,
    const std::optional<ReadOnlyArray>& n_codes) {
  const Criterion kind = criterion_of(criterion);
  const trees::RawTargets raw = raw_targets(binned.n_rows, targets, weights, n_classes, kind);
  if (monotonic && raw.n_classes > 2) {
    throw std::invalid_argument("monotonic: expected at most 2 classes, got " +
                                std::to_string(raw.n_classes));
  }
  const int32* signs =
      monotonic ? vector_argument<int32>(*monotonic, "monotonic", binned.n_cols) : nullptr;
  const TreeOptions options{
      {kind, max_depth, min_samples_split, min_samples_leaf, 0, min_impurity_decrease, max_features,
       seed, 0, signs, codes_argument(n_codes, binned), max_leaf_nodes},
      min_weight,
      most_values,
      most_histogram_bytes};
  return without_gil([&](Interrupt& interrupt) {
    return raw.classes != nullptr ? grow_classes(binned, raw, options, pool, interrupt)
                                  : grow_values(binned, raw, options, pool, interrupt);
  });
}

template <class Binned>
void bind_growing(nb::module_& m) {
  m.def("grow_tree", &grow_tree_of<Binned>, nb::arg("pool"), nb::arg("binned"), nb::arg("targets"),
        nb::arg("weights").none(), nb::arg("n_classes"), nb::arg("criterion"), nb::arg("max_depth"),
        nb::arg("min_samples_split"), nb::arg("min_samples_leaf"), nb::arg("min_weight"),
        nb::arg("min_impurity_decrease"), nb::arg("max_features"), nb::arg("seed"),
        nb::arg("max_leaf_nodes"), nb::arg("most_values"), nb::arg("most_histogram_bytes"),
        nb::arg("monotonic").none(), nb::arg("n_codes").none());
}

}  // namespace snapml::native
