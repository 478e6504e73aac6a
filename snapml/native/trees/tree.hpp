// The grown nodes as scikit-learn numbers them, with the values and impurities that the rows of the
// leaves give.
//
// A limit on leaves chooses among the nodes that were grown, more than it takes: which split a node
// has does not depend on when it is looked at.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <queue>
#include <stdexcept>
#include <string>
#include <vector>

#include "large_nodes.hpp"

namespace snapml::native::trees {

struct TreeArrays {
  int64 max_depth = 0;
  std::vector<int64> left, right, column, n_rows;
  std::vector<double> threshold, impurity, weight, values;
  std::vector<uint8> missing_left;
  std::vector<uint8> left_codes;  // sets of kCodeBytes; thresholds of their nodes number them
  bool has_bounds = false;
  std::vector<Bounds> bounds;  // of the values

  std::size_t size() const { return left.size(); }
  void reserve(std::size_t n_nodes) {
    for (auto* numbers : {&left, &right, &column, &n_rows}) numbers->reserve(n_nodes);
    threshold.reserve(n_nodes);
    missing_left.reserve(n_nodes);
    if (has_bounds) bounds.reserve(n_nodes);
  }
};

// Where a numbered node came from.
struct Origin {
  const std::vector<Node>* list;
  int32 place;
  int64 depth;
  std::size_t id;  // of the parent, until the node has its own

  const Node& node() const { return (*list)[static_cast<std::size_t>(place)]; }
  Origin child(const GrownTree& grown, int32 at) const {
    Origin below{list, at, depth + 1, id};
    const int32 subtree = below.node().subtree;
    return subtree < 0
               ? below
               : Origin{&grown.subtrees[static_cast<std::size_t>(subtree)], 0, depth + 1, id};
  }
  static Origin root(const GrownTree& grown) {
    const bool is_one_subtree = grown.nodes[0].subtree >= 0;
    return {is_one_subtree ? &grown.subtrees[0] : &grown.nodes, 0, 0, 0};
  }
};

// A node with the next number, as a leaf.
inline void add_node(Origin& from, TreeArrays& tree, std::vector<int64>& begins) {
  const Node& node = from.node();
  from.id = tree.size();
  tree.left.push_back(-1);
  tree.right.push_back(-1);
  tree.column.push_back(-2);
  tree.threshold.push_back(-2);
  tree.missing_left.push_back(0);
  tree.n_rows.push_back(node.count());
  if (tree.has_bounds) tree.bounds.push_back(node.bounds);
  tree.max_depth = std::max(tree.max_depth, from.depth);
  begins.push_back(node.begin);
}

inline void make_inner(const Origin& from, TreeArrays& tree) {
  const Node& node = from.node();
  tree.column[from.id] = node.column;
  tree.threshold[from.id] = node.threshold;
  tree.missing_left[from.id] = node.missing_left;
  if (!node.left_codes) return;
  tree.threshold[from.id] = static_cast<double>(tree.left_codes.size() / kCodeBytes);
  tree.left_codes.insert(tree.left_codes.end(), node.left_codes->begin(), node.left_codes->end());
}

// A subtree's first node stands in the upper part, too.
inline std::size_t count_nodes(const GrownTree& grown) {
  std::size_t count = grown.nodes.size();
  for (const std::vector<Node>& nodes : grown.subtrees) count += nodes.size() - 1;
  return count;
}

// Writes the nodes, a node before all of its left side before all of its right side; returns where
// the rows of each begin.
inline std::vector<int64> number_all(const GrownTree& grown, TreeArrays& tree) {
  std::vector<int64> begins;
  begins.reserve(count_nodes(grown));
  tree.reserve(count_nodes(grown));
  struct Next {
    Origin from;
    std::vector<int64>* link;  // of the parent
  };
  std::vector<Next> stack{{Origin::root(grown), nullptr}};
  while (!stack.empty()) {
    Next next = stack.back();
    stack.pop_back();
    const std::size_t parent = next.from.id;
    add_node(next.from, tree, begins);
    if (next.link != nullptr) (*next.link)[parent] = static_cast<int64>(next.from.id);
    const Node& node = next.from.node();
    if (!node.is_split()) continue;
    make_inner(next.from, tree);
    stack.push_back({next.from.child(grown, node.right()), &tree.right});
    stack.push_back({next.from.child(grown, node.left), &tree.left});
  }
  return begins;
}

// The same for the most_leaves - 1 splits that lessen the impurity most, each among those that
// were open; nodes are numbered as they come, two at a time. Rows of nodes that stay leaves get
// back the order that they had, so that sums over them do not depend on what was grown below.
inline std::vector<int64> number_best(GrownTree& grown, int64 most_leaves, TreeArrays& tree) {
  std::vector<int64> begins;
  const auto is_less = [](const Origin& a, const Origin& b) {
    const double x = a.node().improvement, y = b.node().improvement;
    return x != y ? x < y : a.id > b.id;
  };
  std::priority_queue<Origin, std::vector<Origin>, decltype(is_less)> open(is_less);
  const auto add = [&](Origin from) {
    add_node(from, tree, begins);
    if (from.node().is_split()) open.push(from);
    return static_cast<int64>(from.id);
  };
  add(Origin::root(grown));
  for (int64 n_leaves = 1; n_leaves < most_leaves && !open.empty(); ++n_leaves) {
    const Origin from = open.top();
    open.pop();
    make_inner(from, tree);
    const int64 left = add(from.child(grown, from.node().left));
    const int64 right = add(from.child(grown, from.node().right()));
    tree.left[from.id] = left;
    tree.right[from.id] = right;
  }
  for (; !open.empty(); open.pop()) {
    const Node& leaf = open.top().node();
    std::sort(grown.rows.get() + leaf.begin, grown.rows.get() + leaf.end);
  }
  return begins;
}

// Rows' classes or numbers as they came, for sums in float64.
struct RawTargets {
  const int32* classes;
  const double* values;
  const double* weights;
  int64 n_classes;
  double weight(int64 row) const { return weights == nullptr ? 1 : weights[row]; }
};

// Calls sum(node) for leaves, by all threads, then join(node, child) for the others, children
// first.
template <class SumUp, class Join>
void from_leaves(const TreeArrays& tree, ThreadPool& pool, SumUp sum, Join join) {
  const std::size_t some = tree.size() / (64 * static_cast<std::size_t>(pool.size())) + 1;
  std::atomic<std::size_t> next{0};
  pool.run([&](int) {
    for (std::size_t first; (first = next.fetch_add(some)) < tree.size();) {
      for (std::size_t id = first; id < std::min(first + some, tree.size()); ++id) {
        if (tree.left[id] < 0) sum(id);
      }
    }
  });
  for (std::size_t id = tree.size(); id-- > 0;) {
    if (tree.left[id] < 0) continue;
    join(id, static_cast<std::size_t>(tree.left[id]));
    join(id, static_cast<std::size_t>(tree.right[id]));
  }
}

inline double class_impurity(const double* fractions, int64 n_classes, Criterion criterion) {
  double squares = 0, entropy = 0;
  for (int64 k = 0; k < n_classes; ++k) {
    const double p = fractions[k];
    squares += p * p;
    if (criterion == Criterion::kEntropy && p > 0) entropy -= p * std::log2(p);
  }
  return criterion == Criterion::kEntropy ? entropy : 1 - squares;
}

// Values are the classes' shares of a node's weight.
inline void class_values(const GrownTree& grown, const std::vector<int64>& begins,
                         const RawTargets& targets, Criterion criterion, ThreadPool& pool,
                         TreeArrays& tree) {
  const auto n_classes = static_cast<std::size_t>(targets.n_classes);
  tree.values.assign(tree.size() * n_classes, 0);
  from_leaves(
      tree, pool,
      [&](std::size_t id) {
        for (int64 i = begins[id]; i < begins[id] + tree.n_rows[id]; ++i) {
          const uint32 row = grown.rows[static_cast<std::size_t>(i)];
          tree.values[id * n_classes + static_cast<std::size_t>(targets.classes[row])] +=
              targets.weight(row);
        }
      },
      [&](std::size_t id, std::size_t child) {
        for (std::size_t k = 0; k < n_classes; ++k) {
          tree.values[id * n_classes + k] += tree.values[child * n_classes + k];
        }
      });
  for (std::size_t id = 0; id < tree.size(); ++id) {
    double* shares = tree.values.data() + id * n_classes;
    for (std::size_t k = 0; k < n_classes; ++k) tree.weight[id] += shares[k];
    for (std::size_t k = 0; k < n_classes; ++k) shares[k] /= tree.weight[id];
    tree.impurity[id] = class_impurity(shares, targets.n_classes, criterion);
  }
}

// Values are weighted means. Squares are taken about the mean of all rows.
inline void mean_values(const GrownTree& grown, const std::vector<int64>& begins,
                        const RawTargets& targets, Criterion criterion, double centre,
                        ThreadPool& pool, TreeArrays& tree) {
  std::vector<double> spread(tree.size(), 0);  // of w (y - centre)^2, or of w y log(y)
  tree.values.assign(tree.size(), 0);
  const bool is_poisson = criterion == Criterion::kPoisson;
  from_leaves(
      tree, pool,
      [&](std::size_t id) {
        for (int64 i = begins[id]; i < begins[id] + tree.n_rows[id]; ++i) {
          const uint32 row = grown.rows[static_cast<std::size_t>(i)];
          const double w = targets.weight(row), y = targets.values[row] - centre;
          tree.weight[id] += w;
          tree.values[id] += w * y;
          spread[id] += is_poisson ? (y > 0 ? w * y * std::log(y) : 0) : w * y * y;
        }
      },
      [&](std::size_t id, std::size_t child) {
        tree.weight[id] += tree.weight[child];
        tree.values[id] += tree.values[child];
        spread[id] += spread[child];
      });
  for (std::size_t id = 0; id < tree.size(); ++id) {
    const double mean = tree.values[id] / tree.weight[id];
    const double rest = is_poisson ? (mean > 0 ? mean * std::log(mean) : 0) : mean * mean;
    tree.impurity[id] = std::max(spread[id] / tree.weight[id] - rest, 0.0);
    tree.values[id] = mean + centre;
  }
}

// Brings the value of each node, the first class's share of two or a mean, between its bounds.
inline void clip_values(int64 n_classes, TreeArrays& tree) {
  for (std::size_t id = 0; id < tree.size(); ++id) {
    double* value = tree.values.data() + id * static_cast<std::size_t>(n_classes);
    value[0] = std::clamp(value[0], tree.bounds[id].lower, tree.bounds[id].upper);
    if (n_classes == 2) value[1] = 1 - value[0];
  }
}

// The tree of what was grown, whose values have room for `most_values` numbers.
inline TreeArrays tree_arrays(GrownTree grown, const RawTargets& targets,
                              const GrowOptions& options, double centre, int64 most_values,
                              ThreadPool& pool) {
  const Criterion criterion = options.criterion;
  TreeArrays tree;
  tree.has_bounds = options.monotonic != nullptr;
  const std::vector<int64> begins = options.most_leaves > 0
                                        ? number_best(grown, options.most_leaves, tree)
                                        : number_all(grown, tree);
  grown.nodes = {};  // before there are values
  grown.subtrees = {};
  const auto n_nodes = static_cast<int64>(tree.size());
  if (n_nodes > most_values / targets.n_classes) {
    throw std::length_error("the values of " + std::to_string(n_nodes) + " nodes for " +
                            std::to_string(targets.n_classes) +
                            " classes do not fit into memory: expected fewer classes, or a "
                            "smaller max_depth");
  }
  tree.impurity.assign(tree.size(), 0);
  tree.weight.assign(tree.size(), 0);
  if (targets.classes != nullptr) {
    class_values(grown, begins, targets, criterion, pool, tree);
  } else {
    mean_values(grown, begins, targets, criterion, centre, pool, tree);
  }
  return tree;
}

}  // namespace snapml::native::trees
