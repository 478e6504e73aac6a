// One row on the straight line between two dual points, where shards put their steps together.
//
// At `step` in [0, 1] the row's variable is beta = (1 - step) beta_first + step beta_last, which is
// feasible because the dual domain is convex. `dual_between` returns the state of that beta,
// `dual_slope` the derivative of -l*(-b) at b = dual(state): the dual margin itself, where the loss
// has one (docs/algorithms.md, section 3).
#pragma once

#include "snapml/math.hpp"

namespace snapml {

template <class Real>
SNAPML_HD Real point_between(Real first, Real last, Real step) {
  const Real point = (Real(1) - step) * first + step * last;
  return clamp(point, minimum(first, last), maximum(first, last));
}

// A dual margin that is linear in beta, or alpha / c itself.
template <class Loss>
SNAPML_HD typename Loss::Real dual_between(Loss, typename Loss::Real first,
                                           typename Loss::Real last, typename Loss::Real,
                                           typename Loss::Real step) {
  return point_between(first, last, step);
}

template <class Loss>
SNAPML_HD typename Loss::Real dual_slope(Loss, typename Loss::Real state, typename Loss::Real) {
  return state;
}

}  // namespace snapml
