// Nodes of trees whose splits lie between any two rows, and the lists that they are grown in.
#pragma once

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "snapml/config.hpp"

namespace snapml::native::trees {

// What differs by less is taken for equal: scikit-learn's FEATURE_THRESHOLD.
constexpr float kLeastStep = 1e-7f;

struct ExactOptions {
  int64 max_depth, min_samples_split, min_samples_leaf;
  double min_weight_leaf, min_impurity_decrease;
  double all_weight;
  int64 max_features;
  uint32 seed;
  int64 most_values;  // of all nodes
};

// A split of a node behind `position` of a column's numbers.
struct ExactSplit {
  double worth = -std::numeric_limits<double>::infinity();
  int64 column = -1, position = 0, n_present = 0, n_missing = 0;
  bool missing_left = false;

  int64 n_left() const { return position + (missing_left ? n_missing : 0); }
};

// A node that is still to be split, whose rows are those of begin .. end-1 of the column `list`;
// `n_constants` columns were constant in its parent, which several splits may have been best for.
struct ExactPending {
  int64 begin, end;
  int64 depth = 0, parent = -1;
  bool is_left = false, after_tie = false;
  double impurity = 0;
  int64 n_constants = 0, list = 0;

  int64 count() const { return end - begin; }
};

// A node that is done, or the place of what is grown elsewhere. Where columns were drawn for it,
// `n_known` of them were constant in its parent, and `n_found` more are so in itself.
struct ExactNode {
  int64 parent = -1, depth = 0, n_rows = 0, column = -2;
  double threshold = -2, impurity = 0, weight = 0;
  int64 n_known = -1, n_found = 0;
  bool is_left = false, missing_left = false, is_elsewhere = false;
};

// Nodes below one, each before all of its left side before all of its right side.
struct ExactBranch {
  std::vector<ExactNode> nodes;
  std::vector<double> values;        // of those that are not elsewhere
  std::vector<int64> constants;      // what n_found counts
  std::vector<ExactPending> others;  // of those that are elsewhere

  void add_place(const ExactPending& pending) {
    ExactNode place;
    place.parent = pending.parent;
    place.is_left = pending.is_left;
    place.is_elsewhere = true;
    nodes.push_back(place);
    others.push_back(pending);
  }
};

// The nodes as scikit-learn numbers them.
struct TreeArrays {
  int64 max_depth = 0;
  std::vector<int64> left, right, column, n_rows;
  std::vector<double> threshold, impurity, weight, values;
  std::vector<uint8> missing_left;

  std::size_t size() const { return left.size(); }

  // Takes in a node below one that is there, but for its values; returns its number.
  int64 add(const ExactNode& node, int64 parent, bool is_left) {
    const auto id = static_cast<int64>(size());
    if (parent >= 0) (is_left ? left : right)[static_cast<std::size_t>(parent)] = id;
    left.push_back(-1);
    right.push_back(-1);
    column.push_back(node.column);
    threshold.push_back(node.threshold);
    missing_left.push_back(node.missing_left);
    n_rows.push_back(node.n_rows);
    weight.push_back(node.weight);
    impurity.push_back(node.impurity);
    max_depth = std::max(max_depth, node.depth);
    return id;
  }
};

// Counts the values of a tree's nodes, on all threads together, until they are too many.
class ValueLimit {
 public:
  explicit ValueLimit(int64 most) : most_(most) {}

  void add(int64 n_values) {
    const int64 count = count_.fetch_add(n_values, std::memory_order_relaxed) + n_values;
    if (count > most_) refuse(count / n_values, n_values);
  }

  bool fits(int64 n_nodes, int64 n_values) const { return n_nodes <= most_ / n_values; }

  // That there will be so many nodes, at least.
  void expect(int64 n_nodes, int64 n_values) const {
    if (!fits(n_nodes, n_values)) refuse(n_nodes, n_values);
  }

 private:
  [[noreturn]] static void refuse(int64 n_nodes, int64 n_values) {
    throw std::length_error("the values of " + std::to_string(n_nodes) + " nodes for " +
                            std::to_string(n_values) +
                            " classes do not fit into memory: expected fewer classes, or a "
                            "smaller max_depth");
  }

  const int64 most_;
  std::atomic<int64> count_{0};
};

}  // namespace snapml::native::trees
