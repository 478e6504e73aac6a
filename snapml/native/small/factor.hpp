// The factorisation of a small symmetric matrix, U^T D U with units on the diagonal of U.
#pragma once

#include "small/design.hpp"

namespace snapml::native::small {

// Pivots below this share of their diagonal entry are rounding: the matrix has no inverse to trust.
inline constexpr double kLeastPivot = 1e-13;

// Works on the upper half of h in place; the diagonal becomes D and row k of the rest D_k U_k.
// Returns whether every pivot is positive.
inline bool factorise(double* h, int64 n, int64 stride) {
  std::vector<double> diagonal(static_cast<std::size_t>(n));
  for (int64 k = 0; k < n; ++k) diagonal[static_cast<std::size_t>(k)] = h[k * stride + k];
  for (int64 k = 0; k < n; ++k) {
    const double* const row = h + k * stride;
    if (!(row[k] > kLeastPivot * diagonal[static_cast<std::size_t>(k)])) return false;
    for (int64 i = k + 1; i < n; ++i) {
      if (row[i] != 0) subtract(row[i] / row[k], row + i, n - i, h + i * stride + i);
    }
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
