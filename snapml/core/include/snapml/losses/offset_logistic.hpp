// The logistic loss of margins with an offset.
#pragma once

#include "snapml/coordinate_step.hpp"
#include "snapml/dual_line.hpp"
#include "snapml/losses/logistic.hpp"
#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// l = log(1 + exp(-y (z + o))), o the offset that a row adds to its margin. One label carries both,
// as t = y exp(o), the odds that the row begins with. A state is a margin with its offset, so that
// no rounding of o lies between a step and what is stored of it.
template <class T>
struct OffsetLogistic {
  using Real = T;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.link = Link::kLogit;
    traits.has_dual_step = true;
    traits.curvature_bound = 0.25;
    traits.self_concordance = 1.0;
    return traits;
  }

  static SNAPML_HD Real sign(Real t) { return t < Real(0) ? Real(-1) : Real(1); }
  static SNAPML_HD Real offset(Real t) { return scalar::log(scalar::fabs(t)); }

  static SNAPML_HD Real value(Real z, Real t) {
    return Logistic<Real>::value(z + offset(t), sign(t));
  }
  static SNAPML_HD Real gradient(Real z, Real t) {
    return Logistic<Real>::gradient(z + offset(t), sign(t));
  }
  static SNAPML_HD Real curvature(Real z, Real t) {
    return Logistic<Real>::curvature(z + offset(t), sign(t));
  }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real t) {
    return Logistic<Real>::tangent(z + offset(t), sign(t));
  }
  // sup over z of u z - l(z + o): the conjugate without an offset, less u o.
  static SNAPML_HD Real conjugate(Real u, Real t) {
    return Logistic<Real>::conjugate(u, sign(t)) - u * offset(t);
  }
  static SNAPML_HD Real dual(Real state, Real t) { return Logistic<Real>::dual(state, sign(t)); }
  static SNAPML_HD Real start(Real t) { return Logistic<Real>::start(sign(t)); }
};

template <class Real>
SNAPML_HD CoordinateStep<Real> coordinate_step(OffsetLogistic<Real> loss, Real state, Real z,
                                               Real t, Real k) {
  return coordinate_step(Logistic<Real>{}, state, z + loss.offset(t), loss.sign(t), k);
}

template <class Real>
SNAPML_HD Real dual_between(OffsetLogistic<Real> loss, Real first, Real last, Real t, Real step) {
  return dual_between(Logistic<Real>{}, first, last, loss.sign(t), step);
}

// The state has the offset, which the dual's own term takes off again.
template <class Real>
SNAPML_HD Real dual_slope(OffsetLogistic<Real> loss, Real state, Real t) {
  return state - loss.offset(t);
}

}  // namespace snapml
