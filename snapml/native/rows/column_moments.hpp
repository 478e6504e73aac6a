// The moments that centre and scale the columns of compressed rows.
#pragma once

#include <algorithm>

#include "dual/objective.hpp"
#include "rows/row_operations.hpp"
#include "snapml/views.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

// parts (workers x 2 x n_cols): the first becomes the sums of the entries (no centre), or of their
// squared distances from the centre, over all rows; zeros that are not stored included.
template <class Real, class Index>
void column_sums(const CompressedView<Real, Index>& view, const double* centre, double* parts,
                 ThreadPool& pool, Interrupt& interrupt) {
  const int64 stride = 2 * view.n_cols;
  pool.run([&](int worker) {
    double* const sums = parts + worker * stride;
    double* const counts = sums + view.n_cols;
    std::fill(sums, sums + stride, 0.0);
    for_each_row(view, share(view.n_rows, pool.size(), worker), interrupt, worker,
                 [&](int64, const auto& row) {
                   for (int64 k = 0; k < row.n_stored; ++k) {
                     const int64 j = static_cast<int64>(row.indices[k]);
                     const double x =
                         static_cast<double>(row.values == nullptr ? row.constant : row.values[k]);
                     sums[j] += centre == nullptr ? x : (x - centre[j]) * (x - centre[j]);
                     counts[j] += 1;
                   }
                 });
  });
  add_up_rows(parts, stride, pool);
  if (centre == nullptr) return;
  for (int64 j = 0; j < view.n_cols; ++j) {
    const double n_zeros = static_cast<double>(view.n_rows) - parts[view.n_cols + j];
    parts[j] += std::max(0.0, n_zeros) * centre[j] * centre[j];
  }
}

}  // namespace snapml::native
