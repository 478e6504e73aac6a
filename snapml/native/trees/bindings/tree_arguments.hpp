// What the bindings of trees take and return: rows, targets and names on the way in, arrays on the
// way out.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arguments.hpp"
#include "rows/rows.hpp"
#include "trees/histogram/splitting.hpp"

namespace snapml::native {

namespace nb = nanobind;

// Calls call(view) where the rows are dense.
template <class Call>
auto with_dense(const Rows& rows, Call call) {
  if (const auto* view = std::get_if<DenseView<float>>(&rows.view)) return call(*view);
  if (const auto* view = std::get_if<DenseView<double>>(&rows.view)) return call(*view);
  throw std::invalid_argument("rows: expected dense ones, got compressed ones");
}

// Calls call(view) where they are compressed.
template <class Call>
auto with_compressed(const Rows& rows, Call call) {
  if (const auto* view = std::get_if<CompressedView<float, int32>>(&rows.view)) return call(*view);
  if (const auto* view = std::get_if<CompressedView<float, int64>>(&rows.view)) return call(*view);
  if (const auto* view = std::get_if<CompressedView<double, int32>>(&rows.view)) return call(*view);
  if (const auto* view = std::get_if<CompressedView<double, int64>>(&rows.view)) return call(*view);
  throw std::invalid_argument("rows: expected compressed ones, got dense ones");
}

inline const int64* kept_argument(const std::optional<ReadOnlyArray>& kept, int64 n_rows) {
  if (!kept) return nullptr;
  const auto size = static_cast<int64>(kept->size());
  const int64* rows = vector_argument<int64>(*kept, "kept", size);
  for (int64 i = 0; i < size; ++i) {
    if (rows[i] < 0 || rows[i] >= n_rows) {
      throw std::invalid_argument("kept: expected rows in [0, " + std::to_string(n_rows) +
                                  "), got " + std::to_string(rows[i]));
    }
  }
  return rows;
}

inline void check_size(int64 n_rows, int64 n_cols) {
  if (n_rows < 1 || n_cols < 1 || n_rows > std::numeric_limits<int32>::max()) {
    throw std::invalid_argument("rows: expected 1 to 2147483647 of them and a column, got shape (" +
                                std::to_string(n_rows) + ", " + std::to_string(n_cols) + ")");
  }
}

inline trees::Criterion criterion_of(const std::string& name) {
  if (name == "gini") return trees::Criterion::kGini;
  if (name == "entropy") return trees::Criterion::kEntropy;
  if (name == "squared_error") return trees::Criterion::kSquaredError;
  if (name == "poisson") return trees::Criterion::kPoisson;
  throw std::invalid_argument("criterion: expected gini, entropy, squared_error or poisson, got " +
                              name);
}

inline trees::RawTargets raw_targets(int64 n_rows, const ReadOnlyArray& targets,
                                     const std::optional<ReadOnlyArray>& weights, int64 n_classes,
                                     trees::Criterion criterion) {
  trees::RawTargets raw{nullptr, nullptr, nullptr, n_classes};
  if (criterion == trees::Criterion::kGini || criterion == trees::Criterion::kEntropy) {
    raw.classes = vector_argument<int32>(targets, "targets", n_rows);
    for (int64 i = 0; i < n_rows; ++i) {
      if (raw.classes[i] < 0 || raw.classes[i] >= n_classes) {
        throw std::invalid_argument("targets: expected classes in [0, " +
                                    std::to_string(n_classes) + "), got " +
                                    std::to_string(raw.classes[i]));
      }
    }
  } else {
    raw.values = vector_argument<double>(targets, "targets", n_rows);
    raw.n_classes = 1;
  }
  if (weights) raw.weights = vector_argument<double>(*weights, "weights", n_rows);
  return raw;
}

inline double sum_of(const double* numbers, int64 size) {
  double sum = 0;
  for (int64 i = 0; i < size; ++i) sum += numbers[i];
  return sum;
}

template <class T>
nb::object as_array(std::vector<T> numbers) {
  auto memory = std::make_unique<std::vector<T>>(std::move(numbers));
  std::vector<T>* const vector = memory.release();
  nb::capsule owner(vector, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(vector->data(), {vector->size()}, owner));
}

}  // namespace snapml::native
