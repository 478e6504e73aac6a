// The leaf of each row: rows of a group walk down together, so that their reads overlap.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "../parallel.hpp"
#include "snapml/views.hpp"

namespace snapml::native::trees {

// A node in 16 bytes. A leaf is its own child on both sides.
struct WalkNode {
  float threshold;
  uint32 column;      // the highest bit: missing values go left
  int32 children[2];  // left, right
};

constexpr uint32 kMissingLeft = 0x80000000u;
constexpr int kGroup = 16;

// The largest float32 at most x: a float32 is at most x if and only if it is at most that.
inline float round_down(double x) {
  const auto nearest = static_cast<float>(x);
  return static_cast<double>(nearest) > x
             ? std::nextafter(nearest, -std::numeric_limits<float>::infinity())
             : nearest;
}

// The nodes of scikit-learn's arrays, which the caller has checked.
inline std::vector<WalkNode> walk_nodes(const int64* left, const int64* right, const int64* column,
                                        const double* threshold, const uint8* missing_left,
                                        int64 n_nodes) {
  std::vector<WalkNode> nodes(static_cast<std::size_t>(n_nodes));
  for (int64 id = 0; id < n_nodes; ++id) {
    WalkNode& node = nodes[static_cast<std::size_t>(id)];
    const auto self = static_cast<int32>(id);
    if (left[id] < 0) {
      node = {0, 0, {self, self}};
    } else {
      node = {round_down(threshold[id]),
              static_cast<uint32>(column[id]) | (missing_left[id] != 0 ? kMissingLeft : 0u),
              {static_cast<int32>(left[id]), static_cast<int32>(right[id])}};
    }
  }
  return nodes;
}

template <class Real>
int32 step(const WalkNode& node, const Real* row, int64 col_stride) {
  const auto x = static_cast<float>(row[(node.column & ~kMissingLeft) * col_stride]);
  const bool is_left =
      (x <= node.threshold) | (std::isnan(x) & ((node.column & kMissingLeft) != 0));
  return node.children[is_left ? 0 : 1];
}

// Writes the leaf of each row.
template <class Real>
void find_leaves(const DenseView<Real>& rows, const std::vector<WalkNode>& nodes, int64* leaves,
                 ThreadPool& pool, Interrupt& interrupt) {
  pool.run([&](int worker) {
    const Range own = share(rows.n_rows, pool.size(), worker);
    for (int64 begin = own.begin; begin < own.end && !interrupt.requested(); begin += kGroup) {
      if (begin % 1024 == 0) interrupt.poll(worker);
      const int count = static_cast<int>(std::min<int64>(kGroup, own.end - begin));
      const Real* first = rows.values + begin * rows.row_stride;
      int32 at[kGroup] = {};
      for (bool is_moving = true; is_moving;) {
        int32 moved = 0;
        for (int i = 0; i < count; ++i) {
          const int32 next = step(nodes[static_cast<std::size_t>(at[i])],
                                  first + i * rows.row_stride, rows.col_stride);
          moved |= next ^ at[i];
          at[i] = next;
        }
        is_moving = moved != 0;
      }
      for (int i = 0; i < count; ++i) leaves[begin + i] = at[i];
    }
  });
}

}  // namespace snapml::native::trees
