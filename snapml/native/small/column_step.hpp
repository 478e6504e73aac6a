// The step of Newton's method under an L1 norm where columns are many: coordinate descent on the
// columns themselves (newGLMNET: Yuan, Ho and Lin, 2012), and where that has cost as much as the
// Gram matrix of those that matter, the minimum on these. docs/algorithms.md, section 8.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "small/design_columns.hpp"
#include "small/problem.hpp"
#include "small/sparse_step.hpp"
#include "snapml/penalties.hpp"

namespace snapml::native::small {

// Of g.d + d.H d / 2 + l1 |(w + d)_j| at one point after another, H the Hessian with l2 on its
// diagonal. An intercept follows every step, for it is tied to all columns: its coefficient is
// always at the minimum for the others.
template <class Problem>
class ColumnStep {
 public:
  using Point = typename Problem::Point;

  explicit ColumnStep(const Problem& problem)
      : problem_(problem),
        columns_(problem.design),
        curvatures_(at(problem.design.n_padded)),
        states_(at(problem.design.n_padded)),
        step_(at(problem.stride())),
        squares_(at(n_features())),
        sums_(at(n_features())) {}

  // Whether so many columns are needed that another method does better.
  bool is_stuck() const { return is_stuck_; }

  // Whether the last minimum is one in all columns that seem to be needed, by their Gram matrix.
  bool is_exact() const { return is_exact_; }

  // Sees what share of a step was taken, 0 for none, and damps the next models.
  void learn(double length) {
    if (length == 1) {
      damping_ = damping_ < kLittleDamping ? 0 : kLessDamping * damping_;
    } else {
      damping_ = std::max(kFirstDamping, damping_) / std::max(length, kLessDamping);
    }
  }

  // What the last model says of a row's slope at its minimum, less what it was at its point.
  double slope_change(int64 i) const {
    const double moved = has_intercept() ? problem_.design.bias_column * follower_ : 0;
    return states_[at(i)] + moved * curvatures_[at(i)];
  }

  // Fills `direction` with d; returns by how much the linear part of the model, and the norm, fall.
  double minimise(const Point& point, std::vector<double>& direction) {
    begin(point);
    is_exact_ = false;
    descend(point);
    if (has_intercept()) step_[at(n_features())] = follower_;
    direction = step_;
    return promise(point);
  }

 private:
  static constexpr int64 kMostNear = 1024;  // columns of a Gram matrix
  static constexpr double kNear = 0.9;      // of l1: slopes from which on a column may be needed
  static constexpr double kLess = 0.5;      // of what a sweep may leave: once single ones do
  // So many columns beside the support are few; while there are more a model is worth this share of
  // what the support's Gram matrix costs.
  static constexpr double kFewMore = 1.1, kShareOfGram = 0.3;
  // Of what a Gram matrix of the most columns costs, spent on larger supports. Where the model is
  // the loss itself it has to be minimised, which descent alone does slowly.
  static constexpr double kMostOnManyOfQuadratic = 1, kMostOnMany = 5;
  static constexpr double kFirstDamping = 1e-4, kLittleDamping = 1e-6, kLessDamping = 0.1;
  static constexpr double kFactored = 0.5;  // nanoseconds of a product of a factor
  // Rounds of the descent on a Gram matrix, and products of their factors that come for free.
  static constexpr int kRounds = 4, kMostRounds = 100;
  static constexpr double kFreeProducts = 2e8;

  static std::size_t at(int64 j) { return static_cast<std::size_t>(j); }
  int64 n_features() const { return problem_.design.n_features; }
  bool has_intercept() const { return problem_.n_cols() > n_features(); }
  bool is_free() const { return problem_.penalty.intercept == Intercept::kFree; }

  void begin(const Point& point) {
    const double total = fill_curvatures(point);
    std::fill(states_.begin(), states_.end(), 0.0);
    std::fill(step_.begin(), step_.end(), 0.0);
    begin_intercept(point, total);
    active_.clear();
    for (int64 j = 0; j < n_features(); ++j) {
      const bool is_needed = std::fabs(point.gradient[at(j)]) >= problem_.penalty.l1;
      if (point.coef[at(j)] != 0 || is_needed) active_.push_back(j), weigh(j);
    }
  }

  // Returns the sum of the model's curvatures: the loss's, and after short steps a share of their
  // mean, or of the rows' weights where all rows are flat.
  double fill_curvatures(const Point& point) {
    const int64 n = problem_.design.n_rows;
    curvatures_ = problem_.curvatures(point);
    double total = 0;
    for (int64 i = 0; i < n; ++i) total += curvatures_[at(i)];
    if (damping_ == 0) return total;
    const double* const weights = problem_.targets.weights;
    const double weight = total_weight(problem_.targets, n);
    const double added = damping_ * (total > 0 ? total / weight : 1);
    for (int64 i = 0; i < n; ++i) curvatures_[at(i)] += added * weights[i];
    return total + added * weight;
  }

  void begin_intercept(const Point& point, double total) {
    if (!has_intercept()) return;
    const double bias = problem_.design.bias_column;
    total_ = bias * bias * total + (is_free() ? 0 : problem_.penalty.l2);
    mass_ = point.gradient[at(n_features())], follower_ = 0, is_moving_ = false;
    follow(point);
  }

  // Takes the intercept to its minimum: of total t^2 / 2 + mass t, and l1 where it is penalised.
  void follow(const Point& point) {
    if (!(total_ > 0)) return;
    follower_ = next_of(point.coef[at(n_features())], mass_ / total_, intercept_l1() / total_);
    is_moving_ = is_free() || point.coef[at(n_features())] + follower_ != 0;
  }
  double intercept_l1() const { return is_free() ? 0 : problem_.penalty.l1; }

  // The change of v towards v - change, `less` closer to 0.
  static double next_of(double v, double change, double less) {
    return soft_threshold(v - change, less) - v;
  }

  // The model's curvature along a column, and its product with the intercept's.
  void weigh(int64 j) {
    const DesignColumns::Moments moments = columns_.moments(j, curvatures_);
    sums_[at(j)] = has_intercept() ? problem_.design.bias_column * moments.sum : 0;
    squares_[at(j)] = moments.square + problem_.penalty.l2;
  }

  double slope(const Point& point, int64 j) const {
    return point.gradient[at(j)] + problem_.penalty.l2 * step_[at(j)] +
           columns_.product(j, states_) + follower_ * sums_[at(j)];
  }

  // The curvature along a column whose steps the intercept follows.
  double square(int64 j) const {
    if (!is_moving_) return squares_[at(j)];
    return std::max(0.0, squares_[at(j)] - sums_[at(j)] * sums_[at(j)] / total_);
  }

  void move(int64 j, double change) {
    step_[at(j)] += change;
    mass_ += change * sums_[at(j)];
    columns_.add(j, change, curvatures_, states_);
  }

  // Returns the sum of what the steps change slopes by.
  double sweep(const Point& point) {
    double changed = 0;
    for (const int64 j : active_) {
      const double v = point.coef[at(j)] + step_[at(j)], g = slope(point, j);
      double h = square(j), change = change_of(v, g, h);
      if (is_moving_ && stops_intercept(point, change * sums_[at(j)])) {
        h = squares_[at(j)], change = change_of(v, g, h);
      }
      if (change == 0) continue;
      changed += std::fabs(change) * h;
      move(j, change);
      if (has_intercept()) follow(point);
    }
    return changed;
  }

  // Along a column that the model is flat in, the norm alone says where to go.
  double change_of(double v, double slope, double curvature) const {
    const double l1 = problem_.penalty.l1;
    if (curvature > 0) return next_of(v, slope / curvature, l1 / curvature);
    return std::fabs(slope) < l1 ? -v : 0;
  }

  // Whether a step, which changes the intercept's slope by so much, takes a penalised one to 0 or
  // beyond, where the curvature of a column is another.
  bool stops_intercept(const Point& point, double change) const {
    if (is_free()) return false;
    const double w = point.coef[at(n_features())];
    const double next = next_of(w, (mass_ + change) / total_, intercept_l1() / total_);
    return (w + follower_) * (w + next) <= 0;
  }

  void descend(const Point& point) {
    double cost = 0, first = 0, spent = 0;
    for (const int64 j : active_) cost += columns_.visit_work(j);
    for (int number = 0;; ++number) {
      const double changed = sweep(point);
      if (number == 0) first = changed;
      if (changed <= enough_ * first) {
        if (number == 0) enough_ *= kLess;
        return;
      }
      const Support support = support_of(point);
      const double gram = gram_cost(support);
      spent += cost;
      if (support.n_columns > kMostNear) {
        const double most = problem_.is_quadratic() ? kMostOnManyOfQuadratic : kMostOnMany;
        is_stuck_ = (spent_on_many_ += cost) > most * gram;
        if (is_stuck_ || spent > kShareOfGram * gram) return;
      } else if (static_cast<double>(active_.size()) > kFewMore * support.n_columns) {
        if (spent > kShareOfGram * gram) return;
      } else if ((spent_ += cost) > gram) {
        solve_near(point);
        return;
      }
    }
  }

  struct Support {
    double n_columns = 0, visit_work = 0;
  };

  Support support_of(const Point& point) const {
    Support support;
    for (const int64 j : active_) {
      if (point.coef[at(j)] + step_[at(j)] == 0) continue;
      ++support.n_columns, support.visit_work += columns_.visit_work(j);
    }
    return support;
  }

  // Nanoseconds of `solve_near`.
  double gram_cost(const Support& support) const {
    const double m = std::min<double>(support.n_columns, kMostNear);
    return columns_.gram_work(m, support.visit_work) + kFactored * m * m * m / 3;
  }

  // Goes to the minimum in the columns that seem to be needed.
  void solve_near(const Point& point) {
    is_exact_ = true;
    std::vector<int64> near;
    std::vector<double> coef, slopes;
    for (const int64 j : active_) {
      const double v = point.coef[at(j)] + step_[at(j)], g = slope(point, j);
      if (!(square(j) > 0) || (v == 0 && std::fabs(g) < kNear * problem_.penalty.l1)) continue;
      near.push_back(j), coef.push_back(v), slopes.push_back(g);
    }
    const int64 n_near = static_cast<int64>(near.size());
    const bool is_penalised = has_intercept() && !is_free();
    if (is_penalised) {
      coef.push_back(point.coef[at(n_features())] + follower_);
      slopes.push_back(mass_ + total_ * follower_);
    }
    const int64 m = n_near + is_penalised, stride = whole(m);
    std::vector<double> h = hessian(near, stride);
    if (is_penalised) tie_intercept(near, h, stride);
    coef.resize(at(stride)), slopes.resize(at(stride));
    const double size = static_cast<double>(m), free_rounds = kFreeProducts / (size * size * size);
    const int rounds = static_cast<int>(std::clamp<double>(free_rounds, kRounds, kMostRounds));
    const std::vector<double> found =
        SparseStep(h, m, stride, m, problem_.penalty.l1).minimise(coef, slopes, rounds);
    for (int64 a = 0; a < n_near; ++a) move(near[at(a)], found[at(a)] - coef[at(a)]);
    if (has_intercept()) follow(point);
  }

  // Makes the intercept the last of the columns.
  void tie_intercept(const std::vector<int64>& near, std::vector<double>& h, int64 stride) const {
    const std::size_t m = near.size();
    for (std::size_t a = 0; a < m; ++a) h[a * at(stride) + m] = sums_[at(near[a])];
    h[m * at(stride) + m] = total_;
  }

  // The upper half of the Hessian of some columns, whose steps a free intercept follows.
  std::vector<double> hessian(const std::vector<int64>& near, int64 stride) const {
    std::vector<double> h = columns_.gram(near, curvatures_, stride);
    const bool is_followed = has_intercept() && is_free() && total_ > 0;
    for (std::size_t a = 0; a < near.size(); ++a) {
      double* const row = h.data() + a * at(stride);
      row[a] += problem_.penalty.l2;
      if (!is_followed) continue;
      const double share = sums_[at(near[a])] / total_;
      for (std::size_t b = a; b < near.size(); ++b) row[b] -= share * sums_[at(near[b])];
    }
    return h;
  }

  double promise(const Point& point) const {
    double fall = 0;
    for (int64 j = 0; j < problem_.n_cols(); ++j) {
      const double d = step_[at(j)], w = point.coef[at(j)];
      if (d == 0) continue;
      fall -= point.gradient[at(j)] * d;
      if (j < problem_.n_penalised())
        fall -= problem_.penalty.l1 * (std::fabs(w + d) - std::fabs(w));
    }
    return fall;
  }

  const Problem& problem_;
  const DesignColumns columns_;
  std::vector<double> curvatures_, states_;  // h_i and h_i u_i of the rows, u = X d
  std::vector<double> step_, squares_, sums_;
  std::vector<int64> active_;
  // Of the intercept: its curvature, its slope at 0, its step, and whether it can be moved by any
  // step of the others.
  double total_ = 0, mass_ = 0, follower_ = 0;
  bool is_moving_ = false;
  double enough_ = 1;  // share of a first sweep's changes that the last one's may be
  // Nanoseconds of sweeps since few columns beside the support were left: no more of them than a
  // Gram matrix costs, for it leads to the minimum.
  double spent_ = 0, spent_on_many_ = 0;
  bool is_stuck_ = false;
  bool is_exact_ = false;
  double damping_ = 0;  // share of the rows' mean curvature that each has beside its own
};

}  // namespace snapml::native::small
