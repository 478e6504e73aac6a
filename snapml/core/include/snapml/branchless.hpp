// Functions free of branches and calls: a compiler turns a loop over them into vector instructions.
#pragma once

#include "snapml/config.hpp"
#include "snapml/numbers.hpp"

namespace snapml {

// Adding 1.5 * 2^52, or 2^23 in float32, rounds to an integer, which is then in the low bits.
SNAPML_HD constexpr double rounding_shift(double) { return 6755399441055744.0; }
SNAPML_HD constexpr float rounding_shift(float) { return 12582912.f; }

// 2^k of k + rounding_shift, where that is a normal number.
SNAPML_INLINE double power_of_two(double shifted) {
  return scalar::from_bits(
      static_cast<int64>((static_cast<uint64>(scalar::to_bits(shifted)) + 1023u) << 52));
}
SNAPML_INLINE float power_of_two(float shifted) {
  return scalar::float_of((scalar::bits_of(shifted) + 127u) << 23);
}

// x - k log(2), in two parts of log(2): exact but for one rounding.
SNAPML_INLINE double without_powers(double x, double k) {
  return (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
}
SNAPML_INLINE float without_powers(float x, float k) {
  return (x - k * 0.693359375f) + k * 2.12194440e-4f;
}

// n!, which a double holds up to 18!.
SNAPML_HD constexpr double factorial(int n) { return n < 2 ? 1.0 : n * factorial(n - 1); }

// sum of x^(n - first) / n! over n from `first` to `last`.
template <int first, int last, class Real>
SNAPML_INLINE Real exponential_series(Real x) {
  constexpr Real kHere = Real(1) / static_cast<Real>(factorial(first));
  if constexpr (first == last) {
    return kHere;
  } else {
    return exponential_series<first + 1, last>(x) * x + kHere;
  }
}

// sum of q^k / (first + 2 k) as far as 1 / last.
template <int first, int last, class Real>
SNAPML_INLINE Real odd_series(Real q) {
  constexpr Real kHere = Real(1) / Real(first);
  if constexpr (first == last) {
    return kHere;
  } else {
    return odd_series<first + 2, last>(q) * q + kHere;
  }
}

// exp(r) for |r| <= log(2) / 2.
SNAPML_INLINE double exp_near_zero(double r) { return exponential_series<0, 13>(r); }
SNAPML_INLINE float exp_near_zero(float r) { return exponential_series<0, 7>(r); }

// (exp(t) - 1 - t) / t^2 for |t| <= 1/2, to 2 roundings.
SNAPML_INLINE double exp_beyond_linear(double t) { return exponential_series<2, 15>(t); }
SNAPML_INLINE float exp_beyond_linear(float t) { return exponential_series<2, 9>(t); }

// exp(x) for x <= 0 to 3 roundings; flat below -708, and below -87 in float32.
template <class Real>
SNAPML_INLINE Real exp_nonpositive(Real x) {
  constexpr Real kLeast = sizeof(Real) == 4 ? Real(-87) : Real(-708);
  x = maximum(x, kLeast);
  const Real shifted = x * Real(1.4426950408889634) + rounding_shift(x);
  const Real k = shifted - rounding_shift(x);
  return exp_near_zero(without_powers(x, k)) * power_of_two(shifted);
}

// exp(x) for x <= 0 that is 0 where the above is flat: what is divided by it is not to explode.
template <class Real>
SNAPML_INLINE Real exp_vanishing(Real x) {
  const Real e = exp_nonpositive(x);
  return x < (sizeof(Real) == 4 ? Real(-87) : Real(-708)) ? Real(0) : e;
}

// exp(x) over the whole range to 3 roundings: infinite or 0 where it leaves the type. 2^k may be no
// normal number, and comes in two factors that are.
template <class Real>
SNAPML_INLINE Real exp_wide(Real x) {
  constexpr Real kLeast = sizeof(Real) == 4 ? Real(-105) : Real(-746);
  constexpr Real kMost = sizeof(Real) == 4 ? Real(89) : Real(710);
  x = minimum(maximum(x, kLeast), kMost);
  const Real shift = rounding_shift(x);
  const Real k = (x * Real(1.4426950408889634) + shift) - shift;
  const Real half = k * Real(0.5) + shift, rest = (k - (half - shift)) + shift;
  return exp_near_zero(without_powers(x, k)) * power_of_two(half) * power_of_two(rest);
}

// log(x) for finite x > 0, to 3 roundings: x = 2^k m with m around 1.
SNAPML_INLINE double log_positive(double x) {
  const bool is_tiny = x < 2.2250738585072014e-308;
  const uint64 bits =
      static_cast<uint64>(scalar::to_bits(is_tiny ? x * 18014398509481984.0 : x));  // 2^54
  const double exponent =
      scalar::from_bits(static_cast<int64>((bits >> 52) | 0x4330000000000000u)) -
      4503599627370496.0;
  const double m =
      scalar::from_bits(static_cast<int64>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u));
  const bool is_above = m > 1.4142135623730951;
  const double k = exponent - (is_tiny ? 1077.0 : 1023.0) + (is_above ? 1.0 : 0.0);
  const double f = (is_above ? 0.5 * m : m) - 1.0, s = f / (2.0 + f), q = s * s;
  const double p = odd_series<3, 25>(q);  // log(1 + f) = 2 atanh(s), |s| <= 0.18
  const double rest = 2.0 * s + (2.0 * s * (q * p) + k * 1.90821492927058770002e-10);
  return k * 0.693147180369123816490 + rest;
}

SNAPML_INLINE float log_positive(float x) {
  const bool is_tiny = x < 1.17549435e-38f;
  const uint32 bits = scalar::bits_of(is_tiny ? x * 33554432.f : x);  // 2^25
  const float exponent = scalar::float_of((bits >> 23) | 0x4b000000u) - 8388608.f;
  const float m = scalar::float_of((bits & 0x007fffffu) | 0x3f800000u);
  const bool is_above = m > 1.41421354f;
  const float k = exponent - (is_tiny ? 152.f : 127.f) + (is_above ? 1.f : 0.f);
  const float f = (is_above ? 0.5f * m : m) - 1.f, s = f / (2.f + f), q = s * s;
  const float p = odd_series<3, 11>(q);
  const float rest = 2.f * s + (2.f * s * (q * p) - k * 2.12194440e-4f);
  return k * 0.693359375f + rest;
}

// log(1 + e) for e in [-1/2, 1], to 3 roundings where e >= 0.
SNAPML_INLINE double log1p_unit(double e) {
  const double s = e / (2.0 + e), q = s * s;  // log(1 + e) = 2 atanh(s), |s| <= 1/3
  const double p = odd_series<3, 31>(q);
  return 2.0 * s + 2.0 * s * (q * p);
}

SNAPML_INLINE float log1p_unit(float e) {
  const float s = e / (2.f + e), q = s * s;
  const float p = odd_series<3, 15>(q);
  return 2.f * s + 2.f * s * (q * p);
}

// x log x, continued by its limit 0 at x = 0.
template <class Real>
SNAPML_INLINE Real x_log_x(Real x) {
  return x > Real(0) ? x * log_positive(x > Real(0) ? x : Real(1)) : Real(0);
}

}  // namespace snapml
