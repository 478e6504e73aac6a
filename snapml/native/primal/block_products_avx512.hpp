// Products of four rows with one float64 vector or several, for processors with AVX-512.
//
// GCC 12 widens eight floats of its portable vectors in four instructions; the processor has one
// for it, and masks for the last columns. Its 32 registers hold four rows' sums with four vectors,
// so that entries are loaded once for all of these.
#pragma once

#include "snapml/config.hpp"

#if defined(__GNUC__) && defined(__x86_64__)
#define SNAPML_HAS_AVX512_BUILD 1
// GCC's own header passes on registers that it leaves undefined on purpose (its bug 105593).
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

namespace snapml::native::avx512 {

#define SNAPML_AVX512 __attribute__((target("avx512f,avx512vl,avx512dq,fma")))

inline const bool kIsSupported = __builtin_cpu_supports("avx512f") &&
                                 __builtin_cpu_supports("avx512vl") &&
                                 __builtin_cpu_supports("avx512dq");

SNAPML_AVX512 inline __m512d widen(const float* x) { return _mm512_cvtps_pd(_mm256_loadu_ps(x)); }

SNAPML_AVX512 inline __m512d widen(__mmask8 lanes, const float* x) {
  return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(lanes, x));
}

SNAPML_AVX512 inline __m512d widen(const double* x) { return _mm512_loadu_pd(x); }

SNAPML_AVX512 inline __m512d widen(__mmask8 lanes, const double* x) {
  return _mm512_maskz_loadu_pd(lanes, x);
}

SNAPML_AVX512 inline __mmask8 lanes_of(int64 left) {
  return static_cast<__mmask8>(left < 8 ? (1u << left) - 1 : 0xffu);
}

// The sums of the lanes of four registers.
SNAPML_AVX512 inline __m256d add_lanes(__m512d a0, __m512d a1, __m512d a2, __m512d a3) {
  const __m512d a01 = _mm512_unpacklo_pd(a0, a1) + _mm512_unpackhi_pd(a0, a1);
  const __m512d a23 = _mm512_unpacklo_pd(a2, a3) + _mm512_unpackhi_pd(a2, a3);
  const __m512d halves =
      _mm512_shuffle_f64x2(a01, a23, 0x88) + _mm512_shuffle_f64x2(a01, a23, 0xdd);
  const __m256d low = _mm512_castpd512_pd256(halves), high = _mm512_extractf64x4_pd(halves, 1);
  return _mm256_permute2f128_pd(low, high, 0x20) + _mm256_permute2f128_pd(low, high, 0x31);
}

// z[i] += x[i].w for four rows.
SNAPML_AVX512 inline void dense_dot4(const float* const* x, const double* w, int64 n, double* z) {
  const float *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
  __m512d a0 = _mm512_setzero_pd(), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  int64 j = 0;
  for (; j + 16 <= n; j += 16) {
    const __m512d u = _mm512_loadu_pd(w + j), v = _mm512_loadu_pd(w + j + 8);
    a0 = _mm512_fmadd_pd(widen(x0 + j), u, a0);
    a1 = _mm512_fmadd_pd(widen(x1 + j), u, a1);
    a2 = _mm512_fmadd_pd(widen(x2 + j), u, a2);
    a3 = _mm512_fmadd_pd(widen(x3 + j), u, a3);
    b0 = _mm512_fmadd_pd(widen(x0 + j + 8), v, b0);
    b1 = _mm512_fmadd_pd(widen(x1 + j + 8), v, b1);
    b2 = _mm512_fmadd_pd(widen(x2 + j + 8), v, b2);
    b3 = _mm512_fmadd_pd(widen(x3 + j + 8), v, b3);
  }
  for (; j < n; j += 8) {
    const auto lanes = static_cast<__mmask8>(n - j < 8 ? (1u << (n - j)) - 1 : 0xffu);
    const __m512d u = _mm512_maskz_loadu_pd(lanes, w + j);
    a0 = _mm512_fmadd_pd(widen(lanes, x0 + j), u, a0);
    a1 = _mm512_fmadd_pd(widen(lanes, x1 + j), u, a1);
    a2 = _mm512_fmadd_pd(widen(lanes, x2 + j), u, a2);
    a3 = _mm512_fmadd_pd(widen(lanes, x3 + j), u, a3);
  }
  const __m256d sums = add_lanes(a0 + b0, a1 + b1, a2 + b2, a3 + b3);
  _mm256_storeu_pd(z, _mm256_loadu_pd(z) + sums);
}

// g += sum_i r[i] x[i] over four rows; `ahead` as in the portable version.
SNAPML_AVX512 inline void dense_add4(const float* const* x, const double* r, int64 n, int64 ahead,
                                     double* g) {
  const float *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
  const __m512d r0 = _mm512_set1_pd(r[0]), r1 = _mm512_set1_pd(r[1]), r2 = _mm512_set1_pd(r[2]),
                r3 = _mm512_set1_pd(r[3]);
  int64 j = 0;
  for (; j + 16 <= n; j += 16) {
    if (ahead != 0) {
      __builtin_prefetch(x0 + ahead + j);
      __builtin_prefetch(x1 + ahead + j);
      __builtin_prefetch(x2 + ahead + j);
      __builtin_prefetch(x3 + ahead + j);
    }
    for (int64 k = j; k < j + 16; k += 8) {
      const __m512d first = _mm512_fmadd_pd(
          r1, widen(x1 + k), _mm512_fmadd_pd(r0, widen(x0 + k), _mm512_loadu_pd(g + k)));
      const __m512d second = _mm512_fmadd_pd(r3, widen(x3 + k), r2 * widen(x2 + k));
      _mm512_storeu_pd(g + k, first + second);
    }
  }
  for (; j < n; j += 8) {
    const auto lanes = static_cast<__mmask8>(n - j < 8 ? (1u << (n - j)) - 1 : 0xffu);
    const __m512d first = _mm512_fmadd_pd(
        r1, widen(lanes, x1 + j),
        _mm512_fmadd_pd(r0, widen(lanes, x0 + j), _mm512_maskz_loadu_pd(lanes, g + j)));
    const __m512d second = _mm512_fmadd_pd(r3, widen(lanes, x3 + j), r2 * widen(lanes, x2 + j));
    _mm512_mask_storeu_pd(g + j, lanes, first + second);
  }
}

// z[k * z_stride + i] += x[i].w_k for four rows and K vectors, w_k beginning at w + k * stride.
template <int K, class Real>
SNAPML_AVX512 void dense_dot4(const Real* const* x, const double* w, int64 stride, int64 n,
                              double* z, int64 z_stride) {
  __m512d sums[K][4];
  for (int k = 0; k < K; ++k) {
    for (int i = 0; i < 4; ++i) sums[k][i] = _mm512_setzero_pd();
  }
  int64 j = 0;
  for (; j + 8 <= n; j += 8) {
    const __m512d x0 = widen(x[0] + j), x1 = widen(x[1] + j), x2 = widen(x[2] + j),
                  x3 = widen(x[3] + j);
    for (int k = 0; k < K; ++k) {
      const __m512d u = _mm512_loadu_pd(w + k * stride + j);
      sums[k][0] = _mm512_fmadd_pd(x0, u, sums[k][0]);
      sums[k][1] = _mm512_fmadd_pd(x1, u, sums[k][1]);
      sums[k][2] = _mm512_fmadd_pd(x2, u, sums[k][2]);
      sums[k][3] = _mm512_fmadd_pd(x3, u, sums[k][3]);
    }
  }
  if (j < n) {
    const __mmask8 lanes = lanes_of(n - j);
    for (int k = 0; k < K; ++k) {
      const __m512d u = _mm512_maskz_loadu_pd(lanes, w + k * stride + j);
      for (int i = 0; i < 4; ++i) {
        sums[k][i] = _mm512_fmadd_pd(widen(lanes, x[i] + j), u, sums[k][i]);
      }
    }
  }
  for (int k = 0; k < K; ++k) {
    double* const to = z + k * z_stride;
    const __m256d all = add_lanes(sums[k][0], sums[k][1], sums[k][2], sums[k][3]);
    _mm256_storeu_pd(to, _mm256_loadu_pd(to) + all);
  }
}

// g_k += sum_i r[k * r_stride + i] x[i] for four rows and K vectors, as above; `ahead` as in the
// portable version.
template <int K, class Real>
SNAPML_AVX512 void dense_add4(const Real* const* x, const double* r, int64 r_stride, int64 n,
                              int64 ahead, double* g, int64 stride) {
  constexpr int64 kLine = 64 / static_cast<int64>(sizeof(Real));
  __m512d slopes[K][4];
  for (int k = 0; k < K; ++k) {
    for (int i = 0; i < 4; ++i) slopes[k][i] = _mm512_set1_pd(r[k * r_stride + i]);
  }
  int64 j = 0;
  for (; j + 8 <= n; j += 8) {
    if (ahead != 0 && j % kLine == 0) {
      for (int i = 0; i < 4; ++i) __builtin_prefetch(x[i] + ahead + j);
    }
    const __m512d x0 = widen(x[0] + j), x1 = widen(x[1] + j), x2 = widen(x[2] + j),
                  x3 = widen(x[3] + j);
    for (int k = 0; k < K; ++k) {
      double* const to = g + k * stride + j;
      const __m512d first =
          _mm512_fmadd_pd(slopes[k][1], x1, _mm512_fmadd_pd(slopes[k][0], x0, _mm512_loadu_pd(to)));
      const __m512d second = _mm512_fmadd_pd(slopes[k][3], x3, slopes[k][2] * x2);
      _mm512_storeu_pd(to, first + second);
    }
  }
  if (j == n) return;
  const __mmask8 lanes = lanes_of(n - j);
  for (int k = 0; k < K; ++k) {
    double* const to = g + k * stride + j;
    __m512d sum = _mm512_maskz_loadu_pd(lanes, to);
    for (int i = 0; i < 4; ++i) {
      sum = _mm512_fmadd_pd(slopes[k][i], widen(lanes, x[i] + j), sum);
    }
    _mm512_mask_storeu_pd(to, lanes, sum);
  }
}

}  // namespace snapml::native::avx512
#endif
