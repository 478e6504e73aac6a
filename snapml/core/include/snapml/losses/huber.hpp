// The Huber loss and its coordinate step.
#pragma once

#include "snapml/coordinate_step.hpp"
#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// l = (z - y)^2 / 2 where |z - y| <= 1, else |z - y| - 1/2; the state keeps |y - s| <= 1. Any other
// width is this one with y, z and the penalty scaled.
template <class T>
struct Huber {
  using Real = T;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.labels = Labels::kReal;
    traits.kinks = Kinks::kInCurvature;
    traits.has_quadratic_conjugate = true;
    traits.has_dual_step = true;
    traits.curvature_bound = 1.0;
    return traits;
  }

  static SNAPML_HD Real value(Real z, Real y) { return tangent(z, y).value; }
  static SNAPML_HD Real gradient(Real z, Real y) { return tangent(z, y).gradient; }
  static SNAPML_HD Real curvature(Real z, Real y) {
    return scalar::fabs(z - y) <= Real(1) ? Real(1) : Real(0);
  }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) {
    const Real residual = z - y;
    const Real slope = minimum(maximum(residual, Real(-1)), Real(1));  // NaN stays NaN
    return {slope * (residual - Real(0.5) * slope), slope};
  }
  static SNAPML_HD Real conjugate(Real u, Real y) {
    if (scalar::fabs(u) > Real(1)) return infinity<Real>();
    return u * (Real(0.5) * u + y);
  }
  static SNAPML_HD Real dual(Real state, Real y) { return -gradient(state, y); }
  static SNAPML_HD Real start(Real y) { return y; }
};

// In a = beta / c = y - s and r = y - z: the squared loss's step from a towards r, cut off at 1.
template <class Real>
SNAPML_HD CoordinateStep<Real> coordinate_step(Huber<Real>, Real state, Real z, Real y, Real k) {
  const Real old = -Huber<Real>::gradient(state, y), residual = y - z;
  const Real moved = clamp(old + (residual - old) / (Real(1) + k), Real(-1), Real(1));
  const Real side = residual < Real(0) ? Real(-1) : Real(1);
  const Real size = side * residual, missing = Real(1) - side * old;
  const Real gap = size <= Real(1) ? Real(0.5) * (residual - old) * (residual - old)
                                   : missing * ((size - Real(1)) + Real(0.5) * missing);
  const Real kept = y - moved;  // as the state can hold it
  return {kept, -Huber<Real>::gradient(kept, y) - old, gap};
}

}  // namespace snapml
