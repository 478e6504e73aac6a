// Both sides of the duality gap of least squares with an elastic net. docs/algorithms.md,
// section 13.
#pragma once

#include <algorithm>
#include <cmath>

#include "snapml/config.hpp"

namespace snapml::native::squares {

// What a model leaves of the targets, the square root of l2 times w counting as rows of target 0.
struct ElasticNetSums {
  double residuals;  // their weighted squares
  double along;      // the weighted products of targets and residuals
  double norm;       // sum_j |w_j|
  double largest;    // of the slopes without the L1 norm, of those that it holds back
};

struct Bounds {
  double objective, lower;
};

// P, and the dual objective at the residuals times the best factor of those that leave every slope
// within the norm's bounds.
inline Bounds bounds_of(const ElasticNetSums& sums, double l1) {
  const double most = sums.largest > l1 ? l1 / sums.largest : 1;
  const double best =
      sums.residuals > 0 ? std::clamp(sums.along / sums.residuals, 0.0, most) : most;
  return {0.5 * sums.residuals + l1 * sums.norm,
          best * sums.along - 0.5 * best * best * sums.residuals};
}

// The same from what one read of the rows gives: the products of the residuals with the columns,
// and their weighted squares.
inline Bounds bounds_at(const double* products, int64 n_cols, double squares, const double* w,
                        double l1, double l2, bool is_positive) {
  double fitted = 0, norm = 0, length = 0, largest = 0;
  for (int64 j = 0; j < n_cols; ++j) {
    const double slope = l2 * w[j] - products[j];
    largest = std::max(largest, is_positive ? -slope : std::fabs(slope));
    fitted += w[j] * products[j], norm += std::fabs(w[j]), length += w[j] * w[j];
  }
  return bounds_of({squares + l2 * length, squares + fitted, norm, largest}, l1);
}

}  // namespace snapml::native::squares
