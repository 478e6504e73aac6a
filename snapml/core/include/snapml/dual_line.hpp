// One row on the straight line between two dual points, where shards put their steps together.
//
// At `step` in [0, 1] the row's variable is beta = (1 - step) beta_first + step beta_last, which is
// feasible because the dual domain is convex. `dual_between` returns the state of that beta,
// `dual_slope` the derivative of -l*(-b) at b = dual(state): the dual margin itself, where the loss
// has one (docs/algorithms.md, section 3).
#pragma once

#include "snapml/losses.hpp"

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

// In t = -y s, from both shares sg(t) = alpha / c and sg(-t), neither of which is a difference.
template <class Real>
SNAPML_HD Real dual_between(Logistic<Real>, Real first, Real last, Real y, Real step) {
  if (step == Real(0) || step == Real(1)) return step == Real(0) ? first : last;
  const Real t0 = -y * first, t1 = -y * last, rest = Real(1) - step;
  const Real a = rest * sigmoid(t0) + step * sigmoid(t1);
  const Real b = rest * sigmoid(-t0) + step * sigmoid(-t1);
  const Real t = scalar::log(a) - scalar::log(b);
  return -y * clamp(t, minimum(t0, t1), maximum(t0, t1));
}

template <class Real>
SNAPML_HD Real dual_between(OffsetLogistic<Real> loss, Real first, Real last, Real t, Real step) {
  return dual_between(Logistic<Real>{}, first, last, loss.sign(t), step);
}

template <class Loss>
SNAPML_HD typename Loss::Real dual_slope(Loss, typename Loss::Real state, typename Loss::Real) {
  return state;
}

template <class Real>
SNAPML_HD Real dual_slope(Hinge<Real>, Real, Real y) {
  return y;
}

// The state has the offset, which the dual's own term takes off again.
template <class Real>
SNAPML_HD Real dual_slope(OffsetLogistic<Real> loss, Real state, Real t) {
  return state - loss.offset(t);
}

}  // namespace snapml
