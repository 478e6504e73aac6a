// How the solvers see the user's matrix: views without ownership, one row at a time.
//
// The major axis is the coordinate axis: rows (CSR) for the dual form. Offsets and counts are
// 64-bit whatever the width of the stored indices.
#pragma once

#include "snapml/config.hpp"

namespace snapml {

// Rows visited together: one cache line of float32 states, and one cache line of a column-major
// matrix. Random blocks of this size keep the convergence of a full shuffle.
constexpr int kBlockRows = 16;

// Where `mean` is not null the descent works on x - mean: with an unpenalised intercept that is the
// same problem, and columns far from zero no longer slow it down.
template <class T>
struct DenseRow {
  using Real = T;
  const T* values;
  const T* mean;
  int64 n_cols;
};

// Row-major when col_stride == 1; any strides (in elements, also negative) are legal.
template <class T>
struct DenseView {
  using Real = T;
  const T* values;
  const T* mean;
  int64 n_rows;
  int64 n_cols;
  int64 row_stride;
  int64 col_stride;
};

// One compressed row. Where `values` is null every stored entry equals `constant`.
template <class T, class I>
struct CompressedRow {
  using Real = T;
  using Index = I;
  const I* indices;
  const T* values;
  int64 n_stored;
  T constant;
};

template <class T, class I>
struct CompressedView {
  using Real = T;
  using Index = I;
  const I* indptr;
  const I* indices;
  const T* values;
  int64 n_rows;
  int64 n_cols;
  T constant;

  SNAPML_HD CompressedRow<T, I> row(int64 i) const {
    const int64 first = static_cast<int64>(indptr[i]);
    const int64 last = static_cast<int64>(indptr[i + 1]);
    return {indices + first, values == nullptr ? nullptr : values + first, last - first, constant};
  }
};

}  // namespace snapml
