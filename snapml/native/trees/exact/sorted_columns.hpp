// The rows of every column in the order of its numbers, and in that order from node to node.
//
// Sorting once and dealing the rows out to children, instead of sorting every node again: a node
// of n rows then costs n a column, not n log(n) (SLIQ: Mehta, Agrawal and Rissanen, EDBT 1996).
#pragma once

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "threads/large_array.hpp"
#include "threads/parallel.hpp"
#include "trees/bins/binning.hpp"
#include "trees/bins/number_sort.hpp"

namespace snapml::native::trees {

struct SortedEntry {
  float value;
  uint32 row;
};

class SortedColumns {
 public:
  template <class Real>
  SortedColumns(const KeptRows<Real>& rows, ThreadPool& pool, Interrupt& interrupt)
      : n_rows_(rows.n_rows),
        n_cols_(rows.view.n_cols),
        entries_(large_array<SortedEntry>(static_cast<std::size_t>(n_rows_ * n_cols_), pool)),
        spares_(static_cast<std::size_t>(pool.size())) {
    // Some rows of all columns at a time: a line of memory holds neighbours in a row.
    run_parts(pool, n_rows_, kFilledRows, [&](int, Range part) {
      interrupt.poll();
      for (int64 j = 0; j < n_cols_ && !interrupt.requested(); ++j) fill(rows, part, j);
    });
    std::atomic<int64> next{0};
    pool.run([&](int worker) {
      for (int64 j = next++; j < n_cols_ && !interrupt.requested(); j = next++) {
        interrupt.poll();
        sort_by_number(of(j), spare(worker), n_rows_,
                       [](const SortedEntry& entry) { return entry.value; });
      }
    });
  }

  bool is_finite() const { return is_finite_; }
  int64 n_rows() const { return n_rows_; }
  int64 n_cols() const { return n_cols_; }
  SortedEntry* of(int64 column) { return entries_.get() + column * n_rows_; }
  const SortedEntry* of(int64 column) const { return entries_.get() + column * n_rows_; }

  // How many of a node's rows have a number in a column.
  int64 n_present(int64 column, int64 begin, int64 end) const {
    const SortedEntry* const entries = of(column);
    int64 first = begin, last = end;
    while (first < last) {
      const int64 middle = first + (last - first) / 2;
      if (std::isnan(entries[middle].value)) {
        last = middle;
      } else {
        first = middle + 1;
      }
    }
    return first - begin;
  }

  // Moves the rows that go left to the front of a node's part of a column, both in order.
  void deal(int64 column, int64 begin, int64 end, const uint8* goes_left, int worker) {
    SortedEntry* const entries = of(column);
    SortedEntry* const right = spare(worker);
    int64 left = begin, n_right = 0;
    for (int64 i = begin; i < end; ++i) {
      const SortedEntry entry = entries[i];
      const bool is_left = goes_left[entry.row] != 0;
      entries[left] = entry;
      right[n_right] = entry;
      left += is_left;
      n_right += !is_left;
    }
    std::memcpy(entries + left, right, static_cast<std::size_t>(n_right) * sizeof(SortedEntry));
  }

  // Numbers a node's rows from 0, by their places in the column `list`, which is one of those from
  // `first` on.
  void number_rows(int64 list, const int64* first, const int64* last, int64 begin, int64 end,
                   uint32* numbers) {
    const SortedEntry* const entries = of(list);
    for (int64 i = begin; i < end; ++i) numbers[entries[i].row] = static_cast<uint32>(i - begin);
    for (; first != last; ++first) {
      SortedEntry* const column = of(*first);
      for (int64 i = begin; i < end; ++i) column[i].row = numbers[column[i].row];
    }
  }

 private:
  static constexpr int64 kFilledRows = 1024;

  template <class Real>
  void fill(const KeptRows<Real>& rows, Range part, int64 j) {
    SortedEntry* const column = of(j);
    bool has_infinity = false;
    for (int64 i = part.begin; i < part.end; ++i) {
      column[i] = {rows.at(i, j), static_cast<uint32>(i)};
      has_infinity |= std::isinf(column[i].value);
    }
    if (has_infinity) is_finite_ = false;
  }

  SortedEntry* spare(int worker) {
    auto& memory = spares_[static_cast<std::size_t>(worker)];
    if (!memory) memory = large_array<SortedEntry>(static_cast<std::size_t>(n_rows_));
    return memory.get();
  }

  int64 n_rows_, n_cols_;
  std::atomic<bool> is_finite_{true};
  LargeArray<SortedEntry> entries_;
  std::vector<LargeArray<SortedEntry>> spares_;
};

}  // namespace snapml::native::trees
