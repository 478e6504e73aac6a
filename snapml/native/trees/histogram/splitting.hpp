// Which split of a node is worth most.
//
// The worth of a split is a criterion's gain up to what all splits of the node share. Ties go to
// the lowest column, then to the lowest threshold, then to missing values on the right.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "threads/clones.hpp"
#include "trees/bins/binning.hpp"
#include "trees/bins/categories.hpp"
#include "trees/targets.hpp"

namespace snapml::native::trees {

enum class Criterion { kGini, kEntropy, kSquaredError, kPoisson };

struct Limits {
  double min_count, min_weight;  // of each side; the weight as it is added up
};

// What the values of a node and of all below it are between.
struct Bounds {
  double lower = -std::numeric_limits<double>::infinity();
  double upper = std::numeric_limits<double>::infinity();
};

// On the values of a split's sides. A sign of 1 or -1 wants them to rise or to fall from the left
// one to the right one, and to keep the bounds; 0 wants nothing.
struct Constraint {
  int sign = 0;
  Bounds bounds;

  bool allows(double left, double right) const {
    return sign == 0 || (std::min(left, right) >= bounds.lower &&
                         std::max(left, right) <= bounds.upper && (left - right) * sign <= 0);
  }
};

struct Split {
  double worth = -std::numeric_limits<double>::infinity();
  int64 column = -1;
  int left_bin = 0;   // the last bin that goes left
  int right_bin = 0;  // the first one that goes right; -1: missing values only
  bool missing_left = false, has_missing = false;
  double middle = 0;       // of the sides' values, where they are constrained
  double improvement = 0;  // once the split is chosen
  std::shared_ptr<const CategorySides> categories;  // null between numbers

  bool is_found() const { return column >= 0; }
  void offer(const Split& other) {
    if (!other.is_found()) return;
    if (worth < other.worth || (worth == other.worth && other.column < column)) *this = other;
  }
};

// The sums of a column's bins up to each one.
template <class Number>
struct RunningSums {
  std::vector<Number> n, w, s;
};

// Between two sides of weights wl, wr and sums sl, sr the squared error gains d^2 / (wl wr W) with
// d = sl W - S wl; so does Gini's with two classes, twice. Worth is that without W, as the bits of
// a float64: those of numbers >= 0 are in the numbers' order. No conditions: they would end the
// vectors, so the caller leaves out what is not allowed.
template <class Number>
SNAPML_CLONES void one_number_worths(const Number* w, const Number* s, int size, Moments missing,
                                     Moments all, int64* worths) {
  for (int i = 0; i < size; ++i) {
    const double wl = static_cast<double>(w[i]) + missing.w, wr = all.w - wl;
    const double d = (static_cast<double>(s[i]) + missing.s) * all.w - all.s * wl;
    const double worth = d * d / (wl * wr);
    std::memcpy(worths + i, &worth, sizeof worth);
  }
}

SNAPML_CLONES inline int64 largest(const int64* worths, int size) {
  int64 most = std::numeric_limits<int64>::min();
  for (int i = 0; i < size; ++i) most = worths[i] > most ? worths[i] : most;
  return most;
}

template <class Targets>
class SplitFinder {
 public:
  using Sum = typename Targets::Sum;
  using Number = std::conditional_t<std::is_same_v<Sum, uint32>, int32, double>;

  // For columns of at most n_bins bins.
  SplitFinder(const Targets& targets, Criterion criterion, Limits limits, std::size_t n_bins)
      : targets_(targets),
        criterion_(criterion),
        limits_(limits),
        is_one_number_(criterion == Criterion::kSquaredError ||
                       (criterion == Criterion::kGini && targets.n_classes() == 2)),
        sums_{std::vector<Number>(n_bins), std::vector<Number>(n_bins),
              std::vector<Number>(n_bins)},
        worths_(n_bins),
        left_(static_cast<std::size_t>(targets.n_sums())),
        right_(left_.size()),
        x_log_x_(criterion == Criterion::kEntropy ? 4096 : 0) {
    for (std::size_t x = 1; x < x_log_x_.size(); ++x) {
      x_log_x_[x] = static_cast<double>(x) * std::log(static_cast<double>(x));
    }
  }

  // Looks at the splits of one column between the bins order[0], order[1], ... whose cells are
  // given, `missing` after them. False where the rows of the node do not differ in this column.
  template <class Order>
  bool scan(int64 column, const Sum* cells, Order order, int size, const Sum* missing,
            const Sum* all, const Constraint& constraint, Split& best) {
    constraint_ = constraint;
    const double n = targets_.count(all);
    const double n_missing = missing == nullptr ? 0 : targets_.count(missing);
    if (n_missing == n || size == 0) return false;
    Split found;
    found.column = column;
    found.has_missing = n_missing > 0;
    found.worth = best.worth;
    if (column < best.column)
      found.worth = std::nextafter(best.worth, -kInfinity);  // ties are ours
    const bool is_better = is_one_number_
                               ? scan_one_number(cells, order, size, missing, all, n_missing, found)
                               : scan_any(cells, order, size, missing, all, n_missing, found);
    if (is_better) best = found;
    return n_missing > 0 || !is_single(size, n);
  }

  // The bins that have rows, sorted by their mean targets. For numbers and two classes, the best of
  // all divisions of categories is then between two neighbours. With more classes, bins are sorted
  // by the share of the node's most frequent class.
  template <class Order>
  std::vector<int> by_mean(const Sum* cells, Order order, int size, const Sum* all) const {
    const Sum* most =
        Targets::kIsRegression ? all : std::max_element(all, all + targets_.n_classes());
    std::vector<std::pair<double, int>> means;
    for (int i = 0; i < size; ++i) {
      const Sum* cell = cells + order(i) * targets_.n_sums();
      if (targets_.count(cell) == 0) continue;
      const double weight = targets_.weight(cell);
      means.emplace_back(weight > 0 ? static_cast<double>(cell[most - all]) / weight : 0, order(i));
    }
    std::sort(means.begin(), means.end());
    std::vector<int> bins;
    for (const auto& [mean, bin] : means) bins.push_back(bin);
    return bins;
  }

  // What a split lessens the impurity by, times the share of the node's rows in all rows.
  double improvement(const Split& split, const Sum* all, double all_weight) const {
    const double scale = targets_.weight_scale();
    if (is_one_number_) {
      const double ratio = scale / targets_.value_scale();
      const double gain = split.worth / targets_.weight(all) / all_weight * ratio * ratio;
      return criterion_ == Criterion::kGini ? 2 * gain : gain;
    }
    const double gain = (split.worth - term(all)) / (all_weight / scale);
    return criterion_ == Criterion::kEntropy ? gain / std::log(2.0) : gain;  // in bits
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr int64 kForbidden = std::numeric_limits<int64>::min();

  template <class Order>
  bool scan_one_number(const Sum* cells, Order order, int size, const Sum* missing, const Sum* all,
                       double n_missing, Split& found) {
    const int64 n_sums = targets_.n_sums();
    int64 n = 0, w = 0, s = 0;
    for (int i = 0; i < size; ++i) {
      Targets::add_moments(cells + order(i) * n_sums, &n, &w, &s);
      sums_.n[i] = static_cast<Number>(n);
      sums_.w[i] = static_cast<Number>(w);
      sums_.s[i] = static_cast<Number>(s);
    }
    const Moments total = moments(all);
    bool is_better = try_one_number(order, 0, size, {0, 0, 0}, total, found);
    if (n_missing > 0) {
      int first = 0;  // rows beside the missing ones go left, too
      while (sums_.n[first] == 0) ++first;
      if (try_one_number(order, first, size, moments(missing), total, found)) {
        found.missing_left = is_better = true;
      }
    }
    return is_better;
  }

  template <class Order>
  bool try_one_number(Order order, int first, int size, Moments missing, Moments all,
                      Split& found) {
    // Counts and weights only grow: what is allowed is a range.
    const auto is_enough = [&](double n, double w) {
      return n >= limits_.min_count && w >= limits_.min_weight;
    };
    const auto is_left_enough = [&](int i) {
      return is_enough(static_cast<double>(sums_.n[i]) + missing.n,
                       static_cast<double>(sums_.w[i]) + missing.w);
    };
    const auto is_right_enough = [&](int i) {
      return is_enough(all.n - missing.n - static_cast<double>(sums_.n[i]),
                       all.w - missing.w - static_cast<double>(sums_.w[i]));
    };
    int last = size;
    while (first < size && !is_left_enough(first)) ++first;
    while (last > first && !is_right_enough(last - 1)) --last;
    if (first == last) return false;
    one_number_worths<Number>(sums_.w.data() + first, sums_.s.data() + first, last - first, missing,
                              all, worths_.data());
    if (constraint_.sign != 0) forbid(first, last, missing, all);
    const int64 bits = largest(worths_.data(), last - first);
    if (bits == kForbidden) return false;
    double worth;
    std::memcpy(&worth, &bits, sizeof worth);
    if (!(worth > found.worth)) return false;
    int i = 0;
    while (worths_[i] != bits) ++i;
    found.worth = worth;
    mark(order, first + i, size, found);
    if (constraint_.sign != 0) {
      const auto [left, right] = values(first + i, missing, all);
      found.middle = left / 2 + right / 2;
    }
    return true;
  }

  // The values of the sides of a split after position i.
  std::pair<double, double> values(int i, Moments missing, Moments all) const {
    const Moments left{0, static_cast<double>(sums_.w[i]) + missing.w,
                       static_cast<double>(sums_.s[i]) + missing.s};
    return {targets_.value(left), targets_.value({0, all.w - left.w, all.s - left.s})};
  }

  void forbid(int first, int last, Moments missing, Moments all) {
    for (int i = first; i < last; ++i) {
      const auto [left, right] = values(i, missing, all);
      if (!constraint_.allows(left, right)) worths_[i - first] = kForbidden;
    }
  }

  Moments moments(const Sum* cell) const {
    int64 n = 0, w = 0, s = 0;
    Targets::add_moments(cell, &n, &w, &s);
    return {static_cast<double>(n), static_cast<double>(w), static_cast<double>(s)};
  }

  template <class Order>
  bool scan_any(const Sum* cells, Order order, int size, const Sum* missing, const Sum* all,
                double n_missing, Split& found) {
    bool is_better = try_any(cells, order, size, nullptr, all, found);
    if (n_missing > 0 && try_any(cells, order, size, missing, all, found)) {
      found.missing_left = is_better = true;
    }
    return is_better;
  }

  template <class Order>
  bool try_any(const Sum* cells, Order order, int size, const Sum* missing, const Sum* all,
               Split& found) {
    const std::size_t n_sums = left_.size();
    for (std::size_t k = 0; k < n_sums; ++k) {
      left_[k] = missing == nullptr ? Sum{0} : missing[k];
      right_[k] = all[k] - left_[k];
    }
    const double n = targets_.count(all);
    double nl = targets_.count(left_.data());
    const double n_missing = nl;
    int at = -1;
    for (int i = 0; i < size; ++i) {
      const Sum* cell = cells + static_cast<std::size_t>(order(i)) * n_sums;
      const double count = targets_.count(cell);
      for (std::size_t k = 0; k < n_sums && count > 0; ++k) {
        left_[k] += cell[k];
        right_[k] -= cell[k];
      }
      nl += count;
      sums_.n[i] = static_cast<Number>(nl - n_missing);
      if (count == 0 || nl < limits_.min_count || n - nl < limits_.min_count) continue;
      if (targets_.weight(left_.data()) < limits_.min_weight ||
          targets_.weight(right_.data()) < limits_.min_weight) {
        continue;
      }
      double middle = 0;
      if (constraint_.sign != 0) {
        const double left = targets_.value(moments(left_.data()));
        const double right = targets_.value(moments(right_.data()));
        if (!constraint_.allows(left, right)) continue;
        middle = left / 2 + right / 2;
      }
      const double worth = term(left_.data()) + term(right_.data());
      if (worth > found.worth) {
        found.worth = worth;
        found.middle = middle;
        at = i;
      }
    }
    if (at >= 0) mark(order, at, size, found);
    return at >= 0;
  }

  // One side's part of the worth.
  double term(const Sum* cell) const {
    if constexpr (Targets::kIsRegression) {
      const double s = static_cast<double>(cell[0]) / targets_.value_scale();
      const double w = targets_.weight(cell) / targets_.weight_scale();
      if (s <= 10 * std::numeric_limits<double>::epsilon()) return -kInfinity;
      return s * std::log(s / w);
    } else {
      double sum = 0, weight = 0;
      const double unit = 1 / targets_.weight_scale();
      for (int64 k = 0; k < targets_.n_classes(); ++k) {
        const double x = static_cast<double>(cell[k]) * unit;
        weight += x;
        sum += criterion_ == Criterion::kGini ? x * x : x_log_x(cell[k], x);
      }
      return criterion_ == Criterion::kGini ? sum / weight : sum - weight * std::log(weight);
    }
  }

  double x_log_x(Sum count, double x) const {
    if (std::is_same_v<Sum, uint32> && static_cast<std::size_t>(count) < x_log_x_.size()) {
      return x_log_x_[static_cast<std::size_t>(count)];
    }
    return x > 0 ? x * std::log(x) : 0;
  }

  // Between which bins that have rows position i of the running sums splits.
  template <class Order>
  void mark(Order order, int i, int size, Split& found) const {
    found.left_bin = order(i);
    int next = i + 1;
    while (next < size && sums_.n[next] == sums_.n[i]) ++next;
    found.right_bin = next < size ? order(next) : -1;
    found.missing_left = false;
  }

  // Whether all rows are in one bin.
  bool is_single(int size, double n) const {
    int i = 0;
    while (i + 1 < size && sums_.n[i] == 0) ++i;
    return static_cast<double>(sums_.n[i]) == n;
  }

  const Targets& targets_;
  Criterion criterion_;
  Limits limits_;
  Constraint constraint_;
  bool is_one_number_;
  RunningSums<Number> sums_;
  std::vector<int64> worths_;
  std::vector<Sum> left_, right_;
  std::vector<double> x_log_x_;
};

}  // namespace snapml::native::trees
