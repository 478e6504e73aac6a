// The quadratic form of a symmetric matrix at every row of compressed ones: their leverages, where
// the matrix is the inverse of their sums of products. docs/algorithms.md, section 15.
#pragma once

#include <algorithm>

#include "squares/thin_sums.hpp"

namespace snapml::native::squares {

// out[i] = x_i^T M x_i of a matrix (n_cols x n_cols) whose upper half alone is read.
template <class Real, class Index>
void row_forms(const CompressedView<Real, Index>& view, const double* matrix, double* out,
               ThreadPool& pool, Interrupt& interrupt) {
  const int64 n = view.n_cols;
  pool.run([&](int worker) {
    const Range range = share(view.n_rows, pool.size(), worker);
    for (int64 i = range.begin; i < range.end; ++i) {
      interrupt.poll();
      if (interrupt.requested()) return;
      const CompressedRow<Real, Index> row = view.row(i);
      double form = 0;
      for (int64 e = 0; e < row.n_stored; ++e) {
        const int64 j = static_cast<int64>(row.indices[e]);
        double beside = 0;  // what the entries behind this one add along it
        for (int64 f = e + 1; f < row.n_stored; ++f) {
          const int64 k = static_cast<int64>(row.indices[f]);
          beside += matrix[std::min(j, k) * n + std::max(j, k)] * value_of(row, f);
        }
        const double own = value_of(row, e);
        form += own * (own * matrix[j * n + j] + 2 * beside);
      }
      out[i] = form;
    }
  });
}

}  // namespace snapml::native::squares
