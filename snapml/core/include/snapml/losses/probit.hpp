// The probit loss: labels whose probability is a normal law of the margin.
#pragma once

#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// Of the normal law at -x, x >= 0: the ratio of its density to its tail, h = x + rest, and the
// logarithm of the tail. Far out both come from Mills' continued fraction
//
//     rest = 1 / (x + 2 / (x + 3 / (x + ...))),
//
// where the tail itself is below the smallest number.
template <class Real>
struct NormalTail {
  Real rest;
  Real log_tail;

  SNAPML_HD static NormalTail at(Real x) {
    const Real log_density = Real(-0.5) * x * x - Real(0.91893853320467274178);  // log(sqrt(2 pi))
    if (x < Real(kNear)) {
      const Real tail = Real(0.5) * scalar::erfc(x * Real(0.70710678118654752440));
      return {scalar::exp(log_density) / tail - x, scalar::log(tail)};
    }
    Real below = x;
    for (int k = kTerms; k > 1; --k) below = x + static_cast<Real>(k) / below;
    const Real rest = Real(1) / below;
    return {rest, log_density - scalar::log(x + rest)};
  }

  static constexpr int kNear = 3, kTerms = 60;  // the terms beyond are below rounding there
};

// l = -log(Phi(y z)), with Phi the normal law.
template <class T>
struct Probit {
  using Real = T;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.link = Link::kProbit;
    traits.curvature_bound = 1.0;
    return traits;
  }

  static SNAPML_HD Real value(Real z, Real y) { return tangent(z, y).value; }
  static SNAPML_HD Real gradient(Real z, Real y) { return tangent(z, y).gradient; }
  static SNAPML_HD Real curvature(Real z, Real y) {
    const Real m = y * z;
    if (m >= Real(0)) {
      const Real h = slope_of_likely(m);
      return h * (h + m);
    }
    const Real rest = NormalTail<Real>::at(-m).rest;
    return (rest - m) * rest;
  }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) {
    const Real m = y * z;
    if (m >= Real(0)) return {-scalar::log1p(-tail(m)), -y * slope_of_likely(m)};
    const NormalTail<Real> far = NormalTail<Real>::at(-m);
    return {-far.log_tail, -y * (far.rest - m)};
  }
  // l*(u) = u z - l(z) at the margin z of slope u, 0 at u = 0, +inf on the other side.
  static SNAPML_HD Real conjugate(Real u, Real y) {
    const Real h = -u * y;
    if (!(h > Real(0))) return h == Real(0) ? Real(0) : infinity<Real>();
    const Real m = margin_of_slope(h);
    return -h * m - value(m, Real(1));
  }
  static SNAPML_HD Real dual(Real state, Real y) { return -gradient(state, y); }
  // Where the slope is as good as zero: exp(-12.5^2 / 2) is a normal float32.
  static SNAPML_HD Real start(Real y) { return Real(12.5) * y; }

 private:
  SNAPML_HD static Real tail(Real m) {
    return Real(0.5) * scalar::erfc(m * Real(0.70710678118654752440));
  }
  // phi(m) / Phi(m) of a label on its side.
  SNAPML_HD static Real slope_of_likely(Real m) {
    const Real density = Real(0.39894228040143267794) * scalar::exp(Real(-0.5) * m * m);
    return density / (Real(1) - tail(m));
  }
  // The m at which phi(m) / Phi(m) is h: above -h, and where 2 phi(m) is h or below. Newton's steps
  // on log(phi(m) / Phi(m)), which falls with the slope -(h + m).
  SNAPML_HD static Real margin_of_slope(Real h) {
    const Real top = Real(0.79788456080286535588);  // 2 phi(0)
    Real low = -h, high = Real(0);
    if (h < top) {
      low = Real(0);
      high = scalar::sqrt(Real(-2) * scalar::log(h / top));
    }
    Real m = h < top ? high : low;
    for (int iteration = 0; iteration < 60; ++iteration) {
      const Real found = -gradient(m, Real(1));
      (found > h ? low : high) = m;
      const Real slope = m >= Real(0) ? found + m : NormalTail<Real>::at(-m).rest;
      Real next = m + (scalar::log(found) - scalar::log(h)) / slope;
      if (!(next >= low && next <= high)) next = low + (high - low) / Real(2);
      const Real moved = scalar::fabs(next - m);
      m = next;
      if (moved <= Real(2) * machine_epsilon<Real>() * scalar::fabs(m)) break;
    }
    return m;
  }
};

}  // namespace snapml
