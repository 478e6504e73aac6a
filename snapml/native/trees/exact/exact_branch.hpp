// Splits the nodes of a branch depth first, left before right, as scikit-learn numbers them.
//
// Which columns a node looks at, and in which order, `ColumnDraws` says: the first one drawn wins
// among those that are worth the same. Who does the work is the crew's: all threads together on
// large nodes (exact_growing.hpp), one of them below.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "threads/parallel.hpp"
#include "trees/exact/column_draws.hpp"
#include "trees/exact/exact_criteria.hpp"
#include "trees/exact/exact_nodes.hpp"
#include "trees/exact/sorted_columns.hpp"

namespace snapml::native::trees {

// One thread, on its own.
class LoneWorker {
 public:
  // `is_ahead`: of what was grown before, so that nobody knows yet what is drawn here.
  LoneWorker(int worker, bool is_ahead) : worker_(worker), is_ahead_(is_ahead) {}

  int first() const { return worker_; }
  int size() const { return 1; }
  bool is_ahead() const { return is_ahead_; }

  // Calls work(k, place) for k = 0 .. count-1, by workers at places 0 .. size-1.
  template <class Work>
  void for_each(std::size_t count, int64, Work work) {
    for (std::size_t k = 0; k < count; ++k) work(k, 0);
  }
  // Whether a node is left to others.
  bool leaves(const ExactPending&, const ColumnDraws&) { return false; }
  // Draws a node's columns behind everything before it; false if that has to wait.
  bool catch_up(const ExactPending&, const int64*, const int64*, std::vector<int64>&) {
    return false;
  }

 private:
  int worker_;
  bool is_ahead_;
};

template <class Targets, class Crew>
class BranchGrower {
 public:
  using Sums = typename Targets::Sums;
  using Running = typename Targets::Running;

  BranchGrower(SortedColumns& columns, const Targets& targets, const ExactOptions& options,
               ValueLimit& limit, uint8* goes_left, Crew& crew)
      : columns_(columns),
        targets_(targets),
        options_(options),
        limit_(limit),
        goes_left_(goes_left),
        crew_(crew),
        running_(static_cast<std::size_t>(crew.size())) {}

  // Adds `top`, and what is below it, to a branch.
  void grow(ExactPending top, ColumnDraws& draws, ExactBranch& branch, Interrupt& interrupt) {
    top.parent = -1;
    stack_.assign(1, top);
    while (!stack_.empty() && !interrupt.requested()) {
      interrupt.poll();
      const ExactPending node = stack_.back();
      stack_.pop_back();
      if (crew_.leaves(node, draws)) {
        branch.add_place(node);
      } else {
        grow_node(node, draws, branch);
      }
    }
  }

  double impurity_of(const ExactPending& node) { return targets_.impurity(sums_of(node)); }

 private:
  // Impurity that rounding leaves.
  static constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  // Rows are added up in parts of this size, so that sums do not depend on who adds them up; in one
  // part where there are more classes than this.
  static constexpr int64 kPartRows = 65536, kMostClasses = 1024;

  // What a node's columns have said.
  struct Choice {
    ExactSplit best;
    int64 n_constants;
    bool is_tied = false;
  };

  void grow_node(const ExactPending& node, ColumnDraws& draws, ExactBranch& branch) {
    const Sums sums = sums_of(node);
    ExactNode done = node_of(node, sums);
    Choice choice{{}, node.n_constants};
    if (!is_leaf(node, sums.weight)) {
      choice = choose(node, sums, draws);
      if (crew_.is_ahead() && !note_draws(node, draws, choice, done, branch)) {
        return branch.add_place(node);
      }
    }
    const ExactSplit& best = choice.best;
    if (best.column < 0) return add_node(done, sums, branch);
    deal_column(node, best);
    ExactPending left = node, right = node;
    left.end = right.begin = node.begin + best.n_left();
    const Sums left_sums = child_sums(left, choice), right_sums = child_sums(right, choice);
    const double lessened = sums.weight / options_.all_weight *
                            (node.impurity - right_sums.weight / sums.weight * right.impurity -
                             left_sums.weight / sums.weight * left.impurity);
    if (lessened + kEpsilon < options_.min_impurity_decrease) return add_node(done, sums, branch);
    done.column = best.column;
    done.threshold = threshold_of(node, best);
    done.missing_left = best.n_missing == 0 ? 2 * best.n_left() > node.count() : best.missing_left;
    left.parent = right.parent = static_cast<int64>(branch.nodes.size());
    left.is_left = true;
    right.is_left = false;
    add_node(done, sums, branch);
    if (!is_leaf(left, left_sums.weight) || !is_leaf(right, right_sums.weight)) {
      deal_others(node, best, draws.columns(), choice.n_constants);
    }
    stack_.push_back(right);
    stack_.push_back(left);
  }

  Choice choose(const ExactPending& node, const Sums& sums, ColumnDraws& draws) {
    const int64 n_constants = draws.draw(
        node.n_constants, [&](int64 column) { return is_constant(node, column); }, visited_);
    find_splits(node, sums);
    ExactSplit best;
    for (const ExactSplit& split : found_) {
      if (split.worth > best.worth) best = split;
    }
    return {best, n_constants};
  }

  // Ahead of the draws: takes down what they need, or makes them where they decide. False if that
  // has to wait.
  bool note_draws(const ExactPending& node, const ColumnDraws& draws, Choice& choice,
                  ExactNode& done, ExactBranch& branch) {
    const int64 *first = draws.constants() + node.n_constants,
                *last = draws.constants() + choice.n_constants;
    tied_.clear();
    for (const ExactSplit& split : found_) {
      if (split.column >= 0 && split.worth == choice.best.worth) tied_.push_back(split);
    }
    choice.is_tied = tied_.size() > 1;
    if (!choice.is_tied) {
      done.n_known = node.n_constants;
      done.n_found = last - first;
      branch.constants.insert(branch.constants.end(), first, last);
      return true;
    }
    if (!crew_.catch_up(node, first, last, visited_)) return false;
    choice.best = first_drawn();
    return true;
  }

  // That of the tied splits whose column is visited first.
  ExactSplit first_drawn() const {
    for (const int64 column : visited_) {
      for (const ExactSplit& split : tied_) {
        if (split.column == column) return split;
      }
    }
    return {};
  }

  Sums sums_of(const ExactPending& node) {
    const SortedEntry* const entries = columns_.of(node.list) + node.begin;
    const int64 n_parts = (node.count() + kPartRows - 1) / kPartRows;
    if (n_parts == 1 || targets_.n_values() > kMostClasses) {
      return targets_.sums_of(entries, node.count());
    }
    std::vector<Sums> parts(static_cast<std::size_t>(n_parts));
    crew_.for_each(parts.size(), kPartRows, [&](std::size_t k, int) {
      const int64 begin = static_cast<int64>(k) * kPartRows;
      parts[k] = targets_.sums_of(entries + begin, std::min(kPartRows, node.count() - begin));
    });
    for (std::size_t k = 1; k < parts.size(); ++k) parts[0].add(parts[k]);
    return std::move(parts[0]);
  }

  Sums child_sums(ExactPending& child, const Choice& choice) {
    ++child.depth;
    child.n_constants = choice.n_constants;
    child.list = choice.best.column;
    child.after_tie = choice.is_tied;
    Sums sums = sums_of(child);
    child.impurity = targets_.impurity(sums);
    return sums;
  }

  static ExactNode node_of(const ExactPending& node, const Sums& sums) {
    ExactNode done;
    done.parent = node.parent;
    done.depth = node.depth;
    done.is_left = node.is_left;
    done.n_rows = node.count();
    done.impurity = node.impurity;
    done.weight = sums.weight;
    return done;
  }

  void add_node(const ExactNode& node, const Sums& sums, ExactBranch& branch) {
    limit_.add(targets_.n_values());
    branch.nodes.push_back(node);
    targets_.add_values(sums, branch.values);
  }

  bool is_leaf(const ExactPending& node, double weight) const {
    return node.depth >= options_.max_depth || node.count() < options_.min_samples_split ||
           node.count() < 2 * options_.min_samples_leaf || weight < 2 * options_.min_weight_leaf ||
           node.impurity <= kEpsilon;
  }

  bool is_constant(const ExactPending& node, int64 column) const {
    const SortedEntry* const entries = columns_.of(column) + node.begin;
    const float first = entries[0].value, last = entries[node.count() - 1].value;
    return std::isnan(first) || last <= first + kLeastStep;
  }

  // Looks at the columns that are visited.
  void find_splits(const ExactPending& node, const Sums& sums) {
    found_.resize(visited_.size());
    crew_.for_each(visited_.size(), node.count(), [&](std::size_t k, int place) {
      std::unique_ptr<Running>& running = running_[static_cast<std::size_t>(place)];
      if (!running) running = std::make_unique<Running>(targets_);
      found_[k] = best_of_column(node, sums, visited_[k], *running);
    });
  }

  ExactSplit best_of_column(const ExactPending& node, const Sums& sums, int64 column,
                            Running& kept) const {
    ExactSplit best;
    best.column = column;
    best.n_present = columns_.n_present(column, node.begin, node.end);
    best.n_missing = node.count() - best.n_present;
    const SortedEntry* const entries = columns_.of(column) + node.begin;
    for (const bool missing_left : {false, true}) {
      if (missing_left && best.n_missing == 0) break;
      if constexpr (Running::kIsLight) {
        Running running(targets_);  // in registers
        scan(entries, node.count(), sums, missing_left, running, best);
      } else {
        scan(entries, node.count(), sums, missing_left, kept, best);
      }
    }
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
    const double least_weight = options_.min_weight_leaf, all_weight = sums.weight;
    for (int64 k = 1; k < std::min(least, most + 1); ++k) running.add(entries[k - 1].row);
    SplitBlock block;
    for (int64 k = least; k <= most; ++k) {
      running.add(entries[k - 1].row);
      const bool is_step = k == n_present || entries[k].value > entries[k - 1].value + kLeastStep;
      const double weight = running.weight();
      const bool is_split =
          is_step & !(weight < least_weight) & !(all_weight - weight < least_weight);
      if (Running::kIsLight || is_split) {  // without a branch where that costs less
        block.position[block.size] = k;
        running.record(block, block.size);
      }
      block.size += is_split;
      if (block.size == SplitBlock::kSize) offer(running, block, missing_left, best);
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
  void deal_column(const ExactPending& node, const ExactSplit& split) {
    const SortedEntry* const entries = columns_.of(split.column) + node.begin;
    for (int64 i = 0; i < node.count(); ++i) {
      const bool is_missing = i >= split.n_present;
      goes_left_[entries[i].row] = is_missing ? split.missing_left : i < split.position;
    }
    if (split.missing_left) {
      columns_.deal(split.column, node.begin, node.end, goes_left_, crew_.first());
    }
  }

  void deal_others(const ExactPending& node, const ExactSplit& split,
                   const std::vector<int64>& columns, int64 n_constants) {
    const auto first = static_cast<std::size_t>(n_constants);
    crew_.for_each(columns.size() - first, node.count(), [&](std::size_t k, int place) {
      const int64 column = columns[first + k];
      if (column == split.column) return;
      columns_.deal(column, node.begin, node.end, goes_left_, crew_.first() + place);
    });
  }

  // Half way between the numbers on both sides; infinity parts missing values from all others.
  double threshold_of(const ExactPending& node, const ExactSplit& split) const {
    if (split.position == split.n_present) return std::numeric_limits<double>::infinity();
    // Missing values on the left lie between the two numbers by now.
    const SortedEntry* const entries = columns_.of(split.column) + node.begin;
    const double below = entries[split.position - 1].value;
    const double above = entries[split.n_left()].value;
    return below / 2.0 + above / 2.0;
  }

  SortedColumns& columns_;
  const Targets& targets_;
  const ExactOptions& options_;
  ValueLimit& limit_;
  uint8* goes_left_;
  Crew& crew_;
  // One for each worker, in memory that it has taken itself: neighbours would share lines of it.
  std::vector<std::unique_ptr<Running>> running_;
  std::vector<ExactPending> stack_;
  std::vector<int64> visited_;
  std::vector<ExactSplit> found_, tied_;
};

}  // namespace snapml::native::trees
