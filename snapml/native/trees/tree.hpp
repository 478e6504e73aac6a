// A grown tree that waits for its memory, and the values and impurities that the rows of its leaves
// give.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "threads/parallel.hpp"
#include "trees/numbering.hpp"

namespace snapml::native::trees {

// Nodes without values, and what these are to be.
struct UnvaluedTree {
  GrownTree grown;
  std::vector<ChosenNode> chosen;  // with a limit on leaves
  Criterion criterion = Criterion::kGini;
  double centre = 0;  // that squares of numbers are taken about
  int64 n_rows = 0, n_classes = 1;
  bool is_monotonic = false;

  std::size_t n_nodes() const { return chosen.empty() ? grown.n_nodes() : chosen.size(); }
};

// What was grown, whose values have room for `most_values` numbers.
inline UnvaluedTree unvalued_tree(GrownTree grown, const GrowOptions& options, int64 n_rows,
                                  int64 n_classes, double centre, int64 most_values) {
  UnvaluedTree tree;
  tree.grown = std::move(grown);
  if (options.most_leaves > 0) tree.chosen = choose_best(tree.grown, options.most_leaves);
  tree.criterion = options.criterion;
  tree.centre = centre;
  tree.n_rows = n_rows;
  tree.n_classes = n_classes;
  tree.is_monotonic = options.monotonic != nullptr;
  if (static_cast<int64>(tree.n_nodes()) > most_values / n_classes) {
    throw std::length_error("the values of " + std::to_string(tree.n_nodes()) + " nodes for " +
                            std::to_string(n_classes) +
                            " classes do not fit into memory: expected fewer classes, or a "
                            "smaller max_depth");
  }
  return tree;
}

// Calls sum(leaf, room) by all threads, then join(node, child) for the others, children first. Each
// thread has room of its own: leaves that it adds up in the tree would share lines of memory.
template <class SumUp, class Join>
void from_leaves(const TreeColumns& tree, ThreadPool& pool, SumUp sum, Join join) {
  const std::size_t some = tree.size / (64 * static_cast<std::size_t>(pool.size())) + 1;
  std::atomic<std::size_t> next{0};
  pool.run([&](int) {
    std::vector<double> room;
    for (std::size_t first; (first = next.fetch_add(some)) < tree.size;) {
      for (std::size_t id = first; id < std::min(first + some, tree.size); ++id) {
        if (tree.left[id] < 0) sum(id, room);
      }
    }
  });
  for (std::size_t id = tree.size; id-- > 0;) {
    if (tree.left[id] < 0) continue;
    const auto left = static_cast<std::size_t>(tree.left[id]);
    const auto right = static_cast<std::size_t>(tree.right[id]);
    tree.n_rows[id] = tree.n_rows[left] + tree.n_rows[right];
    join(id, left);
    join(id, right);
  }
}

inline double class_impurity(const double* fractions, std::size_t n_classes, Criterion criterion) {
  double squares = 0, entropy = 0;
  for (std::size_t k = 0; k < n_classes; ++k) {
    const double p = fractions[k];
    squares += p * p;
    if (criterion == Criterion::kEntropy && p > 0) entropy -= p * std::log2(p);
  }
  return criterion == Criterion::kEntropy ? entropy : 1 - squares;
}

// Calls add(row, weight) for the rows of a leaf.
template <class Add>
void for_rows(const UnvaluedTree& of, const TreeColumns& tree, const std::vector<uint32>& begins,
              const RawTargets& targets, std::size_t leaf, Add add) {
  const int64 begin = begins[leaf], end = begin + tree.n_rows[leaf];
  for (int64 i = begin; i < end; ++i) {
    const uint32 row = of.grown.rows[static_cast<std::size_t>(i)];
    add(row, targets.weight(row));
  }
}

// Values are the classes' shares of a node's weight.
inline void class_values(const UnvaluedTree& of, const std::vector<uint32>& begins,
                         const RawTargets& targets, ThreadPool& pool, const TreeColumns& tree) {
  from_leaves(
      tree, pool,
      [&](std::size_t id, std::vector<double>& sums) {
        sums.assign(tree.n_values, 0);
        for_rows(of, tree, begins, targets, id, [&](uint32 row, double w) {
          sums[static_cast<std::size_t>(targets.classes[row])] += w;
        });
        std::copy(sums.begin(), sums.end(), tree.values_of(id));
      },
      [&](std::size_t id, std::size_t child) {
        const double* below = tree.values_of(child);
        for (std::size_t k = 0; k < tree.n_values; ++k) tree.values_of(id)[k] += below[k];
      });
  for (std::size_t id = 0; id < tree.size; ++id) {
    double* shares = tree.values_of(id);
    double weight = 0;
    for (std::size_t k = 0; k < tree.n_values; ++k) weight += shares[k];
    for (std::size_t k = 0; k < tree.n_values; ++k) shares[k] /= weight;
    tree.weight[id] = weight;
    tree.impurity[id] = class_impurity(shares, tree.n_values, of.criterion);
  }
}

// Values are weighted means. The impurities hold sums of w (y - centre)^2, or of w y log(y), first.
inline void mean_values(const UnvaluedTree& of, const std::vector<uint32>& begins,
                        const RawTargets& targets, ThreadPool& pool, const TreeColumns& tree) {
  const bool is_poisson = of.criterion == Criterion::kPoisson;
  from_leaves(
      tree, pool,
      [&](std::size_t id, std::vector<double>&) {
        double weight = 0, sum = 0, squares = 0;
        for_rows(of, tree, begins, targets, id, [&](uint32 row, double w) {
          const double y = targets.values[row] - of.centre;
          weight += w;
          sum += w * y;
          squares += is_poisson ? (y > 0 ? w * y * std::log(y) : 0) : w * y * y;
        });
        tree.weight[id] = weight;
        tree.values[id] = sum;
        tree.impurity[id] = squares;
      },
      [&](std::size_t id, std::size_t child) {
        tree.weight[id] += tree.weight[child];
        tree.values[id] += tree.values[child];
        tree.impurity[id] += tree.impurity[child];
      });
  for (std::size_t id = 0; id < tree.size; ++id) {
    const double mean = tree.values[id] / tree.weight[id];
    const double rest = is_poisson ? (mean > 0 ? mean * std::log(mean) : 0) : mean * mean;
    tree.impurity[id] = std::max(tree.impurity[id] / tree.weight[id] - rest, 0.0);
    tree.values[id] = mean + of.centre;
  }
}

// Brings the value of each node, the first class's share of two or a mean, between its bounds.
inline void clip_values(const std::vector<Bounds>& bounds, const TreeColumns& tree) {
  for (std::size_t id = 0; id < tree.size; ++id) {
    double* value = tree.values_of(id);
    value[0] = std::clamp(value[0], bounds[id].lower, bounds[id].upper);
    if (tree.n_values == 2) value[1] = 1 - value[0];
  }
}

// Writes all of the tree's arrays, and lets go of the nodes.
inline Numbering write_tree(UnvaluedTree of, const RawTargets& targets, ThreadPool& pool,
                            const TreeColumns& tree) {
  Numbering numbering =
      of.chosen.empty() ? number_all(of.grown, tree) : number_chosen(of.grown, of.chosen, tree);
  if (targets.classes != nullptr) {
    class_values(of, numbering.begins, targets, pool, tree);
  } else {
    mean_values(of, numbering.begins, targets, pool, tree);
  }
  if (of.is_monotonic) clip_values(numbering.bounds, tree);
  return numbering;
}

}  // namespace snapml::native::trees
