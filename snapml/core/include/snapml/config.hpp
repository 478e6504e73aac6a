// The one place that knows which compiler reads the core: g++ or clang, nvcc, or NVRTC.
// Every other core header is freestanding: NVRTC has no <cmath> and no <cstdint>.
#pragma once

#if defined(__CUDACC_RTC__)
#define SNAPML_HD __host__ __device__ __forceinline__
#define SNAPML_INLINE SNAPML_HD
namespace snapml {
using int32 = int;
using int64 = long long;
using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;
namespace scalar {
using ::erfc;
using ::exp;
using ::expm1;
using ::fabs;
using ::floor;
using ::log;
using ::log1p;
using ::sqrt;
__device__ __forceinline__ double from_bits(long long bits) { return __longlong_as_double(bits); }
__device__ __forceinline__ long long to_bits(double x) { return __double_as_longlong(x); }
__device__ __forceinline__ float float_of(uint32 bits) { return __uint_as_float(bits); }
__device__ __forceinline__ uint32 bits_of(float x) { return __float_as_uint(x); }
}  // namespace scalar
}  // namespace snapml
#else
#include <cmath>
#include <cstdint>
#include <cstring>
#if defined(__CUDACC__)
#define SNAPML_HD __host__ __device__ __forceinline__
#else
#define SNAPML_HD inline
#endif
// Also where a call would keep a loop from becoming vector instructions.
#if defined(__GNUC__) && !defined(__CUDACC__)
#define SNAPML_INLINE SNAPML_HD __attribute__((always_inline))
#else
#define SNAPML_INLINE SNAPML_HD
#endif
namespace snapml {
using int32 = std::int32_t;
using int64 = std::int64_t;
using uint8 = std::uint8_t;
using uint16 = std::uint16_t;
using uint32 = std::uint32_t;
using uint64 = std::uint64_t;
namespace scalar {
using std::erfc;
using std::exp;
using std::expm1;
using std::fabs;
using std::floor;
using std::log;
using std::log1p;
using std::sqrt;
SNAPML_HD double from_bits(std::int64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
SNAPML_HD std::int64_t to_bits(double x) {
  std::int64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
SNAPML_HD float float_of(uint32 bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
SNAPML_HD uint32 bits_of(float x) {
  uint32 bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
}  // namespace scalar
}  // namespace snapml
#endif
