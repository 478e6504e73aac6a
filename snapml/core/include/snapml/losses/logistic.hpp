// The logistic loss, its coordinate step and its states on a line.
#pragma once

#include "snapml/coordinate_step.hpp"
#include "snapml/dual_line.hpp"
#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// l = log(1 + exp(-y z)).
template <class T>
struct Logistic {
  using Real = T;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.link = Link::kLogit;
    traits.has_dual_step = true;
    traits.curvature_bound = 0.25;
    traits.self_concordance = 1.0;
    return traits;
  }

  static SNAPML_HD Real value(Real z, Real y) { return log1p_exp(-y * z); }
  static SNAPML_HD Real gradient(Real z, Real y) { return -y * sigmoid(-y * z); }
  static SNAPML_HD Real curvature(Real z, Real) {
    const Real e = exp_vanishing(-scalar::fabs(z));
    return e / ((Real(1) + e) * (Real(1) + e));
  }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) {
    const Real m = y * z;
    const Real e = exp_nonpositive(-scalar::fabs(m));
    const Real far = (m < Real(0) ? Real(1) : e) / (Real(1) + e);
    return {maximum(-m, Real(0)) + log1p_unit(e), -y * far};
  }
  // l*(u) = a log a + (1 - a) log(1 - a) with a = -u y in [0, 1], +inf outside.
  static SNAPML_HD Real conjugate(Real u, Real y) {
    const Real a = -u * y;
    const Real found = x_log_x(a) + x_log_x(Real(1) - a);
    return a < Real(0) || a > Real(1) ? infinity<Real>() : found;
  }
  static SNAPML_HD Real dual(Real state, Real y) { return y * sigmoid(-y * state); }
  // The state of beta = 0 to working precision; exp(-80) is a normal float32.
  static SNAPML_HD Real start(Real y) { return Real(80) * y; }
};

// What both the gap and the step of a logistic row need of its old state t0 = -y s_old and of
// u = -y z: the solution lies at t0 + turn * step with step in [0, distance].
template <class Real>
struct LogisticRow {
  Real t0;
  Real u;
  Real p;         // sg(t0)
  Real q;         // sg(-t0)
  Real turn;      // sign of u - t0
  Real distance;  // |u - t0|

  SNAPML_HD Real variance() const { return p * q; }
  SNAPML_HD Real near() const { return turn < Real(0) ? q : p; }
  SNAPML_HD Real far() const { return turn < Real(0) ? p : q; }
  SNAPML_HD Real skew() const { return turn * (q - p); }

  // |sg(t0 + turn * step) - sg(t0)| from 1 - exp(-step) and exp(-step). No difference of nearly
  // equal numbers is taken, so float32 is safe.
  SNAPML_HD Real moved(Real shrink, Real rest) const {
    return variance() * shrink / (rest + near() * shrink);
  }

  // The same for any step: a long one may underflow both addends above, and the plain difference
  // is accurate enough for it.
  SNAPML_HD Real moved_by(Real step) const {
    if (step > Real(kLongStep)) return scalar::fabs(sigmoid(t0 + turn * step) - p);
    const Real shrink = one_minus_exp_minus(step);
    return moved(shrink, step < Real(0.35) ? Real(1) - shrink : scalar::exp(-step));
  }

  static constexpr int kLongStep = 4;
};

template <class Real>
SNAPML_HD LogisticRow<Real> logistic_row(Real t0, Real u) {
  const Real e = scalar::exp(-scalar::fabs(t0));
  const Real large = Real(1) / (Real(1) + e), small = e * large;
  const Real d = u - t0;
  return {t0,
          u,
          t0 < Real(0) ? small : large,
          t0 < Real(0) ? large : small,
          d < Real(0) ? Real(-1) : Real(1),
          scalar::fabs(d)};
}

// Bregman divergence sp(u) - sp(t0) - sg(t0) (u - t0), a logistic row's gap, near u = t0: the
// short series avoids cancellation.
template <class Real>
SNAPML_HD Real logistic_gap_near(const LogisticRow<Real>& row) {
  const Real d = row.distance, variance = row.variance();
  const Real kurtosis = (Real(1) - Real(6) * variance) * d * (Real(1) / 24);
  return variance * d * d * (Real(0.5) + d * (row.skew() * (Real(1) / 6) + kurtosis));
}

// Halley's step for F = residual, F' = 1 + k v, F'' = k v skew.
template <class Real>
SNAPML_HD Real halley_step(Real residual, Real k, Real v, Real skew) {
  const Real inverse = Real(1) / (Real(1) + k * v);
  const Real newton = residual * inverse;
  const Real bend = Real(0.5) * newton * (k * v * skew) * inverse;
  return -newton / clamp(Real(1) - bend, Real(0.5), Real(2));
}

// First guess of the step from both ends: the inverse of F, which is -distance at 0 and
// k * moved at `distance`, as a cubic with the right slopes there.
template <class Real>
SNAPML_HD Real hermite_guess(const LogisticRow<Real>& row, Real k, Real moved) {
  const Real length = row.distance + k * moved;
  const Real s = row.distance / length, r = Real(1) - s;
  const Real p = row.p + row.turn * moved;
  const Real slope_near = Real(1) / (Real(1) + k * row.variance());
  const Real slope_far = Real(1) / (Real(1) + k * p * (Real(1) - p));
  return s * (r * length * (r * slope_near - s * slope_far) +
              s * (Real(3) - Real(2) * s) * row.distance);
}

// Logistic loss, in t = -y s: F(t) = t - u + k (sg(t) - sg(t0)) = 0 with u = -y z, solved by
// safeguarded Halley steps on the distance walked from t0 towards u. Whatever step the loop ends
// with, state and change agree, so the shared vector does not drift.
template <class Real>
SNAPML_HD CoordinateStep<Real> coordinate_step(Logistic<Real>, Real state, Real z, Real y, Real k) {
  const Real t0 = -y * state;
  const LogisticRow<Real> row = logistic_row(t0, -y * z);
  Real low = Real(0), high = row.distance, step, gap;
  if (row.distance < Real(0.25)) {
    gap = logistic_gap_near(row);
    step = halley_step(-row.distance, k, row.variance(), row.skew());
  } else if (row.distance < Real(row.kLongStep)) {
    const Real rest = scalar::exp(-row.distance);
    gap = scalar::log(row.near() + row.far() * rest) + row.far() * row.distance;
    step = hermite_guess(row, k, row.moved(Real(1) - rest, rest));
  } else {
    // From so far the two ends say little; the sigmoid's steepest point is the better start.
    gap = log1p_exp(row.u) - log1p_exp(row.t0) - row.p * (row.u - row.t0);
    step = -row.turn * t0;
  }
  step = clamp(step, low, high);
  // A hundredth of the way loses a ten-thousandth of the step's gain, far less than the iteration
  // it saves would bring; below the rounding of t0 there is nothing left to solve.
  const Real enough =
      Real(1e-2) * row.distance + Real(4) * machine_epsilon<Real>() * (Real(1) + scalar::fabs(t0));
  Real moved = Real(0);
  for (int iteration = 0;; ++iteration) {
    step = row.turn * ((t0 + row.turn * step) - t0);  // what the stored state will have moved by
    moved = row.moved_by(step);
    const Real residual = step - row.distance + k * moved;  // F, increasing in step
    if (scalar::fabs(residual) <= enough || iteration == 40) break;
    (residual > Real(0) ? high : low) = step;
    const Real p = row.p + row.turn * moved;
    const Real v = maximum(Real(0), p * (Real(1) - p));
    const Real next = step + halley_step(residual, k, v, row.turn * (Real(1) - Real(2) * p));
    step = next > low && next < high ? next : Real(0.5) * (low + high);
  }
  return {state - y * row.turn * step, y * row.turn * moved, maximum(Real(0), gap)};
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

}  // namespace snapml
