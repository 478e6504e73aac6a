// What splits between two rows are worth, computed as scikit-learn computes it: the same operations
// in the same order on the same sums, so that ties are ties there and here. (Weights and numbers
// are added up in another order of rows, which may change their last bits.)
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "snapml/config.hpp"
#include "trees/exact/sorted_columns.hpp"
#include "trees/exact/split_block.hpp"

namespace snapml::native::trees {

inline double gini_of(const double* classes, int64 n_classes, double weight) {
  double squares = 0;
  for (int64 k = 0; k < n_classes; ++k) squares += classes[k] * classes[k];
  return 1.0 - squares / (weight * weight);
}

// In bits.
inline double entropy_of(const double* classes, int64 n_classes, double weight) {
  double entropy = 0;
  for (int64 k = 0; k < n_classes; ++k) {
    if (classes[k] <= 0) continue;
    const double share = classes[k] / weight;
    entropy -= share * (std::log(share) / std::log(2.0));
  }
  return entropy;
}

// The items of some rows, in the order of these.
template <class T>
std::vector<T> picked(const T* items, const SortedEntry* entries, int64 count) {
  std::vector<T> some(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < some.size(); ++i) some[i] = items[entries[i].row];
  return some;
}

// A number of each row, in memory of the caller's or its own.
class RowNumbers {
 public:
  explicit RowNumbers(const double* numbers) : numbers_(numbers) {}
  RowNumbers(const RowNumbers&) = delete;
  RowNumbers& operator=(const RowNumbers&) = delete;
  RowNumbers(RowNumbers&&) = default;
  RowNumbers& operator=(RowNumbers&&) = default;

  bool are_given() const { return numbers_ != nullptr; }
  double operator[](uint32 row) const { return numbers_[row]; }

  RowNumbers of_rows(const SortedEntry* entries, int64 count) const {
    RowNumbers some(nullptr);
    if (!are_given()) return some;
    some.own_ = picked(numbers_, entries, count);
    some.numbers_ = some.own_.data();
    return some;
  }

 private:
  const double* numbers_;
  std::vector<double> own_;
};

// Classes; Label holds their numbers.
template <class Label>
class ExactClasses {
 public:
  struct Sums {
    double weight = 0;
    std::vector<double> classes;

    void add(const Sums& other) {
      weight += other.weight;
      for (std::size_t k = 0; k < classes.size(); ++k) classes[k] += other.classes[k];
    }
  };

  ExactClasses(const int32* classes, const double* weights, int64 n_rows, int64 n_classes,
               bool is_entropy)
      : labels_(classes, classes + n_rows),
        weights_(weights),
        n_classes_(n_classes),
        n_all_(n_classes),
        is_entropy_(is_entropy) {
    if (!is_entropy || weights != nullptr) return;
    std::vector<double> bits(static_cast<std::size_t>(n_rows) + 1);
    for (std::size_t x = 1; x < bits.size(); ++x) {
      bits[x] = static_cast<double>(x) * std::log2(static_cast<double>(x));
    }
    bits_ = std::make_shared<const std::vector<double>>(std::move(bits));
  }

  // Those of some rows, numbered from 0; of many classes, those that these rows have are numbered
  // anew, in their order.
  ExactClasses of_rows(const SortedEntry* entries, int64 count) const {
    ExactClasses some(picked(labels_.data(), entries, count), weights_.of_rows(entries, count),
                      *this);
    if (n_classes_ > std::numeric_limits<uint8>::max() + 1) some.number_classes();
    return some;
  }

  // Leaves of one class each, or of rows that no column parts, are at least this many: as many as
  // there are classes among rows that this column parts from each other.
  int64 least_leaves(const SortedEntry* entries, int64 count, float least_step) const {
    if (weights_.are_given()) return 1;  // of which some may be too small to count
    std::vector<bool> is_seen(static_cast<std::size_t>(n_classes_));
    int64 n_seen = 0;
    bool is_taken = false;  // one of the rows that are not parted
    for (int64 i = 0; i < count && !std::isnan(entries[i].value); ++i) {
      if (i > 0 && entries[i].value > entries[i - 1].value + least_step) is_taken = false;
      const auto label = static_cast<std::size_t>(labels_[entries[i].row]);
      if (is_taken || is_seen[label]) continue;
      is_seen[label] = is_taken = true;
      ++n_seen;
    }
    return n_seen;
  }

  // Of a node, as it is written, and as it is kept.
  int64 n_values() const { return n_all_; }
  int64 n_kept_values() const { return n_classes_; }
  void write_values(const double* kept, std::vector<double>& values) const {
    if (names_.empty()) {
      values.insert(values.end(), kept, kept + n_classes_);
      return;
    }
    values.resize(values.size() + static_cast<std::size_t>(n_all_), 0);
    double* const all = values.data() + values.size() - n_all_;
    for (std::size_t k = 0; k < names_.size(); ++k) all[names_[k]] = kept[k];
  }

  Sums sums_of(const SortedEntry* entries, int64 count) const {
    Sums sums;
    sums.classes.assign(static_cast<std::size_t>(n_classes_), 0);
    for (int64 i = 0; i < count; ++i) {
      const double w = weight(entries[i].row);
      sums.classes[labels_[entries[i].row]] += w;
      sums.weight += w;
    }
    return sums;
  }
  double impurity(const Sums& sums) const {
    return is_entropy_ ? entropy_of(sums.classes.data(), n_classes_, sums.weight)
                       : gini_of(sums.classes.data(), n_classes_, sums.weight);
  }
  void add_values(const Sums& sums, std::vector<double>& values) const {
    for (const double x : sums.classes) values.push_back(x / sums.weight);
  }

  // The sums of the rows on the left of a split, as the split moves along a sorted column. "Light"
  // ones fit into registers: each scan makes its own, and records positions without a branch.
  class Running {
   public:
    static constexpr bool kIsLight = false;

    explicit Running(const ExactClasses& targets) : targets_(targets) {}

    void begin(const Sums& all) {
      all_ = &all;
      weight_ = left_squares_ = 0;
      left_.assign(all.classes.size(), 0);
      right_ = all.classes;
      right_squares_ = squares(right_);
      others_.resize(right_.size());
      kept_.clear();
    }

    void add(uint32 row) {
      const std::size_t k = targets_.labels_[row];
      const double w = targets_.weight(row);
      weight_ += w;
      if (!targets_.weights_.are_given()) {  // whole numbers: nothing is rounded below 2^53
        left_squares_ += 2 * left_[k] + 1;
        right_squares_ -= 2 * right_[k] - 1;
      }
      left_[k] += w;
      right_[k] = all_->classes[k] - left_[k];
    }
    double weight() const { return weight_; }

    void record(SplitBlock& block, int i) {
      block.weight[i] = weight_;
      if (targets_.is_entropy_) {
        kept_.insert(kept_.end(), left_.begin(), left_.end());
        block.left[i] = targets_.bits(left_);
        block.right[i] = targets_.bits(right_);
      } else if (!targets_.weights_.are_given()) {
        block.left[i] = left_squares_;
        block.right[i] = right_squares_;
      } else {
        block.left[i] = squares(left_);
        block.right[i] = squares(right_);
      }
    }
    // Positions of less worth than `least` may get any that is less.
    void find_worths(SplitBlock& block, double least) {
      if (!targets_.is_entropy_) return gini_worths(block, all_->weight);
      const bool has_table = targets_.bits_ != nullptr;
      // Logarithms are taken where a table of them leaves the position a chance.
      for (int i = 0; i < block.size; ++i) {
        const double wl = block.weight[i], wr = all_->weight - wl;
        block.worth[i] = (block.left[i] - targets_.bits(wl)) + (block.right[i] - targets_.bits(wr));
        if (has_table) least = std::max(least, block.worth[i] - rounding());
      }
      for (int i = 0; i < block.size; ++i) {
        if (has_table && block.worth[i] + rounding() < least) continue;
        const double* const left = kept_.data() + static_cast<std::size_t>(i) * left_.size();
        block.worth[i] = entropy_worth(left, block.weight[i]);
      }
      kept_.clear();
    }

   private:
    double entropy_worth(const double* left, double wl) {
      const double wr = all_->weight - wl;
      for (std::size_t k = 0; k < left_.size(); ++k) others_[k] = all_->classes[k] - left[k];
      return -wr * entropy_of(others_.data(), targets_.n_classes_, wr) -
             wl * entropy_of(left, targets_.n_classes_, wl);
    }
    // Bound of the difference between a gain from the table and the computed one.
    double rounding() const {
      return 64 * std::numeric_limits<double>::epsilon() * static_cast<double>(left_.size() + 2) *
             (targets_.bits(all_->weight) + 1);
    }
    static double squares(const std::vector<double>& classes) {
      double sum = 0;
      for (const double x : classes) sum += x * x;
      return sum;
    }

    const ExactClasses& targets_;
    const Sums* all_ = nullptr;
    double weight_ = 0, left_squares_ = 0, right_squares_ = 0;
    std::vector<double> left_, right_, others_;
    std::vector<double> kept_;  // left sides of the positions of a block
  };

 protected:
  Label label(uint32 row) const { return labels_[row]; }

 private:
  ExactClasses(std::vector<Label> labels, RowNumbers weights, const ExactClasses& all)
      : bits_(all.bits_),
        labels_(std::move(labels)),
        weights_(std::move(weights)),
        n_classes_(all.n_classes_),
        n_all_(all.n_all_),
        is_entropy_(all.is_entropy_) {}

  void number_classes() {
    names_ = labels_;
    std::sort(names_.begin(), names_.end());
    names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
    for (Label& label : labels_) {
      const auto place = std::lower_bound(names_.begin(), names_.end(), label);
      label = static_cast<Label>(place - names_.begin());
    }
    n_classes_ = static_cast<int64>(names_.size());
  }

  double weight(uint32 row) const { return weights_.are_given() ? weights_[row] : 1.0; }

  // x log(x) of a count; 0 of weights, which no table has.
  double bits(double x) const { return bits_ ? (*bits_)[static_cast<std::size_t>(x)] : 0; }
  double bits(const std::vector<double>& classes) const {
    double sum = 0;
    for (const double x : classes) sum += bits(x);
    return sum;
  }

  std::shared_ptr<const std::vector<double>> bits_;
  std::vector<Label> labels_;
  std::vector<Label> names_;  // by label, where classes were numbered anew
  RowNumbers weights_;
  int64 n_classes_, n_all_;
  bool is_entropy_;
};

// Two classes of rows that weigh one each, split by gini: a count says all of a side.
class ExactPairs : public ExactClasses<uint8> {
 public:
  ExactPairs(const int32* classes, int64 n_rows)
      : ExactClasses(classes, nullptr, n_rows, 2, false) {}

  ExactPairs of_rows(const SortedEntry* entries, int64 count) const {
    return ExactPairs(ExactClasses::of_rows(entries, count));
  }

  Sums sums_of(const SortedEntry* entries, int64 count) const {
    int64 n_ones = 0;
    for (int64 i = 0; i < count; ++i) n_ones += label(entries[i].row);
    return {static_cast<double>(count),
            {static_cast<double>(count - n_ones), static_cast<double>(n_ones)}};
  }

  class Running {
   public:
    static constexpr bool kIsLight = true;

    explicit Running(const ExactPairs& targets) : targets_(targets) {}

    void begin(const Sums& all) {
      all_ = &all;
      n_rows_ = n_ones_ = 0;
    }
    void add(uint32 row) {
      ++n_rows_;
      n_ones_ += targets_.label(row);
    }
    double weight() const { return static_cast<double>(n_rows_); }
    void record(SplitBlock& block, int i) const {
      block.weight[i] = static_cast<double>(n_rows_);
      block.left[i] = static_cast<double>(n_ones_);
    }
    void find_worths(SplitBlock& block, double) const {
      pair_squares(block, all_->classes[0], all_->classes[1]);
      gini_worths(block, all_->weight);
    }

   private:
    const ExactPairs& targets_;
    const Sums* all_ = nullptr;
    int64 n_rows_ = 0, n_ones_ = 0;
  };

 private:
  explicit ExactPairs(ExactClasses all) : ExactClasses(std::move(all)) {}
};

// Numbers, split by squared error.
class ExactValues {
 public:
  struct Sums {
    double weight = 0, sum = 0, squares = 0;
    double first = 0;
    bool is_same = true;

    void add(const Sums& other) {
      weight += other.weight;
      sum += other.sum;
      squares += other.squares;
      is_same &= other.is_same && other.first == first;
    }
  };

  ExactValues(const double* values, const double* weights) : values_(values), weights_(weights) {}

  ExactValues of_rows(const SortedEntry* entries, int64 count) const {
    return {values_.of_rows(entries, count), weights_.of_rows(entries, count)};
  }

  int64 least_leaves(const SortedEntry*, int64, float) const { return 1; }

  int64 n_values() const { return 1; }
  int64 n_kept_values() const { return 1; }
  void write_values(const double* kept, std::vector<double>& values) const {
    values.push_back(*kept);
  }

  Sums sums_of(const SortedEntry* entries, int64 count) const {
    Sums sums;
    sums.first = values_[entries[0].row];
    for (int64 i = 0; i < count; ++i) {
      const uint32 row = entries[i].row;
      const double y = values_[row], weighted = weight(row) * y;
      sums.weight += weight(row);
      sums.sum += weighted;
      sums.squares += weighted * y;
      sums.is_same &= y == sums.first;
    }
    return sums;
  }
  double impurity(const Sums& sums) const {
    if (sums.is_same) return 0;  // which the sums say but for rounding
    const double mean = sums.sum / sums.weight;
    return sums.squares / sums.weight - mean * mean;
  }
  void add_values(const Sums& sums, std::vector<double>& values) const {
    values.push_back(sums.sum / sums.weight);
  }

  class Running {
   public:
    static constexpr bool kIsLight = true;

    explicit Running(const ExactValues& targets) : targets_(targets) {}

    void begin(const Sums& all) {
      all_ = &all;
      weight_ = sum_ = 0;
    }

    void add(uint32 row) {
      const double w = targets_.weight(row);
      weight_ += w;
      sum_ += w * targets_.values_[row];
    }
    double weight() const { return weight_; }
    void record(SplitBlock& block, int i) const {
      block.weight[i] = weight_;
      block.left[i] = sum_;
    }
    void find_worths(SplitBlock& block, double) const {
      squares_worths(block, all_->weight, all_->sum);
    }

   private:
    const ExactValues& targets_;
    const Sums* all_ = nullptr;
    double weight_ = 0, sum_ = 0;
  };

 private:
  ExactValues(RowNumbers values, RowNumbers weights)
      : values_(std::move(values)), weights_(std::move(weights)) {}

  double weight(uint32 row) const { return weights_.are_given() ? weights_[row] : 1.0; }

  RowNumbers values_, weights_;
};

}  // namespace snapml::native::trees
