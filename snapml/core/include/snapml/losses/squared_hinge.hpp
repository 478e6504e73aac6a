// The squared hinge and its coordinate step.
#pragma once

#include "snapml/coordinate_step.hpp"
#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// l = max(0, 1 - y z)^2; the state keeps y s <= 1.
template <class T>
struct SquaredHinge {
  using Real = T;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.kinks = Kinks::kInCurvature;
    traits.has_quadratic_conjugate = true;
    traits.has_dual_step = true;
    traits.curvature_bound = 2.0;
    return traits;
  }

  static SNAPML_HD Real value(Real z, Real y) {
    const Real slack = maximum(Real(0), Real(1) - y * z);
    return slack * slack;
  }
  static SNAPML_HD Real gradient(Real z, Real y) {
    return Real(-2) * y * maximum(Real(0), Real(1) - y * z);
  }
  static SNAPML_HD Real curvature(Real z, Real y) { return y * z < Real(1) ? Real(2) : Real(0); }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) {
    const Real slack = maximum(Real(1) - y * z, Real(0));  // in this order NaN stays NaN
    return {slack * slack, Real(-2) * y * slack};
  }
  static SNAPML_HD Real conjugate(Real u, Real y) {
    const Real a = -u * y;
    if (a < Real(0)) return infinity<Real>();
    return a * (Real(0.25) * a - Real(1));
  }
  static SNAPML_HD Real dual(Real state, Real y) { return -gradient(state, y); }
  static SNAPML_HD Real start(Real y) { return y; }
};

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

}  // namespace snapml
