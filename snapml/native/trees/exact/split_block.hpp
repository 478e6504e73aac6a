// Positions between rows, collected in blocks whose worths are computed together.
#pragma once

#include <limits>

#include "snapml/config.hpp"
#include "threads/clones.hpp"

namespace snapml::native::trees {

constexpr double kNoWorth = -std::numeric_limits<double>::infinity();

// Weights of the left side of some positions, and what their worth is computed from.
struct SplitBlock {
  static constexpr int kSize = 256;
  int size = 0;
  int64 position[kSize];
  double weight[kSize], left[kSize], right[kSize], worth[kSize];
};

SNAPML_CLONES inline void gini_worths(SplitBlock& block, double weight) {
  for (int i = 0; i < block.size; ++i) {
    const double wl = block.weight[i], wr = weight - wl;
    const double left = 1.0 - block.left[i] / (wl * wl), right = 1.0 - block.right[i] / (wr * wr);
    block.worth[i] = -wr * right - wl * left;
  }
}

// From counts of the second class on the left side to sums of squares on both.
SNAPML_CLONES inline void pair_squares(SplitBlock& block, double all_zeros, double all_ones) {
  for (int i = 0; i < block.size; ++i) {
    const double ones = block.left[i], zeros = block.weight[i] - ones;
    const double right_ones = all_ones - ones, right_zeros = all_zeros - zeros;
    block.left[i] = zeros * zeros + ones * ones;
    block.right[i] = right_zeros * right_zeros + right_ones * right_ones;
  }
}

SNAPML_CLONES inline void squares_worths(SplitBlock& block, double weight, double sum) {
  for (int i = 0; i < block.size; ++i) {
    const double wl = block.weight[i], wr = weight - wl;
    const double left = block.left[i], right = sum - left;
    block.worth[i] = left * left / wl + right * right / wr;
  }
}

}  // namespace snapml::native::trees
