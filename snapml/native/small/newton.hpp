// Newton's method for a smooth loss on rows that stay in the cache: steps, certificate and history
// in one call. docs/algorithms.md, section 8.
#pragma once

#include <chrono>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "small/column_step.hpp"
#include "small/corrected_factor.hpp"
#include "small/lower_bound.hpp"
#include "small/problem.hpp"
#include "small/sparse_step.hpp"
#include "threads/parallel.hpp"

namespace snapml::native::small {

struct Rule {
  double tol;          // share of the objective that the certified gap may be
  double floor;        // a gap this small is met whatever the objective
  int64 most_passes;   // over the rows
  int64 most_entries;  // of the history: the fit ends with its last point
  bool keeps_points;   // whether the history has the coefficients too

  double most_gap(double objective) const { return std::max(tol * std::fabs(objective), floor); }
};

// What a step has led to.
struct Entry {
  double seconds;
  double decrement;  // twice the fall that the step's model promised
  double gap;
  double objective;
  std::vector<double> coef;
};

struct Solution {
  std::vector<double> coef;  // as a `Point` has them
  double objective = 0;
  double bound = 0;        // no model has a lower objective: no loss and no penalty is negative
  bool is_solved = false;  // whether the gap has met the rule
  int64 n_passes = 0;
  std::vector<Entry> history;
};

// The decrements of the last two steps, and how many there were since the last factor.
struct Decline {
  double last = std::numeric_limits<double>::infinity();
  double before = std::numeric_limits<double>::infinity();
  int steps = 0;

  void see(double decrement) { before = last, last = decrement, ++steps; }

  // What the next step's is at most, as long as none falls by less than the last one.
  double next() const { return std::isfinite(before) ? last * std::min(1.0, last / before) : last; }

  // How many more steps like the last one lead to a target.
  double steps_to(double target) const {
    if (last <= target) return 0;
    const double rate = std::log(last / before);
    return rate < 0 ? std::log(target / last) / rate : std::numeric_limits<double>::infinity();
  }
};

template <class Problem>
class Newton {
 public:
  using Point = typename Problem::Point;

  Newton(const Problem& problem, const Rule& rule, Interrupt& interrupt)
      : problem_(problem), rule_(rule), interrupt_(interrupt), factor_(problem) {}

  // Goes on from a start, until a step after an interrupt at the latest.
  Solution solve(const double* start) {
    Point point = problem_.point(), trial = problem_.point();
    problem_.load(start, point.coef);
    evaluate(point);
    while (std::isfinite(point.objective)) {
      interrupt_.poll();
      if (interrupt_.requested()) break;
      const double target = judge(point);
      if (found_.is_solved && decline_.next() <= target) break;
      if (found_.n_passes >= rule_.most_passes) break;
      if (static_cast<int64>(found_.history.size()) >= rule_.most_entries) break;
      const double decrement = advance(point, trial, target);
      const bool is_rounding = decrement <= kSmallest * std::fabs(point.objective);
      if (!(decrement > 0) || (decrement >= decline_.last && is_rounding)) break;
      decline_.see(decrement);
    }
    found_.objective = point.objective;
    found_.coef = point.coef;
    return std::move(found_);
  }

 private:
  // Decrements below these shares of the objective are rounding, and rounding of the coefficients.
  static constexpr double kSmallest = 1e-14, kPolished = 1e-22;
  static constexpr double kSumRounding = 0x1p-50;
  // Shares of the objective below which a step's gain is not seen: of few rows, and of more.
  static constexpr double kLeastNoise = 4 * std::numeric_limits<double>::epsilon();
  static constexpr double kNoise = 0x1p-46;
  static constexpr double kArmijo = 1e-4;
  // Under an L1 norm the Hessian of so few is cheap; of more, few are needed.
  static constexpr int64 kFewColumns = 64;
  // Entries that a fit may visit in all before another step counts as work.
  static constexpr double kFreeVisits = 5e5;
  static constexpr int kMostHalvings = 50;
  static constexpr int kFewHalvings = 6, kMostAttempts = 6;  // where the model can be another
  // Steps from a new factor to the minimum, about; and the cost of a factor, in passes, up to which
  // every step gets one: where the curvature jumps, what the last one saw is soon worth little.
  static constexpr double kStepsOfNewton = 2, kCheapFactor = 4, kCheapOfJumps = 16;
  // Share of the objective that a step may promise for its model's slopes to be worth a pass.
  static constexpr double kNear = 0.03;

  void evaluate(Point& point) {
    ++found_.n_passes;
    problem_.evaluate(point);
  }

  // Certifies a point; returns the decrement to go on to: the tolerance's, and once that is met,
  // where steps cost next to nothing, the least there is, for rounding alone then separates fits of
  // equivalent data.
  double judge(const Point& point) {
    found_.bound = std::max(found_.bound, problem_.lower_bound(point));
    const double scale = std::fabs(point.objective);
    const double gap =
        std::max(point.objective - found_.bound, kSumRounding * (scale + std::fabs(found_.bound)));
    const double passed = std::chrono::duration<double>(Clock::now() - began_).count();
    Entry entry{passed, decline_.last, gap, point.objective, {}};
    if (rule_.keeps_points) entry.coef = point.coef;
    found_.history.push_back(std::move(entry));
    found_.is_solved = gap <= rule_.most_gap(scale);
    if (!found_.is_solved) return rule_.most_gap(scale);
    const double entries = static_cast<double>(problem_.design.n_rows * problem_.n_coefs());
    bool is_free = entries * static_cast<double>(found_.n_passes + 1) <= kFreeVisits;
    // Under an L1 norm a start that meets the tolerance is as good as what working sets return.
    if (problem_.penalty.l1 > 0 && found_.history.size() == 1) is_free = false;
    if (rule_.tol * scale < rule_.floor) is_free = false;  // rounding is all that is left
    return is_free ? kPolished * scale : std::numeric_limits<double>::infinity();
  }

  // Moves the point to where the objective is lower; returns the decrement, 0 where nothing leads
  // down. A factor that does not see a way makes place for another one.
  double advance(Point& point, Point& trial, double target) {
    if constexpr (Problem::kHasNorm) {
      if (problem_.penalty.l1 > 0) return sparse_step(point, trial);
    }
    const bool is_fresh = !factor_.is_made() || is_worth_it(point, target);
    if (is_fresh && !make_factor(point)) return 0;
    const double decrement = smooth_step(point, trial);
    if (decrement > 0 || is_fresh || found_.is_solved) return decrement;
    return make_factor(point) ? smooth_step(point, trial) : 0;
  }

  bool make_factor(const Point& point) {
    decline_.steps = 0;
    if (problem_.jumps()) factored_ = point;
    return factor_.make(point);
  }

  // Whether another factor costs less than the steps that it saves.
  bool is_worth_it(const Point& point, double target) const {
    const double cost = problem_.factor_cost(point), most = kStepsOfNewton + cost;
    if (cost <= (problem_.jumps() ? kCheapOfJumps : kCheapFactor)) return true;
    if (decline_.steps >= most) return true;
    if (problem_.jumps() && problem_.is_curved_elsewhere(*factored_, point)) return true;
    return decline_.steps >= 2 && decline_.steps_to(target) > most;
  }

  double smooth_step(Point& point, Point& trial) {
    const std::vector<double> downhill = factor_.solve(point.gradient);
    const double decrement = problem_.inner(point.gradient, downhill);
    std::vector<double> direction(downhill.size());
    subtract(1.0, downhill.data(), problem_.stride(), direction.data());
    const double length = line_search(point, trial, direction, decrement);
    if (length == 0) return 0;
    factor_.see(point, trial, length * decrement);
    std::swap(point, trial);
    return decrement;
  }

  // A step under an L1 norm.
  double sparse_step(Point& point, Point& trial) {
    if (problem_.n_cols() > kFewColumns) return column_step(point, trial);
    problem_.fill_hessian(point, hessian_);
    SparseStep model(hessian_, problem_.n_cols(), problem_.stride(), problem_.n_penalised(),
                     problem_.penalty.l1);
    std::vector<double> direction = model.minimise(point.coef, point.gradient);
    subtract(1.0, point.coef.data(), problem_.stride(), direction.data());
    // At the model's minimum g.d and the norm's change add up to -d.H d, which rounding leaves
    // alone.
    const double decrement =
        problem_.inner(model.slopes(), direction) - problem_.inner(point.gradient, direction);
    if (line_search(point, trial, direction, decrement) == 0) return 0;
    std::swap(point, trial);
    return decrement;
  }

  // A step that has to be short shows a model that is flat where the loss is not: the next is not.
  double column_step(Point& point, Point& trial) {
    if (!columns_) columns_.emplace(problem_);
    std::vector<double> direction;
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      const double decrement = columns_->minimise(point, direction);
      if (columns_->is_stuck()) return 0;
      const double length = line_search(point, trial, direction, decrement, kNoise, kFewHalvings);
      columns_->learn(length);
      if (length == 0) continue;
      std::swap(point, trial);
      const bool is_near = decrement <= kNear * std::fabs(point.objective);
      if (length == 1 && is_near && !found_.is_solved && columns_->is_exact()) {
        see_model(trial, point);
      }
      return decrement;
    }
    return 0;
  }

  // Certifies the slopes that the last model has at its minimum, where it was `before`. They are as
  // feasible as that minimum is exact, and what their loss terms lack is of fourth order in the
  // step; those at the point itself are infeasible by the square of it.
  void see_model(const Point& before, const Point& point) {
    Point model = point;
    double terms = 0;
    for (int64 i = 0; i < problem_.design.n_rows; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const double c = problem_.targets.weights[i], y = problem_.targets.labels[i];
      if (c == 0) continue;
      double slope = before.slopes[k] + columns_->slope_change(i);
      double conjugate = problem_.loss.conjugate(slope / c, y);
      if (!std::isfinite(conjugate)) {  // a slope that no margin has
        slope = point.slopes[k];
        conjugate = problem_.loss.conjugate(slope / c, y);
      }
      model.slopes[k] = slope;
      terms -= c * conjugate;
      if (problem_.targets.offsets != nullptr) terms += slope * problem_.targets.offsets[i];
    }
    problem_.fill_loss_gradient(model);
    const double bound = LowerBound(problem_, model).value_of(terms);
    found_.bound = std::max(found_.bound, bound);
  }

  // Tries all of a direction and then halves of it; returns the length at which the objective is
  // low enough, evaluated in `trial`, or 0.
  double line_search(const Point& point, Point& trial, const std::vector<double>& direction,
                     double decrement, double noise = kLeastNoise,
                     int most_halvings = kMostHalvings) {
    const double rounding = noise * std::fabs(point.objective);
    double length = 1;
    for (int halving = 0; halving < most_halvings && decrement > 0; ++halving, length *= 0.5) {
      trial.coef = point.coef;
      subtract(-length, direction.data(), problem_.n_cols(), trial.coef.data());
      evaluate(trial);
      const double allowed = point.objective - kArmijo * length * decrement + rounding;
      if (trial.objective <= allowed && !std::isinf(trial.objective)) return length;
    }
    return 0;
  }

  using Clock = std::chrono::steady_clock;

  const Problem& problem_;
  const Rule rule_;
  Interrupt& interrupt_;
  CorrectedFactor<Problem> factor_;
  std::optional<Point> factored_;  // where the last factor was made, if the curvature jumps
  std::vector<double> hessian_;
  std::optional<ColumnStep<Problem>> columns_;
  Decline decline_;
  Solution found_;
  const Clock::time_point began_ = Clock::now();
};

}  // namespace snapml::native::small
