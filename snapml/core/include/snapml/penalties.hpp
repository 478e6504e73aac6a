// The penalties R(w) of the objective, one coefficient at a time.
#pragma once

#include "snapml/math.hpp"

namespace snapml {

// S(v, t) = sign(v) max(|v| - t, 0).
template <class Real>
SNAPML_HD Real soft_threshold(Real v, Real t) {
  return v > t ? v - t : v < -t ? v + t : Real(0);
}

// R(w) = l1 |w| + l2 w^2 / 2, and w >= 0 where `is_positive`. With l1 = 0 and l2 = 1 the conjugate
// has the same form, and w = grad R*(v) = v: the shared vector of the dual method is then the
// coefficient vector itself.
template <class T>
struct ElasticNet {
  using Real = T;
  Real l1;
  Real l2;
  bool is_positive;

  SNAPML_HD Real value(Real w) const {
    if (is_positive && w < Real(0)) return infinity<Real>();
    return l1 * scalar::fabs(w) + Real(0.5) * l2 * w * w;
  }
  // How far v lies beyond the slopes that R has at zero: w = 0 is optimal where this is zero.
  SNAPML_HD Real excess(Real v) const {
    return maximum(Real(0), (is_positive ? v : scalar::fabs(v)) - l1);
  }
  SNAPML_HD Real conjugate(Real v) const {
    const Real beyond = excess(v);
    if (beyond == Real(0)) return Real(0);
    return l2 > Real(0) ? Real(0.5) * beyond * beyond / l2 : infinity<Real>();
  }
  // argmin over x of gradient (x - w) + curvature / 2 (x - w)^2 + R(x); w itself where neither the
  // curvature nor l2 bounds it.
  SNAPML_HD Real minimiser(Real w, Real gradient, Real curvature) const {
    const Real total = curvature + l2;
    const Real pull = curvature * w - gradient;
    const Real x = is_positive ? maximum(Real(0), pull - l1) : soft_threshold(pull, l1);
    if (x == Real(0)) return Real(0);
    return total > Real(0) ? x / total : w;
  }
};

}  // namespace snapml
