// The grown nodes as scikit-learn numbers them (a node, all of its left side, all of its right
// side), with the values and impurities that the rows of the leaves give.
#pragma once

#include <cmath>
#include <memory>
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

  std::size_t size() const { return left.size(); }
};

// Where a numbered node came from.
struct Origin {
  const std::vector<Node>* list;
  int32 place;
  int64 depth, parent;
  bool is_left;
};

// Writes the nodes; returns where the rows of each begin.
inline std::vector<int64> number_nodes(const GrownTree& grown, TreeArrays& tree) {
  std::vector<int64> begins;
  std::vector<Origin> stack{{&grown.nodes, 0, 0, -1, false}};
  while (!stack.empty()) {
    Origin from = stack.back();
    stack.pop_back();
    const Node* node = &(*from.list)[static_cast<std::size_t>(from.place)];
    if (node->subtree >= 0) {
      from.list = &grown.subtrees[static_cast<std::size_t>(node->subtree)];
      node = from.list->data();
    }
    const auto id = static_cast<int64>(tree.size());
    if (from.parent >= 0) {
      (from.is_left ? tree.left : tree.right)[static_cast<std::size_t>(from.parent)] = id;
    }
    const bool is_leaf = node->left < 0;
    tree.left.push_back(-1);
    tree.right.push_back(-1);
    tree.column.push_back(is_leaf ? -2 : node->column);
    tree.threshold.push_back(is_leaf ? -2 : node->threshold);
    tree.missing_left.push_back(!is_leaf && node->missing_left);
    tree.n_rows.push_back(node->count());
    tree.max_depth = std::max(tree.max_depth, from.depth);
    begins.push_back(node->begin);
    if (is_leaf) continue;
    stack.push_back({from.list, node->right, from.depth + 1, id, false});
    stack.push_back({from.list, node->left, from.depth + 1, id, true});
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

// Calls sum(node) for leaves and join(node, child) for the others, children first.
template <class SumUp, class Join>
void from_leaves(const TreeArrays& tree, SumUp sum, Join join) {
  for (std::size_t id = tree.size(); id-- > 0;) {
    if (tree.left[id] < 0) {
      sum(id);
    } else {
      join(id, static_cast<std::size_t>(tree.left[id]));
      join(id, static_cast<std::size_t>(tree.right[id]));
    }
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
                         const RawTargets& targets, Criterion criterion, TreeArrays& tree) {
  const auto n_classes = static_cast<std::size_t>(targets.n_classes);
  tree.values.assign(tree.size() * n_classes, 0);
  from_leaves(
      tree,
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
                        TreeArrays& tree) {
  std::vector<double> spread(tree.size(), 0);  // of w (y - centre)^2, or of w y log(y)
  tree.values.assign(tree.size(), 0);
  const bool is_poisson = criterion == Criterion::kPoisson;
  from_leaves(
      tree,
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

// The tree of what was grown; `most_values` bounds its memory.
inline TreeArrays tree_arrays(const GrownTree& grown, const RawTargets& targets,
                              Criterion criterion, double centre, int64 most_values) {
  TreeArrays tree;
  const std::vector<int64> begins = number_nodes(grown, tree);
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
    class_values(grown, begins, targets, criterion, tree);
  } else {
    mean_values(grown, begins, targets, criterion, centre, tree);
  }
  return tree;
}

}  // namespace snapml::native::trees
