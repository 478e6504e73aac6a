// The complementary log-log loss: whether any event comes of those that a rate lets expect.
#pragma once

#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// With the rate r = exp(z), l = r for y = -1 (none came) and l = -log(1 - exp(-r)) for y = +1.
template <class T>
struct ComplementaryLogLog {
  using Real = T;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.link = Link::kCloglog;
    return traits;
  }

  static SNAPML_HD Real value(Real z, Real y) { return tangent(z, y).value; }
  static SNAPML_HD Real gradient(Real z, Real y) { return tangent(z, y).gradient; }
  static SNAPML_HD Real curvature(Real z, Real y) {
    const Real r = exp_wide(z), likely = share(r) * excess(minimum(r, Real(1e30)));
    return y < Real(0) ? r : likely;
  }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) {
    const Real r = exp_wide(z);
    const Chance any = chance(r);
    const Real value = r > Real(1) ? -log1p_unit(-any.none) : -z - log_positive(any.by_rate);
    return {y < Real(0) ? r : value, y < Real(0) ? r : -any.none / any.by_rate};
  }
  // u log(u) - u of labels -1; of labels +1, u z - l(z) at the margin z of slope u in [-1, 0].
  static SNAPML_HD Real conjugate(Real u, Real y) {
    if (y < Real(0)) return u < Real(0) ? infinity<Real>() : x_log_x(u) - u;
    const Real g = -u;
    if (g < Real(0) || g > Real(1)) return infinity<Real>();
    if (g == Real(0) || g == Real(1)) return Real(0);
    const Real z = margin_of_share(g);
    return u * z - value(z, y);
  }
  static SNAPML_HD Real dual(Real state, Real y) { return -gradient(state, y); }
  // Where the slope is as good as zero: exp(-80) is a normal float32.
  static SNAPML_HD Real start(Real y) {
    return y < Real(0) ? Real(-80) : Real(4.38202663467388161226);  // log(80)
  }

 private:
  // exp(-r), and (1 - exp(-r)) / r: the chances of no event, and of any by their rate.
  struct Chance {
    Real none, by_rate;
  };
  SNAPML_HD static Chance chance(Real r) {
    const Real far = minimum(r, Real(1e30));  // beyond, infinity times zero
    const Real none = exp_vanishing(-far);
    const Real near = Real(1) - far * exp_beyond_linear(-far);
    return {none, far < Real(0.5) ? near : (Real(1) - none) / far};
  }
  // g = r / (exp(r) - 1), from 1 at no rate down to 0.
  SNAPML_HD static Real share(Real r) {
    const Chance any = chance(r);
    return any.none / any.by_rate;
  }
  // g + r - 1 >= 0, by its series where the sum would cancel.
  SNAPML_HD static Real excess(Real r) {
    if (r > Real(0.25)) return share(r) + r - Real(1);
    const Real s = r * r;
    const Real last = Real(1) / 1209600 - s * (Real(1) / 47900160);
    const Real more = Real(1) / 30240 - s * last;
    return r * (Real(0.5) + r * (Real(1) / 12 - s * (Real(1) / 720 - s * more)));
  }
  // The z whose rate has the share g: 1 - r / 2 <= g <= 1 / (1 + r / 2). Newton's steps on log(g),
  // which falls with the slope -(g + r - 1).
  SNAPML_HD static Real margin_of_share(Real g) {
    Real low = scalar::log(Real(2) * (Real(1) - g));
    Real high = low - scalar::log(g);
    Real z = low;
    for (int iteration = 0; iteration < 60; ++iteration) {
      const Real r = scalar::exp(z), found = share(r);
      (found > g ? low : high) = z;
      Real next = z + (scalar::log(found) - scalar::log(g)) / excess(r);
      if (!(next >= low && next <= high)) next = low + (high - low) / Real(2);
      const Real moved = scalar::fabs(next - z);
      z = next;
      if (moved <= Real(2) * machine_epsilon<Real>() * (Real(1) + scalar::fabs(z))) break;
    }
    return z;
  }
};

}  // namespace snapml
