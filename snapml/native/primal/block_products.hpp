// Products of a block of kBlockRows rows with float64 vectors: the two halves of a fused pass.
//
// Dense rows go four at a time, so that the vector is loaded, and the sum stored, once for four
// rows: with sums in float64 the pass still runs at the speed of memory. Of several vectors two go
// together, or up to four where registers are enough, so that rows are loaded once for these.
#pragma once

#include <cstring>

#include "primal/block_products_avx512.hpp"
#include "rows/row_operations.hpp"
#include "rows/row_reader.hpp"
#include "snapml/math.hpp"
#include "threads/wide.hpp"

namespace snapml::native {

template <class Wide>
[[gnu::always_inline]] inline void load_wide(const double* from, Wide& to) {
  std::memcpy(&to, from, sizeof to);
}

template <class Wide>
[[gnu::always_inline]] inline void load_wide(const float* from, Wide& to) {
  typedef float Stored __attribute__((vector_size(sizeof(Wide) / 2)));
  Stored stored;
  std::memcpy(&stored, from, sizeof stored);
  to = __builtin_convertvector(stored, Wide);
}

// The last lanes, one by one from 0 to 8 of them: what is left of a row goes through the same code,
// on its last eight entries, with those seen before masked out.
alignas(64) inline constexpr double kLastLanes[16] = {0, 0, 0, 0, 0, 0, 0, 0,
                                                      1, 1, 1, 1, 1, 1, 1, 1};

// z[i] += x[i].w for four rows of at least eight entries.
struct DotFourRows {
  template <int parts, class Real>
  [[gnu::always_inline]] static void run(const Real* const* x, const double* w, int64 n,
                                         double* z) {
    using Eight = WideEight<parts>;
    const Real *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    Eight a0{}, a1{}, a2{}, a3{};
    int64 j = 0;
    for (; j + kEight <= n; j += kEight) {
      const auto u = Eight::load(w + j);
      a0.add(u, Eight::load(x0 + j)), a1.add(u, Eight::load(x1 + j));
      a2.add(u, Eight::load(x2 + j)), a3.add(u, Eight::load(x3 + j));
    }
    if (j < n) {
      const int64 left = n - j, from = n - kEight;
      auto u = Eight::load(w + from);
      u *= Eight::load(kLastLanes + left);
      a0.add(u, Eight::load(x0 + from)), a1.add(u, Eight::load(x1 + from));
      a2.add(u, Eight::load(x2 + from)), a3.add(u, Eight::load(x3 + from));
    }
    z[0] += sum_of_lanes(a0), z[1] += sum_of_lanes(a1), z[2] += sum_of_lanes(a2),
        z[3] += sum_of_lanes(a3);
  }
};

// g += sum_i r[i] x[i] over four rows of at least eight entries. The rows come from cache, so the
// memory would idle: `ahead` elements further lie the rows of the next block, which are asked for
// meanwhile (0: nowhere).
struct AddFourRows {
  template <int parts, class Real>
  [[gnu::always_inline]] static void run(const Real* const* x, const double* r, int64 n,
                                         int64 ahead, double* g) {
    using Eight = WideEight<parts>;
    constexpr int64 kLine = 64 / static_cast<int64>(sizeof(Real));
    const Real *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    const double r0 = r[0], r1 = r[1], r2 = r[2], r3 = r[3];
    const auto rows_from = [&](int64 k) __attribute__((always_inline)) {
      Eight sum{};
      sum.add(r0, Eight::load(x0 + k)), sum.add(r1, Eight::load(x1 + k));
      sum.add(r2, Eight::load(x2 + k)), sum.add(r3, Eight::load(x3 + k));
      return sum;
    };
    int64 j = 0;
    for (; j + kLine <= n; j += kLine) {
      if (ahead != 0) {
        __builtin_prefetch(x0 + ahead + j);
        __builtin_prefetch(x1 + ahead + j);
        __builtin_prefetch(x2 + ahead + j);
        __builtin_prefetch(x3 + ahead + j);
      }
      for (int64 k = j; k < j + kLine; k += kEight) {
        auto sum = rows_from(k);
        sum += Eight::load(g + k);
        sum.store(g + k);
      }
    }
    for (; j < n; j += kEight) {
      const int64 left = n - j < kEight ? n - j : kEight, from = j + left - kEight;
      auto sum = rows_from(from);
      sum *= Eight::load(kLastLanes + left);
      sum += Eight::load(g + from);
      sum.store(g + from);
    }
  }
};

// The same for rows of any length, by the fastest version that the processor has.
template <class Real>
void dense_dot4(const Real* const* x, const double* w, int64 n, double* z) {
#ifdef SNAPML_HAS_AVX512_BUILD
  if constexpr (sizeof(Real) == 4) {
    if (avx512::kIsSupported) return avx512::dense_dot4(x, w, n, z);
  }
#endif
  if (n >= kEight) return run_wide<DotFourRows>(x, w, n, z);
  for (int i = 0; i < 4; ++i) {
    for (int64 k = 0; k < n; ++k) z[i] += w[k] * static_cast<double>(x[i][k]);
  }
}

template <class Real>
void dense_add4(const Real* const* x, const double* r, int64 n, int64 ahead, double* g) {
#ifdef SNAPML_HAS_AVX512_BUILD
  if constexpr (sizeof(Real) == 4) {
    if (avx512::kIsSupported) return avx512::dense_add4(x, r, n, ahead, g);
  }
#endif
  if (n >= kEight) return run_wide<AddFourRows>(x, r, n, ahead, g);
  for (int i = 0; i < 4; ++i) {
    for (int64 k = 0; k < n; ++k) g[k] += r[i] * static_cast<double>(x[i][k]);
  }
}

// Pointers to four rows from a column on; what is missing at the end of a block points to its first
// row, for whose product the caller has no use.
template <class Real>
struct FourRows {
  const Real* rows[4];
  FourRows(const RowReader<DenseView<Real>>& reader, int first, int count, int64 column) {
    for (int j = 0; j < 4; ++j) {
      rows[j] = reader.row(first + j < count ? first + j : first).values + column;
    }
  }
};

// Half of it: with eight sums in flight of these, sixteen registers of 256 bits are enough.
using Four = double __attribute__((vector_size(32)));

// z[k * z_stride + i] += x[i].w_k for four rows and two vectors, w_k beginning at w + k * stride.
template <class Real>
SNAPML_CLONES void portable_two_dots(const Real* const* x, const double* w, int64 stride, int64 n,
                                     double* z, int64 z_stride) {
  const Real *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
  const double* const v = w + stride;
  Four a0{}, a1{}, a2{}, a3{}, b0{}, b1{}, b2{}, b3{}, p, q, r;
  int64 j = 0;
  for (; j + 4 <= n; j += 4) {
    load_wide(w + j, p), load_wide(v + j, q);
    load_wide(x0 + j, r), a0 += p * r, b0 += q * r;
    load_wide(x1 + j, r), a1 += p * r, b1 += q * r;
    load_wide(x2 + j, r), a2 += p * r, b2 += q * r;
    load_wide(x3 + j, r), a3 += p * r, b3 += q * r;
  }
  const Four sums[2][4] = {{a0, a1, a2, a3}, {b0, b1, b2, b3}};
  for (int k = 0; k < 2; ++k) {
    for (int i = 0; i < 4; ++i) {
      const Four& s = sums[k][i];
      double sum = (s[0] + s[2]) + (s[1] + s[3]);
      for (int64 rest = j; rest < n; ++rest) {
        sum += w[k * stride + rest] * static_cast<double>(x[i][rest]);
      }
      z[k * z_stride + i] += sum;
    }
  }
}

// g_k += sum_i r[k * r_stride + i] x[i] for four rows and two vectors; `ahead` as above.
template <class Real>
SNAPML_CLONES void portable_two_adds(const Real* const* x, const double* r, int64 r_stride, int64 n,
                                     int64 ahead, double* g, int64 stride) {
  constexpr int64 kLine = 64 / static_cast<int64>(sizeof(Real));
  const Real *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
  const double *s = r + r_stride, r0 = r[0], r1 = r[1], r2 = r[2], r3 = r[3], s0 = s[0], s1 = s[1],
               s2 = s[2], s3 = s[3];
  double* const h = g + stride;
  int64 j = 0;
  for (; j + 4 <= n; j += 4) {
    if (ahead != 0 && j % kLine == 0) {
      for (int i = 0; i < 4; ++i) __builtin_prefetch(x[i] + ahead + j);
    }
    Four p, q, v;
    load_wide(g + j, p), load_wide(h + j, q);
    load_wide(x0 + j, v), p += r0 * v, q += s0 * v;
    load_wide(x1 + j, v), p += r1 * v, q += s1 * v;
    load_wide(x2 + j, v), p += r2 * v, q += s2 * v;
    load_wide(x3 + j, v), p += r3 * v, q += s3 * v;
    std::memcpy(g + j, &p, sizeof p);
    std::memcpy(h + j, &q, sizeof q);
  }
  for (; j < n; ++j) {
    for (int i = 0; i < 4; ++i) {
      g[j] += r[i] * static_cast<double>(x[i][j]);
      h[j] += s[i] * static_cast<double>(x[i][j]);
    }
  }
}

// How many of the vectors that are left share the loads of four rows: two, or as many as sums have
// registers; none goes alone that need not.
inline int shared_vectors(int n_left) {
#ifdef SNAPML_HAS_AVX512_BUILD
  if (avx512::kIsSupported) return n_left == 5 ? 3 : minimum(n_left, 4);
#endif
  return minimum(n_left, 2);
}

// Products of four rows with so many vectors.
template <class Real>
void shared_dots(int n, const Real* const* x, const double* w, int64 stride, int64 n_cols,
                 double* z) {
#ifdef SNAPML_HAS_AVX512_BUILD
  if (avx512::kIsSupported) {
    if (n == 2) return avx512::dense_dot4<2>(x, w, stride, n_cols, z, kBlockRows);
    if (n == 3) return avx512::dense_dot4<3>(x, w, stride, n_cols, z, kBlockRows);
    if (n == 4) return avx512::dense_dot4<4>(x, w, stride, n_cols, z, kBlockRows);
  }
#endif
  if (n == 2) return portable_two_dots(x, w, stride, n_cols, z, kBlockRows);
  dense_dot4(x, w, n_cols, z);
}

template <class Real>
void shared_add(int n, const Real* const* x, const double* r, int64 n_cols, int64 ahead, double* g,
                int64 stride) {
#ifdef SNAPML_HAS_AVX512_BUILD
  if (avx512::kIsSupported) {
    if (n == 2) return avx512::dense_add4<2>(x, r, kBlockRows, n_cols, ahead, g, stride);
    if (n == 3) return avx512::dense_add4<3>(x, r, kBlockRows, n_cols, ahead, g, stride);
    if (n == 4) return avx512::dense_add4<4>(x, r, kBlockRows, n_cols, ahead, g, stride);
  }
#endif
  if (n == 2) return portable_two_adds(x, r, kBlockRows, n_cols, ahead, g, stride);
  dense_add4(x, r, n_cols, ahead, g);
}

// How many columns at a time to go through, so that what several vectors share stays in the
// first-level cache: four rows, and as many of the vectors.
inline int64 columns_at_a_time(int64 n_cols, int n_vectors) {
  constexpr int64 kMost = 384;
  if (n_vectors == 1 || n_cols <= kMost) return n_cols;
  const int64 n_parts = (n_cols + kMost - 1) / kMost;
  return ((n_cols + n_parts - 1) / n_parts + 15) / 16 * 16;
}

// z_kj += x_j.w_k for the rows of the loaded block and vectors `stride` apart; z has room for
// kBlockRows numbers of each.
template <class Real>
void block_dots(const RowReader<DenseView<Real>>& reader, int count, int64 n_cols, const double* w,
                int64 stride, int n_vectors, double* z) {
  const int64 step = columns_at_a_time(n_cols, n_vectors);
  for (int64 first = 0; first < n_cols; first += step) {
    const int64 n_here = minimum(step, n_cols - first);
    for (int k = 0, n; k < n_vectors; k += n) {
      n = shared_vectors(n_vectors - k);
      for (int j = 0; j < count; j += 4) {
        const FourRows<Real> four(reader, j, count, first);
        shared_dots(n, four.rows, w + k * stride + first, stride, n_here, z + k * kBlockRows + j);
      }
    }
  }
}

// g_k += sum_j r_kj x_j; r is zero beyond `count`.
template <class Real>
void block_add(const RowReader<DenseView<Real>>& reader, int count, int64 n_cols, const double* r,
               double* g, int64 stride, int n_vectors) {
  const int64 step = columns_at_a_time(n_cols, n_vectors);
  for (int64 first = 0; first < n_cols; first += step) {
    const int64 n_here = minimum(step, n_cols - first);
    for (int k = 0, n; k < n_vectors; k += n) {
      n = shared_vectors(n_vectors - k);
      const int64 ahead = k == 0 ? reader.ahead() : 0;
      for (int j = 0; j < count; j += 4) {
        const FourRows<Real> four(reader, j, count, first);
        shared_add(n, four.rows, r + k * kBlockRows + j, n_here, ahead, g + k * stride + first,
                   stride);
      }
    }
  }
}

// Of sparse rows there is one vector; several are interleaved (block_pass.hpp).
template <class Real, class Index>
void block_dots(const RowReader<CompressedView<Real, Index>>& reader, int count, int64,
                const double* w, int64 stride, int n_vectors, double* z) {
  for (int k = 0; k < n_vectors; ++k) {
    for (int j = 0; j < count; ++j) {
      z[k * kBlockRows + j] += row_dot_wide(reader.row(j), w + k * stride);
    }
  }
}

template <class Real, class Index>
void block_add(const RowReader<CompressedView<Real, Index>>& reader, int count, int64,
               const double* r, double* g, int64 stride, int n_vectors) {
  for (int k = 0; k < n_vectors; ++k) {
    for (int j = 0; j < count; ++j) {
      const double slope = r[k * kBlockRows + j];
      if (slope != 0) row_add_wide(reader.row(j), slope, g + k * stride);
    }
  }
}

template <class Real, class Index>
[[gnu::always_inline]] inline double entry(const CompressedRow<Real, Index>& row, int64 i) {
  return static_cast<double>(row.values == nullptr ? row.constant : row.values[i]);
}

struct InterleavedDots {
  template <int parts, class Real, class Index>
  [[gnu::always_inline]] static void run(CompressedRow<Real, Index> row, const double* w,
                                         int64 width, double* z) {
    using Eight = WideEight<parts>;
    for (int64 from = 0; from < width; from += kEight) {
      const auto vector_of = [&](int64 i) __attribute__((always_inline)) {
        return Eight::load(w + row.indices[i] * width + from);
      };
      Eight even{}, odd{};
      int64 i = 0;
      for (; i + 2 <= row.n_stored; i += 2) {
        even.add(entry(row, i), vector_of(i)), odd.add(entry(row, i + 1), vector_of(i + 1));
      }
      if (i < row.n_stored) even.add(entry(row, i), vector_of(i));
      even += odd;
      even.store(z + from);
    }
  }
};

struct InterleavedAdd {
  template <int parts, class Real, class Index>
  [[gnu::always_inline]] static void run(CompressedRow<Real, Index> row, const double* r,
                                         int64 width, double* g) {
    using Eight = WideEight<parts>;
    for (int64 from = 0; from < width; from += kEight) {
      const auto slope = Eight::load(r + from);
      for (int64 i = 0; i < row.n_stored; ++i) {
        double* const at = g + row.indices[i] * width + from;
        auto v = Eight::load(at);
        v.add(entry(row, i), slope);
        v.store(at);
      }
    }
  }
};

// Of a sparse row with vectors that lie side by side, `width` (a multiple of kEight) numbers a
// column: z = sum_j x_j w_j.
template <class Real, class Index>
void interleaved_dots(const CompressedRow<Real, Index>& row, const double* w, int64 width,
                      double* z) {
  run_wide<InterleavedDots>(row, w, width, z);
}

// g_j += x_j r for vectors that lie side by side.
template <class Real, class Index>
void interleaved_add(const CompressedRow<Real, Index>& row, const double* r, int64 width,
                     double* g) {
  run_wide<InterleavedAdd>(row, r, width, g);
}

}  // namespace snapml::native
