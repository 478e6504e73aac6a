// Compressed rows (or columns), one a warp: neighbouring lanes read neighbouring entries.
#pragma once

#include "reduce.cuh"
#include "snapml/views.hpp"
#include "types.cuh"

namespace snapml::kernels {

using Index = SNAPML_INDEX;
using Row = CompressedRow<Real, Index>;
using View = CompressedView<Real, Index>;

__device__ __forceinline__ Sum entry_of(const Row& row, int64 e) {
  return static_cast<Sum>(row.values == nullptr ? row.constant : row.values[e]);
}

// The inner product with a vector, in all lanes.
__device__ __forceinline__ Sum warp_dot(const Row& row, const Sum* __restrict__ vector) {
  Sum sum = 0;
  for (int64 e = lane_of_thread(); e < row.n_stored; e += kWarp) {
    sum += entry_of(row, e) * vector[row.indices[e]];
  }
  return warp_sum(sum);
}

// The warps of a grid take turns over the rows: the first row of this one, and its stride.
__device__ __forceinline__ int64 first_of_warp() {
  return static_cast<int64>(blockIdx.x) * warps_of_block() + warp_of_thread();
}
__device__ __forceinline__ int64 warps_of_grid() {
  return static_cast<int64>(gridDim.x) * warps_of_block();
}

}  // namespace snapml::kernels
