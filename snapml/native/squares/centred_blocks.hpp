// Rows and their targets, both less a centre, read some at a time in float64.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "small/design.hpp"
#include "snapml/views.hpp"
#include "threads/parallel.hpp"

namespace snapml::native::squares {

using small::whole;

// Rows less the centre, their columns side by side, registers at a time: what a register reads
// beyond a row is made zero, and has to be in memory.
struct CentreRows {
  template <int parts, class Real>
  [[gnu::always_inline]] static void run(const Real* x, int64 row_stride, const double* centre,
                                         int64 n_rows, int64 n_cols, int64 stride, double* to) {
    using Eight = WideEight<parts>;
    const int64 n_whole = n_cols / kEight * kEight;
    double last[kEight] = {};
    std::copy(centre + n_whole, centre + n_cols, last);
    for (int64 i = 0; i < n_rows; ++i, x += row_stride, to += stride) {
      for (int64 j = 0; j < n_whole; j += kEight) {
        auto v = Eight::load(x + j);
        v.subtract(1, Eight::load(centre + j));
        v.store(to + j);
      }
      if (n_whole == n_cols) continue;
      auto v = Eight::load(x + n_whole);
      v.subtract(1, Eight::load(last));
      v.store(to + n_whole);
      // Behind the row may lie what is no number, which no product makes zero.
      std::fill(to + n_cols, to + n_whole + kEight, 0.0);
    }
  }
};

// `n_rows` rows of one column, which lie side by side.
template <class Real>
SNAPML_CLONES void centre_column(const Real* x, double centre, int64 n_rows, int64 stride,
                                 double* to) {
  for (int64 i = 0; i < n_rows; ++i) to[i * stride] = static_cast<double>(x[i]) - centre;
}

// A matrix with some targets as its last columns, n_targets x n_rows of them, and weights c_i of
// the rows, null where all are one.
template <class View>
struct RowsWithTargets {
  View rows;
  const double* targets;
  int64 n_targets;
  const double* weights;

  int64 n_columns() const { return rows.n_cols + n_targets; }
  double weight(int64 i) const { return weights == nullptr ? 1.0 : weights[i]; }

  double total_weight() const {
    if (weights == nullptr) return static_cast<double>(rows.n_rows);
    return std::accumulate(weights, weights + rows.n_rows, 0.0);
  }
};

// Rows [first, first + count) of a view less the centre, `stride` apart; what is behind their
// columns stays as it is.
template <class Real>
void centre_block(const DenseView<Real>& view, const double* centre, int64 first, int64 count,
                  int64 stride, double* to) {
  const Real* const from = view.values + first * view.row_stride;
  if (view.row_stride == 1 && view.col_stride != 1) {
    for (int64 j = 0; j < view.n_cols; ++j) {
      centre_column(from + j * view.col_stride, centre[j], count, stride, to + j);
    }
    return;
  }
  int64 i = 0;
  if (view.col_stride == 1 && view.row_stride >= view.n_cols) {
    // The registers of a row end in the next eight, and those of the last rows nowhere.
    i = std::clamp<int64>(view.n_rows - kEight - first, 0, count);
    run_wide<CentreRows>(from, view.row_stride, centre, i, view.n_cols, stride, to);
  }
  for (; i < count; ++i) {
    const Real* const x = from + i * view.row_stride;
    for (int64 j = 0; j < view.n_cols; ++j) {
      to[i * stride + j] = static_cast<double>(x[j * view.col_stride]) - centre[j];
    }
  }
}

// Entries of one place add up.
template <class Real, class Index>
void centre_block(const CompressedView<Real, Index>& view, const double* centre, int64 first,
                  int64 count, int64 stride, double* to) {
  for (int64 i = 0; i < count; ++i) {
    double* const own = to + i * stride;
    for (int64 j = 0; j < view.n_cols; ++j) own[j] = -centre[j];
    const CompressedRow<Real, Index> row = view.row(first + i);
    for (int64 e = 0; e < row.n_stored; ++e) {
      own[row.indices[e]] +=
          static_cast<double>(row.values == nullptr ? row.constant : row.values[e]);
    }
  }
}

// Rows less a centre, some at a time, in whole registers, with their weights. Those behind the last
// are zeros, up to a multiple of eight.
template <class View>
class CentredBlocks {
 public:
  static constexpr int64 kRows = 64;

  CentredBlocks(const RowsWithTargets<View>& all, const double* centre)
      : all_(all),
        centre_(centre),
        stride_(whole(all.n_columns())),
        values_(static_cast<std::size_t>(kRows * stride_)) {}

  // `count` rows from `first` on, and zeros.
  const double* fill(int64 first, int64 count) {
    double* const to = values_.data();
    std::fill(to + count * stride_, to + whole(count) * stride_, 0.0);
    centre_block(all_.rows, centre_, first, count, stride_, to);
    for (int64 k = 0; k < all_.n_targets; ++k) {
      const int64 j = all_.rows.n_cols + k;
      centre_column(all_.targets + k * all_.rows.n_rows + first, centre_[j], count, stride_,
                    to + j);
    }
    std::fill_n(weights_, whole(count), 0.0);
    for (int64 i = 0; i < count; ++i) weights_[i] = all_.weight(first + i);
    return to;
  }

  const double* weights() const { return weights_; }

 private:
  const RowsWithTargets<View> all_;
  const double* const centre_;
  const int64 stride_;
  std::vector<double> values_;
  double weights_[kRows];
};

// Adds up what add(worker, own) leaves in the `size` sums of each worker.
template <class Add>
std::vector<double> sum_of_workers(int64 size, ThreadPool& pool, Add add) {
  std::vector<std::vector<double>> parts(static_cast<std::size_t>(pool.size()));
  pool.run([&](int worker) {
    std::vector<double> own(static_cast<std::size_t>(size));
    add(worker, own.data());
    parts[static_cast<std::size_t>(worker)] = std::move(own);
  });
  for (std::size_t worker = 1; worker < parts.size(); ++worker) {
    for (std::size_t i = 0; i < parts[0].size(); ++i) parts[0][i] += parts[worker][i];
  }
  return std::move(parts[0]);
}

// Adds up add(own, weights, n_rows, rows) over blocks of rows less the centre, `own` being `size`
// sums of a worker's, which has neighbouring rows in order; `n_rows` is a multiple of eight.
template <class View, class Add>
std::vector<double> sum_of_blocks(const RowsWithTargets<View>& all, const double* centre,
                                  int64 size, ThreadPool& pool, Interrupt& interrupt, Add add) {
  constexpr int64 kRows = CentredBlocks<View>::kRows;
  const int64 n_rows = all.rows.n_rows, n_blocks = (n_rows + kRows - 1) / kRows;
  return sum_of_workers(size, pool, [&](int worker, double* own) {
    CentredBlocks<View> blocks(all, centre);
    const Range range = share(n_blocks, pool.size(), worker);
    for (int64 block = range.begin; block < range.end; ++block) {
      interrupt.poll();
      if (interrupt.requested()) return;
      const int64 first = block * kRows, count = std::min(kRows, n_rows - first);
      const double* const rows = blocks.fill(first, count);
      add(own, blocks.weights(), whole(count), rows);
    }
  });
}

}  // namespace snapml::native::squares
