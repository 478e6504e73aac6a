// Scalar functions that stay finite and accurate over the whole range of their type.
#pragma once

#include "snapml/branchless.hpp"
#include "snapml/config.hpp"
#include "snapml/numbers.hpp"

namespace snapml {

// sg(x) = 1 / (1 + exp(-x)), without overflow on either side.
template <class Real>
SNAPML_HD Real sigmoid(Real x) {
  const Real e = scalar::exp(-scalar::fabs(x));
  return (x < Real(0) ? e : Real(1)) / (Real(1) + e);
}

// sp(x) = log(1 + exp(x)).
template <class Real>
SNAPML_HD Real log1p_exp(Real x) {
  return maximum(x, Real(0)) + scalar::log1p(scalar::exp(-scalar::fabs(x)));
}

// 1 - exp(-x) for x >= 0, with no cancellation near zero.
//
// The series serves the descent's last epochs, where almost every step is small: it needs neither
// a call nor a table. Its last term bounds the relative error by 2^-25 in float32.
SNAPML_HD float one_minus_exp_minus(float x) {
  if (x < 0.35f) {
    return x * (1.f - x * (1.f / 2) *
                          (1.f - x * (1.f / 3) *
                                     (1.f - x * (1.f / 4) *
                                                (1.f - x * (1.f / 5) * (1.f - x * (1.f / 6))))));
  }
  return 1.f - scalar::exp(-x);
}

SNAPML_HD double one_minus_exp_minus(double x) { return -scalar::expm1(-x); }

}  // namespace snapml
