// Columns as Python hands them over: a checked view, with the arrays it points into kept alive.
#pragma once

#include <nanobind/nanobind.h>

#include <variant>

#include "columns/column_descent.hpp"

namespace snapml::native {

using AnyColumns = std::variant<DenseColumns<float>, DenseColumns<double>,
                                SparseColumns<float, int32>, SparseColumns<float, int64>,
                                SparseColumns<double, int32>, SparseColumns<double, int64>>;

struct Columns {
  AnyColumns view;
  int64 n_rows;
  int64 n_cols;
  nanobind::object owner;
};

}  // namespace snapml::native
