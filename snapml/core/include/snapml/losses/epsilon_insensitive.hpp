// The losses of support vector regression, and their coordinate steps.
#pragma once

#include "snapml/coordinate_step.hpp"
#include "snapml/corner.hpp"
#include "snapml/dual_line.hpp"
#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// max(0, |r| - epsilon) with r = y - z, in the direction of r: how far a label is outside the tube.
template <class Real>
SNAPML_HD Real outside(Real r, Real epsilon) {
  return r > epsilon ? r - epsilon : r < -epsilon ? r + epsilon : r - r;  // NaN stays NaN
}

// epsilon |a| - a r: what the dual variable alone adds to a row's gap.
template <class Real>
SNAPML_HD Real inside_gap(Real a, Real r, Real epsilon) {
  return scalar::fabs(a) * (epsilon - (a < Real(0) ? -r : r));
}

// l = max(0, |r| - epsilon) with r = y - z (Vapnik, 1995); the state is beta / c, between -1 and 1.
template <class T>
struct EpsilonInsensitive {
  using Real = T;
  double epsilon;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.labels = Labels::kReal;
    traits.kinks = Kinks::kInGradient;
    traits.n_corners = 2;
    traits.has_quadratic_conjugate = true;
    traits.has_dual_step = true;
    traits.has_parameter = true;
    return traits;
  }

  SNAPML_HD Real width() const { return static_cast<Real>(epsilon); }
  SNAPML_HD Corner<Real> corner(int index, Real y) const {
    return index == 0 ? Corner<Real>{y - width(), Real(-1), Real(0)}
                      : Corner<Real>{y + width(), Real(0), Real(1)};
  }

  SNAPML_HD Real value(Real z, Real y) const { return scalar::fabs(outside(y - z, width())); }
  SNAPML_HD Real gradient(Real z, Real y) const {
    const Real excess = outside(y - z, width());
    return excess > Real(0) ? Real(-1) : excess < Real(0) ? Real(1) : Real(0);
  }
  SNAPML_HD Real curvature(Real, Real) const { return Real(0); }
  SNAPML_HD Tangent<Real> tangent(Real z, Real y) const { return {value(z, y), gradient(z, y)}; }
  SNAPML_HD Real conjugate(Real u, Real y) const {
    const Real size = scalar::fabs(u);
    return size > Real(1) ? infinity<Real>() : u * y + width() * size;
  }
  SNAPML_HD Real dual(Real state, Real) const { return state; }
  SNAPML_HD Real start(Real) const { return Real(0); }
};

template <class Real>
SNAPML_HD CoordinateStep<Real> coordinate_step(EpsilonInsensitive<Real> loss, Real state, Real z,
                                               Real y, Real k) {
  const Real r = y - z, excess = outside(r, loss.width()),
             pull = outside(k * state + r, loss.width());
  // Within the tube a = 0 is best, also when k = 0 would make it 0 / 0.
  const Real moved = pull == Real(0) ? Real(0) : clamp(pull / k, Real(-1), Real(1));
  const Real side = excess < Real(0) ? Real(-1) : Real(1);
  const Real gap = excess != Real(0) && side * state >= Real(0)
                       ? side * excess * (Real(1) - side * state)
                       : side * excess + inside_gap(state, r, loss.width());
  return {moved, moved - state, gap};
}

template <class Real>
SNAPML_HD Real dual_slope(EpsilonInsensitive<Real> loss, Real state, Real y) {
  return state == Real(0) ? y : state > Real(0) ? y - loss.width() : y + loss.width();
}

// l = max(0, |r| - epsilon)^2.
template <class T>
struct SquaredEpsilonInsensitive {
  using Real = T;
  double epsilon;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.labels = Labels::kReal;
    traits.kinks = Kinks::kInCurvature;
    traits.has_quadratic_conjugate = true;
    traits.has_dual_step = true;
    traits.has_parameter = true;
    traits.curvature_bound = 2.0;
    return traits;
  }

  SNAPML_HD Real width() const { return static_cast<Real>(epsilon); }

  SNAPML_HD Real value(Real z, Real y) const {
    const Real excess = outside(y - z, width());
    return excess * excess;
  }
  SNAPML_HD Real gradient(Real z, Real y) const { return Real(-2) * outside(y - z, width()); }
  SNAPML_HD Real curvature(Real z, Real y) const {
    return scalar::fabs(y - z) < width() ? Real(0) : Real(2);
  }
  SNAPML_HD Tangent<Real> tangent(Real z, Real y) const { return {value(z, y), gradient(z, y)}; }
  SNAPML_HD Real conjugate(Real u, Real y) const {
    const Real size = scalar::fabs(u);
    return u * y + size * (width() + Real(0.25) * size);
  }
  SNAPML_HD Real dual(Real state, Real y) const { return -gradient(state, y); }
  SNAPML_HD Real start(Real y) const { return y; }
};

template <class Real>
SNAPML_HD Real dual_between(SquaredEpsilonInsensitive<Real> loss, Real first, Real last, Real y,
                            Real step) {
  const Real from = outside(y - first, loss.width()), to = outside(y - last, loss.width());
  // Linear within the tube, where beta is 0, and on either side of it, but not across.
  if (from * to > Real(0) || from == to) return point_between(first, last, step);
  const Real half = point_between(from, to, step);
  if (half == from || half == to) return half == from ? first : last;
  return half > Real(0)   ? y - (half + loss.width())
         : half < Real(0) ? y - (half - loss.width())
                          : y;
}

template <class Real>
SNAPML_HD CoordinateStep<Real> coordinate_step(SquaredEpsilonInsensitive<Real> loss, Real state,
                                               Real z, Real y, Real k) {
  const Real r = y - z, excess = outside(r, loss.width());
  const Real half_old = outside(y - state, loss.width());  // beta / (2 c)
  const Real pull = outside(r + Real(2) * k * half_old, loss.width());
  const bool stays = pull * half_old > Real(0);  // on its side of the tube
  const Real edge = pull > Real(0) ? y - loss.width() : y + loss.width();
  const Real from = stays ? state : edge - half_old;  // as if its side had the new one's edge
  const Real share = Real(2) * k / (Real(1) + Real(2) * k);
  const Real free = pull == Real(0) ? z - Real(2) * k * half_old : z + share * (from - z);
  const Real next = clamp(free, minimum(state, z), maximum(state, z));
  const Real distance = excess - half_old;
  const Real gap =
      excess * half_old > Real(0)
          ? distance * distance
          : excess * excess + half_old * half_old + inside_gap(Real(2) * half_old, r, loss.width());
  const Real moved = stays ? state - next : outside(y - next, loss.width()) - half_old;
  return {next, Real(2) * moved, gap};
}

}  // namespace snapml
