// The hinge and its coordinate step.
#pragma once

#include "snapml/coordinate_step.hpp"
#include "snapml/corner.hpp"
#include "snapml/dual_line.hpp"
#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// l = max(0, 1 - y z); the state is alpha / c in [0, 1].
template <class T>
struct Hinge {
  using Real = T;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.kinks = Kinks::kInGradient;
    traits.n_corners = 1;
    traits.has_quadratic_conjugate = true;
    traits.has_dual_step = true;
    return traits;
  }

  static SNAPML_HD Corner<Real> corner(int, Real y) {
    return {y, minimum(-y, Real(0)), maximum(-y, Real(0))};
  }

  static SNAPML_HD Real value(Real z, Real y) { return maximum(Real(0), Real(1) - y * z); }
  static SNAPML_HD Real gradient(Real z, Real y) { return y * z < Real(1) ? -y : Real(0); }
  static SNAPML_HD Real curvature(Real, Real) { return Real(0); }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) { return {value(z, y), gradient(z, y)}; }
  static SNAPML_HD Real conjugate(Real u, Real y) {
    const Real a = -u * y;
    if (a < Real(0) || a > Real(1)) return infinity<Real>();
    return -a;
  }
  static SNAPML_HD Real dual(Real state, Real y) { return y * state; }
  static SNAPML_HD Real start(Real) { return Real(0); }
};

template <class Real>
SNAPML_HD CoordinateStep<Real> coordinate_step(Hinge<Real>, Real state, Real z, Real y, Real k) {
  const Real slack = Real(1) - y * z;
  const Real gap = maximum(Real(0), slack) - state * slack;
  // A slack of zero leaves the state where it is, also when k = 0 would make it 0 / 0.
  const Real moved = slack == Real(0) ? state : clamp(state + slack / k, Real(0), Real(1));
  return {moved, y * (moved - state), gap};
}

template <class Real>
SNAPML_HD Real dual_slope(Hinge<Real>, Real, Real y) {
  return y;
}

}  // namespace snapml
