// Rows of a node, parted into those of its children; each keeps the order they had.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <vector>

#include "threads/parallel.hpp"
#include "trees/histogram/splitting.hpp"

namespace snapml::native::trees {

// Which bins of a column go left.
class Sides {
 public:
  Sides(const Split& split, int missing_bin)
      : categories_(split.categories.get()),
        last_(split.left_bin),
        missing_(split.missing_left ? missing_bin : -1) {}

  bool is_left(int bin) const {
    const bool is_in = categories_ == nullptr
                           ? bin <= last_
                           : (*categories_)[static_cast<std::size_t>(bin)] == Side::kLeft;
    return is_in | (bin == missing_);
  }

 private:
  const CategorySides* categories_;  // the split's
  int last_, missing_;
};

// Which rows go left: those of a node whose rows are read from memory.
template <class Binned>
class RowSides {
 public:
  RowSides(const Binned& binned, const Split& split)
      : binned_(binned), sides_(split, binned.n_bins(split.column)), column_(split.column) {}

  bool operator()(uint32 row) const { return sides_.is_left(*bin(row)); }
  void prefetch(uint32 row) const { __builtin_prefetch(bin(row)); }

 private:
  const typename Binned::Bin* bin(uint32 row) const { return binned_.row(row) + column_; }

  const Binned& binned_;
  Sides sides_;
  int64 column_;
};

// Asks ahead for what tells the side of a row, where that says how.
template <class IsLeft, class = void>
struct RowsAhead {
  static void ask(const IsLeft&, const uint32*, int64, int64) {}
};
template <class IsLeft>
struct RowsAhead<IsLeft, std::void_t<decltype(&IsLeft::prefetch)>> {
  static constexpr int64 kAhead = 24;
  static void ask(const IsLeft& is_left, const uint32* rows, int64 i, int64 count) {
    if (i + kAhead < count) is_left.prefetch(rows[i + kAhead]);
  }
};

// Writes the left rows to `left`, which may be `rows`, the others to `right`; how many are left.
template <class IsLeft>
int64 part_rows(const uint32* rows, int64 count, IsLeft is_left_row, uint32* left, uint32* right) {
  int64 n_left = 0, n_right = 0;
  for (int64 i = 0; i < count; ++i) {
    RowsAhead<IsLeft>::ask(is_left_row, rows, i, count);
    const uint32 row = rows[i];
    const bool is_left = is_left_row(row);
    left[n_left] = row;  // overwritten by the next one unless it stays
    right[n_right] = row;
    n_left += is_left;
    n_right += !is_left;
  }
  return n_left;
}

// In place, with as much room for one worker; how many are left.
template <class IsLeft>
int64 part_in_place(uint32* rows, int64 count, IsLeft is_left_row, uint32* room) {
  const int64 n_left = part_rows(rows, count, is_left_row, rows, room);
  std::memcpy(rows + n_left, room, static_cast<std::size_t>(count - n_left) * sizeof(uint32));
  return n_left;
}

// Into one array: the left rows first, the others backwards from its end; how many are left.
template <class IsLeft>
int64 part_from_both_ends(const uint32* rows, int64 count, IsLeft is_left_row, uint32* out) {
  int64 n_left = 0, last = count - 1;
  for (int64 i = 0; i < count; ++i) {
    RowsAhead<IsLeft>::ask(is_left_row, rows, i, count);
    const uint32 row = rows[i];
    const bool is_left = is_left_row(row);
    out[n_left] = row;  // one of them is overwritten by the next row
    out[last] = row;
    n_left += is_left;
    last -= !is_left;
  }
  return n_left;
}

// The same as in place by all threads: whichever is free takes the next part of the rows, then the
// next one's sides to their places.
template <class IsLeft>
int64 part_by_all(uint32* rows, int64 count, IsLeft is_left_row, uint32* room, ThreadPool& pool) {
  if (pool.size() == 1) return part_in_place(rows, count, is_left_row, room);
  const int n_parts = 8 * pool.size();
  std::vector<int64> n_left(static_cast<std::size_t>(n_parts) + 1, 0);  // of the parts before
  std::atomic<int> next{0}, next_moved{0};
  pool.run([&](int) {
    for (int k; (k = next++) < n_parts;) {
      const Range own = share(count, n_parts, k);
      n_left[static_cast<std::size_t>(k) + 1] =
          part_from_both_ends(rows + own.begin, own.end - own.begin, is_left_row, room + own.begin);
    }
  });
  pool.run([&](int) {
    for (int k; (k = next_moved++) < n_parts;) {
      const Range own = share(count, n_parts, k);
      const auto after = n_left.begin() + k + 1;
      const int64 before = std::accumulate(n_left.begin(), after, int64{0});
      const int64 all = std::accumulate(after, n_left.end(), before);
      uint32* const middle = room + own.begin + *after;
      std::copy(room + own.begin, middle, rows + before);
      std::reverse_copy(middle, room + own.end, rows + all + own.begin - before);
    }
  });
  return std::accumulate(n_left.begin(), n_left.end(), int64{0});
}

}  // namespace snapml::native::trees
