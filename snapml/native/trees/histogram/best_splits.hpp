// Which splits a limit on leaves can still let in.
//
// A tree of L leaves that takes the best of its open nodes each time has the L - 1 splits of the
// highest bounds, a bound being the least improvement on the way from the root. So what is below
// L - 1 bounds that were found needs no growing, whatever the order in which nodes are grown.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <mutex>
#include <queue>
#include <vector>

#include "snapml/config.hpp"

namespace snapml::native::trees {

class BestSplits {
 public:
  // `most_leaves` of 0 lets everything in.
  explicit BestSplits(int64 most_leaves) : most_(most_leaves - 1) {}

  bool is_limited() const { return most_ >= 0; }

  bool could_hold(double bound) const { return !(bound < least_.load(std::memory_order_relaxed)); }

  // Takes in a split that was found; false if enough others are better.
  bool offer(double bound) {
    if (!is_limited()) return true;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!could_hold(bound)) return false;
    bounds_.push(bound);
    if (static_cast<int64>(bounds_.size()) > most_) bounds_.pop();
    if (static_cast<int64>(bounds_.size()) == most_) least_ = bounds_.top();
    return true;
  }

 private:
  const int64 most_;
  std::atomic<double> least_{-std::numeric_limits<double>::infinity()};
  std::mutex mutex_;
  std::priority_queue<double, std::vector<double>, std::greater<double>> bounds_;
};

}  // namespace snapml::native::trees
