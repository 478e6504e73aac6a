// In which order a node looks at columns: drawn as scikit-learn draws them, so that the same
// random_state gives the same tree where splits are worth the same.
//
// Columns are drawn without replacement (Fisher and Yates) until max_features of them were, or as
// many as it takes to find one that is not constant. What was constant in a node is not looked at
// in its children, but still drawn.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "snapml/config.hpp"

namespace snapml::native::trees {

class ColumnDraws {
 public:
  // All columns, in an order that says nothing.
  explicit ColumnDraws(int64 n_cols) : ColumnDraws(n_cols, n_cols, 1) { is_random_ = false; }

  // `seed` in [0, 2^31 - 1), of which 0 stands for 1.
  ColumnDraws(int64 n_cols, int64 max_features, uint32 seed)
      : max_features_(max_features),
        state_(seed == 0 ? 1 : seed),
        columns_(static_cast<std::size_t>(n_cols)),
        constants_(columns_.size()) {
    for (std::size_t j = 0; j < columns_.size(); ++j) columns_[j] = static_cast<int64>(j);
  }

  // Writes the columns that a node looks at; returns how many are constant in it. `n_known` of
  // them were so in its parent.
  template <class IsConstant>
  int64 draw(int64 n_known, IsConstant is_constant, std::vector<int64>& visited) {
    visited.clear();
    int64* const columns = columns_.data();
    // Parts of the list: constants drawn, known constants, new constants, those still to be drawn,
    // and from `last` on those that are visited.
    int64 last = n_cols(), n_drawn = 0, n_found = 0;
    for (int64 n = 0; last > n_known + n_found && (n < max_features_ || n <= n_found + n_drawn);
         ++n) {
      int64 at =
          n_drawn + static_cast<int64>(next() % static_cast<uint32>(last - n_found - n_drawn));
      if (at < n_known) {
        std::swap(columns[n_drawn++], columns[at]);
        continue;
      }
      at += n_found;
      if (is_constant(columns[at])) {
        std::swap(columns[at], columns[n_known + n_found++]);
        continue;
      }
      std::swap(columns[--last], columns[at]);
      visited.push_back(columns[last]);
    }
    std::copy(constants_.begin(), constants_.begin() + n_known, columns);
    std::copy(columns + n_known, columns + n_known + n_found, constants_.begin() + n_known);
    return n_known + n_found;
  }

  // The columns that are constant in the node of the last draw.
  const int64* constants() const { return constants_.data(); }
  int64 n_cols() const { return static_cast<int64>(columns_.size()); }
  // The columns; the constant ones first.
  const std::vector<int64>& columns() const { return columns_; }

 private:
  // Marsaglia's xorshift of 32 bits, cut to 31.
  uint32 next() {
    if (!is_random_) return 0;
    if (state_ == 0) state_ = 1;
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_ % (uint32{1} << 31);
  }

  bool is_random_ = true;
  int64 max_features_;
  uint32 state_;
  std::vector<int64> columns_, constants_;
};

}  // namespace snapml::native::trees
