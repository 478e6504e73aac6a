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
  SNAPML_HD Real score(Real z) const { return z + static_cast<Real>(log_positive(theta)); }

  SNAPML_HD Real value(Real z, Real y) const { return tangent(z, y).value; }
  SNAPML_HD Real gradient(Real z, Real y) const { return tangent(z, y).gradient; }
  SNAPML_HD Real curvature(Real z, Real y) const {
    const Real e = exp_vanishing(-scalar::fabs(score(z)));  // of the smaller side
    return trials(y) * e / ((Real(1) + e) * (Real(1) + e));
  }
  SNAPML_HD Tangent<Real> tangent(Real z, Real y) const {
    const Real shape = static_cast<Real>(1.0 / theta), at = score(z);
    const bool is_none = y == Real(0), is_rare = y <= shape;
    const Real count = is_none ? Real(1) : y, t = z - log_positive(count);
    const Real e = exp_nonpositive(-scalar::fabs(at)), softplus = log1p_unit(e);
    const Real hit = (at < Real(0) ? e : Real(1)) / (Real(1) + e);  // sg(at)
    const Real missed = (at < Real(0) ? Real(1) : e) / (Real(1) + e);
    const Tangent<Real> rarer =
        of_rarer({is_rare ? t : -t, softplus + maximum(is_rare ? at : -at, Real(0)),
                  is_rare ? hit : missed, is_rare ? count : shape, is_rare ? shape : count});
    const Real value = is_none ? shape * (softplus + maximum(at, Real(0))) : rarer.value;
    const Real slope = is_rare ? rarer.gradient : -rarer.gradient;
    return {value, is_none ? shape * hit : slope};
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
  // The side whose count a <= b is the smaller: its way t, and log(1 + exp(s)) and sg(s) of its
  // score s = log(a / b) + t.
  struct Side {
    Real t, log_all, share, a, b;
  };
  // The loss and its slope from that side, so that no term is much larger than their sum.
  SNAPML_HD static Tangent<Real> of_rarer(Side side) {
    const Real t = side.t, a = side.a, b = side.b, m = a + b;
    const Real near = t + t * t * exp_beyond_linear(t);
    const Real change =
        scalar::fabs(t) < Real(0.5) ? near : exp_wide(minimum(t, Real(1))) - Real(1);
    const Real grown = a / m * change;
    const Real value = m * log1p_unit(grown) - a * t;
    const Real slope = a * (b / m) * change / (Real(1) + grown);
    const bool is_far = t > Real(1);
    return {is_far ? m * (side.log_all - log1p_unit(a / b)) - a * t : maximum(value, Real(0)),
            is_far ? m * side.share - a : slope};
  }
};

}  // namespace snapml
