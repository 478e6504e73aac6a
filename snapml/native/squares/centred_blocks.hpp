// Sums over dense rows and their targets, both less a centre, in float64: one read each.
#pragma once

#include <algorithm>
#include <vector>

#include "small/design.hpp"
#include "snapml/views.hpp"
#include "threads/parallel.hpp"

namespace snapml::native::squares {

using small::whole;

// Rows less the centre, their columns side by side, registers at a time: what a register reads
// beyond a row is made zero, and has to be in memory.
template <class Real>
SNAPML_CLONES void centre_rows(const Real* x, int64 row_stride, const double* centre, int64 n_rows,
                               int64 n_cols, int64 stride, double* to) {
  using Bits = long long __attribute__((vector_size(64)));
  const int64 n_whole = n_cols / kEight * kEight;
  Eight last{}, c{}, v;
  Bits is_shown{};
  for (int64 j = n_whole; j < n_cols; ++j)
    last[j - n_whole] = centre[j], is_shown[j - n_whole] = -1;
  for (int64 i = 0; i < n_rows; ++i, x += row_stride, to += stride) {
    for (int64 j = 0; j < n_whole; j += kEight) {
      load_eight(x + j, v), load_eight(centre + j, c), v -= c;
      std::memcpy(to + j, &v, sizeof v);
    }
    if (n_whole == n_cols) continue;
    load_eight(x + n_whole, v), v -= last;
    const Bits kept = (Bits)v & is_shown;
    std::memcpy(to + n_whole, &kept, sizeof kept);
  }
}

// `n_rows` rows of one column, which lie side by side.
template <class Real>
SNAPML_CLONES void centre_column(const Real* x, double centre, int64 n_rows, int64 stride,
                                 double* to) {
  for (int64 i = 0; i < n_rows; ++i) to[i * stride] = static_cast<double>(x[i]) - centre;
}

// A matrix with some targets as its last columns, n_targets x n_rows of them.
template <class Real>
struct RowsWithTargets {
  DenseView<Real> rows;
  const double* targets;
  int64 n_targets;

  int64 n_columns() const { return rows.n_cols + n_targets; }
};

// Rows less a centre, some at a time, in whole registers. The rows behind the last are zeros, up to
// a multiple of eight.
template <class Real>
class CentredBlocks {
 public:
  static constexpr int64 kRows = 64;

  CentredBlocks(const RowsWithTargets<Real>& all, const double* centre)
      : all_(all),
        centre_(centre),
        stride_(whole(all.n_columns())),
        values_(static_cast<std::size_t>(kRows * stride_)) {}

  // `count` rows from `first` on, and zeros.
  const double* fill(int64 first, int64 count) {
    double* const to = values_.data();
    std::fill(to + count * stride_, to + whole(count) * stride_, 0.0);
    const bool is_last = first + count == all_.rows.n_rows;
    fill_rows(all_.rows.values + first * all_.rows.row_stride, count, is_last, to);
    for (int64 k = 0; k < all_.n_targets; ++k) {
      const int64 j = all_.rows.n_cols + k;
      centre_column(all_.targets + k * all_.rows.n_rows + first, centre_[j], count, stride_,
                    to + j);
    }
    return to;
  }

 private:
  void fill_rows(const Real* from, int64 count, bool is_last, double* to) const {
    const DenseView<Real>& view = all_.rows;
    if (view.row_stride == 1 && view.col_stride != 1) {
      for (int64 j = 0; j < view.n_cols; ++j) {
        centre_column(from + j * view.col_stride, centre_[j], count, stride_, to + j);
      }
      return;
    }
    int64 i = 0;
    if (view.col_stride == 1 && view.row_stride >= view.n_cols) {
      // The registers of a row end in the next ones, and those of the last rows nowhere.
      const int64 n_safe = is_last ? count - kEight : count;
      centre_rows(from, view.row_stride, centre_, n_safe, view.n_cols, stride_, to);
      i = std::max<int64>(n_safe, 0);
    }
    for (; i < count; ++i) {
      const Real* const x = from + i * view.row_stride;
      for (int64 j = 0; j < view.n_cols; ++j) {
        to[i * stride_ + j] = static_cast<double>(x[j * view.col_stride]) - centre_[j];
      }
    }
  }

  const RowsWithTargets<Real> all_;
  const double* const centre_;
  const int64 stride_;
  std::vector<double> values_;
};

// Adds up add(own, first, end, rows) over blocks [first, end) of rows less the centre, `own` being
// `size` sums of a worker's, which has neighbouring rows in order; `end` is that of whole
// registers.
template <class Real, class Add>
std::vector<double> sum_of_blocks(const RowsWithTargets<Real>& all, const double* centre,
                                  int64 size, ThreadPool& pool, Interrupt& interrupt, Add add) {
  constexpr int64 kRows = CentredBlocks<Real>::kRows;
  const int64 n_rows = all.rows.n_rows, n_blocks = (n_rows + kRows - 1) / kRows;
  std::vector<std::vector<double>> parts(static_cast<std::size_t>(pool.size()));
  pool.run([&](int worker) {
    std::vector<double> own(static_cast<std::size_t>(size));
    CentredBlocks<Real> blocks(all, centre);
    const Range range = share(n_blocks, pool.size(), worker);
    for (int64 block = range.begin; block < range.end; ++block) {
      interrupt.poll(worker);
      if (interrupt.requested()) break;
      const int64 first = block * kRows, count = std::min(kRows, n_rows - first);
      add(own.data(), first, first + whole(count), blocks.fill(first, count));
    }
    parts[static_cast<std::size_t>(worker)] = std::move(own);
  });
  for (std::size_t worker = 1; worker < parts.size(); ++worker) {
    for (std::size_t i = 0; i < parts[0].size(); ++i) parts[0][i] += parts[worker][i];
  }
  return std::move(parts[0]);
}

// sums: sum_i c_i v_i of rows and targets v_i less the centre. Here and below, weights c_i are
// padded with zeros to a multiple of eight.
template <class Real>
std::vector<double> column_sums(const RowsWithTargets<Real>& all, const double* weights,
                                const double* centre, ThreadPool& pool, Interrupt& interrupt) {
  const int64 stride = whole(all.n_columns());
  return sum_of_blocks(all, centre, stride, pool, interrupt,
                       [&](double* own, int64 first, int64 end, const double* rows) {
                         for (int64 i = first; i < end; i += kEight, rows += kEight * stride) {
                           small::add8(rows, weights + i, stride, own);
                         }
                       });
}

// The whole matrix sum_i c_i v_i v_i^T, and behind it sum_i c_i v_i.
template <class Real>
std::vector<double> row_sums(const RowsWithTargets<Real>& all, const double* weights,
                             const double* centre, ThreadPool& pool, Interrupt& interrupt) {
  const int64 n = all.n_columns(), stride = whole(n);
  const std::vector<double> sums =
      sum_of_blocks(all, centre, (stride + 1) * stride, pool, interrupt,
                    [&](double* own, int64 first, int64 end, const double* rows) {
                      for (int64 i = first; i < end; i += kEight, rows += kEight * stride) {
                        small::add_gram8(rows, weights + i, n, stride, own, stride);
                        small::add8(rows, weights + i, stride, own + stride * stride);
                      }
                    });
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

// What models (n_models x n_cols) leave of the targets, of the only one or of one each: for every
// model sum_i c_i r_i x_i, sum_i c_i r_i^2 and sum_i c_i r_i, rows and targets less the centre.
template <class Real>
std::vector<double> residual_sums(const RowsWithTargets<Real>& all, const double* weights,
                                  const double* centre, const double* models, int64 n_models,
                                  ThreadPool& pool, Interrupt& interrupt) {
  const int64 n = all.rows.n_cols, stride = whole(all.n_columns()), part = stride + 2;
  std::vector<double> padded(static_cast<std::size_t>(stride * n_models));
  for (int64 k = 0; k < n_models; ++k) std::copy_n(models + k * n, n, padded.data() + k * stride);
  const std::vector<double> sums =
      sum_of_blocks(all, centre, part * n_models, pool, interrupt,
                    [&](double* own, int64 first, int64 end, const double* rows) {
                      for (int64 k = 0; k < n_models; ++k, own += part) {
                        const double* y = rows + n + (all.n_targets > 1 ? k : 0);
                        double z[kEight], weighted[kEight], squares = 0, sum = 0;
                        for (int64 i = first; i < end; i += kEight, y += kEight * stride) {
                          const double* const x = rows + (i - first) * stride;
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
