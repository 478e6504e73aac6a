// The one place that knows which compiler reads the core: g++ or clang, nvcc, or NVRTC.
// Every other core header is freestanding: NVRTC has no <cmath> and no <cstdint>.
#pragma once

#if defined(__CUDACC_RTC__)
#define SNAPML_HD __host__ __device__ __forceinline__
namespace snapml {
using int32 = int;
using int64 = long long;
using uint8 = unsigned char;
using uint32 = unsigned int;
using uint64 = unsigned long long;
namespace scalar {
using ::exp;
using ::expm1;
using ::fabs;
using ::floor;
using ::log;
using ::log1p;
}  // namespace scalar
}  // namespace snapml
#else
#include <cmath>
#include <cstdint>
#if defined(__CUDACC__)
#define SNAPML_HD __host__ __device__ __forceinline__
#else
#define SNAPML_HD inline
#endif
namespace snapml {
using int32 = std::int32_t;
using int64 = std::int64_t;
using uint8 = std::uint8_t;
using uint32 = std::uint32_t;
using uint64 = std::uint64_t;
namespace scalar {
using std::exp;
using std::expm1;
using std::fabs;
using std::floor;
using std::log;
using std::log1p;
}  // namespace scalar
}  // namespace snapml
#endif
