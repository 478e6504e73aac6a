// The moments that centre and scale columns, and Gram matrices of compressed rows in such.
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
void centred_sums(const CompressedView<Real, Index>& view, const double* centre, double* parts,
                  ThreadPool& pool, Interrupt& interrupt) {
  const int64 stride = 2 * view.n_cols;
  pool.run([&](int worker) {
    double* const sums = parts + worker * stride;
    double* const counts = sums + view.n_cols;
    std::fill(sums, sums + stride, 0.0);
    for_each_row(view, share(view.n_rows, pool.size(), worker), interrupt,
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

// Adds one row to sums, or its entries' squared distances from the centre.
template <class Real>
SNAPML_CLONES void add_centred(const Real* x, const double* centre, int64 n_cols, double* sums) {
  if (centre == nullptr) {
    for (int64 j = 0; j < n_cols; ++j) sums[j] += static_cast<double>(x[j]);
    return;
  }
  for (int64 j = 0; j < n_cols; ++j) {
    const double centred = static_cast<double>(x[j]) - centre[j];
    sums[j] += centred * centred;
  }
}

// The same of dense rows.
template <class Real>
void centred_sums(const DenseView<Real>& view, const double* centre, double* parts,
                  ThreadPool& pool, Interrupt& interrupt) {
  const int64 stride = 2 * view.n_cols;
  pool.run([&](int worker) {
    double* const sums = parts + worker * stride;
    std::fill(sums, sums + stride, 0.0);
    for_each_row(
        view, share(view.n_rows, pool.size(), worker), interrupt,
        [&](int64, const auto& row) { add_centred(row.values, centre, view.n_cols, sums); });
  });
  add_up_rows(parts, stride, pool);
}

// Turns the lower triangle of sum_i w_i (x_i, 1) (x_i, 1)^T, of n_cols + 1 rows, into the whole
// matrix of the columns (x - mean) / scale and of a constant one of value `bias`.
inline void scale_gram(double* gram, const double* mean, const double* scale, int64 n_cols,
                       double bias) {
  const int64 size = n_cols + 1;
  double* const last = gram + n_cols * size;
  const double total = last[n_cols];
  // Tile by tile: the other half is written across its rows.
  constexpr int64 kTile = 32;
  for (int64 first = 0; first < n_cols; first += kTile) {
    const int64 end = minimum<int64>(first + kTile, n_cols);
    for (int64 across = 0; across < end; across += kTile) {
      for (int64 j = first; j < end; ++j) {
        double* const row = gram + j * size;
        for (int64 k = across; k < minimum<int64>(across + kTile, j + 1); ++k) {
          const double crossed = mean[j] * last[k] + last[j] * mean[k] - total * mean[j] * mean[k];
          row[k] = gram[k * size + j] = (row[k] - crossed) / scale[j] / scale[k];
        }
      }
    }
  }
  for (int64 j = 0; j < n_cols; ++j) {
    const double centred = bias * (last[j] - total * mean[j]) / scale[j];
    last[j] = gram[j * size + n_cols] = centred;
  }
  last[n_cols] = bias * bias * total;
}

}  // namespace snapml::native
