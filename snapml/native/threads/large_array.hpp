// Arrays that are written all over soon after they are made.
//
// Their pages come one by one as they are first written to: half a nanosecond for each byte, as
// much as a pass over them. Linux hands out 512 of them at once to whoever asks for large ones.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "threads/parallel.hpp"

namespace snapml::native {

constexpr std::size_t kLargePage = std::size_t{1} << 21;

inline std::align_val_t large_alignment(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  return std::align_val_t{bytes < 2 * kLargePage ? kLine : kLargePage};
}

struct LargeDelete {
  std::size_t bytes = 0;

  void operator()(void* memory) const { ::operator delete(memory, large_alignment(bytes)); }
};

template <class T>
using LargeArray = std::unique_ptr<T[], LargeDelete>;

// Of unset items.
template <class T>
LargeArray<T> large_array(std::size_t size) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::size_t bytes = size * sizeof(T);
  void* const memory = ::operator new(bytes, large_alignment(bytes));
#ifdef __linux__
  // Who gets none has small ones.
  if (bytes >= 2 * kLargePage) (void)madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return {static_cast<T*>(memory), LargeDelete{bytes}};
}

// The same; where all threads are to write to it side by side, each asks for other pages first: two
// who ask for the same one are both given one, and one of them is thrown away.
template <class T>
LargeArray<T> large_array(std::size_t size, ThreadPool& pool) {
  LargeArray<T> array = large_array<T>(size);
  const auto n_pages = static_cast<int64>(size * sizeof(T) / kLargePage);
  if (pool.size() == 1 || n_pages < 2) return array;
  auto* const bytes = reinterpret_cast<volatile unsigned char*>(array.get());
  run_parts(pool, n_pages, 1, [&](int, Range pages) {
    bytes[static_cast<std::size_t>(pages.begin) * kLargePage] = 0;
  });
  return array;
}

}  // namespace snapml::native
