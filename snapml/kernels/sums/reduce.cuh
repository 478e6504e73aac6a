// Sums and maxima over threads: the only reductions that are written by hand. All of them add in an
// order that depends on the launch alone. Blocks are whole warps.
#pragma once

#include "snapml/config.hpp"

namespace snapml::kernels {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ int lane_of_thread() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ __forceinline__ int warp_of_thread() { return static_cast<int>(threadIdx.x) / kWarp; }
__device__ __forceinline__ int warps_of_block() { return static_cast<int>(blockDim.x) / kWarp; }

// The sum over each team of `n_lanes` neighbours (a power of two up to 32), in all of its lanes.
template <class T>
__device__ __forceinline__ T team_sum(T x, int n_lanes) {
  for (int flip = n_lanes / 2; flip > 0; flip /= 2) x += __shfl_xor_sync(kAllLanes, x, flip);
  return x;
}

template <class T>
__device__ __forceinline__ T warp_sum(T x) {
  return team_sum(x, kWarp);
}

// The sum over the block, in all of its threads. `scratch` holds a number for each warp; what other
// warps left there may still be read when a warp comes here, hence the first barrier.
template <class T>
__device__ __forceinline__ T block_sum(T x, T* scratch) {
  x = warp_sum(x);
  __syncthreads();
  if (lane_of_thread() == 0) scratch[warp_of_thread()] = x;
  __syncthreads();
  T sum = 0;
  for (int w = 0; w < warps_of_block(); ++w) sum += scratch[w];
  return sum;
}

// The largest over each warp, in all of its lanes.
template <class T>
__device__ __forceinline__ T warp_max(T x) {
  for (int flip = kWarp / 2; flip > 0; flip /= 2) {
    const T other = __shfl_xor_sync(kAllLanes, x, flip);
    if (other > x) x = other;
  }
  return x;
}

}  // namespace snapml::kernels
