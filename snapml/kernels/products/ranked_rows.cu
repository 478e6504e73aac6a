// Products of compressed rows with vectors: margins X w, and X^T s to the same bits every time.
//
// Columns are numbered by how often they occur (ranked_rows.py), so that the first `n_hot` of them,
// which most entries belong to, fit into a block's shared memory: what is gathered or added there
// never reaches the second cache, whose gathers and atomics are what such data wait for. A block
// loads (or empties) its hot prefix once for each vector and goes through many rows.
//
// A team of `team_lanes` threads takes a row. The rows in `long_rows`, those of more than
// `team_entries` entries, are left to whole blocks. Entries are 1 where `values` is null.
#include "device/types.cuh"
#include "sums/ranked_sums.cuh"
#include "sums/reduce.cuh"
#include "sums/shared_vector.cuh"

namespace snapml::kernels {

using Index = SNAPML_INDEX;

constexpr int kMaxThreads = 1024;
// Entries of a thread on their way from memory at once: its share of an average row, or what
// registers hold.
constexpr int kBatch = sizeof(Index) + sizeof(Real) == 8 ? 6 : 3;

struct Rows {
  const int64* indptr;
  const Index* ranks;
  const Real* values;
  int64 n_rows;
  const int64* long_rows;
  int64 n_long;
  int64 team_entries;
  int n_lanes;
};

#define SNAPML_ROWS                                                                       \
  const int64 *__restrict__ indptr, const Index *__restrict__ ranks,                      \
      const Real *__restrict__ values, int64 n_rows, const int64 *__restrict__ long_rows, \
      int64 n_long, int64 team_entries, int64 team_lanes
#define SNAPML_ROWS_MADE \
  {indptr, ranks, values, n_rows, long_rows, n_long, team_entries, static_cast<int>(team_lanes)}

// One thread's share of a row: the entries first, first + step, ... before end.
struct Share {
  int64 row;  // -1 for a thread that only takes part in its warp's sums
  int64 first, end;
  int step;  // threads that share the row: part of a warp, or the block
};

// Calls visit(rank, value) for every entry of a share. Rows are read once, past what is reused.
template <class Visit>
__device__ __forceinline__ void for_each_entry(const Rows& rows, const Share& share, Visit visit) {
  for (int64 first = share.first; first < share.end; first += kBatch * share.step) {
    Index ranks[kBatch];
    Real values[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int64 e = first + b * share.step;
      const bool is_inside = e < share.end;
      ranks[b] = is_inside ? __ldcs(rows.ranks + e) : Index(-1);
      values[b] = is_inside && rows.values != nullptr ? __ldcs(rows.values + e) : Real(1);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (ranks[b] >= 0) visit(ranks[b], values[b]);
    }
  }
}

// Calls visit(share) in all threads of a warp at once: for the rows of its teams, then, in all
// threads of the block, for the long rows.
template <class Visit>
__device__ __forceinline__ void for_each_share(const Rows& rows, Visit visit) {
  const int thread = static_cast<int>(threadIdx.x), n_threads = static_cast<int>(blockDim.x);
#pragma unroll 1
  for (int turn = 0; turn < 2; ++turn) {
    const bool is_long = turn == 1;
    const int n_lanes = is_long ? n_threads : rows.n_lanes, n_teams = n_threads / n_lanes;
    const int team = thread / n_lanes, lane = thread % n_lanes;
    const int64 count = is_long ? rows.n_long : rows.n_rows;
    const int64 step = static_cast<int64>(gridDim.x) * n_teams;
    for (int64 first = static_cast<int64>(blockIdx.x) * n_teams; first < count; first += step) {
      Share share{-1, 0, 0, n_lanes};
      if (first + team < count) {
        const int64 i = is_long ? rows.long_rows[first + team] : first + team;
        const int64 begin = rows.indptr[i], end = rows.indptr[i + 1];
        if (is_long || end - begin <= rows.team_entries) share = {i, begin + lane, end, n_lanes};
      }
      visit(share);
    }
  }
}

// Margins of output blockIdx.y. coef is (K x (n_cols + 1)) by rank, the intercept's last; margins
// (K x n_rows). The shared memory holds a number for each warp, then the hot coefficients.
extern "C" __global__ void __launch_bounds__(kMaxThreads, 1)
    ranked_margins(SNAPML_ROWS, int64 n_cols, int64 n_hot, const Sum* __restrict__ coef,
                   double bias_column, double* __restrict__ margins) {
  extern __shared__ Sum memory[];
  Sum *const sums = memory, *const hot = memory + kWarp;
  const Index hot_end = static_cast<Index>(n_hot);
  const Rows rows SNAPML_ROWS_MADE;
  const Sum* const w = coef + blockIdx.y * (n_cols + 1);
  const double bias = bias_column * static_cast<double>(w[n_cols]);
  double* const z = margins + blockIdx.y * n_rows;
  for (int64 j = threadIdx.x; j < n_hot; j += blockDim.x) hot[j] = w[j];
  __syncthreads();
  for_each_share(rows, [&](const Share& share) {
    Sum dot = 0;
    for_each_entry(rows, share, [&](Index j, Real x) {
      dot += static_cast<Sum>(x) * (j < hot_end ? hot[j] : __ldg(w + j));
    });
    const bool is_warps = share.step <= kWarp;
    dot = is_warps ? team_sum(dot, share.step) : block_sum(dot, sums);
    const bool is_first = is_warps ? threadIdx.x % share.step == 0 : threadIdx.x == 0;
    if (is_first && share.row >= 0) z[share.row] = static_cast<double>(dot) + bias;
  });
}

// A 64-bit sum in two 32-bit words: shared memory adds these by itself, but wider or floating ones
// only by compare-and-swap, again and again where a column is busy. Carries come out the same in
// any order.
__device__ __forceinline__ void add_halves(uint32* low, uint32* high, int64 x) {
  const uint32 low_x = static_cast<uint32>(x);
  const uint32 carry = atomicAdd(low, low_x) + low_x < low_x ? 1 : 0;
  const uint32 high_x = static_cast<uint32>(x >> 32) + carry;
  if (high_x != 0) atomicAdd(high, high_x);
}

// What the rows add to the columns' sums in fixed point: the two halves of the hot ones in shared
// memory, the others where they are.
struct ColumnSums {
  uint32* low;
  uint32* high;
  int64* words;  // of all columns
  Index hot_end;

  __device__ __forceinline__ void add(Index j, int64 hot, int64 cold) const {
    if (j < hot_end) {
      add_halves(low + j, high + j, hot);
    } else {
      add_word(words + j, cold);
    }
  }
};

// Adds to words (K x n_cols), zeroed, the sums over the rows of s x, or s x^2 with `is_squared`, in
// the units of ranked_sums.cuh, for vector blockIdx.y of vectors (K x n_rows). The shared memory
// holds the halves of the hot words.
extern "C" __global__ void __launch_bounds__(kMaxThreads, 1)
    ranked_products(SNAPML_ROWS, int64 n_cols, int64 n_hot, const double* __restrict__ vectors,
                    int64 is_squared, const int64* __restrict__ largest, int64 hot_bits,
                    int64 cold_bits, int64* words) {
  extern __shared__ uint32 halves[];
  const int64 bound = largest[blockIdx.y];
  for (int64 j = threadIdx.x; j < 2 * n_hot; j += blockDim.x) halves[j] = 0;
  __syncthreads();
  const Rows rows SNAPML_ROWS_MADE;
  const ColumnSums sums{halves, halves + n_hot, words + blockIdx.y * n_cols,
                        static_cast<Index>(n_hot)};
  const double* const vector = vectors + blockIdx.y * n_rows;
  const double per_hot = per_unit(bound, hot_bits), per_cold = per_unit(bound, cold_bits);
  for_each_share(rows, [&](const Share& share) {
    const double s = share.row < 0 ? 0.0 : vector[share.row];
    if (s == 0.0) return;
    const double hot = s * per_hot, cold = s * per_cold;
    if (rows.values == nullptr) {
      const int64 hot_one = ::llrint(hot), cold_one = ::llrint(cold);
      for_each_entry(rows, share, [&](Index j, Real) { sums.add(j, hot_one, cold_one); });
      return;
    }
    for_each_entry(rows, share, [&](Index j, Real value) {
      const double x = static_cast<double>(value);
      const double product = (j < sums.hot_end ? hot : cold) * (is_squared != 0 ? x * x : x);
      const int64 addend = ::llrint(product);
      sums.add(j, addend, addend);
    });
  });
  __syncthreads();
  for (int64 j = threadIdx.x; j < n_hot; j += blockDim.x) {
    const uint64 word = static_cast<uint64>(sums.high[j]) << 32 | sums.low[j];
    if (word != 0) add_word(sums.words + j, static_cast<int64>(word));
  }
}

}  // namespace snapml::kernels
