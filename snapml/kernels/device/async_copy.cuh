// Copies from global to shared memory that run while their threads do something else.
//
// Included by .cu files only, so that the emulator can put its own version in its place.
#pragma once

#include "snapml/config.hpp"

namespace snapml::kernels {

// Begins to copy kBytes: 4, 8 or 16, to which both addresses are aligned. Turing copies at once.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* to, const void* from) {
  if constexpr (__CUDA_ARCH__ < 800) {
    struct alignas(kBytes) Word {
      int part[kBytes / 4];
    };
    *static_cast<Word*>(to) = *static_cast<const Word*>(from);
  } else {
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (kBytes == 16) {  // past the first cache: nobody reads them again from there
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(kBytes)
                   : "memory");
    }
  }
}

// Waits for what this thread has begun to copy; for the other threads' a barrier is needed as well.
__device__ __forceinline__ void wait_for_copies() {
  if constexpr (__CUDA_ARCH__ >= 800) asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace snapml::kernels
