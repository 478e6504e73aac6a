// Rows of a node, parted into those of its children; each keeps the order they had.
#pragma once

#include <cstring>
#include <numeric>
#include <vector>

#include "../parallel.hpp"
#include "splitting.hpp"

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

// Writes the left rows to `left`, which may be `rows`, the others to `right`; how many are left.
template <class IsLeft>
int64 part_rows(const uint32* rows, int64 count, IsLeft is_left_row, uint32* left, uint32* right) {
  int64 n_left = 0, n_right = 0;
  for (int64 i = 0; i < count; ++i) {
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

// The same by all threads: each parts its share, then shares move to their places.
template <class IsLeft>
int64 part_by_all(uint32* rows, int64 count, IsLeft is_left_row, uint32* room, ThreadPool& pool) {
  if (pool.size() == 1) return part_in_place(rows, count, is_left_row, room);
  std::vector<int64> n_left(static_cast<std::size_t>(pool.size()), 0);
  Barrier barrier(pool.size());
  pool.run([&](int worker) {
    const Range own = share(count, pool.size(), worker);
    const int64 size = own.end - own.begin;
    const auto k = static_cast<std::ptrdiff_t>(worker);
    const int64 here = part_in_place(rows + own.begin, size, is_left_row, room + own.begin);
    std::memcpy(room + own.begin, rows + own.begin,
                static_cast<std::size_t>(size) * sizeof(uint32));
    n_left[static_cast<std::size_t>(k)] = here;
    barrier.arrive_and_wait();
    const int64 before = std::accumulate(n_left.begin(), n_left.begin() + k, int64{0});
    const int64 all = std::accumulate(n_left.begin() + k, n_left.end(), before);
    const int64 right_before = all + own.begin - before;
    std::memcpy(rows + before, room + own.begin, static_cast<std::size_t>(here) * sizeof(uint32));
    std::memcpy(rows + right_before, room + own.begin + here,
                static_cast<std::size_t>(size - here) * sizeof(uint32));
  });
  return std::accumulate(n_left.begin(), n_left.end(), int64{0});
}

}  // namespace snapml::native::trees
