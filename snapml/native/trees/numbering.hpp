// The grown nodes as scikit-learn numbers them, in the memory of the tree that is returned.
//
// A limit on leaves chooses among the nodes that were grown, more than it takes: which split a node
// has does not depend on when it is looked at.
#pragma once

#include <algorithm>
#include <queue>
#include <vector>

#include "trees/histogram/grown.hpp"

namespace snapml::native::trees {

// One number of each node, at equal distances in memory.
template <class T>
struct Column {
  T* first;
  int64 step;  // in elements

  T& operator[](std::size_t id) const { return first[static_cast<int64>(id) * step]; }
};

// The arrays of a tree of `size` nodes, with `n_values` values each, side by side.
struct TreeColumns {
  std::size_t size, n_values;
  Column<int64> left, right, column, n_rows;
  Column<double> threshold, impurity, weight;
  Column<uint8> missing_left;
  double* values;

  double* values_of(std::size_t id) const { return values + id * n_values; }
};

// What numbering says beside what it writes.
struct Numbering {
  int64 max_depth = 0;
  std::vector<uint32> begins;     // of the rows of leaves
  std::vector<Bounds> bounds;     // of values, where columns are monotonic
  std::vector<uint8> left_codes;  // sets of kCodeBytes; thresholds of their nodes number them
};

// A node that a limit on leaves lets in. Its children, at `left` and next to it, come later.
struct ChosenNode {
  Place place;
  int64 depth;
  int64 left = -1;
};

// The nodes of the most_leaves - 1 splits that lessen the impurity most, each among those that were
// open; they are numbered as they come, two at a time. Rows of nodes that stay leaves get back the
// order that they had, so that sums over them do not depend on what was grown below.
inline std::vector<ChosenNode> choose_best(GrownTree& grown, int64 most_leaves) {
  std::vector<ChosenNode> chosen;
  const auto improvement = [&](std::size_t id) {
    const Place place = chosen[id].place;
    return grown.list(place).improvements[static_cast<std::size_t>(place.at)];
  };
  const auto is_less = [&](std::size_t a, std::size_t b) {
    const double x = improvement(a), y = improvement(b);
    return x != y ? x < y : a > b;
  };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(is_less)> open(is_less);
  const auto add = [&](Place place, int64 depth) {
    chosen.push_back({place, depth});
    if (grown.node(place).is_split()) open.push(chosen.size() - 1);
  };
  add(grown.root(), 0);
  for (int64 n_leaves = 1; n_leaves < most_leaves && !open.empty(); ++n_leaves) {
    const std::size_t id = open.top();
    open.pop();
    chosen[id].left = static_cast<int64>(chosen.size());
    const ChosenNode parent = chosen[id];
    add(grown.left(parent.place), parent.depth + 1);
    add(grown.right(parent.place), parent.depth + 1);
  }
  for (; !open.empty(); open.pop()) {
    const RowSpan rows = grown.rows_of(chosen[open.top()].place);
    std::sort(grown.rows.get() + rows.begin, grown.rows.get() + rows.end);
  }
  return chosen;
}

// Writes what growth has found of nodes one by one: n_rows of leaves only, zeros for what rows
// give.
class NodeWriter {
 public:
  NodeWriter(const GrownTree& grown, const TreeColumns& tree) : grown_(grown), tree_(tree) {
    numbering_.begins.resize(tree.size);
    if (!grown.lists[0].bounds.empty()) numbering_.bounds.resize(tree.size);
  }

  void write_leaf(std::size_t id, Place place, int64 depth) {
    const RowSpan rows = grown_.rows_of(place);
    begin_node(id, place, depth);
    tree_.left[id] = tree_.right[id] = -1;
    tree_.column[id] = -2;
    tree_.threshold[id] = -2;
    tree_.missing_left[id] = 0;
    tree_.n_rows[id] = int64{rows.end} - rows.begin;
    numbering_.begins[id] = rows.begin;
  }

  // Whose children's numbers are written by the caller.
  void write_split(std::size_t id, Place place, int64 depth) {
    const GrownNode& node = grown_.node(place);
    begin_node(id, place, depth);
    tree_.column[id] = node.column();
    tree_.threshold[id] = node.threshold();
    tree_.missing_left[id] = node.missing_left();
    const auto& sets = grown_.list(place).left_codes;
    if (sets.empty() || !sets[static_cast<std::size_t>(place.at)]) return;
    std::vector<uint8>& codes = numbering_.left_codes;
    const CodeSet& set = *sets[static_cast<std::size_t>(place.at)];
    tree_.threshold[id] = static_cast<double>(codes.size() / kCodeBytes);
    codes.insert(codes.end(), set.begin(), set.end());
  }

  Numbering take() { return std::move(numbering_); }

 private:
  void begin_node(std::size_t id, Place place, int64 depth) {
    numbering_.max_depth = std::max(numbering_.max_depth, depth);
    tree_.impurity[id] = tree_.weight[id] = 0;  // sums come here
    std::fill_n(tree_.values_of(id), tree_.n_values, 0.0);
    if (numbering_.bounds.empty()) return;
    numbering_.bounds[id] = grown_.list(place).bounds[static_cast<std::size_t>(place.at)];
  }

  const GrownTree& grown_;
  const TreeColumns& tree_;
  Numbering numbering_;
};

// All nodes, a node before all of its left side before all of its right side. A list is let go as
// soon as it is written: the tree takes four times its memory.
inline Numbering number_all(GrownTree& grown, const TreeColumns& tree) {
  NodeWriter writer(grown, tree);
  struct Next {
    Place place;
    int64 depth;
    int64 parent;  // of a right side; left ones follow their parents
  };
  std::vector<Next> stack{{grown.root(), 0, -1}};
  int32 list = 0;
  for (std::size_t id = 0; !stack.empty(); ++id) {
    const Next next = stack.back();
    stack.pop_back();
    if (list != next.place.list) {
      if (list != 0) grown.lists[static_cast<std::size_t>(list)] = {};
      list = next.place.list;
    }
    const auto number = static_cast<int64>(id);
    if (next.parent >= 0) tree.right[static_cast<std::size_t>(next.parent)] = number;
    if (!grown.node(next.place).is_split()) {
      writer.write_leaf(id, next.place, next.depth);
      continue;
    }
    writer.write_split(id, next.place, next.depth);
    tree.left[id] = number + 1;
    stack.push_back({grown.right(next.place), next.depth + 1, number});
    stack.push_back({grown.left(next.place), next.depth + 1, -1});
  }
  return writer.take();
}

inline Numbering number_chosen(const GrownTree& grown, const std::vector<ChosenNode>& chosen,
                               const TreeColumns& tree) {
  NodeWriter writer(grown, tree);
  for (std::size_t id = 0; id < chosen.size(); ++id) {
    const ChosenNode& node = chosen[id];
    if (node.left < 0) {
      writer.write_leaf(id, node.place, node.depth);
      continue;
    }
    writer.write_split(id, node.place, node.depth);
    tree.left[id] = node.left;
    tree.right[id] = node.left + 1;
  }
  return writer.take();
}

}  // namespace snapml::native::trees
