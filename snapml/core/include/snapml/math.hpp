// Scalar functions that stay finite and accurate over the whole range of their type.
#pragma once

#include "snapml/config.hpp"

namespace snapml {

template <class Real>
SNAPML_HD Real minimum(Real a, Real b) {
  return b < a ? b : a;
}

template <class Real>
SNAPML_HD Real maximum(Real a, Real b) {
  return a < b ? b : a;
}

template <class Real>
SNAPML_HD Real clamp(Real x, Real low, Real high) {
  return minimum(maximum(x, low), high);
}

template <class Real>
SNAPML_HD Real infinity() {
  return -scalar::log(Real(0));
}

// Distance from 1 to the next number.
template <class Real>
SNAPML_HD constexpr Real machine_epsilon() {
  return sizeof(Real) == 4 ? Real(1.1920929e-07) : Real(2.220446049250313e-16);
}

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

// exp(x) for x <= 0 and log(1 + e) for e in [0, 1], free of branches and calls: a compiler turns a
// loop over them into vector instructions. Both to 3 roundings; exp is flat below -708, and below
// -87 in float32.
SNAPML_HD double exp_nonpositive(double x) {
  constexpr double kRound =
      6755399441055744.0;  // 1.5 * 2^52: adding it leaves an integer in the low bits
  x = maximum(x, -708.0);
  const double shifted = x * 1.4426950408889634 + kRound;
  const double k = shifted - kRound;
  const double r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
  double p = 1.0 / 6227020800.0;  // Taylor: |r| <= log(2) / 2
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return p * scalar::from_bits(
                 static_cast<int64>((static_cast<uint64>(scalar::to_bits(shifted)) + 1023u) << 52));
}

SNAPML_HD float exp_nonpositive(float x) {
  constexpr float kRound = 12582912.f;  // 1.5 * 2^23
  x = maximum(x, -87.f);
  const float shifted = x * 1.44269504f + kRound;
  const float k = shifted - kRound;
  const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  float p = 1.f / 5040;
  p = p * r + 1.f / 720;
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  return p * scalar::float_of((scalar::bits_of(shifted) + 127u) << 23);
}

// exp(x) for x <= 0 that is 0 where the above is flat: what is divided by it is not to explode.
template <class Real>
SNAPML_HD Real exp_vanishing(Real x) {
  const Real e = exp_nonpositive(x);
  return x < (sizeof(Real) == 4 ? Real(-87) : Real(-708)) ? Real(0) : e;
}

SNAPML_HD double log1p_unit(double e) {
  const double s = e / (2.0 + e), q = s * s;  // log(1 + e) = 2 atanh(s), s <= 1/3
  double p = 1.0 / 31;
  p = p * q + 1.0 / 29;
  p = p * q + 1.0 / 27;
  p = p * q + 1.0 / 25;
  p = p * q + 1.0 / 23;
  p = p * q + 1.0 / 21;
  p = p * q + 1.0 / 19;
  p = p * q + 1.0 / 17;
  p = p * q + 1.0 / 15;
  p = p * q + 1.0 / 13;
  p = p * q + 1.0 / 11;
  p = p * q + 1.0 / 9;
  p = p * q + 1.0 / 7;
  p = p * q + 1.0 / 5;
  p = p * q + 1.0 / 3;
  return 2.0 * s + 2.0 * s * (q * p);
}

SNAPML_HD float log1p_unit(float e) {
  const float s = e / (2.f + e), q = s * s;
  float p = 1.f / 15;
  p = p * q + 1.f / 13;
  p = p * q + 1.f / 11;
  p = p * q + 1.f / 9;
  p = p * q + 1.f / 7;
  p = p * q + 1.f / 5;
  p = p * q + 1.f / 3;
  return 2.f * s + 2.f * s * (q * p);
}

// x log x, continued by its limit 0 at x = 0.
template <class Real>
SNAPML_HD Real x_log_x(Real x) {
  return x > Real(0) ? x * scalar::log(x) : Real(0);
}

}  // namespace snapml
