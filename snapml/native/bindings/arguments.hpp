// Checks on arrays that come from Python: dtype, shape and contiguity, with what was expected and
// what came.
#pragma once

#include <nanobind/ndarray.h>

#include <stdexcept>
#include <string>
#include <type_traits>

#include "snapml/config.hpp"

namespace snapml::native {

namespace nb = nanobind;
using AnyArray = nb::ndarray<nb::device::cpu>;
using ReadOnlyArray = nb::ndarray<nb::ro, nb::device::cpu>;

template <class Real>
constexpr const char* dtype_name() {
  if (sizeof(Real) == 1) return "uint8";
  if (std::is_integral_v<Real>) return sizeof(Real) == 4 ? "int32" : "int64";
  return sizeof(Real) == 4 ? "float32" : "float64";
}

// A contiguous vector of exactly `size` elements of type Real.
template <class Real, class Array>
auto vector_argument(const Array& array, const char* name, int64 size) {
  const std::string label = std::string(name) + ": expected a contiguous vector of ";
  if (array.dtype() != nb::dtype<Real>()) {
    throw std::invalid_argument(label + dtype_name<Real>() + ", got another dtype");
  }
  bool contiguous = true;
  int64 stride = 1;
  for (std::size_t axis = array.ndim(); axis-- > 0;) {
    if (array.shape(axis) > 1 && array.stride(axis) != stride) contiguous = false;
    stride *= static_cast<int64>(array.shape(axis));
  }
  if (array.size() == 0) contiguous = true;  // NumPy's strides mean nothing then
  if (!contiguous) throw std::invalid_argument(label + "elements side by side, got strides");
  if (static_cast<int64>(array.size()) != size) {
    throw std::invalid_argument(label + std::to_string(size) + " elements, got " +
                                std::to_string(array.size()));
  }
  if constexpr (std::is_same_v<Array, ReadOnlyArray>) {
    return static_cast<const Real*>(array.data());
  } else {
    return static_cast<Real*>(array.data());
  }
}

// No row twice: workers write the states of their rows.
inline const int64* picked_rows(const ReadOnlyArray& picked, int64 n_rows) {
  const auto size = static_cast<int64>(picked.size());
  const int64* rows = vector_argument<int64>(picked, "picked", size);
  int64 next = 0;
  for (int64 k = 0; k < size; ++k) {
    if (rows[k] < next || rows[k] >= n_rows) {
      throw std::invalid_argument("picked: expected ascending rows in [0, " +
                                  std::to_string(n_rows) + "), got " + std::to_string(rows[k]) +
                                  " at " + std::to_string(k));
    }
    next = rows[k] + 1;
  }
  return rows;
}

// Refuses labels that are no class numbers: they index the margins.
template <class Real>
void check_class_numbers(const Real* labels, int64 n_rows, int n_classes) {
  for (int64 i = 0; i < n_rows; ++i) {
    if (labels[i] >= 0 && labels[i] < static_cast<Real>(n_classes)) continue;
    throw std::invalid_argument("labels: expected class numbers below " +
                                std::to_string(n_classes) + ", got " + std::to_string(labels[i]));
  }
}

}  // namespace snapml::native
