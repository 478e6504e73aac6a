// The blocks of a random order one after the other, many worked out at once.
#pragma once

#include "snapml/random.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

constexpr int64 kPollBlocks = 32;  // that are visited between two looks at a signal

// The blocks at positions [range.begin, range.end) of the order, which must outlive this.
class BlockOrder {
 public:
  static constexpr int64 kNone = -1;

  BlockOrder(const Permutation& order, Range range) : order_(order), range_(range) {}

  // The next block; kNone behind the last.
  int64 next() {
    if (next_ == count_) refill();
    return count_ == 0 ? kNone : blocks_[next_++];
  }

 private:
  static constexpr int kMost = 64;

  void refill() {
    count_ = static_cast<int>(minimum<int64>(kMost, range_.end - range_.begin));
    if (count_ > 0) order_.fill(range_.begin, count_, blocks_);
    range_.begin += count_;
    next_ = 0;
  }

  const Permutation& order_;
  Range range_;
  int next_ = 0, count_ = 0;
  int64 blocks_[kMost];
};

}  // namespace snapml::native
