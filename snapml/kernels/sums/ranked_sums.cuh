// The fixed point in which products with columns are added: integers add up to the same sum in any
// order. docs/algorithms.md, section 8, has the bound on its error.
#pragma once

#include "snapml/config.hpp"

namespace snapml::kernels {

// Numbers of magnitude: of those that are not negative, bits are ordered as the numbers are, with
// infinity and then NaN above all others.
inline __device__ int64 magnitude_word(double x) { return scalar::to_bits(scalar::fabs(x)); }
inline __device__ bool is_finite_word(int64 word) { return word >> 52 < 0x7ff; }

// Units in 1, a power of two: sums of fewer than 2^count_bits addends s x with |x| <= 1 and |s| at
// most `largest` then stay below 2^60 units, and their rounding below another 2^count_bits / 2. Two
// bits are left for |x| < 2, where 2^1024 would be needed to scale it, and its square. The limit
// keeps tiny numbers from an infinite factor. Where `largest` is not finite, neither are sums.
inline __device__ double per_unit(int64 largest, int64 count_bits) {
  const int64 exponent = (largest >> 52) - 1022;  // |s| < 2^exponent
  const int64 power = 60 - count_bits - exponent;
  return ::ldexp(1.0, static_cast<int>(power < 1022 ? power : 1022));
}

}  // namespace snapml::kernels
