// The shared vector of the descent, which many rows at once read and change.
#pragma once

#include "snapml/config.hpp"

namespace snapml::kernels {

// Floating point: sums differ in rounding where their order does. Reads bypass the first cache,
// which the additions of other multiprocessors do not reach.
template <class Real>
struct FloatVector {
  Real* entries;

  __device__ Real load(int64 j) const { return __ldcg(entries + j); }
  __device__ void add(int64 j, double scale, Real entry) const {
    atomicAdd(entries + j, static_cast<Real>(scale) * entry);
  }
};

// Adds a signed number to a word; in two's complement that is the addition of unsigned ones.
inline __device__ void add_word(int64* word, int64 x) {
  atomicAdd(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(x));
}

// Fixed point: integers add up to the same sum in any order. Between two launches, or two meetings
// of the grid, whose fences empty the first cache, all threads either read it or change it, so that
// this cache may keep what the rows of a multiprocessor have in common.
template <class Real>
struct FixedVector {
  int64* words;
  double unit;      // value of 1 in a word: a power of two, so that nothing but `llrint` rounds
  double per_unit;  // 1 / unit

  __device__ Real load(int64 j) const {
    return static_cast<Real>(static_cast<double>(words[j]) * unit);
  }
  __device__ void add(int64 j, double scale, Real entry) const {
    add_word(words + j, ::llrint(scale * static_cast<double>(entry) * per_unit));
  }
};

}  // namespace snapml::kernels
