// Nodes, from the root down.
//
// All threads work on one node while it is large (large_nodes.hpp). A node whose rows fit the cache
// goes to one thread, which copies them side by side and grows everything below (this file). Of two
// children the smaller one's histogram is added up, and its sibling's is what is left of the
// parent's. Nodes of a few rows have none: columns are added up one by one.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "threads/parallel.hpp"
#include "trees/bins/used_bins.hpp"
#include "trees/histogram/grown.hpp"
#include "trees/histogram/histogram.hpp"
#include "trees/histogram/partition.hpp"
#include "trees/histogram/splitting.hpp"

namespace snapml::native::trees {

// Grows what is below one node, on one thread. One object serves many nodes.
template <class Targets, class Binned>
class SubtreeGrower {
 public:
  using Sum = typename Targets::Sum;
  using Entry = typename Targets::Entry;
  using Histogram = typename HistogramStore<Sum>::Histogram;
  using Bin = typename Binned::Bin;

  explicit SubtreeGrower(const Growth<Targets, Binned>& growth)
      : growth_(growth),
        finder_(growth.finder()),
        store_(growth.histogram_size()),
        cells_(static_cast<std::size_t>((growth.binned.most_bins() + 1) * growth.targets.n_sums()),
               0),
        order_(static_cast<std::size_t>(growth.binned.most_bins() + 1)) {
    const int64 enough = std::max<int64>(4 << 20, growth.binned.n_rows * growth.binned.n_cols / 16);
    most_kept_ = std::max<int64>(2, enough / std::max<int64>(store_.bytes(), 1));
  }

  // Grows below `top` on its rows, which come out in their final order.
  NodeList grow(uint32* rows, const Node& top, int64 depth, Histogram histogram,
                Interrupt& interrupt) {
    const int64 count = top.count();
    copy_rows(rows, count);
    std::vector<Node>& nodes = nodes_;
    nodes.assign(1, top);
    nodes[0].begin = 0;
    nodes[0].end = static_cast<uint32>(count);
    stack_.clear();
    n_kept_ = histogram ? 1 : 0;
    stack_.push_back({0, depth, std::move(histogram)});
    while (!stack_.empty() && !interrupt.requested()) {
      interrupt.poll();
      Pending<Sum> pending = std::move(stack_.back());
      stack_.pop_back();
      split(nodes, pending);
    }
    for (int64 i = 0; i < count; ++i) room_[i] = rows[positions_[static_cast<std::size_t>(i)]];
    std::copy_n(room_.data(), count, rows);
    for (Node& node : nodes) {
      node.begin += top.begin;
      node.end += top.begin;
    }
    return {nodes, growth_.options};
  }

 private:
  void copy_rows(const uint32* rows, int64 count) {
    const auto n = static_cast<std::size_t>(count);
    const auto width = static_cast<std::size_t>(growth_.binned.n_cols);
    bins_.resize(std::max(bins_.size(), n * width));
    entries_.resize(std::max(entries_.size(), n));
    positions_.resize(n);
    room_.resize(std::max(room_.size(), n));
    rows_ = rows;
    for (std::size_t i = 0; i < n; ++i) {
      if (i + 8 < n) __builtin_prefetch(growth_.binned.row(rows[i + 8]));
      std::memcpy(bins_.data() + i * width, growth_.binned.row(rows[i]), width * sizeof(Bin));
      entries_[i] = growth_.targets.entry(rows[i]);
      positions_[i] = static_cast<uint32>(i);
    }
  }

  const Bin* row(uint32 position) const {
    return bins_.data() + static_cast<int64>(position) * growth_.binned.n_cols;
  }

  bool is_leaf(const Node& node, int64 depth) const {
    if (growth_.is_cut(node, depth)) return true;
    const uint32* positions = positions_.data() + node.begin;
    const uint32 first = rows_[positions[0]];
    for (int64 i = 1; i < node.count(); ++i) {
      if (!growth_.targets.is_same(rows_[positions[i]], first)) return false;
    }
    return true;
  }

  void split(std::vector<Node>& nodes, Pending<Sum>& pending) {
    const Node node = nodes[static_cast<std::size_t>(pending.node)];
    if (pending.histogram) --n_kept_;
    if (growth_.is_cut(node, pending.depth)) {
      store_.give_back(std::move(pending.histogram));
      return;
    }
    if (!pending.histogram && node.count() >= growth_.direct_rows) {
      pending.histogram = histogram_of(node);
    }
    std::vector<Sum>& all = all_;
    Split best =
        pending.histogram ? find(node, pending.histogram.get(), all) : find_directly(node, all);
    if (!growth_.is_worth_it(finder_, node, best, all.data())) {
      store_.give_back(std::move(pending.histogram));
      return;
    }
    uint32* positions = positions_.data() + node.begin;
    const Sides sides(best, growth_.binned.n_bins(best.column));
    const int64 n_left = part_in_place(
        positions, node.count(),
        [&](uint32 position) { return sides.is_left(row(position)[best.column]); }, room_.data());
    const auto [small, large] = growth_.add_children(nodes, pending.node, best, n_left);
    push_children(nodes, small, large, pending);
  }

  // The larger child takes over the parent's histogram, less the smaller one's rows.
  void push_children(const std::vector<Node>& nodes, int32 small, int32 large,
                     Pending<Sum>& parent) {
    const int64 depth = parent.depth + 1;
    const Node& less = nodes[static_cast<std::size_t>(small)];
    const Node& more = nodes[static_cast<std::size_t>(large)];
    const bool is_small_open = !is_leaf(less, depth), is_large_open = !is_leaf(more, depth);
    const bool wants_large = is_large_open && more.count() >= growth_.direct_rows;
    Histogram small_histogram;
    if (is_small_open && less.count() >= growth_.direct_rows) small_histogram = histogram_of(less);
    if (wants_large && parent.histogram) {
      if (small_histogram) {
        subtract_histogram(small_histogram.get(), store_.size(), parent.histogram.get());
      } else {
        add<true>(less, parent.histogram.get());
      }
      if (n_kept_ >= most_kept_) store_.give_back(std::move(parent.histogram));
    } else {
      store_.give_back(std::move(parent.histogram));
    }
    if (is_large_open) push(large, depth, std::move(parent.histogram));
    if (is_small_open) push(small, depth, std::move(small_histogram));
  }

  void push(int32 node, int64 depth, Histogram histogram) {
    if (histogram) ++n_kept_;
    stack_.push_back({node, depth, std::move(histogram)});
  }

  template <bool kSubtract>
  void add(const Node& node, Sum* histogram) const {
    const uint32* positions = positions_.data();
    add_rows<kSubtract>(
        growth_.targets, growth_.binned.first_bin, {0, growth_.binned.n_cols},
        {node.begin, node.end}, [&](int64 i) { return row(positions[i]); },
        [&](int64 i) { return entries_[positions[i]]; }, histogram);
  }

  Histogram histogram_of(const Node& node) {
    Histogram histogram = store_.take_zeros();
    add<false>(node, histogram.get());
    return histogram;
  }

  Split find(const Node& node, const Sum* histogram, std::vector<Sum>& all) {
    all = growth_.total(histogram);
    Split best;
    growth_.for_columns(node, drawn_, [&](int64 column) {
      return growth_.scan(finder_, node, column, histogram, all.data(), best);
    });
    return best;
  }

  // The bins that a few rows have, in their order, are those of a column's set bits.
  Split find_directly(const Node& node, std::vector<Sum>& all) {
    const Targets& targets = growth_.targets;
    const uint32* positions = positions_.data();
    all.assign(static_cast<std::size_t>(targets.n_sums()), 0);
    for (int64 i = node.begin; i < node.end; ++i) {
      targets.add(all.data(), entries_[positions[i]]);
    }
    Split best;
    growth_.for_columns(node, drawn_,
                        [&](int64 column) { return scan_rows(node, column, all.data(), best); });
    return best;
  }

  bool scan_rows(const Node& node, int64 column, const Sum* all, Split& best) {
    const Targets& targets = growth_.targets;
    const int64 n_sums = targets.n_sums();
    const uint32* positions = positions_.data();
    for (int64 i = node.begin; i < node.end; ++i) {
      const Bin bin = row(positions[i])[column];
      used_.mark(bin);
      targets.add(cells_.data() + bin * n_sums, entries_[positions[i]]);
    }
    return growth_.scan_used(finder_, node, column, used_, order_.data(), cells_.data(), all, best);
  }

  const Growth<Targets, Binned>& growth_;
  SplitFinder<Targets> finder_;
  DrawnColumns drawn_;
  HistogramStore<Sum> store_;
  std::vector<Sum> cells_, all_;
  UsedBins<Bin> used_;
  std::vector<Bin> order_, bins_;
  std::vector<Entry> entries_;
  std::vector<uint32> positions_, room_;
  const uint32* rows_ = nullptr;
  std::vector<Node> nodes_;
  std::vector<Pending<Sum>> stack_;
  int64 n_kept_ = 0, most_kept_ = 0;
};

}  // namespace snapml::native::trees
