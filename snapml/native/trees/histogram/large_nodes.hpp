// The upper part of a tree: nodes whose rows do not fit a cache, by all threads together; then the
// nodes below them, each by one thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "threads/free_memory.hpp"
#include "trees/histogram/growing.hpp"

namespace snapml::native::trees {

// Rows in their order; memory is first touched by the threads that use it.
inline std::unique_ptr<uint32[]> numbered_rows(int64 n_rows, ThreadPool& pool) {
  std::unique_ptr<uint32[]> rows(new uint32[static_cast<std::size_t>(n_rows)]);
  pool.run([&](int worker) {
    const Range own = share(n_rows, pool.size(), worker);
    std::iota(rows.get() + own.begin, rows.get() + own.end, static_cast<uint32>(own.begin));
  });
  return rows;
}

// Histograms up to this size have a copy for each thread; of larger ones threads share columns.
constexpr int64 kCopiedBytes = 1 << 20;
// The rows that a thread adds up at a time.
constexpr int64 kPartRows = 4096;
// What a subtree's rows take at most, about the cache of a core.
constexpr int64 kSubtreeBytes = 1 << 21;

template <class Targets, class Binned>
class TreeGrower {
 public:
  using Sum = typename Targets::Sum;
  using Histogram = typename HistogramStore<Sum>::Histogram;

  TreeGrower(const Growth<Targets, Binned>& growth, ThreadPool& pool, Interrupt& interrupt)
      : growth_(growth),
        pool_(pool),
        interrupt_(interrupt),
        store_(growth.histogram_size()),
        finders_(static_cast<std::size_t>(pool.size()), growth.finder()) {
    const int64 n_rows = growth.binned.n_rows;
    const int64 row_bytes = growth.binned.n_cols * static_cast<int64>(sizeof(typename Binned::Bin));
    subtree_rows_ = std::max<int64>(kSubtreeBytes / std::max<int64>(row_bytes, 1), 256);
    if (pool.size() > 1) {
      subtree_rows_ = std::min(subtree_rows_, std::max<int64>(n_rows / (8 * pool.size()), 512));
    }
    const int64 enough = std::max<int64>(16 << 20, n_rows * growth.binned.n_cols / 16);
    most_kept_ = enough / std::max<int64>(store_.bytes(), 1);
  }

  GrownTree grow() {
    tree_.rows = numbered_rows(growth_.binned.n_rows, pool_);
    room_.reset(new uint32[static_cast<std::size_t>(growth_.binned.n_rows)]);
    nodes_.push_back(root_of(growth_.binned.n_rows));
    if (is_open(0, 0)) push(0, 0, nullptr);
    while (!open_.empty() && !interrupt_.requested()) {
      interrupt_.poll();
      std::pop_heap(open_.begin(), open_.end());
      OpenNode open = std::move(open_.back());
      open_.pop_back();
      if (open.pending.histogram) --n_kept_;
      if (growth_.best_splits.could_hold(open.priority)) {
        split(open);
      } else {
        store_.give_back(std::move(open.pending.histogram));
      }
    }
    room_.reset();
    return_free_memory();
    grow_subtrees();
    return std::move(tree_);
  }

 private:
  // A node that is to be split so.
  struct OpenNode {
    Pending<Sum> pending;
    Split split;
    double priority;
    bool operator<(const OpenNode& other) const { return priority < other.priority; }
  };

  // Leaves a node to one thread, or finds its split.
  void push(int32 id, int64 depth, Histogram histogram) {
    const Node node = at(id);
    if (node.count() <= subtree_rows_) {
      tasks_.push_back({id, depth, kept(std::move(histogram))});
      return;
    }
    if (!histogram) histogram = histogram_of(node);
    const std::vector<Sum> all = growth_.total(histogram.get());
    Split best = find(node, histogram.get(), all.data());
    if (!growth_.is_worth_it(finders_[0], node, best, all.data())) {
      store_.give_back(std::move(histogram));
      return;
    }
    // The best first where leaves are limited, else the last.
    const double priority = growth_.best_splits.is_limited()
                                ? std::min(node.least_above, best.improvement)
                                : static_cast<double>(n_opened_++);
    open_.push_back({{id, depth, kept(std::move(histogram))}, best, priority});
    std::push_heap(open_.begin(), open_.end());
  }

  // A histogram that stays until its node's turn, unless they are many.
  Histogram kept(Histogram histogram) {
    if (histogram && n_kept_ >= most_kept_) store_.give_back(std::move(histogram));
    if (histogram) ++n_kept_;
    return histogram;
  }

  Node& at(int32 node) { return nodes_[static_cast<std::size_t>(node)]; }

  void split(OpenNode& open) {
    const Node node = at(open.pending.node);
    const int64 n_left =
        part_by_all(tree_.rows.get() + node.begin, node.count(),
                    RowSides<Binned>(growth_.binned, open.split), room_.get(), pool_);
    const auto [small, large] = growth_.add_children(nodes_, open.pending.node, open.split, n_left);
    push_children(small, large, open.pending);
  }

  void push_children(int32 small, int32 large, Pending<Sum>& parent) {
    const int64 depth = parent.depth + 1;
    const bool is_small_open = is_open(small, depth), is_large_open = is_open(large, depth);
    Histogram small_histogram;
    if (is_small_open || (is_large_open && parent.histogram)) {
      small_histogram = histogram_of(at(small));
    }
    if (is_large_open && parent.histogram) {
      subtract_histogram(small_histogram.get(), store_.size(), parent.histogram.get());
    } else {
      store_.give_back(std::move(parent.histogram));
    }
    if (is_large_open) push(large, depth, std::move(parent.histogram));
    if (is_small_open) {
      push(small, depth, std::move(small_histogram));
    } else {
      store_.give_back(std::move(small_histogram));
    }
  }

  bool is_open(int32 node, int64 depth) {
    return !growth_.is_leaf(at(node), depth, tree_.rows.get() + at(node).begin);
  }

  Split find(const Node& node, const Sum* histogram, const Sum* all) {
    std::vector<Split> best(finders_.size());
    const bool is_long = growth_.histogram_size() > 1 << 16;
    if (pool_.size() == 1 || !is_long || growth_.options.max_features < growth_.binned.n_cols) {
      growth_.for_columns(node, drawn_, [&](int64 column) {
        return growth_.scan(finders_[0], node, column, histogram, all, best[0]);
      });
      return best[0];
    }
    pool_.run([&](int worker) {
      const auto k = static_cast<std::size_t>(worker);
      const Range own = share(growth_.binned.n_cols, pool_.size(), worker);
      for (int64 j = own.begin; j < own.end; ++j) {
        growth_.scan(finders_[k], node, j, histogram, all, best[k]);
      }
    });
    for (std::size_t k = 1; k < best.size(); ++k) best[0].offer(best[k]);
    return best[0];
  }

  void add(Range columns, Range rows, Sum* histogram) const {
    const Binned& binned = growth_.binned;
    const uint32* order = tree_.rows.get();
    add_rows<false>(
        growth_.targets, binned.first_bin, columns, rows,
        [&](int64 i) { return binned.row(order[i]); },
        [&](int64 i) { return growth_.targets.entry(order[i]); }, histogram);
  }

  Histogram histogram_of(const Node& node) {
    const int64 n_cols = growth_.binned.n_cols, size = store_.size();
    const int n_threads = pool_.size();
    Histogram sums = store_.take_zeros();
    if (n_threads == 1) {
      add({0, n_cols}, {node.begin, node.end}, sums.get());
      return sums;
    }
    if (store_.bytes() > kCopiedBytes) {
      pool_.run([&](int worker) {
        add(share(n_cols, n_threads, worker), {node.begin, node.end}, sums.get());
      });
      return sums;
    }
    std::vector<Histogram> copies;
    for (int k = 1; k < n_threads; ++k) copies.push_back(store_.take_zeros());
    run_parts(pool_, node.count(), kPartRows, [&](int worker, Range part) {
      add({0, n_cols}, {node.begin + part.begin, node.begin + part.end},
          worker == 0 ? sums.get() : copies[static_cast<std::size_t>(worker) - 1].get());
    });
    for (Histogram& copy : copies) {
      for (int64 k = 0; k < size; ++k)
        sums[static_cast<std::size_t>(k)] += copy[static_cast<std::size_t>(k)];
      store_.give_back(std::move(copy));
    }
    return sums;
  }

  // The best first where leaves are limited, then the largest, so that threads end at about the
  // same time.
  void grow_subtrees() {
    const bool is_limited = growth_.best_splits.is_limited();
    const auto rank = [&](const Pending<Sum>& pending) {
      const Node& node = at(pending.node);
      return std::pair(is_limited ? node.least_above : 0, node.count());
    };
    std::sort(tasks_.begin(), tasks_.end(),
              [&](const auto& a, const auto& b) { return rank(a) > rank(b); });
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      at(tasks_[t].node).subtree = static_cast<int32>(t) + 1;
    }
    tree_.lists.resize(tasks_.size() + 1);
    tree_.lists[0] = {nodes_, growth_.options};
    std::atomic<std::size_t> next{0};
    pool_.run([&](int) {
      SubtreeGrower<Targets, Binned> grower(growth_);
      for (std::size_t t = next++; t < tasks_.size() && !interrupt_.requested(); t = next++) {
        const Node& node = at(tasks_[t].node);
        if (growth_.is_cut(node, tasks_[t].depth)) {
          tree_.lists[t + 1] = {{node}, growth_.options};
          continue;
        }
        tree_.lists[t + 1] = grower.grow(tree_.rows.get() + node.begin, node, tasks_[t].depth,
                                         std::move(tasks_[t].histogram), interrupt_);
      }
    });
  }

  const Growth<Targets, Binned>& growth_;
  ThreadPool& pool_;
  Interrupt& interrupt_;
  HistogramStore<Sum> store_;
  std::vector<SplitFinder<Targets>> finders_;
  DrawnColumns drawn_;
  GrownTree tree_;
  std::vector<Node> nodes_;  // the upper part
  std::unique_ptr<uint32[]> room_;
  std::vector<OpenNode> open_;  // a heap
  std::vector<Pending<Sum>> tasks_;
  int64 n_opened_ = 0, n_kept_ = 0, most_kept_ = 0, subtree_rows_ = 0;
};

}  // namespace snapml::native::trees
