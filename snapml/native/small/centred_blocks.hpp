// Dense rows less a centre, read some at a time in float64.
#pragma once

#include <algorithm>
#include <vector>

#include "small/design.hpp"
#include "snapml/views.hpp"
#include "threads/parallel.hpp"

namespace snapml::native::small {

// One row less the centre, its columns side by side.
template <class Real>
SNAPML_CLONES void centre_row(const Real* x, const double* centre, int64 n_cols, double* to) {
  for (int64 j = 0; j < n_cols; ++j) to[j] = static_cast<double>(x[j]) - centre[j];
}

// The same of `n_rows` rows of one column, which lie side by side.
template <class Real>
SNAPML_CLONES void centre_column(const Real* x, double centre, int64 n_rows, int64 stride,
                                 double* to) {
  for (int64 i = 0; i < n_rows; ++i) to[i * stride] = static_cast<double>(x[i]) - centre;
}

// Rows less a centre, some at a time, in float64 and whole registers. The rows behind the last are
// zeros, up to a multiple of eight. `last`, where it is not null, is one more column.
template <class Real>
class CentredBlocks {
 public:
  static constexpr int64 kRows = 64;

  CentredBlocks(const DenseView<Real>& view, const double* last, const double* centre)
      : view_(view),
        last_(last),
        centre_(centre),
        stride_(whole(view.n_cols + (last == nullptr ? 0 : 1))),
        values_(static_cast<std::size_t>(kRows * stride_)) {}

  // `count` rows from `first` on, and zeros.
  const double* fill(int64 first, int64 count) {
    double* const to = values_.data();
    std::fill(to + count * stride_, to + whole(count) * stride_, 0.0);
    fill_columns(view_.values + first * view_.row_stride, count, to);
    if (last_ != nullptr) {
      centre_column(last_ + first, centre_[view_.n_cols], count, stride_, to + view_.n_cols);
    }
    return to;
  }

 private:
  void fill_columns(const Real* from, int64 count, double* to) const {
    if (view_.row_stride == 1 && view_.col_stride != 1) {
      for (int64 j = 0; j < view_.n_cols; ++j) {
        centre_column(from + j * view_.col_stride, centre_[j], count, stride_, to + j);
      }
      return;
    }
    for (int64 i = 0; i < count; ++i) {
      const Real* const x = from + i * view_.row_stride;
      if (view_.col_stride == 1) {
        centre_row(x, centre_, view_.n_cols, to + i * stride_);
        continue;
      }
      for (int64 j = 0; j < view_.n_cols; ++j) {
        to[i * stride_ + j] = static_cast<double>(x[j * view_.col_stride]) - centre_[j];
      }
    }
  }

  const DenseView<Real> view_;
  const double *const last_, *const centre_;
  const int64 stride_;
  std::vector<double> values_;
};

// Calls call(worker, first, end, rows) for blocks [first, end) of rows less the centre; `end` is
// that of whole registers. Each worker has neighbouring rows, in order.
template <class Real, class Call>
void each_block(const DenseView<Real>& view, const double* last, const double* centre,
                ThreadPool& pool, Interrupt& interrupt, Call call) {
  constexpr int64 kRows = CentredBlocks<Real>::kRows;
  const int64 n_blocks = (view.n_rows + kRows - 1) / kRows;
  pool.run([&](int worker) {
    CentredBlocks<Real> blocks(view, last, centre);
    const Range range = share(n_blocks, pool.size(), worker);
    for (int64 block = range.begin; block < range.end; ++block) {
      interrupt.poll(worker);
      if (interrupt.requested()) return;
      const int64 first = block * kRows, count = std::min(kRows, view.n_rows - first);
      call(worker, first, first + whole(count), blocks.fill(first, count));
    }
  });
}

// Sums of c_i v_i v_i^T, v_i the row with its target as the last entry, less an origin, and of
// c_i v_i. Weights are padded with zeros to a multiple of eight.
template <class Real>
void row_sums(const DenseView<Real>& view, const double* targets, const double* weights,
              const double* origin, double* products, double* sums, ThreadPool& pool,
              Interrupt& interrupt) {
  const int64 size = view.n_cols + 1, stride = whole(size), part = (stride + 1) * stride;
  std::vector<double> parts(static_cast<std::size_t>(part * pool.size()));
  each_block(view, targets, origin, pool, interrupt,
             [&](int worker, int64 first, int64 end, const double* rows) {
               double* const own = parts.data() + worker * part;
               for (int64 i = first; i < end; i += kEight, rows += kEight * stride) {
                 add_gram8(rows, weights + i, size, stride, own, stride);
                 add8(rows, weights + i, stride, own + stride * stride);
               }
             });
  const auto own = [&](int64 i) -> double& { return parts[static_cast<std::size_t>(i)]; };
  for (int worker = 1; worker < pool.size(); ++worker) {
    for (int64 i = 0; i < part; ++i) own(i) += own(worker * part + i);
  }
  for (int64 i = 0; i < size; ++i) {
    for (int64 j = 0; j < size; ++j) {
      products[i * size + j] = own(std::min(i, j) * stride + std::max(i, j));
    }
  }
  std::copy_n(parts.data() + stride * stride, size, sums);
}

}  // namespace snapml::native::small
