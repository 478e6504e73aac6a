// Trees whose splits lie between any two rows: the ones that scikit-learn finds.
//
// scikit-learn draws the order of a node's columns when all nodes before it are done, and the first
// one drawn wins among those that are worth the same. Mostly one column is worth more than all
// others. So threads grow branches ahead of the draws and stop at ties; draws are made up for in
// the order of the nodes, and what is below a tie is grown then. The tree is the same whoever grew
// it.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "threads/parallel.hpp"
#include "trees/exact/column_draws.hpp"
#include "trees/exact/exact_branch.hpp"
#include "trees/exact/exact_criteria.hpp"
#include "trees/exact/exact_nodes.hpp"
#include "trees/exact/sorted_columns.hpp"

namespace snapml::native::trees {

// Rows whose targets, marks and places in a column fit the cache of a core.
constexpr int64 kBranchRows = 32768;
// Entries from which on a node is worth waking the other threads.
constexpr int64 kSharedEntries = 65536;

template <class Targets>
class ExactGrower {
 public:
  ExactGrower(SortedColumns& columns, const Targets& targets, const ExactOptions& options,
              ThreadPool& pool, Interrupt& interrupt)
      : columns_(columns),
        targets_(targets),
        options_(options),
        pool_(pool),
        interrupt_(interrupt),
        limit_(options.most_values),
        draws_(columns.n_cols(), options.max_features, options.seed),
        is_ahead_(pool.size() > 1 && options.max_features == columns.n_cols()),
        workers_(static_cast<std::size_t>(pool.size())) {
    const int64 few = std::max<int64>(kSharedEntries / columns.n_cols(), 1);
    tied_rows_ = pool.size() == 1 ? kBranchRows : std::min(few, kBranchRows);
    branch_rows_ = tied_rows_;
    if (is_ahead_) {
      const int64 share = columns.n_rows() / (16 * pool.size());
      branch_rows_ = std::min(std::max(share, tied_rows_), kBranchRows);
    }
  }

  TreeArrays grow() {
    expect_nodes();
    const std::unique_ptr<uint8[]> goes_left(
        new uint8[static_cast<std::size_t>(columns_.n_rows())]);
    Crew crew{*this};
    BranchGrower<Targets, Crew> grower(columns_, targets_, options_, limit_, goes_left.get(), crew);
    ExactPending root{0, columns_.n_rows()};
    root.impurity = grower.impurity_of(root);
    ColumnDraws in_order(columns_.n_cols());
    grower.grow(root, is_ahead_ ? in_order : draws_, trunk_, interrupt_);
    settle_all();
    return std::move(tree_);
  }

 private:
  // Refuses classes whose values cannot fit before time is spent on a tree of many nodes.
  void expect_nodes() const {
    const int64 n_values = targets_.n_values();
    const bool is_plain = options_.max_features == columns_.n_cols() &&
                          options_.min_samples_split <= 2 && options_.min_samples_leaf <= 1 &&
                          options_.min_weight_leaf <= 0 && options_.min_impurity_decrease <= 0;
    // A path of some depth has as many leaves beside it; if none is as deep, all leaves are done.
    const auto n_nodes = [&](int64 n_leaves) {
      return 2 * std::min(n_leaves - 1, options_.max_depth) + 1;
    };
    if (!is_plain || limit_.fits(n_nodes(n_values), n_values)) return;
    for (int64 j = 0; j < columns_.n_cols(); ++j) {
      const int64 least = targets_.least_leaves(columns_.of(j), columns_.n_rows(), kLeastStep);
      limit_.expect(n_nodes(least), n_values);
    }
  }

  // A branch that one thread grows, on rows numbered from 0.
  struct Task {
    ExactPending top;
    std::optional<ColumnDraws> draws;  // ahead of the others
    std::optional<Targets> targets;
    ExactBranch branch;
    std::atomic<bool> is_grown{false};

    explicit Task(const ExactPending& node) : top(node) {}
  };

  // All threads, on the nodes above the branches.
  struct Crew {
    ExactGrower& grower;

    int first() const { return 0; }
    int size() const { return grower.pool_.size(); }
    bool is_ahead() const { return grower.is_ahead_; }

    template <class Work>
    void for_each(std::size_t count, int64 n_rows, Work work) {
      if (size() == 1 || static_cast<int64>(count) * n_rows < kSharedEntries) {
        for (std::size_t k = 0; k < count; ++k) work(k, 0);
        return;
      }
      std::atomic<std::size_t> next{0};
      grower.pool_.run([&](int worker) {
        for (std::size_t k = next++; k < count; k = next++) work(k, worker);
      });
    }

    bool leaves(const ExactPending& node, const ColumnDraws& draws) {
      const int64 most = node.after_tie ? grower.tied_rows_ : grower.branch_rows_;
      if (node.count() > most || is_small_leaf(node)) return false;
      if (is_ahead()) {
        grower.tasks_.emplace_back(node).draws = draws;
      } else {
        grower.settle(grower.trunk_walk_, grower.trunk_, 0);
        grower.grow_task(grower.tasks_.emplace_back(node), 0);
      }
      return true;
    }

    // A leaf that is not worth a branch.
    bool is_small_leaf(const ExactPending& node) const {
      return node.depth > 0 && (node.count() < grower.options_.min_samples_split ||
                                node.depth >= grower.options_.max_depth);
    }

    bool catch_up(const ExactPending& node, const int64* first, const int64* last,
                  std::vector<int64>& visited) {
      grower.settle_all();
      grower.draw(node.n_constants, first, last, visited);
      return true;
    }
  };

  // What a thread needs for any branch.
  struct Worker {
    std::vector<uint8> goes_left;
    std::unique_ptr<uint32[]> numbers;
  };

  // Where a walk over a branch has come to.
  struct Walk {
    struct Above {
      int64 parent;
      bool is_left;
    };

    Above top;                    // of the first node
    std::vector<int64> ids = {};  // in the tree
    std::size_t n_values = 0, n_constants = 0, n_others = 0;

    Above above(const ExactNode& node) const {
      if (node.parent < 0) return top;
      return {ids[static_cast<std::size_t>(node.parent)], node.is_left};
    }
  };

  const Targets& targets_of(const Task& task) const {
    return task.targets ? *task.targets : targets_;
  }

  void grow_task(Task& task, int worker) {
    const ExactPending& top = task.top;
    ColumnDraws& draws = is_ahead_ ? *task.draws : draws_;
    if (top.count() < columns_.n_rows()) {
      std::unique_ptr<uint32[]>& numbers = workers_[static_cast<std::size_t>(worker)].numbers;
      if (!numbers) numbers.reset(new uint32[static_cast<std::size_t>(columns_.n_rows())]);
      task.targets = targets_.of_rows(columns_.of(top.list) + top.begin, top.count());
      const std::vector<int64>& columns = draws.columns();
      columns_.number_rows(top.list, columns.data() + top.n_constants,
                           columns.data() + columns.size(), top.begin, top.end, numbers.get());
    }
    grow_branch(task, top, draws, is_ahead_, task.branch, worker);
    task.is_grown.store(true, std::memory_order_release);
  }

  void grow_branch(const Task& task, const ExactPending& top, ColumnDraws& draws, bool is_ahead,
                   ExactBranch& branch, int worker) {
    std::vector<uint8>& goes_left = workers_[static_cast<std::size_t>(worker)].goes_left;
    goes_left.resize(static_cast<std::size_t>(kBranchRows));
    LoneWorker crew(worker, is_ahead);
    BranchGrower<Targets, LoneWorker>(columns_, targets_of(task), options_, limit_,
                                      goes_left.data(), crew)
        .grow(top, draws, branch, interrupt_);
  }

  // Grows the branches that were left, and brings the tree up to the last node of the trunk.
  void settle_all() {
    std::atomic<std::size_t> next{n_settled_};
    std::mutex settling;
    if (is_ahead_ && n_settled_ < tasks_.size()) {
      pool_.run([&](int worker) {
        for (std::size_t k; (k = next++) < tasks_.size() && !interrupt_.requested();) {
          grow_task(tasks_[k], worker);
          const std::unique_lock<std::mutex> lock(settling, std::try_to_lock);
          if (lock) settle(trunk_walk_, trunk_, worker);
        }
      });
    }
    settle(trunk_walk_, trunk_, 0);
  }

  // Goes on with the trunk until a branch is not grown yet.
  void settle(Walk& walk, ExactBranch& trunk, int worker) {
    while (walk.ids.size() < trunk.nodes.size() && !interrupt_.requested()) {
      if (!trunk.nodes[walk.ids.size()].is_elsewhere) {
        add_node(walk, trunk, targets_, is_ahead_);
        continue;
      }
      Task& task = tasks_[n_settled_];
      if (!task.is_grown.load(std::memory_order_acquire)) return;
      ++n_settled_;
      settle_branch(place_of(walk, trunk), task, worker);
      task.branch = {};
      task.draws.reset();
      task.targets.reset();
    }
  }

  void settle_branch(Walk walk, const Task& task, int worker) {
    const ExactBranch& branch = task.branch;
    const Targets& targets = targets_of(task);
    while (walk.ids.size() < branch.nodes.size() && !interrupt_.requested()) {
      if (!branch.nodes[walk.ids.size()].is_elsewhere) {
        add_node(walk, branch, targets, is_ahead_);
        continue;
      }
      // The columns that were worth the same, again, in the order that is drawn now.
      const ExactPending& top = branch.others[walk.n_others];
      ExactBranch rest;
      grow_branch(task, top, draws_, false, rest, worker);
      Walk below = place_of(walk, branch);
      while (below.ids.size() < rest.nodes.size()) add_node(below, rest, targets, false);
    }
  }

  // Steps over a node that is elsewhere.
  Walk place_of(Walk& walk, const ExactBranch& branch) {
    const Walk place{walk.above(branch.nodes[walk.ids.size()])};
    walk.ids.push_back(-1);
    ++walk.n_others;
    return place;
  }

  // Takes the next node of a branch into the tree, and makes up for its draws.
  void add_node(Walk& walk, const ExactBranch& branch, const Targets& targets, bool was_ahead) {
    const ExactNode& node = branch.nodes[walk.ids.size()];
    if (was_ahead && node.n_known >= 0) {
      const int64* const found = branch.constants.data() + walk.n_constants;
      draw(node.n_known, found, found + node.n_found, drawn_);
      walk.n_constants += static_cast<std::size_t>(node.n_found);
    }
    const auto above = walk.above(node);
    walk.ids.push_back(tree_.add(node, above.parent, above.is_left));
    targets.write_values(branch.values.data() + walk.n_values, tree_.values);
    walk.n_values += static_cast<std::size_t>(targets.n_kept_values());
  }

  // Draws as scikit-learn does in a node that has found these columns constant.
  void draw(int64 n_known, const int64* first, const int64* last, std::vector<int64>& visited) {
    is_constant_.resize(static_cast<std::size_t>(columns_.n_cols()));
    const auto mark = [&](bool is_constant) {
      for (const int64* column = first; column != last; ++column) {
        is_constant_[static_cast<std::size_t>(*column)] = is_constant;
      }
    };
    mark(true);
    draws_.draw(
        n_known, [&](int64 column) { return is_constant_[static_cast<std::size_t>(column)] != 0; },
        visited);
    mark(false);
  }

  SortedColumns& columns_;
  const Targets& targets_;
  const ExactOptions& options_;
  ThreadPool& pool_;
  Interrupt& interrupt_;
  ValueLimit limit_;
  ColumnDraws draws_;
  const bool is_ahead_;
  int64 branch_rows_ = 0, tied_rows_ = 0;  // that one thread takes on
  std::vector<Worker> workers_;
  ExactBranch trunk_;  // what all threads have grown
  std::deque<Task> tasks_;
  TreeArrays tree_;
  Walk trunk_walk_{{-1, false}};
  std::size_t n_settled_ = 0;  // of the tasks
  std::vector<int64> drawn_;
  std::vector<uint8> is_constant_;
};

}  // namespace snapml::native::trees
