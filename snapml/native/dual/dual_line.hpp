// The line between kept dual states and the present ones: how the dual's loss terms rise along it,
// and how to go back to a point of it.
#pragma once

#include "dual/objective.hpp"
#include "snapml/dual_line.hpp"

namespace snapml::native {

// Derivative in `step` of sum_i (-c_i l*(-beta_i / c_i) - (o_i + offset) beta_i) on the line from
// `kept`.
template <class Loss, class Real>
double line_slope(Loss loss, const DualState<Real>& state, const Real* kept, double step,
                  int64 n_rows, ThreadPool& pool) {
  return parallel_sum(pool, n_rows, [&](int64 i) {
    const double c = static_cast<double>(state.weight_of(i));
    if (c == 0 || kept[i] == state.duals[i]) return 0.0;
    const double y = static_cast<double>(state.labels[i]);
    const double first = static_cast<double>(kept[i]), last = static_cast<double>(state.duals[i]);
    const double change = loss.dual(last, y) - loss.dual(first, y);
    const double slope = dual_slope(loss, dual_between(loss, first, last, y, step), y);
    return c * change * (slope - state.offset_of(i) - state.intercept.offset);
  });
}

// Moves the states to `step` on the line from `kept`.
template <class Loss, class Real>
void go_to(Loss loss, const DualState<Real>& state, const Real* kept, double step, int64 n_rows,
           ThreadPool& pool) {
  pool.run([&](int worker) {
    const Range range = share(n_rows, pool.size(), worker);
    for (int64 i = range.begin; i < range.end; ++i) {
      const double first = static_cast<double>(kept[i]), last = static_cast<double>(state.duals[i]);
      const double y = static_cast<double>(state.labels[i]);
      state.duals[i] = static_cast<Real>(dual_between(loss, first, last, y, step));
    }
  });
}

}  // namespace snapml::native
