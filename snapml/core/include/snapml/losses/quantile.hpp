// The loss of quantile regression and its coordinate step.
#pragma once

#include "snapml/coordinate_step.hpp"
#include "snapml/corner.hpp"
#include "snapml/dual_line.hpp"
#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// l = max(q r, (q - 1) r) with r = y - z (Koenker and Bassett, 1978); the state is beta / c,
// between q - 1 and q.
template <class T>
struct Quantile {
  using Real = T;
  double quantile;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.labels = Labels::kReal;
    traits.kinks = Kinks::kInGradient;
    traits.n_corners = 1;
    traits.has_quadratic_conjugate = true;
    traits.has_dual_step = true;
    traits.has_parameter = true;
    return traits;
  }

  SNAPML_HD Real above() const { return static_cast<Real>(quantile); }
  SNAPML_HD Real below() const { return static_cast<Real>(quantile - 1.0); }
  SNAPML_HD Corner<Real> corner(int, Real y) const { return {y, -above(), -below()}; }

  SNAPML_HD Real value(Real z, Real y) const {
    const Real r = y - z;
    return maximum(below() * r, above() * r);
  }
  SNAPML_HD Real gradient(Real z, Real y) const { return y - z >= Real(0) ? -above() : -below(); }
  SNAPML_HD Real curvature(Real, Real) const { return Real(0); }
  SNAPML_HD Tangent<Real> tangent(Real z, Real y) const { return {value(z, y), gradient(z, y)}; }
  SNAPML_HD Real conjugate(Real u, Real y) const {
    return -u < below() || -u > above() ? infinity<Real>() : u * y;
  }
  SNAPML_HD Real dual(Real state, Real) const { return state; }
  SNAPML_HD Real start(Real) const { return Real(0); }
};

template <class Real>
SNAPML_HD CoordinateStep<Real> coordinate_step(Quantile<Real> loss, Real state, Real z, Real y,
                                               Real k) {
  const Real r = y - z;
  const Real edge = r < Real(0) ? loss.below() : loss.above();
  const Real gap = (edge - state) * r;
  // A residual of zero leaves the state where it is, also when k = 0 would make it 0 / 0.
  const Real moved = r == Real(0) ? state : clamp(state + r / k, loss.below(), loss.above());
  return {moved, moved - state, gap};
}

template <class Real>
SNAPML_HD Real dual_slope(Quantile<Real>, Real, Real y) {
  return y;
}

}  // namespace snapml
