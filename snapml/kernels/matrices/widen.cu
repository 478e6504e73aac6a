// Entries that came over the bus in one or two bytes, as the float32 that they mean.
//
// Two bytes are read and four written an entry, at the rate of the memory: a fraction of what the
// bus takes to bring them.
#include "snapml/narrow.hpp"
#include "sums/reduce.cuh"

namespace snapml::kernels {

// out[k] = what the upper half of a float32's bits means. A thread an entry.
extern "C" __global__ void widen_halves(const uint16* __restrict__ values, int64 count,
                                        float* __restrict__ out) {
  const int64 step = static_cast<int64>(gridDim.x) * blockDim.x;
  for (int64 k = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; k < count; k += step) {
    out[k] = widen_bfloat16(values[k]);
  }
}

// out[i, j] = offsets[j] + scales[j] * values[i, j]. A thread an entry.
extern "C" __global__ void widen_steps(const uint8* __restrict__ values,
                                       const float* __restrict__ scales,
                                       const float* __restrict__ offsets, int64 count, int64 n_cols,
                                       float* __restrict__ out) {
  const int64 step = static_cast<int64>(gridDim.x) * blockDim.x;
  for (int64 k = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; k < count; k += step) {
    const int64 j = k % n_cols;
    out[k] = widen_uint8(values[k], scales[j], offsets[j]);
  }
}

}  // namespace snapml::kernels
