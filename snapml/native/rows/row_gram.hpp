// Weighted Gram matrices of compressed rows, entry by entry, and the moments that centre and scale
// their columns: what rows of few entries cost a fraction of their dense copies' products.
#pragma once

#include <algorithm>

#include "dual/objective.hpp"
#include "rows/row_operations.hpp"
#include "snapml/views.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

// Adds w x x^T, x with a constant 1 behind its last column, to one half of a matrix: which half of
// a pair of columns gets its product follows their order in the row.
template <class Real, class Index>
void add_outer(const CompressedRow<Real, Index>& row, double weight, int64 n_cols, double* gram) {
  const auto entry = [&](int64 k) {
    return static_cast<double>(row.values == nullptr ? row.constant : row.values[k]);
  };
  const int64 size = n_cols + 1;
  double* const last = gram + n_cols * size;
  for (int64 k = 0; k < row.n_stored; ++k) {
    const int64 column = static_cast<int64>(row.indices[k]);
    const double product = weight * entry(k);
    double* const own = gram + column * size;
    for (int64 l = 0; l < k; ++l) {
      // Of a column that is stored twice, the square takes the product of both from either side.
      const double both = static_cast<int64>(row.indices[l]) == column ? 2.0 : 1.0;
      own[row.indices[l]] += both * product * entry(l);
    }
    own[column] += product * entry(k);
    last[column] += product;
  }
  last[n_cols] += weight;
}

// parts (workers x size x size, size = n_cols + 1): the first becomes sum_i w_i x_i x_i^T.
template <class Real, class Index>
void weighted_gram(const CompressedView<Real, Index>& view, const double* weights, double* parts,
                   ThreadPool& pool, Interrupt& interrupt) {
  const int64 size = view.n_cols + 1;
  pool.run([&](int worker) {
    double* const mine = parts + worker * size * size;
    std::fill(mine, mine + size * size, 0.0);
    for_each_row(view, share(view.n_rows, pool.size(), worker), interrupt, worker,
                 [&](int64 i, const auto& row) {
                   if (weights[i] != 0) add_outer(row, weights[i], view.n_cols, mine);
                 });
  });
  add_up_rows(parts, size * size, pool);
  for (int64 j = 0; j < size; ++j) {
    for (int64 k = 0; k < j; ++k) {
      const double sum = parts[j * size + k] + parts[k * size + j];
      parts[j * size + k] = parts[k * size + j] = sum;
    }
  }
}

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
