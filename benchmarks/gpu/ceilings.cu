// What a card can do at most, one kernel for each way of touching memory: read, copy, gather, add.
//
// Threads go through `n` items with the stride of the grid; items of `read_all` and `copy_all` are
// four numbers, 16 bytes. Every read ends in a sum that is written where the compiler cannot know
// it is unused. Macros: SNAPML_NUMBER, the type of what is read or added: float, double or unsigned
// long long.
#include "snapml/config.hpp"

namespace snapml::kernels {

using Number = SNAPML_NUMBER;

constexpr int kSharedNumbers = 4096;  // ceilings.py says the same

struct alignas(16) Quad {
  float x[4];
};

__device__ __forceinline__ int64 first_item() {
  return static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ int64 stride_of_items() {
  return static_cast<int64>(gridDim.x) * blockDim.x;
}

// out: a number for each thread.
extern "C" __global__ void read_all(const float* __restrict__ values, int64 n,
                                    float* __restrict__ out) {
  const Quad* const from = reinterpret_cast<const Quad*>(values);
  float sum = 0;
#pragma unroll 4
  for (int64 i = first_item(); i < n; i += stride_of_items()) {
    const Quad quad = from[i];
    sum += (quad.x[0] + quad.x[1]) + (quad.x[2] + quad.x[3]);
  }
  out[first_item()] = sum;
}

extern "C" __global__ void copy_all(const float* __restrict__ values, int64 n,
                                    float* __restrict__ out) {
  const Quad* const from = reinterpret_cast<const Quad*>(values);
  Quad* const to = reinterpret_cast<Quad*>(out);
#pragma unroll 4
  for (int64 i = first_item(); i < n; i += stride_of_items()) to[i] = from[i];
}

extern "C" __global__ void gather(const int* __restrict__ indices, int64 n,
                                  const Number* __restrict__ from, Number* __restrict__ out) {
  Number sum = 0;
#pragma unroll 4
  for (int64 i = first_item(); i < n; i += stride_of_items()) sum += from[indices[i]];
  out[first_item()] = sum;
}

extern "C" __global__ void add_to_memory(const int* __restrict__ indices, int64 n,
                                         Number* __restrict__ to) {
#pragma unroll 4
  for (int64 i = first_item(); i < n; i += stride_of_items()) {
    atomicAdd(to + indices[i], Number(1));
  }
}

// Every block adds to an array of its own, then to the one of all.
extern "C" __global__ void add_to_shared(const int* __restrict__ indices, int64 n,
                                         Number* __restrict__ to) {
  __shared__ Number sums[kSharedNumbers];
  for (int j = threadIdx.x; j < kSharedNumbers; j += blockDim.x) sums[j] = 0;
  __syncthreads();
#pragma unroll 4
  for (int64 i = first_item(); i < n; i += stride_of_items()) {
    atomicAdd(sums + indices[i] % kSharedNumbers, Number(1));
  }
  __syncthreads();
  for (int j = threadIdx.x; j < kSharedNumbers; j += blockDim.x) atomicAdd(to + j, sums[j]);
}

// Does nothing: what is left is the cost of a launch.
extern "C" __global__ void nothing([[maybe_unused]] int64 n) {}

}  // namespace snapml::kernels
