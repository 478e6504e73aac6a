// The factorisation of a small symmetric matrix, U^T D U with units on the diagonal of U.
#pragma once

#include <algorithm>
#include <vector>

#include "small/design.hpp"

namespace snapml::native::small {

// Pivots below this share of their diagonal entry are rounding: the matrix has no inverse to trust.
inline constexpr double kLeastPivot = 1e-13;

// Two rows of h at a time. Each number gets its products one after the other, as from one row at a
// time.
struct SubtractEight {
  template <int parts>
  [[gnu::always_inline]] static void run(const double* rows, const double* pivots, int64 n,
                                         int64 stride, double* h) {
    for (int64 i = 0; i < n; i += 2) {
      const bool is_last = i + 1 == n;
      double first[kEight], second[kEight];
      for (int r = 0; r < kEight; ++r) {
        first[r] = rows[r * stride + i] / pivots[r];
        second[r] = is_last ? 0 : rows[r * stride + i + 1] / pivots[r];
      }
      double* const to = h + i * stride;
      double* const next = is_last ? to : to + stride;
      int64 j = i;
      for (; j + kEight <= n; j += kEight) {
        auto a = WideEight<parts>::load(to + j), b = WideEight<parts>::load(next + j);
        for (int r = 0; r < kEight; ++r) {
          const auto v = WideEight<parts>::load(rows + r * stride + j);
          a.subtract(first[r], v), b.subtract(second[r], v);
        }
        if (!is_last) b.store(next + j);
        a.store(to + j);
      }
      for (; j < n; ++j) {
        for (int r = 0; r < kEight; ++r) {
          const double v = rows[r * stride + j];
          to[j] -= first[r] * v;
          if (!is_last) next[j] -= second[r] * v;
        }
      }
    }
  }
};

// The upper half of h -= sum_r rows[r][i] / pivots[r] rows[r][j] over eight rows.
inline void subtract_eight(const double* rows, const double* pivots, int64 n, int64 stride,
                           double* h) {
  run_wide<SubtractEight>(rows, pivots, n, stride, h);
}

// Works on the upper half of h in place; the diagonal becomes D and row k of the rest D_k U_k.
// Returns whether every pivot is above a share of its diagonal entry.
inline bool factorise(double* h, int64 n, int64 stride, double least_pivot = kLeastPivot) {
  std::vector<double> diagonal(static_cast<std::size_t>(n));
  for (int64 k = 0; k < n; ++k) diagonal[static_cast<std::size_t>(k)] = h[k * stride + k];
  for (int64 first = 0; first < n; first += kEight) {
    const int64 end = std::min<int64>(n, first + kEight);
    double pivots[kEight];
    for (int64 k = first; k < end; ++k) {
      const double* const row = h + k * stride;
      if (!(row[k] > least_pivot * diagonal[static_cast<std::size_t>(k)])) return false;
      pivots[k - first] = row[k];
      for (int64 i = k + 1; i < end; ++i) {
        subtract(row[i] / row[k], row + i, n - i, h + i * stride + i);
      }
    }
    if (end == n) break;
    subtract_eight(h + first * stride + end, pivots, n - end, stride, h + end * stride + end);
  }
  return true;
}

// x becomes the solution of h x = x.
inline void solve_factored(const double* h, int64 n, int64 stride, double* x) {
  for (int64 k = 0; k < n; ++k) {
    const double* const row = h + k * stride;
    subtract(x[k] / row[k], row + k + 1, n - k - 1, x + k + 1);
  }
  for (int64 k = n - 1; k >= 0; --k) {
    const double* const row = h + k * stride;
    double sum = x[k];
    for (int64 i = k + 1; i < n; ++i) sum -= row[i] * x[i];
    x[k] = sum / row[k];
  }
}

}  // namespace snapml::native::small
