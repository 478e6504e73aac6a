// The leaf of each row: a few rows walk down together, without branches, so that their reads
// overlap. Whether entries are finite is looked at in passing, which brings rows into the cache.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "snapml/views.hpp"
#include "threads/clones.hpp"
#include "threads/parallel.hpp"

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
// Entries of the rows that are looked at together: a share of a core's first cache.
constexpr int64 kBlockEntries = 4096;

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

template <class Real>
SNAPML_CLONES bool are_finite(const Real* x, int64 size) {
  int32 n_bad = 0;
  for (int64 i = 0; i < size; ++i) {
    n_bad |= !(std::abs(static_cast<float>(x[i])) <= std::numeric_limits<float>::max());
  }
  return n_bad == 0;
}

// Whether all entries of some rows are finite as float32.
template <class Real>
bool are_finite(const DenseView<Real>& rows, Range range) {
  const Real* const from = rows.values + range.begin * rows.row_stride;
  const int64 n_rows = range.end - range.begin;
  if (rows.col_stride == 1 && rows.row_stride == rows.n_cols) {
    return are_finite(from, n_rows * rows.n_cols);
  }
  bool is_finite = true;
  for (int64 j = 0; j < rows.n_cols && rows.row_stride == 1; ++j) {
    is_finite &= are_finite(from + j * rows.col_stride, n_rows);
  }
  for (int64 i = 0; i < n_rows && rows.row_stride != 1; ++i) {
    const Real* const row = from + i * rows.row_stride;
    if (rows.col_stride == 1) {
      is_finite &= are_finite(row, rows.n_cols);
      continue;
    }
    for (int64 j = 0; j < rows.n_cols; ++j) {
      is_finite &= std::abs(static_cast<float>(row[j * rows.col_stride])) <=
                   std::numeric_limits<float>::max();
    }
  }
  return is_finite;
}

// Writes the leaf of each row; whether all entries are finite as float32.
template <class Real>
bool find_leaves(const DenseView<Real>& rows, const WalkTree& tree, int64* leaves, ThreadPool& pool,
                 Interrupt& interrupt) {
  const int64 block = std::max<int64>(kBlockEntries / std::max<int64>(rows.n_cols, 1), kGroup);
  std::atomic<bool> is_finite{true};
  pool.run([&](int worker) {
    const Range own = share(rows.n_rows, pool.size(), worker);
    for (int64 begin = own.begin; begin < own.end && !interrupt.requested(); begin += block) {
      interrupt.poll();
      const int64 end = std::min(begin + block, own.end);
      if (!are_finite(rows, {begin, end})) is_finite = false;
      int64 i = begin;
      for (; i + kGroup <= end; i += kGroup) walk<kGroup>(rows, i, tree, leaves);
      for (; i < end; ++i) walk<1>(rows, i, tree, leaves);
    }
  });
  return is_finite;
}

// Compressed rows are written out one at a time; nobody asks whether they are finite.
template <class Real, class Index>
bool find_leaves(const CompressedView<Real, Index>& rows, const WalkTree& tree, int64* leaves,
                 ThreadPool& pool, Interrupt& interrupt) {
  pool.run([&](int worker) {
    std::vector<float> dense(static_cast<std::size_t>(rows.n_cols), 0.0f);
    const Range own = share(rows.n_rows, pool.size(), worker);
    for (int64 i = own.begin; i < own.end && !interrupt.requested(); ++i) {
      if (i % 256 == 0) interrupt.poll();
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
  return true;
}

}  // namespace snapml::native::trees
