// The matrix as Python hands it over: a checked view of one of the layouts compiled in, with the
// arrays it points into kept alive.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <variant>

#include "snapml/views.hpp"

namespace snapml::native {

using AnyView = std::variant<DenseView<float>, DenseView<double>, CompressedView<float, int32>,
                             CompressedView<float, int64>, CompressedView<double, int32>,
                             CompressedView<double, int64>>;

struct Rows {
  AnyView view;
  nanobind::object owner;

  int64 n_rows() const {
    return std::visit([](const auto& v) { return v.n_rows; }, view);
  }
  int64 n_cols() const {
    return std::visit([](const auto& v) { return v.n_cols; }, view);
  }
};

}  // namespace snapml::native
