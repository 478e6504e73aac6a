// What must be true of rows before a sweep may trust them, and their squared norms.
//
// Counts of what is wrong; the host, which then has all the time in the world, finds out where.
// Macros: see warp_rows.cuh.
#include "sums/warp_rows.cuh"

namespace snapml::kernels {

// counts: 0 entries that are not finite, 1 neighbours not in increasing order.
constexpr int kNotFinite = 0, kNotSorted = 1;

// counts[0]: offsets that decrease, or leave [0, n_stored]. A thread an offset.
extern "C" __global__ void check_offsets(const Index* __restrict__ indptr, int64 n_rows,
                                         int64 n_stored, int* counts) {
  const int64 step = static_cast<int64>(gridDim.x) * blockDim.x;
  for (int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; i <= n_rows;
       i += step) {
    const int64 at = indptr[i], before = i == 0 ? 0 : indptr[i - 1];
    if (at < before || at > n_stored || (i == 0 && at != 0)) atomicAdd(counts, 1);
  }
}

// counts[0]: column indices outside [0, n_cols). A thread an index.
extern "C" __global__ void check_indices(const Index* __restrict__ indices, int64 n_stored,
                                         int64 n_cols, int* counts) {
  const int64 step = static_cast<int64>(gridDim.x) * blockDim.x;
  for (int64 k = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; k < n_stored;
       k += step) {
    const int64 j = indices[k];
    if (j < 0 || j >= n_cols) atomicAdd(counts, 1);
  }
}

inline __device__ bool is_finite(Real x) { return x - x == Real(0); }

template <class Row>
__device__ bool follows(const Row& row, int64 k) {
  return k == 0 || column(row, k - 1) < column(row, k);
}

// Squared norms of the rows that the descent works on. Every warp leaves its sums of ||x||^2,
// c ||x||^2 and c in sums[warp]. A warp a row.
extern "C" __global__ void inspect_rows(SNAPML_MATRIX, const Real* __restrict__ row_weights,
                                        double weight, Real* __restrict__ norms_sq,
                                        double* __restrict__ sums, int* counts) {
  const View view = MatrixView<View>::make(indptr, indices, values, constant, mean, n_rows, n_cols);
  double total[3] = {};
  for (int64 i = warp_of_grid(); i < n_rows; i += warps_of_grid()) {
    const auto row = row_of(view, i);
    int wrong[2] = {};
    double norm_sq = 0;
    for (int64 k = lane_of_thread(); k < length(row); k += kWarp) {
      const double x = static_cast<double>(entry(row, k));
      norm_sq += x * x;
      wrong[kNotFinite] += !is_finite(plain_entry(row, k));
      wrong[kNotSorted] += !follows(row, k);
    }
    for (int kind = 0; kind < 2; ++kind) {
      if (wrong[kind] > 0) atomicAdd(counts + kind, 1);
    }
    norm_sq = warp_sum(norm_sq);
    const double c = row_weights == nullptr ? weight : static_cast<double>(row_weights[i]);
    total[0] += norm_sq;
    total[1] += c == 0 ? 0.0 : c * norm_sq;
    total[2] += c;
    if (lane_of_thread() == 0) norms_sq[i] = static_cast<Real>(norm_sq);
  }
  if (lane_of_thread() > 0) return;
  for (int s = 0; s < 3; ++s) sums[3 * warp_of_grid() + s] = total[s];
}

}  // namespace snapml::kernels
