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

// The same where w lies between bounds, which have 0 between them or at one end.
template <class T>
struct BoundedElasticNet {
  using Real = T;
  ElasticNet<Real> penalty;
  Real lower;
  Real upper;

  SNAPML_HD Real value(Real w) const {
    return w < lower || w > upper ? infinity<Real>() : penalty.value(w);
  }
  // v w - R(w) is concave: its maximum is where it was, or at the bound before that.
  SNAPML_HD Real conjugate(Real v) const {
    const Real end = v > Real(0) ? upper : lower;
    const bool is_open = scalar::fabs(end) == infinity<Real>();
    if (is_open || penalty.excess(v) <= penalty.l2 * scalar::fabs(end)) return penalty.conjugate(v);
    return v * end - penalty.value(end);
  }
  SNAPML_HD Real minimiser(Real w, Real gradient, Real curvature) const {
    return clamp(penalty.minimiser(w, gradient, curvature), lower, upper);
  }
};

// A penalty on each of many columns; both pointers are null where there are no bounds.
template <class T>
struct ColumnPenalties {
  using Real = T;
  ElasticNet<Real> penalty;
  const Real* lower;
  const Real* upper;

  SNAPML_HD BoundedElasticNet<Real> of(long long j) const {
    if (lower == nullptr) return {penalty, -infinity<Real>(), infinity<Real>()};
    return {penalty, lower[j], upper[j]};
  }
};

}  // namespace snapml
