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

#include "../parallel.hpp"
#include "best_splits.hpp"
#include "histogram.hpp"
#include "partition.hpp"
#include "splitting.hpp"
#include "used_bins.hpp"

namespace snapml::native::trees {

struct GrowOptions {
  Criterion criterion;
  int64 max_depth, min_samples_split, min_samples_leaf;
  double min_weight;  // of a leaf, as weights are added up
  double min_impurity_decrease;
  int64 max_features;
  uint64 seed;
  double all_weight;       // of all rows, as weights are added up
  const int32* monotonic;  // the sign of each column's constraint, or null
  const int32* n_codes;    // of each column: how many categories, 0 for numbers; or null
  int64 most_leaves;       // 0: any number
};

// A node and its rows, `begin` to `end` of the final order. Children are places in the same list.
struct Node {
  int64 begin, end;
  int32 left = -1, right = -1;
  int32 subtree = -1;  // the list that begins with this node
  bool missing_left = false;
  int64 column = -1;
  double threshold = 0;
  double improvement = 0;
  double least_above = std::numeric_limits<double>::infinity();  // improvement on the way here
  Bounds bounds = {};
  std::shared_ptr<const CodeSet> left_codes = {};  // where categories are parted
  uint64 path = 0;                                 // stands for the way from the root
  int64 count() const { return end - begin; }
};

// A node still to be split. Without a histogram it gets one, or does without.
template <class Sum>
struct Pending {
  int32 node;
  int64 depth;
  typename HistogramStore<Sum>::Histogram histogram;
};

// What all growers of a fit share.
template <class Targets, class Binned>
struct Growth {
  const Binned& binned;
  const Targets& targets;
  GrowOptions options;
  int64 direct_rows;  // nodes of fewer rows do without a histogram
  mutable BestSplits best_splits;

  Growth(const Binned& rows, const Targets& row_targets, const GrowOptions& given)
      : binned(rows),
        targets(row_targets),
        options(given),
        direct_rows(2 * rows.all_bins() / (5 * std::max<int64>(rows.n_cols, 1)) + 2),
        best_splits(given.most_leaves) {}

  SplitFinder<Targets> finder() const {
    return {targets,
            options.criterion,
            {static_cast<double>(options.min_samples_leaf), options.min_weight},
            static_cast<std::size_t>(binned.most_bins())};
  }
  int64 histogram_size() const { return binned.all_bins() * targets.n_sums(); }

  // A leaf by the limits on depth, rows and leaves.
  bool is_cut(const Node& node, int64 depth) const {
    return depth >= options.max_depth || node.count() < options.min_samples_split ||
           !best_splits.could_hold(node.least_above);
  }

  // A leaf by what is known before any split is looked at.
  bool is_leaf(const Node& node, int64 depth, const uint32* rows) const {
    if (is_cut(node, depth)) return true;
    for (int64 i = 1; i < node.count(); ++i) {
      if (!targets.is_same(rows[i], rows[0])) return false;
    }
    return true;
  }

  // Calls visit(column) for the columns that a node looks at: all, or max_features that are not
  // constant in it, drawn by the way to the node, so that neither threads nor
  // repeated rows have a say.
  template <class Visit>
  void for_columns(const Node& node, Visit visit) const {
    const int64 n_cols = binned.n_cols;
    if (options.max_features >= n_cols) {
      for (int64 j = 0; j < n_cols; ++j) visit(j);
      return;
    }
    std::vector<int64> order(static_cast<std::size_t>(n_cols));
    for (std::size_t j = 0; j < order.size(); ++j) order[j] = static_cast<int64>(j);
    int64 n_visited = 0;
    for (std::size_t j = 0; j < order.size() && n_visited < options.max_features; ++j) {
      const RandomWords words = philox(options.seed, node.path, static_cast<uint64>(j));
      const uint64 word = (static_cast<uint64>(words.word[0]) << 32) | words.word[1];
      std::swap(order[j], order[j + word % (order.size() - j)]);
      n_visited += visit(order[j]);
    }
  }

  int sign(int64 column) const {
    return options.monotonic == nullptr ? 0 : options.monotonic[column];
  }

  // Looks at a column of a histogram.
  bool scan(SplitFinder<Targets>& finder, const Node& node, int64 column,
            const typename Targets::Sum* histogram, const typename Targets::Sum* all,
            Split& best) const {
    const int n_bins = binned.n_bins(column);
    const auto* cells =
        histogram + binned.first_bin[static_cast<std::size_t>(column)] * targets.n_sums();
    return scan_bins(
        finder, node, column, cells, [](int i) { return i; }, n_bins,
        cells + n_bins * targets.n_sums(), all, best);
  }

  // Looks at bins of a column in their order, or by the means of their targets.
  template <class Order>
  bool scan_bins(SplitFinder<Targets>& finder, const Node& node, int64 column,
                 const typename Targets::Sum* cells, Order order, int size,
                 const typename Targets::Sum* missing, const typename Targets::Sum* all,
                 Split& best) const {
    if (options.n_codes == nullptr || options.n_codes[column] == 0) {
      return finder.scan(column, cells, order, size, missing, all, {sign(column), node.bounds},
                         best);
    }
    const std::vector<int> bins = finder.by_mean(cells, order, size, all);
    const auto at = [&](int i) { return bins[static_cast<std::size_t>(i)]; };
    const auto n_bins = static_cast<int>(bins.size());
    const bool differs = finder.scan(column, cells, at, n_bins, missing, all, {}, best);
    if (best.column == column) best.categories = category_sides(bins, best.left_bin);
    return differs;
  }

  // The sums over a node's rows, from the first column of its histogram.
  std::vector<typename Targets::Sum> total(const typename Targets::Sum* histogram) const {
    const auto n_sums = static_cast<std::size_t>(targets.n_sums());
    std::vector<typename Targets::Sum> all(n_sums, 0);
    const auto size = static_cast<std::size_t>(binned.n_bins(0) + 1) * n_sums;
    for (std::size_t k = 0; k < size; ++k) all[k % n_sums] += histogram[k];
    return all;
  }

  // Sets what a node's split lessens the impurity by; whether that is enough.
  bool is_worth_it(const SplitFinder<Targets>& finder, const Node& node, Split& split,
                   const typename Targets::Sum* all) const {
    if (!split.is_found()) return false;
    split.improvement = finder.improvement(split, all, options.all_weight);
    return split.improvement + std::numeric_limits<double>::epsilon() >=
               options.min_impurity_decrease &&
           best_splits.offer(std::min(node.least_above, split.improvement));
  }

  // Makes children of a node whose first n_left rows go left; the smaller one first.
  std::pair<int32, int32> add_children(std::vector<Node>& nodes, int32 parent, const Split& split,
                                       int64 n_left) const {
    const auto left = static_cast<int32>(nodes.size());
    Node& node = nodes[static_cast<std::size_t>(parent)];
    const int64 begin = node.begin, end = node.end, middle = begin + n_left;
    const Bounds bounds = node.bounds;
    const double least = std::min(node.least_above, split.improvement);
    const ColumnBins& bins = binned.columns[static_cast<std::size_t>(split.column)];
    node.left = left;
    node.right = left + 1;
    node.column = split.column;
    node.improvement = split.improvement;
    node.missing_left = split.has_missing ? split.missing_left : n_left > end - middle;
    node.threshold = split.right_bin < 0 ? std::numeric_limits<double>::infinity()
                                         : bins.threshold(split.left_bin, split.right_bin);
    if (split.categories) {
      const int n_codes = options.n_codes[split.column];
      node.left_codes = left_codes(*split.categories, bins, n_codes, node.missing_left);
    }
    const RandomWords words = philox(options.seed, node.path, ~uint64{0});
    for (int side = 0; side < 2; ++side) {
      Node child{side == 0 ? begin : middle, side == 0 ? middle : end};
      child.bounds = bounds;
      child.least_above = least;
      if (sign(split.column) != 0) {
        const bool is_upper = (sign(split.column) > 0) == (side == 0);
        (is_upper ? child.bounds.upper : child.bounds.lower) = split.middle;
      }
      child.path = static_cast<uint64>(words.word[2 * side]) << 32 | words.word[2 * side + 1];
      nodes.push_back(child);
    }
    return middle - begin <= end - middle ? std::pair(left, left + 1) : std::pair(left + 1, left);
  }
};

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
  std::vector<Node> grow(uint32* rows, const Node& top, int64 depth, Histogram histogram,
                         Interrupt& interrupt, int worker) {
    const int64 count = top.count();
    copy_rows(rows, count);
    std::vector<Node> nodes{top};
    nodes[0].begin = 0;
    nodes[0].end = count;
    stack_.clear();
    n_kept_ = histogram ? 1 : 0;
    stack_.push_back({0, depth, std::move(histogram)});
    while (!stack_.empty() && !interrupt.requested()) {
      interrupt.poll(worker);
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
    return nodes;
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
    growth_.for_columns(node, [&](int64 column) {
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
    growth_.for_columns(node,
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
    Bin* const order = order_.data();
    const int n_bins = growth_.binned.n_bins(column);
    const int size = used_.take(n_bins, order);
    const bool has_missing = order[size - 1] == n_bins;
    const bool differs = growth_.scan_bins(
        finder_, node, column, cells_.data(), [&](int i) { return static_cast<int>(order[i]); },
        size - has_missing, has_missing ? cells_.data() + n_bins * n_sums : nullptr, all, best);
    for (int i = 0; i < size; ++i) std::fill_n(cells_.data() + order[i] * n_sums, n_sums, Sum{0});
    return differs;
  }

  const Growth<Targets, Binned>& growth_;
  SplitFinder<Targets> finder_;
  HistogramStore<Sum> store_;
  std::vector<Sum> cells_, all_;
  UsedBins<Bin> used_;
  std::vector<Bin> order_, bins_;
  std::vector<Entry> entries_;
  std::vector<uint32> positions_, room_;
  const uint32* rows_ = nullptr;
  std::vector<Pending<Sum>> stack_;
  int64 n_kept_ = 0, most_kept_ = 0;
};

}  // namespace snapml::native::trees
