// Some numbers in one register where the processor has registers of 512 bits, else in two.
//
// GCC keeps a vector that is wider than the registers in memory, and what a loop adds to it goes
// there and back in halves, through others: three to thirteen times as long. So each kernel is
// compiled for vectors of one part, and of two.
#pragma once

#include <cstring>

#include "snapml/config.hpp"
#include "threads/clones.hpp"

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__)
#define SNAPML_HAS_WIDE_BUILD 1
#define SNAPML_WIDE __attribute__((target("arch=x86-64-v4")))
#define SNAPML_NARROW_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define SNAPML_NARROW_CLONES
#endif

namespace snapml::native {

// `size` numbers in some parts.
template <class T, int size, int parts>
struct Wide {
  static constexpr int kPart = size / parts;
  typedef T Part __attribute__((vector_size(kPart * sizeof(T))));

  Part part[parts];

  // From neighbouring numbers, which are widened where they are of another type.
  template <class Stored>
  [[gnu::always_inline]] static Wide load(const Stored* from) {
    Wide to;
    for (int p = 0; p < parts; ++p) {
      if constexpr (sizeof(Stored) == sizeof(T)) {
        std::memcpy(&to.part[p], from + p * kPart, sizeof(Part));
      } else {
        typedef Stored Narrow __attribute__((vector_size(kPart * sizeof(Stored))));
        Narrow narrow;
        std::memcpy(&narrow, from + p * kPart, sizeof narrow);
        to.part[p] = __builtin_convertvector(narrow, Part);
      }
    }
    return to;
  }

  [[gnu::always_inline]] void store(T* to) const {
    for (int p = 0; p < parts; ++p) std::memcpy(to + p * kPart, &part[p], sizeof(Part));
  }

  // this += factor * other.
  [[gnu::always_inline]] void add(T factor, const Wide& other) {
    for (int p = 0; p < parts; ++p) part[p] += factor * other.part[p];
  }
  [[gnu::always_inline]] void add(const Wide& factor, const Wide& other) {
    for (int p = 0; p < parts; ++p) part[p] += factor.part[p] * other.part[p];
  }

  // this -= factor * other.
  [[gnu::always_inline]] void subtract(T factor, const Wide& other) {
    for (int p = 0; p < parts; ++p) part[p] -= factor * other.part[p];
  }

  [[gnu::always_inline]] void operator+=(const Wide& other) {
    for (int p = 0; p < parts; ++p) part[p] += other.part[p];
  }
  [[gnu::always_inline]] void operator*=(const Wide& other) {
    for (int p = 0; p < parts; ++p) part[p] *= other.part[p];
  }

  [[gnu::always_inline]] T operator[](int i) const { return part[i / kPart][i % kPart]; }
};

// Eight float64 numbers.
inline constexpr int kEight = 8;
template <int parts>
using WideEight = Wide<double, kEight, parts>;

// The sum of eight numbers, the same whatever they lie in.
template <class Numbers>
[[gnu::always_inline]] inline double sum_of_lanes(const Numbers& s) {
  return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

// Calls Kernel::run<parts>(arguments), which is to be inlined here.
template <class Kernel, class... Arguments>
SNAPML_NARROW_CLONES auto run_in_two(Arguments... arguments) {
  return Kernel::template run<2>(arguments...);
}

#ifdef SNAPML_HAS_WIDE_BUILD

inline const bool kHasWideRegisters = __builtin_cpu_supports("x86-64-v4");

template <class Kernel, class... Arguments>
SNAPML_WIDE auto run_in_one(Arguments... arguments) {
  return Kernel::template run<1>(arguments...);
}

template <class Kernel, class... Arguments>
auto run_wide(Arguments... arguments) {
  if (kHasWideRegisters) return run_in_one<Kernel>(arguments...);
  return run_in_two<Kernel>(arguments...);
}

#else

template <class Kernel, class... Arguments>
auto run_wide(Arguments... arguments) {
  return run_in_two<Kernel>(arguments...);
}

#endif

}  // namespace snapml::native
