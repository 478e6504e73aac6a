// What all growers of a fit share: nodes, limits, and how a node comes by a split and children.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "trees/bins/used_bins.hpp"
#include "trees/histogram/best_splits.hpp"
#include "trees/histogram/histogram.hpp"
#include "trees/histogram/splitting.hpp"

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

// A node and its rows, `begin` to `end` of the final order. Children are places in the same list,
// side by side. Deep trees have many nodes: what is known of one before its split makes room for
// what the split says.
struct Node {
  uint32 begin, end;
  int32 left = -1;
  int32 subtree = -1;  // the list that begins with this node
  int32 column = -1;
  bool missing_left = false;
  union {
    double least_above = std::numeric_limits<double>::infinity();  // improvement on the way here
    double improvement;                                            // once it is split
  };
  union {
    uint64 path = 0;   // stands for the way from the root
    double threshold;  // once it is split
  };
  Bounds bounds = {};
  std::shared_ptr<const CodeSet> left_codes = {};  // where categories are parted

  Node(uint32 first, uint32 last) : begin(first), end(last) {}
  bool is_split() const { return left >= 0; }
  int32 right() const { return left + 1; }
  int64 count() const { return int64{end} - begin; }
};
static_assert(sizeof(Node) <= 72);

// The node of all rows.
inline Node root_of(int64 n_rows) { return Node(0, static_cast<uint32>(n_rows)); }

// A node still to be split. Without a histogram it gets one, or does without.
template <class Sum>
struct Pending {
  int32 node;
  int64 depth;
  typename HistogramStore<Sum>::Histogram histogram;
};

// Columns in a random order, of which only those are touched that are drawn.
class DrawnColumns {
 public:
  // Goes back to columns in their order.
  void begin(int64 n_cols) {
    if (order_.empty()) {
      order_.resize(static_cast<std::size_t>(n_cols));
      std::iota(order_.begin(), order_.end(), int64{0});
    }
    while (!places_.empty()) {
      const std::size_t place = places_.back();
      places_.pop_back();
      std::swap(order_[places_.size()], order_[place]);
    }
  }

  // Draws one of those that are left.
  int64 next(uint64 word) {
    const std::size_t at = places_.size();
    places_.push_back(at + word % (order_.size() - at));
    std::swap(order_[at], order_[places_.back()]);
    return order_[at];
  }

 private:
  std::vector<int64> order_;
  std::vector<std::size_t> places_;  // that each column drawn was swapped from
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
  void for_columns(const Node& node, DrawnColumns& drawn, Visit visit) const {
    const int64 n_cols = binned.n_cols;
    if (options.max_features >= n_cols) {
      for (int64 j = 0; j < n_cols; ++j) visit(j);
      return;
    }
    drawn.begin(n_cols);
    int64 n_visited = 0;
    for (int64 j = 0; j < n_cols && n_visited < options.max_features; ++j) {
      const RandomWords words = philox(options.seed, node.path, static_cast<uint64>(j));
      n_visited += visit(drawn.next((static_cast<uint64>(words.word[0]) << 32) | words.word[1]));
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

  // Looks at the bins of a column that are marked, whose sums are in `cells`, and empties both.
  template <class Bin>
  bool scan_used(SplitFinder<Targets>& finder, const Node& node, int64 column, UsedBins<Bin>& used,
                 Bin* order, typename Targets::Sum* cells, const typename Targets::Sum* all,
                 Split& best) const {
    using Sum = typename Targets::Sum;
    const int64 n_sums = targets.n_sums();
    const int n_bins = binned.n_bins(column);
    const int size = used.take(n_bins, order);
    const bool has_missing = order[size - 1] == n_bins;
    const bool differs = scan_bins(
        finder, node, column, cells, [&](int i) { return static_cast<int>(order[i]); },
        size - has_missing, has_missing ? cells + n_bins * n_sums : nullptr, all, best);
    for (int i = 0; i < size; ++i) std::fill_n(cells + order[i] * n_sums, n_sums, Sum{0});
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
    const uint32 begin = node.begin, end = node.end;
    const uint32 middle = begin + static_cast<uint32>(n_left);
    const uint64 path = node.path;
    const Bounds bounds = node.bounds;
    const double least = std::min(node.least_above, split.improvement);
    const ColumnBins& bins = binned.columns[static_cast<std::size_t>(split.column)];
    node.left = left;
    node.column = static_cast<int32>(split.column);
    node.improvement = split.improvement;
    node.missing_left = split.has_missing ? split.missing_left : n_left > end - middle;
    node.threshold = split.right_bin < 0 ? std::numeric_limits<double>::infinity()
                                         : bins.threshold(split.left_bin, split.right_bin);
    if (split.categories) {
      const int n_codes = options.n_codes[split.column];
      node.left_codes = left_codes(*split.categories, bins, n_codes, node.missing_left);
    }
    const RandomWords words = philox(options.seed, path, ~uint64{0});
    for (int side = 0; side < 2; ++side) {
      Node child(side == 0 ? begin : middle, side == 0 ? middle : end);
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

}  // namespace snapml::native::trees
