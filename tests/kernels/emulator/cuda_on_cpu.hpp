// The part of CUDA that the kernels use, for a C++ compiler: what nvcc knows by itself.
//
// Every CUDA thread is a fiber. Barriers, shuffles and votes are rendezvous: a thread waits in
// `meet` until all threads that must take part are there, and emulator.cpp says so where they
// cannot be. Include nothing here that emulator.cpp includes too, apart from C headers: under TSan
// only this side is instrumented, and the linker keeps one copy of a template.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// A worker runs one block at a time, so that a variable of its own is one of the block. ASan sees
// the end of a plain static array only, and there is one worker then.
#ifdef EMULATOR_ASAN
#define __shared__ static
#else
#define __shared__ static thread_local
#endif

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

namespace emulator {

enum class Kind { barrier, warp_barrier, shuffle, vote };

struct Place {
  const char* file;
  int line;
};

// One launch: its shape, and in which order threads run.
struct Launch {
  dim3 grid, block;
  std::uint64_t shared_bytes;
  std::uint64_t seed;  // 0: in turn; else at random
  int n_workers;       // blocks that run at once
  int is_cooperative;  // whether that is all of them, so that they may wait for each other
};

struct Position {
  dim3 thread, block;
};

const Position& here();
const Launch& launch();
void* dynamic_shared();

// Waits for the other threads. Returns the value of lane `source` of a shuffle, or the votes.
std::uint64_t meet(Kind kind, unsigned mask, std::uint64_t value, int source, Place place);

// Orders memory among all threads. CUDA's fence does so for threads that then see each other's
// atomics; here for all that call it.
void fence();

// A thread has found that it must wait for another block.
void pause(Place place);

// Begins a copy, which is made as late as it may be: by `finish_copies` of the same thread.
void begin_copy(void* to, const void* from, std::size_t bytes);
void finish_copies(void (*copy)(void* to, const void* from, std::size_t bytes));

// Runs `body(args)` once for every thread. Returns what went wrong, or null.
const char* run(const Launch& launch, void (*body)(void** args), void** args);

inline int lane() {
  const dim3 t = here().thread, n = launch().block;
  return static_cast<int>((t.x + n.x * (t.y + n.y * t.z)) % 32);
}

// `inside` says whether `source` lies in this lane's segment of `width` lanes.
template <class T>
T shuffle(unsigned mask, T value, int source, bool inside, Place place) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = meet(Kind::shuffle, mask, bits, inside ? source : lane(), place);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Parameter types as letters: 'p' before what a pointer points to, then kind and size.
template <class T>
constexpr void append_type(char*& out) {
  if constexpr (std::is_pointer_v<T>) {
    *out++ = 'p';
    append_type<std::remove_cv_t<std::remove_pointer_t<T>>>(out);
  } else {
    *out++ = std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 'i' : 'u';
    *out++ = static_cast<char>('0' + sizeof(T));
  }
}

template <class... Args>
const char* signature(void (*)(Args...)) {
  static char text[4 * sizeof...(Args) + 1];
  char* out = text;
  (append_type<Args>(out), ...);
  *out = 0;
  return text;
}

template <class... Args, std::size_t... I>
void call(void (*kernel)(Args...), void** args, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_cv_t<Args>*>(args[I])...);
}

template <class... Args>
void call(void (*kernel)(Args...), void** args) {
  call(kernel, args, std::index_sequence_for<Args...>{});
}

}  // namespace emulator

#define EMULATED_KERNEL(name)                                                                 \
  extern "C" const char* signature_##name() { return emulator::signature(name); }             \
  extern "C" const char* emulate_##name(const emulator::Launch* launch, void** args) {        \
    return emulator::run(*launch, [](void** values) { emulator::call(name, values); }, args); \
  }

#define threadIdx (emulator::here().thread)
#define blockIdx (emulator::here().block)
#define blockDim (emulator::launch().block)
#define gridDim (emulator::launch().grid)

// A default argument is evaluated where the function is called, but not if it is part of another.
#define EMULATOR_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(EMULATOR_PLACE) {
  emulator::meet(emulator::Kind::barrier, ~0u, 0, 0, {file, line});
}
inline void __syncwarp(unsigned mask = ~0u, EMULATOR_PLACE) {
  emulator::meet(emulator::Kind::warp_barrier, mask, 0, 0, {file, line});
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMULATOR_PLACE) {
  const int first = emulator::lane() & -width;
  return emulator::shuffle(mask, value, first + (source & (width - 1)), true, {file, line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int flip, int width = 32, EMULATOR_PLACE) {
  const int source = emulator::lane() ^ flip, end = (emulator::lane() & -width) + width;
  return emulator::shuffle(mask, value, source, source < end, {file, line});
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATOR_PLACE) {
  const int source = emulator::lane() + static_cast<int>(delta);
  return emulator::shuffle(mask, value, source, source < (emulator::lane() & -width) + width,
                           {file, line});
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATOR_PLACE) {
  const int source = emulator::lane() - static_cast<int>(delta);
  return emulator::shuffle(mask, value, source, source >= (emulator::lane() & -width),
                           {file, line});
}
inline unsigned __ballot_sync(unsigned mask, int vote, EMULATOR_PLACE) {
  return static_cast<unsigned>(
      emulator::meet(emulator::Kind::vote, mask, vote != 0, 0, {file, line}));
}
inline int __any_sync(unsigned mask, int vote, EMULATOR_PLACE) {
  return __ballot_sync(mask, vote, file, line) != 0;
}
inline int __all_sync(unsigned mask, int vote, EMULATOR_PLACE) {
  return __ballot_sync(mask, vote, file, line) == mask;
}

inline void __threadfence() { emulator::fence(); }
inline void __nanosleep(unsigned, EMULATOR_PLACE) { emulator::pause({file, line}); }

template <class T>
T __ldg(const T* p) {
  return *p;
}
// Reads and writes that bypass the first cache: what a kernel uses where it races on purpose.
template <class T>
T __ldcg(const T* p) {
  T value;
  __atomic_load(const_cast<T*>(p), &value, __ATOMIC_RELAXED);
  return value;
}
template <class T>
void __stcg(T* p, T value) {
  __atomic_store(p, &value, __ATOMIC_RELAXED);
}
// Returns the old value; T is float, double, int, unsigned or unsigned long long.
template <class T>
T atomicAdd(T* p, std::common_type_t<T> value) {
  T old = __ldcg(p), sum = old + value;
  while (!__atomic_compare_exchange(p, &old, &sum, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    sum = old + value;
  }
  return old;
}
