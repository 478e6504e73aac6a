// Kernels for the emulator's own tests: some right, most wrong in one way each.
#include "device/async_copy.cuh"
#include "device/grid_barrier.cuh"
#include "snapml/config.hpp"

using snapml::int64;
using snapml::uint64;
using snapml::kernels::copy_async;
using snapml::kernels::GridBarrier;
using snapml::kernels::wait_for_copies;

// Reverses the numbers of a block.
extern "C" __global__ void reversed_block(const double* in, double* out) {
  extern __shared__ double tile[];
  const unsigned i = threadIdx.x;
  tile[i] = in[blockIdx.x * blockDim.x + i];
#ifndef WITHOUT_BARRIER
  __syncthreads();
#endif
  out[blockIdx.x * blockDim.x + i] = tile[blockDim.x - 1 - i];
}

// Sums of the numbers of warps, in every lane.
extern "C" __global__ void warp_sums(const double* in, double* out) {
  double sum = in[threadIdx.x];
  for (int flip = 16; flip > 0; flip /= 2) sum += __shfl_xor_sync(~0u, sum, flip);
  out[threadIdx.x] = sum;
}

extern "C" __global__ void shuffles(const int* in, int* out) {
  const int lane = static_cast<int>(threadIdx.x), n = 32;
  out[lane] = __shfl_sync(~0u, in[lane], 3);
  out[n + lane] = __shfl_down_sync(~0u, in[lane], 1, 8);
  out[2 * n + lane] = __shfl_up_sync(~0u, in[lane], 2, 16);
  out[3 * n + lane] = __shfl_xor_sync(~0u, in[lane], 4, 8);
  out[4 * n + lane] = static_cast<int>(__ballot_sync(~0u, in[lane] % 3 == 0));
  out[5 * n + lane] = __any_sync(~0u, in[lane] > 1000);
}

// Lanes of a warp exchange numbers through shared memory.
extern "C" __global__ void neighbours(const double* in, double* out) {
  __shared__ double tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
#ifndef WITHOUT_BARRIER
  __syncwarp();
#endif
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

extern "C" __global__ void counts(double* doubles, float* floats, int* ints) {
  atomicAdd(doubles, 1.0);
  atomicAdd(floats, 1.0f);
  atomicAdd(ints, 1);
}

extern "C" __global__ void racy_count(double* total, double*) { total[0] += 1; }

extern "C" __global__ void racy_read(double* total, double* seen) {
  const double now = total[0];
  atomicAdd(total, 1.0);
  seen[blockIdx.x * blockDim.x + threadIdx.x] = now;
}

extern "C" __global__ void marked_read(double* total, double* seen) {
  const double now = __ldcg(total);
  atomicAdd(total, 1.0);
  seen[blockIdx.x * blockDim.x + threadIdx.x] = now;
}

extern "C" __global__ void barrier_for_some() {
  if (threadIdx.x < 40) __syncthreads();
}

extern "C" __global__ void two_barriers() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

extern "C" __global__ void absent_lane(int* out) {
  if (threadIdx.x == 5) return;
  out[threadIdx.x] = __shfl_sync(~0u, out[threadIdx.x], 0);
}

extern "C" __global__ void source_outside_mask(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xffffu, out[threadIdx.x], 20);
}

extern "C" __global__ void caller_outside_mask(int* out) {
  out[threadIdx.x] = __shfl_sync(0xffffu, out[threadIdx.x], 0);
}

extern "C" __global__ void shared_overflow(const double*, double* out) {
  extern __shared__ double tile[];
  tile[threadIdx.x + 1] = 1;
  out[threadIdx.x] = tile[threadIdx.x + 1];
}

extern "C" __global__ void array_overflow(const double* in, double* out) {
  __shared__ double tile[32];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

extern "C" __global__ void scaled(double* out, int64 factor) {
  out[threadIdx.x] *= static_cast<double>(factor);
}

extern "C" __global__ void uninitialised(double* out) {
  extern __shared__ double tile[];
  out[threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void positions(int64* out) {
  const dim3 t = threadIdx, b = blockIdx;
  const int64 thread = t.x + blockDim.x * (t.y + int64(blockDim.y) * t.z);
  const int64 block = b.x + gridDim.x * (b.y + int64(gridDim.y) * b.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = 1000 * block + thread;
}

// Every block writes a number, and reads that of its neighbour after all have met.
extern "C" __global__ void grid_neighbours(double* numbers, double* out) {
  uint64* const arrivals = reinterpret_cast<uint64*>(numbers + gridDim.x);
  if (threadIdx.x == 0) numbers[blockIdx.x] = 1.0 + blockIdx.x;
  GridBarrier barrier(arrivals);
#ifndef WITHOUT_BARRIER
  barrier.wait();
#endif
  out[blockIdx.x * blockDim.x + threadIdx.x] = numbers[(blockIdx.x + 1) % gridDim.x];
}

extern "C" __global__ void grid_absent(double* numbers, double*) {
  if (blockIdx.x == 1) return;
  GridBarrier(reinterpret_cast<uint64*>(numbers)).wait();
}

extern "C" __global__ void late_copy(const float* in, float* out) {
  extern __shared__ float tile[];
  copy_async<4>(tile + threadIdx.x, in + threadIdx.x);
#ifndef WITHOUT_BARRIER
  wait_for_copies();
#endif
  out[threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void misaligned_copy(const float* in, float* out) {
  extern __shared__ float tile[];
  copy_async<16>(tile, in + 1);
  wait_for_copies();
  out[0] = tile[0];
}
