// The squared loss and its coordinate step.
#pragma once

#include "snapml/coordinate_step.hpp"
#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// l = (z - y)^2 / 2.
template <class T>
struct Squared {
  using Real = T;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.labels = Labels::kReal;
    traits.is_quadratic = true;
    traits.has_quadratic_conjugate = true;
    traits.has_dual_step = true;
    traits.curvature_bound = 1.0;
    traits.self_concordance = 0.0;
    return traits;
  }

  static SNAPML_HD Real value(Real z, Real y) { return Real(0.5) * (z - y) * (z - y); }
  static SNAPML_HD Real gradient(Real z, Real y) { return z - y; }
  static SNAPML_HD Real curvature(Real, Real) { return Real(1); }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) {
    const Real residual = z - y;
    return {Real(0.5) * residual * residual, residual};
  }
  static SNAPML_HD Real conjugate(Real u, Real y) { return u * (Real(0.5) * u + y); }
  static SNAPML_HD Real dual(Real state, Real y) { return y - state; }
  static SNAPML_HD Real start(Real y) { return y; }
};

template <class Real>
SNAPML_HD CoordinateStep<Real> coordinate_step(Squared<Real>, Real state, Real z, Real, Real k) {
  const Real distance = state - z;
  const Real change = distance / (Real(1) + k);
  return {state - change, change, Real(0.5) * distance * distance};
}

}  // namespace snapml
