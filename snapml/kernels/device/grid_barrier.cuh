// A meeting of all blocks of a launch. It needs all of them on the device at once, which a
// cooperative launch guarantees (Kernel.is_cooperative).
#pragma once

#include "snapml/config.hpp"

namespace snapml::kernels {

// The count starts at zero and never goes back, so that one word serves a whole launch.
class GridBarrier {
 public:
  __device__ explicit GridBarrier(uint64* arrivals)
      : arrivals_(reinterpret_cast<unsigned long long*>(arrivals)) {}

  // What any thread of the grid wrote before is seen by all threads after.
  __device__ void wait() {
    expected_ += static_cast<unsigned long long>(gridDim.x);
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(arrivals_, 1ull);
      // An addition reads from where additions are made; a plain read could be hoisted.
      while (atomicAdd(arrivals_, 0ull) < expected_) __nanosleep(32);
      __threadfence();
    }
    __syncthreads();
  }

 private:
  unsigned long long* arrivals_;
  unsigned long long expected_ = 0;
};

}  // namespace snapml::kernels
