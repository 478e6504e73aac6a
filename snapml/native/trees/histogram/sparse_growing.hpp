// Trees on lists of entries, column by column, without histograms of all columns.
//
// A node has a part of the list of each column that its rows have entries in. The sums of a
// column's bins are added up from that part; what they leave of the node's sums is the bin of zero.
// Then the parts are parted in place into those of the children, and keep their order. A node takes
// time for its entries alone, and the lists are all that is kept.
#pragma once

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>
#include <vector>

#include "trees/bins/sparse_binning.hpp"
#include "trees/histogram/growing.hpp"
#include "trees/histogram/large_nodes.hpp"

namespace snapml::native::trees {

// Where a node's entries of a column are.
struct ListPart {
  uint32 column, size;
  int64 begin;
};

// A node still to be split.
struct SparseTask {
  int32 node;
  int64 depth;
  std::vector<ListPart> parts;  // by column, none of them empty

  int64 n_entries() const {
    return std::accumulate(parts.begin(), parts.end(), int64{0},
                           [](int64 sum, const ListPart& part) { return sum + part.size; });
  }
};

// What one thread needs for one column at a time.
template <class Targets>
class ColumnScanner {
 public:
  using Sum = typename Targets::Sum;
  using Entry = typename Targets::Entry;

  explicit ColumnScanner(const Growth<Targets, BinnedColumns>& growth)
      : growth_(growth),
        finder_(growth.finder()),
        cells_(static_cast<std::size_t>((growth.binned.most_bins() + 1) * growth.targets.n_sums()),
               0),
        order_(static_cast<std::size_t>(growth.binned.most_bins() + 1)) {}

  const SplitFinder<Targets>& finder() const { return finder_; }
  DrawnColumns& drawn() { return drawn_; }

  // Looks at the splits of a column of a node. False where the rows do not differ in it.
  bool scan(const Node& node, const ListPart& part, const std::vector<Entry>& entries,
            const Sum* all, Split& best) {
    const bool has_zeros = static_cast<int64>(part.size) < node.count();
    // A split must keep the rows of the bin of zero together, because the other rows are too few to
    // be a side on their own.
    if (has_zeros && part.size < growth_.options.min_samples_leaf) return true;
    const Targets& targets = growth_.targets;
    const int64 n_sums = targets.n_sums();
    zeros_.assign(all, all + n_sums);
    const uint32* rows = growth_.binned.rows.get() + part.begin;
    const uint16* bins = growth_.binned.bins.get() + part.begin;
    for (uint32 k = 0; k < part.size; ++k) {
      const Entry& entry = entries[rows[k]];
      used_.mark(bins[k]);
      targets.add(cells_.data() + bins[k] * n_sums, entry);
      targets.subtract(zeros_.data(), entry);
    }
    if (has_zeros) {
      const int bin = growth_.binned.zero_bin[part.column];
      used_.mark(static_cast<uint16>(bin));
      std::copy(zeros_.begin(), zeros_.end(), cells_.begin() + bin * n_sums);
    }
    return growth_.scan_used(finder_, node, part.column, used_, order_.data(), cells_.data(), all,
                             best);
  }

  // Puts the entries of rows that go left before the others; how many there are.
  int64 part_list(const ListPart& part, const std::vector<uint8>& is_left) {
    uint32* rows = growth_.binned.rows.get() + part.begin;
    uint16* bins = growth_.binned.bins.get() + part.begin;
    row_room_.resize(std::max<std::size_t>(row_room_.size(), part.size));
    bin_room_.resize(row_room_.size());
    int64 n_left = 0, n_right = 0;
    for (uint32 k = 0; k < part.size; ++k) {
      const uint32 row = rows[k];
      const uint16 bin = bins[k];
      const bool goes_left = is_left[row] != 0;
      rows[n_left] = row;  // overwritten by the next one unless it stays
      bins[n_left] = bin;
      row_room_[static_cast<std::size_t>(n_right)] = row;
      bin_room_[static_cast<std::size_t>(n_right)] = bin;
      n_left += goes_left;
      n_right += !goes_left;
    }
    std::copy_n(row_room_.data(), n_right, rows + n_left);
    std::copy_n(bin_room_.data(), n_right, bins + n_left);
    return n_left;
  }

 private:
  const Growth<Targets, BinnedColumns>& growth_;
  SplitFinder<Targets> finder_;
  DrawnColumns drawn_;
  std::vector<Sum> cells_, zeros_;
  UsedBins<uint16> used_;
  std::vector<uint16> order_;
  std::vector<uint32> row_room_;
  std::vector<uint16> bin_room_;
};

template <class Targets>
class SparseTreeGrower {
 public:
  using Sum = typename Targets::Sum;

  SparseTreeGrower(const Growth<Targets, BinnedColumns>& growth, ThreadPool& pool,
                   Interrupt& interrupt)
      : growth_(growth),
        pool_(pool),
        interrupt_(interrupt),
        scanners_(static_cast<std::size_t>(pool.size()), ColumnScanner<Targets>(growth)) {}

  GrownTree grow() {
    const BinnedColumns& binned = growth_.binned;
    const auto n_rows = static_cast<std::size_t>(binned.n_rows);
    tree_.rows = numbered_rows(growth_.binned.n_rows, pool_);
    room_.reset(new uint32[n_rows]);
    is_left_.resize(n_rows);
    for (int64 i = 0; i < binned.n_rows; ++i) entries_.push_back(growth_.targets.entry(i));
    nodes_.push_back(root_of(binned.n_rows));
    SparseTask root{0, 0, {}};
    for (std::size_t j = 0; j < binned.columns.size(); ++j) {
      if (binned.sizes[j] == 0) continue;
      root.parts.push_back(
          {static_cast<uint32>(j), static_cast<uint32>(binned.sizes[j]), binned.begins[j]});
    }
    most_entries_ = std::max<int64>(root.n_entries() / (8 * pool_.size()), 1 << 14);
    std::vector<SparseTask> stack;
    if (is_open(nodes_[0], 0)) stack.push_back(std::move(root));
    grow_all(nodes_, stack, kAllWorkers);
    grow_subtrees();
    return std::move(tree_);
  }

 private:
  static constexpr int kAllWorkers = -1;

  bool is_open(const Node& node, int64 depth) const {
    return !growth_.is_leaf(node, depth, tree_.rows.get() + node.begin);
  }

  // Splits what is on the stack and below; small nodes are left for one thread each.
  void grow_all(std::vector<Node>& nodes, std::vector<SparseTask>& stack, int worker) {
    while (!stack.empty() && !interrupt_.requested()) {
      interrupt_.poll();
      SparseTask task = std::move(stack.back());
      stack.pop_back();
      if (worker == kAllWorkers && pool_.size() > 1 && task.n_entries() <= most_entries_) {
        small_.push_back(std::move(task));
      } else {
        split(nodes, task, stack, worker);
      }
    }
  }

  void grow_subtrees() {
    const auto size = [&](const SparseTask& task) { return task.n_entries(); };
    std::sort(small_.begin(), small_.end(),
              [&](const auto& a, const auto& b) { return size(a) > size(b); });
    const auto top_of = [&](std::size_t t) -> Node& {
      return nodes_[static_cast<std::size_t>(small_[t].node)];
    };
    for (std::size_t t = 0; t < small_.size(); ++t) top_of(t).subtree = static_cast<int32>(t) + 1;
    tree_.lists.resize(small_.size() + 1);
    tree_.lists[0] = {nodes_, growth_.options};
    std::atomic<std::size_t> next{0};
    pool_.run([&](int worker) {
      for (std::size_t t = next++; t < small_.size() && !interrupt_.requested(); t = next++) {
        std::vector<Node> nodes{top_of(t)};
        std::vector<SparseTask> stack;
        stack.push_back({0, small_[t].depth, std::move(small_[t].parts)});
        grow_all(nodes, stack, worker);
        tree_.lists[t + 1] = {nodes, growth_.options};
      }
    });
  }

  // Calls visit(scanner, part, place) for all parts, on one thread or on all of them.
  template <class Visit>
  void for_parts(std::vector<ListPart>& parts, int worker, Visit visit) {
    if (worker != kAllWorkers || pool_.size() == 1) {
      const int one = std::max(worker, 0);
      for (ListPart& part : parts) visit(one, part);
      return;
    }
    constexpr std::size_t kTaken = 16;
    std::atomic<std::size_t> next{0};
    pool_.run([&](int each) {
      for (std::size_t k; (k = next.fetch_add(kTaken)) < parts.size();) {
        const std::size_t end = std::min(k + kTaken, parts.size());
        for (; k < end; ++k) visit(each, parts[k]);
      }
    });
  }

  ColumnScanner<Targets>& scanner(int worker) {
    return scanners_[static_cast<std::size_t>(worker)];
  }

  void split(std::vector<Node>& nodes, SparseTask& task, std::vector<SparseTask>& stack,
             int worker) {
    const Node node = nodes[static_cast<std::size_t>(task.node)];
    if (growth_.is_cut(node, task.depth)) return;
    std::vector<Sum> all(static_cast<std::size_t>(growth_.targets.n_sums()), 0);
    for (int64 i = node.begin; i < node.end; ++i) {
      growth_.targets.add(all.data(), entries_[tree_.rows[static_cast<std::size_t>(i)]]);
    }
    Split best = find(node, task, all.data(), worker);
    if (!growth_.is_worth_it(scanner(0).finder(), node, best, all.data())) return;
    const int64 n_left = part_rows_of(node, task, best, worker);
    growth_.add_children(nodes, task.node, best, n_left);
    const int32 left = nodes[static_cast<std::size_t>(task.node)].left;
    SparseTask below[2] = {{left, task.depth + 1, {}}, {left + 1, task.depth + 1, {}}};
    bool is_below_open[2];
    for (std::size_t side = 0; side < 2; ++side) {
      const auto child = static_cast<std::size_t>(below[side].node);
      is_below_open[side] = is_open(nodes[child], below[side].depth);
    }
    if (!is_below_open[0] && !is_below_open[1]) return;
    part_lists(task, below, worker);
    for (std::size_t side = 0; side < 2; ++side) {
      if (is_below_open[side]) stack.push_back(std::move(below[side]));
    }
  }

  Split find(const Node& node, SparseTask& task, const Sum* all, int worker) {
    if (growth_.options.max_features < growth_.binned.n_cols) {
      return find_in_drawn(node, task, all, std::max(worker, 0));
    }
    std::vector<Split> best(scanners_.size());
    for_parts(task.parts, worker, [&](int each, ListPart& part) {
      Split& own = best[static_cast<std::size_t>(each)];
      // What does not differ here never will below.
      if (!scanner(each).scan(node, part, entries_, all, own)) part.size = 0;
    });
    for (std::size_t k = 1; k < best.size(); ++k) best[0].offer(best[k]);
    return best[0];
  }

  Split find_in_drawn(const Node& node, const SparseTask& task, const Sum* all, int worker) {
    Split best;
    growth_.for_columns(node, scanner(worker).drawn(), [&](int64 column) {
      const auto part = std::lower_bound(
          task.parts.begin(), task.parts.end(), column,
          [](const ListPart& p, int64 j) { return static_cast<int64>(p.column) < j; });
      if (part == task.parts.end() || static_cast<int64>(part->column) != column) return false;
      return scanner(worker).scan(node, *part, entries_, all, best);
    });
    return best;
  }

  // Parts the rows of a node, and marks those that go left; how many there are.
  int64 part_rows_of(const Node& node, const SparseTask& task, const Split& best, int worker) {
    const BinnedColumns& binned = growth_.binned;
    const auto column = static_cast<std::size_t>(best.column);
    const Sides sides(best, binned.n_bins(best.column));
    uint32* rows = tree_.rows.get() + node.begin;
    const bool are_zeros_left = sides.is_left(binned.zero_bin[column]);
    for (int64 i = 0; i < node.count(); ++i) is_left_[rows[i]] = are_zeros_left;
    const auto part = std::find_if(task.parts.begin(), task.parts.end(),
                                   [&](const ListPart& p) { return p.column == column; });
    for (int64 k = part->begin; k < part->begin + static_cast<int64>(part->size); ++k) {
      is_left_[binned.rows[static_cast<std::size_t>(k)]] =
          sides.is_left(binned.bins[static_cast<std::size_t>(k)]);
    }
    const auto is_left = [&](uint32 row) { return is_left_[row] != 0; };
    uint32* room = room_.get() + node.begin;
    return worker == kAllWorkers ? part_by_all(rows, node.count(), is_left, room, pool_)
                                 : part_in_place(rows, node.count(), is_left, room);
  }

  void part_lists(SparseTask& task, SparseTask* below, int worker) {
    std::vector<uint32> n_left(task.parts.size());
    for_parts(task.parts, worker, [&](int each, ListPart& part) {
      const auto place = static_cast<std::size_t>(&part - task.parts.data());
      n_left[place] = static_cast<uint32>(scanner(each).part_list(part, is_left_));
    });
    for (std::size_t k = 0; k < task.parts.size(); ++k) {
      const ListPart& part = task.parts[k];
      const uint32 n_right = part.size - n_left[k];
      if (n_left[k] > 0) below[0].parts.push_back({part.column, n_left[k], part.begin});
      if (n_right > 0) {
        below[1].parts.push_back({part.column, n_right, part.begin + n_left[k]});
      }
    }
  }

  const Growth<Targets, BinnedColumns>& growth_;
  ThreadPool& pool_;
  Interrupt& interrupt_;
  std::vector<ColumnScanner<Targets>> scanners_;
  std::vector<typename Targets::Entry> entries_;
  GrownTree tree_;
  std::vector<Node> nodes_;  // the upper part
  std::unique_ptr<uint32[]> room_;
  std::vector<uint8> is_left_;
  std::vector<SparseTask> small_;
  int64 most_entries_ = 0;
};

}  // namespace snapml::native::trees
