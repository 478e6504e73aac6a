// From columns to their ranks by frequency, and between sums and what they stand for.
//
// Macros: SNAPML_REAL, SNAPML_INDEX of the indices as they came, SNAPML_RANK of the ranks.
#include "sums/ranked_sums.cuh"
#include "sums/reduce.cuh"
#include "sums/shared_vector.cuh"

namespace snapml::kernels {

using Real = SNAPML_REAL;
using Index = SNAPML_INDEX;
using Rank = SNAPML_RANK;

__device__ __forceinline__ int64 first_of_thread() {
  return static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ int64 threads_of_grid() {
  return static_cast<int64>(gridDim.x) * blockDim.x;
}

__device__ __forceinline__ void raise(int64* word, int64 x) {
  if (__ldcg(word) < x) atomicMax(word, x);  // a stale word is too small and costs an atomic
}

// How often each column occurs, and the word of its largest magnitude; both zeroed. `largest` is
// left alone without values.
extern "C" __global__ void column_facts(const Index* __restrict__ indices,
                                        const Real* __restrict__ values, int64 n_stored,
                                        int64* counts, int64* largest) {
  for (int64 e = first_of_thread(); e < n_stored; e += threads_of_grid()) {
    add_word(counts + indices[e], 1);
    if (values == nullptr) continue;
    raise(largest + indices[e], magnitude_word(static_cast<double>(values[e])));
  }
}

// ranks[e] is the rank of column indices[e]; values are multiplied by the column's factor, a power
// of two. Both may take the place of what they are made from. An index outside [0, n_cols) counts
// as column 0, and n_wrong is no longer 0.
extern "C" __global__ void rank_entries(const Index* indices, const Real* values, int64 n_stored,
                                        int64 n_cols, const Rank* __restrict__ rank_of,
                                        const double* __restrict__ factors, Rank* ranks,
                                        Real* scaled, int* n_wrong) {
  for (int64 e = first_of_thread(); e < n_stored; e += threads_of_grid()) {
    Index j = indices[e];
    if (j < 0 || j >= n_cols) {
      j = 0;
      atomicAdd(n_wrong, 1);
    }
    ranks[e] = rank_of[j];
    if (values != nullptr)
      scaled[e] = static_cast<Real>(static_cast<double>(values[e]) * factors[j]);
  }
}

// The word of the largest magnitude of each vector (K x n_rows); `largest` is zeroed.
extern "C" __global__ void largest_magnitudes(const double* __restrict__ vectors, int64 n_rows,
                                              int64 n_outputs, int64* largest) {
  for (int64 k = 0; k < n_outputs; ++k) {
    int64 word = 0;
    for (int64 i = first_of_thread(); i < n_rows; i += threads_of_grid()) {
      const int64 other = magnitude_word(vectors[k * n_rows + i]);
      if (other > word) word = other;
    }
    word = warp_max(word);  // or all threads of the grid would queue for one word
    if (lane_of_thread() == 0) raise(largest + k, word);
  }
}

// out[k * out_stride + j] = the sum that words (K x n_cols, by rank) hold of column j.
extern "C" __global__ void ranked_sums(const int64* __restrict__ words, int64 n_cols,
                                       const Rank* __restrict__ rank_of, int64 n_outputs,
                                       int64 n_hot, const int64* __restrict__ largest,
                                       int64 hot_bits, int64 cold_bits, int64 out_stride,
                                       double* __restrict__ out) {
  for (int64 k = 0; k < n_outputs; ++k) {
    const bool is_finite = is_finite_word(largest[k]);
    const double hot_unit = 1 / per_unit(largest[k], hot_bits);
    const double cold_unit = 1 / per_unit(largest[k], cold_bits);
    for (int64 j = first_of_thread(); j < n_cols; j += threads_of_grid()) {
      const int64 rank = rank_of[j];
      const double sum = static_cast<double>(words[k * n_cols + rank]);
      const double found = sum * (rank < n_hot ? hot_unit : cold_unit);
      out[k * out_stride + j] = is_finite ? found : scalar::from_bits(0x7ff8000000000000);
    }
  }
}

}  // namespace snapml::kernels
