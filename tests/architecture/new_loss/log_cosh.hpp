// The logarithm of the hyperbolic cosine: a loss that only a test knows.
#pragma once

#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

// l = log(cosh(z - y)).
template <class T>
struct LogCosh {
  using Real = T;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.labels = Labels::kReal;
    traits.curvature_bound = 1.0;
    traits.self_concordance = 2.0;
    return traits;
  }

  static SNAPML_HD Real value(Real z, Real y) { return tangent(z, y).value; }
  static SNAPML_HD Real gradient(Real z, Real y) { return tangent(z, y).gradient; }
  static SNAPML_HD Real curvature(Real z, Real y) {
    const Real slope = gradient(z, y);
    return Real(1) - slope * slope;
  }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) {
    const Real r = z - y, size = scalar::fabs(r);
    const Real less = scalar::expm1(Real(-2) * size);  // exp(-2 |r|) - 1
    const Real slope = -less / (Real(2) + less);
    return {size + scalar::log1p(Real(0.5) * less), r < Real(0) ? -slope : slope};
  }
  static SNAPML_HD Real conjugate(Real u, Real y) {
    if (scalar::fabs(u) > Real(1)) return infinity<Real>();
    return u * y + Real(0.5) * (x_log_x(Real(1) + u) + x_log_x(Real(1) - u));
  }
  static SNAPML_HD Real dual(Real state, Real y) { return -gradient(state, y); }
  static SNAPML_HD Real start(Real y) { return y; }
};

}  // namespace snapml
