// What one shard of a dual problem is made of, as plain pointers into arrays that Python owns.
#pragma once

#include "snapml/losses.hpp"

namespace snapml::native {

// The intercept is one more column, of constant value tau (0: no intercept), kept last in the
// shared vector. Where it is not penalised, `offset` is the multiplier of sum(beta) = 0.
struct Intercept {
  double tau;
  double offset;
};

template <class T>
struct DualState {
  using Real = T;
  const T* labels;
  const T* row_weights;  // null: every row has `weight`
  T weight;
  const double* row_offsets;  // o_i, added to the margins; null: none
  const T* row_norms_sq;      // null: computed from the row (implicit constants make that cheap)
  T* duals;
  T* shared;  // n_cols + 1 numbers
  Intercept intercept;

  double offset_of(int64 i) const { return row_offsets == nullptr ? 0.0 : row_offsets[i]; }
  T weight_of(int64 i) const { return row_weights == nullptr ? weight : row_weights[i]; }
};

}  // namespace snapml::native
