// The Tweedie loss with log link, of a variance in proportion to mean^power.
#pragma once

#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// Half the unit deviance of an amount y >= 0 with mean exp(z), for a power between 1 (Poisson) and
// 2 (Gamma). With a = 2 - power, b = power - 1 and t = z - log(y) it is
//
//     l = y^a ((exp(a t) - 1) / a + (exp(-b t) - 1) / b),
//
// and exp(a z) / a for y = 0.
template <class T>
struct Tweedie {
  using Real = T;
  double power;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.labels = Labels::kCount;
    traits.link = Link::kLog;
    traits.has_parameter = true;
    traits.self_concordance = 1.0;
    return traits;
  }

  SNAPML_HD Real a() const { return static_cast<Real>(2.0 - power); }
  SNAPML_HD Real b() const { return static_cast<Real>(power - 1.0); }

  SNAPML_HD Real value(Real z, Real y) const { return tangent(z, y).value; }
  SNAPML_HD Real gradient(Real z, Real y) const { return tangent(z, y).gradient; }
  SNAPML_HD Real curvature(Real z, Real y) const {
    const Real count = y == Real(0) ? Real(1) : y;
    const Real rising = a() * exp_wide(a() * z), falling = b() * exp_wide(fall(z, count));
    return y == Real(0) ? rising : rising + falling;
  }
  SNAPML_HD Tangent<Real> tangent(Real z, Real y) const {
    const Real count = y == Real(0) ? Real(1) : y;
    const Real log_y = log_positive(count), t = z - log_y, scale = exp_wide(a() * log_y);
    const Real mean = exp_wide(a() * z);
    const Rest rising = grown(scale, a(), t, mean);
    const Rest falling = grown(scale, -b(), t, exp_wide(fall(z, count)));
    // Over a short way the linear terms are of opposite signs: they are left out of the loss.
    const bool is_near = rising.is_near && falling.is_near;
    const Real value = is_near ? rising.beyond_linear - falling.beyond_linear
                               : maximum(rising.value - falling.value, Real(0));
    const Real gradient = a() * rising.value + b() * falling.value;
    return {y == Real(0) ? mean / a() : value, y == Real(0) ? mean : gradient};
  }
  // l*(u) = u z - l(z) at the margin z of slope u; for y = 0 that is (u log(u) - u) / a, u >= 0.
  SNAPML_HD Real conjugate(Real u, Real y) const {
    if (y == Real(0)) return u < Real(0) ? infinity<Real>() : (x_log_x(u) - u) / a();
    const Real log_y = scalar::log(y), scale = scalar::exp(a() * log_y);
    const Real t = margin_of_slope(u / scale);
    const Real rising = scalar::expm1(a() * t) / a(), falling = scalar::expm1(-b() * t) / b();
    return u * (log_y + t) - scale * maximum(rising + falling, Real(0));
  }
  SNAPML_HD Real dual(Real state, Real y) const { return -gradient(state, y); }
  // Where the slope is zero, or as good as: exp(-80) is a normal float32.
  SNAPML_HD Real start(Real y) const { return maximum(scalar::log(y), Real(-80) / a()); }

 private:
  // log(y^a exp(-b t)), of an amount y > 0.
  SNAPML_HD Real fall(Real z, Real y) const { return log_positive(y) - b() * z; }

  // scale (exp(c t) - 1) / c, and what of it is not linear in t.
  struct Rest {
    Real value;
    Real beyond_linear;
    bool is_near;
  };
  // `end` is scale exp(c t): without cancellation over a short way, without overflow over a long
  // one.
  SNAPML_HD static Rest grown(Real scale, Real c, Real t, Real end) {
    const Real x = c * t, beyond = scale * (x * t * exp_beyond_linear(x));
    const bool is_near = scalar::fabs(x) < Real(0.5);
    return {is_near ? scale * t + beyond : (end - scale) / c, beyond, is_near};
  }
  // The t at which exp(a t) - exp(-b t) is v, between 0 and where the larger term alone is 1 + |v|.
  SNAPML_HD Real margin_of_slope(Real v) const {
    Real near = Real(0);
    Real far = v > Real(0) ? scalar::log1p(v) / a() : -scalar::log1p(-v) / b();
    Real t = far;
    for (int iteration = 0; iteration < 60; ++iteration) {
      const Real rising = scalar::expm1(a() * t), falling = scalar::expm1(-b() * t);
      const Real error = (rising - falling) - v;
      (v > Real(0) ? error > Real(0) : error < Real(0)) ? far = t : near = t;
      const Real slope = a() * (rising + Real(1)) + b() * (falling + Real(1));
      Real next = t - error / slope;
      if (!(next >= minimum(near, far) && next <= maximum(near, far))) {
        next = near + (far - near) / Real(2);
      }
      const Real moved = scalar::fabs(next - t);
      t = next;
      if (moved <= Real(2) * machine_epsilon<Real>() * scalar::fabs(t)) break;
    }
    return t;
  }
};

}  // namespace snapml
