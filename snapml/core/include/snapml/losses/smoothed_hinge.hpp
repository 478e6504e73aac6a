// The hinge with a round corner, which the quasi-Newton method solves in place of the hinge.
#pragma once

#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// The hinge with its corner rounded off over a width of 1: l = max over 0 <= a <= 1 of
// a (1 - m) - a^2 / 2 with m = y z. That is 0 for a slack s = 1 - m <= 0, s^2 / 2 up to s = 1, then
// s - 1/2. Other widths are another unit of the margins, and an offset moves the corner
// (solvers/newton/smoothed_hinge.py).
template <class T>
struct SmoothedHinge {
  using Real = T;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.kinks = Kinks::kInCurvature;
    traits.has_quadratic_conjugate = true;
    traits.curvature_bound = 1.0;
    return traits;
  }

  static SNAPML_HD Real value(Real z, Real y) { return tangent(z, y).value; }
  static SNAPML_HD Real gradient(Real z, Real y) { return tangent(z, y).gradient; }
  static SNAPML_HD Real curvature(Real z, Real y) {
    const Real slack = Real(1) - y * z;
    return slack > Real(0) && slack < Real(1) ? Real(1) : Real(0);
  }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) {
    const Real slack = maximum(Real(1) - y * z, Real(0));  // in this order NaN stays NaN
    const Real a = minimum(slack, Real(1));                // alpha / c
    return {a * (slack - Real(0.5) * a), -y * a};
  }
  // l*(u) = -a + a^2 / 2 with a = -u y in [0, 1], +inf outside.
  static SNAPML_HD Real conjugate(Real u, Real y) {
    const Real a = -u * y;
    if (a < Real(0) || a > Real(1)) return infinity<Real>();
    return a * (Real(0.5) * a - Real(1));
  }
  static SNAPML_HD Real dual(Real state, Real y) { return -gradient(state, y); }
  static SNAPML_HD Real start(Real y) { return y; }
};

}  // namespace snapml
