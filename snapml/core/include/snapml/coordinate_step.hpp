// One coordinate of dual ascent: the exact 1-D maximiser of the dual in one row's variable.
//
// Given the stored state of beta_old, the row's margin z at the current shared vector, and
// stiffness k = sigma * c * ||x||^2 >= 0, the new state solves
//
//     s = z + k * (dual(s) - dual(s_old)),
//
// whose root lies between s_old and z (docs/algorithms.md, equation 4). Each overload returns the
// new state, the change of beta / c, and the row's duality gap G / c before the step.
#pragma once

#include "snapml/losses.hpp"

namespace snapml {

template <class Real>
struct CoordinateStep {
  Real state;
  Real change;
  Real gap;
};

template <class Real>
SNAPML_HD CoordinateStep<Real> coordinate_step(Squared<Real>, Real state, Real z, Real, Real k) {
  const Real distance = state - z;
  const Real change = distance / (Real(1) + k);
  return {state - change, change, Real(0.5) * distance * distance};
}

template <class Real>
SNAPML_HD CoordinateStep<Real> coordinate_step(Hinge<Real>, Real state, Real z, Real y, Real k) {
  const Real slack = Real(1) - y * z;
  const Real gap = maximum(Real(0), slack) - state * slack;
  // A slack of zero leaves the state where it is, also when k = 0 would make it 0 / 0.
  const Real moved = slack == Real(0) ? state : clamp(state + slack / k, Real(0), Real(1));
  return {moved, y * (moved - state), gap};
}

template <class Real>
SNAPML_HD CoordinateStep<Real> coordinate_step(SquaredHinge<Real>, Real state, Real z, Real y,
                                               Real k) {
  const Real slack = Real(1) - y * z;         // of the row as it is
  const Real half_old = Real(1) - y * state;  // alpha / (2 c), never negative
  const Real distance = slack - half_old;
  const Real half_new = maximum(Real(0), half_old + distance / (Real(1) + Real(2) * k));
  const Real gap = slack > Real(0) ? distance * distance : half_old * (half_old - Real(2) * slack);
  return {y * (Real(1) - half_new), Real(2) * y * (half_new - half_old), gap};
}

// Bregman divergence of sp between u and t (the gap of a logistic row), with p = sg(t):
// log(1 + p (e^d - 1)) - p d, where d = u - t and complement = 1 - p. The short series near d = 0
// avoids cancellation.
template <class Real>
SNAPML_HD Real logistic_gap(Real d, Real p, Real complement) {
  const Real variance = p * complement;
  if (scalar::fabs(d) < Real(0.25)) {
    const Real skew = (Real(1) - Real(2) * p) * d / Real(6);
    const Real kurtosis = (Real(1) - Real(6) * variance) * d * d / Real(24);
    return variance * d * d * (Real(0.5) + skew + kurtosis);
  }
  // Mirrored so that the exponential shrinks: B(u, t) is unchanged by (u, t) -> (-u, -t). The two
  // addends are positive and one of them is far from zero, so nothing cancels.
  const Real q = d < Real(0) ? p : complement;
  const Real other = d < Real(0) ? complement : p;
  const Real reach = scalar::fabs(d);
  return maximum(Real(0), scalar::log(other + q * scalar::exp(-reach)) + q * reach);
}

// Halley's step for F = residual, F' = 1 + k v, F'' = k v skew.
template <class Real>
SNAPML_HD Real halley_step(Real residual, Real k, Real v, Real skew) {
  const Real inverse = Real(1) / (Real(1) + k * v);
  const Real newton = residual * inverse;
  const Real bend = Real(0.5) * newton * (k * v * skew) * inverse;
  return -newton / clamp(Real(1) - bend, Real(0.5), Real(2));
}

// Logistic loss, in t = -y s: F(t) = t - u + k (sg(t) - sg(t0)) = 0 with u = -y z, solved by
// safeguarded Halley steps on delta = t - t0, which stays between 0 and d = u - t0.
//
// The difference of sigmoids comes from delta alone,
//     sg(t0 + delta) - sg(t0) = +- v0 E / (e^-|delta| + r E),   E = 1 - e^-|delta|,
// with v0 = sg(t0) sg(-t0) and r = sg(+-t0): no cancellation, so float32 is safe. Whatever delta
// the loop ends with, state and change agree, so the shared vector does not drift.
template <class Real>
SNAPML_HD CoordinateStep<Real> coordinate_step(Logistic<Real>, Real state, Real z, Real y, Real k) {
  const Real t0 = -y * state;
  const Real d = -y * z - t0;
  const Real e0 = scalar::exp(-scalar::fabs(t0));
  const Real inverse = Real(1) / (Real(1) + e0);
  const Real p0 = t0 < Real(0) ? e0 * inverse : inverse;
  const Real q0 = t0 < Real(0) ? inverse : e0 * inverse;
  const Real v0 = p0 * q0;
  const Real other = d < Real(0) ? q0 : p0;  // r above
  const Real gap = logistic_gap(d, p0, q0);

  const Real distance = scalar::fabs(d);
  const Real turn = d < Real(0) ? Real(-1) : Real(1);
  Real low = Real(0), high = distance;
  // Far away the tangent at t0 says nothing; the sigmoid's steepest point is the better start.
  Real step = distance > Real(3) ? -turn * t0 : halley_step(-distance, k, v0, turn * (q0 - p0));
  step = clamp(step, low, high);
  // A thousandth of the way is as good as exact for the descent; below the rounding of t0 there is
  // nothing left to solve.
  const Real enough =
      Real(1e-3) * distance + Real(4) * machine_epsilon<Real>() * (Real(1) + scalar::fabs(t0));
  Real moved = Real(0);
  for (int iteration = 0;; ++iteration) {
    step = turn * ((t0 + turn * step) - t0);  // what the stored state will really have moved by
    const Real e_shrink = one_minus_exp_minus(step);
    const Real rest = step < Real(0.35) ? Real(1) - e_shrink : scalar::exp(-step);
    moved = v0 * e_shrink / (rest + other * e_shrink);
    const Real residual = step - distance + k * moved;  // F, increasing in step
    if (scalar::fabs(residual) <= enough || iteration == 40) break;
    (residual > Real(0) ? high : low) = step;
    const Real p = p0 + turn * moved;
    const Real v = maximum(Real(0), p * (Real(1) - p));
    const Real next = step + halley_step(residual, k, v, turn * (Real(1) - Real(2) * p));
    step = next > low && next < high ? next : Real(0.5) * (low + high);
  }
  return {state - y * turn * step, y * turn * moved, gap};
}

}  // namespace snapml
