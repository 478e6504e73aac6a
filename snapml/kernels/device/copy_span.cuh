// Numbers that lie together, copied by a group of threads.
#pragma once

#include "snapml/config.hpp"

namespace snapml::kernels {

// Begins to copy `count` numbers, 16 bytes at a time where both ends are aligned to them.
template <class T>
__device__ __forceinline__ void copy_span(T* to, const T* from, int64 count, int thread,
                                          int n_threads) {
  constexpr int kTogether = 16 / sizeof(T);
  const uint64 places = reinterpret_cast<uint64>(to) | reinterpret_cast<uint64>(from);
  const int64 n_words = places % 16 == 0 ? count / kTogether : 0;
  for (int64 k = thread; k < n_words; k += n_threads) {
    copy_async<16>(to + k * kTogether, from + k * kTogether);
  }
  for (int64 k = n_words * kTogether + thread; k < count; k += n_threads) {
    copy_async<sizeof(T)>(to + k, from + k);
  }
}

}  // namespace snapml::kernels
