// The leaf of each row: a few rows walk down together, without branches, so that their reads
// overlap.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "../parallel.hpp"
#include "snapml/views.hpp"

namespace snapml::native::trees {

// A node in 12 bytes; its children are side by side. A row goes to the first one if its number,
// with the sign changed where `column` has the highest bit, is at most the threshold. Missing
// values go to the second one. A leaf is its own second child.
struct WalkNode {
  float threshold;
  uint32 column;
  int32 first;
};

// Nodes level by level, and the number that each came with.
struct WalkTree {
  std::vector<WalkNode> nodes;
  std::vector<int32> ids;
};

constexpr uint32 kSignBit = 0x80000000u;
constexpr int kGroup = 8;
// Levels between two looks at whether all rows of a group are in leaves.
constexpr int kLevels = 4;
// Groups that a row is asked for ahead of its walk, if its entries take no more bytes than that.
constexpr int64 kGroupsAhead = 4, kMostAhead = 512;

// The largest float32 at most x: a float32 is at most x if and only if it is at most that.
inline float round_down(double x) {
  const auto nearest = static_cast<float>(x);
  return static_cast<double>(nearest) > x
             ? std::nextafter(nearest, -std::numeric_limits<float>::infinity())
             : nearest;
}

// A float32 is above `threshold`, as all are above NaN, if and only if its negative is at most
// that; NaN if none is.
inline float negated_bound(float threshold) {
  if (std::isnan(threshold)) return std::numeric_limits<float>::infinity();
  return std::isinf(threshold) && threshold > 0
             ? std::numeric_limits<float>::quiet_NaN()
             : std::nextafter(-threshold, -std::numeric_limits<float>::infinity());
}

// The nodes of scikit-learn's arrays, whose children and columns the caller has checked. Where
// missing values go left, the right child is the first one. Nodes whose second child takes all
// rows are passed over: a bound of NaN is a leaf's.
inline WalkTree walk_tree(const int64* left, const int64* right, const int64* column,
                          const double* threshold, const uint8* missing_left, int64 n_nodes) {
  WalkTree tree;
  tree.ids.push_back(0);
  for (std::size_t place = 0; place < tree.ids.size(); ++place) {
    int32 id = tree.ids[place];
    const auto bound_of_node = [&] {
      const float bound = round_down(threshold[id]);
      return missing_left[id] != 0 ? negated_bound(bound) : bound;
    };
    while (left[id] >= 0 && std::isnan(bound_of_node())) {
      id = static_cast<int32>(missing_left[id] != 0 ? left[id] : right[id]);
    }
    tree.ids[place] = id;
    if (left[id] < 0) {
      const float none = std::numeric_limits<float>::quiet_NaN();
      tree.nodes.push_back({none, 0, static_cast<int32>(place) - 1});
      continue;
    }
    const bool is_swapped = missing_left[id] != 0;
    tree.nodes.push_back({bound_of_node(),
                          static_cast<uint32>(column[id]) | (is_swapped ? kSignBit : 0u),
                          static_cast<int32>(tree.ids.size())});
    tree.ids.push_back(static_cast<int32>(is_swapped ? right[id] : left[id]));
    tree.ids.push_back(static_cast<int32>(is_swapped ? left[id] : right[id]));
    if (tree.ids.size() > static_cast<std::size_t>(n_nodes)) {
      throw std::invalid_argument("nodes: expected one parent of each");
    }
  }
  return tree;
}

template <class Real>
int32 step(const WalkNode& node, const Real* row, int64 col_stride) {
  auto x = static_cast<float>(row[(node.column & ~kSignBit) * col_stride]);
  uint32 bits;
  std::memcpy(&bits, &x, sizeof bits);
  bits ^= node.column & kSignBit;
  std::memcpy(&x, &bits, sizeof bits);
  return node.first + (x <= node.threshold ? 0 : 1);
}

// Writes the leaves of kRows rows from `first` on.
template <int kRows, class Real>
void walk(const DenseView<Real>& rows, int64 first, const WalkTree& tree, int64* leaves) {
  const Real* const from = rows.values + first * rows.row_stride;
  const WalkNode* const nodes = tree.nodes.data();
  int32 at[kRows] = {};
  for (bool is_open = true; is_open;) {
    for (int level = 0; level < kLevels; ++level) {
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        at[i] = step(nodes[at[i]], from + i * rows.row_stride, rows.col_stride);
      }
    }
    is_open = false;
    for (int i = 0; i < kRows; ++i) is_open |= !std::isnan(nodes[at[i]].threshold);
  }
  for (int i = 0; i < kRows; ++i) leaves[first + i] = tree.ids[static_cast<std::size_t>(at[i])];
}

// Writes the leaf of each row.
template <class Real>
void find_leaves(const DenseView<Real>& rows, const WalkTree& tree, int64* leaves, ThreadPool& pool,
                 Interrupt& interrupt) {
  const int64 row_bytes = rows.n_cols * static_cast<int64>(sizeof(Real));
  const bool is_asked_for = rows.col_stride == 1 && row_bytes <= kMostAhead;
  pool.run([&](int worker) {
    const Range own = share(rows.n_rows, pool.size(), worker);
    int64 begin = own.begin;
    for (; begin + kGroup <= own.end && !interrupt.requested(); begin += kGroup) {
      if (begin / kGroup % 128 == 0) interrupt.poll(worker);
      const int64 ahead = begin + kGroupsAhead * kGroup;
      for (int64 i = ahead; is_asked_for && i < std::min(ahead + kGroup, own.end); ++i) {
        const auto* row = reinterpret_cast<const char*>(rows.values + i * rows.row_stride);
        for (int64 byte = 0; byte < row_bytes; byte += 64) __builtin_prefetch(row + byte);
      }
      walk<kGroup>(rows, begin, tree, leaves);
    }
    for (; begin < own.end && !interrupt.requested(); ++begin) walk<1>(rows, begin, tree, leaves);
  });
}

// Compressed rows are written out one at a time.
template <class Real, class Index>
void find_leaves(const CompressedView<Real, Index>& rows, const WalkTree& tree, int64* leaves,
                 ThreadPool& pool, Interrupt& interrupt) {
  pool.run([&](int worker) {
    std::vector<float> dense(static_cast<std::size_t>(rows.n_cols), 0.0f);
    const Range own = share(rows.n_rows, pool.size(), worker);
    for (int64 i = own.begin; i < own.end && !interrupt.requested(); ++i) {
      if (i % 256 == 0) interrupt.poll(worker);
      const CompressedRow<Real, Index> row = rows.row(i);
      for (int64 k = 0; k < row.n_stored; ++k) {
        dense[static_cast<std::size_t>(row.indices[k])] +=
            static_cast<float>(row.values == nullptr ? row.constant : row.values[k]);
      }
      const WalkNode* const nodes = tree.nodes.data();
      int32 at = 0;
      for (int32 next; (next = step(nodes[at], dense.data(), 1)) != at;) at = next;
      leaves[i] = tree.ids[static_cast<std::size_t>(at)];
      for (int64 k = 0; k < row.n_stored; ++k) {
        dense[static_cast<std::size_t>(row.indices[k])] = 0;
      }
    }
  });
}

}  // namespace snapml::native::trees
