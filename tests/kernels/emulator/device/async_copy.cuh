// In place of the kernels' file of this name: a copy is made when it is waited for, so that a wait
// that is missing gives wrong numbers.
#pragma once

#include "cuda_on_cpu.hpp"

namespace snapml::kernels {

template <int kBytes>
void copy_async(void* to, const void* from) {
  emulator::begin_copy(to, from, kBytes);
}

inline void wait_for_copies() {
  emulator::finish_copies(
      [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); });
}

}  // namespace snapml::kernels
