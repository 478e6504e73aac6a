// The negative binomial loss with log link, of the variance mean + theta mean^2.
#pragma once

#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// Half the unit deviance of a count y >= 0 with mean exp(z): with t = z - log(y), m = y + 1 / theta
// and the share p = y / m of the hits that were expected,
//
//     l = m log(1 + p (exp(t) - 1)) - y t,
//
// which is the same for hits and misses: with 1 / theta for y, 1 - p for p and -t for t.
template <class T>
struct NegativeBinomial {
  using Real = T;
  double theta;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.labels = Labels::kCount;
    traits.link = Link::kLog;
    traits.has_parameter = true;
    traits.self_concordance = 1.0;
    return traits;
  }

  SNAPML_HD Real trials(Real y) const { return y + static_cast<Real>(1.0 / theta); }
  SNAPML_HD Real score(Real z) const { return z + static_cast<Real>(scalar::log(theta)); }

  SNAPML_HD Real value(Real z, Real y) const { return tangent(z, y).value; }
  SNAPML_HD Real gradient(Real z, Real y) const { return tangent(z, y).gradient; }
  SNAPML_HD Real curvature(Real z, Real y) const {
    const Real q = sigmoid(-scalar::fabs(score(z)));  // of the smaller side
    return trials(y) * q * (Real(1) - q);
  }
  SNAPML_HD Tangent<Real> tangent(Real z, Real y) const {
    const Real shape = static_cast<Real>(1.0 / theta), at = score(z);
    if (y == Real(0)) return {shape * log1p_exp(at), shape * sigmoid(at)};
    const Real t = z - scalar::log(y);
    if (y <= shape) return of_rarer(t, at, y, shape);
    const Tangent<Real> misses = of_rarer(-t, -at, shape, y);
    return {misses.value, -misses.gradient};
  }
  // l*(u) = m (r log(r / p) + (1 - r) log((1 - r) / (1 - p))) + u log(y) with the share
  // r = (u + y) / m in [0, 1], +inf outside; u log(u) in place of the logarithms of y = 0.
  SNAPML_HD Real conjugate(Real u, Real y) const {
    const Real shape = static_cast<Real>(1.0 / theta);  // m p = y and m (1 - p) = shape
    const Real hits = u + y, misses = shape - u;
    if (hits < Real(0) || misses < Real(0)) return infinity<Real>();
    const Real missed = misses > Real(0) ? misses * scalar::log1p(-u / shape) : Real(0);
    if (y == Real(0)) return missed + x_log_x(hits);
    if (u >= y) return x_log_x(hits) - x_log_x(y) + missed;
    const Real hit = hits > Real(0) ? hits * scalar::log1p(u / y) : Real(0);
    return hit + missed + u * scalar::log(y);
  }
  SNAPML_HD Real dual(Real state, Real y) const { return -gradient(state, y); }
  SNAPML_HD Real start(Real y) const { return maximum(scalar::log(y), Real(-80)); }

 private:
  // The loss and its slope from the side whose count a <= b is the smaller, so that no term is much
  // larger than their sum; score = log(a / b) + t.
  SNAPML_HD static Tangent<Real> of_rarer(Real t, Real score, Real a, Real b) {
    const Real m = a + b;
    if (t > Real(1)) {
      const Real value = m * (log1p_exp(score) - scalar::log1p(a / b)) - a * t;
      return {value, m * sigmoid(score) - a};
    }
    const Real change = scalar::expm1(t), grown = a / m * change;
    const Real value = m * scalar::log1p(grown) - a * t;
    return {maximum(value, Real(0)), a * (b / m) * change / (Real(1) + grown)};
  }
};

}  // namespace snapml
