// Trees whose splits lie between any two rows: the ones that scikit-learn finds.
//
// Nodes are split depth first, left before right, as they are numbered; columns of a large node are
// looked at by all threads, and the first one drawn wins among those that are worth the same.
#pragma once

#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "../parallel.hpp"
#include "column_draws.hpp"
#include "exact_criteria.hpp"
#include "sorted_columns.hpp"

namespace snapml::native::trees {

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
  double worth = kNoWorth;
  int64 column = -1, position = 0, n_present = 0, n_missing = 0;
  bool missing_left = false;

  int64 n_left() const { return position + (missing_left ? n_missing : 0); }
};

// The nodes as scikit-learn numbers them.
struct TreeArrays {
  int64 max_depth = 0;
  std::vector<int64> left, right, column, n_rows;
  std::vector<double> threshold, impurity, weight, values;
  std::vector<uint8> missing_left;

  std::size_t size() const { return left.size(); }
};

template <class Targets>
class ExactGrower {
 public:
  using Sums = typename Targets::Sums;
  using Running = typename Targets::Running;

  ExactGrower(SortedColumns& columns, const Targets& targets, const ExactOptions& options,
              ThreadPool& pool, Interrupt& interrupt)
      : columns_(columns),
        targets_(targets),
        options_(options),
        pool_(pool),
        interrupt_(interrupt),
        draws_(columns.n_cols(), options.max_features, options.seed),
        goes_left_(static_cast<std::size_t>(columns.n_rows())),
        running_(static_cast<std::size_t>(pool.size()), Running(targets)) {}

  TreeArrays grow() {
    std::vector<Pending> stack{{0, columns_.n_rows(), 0, -1, false, 0, 0, 0}};
    stack.back().impurity = targets_.impurity(sums_of(stack.back()));
    while (!stack.empty() && !interrupt_.requested()) {
      interrupt_.poll(0);
      const Pending node = stack.back();
      stack.pop_back();
      grow_node(node, stack);
    }
    return std::move(tree_);
  }

 private:
  // A node to be split, whose rows are those of begin .. end-1 of `list`.
  struct Pending {
    int64 begin, end, depth, parent;
    bool is_left;
    double impurity;
    int64 n_constants, list;
    int64 count() const { return end - begin; }
  };

  // What differs by less is taken for equal (scikit-learn's FEATURE_THRESHOLD), as is impurity that
  // rounding leaves.
  static constexpr float kLeastStep = 1e-7f;
  static constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  // Entries from which on a node is worth waking the other threads.
  static constexpr int64 kParallel = 65536;

  void grow_node(const Pending& node, std::vector<Pending>& stack) {
    const Sums sums = sums_of(node);
    ExactSplit best;
    int64 n_constants = node.n_constants;
    if (!is_leaf(node, sums.weight)) best = best_split(node, sums, n_constants);
    if (best.column < 0) {
      add_node(node, sums, best);
      return;
    }
    deal_column(node, best);
    const int64 middle = node.begin + best.n_left(), depth = node.depth + 1;
    Pending left{node.begin, middle, depth, -1, true, 0, n_constants, best.column};
    Pending right{middle, node.end, depth, -1, false, 0, n_constants, best.column};
    const Sums left_sums = sums_of(left), right_sums = sums_of(right);
    left.impurity = targets_.impurity(left_sums);
    right.impurity = targets_.impurity(right_sums);
    const double lessened = sums.weight / options_.all_weight *
                            (node.impurity - right_sums.weight / sums.weight * right.impurity -
                             left_sums.weight / sums.weight * left.impurity);
    if (lessened + kEpsilon < options_.min_impurity_decrease) {
      add_node(node, sums, {});
      return;
    }
    left.parent = right.parent = add_node(node, sums, best);
    if (!is_leaf(left, left_sums.weight) || !is_leaf(right, right_sums.weight)) {
      deal_others(node, best, n_constants);
    }
    stack.push_back(right);
    stack.push_back(left);
  }

  Sums sums_of(const Pending& node) const {
    return targets_.sums_of(columns_.of(node.list) + node.begin, node.count());
  }

  bool is_leaf(const Pending& node, double weight) const {
    return node.depth >= options_.max_depth || node.count() < options_.min_samples_split ||
           node.count() < 2 * options_.min_samples_leaf || weight < 2 * options_.min_weight_leaf ||
           node.impurity <= kEpsilon;
  }

  ExactSplit best_split(const Pending& node, const Sums& sums, int64& n_constants) {
    n_constants = draws_.draw(
        node.n_constants, [&](int64 column) { return is_constant(node, column); }, visited_);
    found_.assign(visited_.size(), {});
    for_each(visited_.size(), node.count(), [&](std::size_t k, int worker) {
      auto& running = running_[static_cast<std::size_t>(worker)];
      found_[k] = best_of_column(node, sums, visited_[k], running);
    });
    ExactSplit best;
    for (const ExactSplit& split : found_) {
      if (split.worth > best.worth) best = split;
    }
    return best;
  }

  bool is_constant(const Pending& node, int64 column) const {
    const SortedEntry* const entries = columns_.of(column) + node.begin;
    const float first = entries[0].value, last = entries[node.count() - 1].value;
    return std::isnan(first) || last <= first + kLeastStep;
  }

  ExactSplit best_of_column(const Pending& node, const Sums& sums, int64 column,
                            Running& running) const {
    ExactSplit best;
    best.column = column;
    best.n_present = columns_.n_present(column, node.begin, node.end);
    best.n_missing = node.count() - best.n_present;
    const SortedEntry* const entries = columns_.of(column) + node.begin;
    scan(entries, node.count(), sums, false, running, best);
    if (best.n_missing > 0) scan(entries, node.count(), sums, true, running, best);
    if (best.worth == kNoWorth) best.column = -1;
    return best;
  }

  // Looks at the positions of a column, with its missing values on one side.
  void scan(const SortedEntry* entries, int64 count, const Sums& sums, bool missing_left,
            Running& running, ExactSplit& best) const {
    running.begin(sums);
    const int64 n_present = best.n_present, n_missing = best.n_missing;
    if (missing_left) {
      for (int64 i = n_present; i < count; ++i) running.add(entries[i].row);
    }
    const int64 n_before = missing_left ? n_missing : 0;
    const bool may_part_missing = n_missing > 0 && !missing_left;
    // The first and the last position that leave enough rows on both sides.
    const int64 least = std::max<int64>(options_.min_samples_leaf - n_before, 1);
    const int64 most = std::min(count - options_.min_samples_leaf - n_before,
                                may_part_missing ? n_present : n_present - 1);
    SplitBlock block;
    for (int64 k = 1; k <= most; ++k) {
      running.add(entries[k - 1].row);
      const bool is_step = k == n_present || entries[k].value > entries[k - 1].value + kLeastStep;
      if (k < least || !is_step) continue;
      const double weight = running.weight();
      if (weight < options_.min_weight_leaf || sums.weight - weight < options_.min_weight_leaf) {
        continue;
      }
      block.position[block.size] = k;
      running.record(block, block.size);
      if (++block.size == SplitBlock::kSize) offer(running, block, missing_left, best);
    }
    offer(running, block, missing_left, best);
  }

  static void offer(Running& running, SplitBlock& block, bool missing_left, ExactSplit& best) {
    running.find_worths(block, best.worth);
    for (int i = 0; i < block.size; ++i) {
      if (!(block.worth[i] > best.worth)) continue;
      best.worth = block.worth[i];
      best.position = block.position[i];
      best.missing_left = missing_left;
    }
    block.size = 0;
  }

  // Marks the rows that go left, and brings the split's column in the order of the children.
  void deal_column(const Pending& node, const ExactSplit& split) {
    const SortedEntry* const entries = columns_.of(split.column) + node.begin;
    for (int64 i = 0; i < node.count(); ++i) {
      const bool is_missing = i >= split.n_present;
      goes_left_[entries[i].row] = is_missing ? split.missing_left : i < split.position;
    }
    if (split.missing_left) {
      columns_.deal(split.column, node.begin, node.end, goes_left_.data(), 0);
    }
  }

  void deal_others(const Pending& node, const ExactSplit& split, int64 n_constants) {
    const std::vector<int64>& columns = draws_.columns();
    const auto first = static_cast<std::size_t>(n_constants);
    for_each(columns.size() - first, node.count(), [&](std::size_t k, int worker) {
      const int64 column = columns[first + k];
      if (column == split.column) return;
      columns_.deal(column, node.begin, node.end, goes_left_.data(), worker);
    });
  }

  // Calls work(k, worker) for k = 0 .. count-1, on all threads where a node is large.
  template <class Work>
  void for_each(std::size_t count, int64 n_rows, Work work) {
    if (pool_.size() == 1 || static_cast<int64>(count) * n_rows < kParallel) {
      for (std::size_t k = 0; k < count; ++k) work(k, 0);
      return;
    }
    std::atomic<std::size_t> next{0};
    pool_.run([&](int worker) {
      for (std::size_t k = next++; k < count; k = next++) work(k, worker);
    });
  }

  int64 add_node(const Pending& node, const Sums& sums, const ExactSplit& split) {
    const auto id = static_cast<int64>(tree_.size());
    const auto n_values = static_cast<std::size_t>(targets_.n_values());
    if (static_cast<int64>(tree_.values.size() + n_values) > options_.most_values) {
      throw std::length_error("the values of " + std::to_string(id + 1) + " nodes for " +
                              std::to_string(n_values) +
                              " classes do not fit into memory: expected fewer classes, or a "
                              "smaller max_depth");
    }
    if (node.parent >= 0) {
      (node.is_left ? tree_.left : tree_.right)[static_cast<std::size_t>(node.parent)] = id;
    }
    const bool is_leaf = split.column < 0;
    tree_.left.push_back(-1);
    tree_.right.push_back(-1);
    tree_.column.push_back(is_leaf ? -2 : split.column);
    tree_.threshold.push_back(is_leaf ? -2 : threshold_of(node, split));
    const bool missing_left =
        split.n_missing == 0 ? 2 * split.n_left() > node.count() : split.missing_left;
    tree_.missing_left.push_back(!is_leaf && missing_left);
    tree_.n_rows.push_back(node.count());
    tree_.weight.push_back(sums.weight);
    tree_.impurity.push_back(node.impurity);
    tree_.max_depth = std::max(tree_.max_depth, node.depth);
    tree_.values.resize(tree_.values.size() + n_values);
    targets_.write_values(sums, tree_.values.data() + tree_.values.size() - n_values);
    return id;
  }

  // Half way between the numbers on both sides; infinity parts missing values from all others.
  double threshold_of(const Pending& node, const ExactSplit& split) const {
    if (split.position == split.n_present) return std::numeric_limits<double>::infinity();
    // Missing values on the left lie between the two numbers by now.
    const SortedEntry* const entries = columns_.of(split.column) + node.begin;
    const double below = entries[split.position - 1].value;
    const double above = entries[split.n_left()].value;
    return below / 2.0 + above / 2.0;
  }

  SortedColumns& columns_;
  const Targets& targets_;
  ExactOptions options_;
  ThreadPool& pool_;
  Interrupt& interrupt_;
  ColumnDraws draws_;
  std::vector<uint8> goes_left_;
  std::vector<Running> running_;  // one a thread
  std::vector<int64> visited_;
  std::vector<ExactSplit> found_;
  TreeArrays tree_;
};

}  // namespace snapml::native::trees
