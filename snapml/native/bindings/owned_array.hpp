// Numbers made in C++ as a NumPy array that owns them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <utility>
#include <vector>

#include "snapml/config.hpp"

namespace snapml::native {

// The first `size` elements as an array that keeps the memory alive.
template <class T>
nanobind::object as_array(std::unique_ptr<T[]> memory, int64 size) {
  namespace nb = nanobind;
  T* const data = memory.release();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nb::cast(
      nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {static_cast<std::size_t>(size)}, owner));
}

template <class T>
nanobind::object as_array(std::vector<T> numbers) {
  namespace nb = nanobind;
  auto memory = std::make_unique<std::vector<T>>(std::move(numbers));
  std::vector<T>* const vector = memory.release();
  nb::capsule owner(vector, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(vector->data(), {vector->size()}, owner));
}

}  // namespace snapml::native
