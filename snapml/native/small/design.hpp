// The rows of a small problem in float64, each in whole registers, with the intercept's column.
#pragma once

#include <cstddef>
#include <vector>

#include "primal/block_products.hpp"
#include "snapml/views.hpp"

namespace snapml::native::small {

// The next multiple of eight.
inline int64 whole(int64 n) { return (n + kEight - 1) / kEight * kEight; }

// z[r] = x_r.w for eight rows of `stride` numbers, a multiple of eight.
template <class Real>
SNAPML_CLONES void dot8(const Real* rows, const Real* w, int64 stride, Real* z) {
  for (int r = 0; r < kEight; ++r) {
    const Real* const x = rows + r * stride;
    Eight sum{}, u, v;
    for (int64 j = 0; j < stride; j += kEight) {
      load_eight(x + j, u), load_eight(w + j, v);
      sum += u * v;
    }
    z[r] = ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
  }
}

// g += sum_r s[r] x_r over eight rows.
template <class Real>
SNAPML_CLONES void add8(const Real* rows, const Real* s, int64 stride, Real* g) {
  for (int64 j = 0; j < stride; j += kEight) {
    Eight sum, v;
    load_eight(g + j, sum);
    for (int r = 0; r < kEight; ++r) load_eight(rows + r * stride + j, v), sum += s[r] * v;
    std::memcpy(g + j, &sum, sizeof sum);
  }
}

// The upper half of h += sum_r k[r] x_r x_r^T over eight rows, two rows of h at a time; the blocks
// of eight on the diagonal are filled whole. Rows of h have `h_stride` numbers.
template <class Real>
SNAPML_CLONES void add_gram8(const Real* rows, const Real* k, int64 n_cols, int64 stride, Real* h,
                             int64 h_stride) {
  for (int64 i = 0; i < n_cols; i += 2) {
    Real first[kEight], second[kEight];
    for (int r = 0; r < kEight; ++r) {
      first[r] = k[r] * rows[r * stride + i];
      second[r] = k[r] * rows[r * stride + i + 1];
    }
    for (int64 j = i / kEight * kEight; j < stride; j += kEight) {
      Real* const to = h + i * h_stride + j;
      Eight a, b, v;
      load_eight(to, a), load_eight(to + h_stride, b);
      for (int r = 0; r < kEight; ++r) {
        load_eight(rows + r * stride + j, v);
        a += first[r] * v, b += second[r] * v;
      }
      std::memcpy(to, &a, sizeof a), std::memcpy(to + h_stride, &b, sizeof b);
    }
  }
}

// y -= factor x.
template <class Real>
SNAPML_CLONES void subtract(Real factor, const Real* x, int64 size, Real* y) {
  for (int64 j = 0; j < size; ++j) y[j] -= factor * x[j];
}

// Rows are followed by rows of zeros up to a multiple of eight, entries by zeros likewise.
class Design {
 public:
  template <class View>
  Design(const View& view, double bias_column)
      : n_rows(view.n_rows),
        n_features(view.n_cols),
        n_cols(view.n_cols + (bias_column != 0 ? 1 : 0)),
        stride(whole(n_cols + n_cols % 2)),
        n_padded(whole(view.n_rows)),
        values_(static_cast<std::size_t>(n_padded * stride), 0.0) {
    fill(view);
    if (bias_column == 0) return;
    for (int64 i = 0; i < n_rows; ++i) values_[at(i, n_features)] = bias_column;
  }

  const double* row(int64 i) const { return values_.data() + i * stride; }

  // sum_i weights_i ||x_i||^2, without the intercept's column.
  double weighted_squares(const double* weights) const {
    double sum = 0;
    for (int64 i = 0; i < n_rows; ++i) {
      double square = 0;
      for (int64 j = 0; j < n_features; ++j) square += row(i)[j] * row(i)[j];
      sum += weights[i] * square;
    }
    return sum;
  }

  const int64 n_rows, n_features, n_cols, stride, n_padded;

 private:
  std::size_t at(int64 i, int64 j) const { return static_cast<std::size_t>(i * stride + j); }

  template <class Real>
  void fill(const DenseView<Real>& view) {
    for (int64 i = 0; i < n_rows; ++i) {
      const Real* const x = view.values + i * view.row_stride;
      for (int64 j = 0; j < n_features; ++j) {
        values_[at(i, j)] = static_cast<double>(x[j * view.col_stride]);
      }
    }
  }

  template <class Real, class Index>
  void fill(const CompressedView<Real, Index>& view) {
    for (int64 i = 0; i < n_rows; ++i) {
      const CompressedRow<Real, Index> x = view.row(i);
      for (int64 e = 0; e < x.n_stored; ++e) {  // entries of one column add up
        const Real value = x.values == nullptr ? x.constant : x.values[e];
        values_[at(i, static_cast<int64>(x.indices[e]))] += static_cast<double>(value);
      }
    }
  }

  std::vector<double> values_;
};

}  // namespace snapml::native::small
