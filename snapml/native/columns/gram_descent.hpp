// Coordinate descent on a quadratic whose matrix is in memory: no data are read.
#pragma once

#include "dual/sweep_schedule.hpp"
#include "rows/row_operations.hpp"
#include "snapml/penalties.hpp"

namespace snapml::native {

// Minimises q.x + x^T G x / 2 + R(coef + x) from x = 0. Leaves coef + x in `coef` and the
// quadratic's gradient q + G x in `gradient`. `ridge` is added to the diagonal of G.
template <class Real>
SweepReport gram_descent(const Real* gram, int64 stride, int64 count, const double* ridge,
                         const ColumnPenalties<double>& penalties, double* coef, double* gradient,
                         SweepLimits limits, Interrupt& interrupt) {
  const ElasticNet<double>& penalty = penalties.penalty;
  const auto visit = [&](int64 j) {
    const Real* const row = gram + j * stride;
    const double curvature = static_cast<double>(row[j]) + ridge[j];
    const double next = penalties.of(j).minimiser(coef[j], gradient[j], curvature);
    const double step = next - coef[j];
    if (step == 0) return Visited{};
    coef[j] = next;
    dense_axpy<double>(step, row, gradient, count);
    gradient[j] += step * ridge[j];
    const double pull = (curvature + penalty.l2) * step;
    return Visited{0.5 * pull * step, scalar::fabs(pull)};
  };
  return run_sweeps({count}, coef, penalty, limits, interrupt, visit);
}

}  // namespace snapml::native
