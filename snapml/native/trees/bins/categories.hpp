// Splits of columns whose values are categories: codes 0, 1, ... without an order of their own.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "trees/bins/binning.hpp"

namespace snapml::native::trees {

enum class Side : uint8 { kRight, kLeft, kAbsent };

// Of a column, beside missing values.
constexpr int kMostCategories = 255;

// Where the categories of each bin go.
using CategorySides = std::array<Side, kMostCategories + 1>;

constexpr int kCodeBytes = 32;
// The codes that go left, as bits.
using CodeSet = std::array<uint8, kCodeBytes>;

// Bins up to `last_left` go left, the others of `order` go right.
inline std::shared_ptr<const CategorySides> category_sides(const std::vector<int>& order,
                                                           int last_left) {
  auto sides = std::make_shared<CategorySides>();
  sides->fill(Side::kAbsent);
  Side side = Side::kLeft;
  for (const int bin : order) {
    (*sides)[static_cast<std::size_t>(bin)] = side;
    if (bin == last_left) side = Side::kRight;
  }
  return sides;
}

// Codes that no row of the node has go where missing values go.
inline std::shared_ptr<const CodeSet> left_codes(const CategorySides& sides, const ColumnBins& bins,
                                                 int n_codes, bool missing_left) {
  std::array<bool, 8 * kCodeBytes> is_left;
  is_left.fill(missing_left);
  for (std::size_t bin = 0; bin < bins.upper.size(); ++bin) {
    if (sides[bin] == Side::kAbsent) continue;
    is_left[static_cast<std::size_t>(bins.upper[bin])] = sides[bin] == Side::kLeft;
  }
  auto codes = std::make_shared<CodeSet>();
  codes->fill(0);
  for (std::size_t code = 0; code < static_cast<std::size_t>(n_codes); ++code) {
    if (is_left[code]) (*codes)[code / 8] |= static_cast<uint8>(1u << (code % 8));
  }
  return codes;
}

// Whether the values of a column are codes below n_codes that a set can hold, a bin for each.
inline bool has_codes(const ColumnBins& bins, int n_codes) {
  if (!bins.is_listed || n_codes < 0 || n_codes > kMostCategories) return false;
  for (const float x : bins.upper) {
    if (!(x >= 0 && x < static_cast<float>(n_codes)) || x != std::floor(x)) return false;
  }
  return true;
}

// The nodes of a tree of which some are split by sets: their thresholds are numbers of sets.
struct CodeNodes {
  const int64 *left, *right, *column;
  const double* threshold;
  const uint8 *missing_left, *left_codes;
  const int32* n_codes;  // of each column; 0: numbers

  bool is_left(int64 node, float x) const {
    const int32 most = n_codes[column[node]];
    const bool is_code = most > 0;
    if (std::isnan(x) || (is_code && !(x >= 0 && x < static_cast<float>(most)))) {
      return missing_left[node] != 0;
    }
    if (!is_code) return static_cast<double>(x) <= threshold[node];
    const auto code = static_cast<int64>(x);
    const auto set = static_cast<int64>(threshold[node]);
    return (left_codes[set * kCodeBytes + code / 8] >> (code % 8) & 1) != 0;
  }
};

// Writes the leaf of each row.
template <class Real>
void find_leaves_of_codes(const DenseView<Real>& rows, const CodeNodes& nodes, int64* leaves,
                          ThreadPool& pool, Interrupt& interrupt) {
  pool.run([&](int worker) {
    const Range own = share(rows.n_rows, pool.size(), worker);
    for (int64 i = own.begin; i < own.end && !interrupt.requested(); ++i) {
      if (i % 1024 == 0) interrupt.poll();
      const Real* row = rows.values + i * rows.row_stride;
      int64 at = 0;
      while (nodes.left[at] >= 0) {
        const auto x = static_cast<float>(row[nodes.column[at] * rows.col_stride]);
        at = nodes.is_left(at, x) ? nodes.left[at] : nodes.right[at];
      }
      leaves[i] = at;
    }
  });
}

}  // namespace snapml::native::trees
