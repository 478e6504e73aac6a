// Sums over rows and their targets, both less a centre: one read each.
#pragma once

#include "squares/thin_sums.hpp"

namespace snapml::native::squares {

// The upper half of sum_i c_i v_i v_i^T over rows with their targets v_i less the centre, rows
// `stride` apart, and behind it sum_i c_i v_i.
template <class View>
std::vector<double> upper_row_sums(const RowsWithTargets<View>& all, const double* centre,
                                   int64 stride, ThreadPool& pool, Interrupt& interrupt) {
  const int64 n = all.n_columns();
  return sum_of_blocks(all, centre, (stride + 1) * stride, pool, interrupt,
                       [&](double* own, const double* weights, int64 n_rows, const double* rows) {
                         small::add_gram(rows, weights, n_rows, n, stride, own, stride);
                         for (int64 i = 0; i < n_rows; i += kEight, rows += kEight * stride) {
                           small::add8(rows, weights + i, stride, own + stride * stride);
                         }
                       });
}

// The whole matrix sum_i c_i v_i v_i^T, and behind it sum_i c_i v_i.
template <class View>
std::vector<double> row_sums(const RowsWithTargets<View>& all, const double* centre,
                             ThreadPool& pool, Interrupt& interrupt) {
  const int64 n = all.n_columns(), stride = whole(n);
  std::vector<double> sums;
  if constexpr (kIsCompressed<View>) {
    if (is_thin(all.rows)) {
      sums = upper_thin_sums(all, centre, stride, pool, interrupt);
    }
  }
  if (sums.empty()) sums = upper_row_sums(all, centre, stride, pool, interrupt);
  std::vector<double> out(static_cast<std::size_t>((n + 1) * n));
  for (int64 i = 0; i < n; ++i) {
    for (int64 j = 0; j < n; ++j) {
      out[static_cast<std::size_t>(i * n + j)] =
          sums[static_cast<std::size_t>(std::min(i, j) * stride + std::max(i, j))];
    }
  }
  std::copy_n(sums.data() + stride * stride, n, out.data() + n * n);
  return out;
}

// What models (n_models x n_cols) leave of the targets, which they have in turn: for every model
// sum_i c_i r_i x_i, sum_i c_i r_i^2 and sum_i c_i r_i, rows and targets less the centre.
template <class View>
std::vector<double> residual_sums(const RowsWithTargets<View>& all, const double* centre,
                                  const double* models, int64 n_models, ThreadPool& pool,
                                  Interrupt& interrupt) {
  if constexpr (kIsCompressed<View>) {
    if (is_thin(all.rows)) {
      return thin_residual_sums(all, centre, models, n_models, pool, interrupt);
    }
  }
  const int64 n = all.rows.n_cols, stride = whole(all.n_columns()), part = stride + 2;
  std::vector<double> padded(static_cast<std::size_t>(stride * n_models));
  for (int64 k = 0; k < n_models; ++k) std::copy_n(models + k * n, n, padded.data() + k * stride);
  const std::vector<double> sums =
      sum_of_blocks(all, centre, part * n_models, pool, interrupt,
                    [&](double* own, const double* weights, int64 n_rows, const double* rows) {
                      for (int64 k = 0; k < n_models; ++k, own += part) {
                        const double* y = rows + n + k % all.n_targets;
                        double z[kEight], weighted[kEight], squares = 0, sum = 0;
                        for (int64 i = 0; i < n_rows; i += kEight, y += kEight * stride) {
                          const double* const x = rows + i * stride;
                          small::dot8(x, padded.data() + k * stride, stride, z);
                          for (int r = 0; r < kEight; ++r) {
                            const double residual = y[r * stride] - z[r];
                            weighted[r] = weights[i + r] * residual;
                            squares += weighted[r] * residual, sum += weighted[r];
                          }
                          small::add8(x, weighted, stride, own);
                        }
                        own[stride] += squares, own[stride + 1] += sum;
                      }
                    });
  std::vector<double> out(static_cast<std::size_t>((n + 2) * n_models));
  for (int64 k = 0; k < n_models; ++k) {
    std::copy_n(sums.data() + k * part, n, out.data() + k * (n + 2));
    std::copy_n(sums.data() + k * part + stride, 2, out.data() + k * (n + 2) + n);
  }
  return out;
}

}  // namespace snapml::native::squares
