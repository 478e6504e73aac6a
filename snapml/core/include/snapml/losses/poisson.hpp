// The Poisson loss with log link and its coordinate step.
#pragma once

#include "snapml/coordinate_step.hpp"
#include "snapml/dual_line.hpp"
#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// l = exp(z) - y z + y log(y) - y, half the unit deviance of a count y >= 0 with mean exp(z). In
// t = z - log(y) that is y (exp(t) - 1 - t): by its series where the loss is small.
template <class T>
struct Poisson {
  using Real = T;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.labels = Labels::kCount;
    traits.link = Link::kLog;
    traits.has_dual_step = true;
    traits.self_concordance = 1.0;
    return traits;
  }

  static SNAPML_HD Real value(Real z, Real y) { return tangent(z, y).value; }
  static SNAPML_HD Real gradient(Real z, Real y) { return tangent(z, y).gradient; }
  static SNAPML_HD Real curvature(Real z, Real) { return exp_wide(z); }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) {
    const bool is_none = y == Real(0);
    const Real count = is_none ? Real(1) : y, mean = exp_wide(z);
    const Real t = z - log_positive(count), rest = t * t * exp_beyond_linear(t);
    const bool is_near = scalar::fabs(t) < Real(0.5);
    const Real value = is_near ? count * rest : mean - count * (Real(1) + t);
    const Real gradient = is_near ? count * (t + rest) : mean - count;
    return {is_none ? mean : value, is_none ? mean : gradient};
  }
  // l*(u) = m log(m) - y log(y) - u with the mean m = u + y, +inf where that is negative.
  static SNAPML_HD Real conjugate(Real u, Real y) {
    const Real mean = u + y, count = y > Real(0) ? y : Real(1), log_y = log_positive(count);
    const Real above = x_log_x(mean) - x_log_x(y) - u;
    // By the ratio, whose logarithm is small where the loss is.
    const Real below = y * x_log_x(mean / count) + u * (log_y - Real(1));
    const Real found = u >= y ? above : below;
    return mean < Real(0) ? infinity<Real>() : found;
  }
  static SNAPML_HD Real dual(Real state, Real y) { return -gradient(state, y); }
  // The margin of the mean y; exp(-80) is a normal float32.
  static SNAPML_HD Real start(Real y) { return maximum(scalar::log(y), Real(-80)); }
};

// exp(s + d) - exp(s), where `mean` is exp(s): without cancellation over a short way, without
// overflow over a long one.
template <class Real>
SNAPML_HD Real poisson_change(Real s, Real mean, Real d) {
  return scalar::fabs(d) < Real(0.5) ? mean * scalar::expm1(d) : scalar::exp(s + d) - mean;
}

// The row's gap exp(z) - exp(s) - exp(s) (z - s) for z = s + d; over a short way by its series.
template <class Real>
SNAPML_HD Real poisson_gap(Real s, Real mean, Real d) {
  if (scalar::fabs(d) >= Real(0.5)) return scalar::exp(s + d) - mean * (Real(1) + d);
  Real sum = Real(1);
  for (int n = 15; n > 2; --n) sum = Real(1) + d * sum / Real(n);  // d^15 / 15! is left out
  return Real(0.5) * mean * d * d * sum;
}

// In the way d = s - s_old: d + k (exp(s_old + d) - exp(s_old)) = z - s_old. The left side is
// convex and increasing, so that from above its root Newton's steps descend to it.
template <class Real>
SNAPML_HD CoordinateStep<Real> coordinate_step(Poisson<Real>, Real state, Real z, Real, Real k) {
  constexpr Real kTop = sizeof(Real) == 4 ? Real(30) : Real(300);  // sums of such means stay finite
  const Real mean = scalar::exp(state), way = minimum(z, maximum(state, kTop)) - state;
  Real d = Real(0);
  if (way > Real(0)) {
    const Real stiffness = k * mean;
    d = stiffness > Real(0) ? minimum(way, scalar::log1p(way / stiffness)) : way;
  }
  for (int iteration = 0; iteration < 30; ++iteration) {
    const Real change = k * poisson_change(state, mean, d);
    const Real newton = (d - way + change) / (Real(1) + k * mean + change);
    d -= newton;
    if (scalar::fabs(newton) <= Real(2) * machine_epsilon<Real>() * scalar::fabs(d)) break;
  }
  const Real kept = clamp(state + d, minimum(state, z), maximum(state, z));
  // Whatever the loop ends with, the change is that of the state that is stored.
  return {kept, -poisson_change(state, mean, kept - state), poisson_gap(state, mean, way)};
}

// In the mean exp(s) = y - beta / c, which is linear in beta.
template <class Real>
SNAPML_HD Real dual_between(Poisson<Real>, Real first, Real last, Real, Real step) {
  if (step == Real(0) || step == Real(1)) return step == Real(0) ? first : last;
  const Real top = maximum(first, last);
  const Real share = (Real(1) - step) * scalar::exp(first - top) + step * scalar::exp(last - top);
  return clamp(top + scalar::log(share), minimum(first, last), top);
}

}  // namespace snapml
