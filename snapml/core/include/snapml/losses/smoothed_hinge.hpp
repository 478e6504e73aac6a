// The hinge with a round corner, which the quasi-Newton method solves in place of the hinge.
#pragma once

#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// The hinge with its corner rounded off over a width g around a = a0, the dual variable over c:
// l = max over 0 <= a <= 1 of a (1 - m) - g/2 (a - a0)^2, plus g/2 a0^2, with m = sign(y) z. That
// is 0 for s <= 0, s^2 / (2 g) up to s = g, then s - g / 2, with the slack s = 1 - m + g a0. The
// label carries both: |y| = g + g a0 with g a power of two and a0 in [0, 1).
template <class T>
struct SmoothedHinge {
  using Real = T;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.kinks = Kinks::kInCurvature;
    traits.has_quadratic_conjugate = true;
    return traits;
  }

  static SNAPML_HD Real value(Real z, Real y) { return tangent(z, y).value; }
  static SNAPML_HD Real gradient(Real z, Real y) { return tangent(z, y).gradient; }
  static SNAPML_HD Real curvature(Real z, Real y) {
    const Real g = width(y), slack = shifted(y) - sign_of(y) * z;
    return slack > Real(0) && slack < g ? Real(1) / g : Real(0);
  }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) {
    const Real g = width(y), sign = sign_of(y);
    const Real slack = maximum(shifted(y) - sign * z, Real(0));  // in this order NaN stays NaN
    const Real a = minimum(slack / g, Real(1));                  // alpha / c
    return {a * (slack - Real(0.5) * g * a), -sign * a};
  }
  // l*(u) = -a (1 + g a0) + g a^2 / 2 with a = -u sign(y) in [0, 1], +inf outside.
  static SNAPML_HD Real conjugate(Real u, Real y) {
    const Real a = -u * sign_of(y);
    if (a < Real(0) || a > Real(1)) return infinity<Real>();
    return a * (Real(0.5) * width(y) * a - shifted(y));
  }
  static SNAPML_HD Real dual(Real state, Real y) { return -gradient(state, y); }
  static SNAPML_HD Real start(Real y) { return sign_of(y) * shifted(y); }

 private:
  static SNAPML_HD Real sign_of(Real y) { return y < Real(0) ? Real(-1) : Real(1); }
  static SNAPML_HD Real width(Real y) { return power_of_two_of(y); }
  static SNAPML_HD Real shifted(Real y) { return Real(1) + (scalar::fabs(y) - width(y)); }
};

}  // namespace snapml
