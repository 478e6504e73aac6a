// Newton's method for a smooth loss with an L2 penalty on rows that stay in the cache: steps,
// certificate and history in one call. docs/algorithms.md, section 8.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

#include "small/design.hpp"
#include "small/factor.hpp"
#include "snapml/losses.hpp"

namespace snapml::native::small {

enum class Intercept { kNone, kFree, kPenalised };

// Of the rows, and of as many more as a `Design` is padded with: those have the weight 0.
struct Targets {
  const double* labels;
  const double* weights;  // c_i
  const double* offsets;  // null where there are none
};

// Slopes c l' of `n` rows, a multiple of eight, from their margins; adds c l to the lanes of `sum`.
// Rows of weight 0 count for nothing whatever their loss.
template <class Loss>
SNAPML_CLONES void row_tangents(Loss loss, const double* z, const double* y, const double* c,
                                int64 n, double* slopes, double* sum) {
  for (int64 i = 0; i < n; i += kEight) {
    for (int r = 0; r < kEight; ++r) {
      const Tangent<double> at = loss.tangent(z[i + r], y[i + r]);
      const double weight = c[i + r];
      slopes[i + r] = weight == 0 ? 0 : weight * at.gradient;
      sum[r] += weight == 0 ? 0 : weight * at.value;
    }
  }
}

// Curvatures c l'' of `n` rows from their margins.
template <class Loss>
SNAPML_CLONES void row_curvatures(Loss loss, const double* z, const double* y, const double* c,
                                  int64 n, double* curvatures) {
  for (int64 i = 0; i < n; ++i) {
    const double curvature = loss.curvature(z[i], y[i]);
    curvatures[i] = c[i] == 0 ? 0 : c[i] * curvature;
  }
}

struct Rule {
  double l2;
  Intercept intercept;
  double tol;          // share of the objective that the certified gap may be
  int64 most_passes;   // over the rows
  int64 most_entries;  // of the history: the fit ends with its last point
  bool keeps_points;   // whether the history has the coefficients too
};

// What a pass over the rows has shown.
struct Entry {
  double seconds;
  double decrement;  // squared Newton decrement of the step that led there
  double gap;
  double objective;
  std::vector<double> coef;
};

struct Solution {
  std::vector<double> coef;  // n_cols
  double objective = 0;
  double bound = 0;        // no model has a lower objective
  bool is_solved = false;  // whether the gap has met the rule
  std::vector<Entry> history;
  int64 n_passes = 0;
};

// A point, and what one pass over the rows there has left.
struct Point {
  std::vector<double> coef, margins, slopes, loss_gradient, gradient;
  double loss = 0, objective = 0;
};

// The squared decrements of the last two steps, and how many there were since the last factor.
struct Decline {
  double last = std::numeric_limits<double>::infinity();
  double before = std::numeric_limits<double>::infinity();
  int steps = 0;

  void see(double decrement) { before = last, last = decrement, ++steps; }

  // How many more steps like the last one lead to a target.
  double steps_to(double target) const {
    if (last <= target) return 0;
    const double rate = std::log(last / before);
    return rate < 0 ? std::log(target / last) / rate : std::numeric_limits<double>::infinity();
  }
};

// Steps and changes of the gradient since the last factor: what L-BFGS makes of them corrects it.
struct Pair {
  std::vector<double> step, change;
  double rho;
};

template <class Loss>
class Newton {
 public:
  Newton(const Loss& loss, const Design& design, const Targets& targets, const Rule& rule)
      : loss_(loss), design_(design), targets_(targets), rule_(rule), size_(design.stride) {}

  Solution solve(const double* start) {
    Point point = make_point(), trial = make_point();
    if (start != nullptr) std::copy(start, start + design_.n_cols, point.coef.begin());
    evaluate(point);
    Decline decline;
    bool is_met = false, is_fresh = false;
    while (std::isfinite(point.objective)) {
      found_.bound = std::max(found_.bound, lower_bound(point));
      const double gap = certified_gap(point.objective, found_.bound);
      keep_entry(point, decline.last, gap);
      is_met = gap <= rule_.tol * std::fabs(point.objective);
      const double target = (is_met ? kPolished : rule_.tol) * std::fabs(point.objective);
      if (is_met && decline.last <= target) break;
      if (found_.n_passes >= rule_.most_passes) break;
      if (static_cast<int64>(found_.history.size()) >= rule_.most_entries) break;
      if (factor_.empty() || (!is_fresh && is_worth_it(decline, target))) {
        if (!make_factor(point)) break;
        decline.steps = 0, is_fresh = true;
      }
      const double decrement = step(point, trial);
      if (!(decrement > 0)) {
        if (is_fresh || is_met || !make_factor(point)) break;
        is_fresh = true;  // another factor may see what the last one did not
        continue;
      }
      const bool is_rounding = decrement <= kSmallest * std::fabs(point.objective);
      if (decrement >= decline.last && is_rounding) break;
      decline.see(decrement), is_fresh = false;
    }
    found_.is_solved = is_met;
    found_.objective = point.objective;
    found_.coef = point.coef;
    return std::move(found_);
  }

  // The objective of other coefficients, by one more pass.
  double objective_at(const std::vector<double>& coef) {
    Point point = make_point();
    point.coef = coef;
    evaluate(point);
    return point.objective;
  }

 private:
  static double certified_gap(double objective, double bound) {
    return std::max(objective - bound, kSumRounding * (std::fabs(objective) + std::fabs(bound)));
  }

  // Decrements below these shares of the objective are rounding, and rounding of the coefficients.
  static constexpr double kSmallest = 1e-14, kPolished = 1e-22;
  static constexpr double kSumRounding = 0x1p-50;
  static constexpr double kArmijo = 1e-4, kLeastCurvature = 1e-12;
  // Steps from a new factor to the minimum, about; what a pass costs an entry and a row, in
  // products of a factor; and the cost of a factor, in passes, up to which every step gets one.
  static constexpr double kStepsOfNewton = 2, kCheapFactor = 4;
  static constexpr double kPassOfEntry = 4, kPassOfRow = 80;
  static constexpr std::size_t kMostPairs = 10;
  static constexpr int kMostHalvings = 50;
  // Rows that make up for what is missing from a free intercept's condition; all where they cannot.
  static constexpr int64 kMovedRows = 256;

  Point make_point() const {
    const std::size_t n = static_cast<std::size_t>(design_.n_padded);
    const std::size_t size = static_cast<std::size_t>(size_);
    Point point;
    point.margins.assign(n, 0.0);
    point.slopes.assign(n, 0.0);
    for (std::vector<double>* columns : {&point.coef, &point.loss_gradient, &point.gradient}) {
      columns->assign(size, 0.0);
    }
    return point;
  }

  void keep_entry(const Point& point, double decrement, double gap) {
    Entry entry{seconds(), decrement, gap, point.objective, {}};
    if (rule_.keeps_points) entry.coef = point.coef;
    found_.history.push_back(std::move(entry));
  }

  // Number of coefficients that the penalty is taken of.
  int64 n_penalised() const {
    return rule_.intercept == Intercept::kPenalised ? design_.n_cols : design_.n_features;
  }

  void evaluate(Point& point) {
    ++found_.n_passes;
    for (int64 first = 0; first < design_.n_padded; first += kEight) {
      dot8(design_.row(first), point.coef.data(), size_, point.margins.data() + first);
    }
    if (targets_.offsets != nullptr) {
      for (int64 i = 0; i < design_.n_rows; ++i) {
        point.margins[static_cast<std::size_t>(i)] += targets_.offsets[i];
      }
    }
    double sum[kEight] = {};
    row_tangents(loss_, point.margins.data(), targets_.labels, targets_.weights, design_.n_padded,
                 point.slopes.data(), sum);
    point.loss = ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
    std::fill(point.loss_gradient.begin(), point.loss_gradient.end(), 0.0);
    for (int64 first = 0; first < design_.n_rows; first += kEight) {
      add8(design_.row(first), point.slopes.data() + first, size_, point.loss_gradient.data());
    }
    double square = 0;
    point.gradient = point.loss_gradient;
    for (int64 j = 0; j < n_penalised(); ++j) {
      const double w = point.coef[static_cast<std::size_t>(j)];
      square += w * w;
      point.gradient[static_cast<std::size_t>(j)] += rule_.l2 * w;
    }
    point.objective = point.loss + 0.5 * rule_.l2 * square;
  }

  // Factorises the objective's Hessian at a point; false where it has no inverse.
  bool make_factor(const Point& point) {
    const std::size_t size = static_cast<std::size_t>(size_ * size_);
    factor_.assign(size, 0.0);
    curvatures_.resize(point.margins.size());
    row_curvatures(loss_, point.margins.data(), targets_.labels, targets_.weights, design_.n_padded,
                   curvatures_.data());
    for (int64 first = 0; first < design_.n_rows; first += kEight) {
      const double* const k = curvatures_.data() + first;
      add_gram8(design_.row(first), k, design_.n_cols, size_, factor_.data());
    }
    for (int64 j = 0; j < n_penalised(); ++j) {
      factor_[static_cast<std::size_t>(j * size_ + j)] += rule_.l2;
    }
    pairs_.clear();
    return factorise(factor_.data(), design_.n_cols, size_);
  }

  // Whether another factor costs less than the steps that it saves.
  bool is_worth_it(const Decline& decline, double target) const {
    const double n = static_cast<double>(design_.n_rows), q = static_cast<double>(design_.n_cols);
    const double cost = q * q * (n / 2 + q / 6) / (n * (kPassOfEntry * q + kPassOfRow));
    if (cost <= kCheapFactor) return true;
    const double most = kStepsOfNewton + cost;
    return decline.steps >= most || (decline.steps >= 2 && decline.steps_to(target) > most);
  }

  // The factor's solution for the gradient, corrected by the steps since it was made (L-BFGS).
  std::vector<double> downhill(const Point& point) const {
    std::vector<double> q = point.gradient, factors;
    for (auto pair = pairs_.rbegin(); pair != pairs_.rend(); ++pair) {
      factors.push_back(pair->rho * inner(pair->step, q));
      subtract(factors.back(), pair->change.data(), size_, q.data());
    }
    solve_factored(factor_.data(), design_.n_cols, size_, q.data());
    for (const Pair& pair : pairs_) {
      subtract(pair.rho * inner(pair.change, q) - factors.back(), pair.step.data(), size_,
               q.data());
      factors.pop_back();
    }
    return q;
  }

  // Moves the point to where the objective is lower, by halves of the step if need be. Returns the
  // squared decrement, 0 where nothing leads down.
  double step(Point& point, Point& trial) {
    const std::size_t n = static_cast<std::size_t>(design_.n_cols);
    const std::vector<double> direction = downhill(point);
    const double decrement = inner(point.gradient, direction);
    const double rounding = 4 * std::numeric_limits<double>::epsilon() * std::fabs(point.objective);
    double length = 1;
    for (int halving = 0; halving < kMostHalvings && decrement > 0; ++halving, length *= 0.5) {
      for (std::size_t j = 0; j < n; ++j) trial.coef[j] = point.coef[j] - length * direction[j];
      evaluate(trial);
      const double allowed = point.objective - kArmijo * length * decrement + rounding;
      if (trial.objective <= allowed && !std::isinf(trial.objective)) {
        keep_pair(point, trial, length * decrement);
        std::swap(point, trial);
        return decrement;
      }
    }
    return 0;
  }

  void keep_pair(const Point& from, const Point& to, double slope) {
    Pair pair{to.coef, to.gradient, 0};
    subtract(1.0, from.coef.data(), size_, pair.step.data());
    subtract(1.0, from.gradient.data(), size_, pair.change.data());
    const double product = inner(pair.step, pair.change);
    if (!(product > kLeastCurvature * slope)) return;
    pair.rho = 1 / product;
    if (pairs_.size() == kMostPairs) pairs_.erase(pairs_.begin());
    pairs_.push_back(std::move(pair));
  }

  double inner(const std::vector<double>& a, const std::vector<double>& b) const {
    double sum = 0;
    for (std::size_t j = 0; j < static_cast<std::size_t>(design_.n_cols); ++j) sum += a[j] * b[j];
    return sum;
  }

  // D at the dual point that the slopes make, balanced for a free intercept.
  double lower_bound(const Point& point) const {
    double terms = point.loss;  // sum_i -c_i l*(l'(z_i)), by Fenchel's equality
    for (std::size_t j = 0; j < static_cast<std::size_t>(design_.n_cols); ++j) {
      terms -= point.loss_gradient[j] * point.coef[j];
    }
    if (rule_.intercept != Intercept::kFree) return bound_of(terms, point.loss_gradient);
    const int64 step = std::max<int64>(1, design_.n_rows / kMovedRows);
    const double bound = balanced_bound(point, terms, step);
    return std::isfinite(bound) || step == 1 ? bound : balanced_bound(point, terms, 1);
  }

  double bound_of(double terms, const std::vector<double>& loss_gradient) const {
    double square = 0;
    for (int64 j = 0; j < n_penalised(); ++j) {
      const double entry = loss_gradient[static_cast<std::size_t>(j)];
      square += entry * entry;
    }
    const double bound = terms - square / (2 * rule_.l2);
    return std::isfinite(bound) ? bound : -std::numeric_limits<double>::infinity();
  }

  // Every `step`-th row takes its part, by its curvature, of what the dual variables miss to 0.
  double balanced_bound(const Point& point, double terms, int64 step) const {
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    const double missing = point.loss_gradient[static_cast<std::size_t>(design_.n_features)];
    if (missing == 0) return bound_of(terms, point.loss_gradient);
    double room = 0;
    for (int64 i = 0; i < design_.n_rows; i += step) room += curvature(point, i);
    if (!(room > 0)) return kNone;
    std::vector<double> gradient = point.loss_gradient;  // -X^T beta
    double moved = 0;
    for (int64 i = 0; i < design_.n_rows; i += step) {
      const std::size_t at = static_cast<std::size_t>(i);
      const double c = targets_.weights[at], y = targets_.labels[at];
      const double shift = missing * curvature(point, i) / room;  // of beta_i
      if (shift == 0) continue;
      const double slope = point.slopes[at] / c;
      terms += c * (loss_.conjugate(slope, y) - loss_.conjugate(slope - shift / c, y));
      if (targets_.offsets != nullptr) terms -= shift * targets_.offsets[at];
      moved += shift;
      const double* const x = design_.row(i);
      for (std::size_t j = 0; j < static_cast<std::size_t>(design_.n_features); ++j) {
        gradient[j] -= shift * x[j];
      }
    }
    const double rounding = std::numeric_limits<double>::epsilon() * total_weight();
    if (!(std::fabs(moved - missing) <= 1e-6 * std::fabs(missing) + rounding)) return kNone;
    return bound_of(terms, gradient);
  }

  double curvature(const Point& point, int64 i) const {
    const double c = targets_.weights[i];
    const double z = point.margins[static_cast<std::size_t>(i)];
    return c == 0 ? 0 : c * loss_.curvature(z, targets_.labels[i]);
  }

  double total_weight() const {
    double sum = 0;
    for (int64 i = 0; i < design_.n_rows; ++i) sum += targets_.weights[i];
    return sum;
  }

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }

  const Loss loss_;
  const Design& design_;
  const Targets targets_;
  const Rule rule_;
  const int64 size_;
  std::vector<double> factor_, curvatures_;
  std::vector<Pair> pairs_;
  Solution found_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace snapml::native::small
