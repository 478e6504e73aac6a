// Losses that are linear between their corners on rows that stay in the cache: a primal-dual
// interior point method in one call. docs/algorithms.md, section 11; solvers/interior_point has the
// same for many rows.
#pragma once

#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "small/factor.hpp"
#include "small/newton.hpp"
#include "small/walls.hpp"

namespace snapml::native::small {

// What a step has led to: estimates, but for the last one, which is certified.
struct Look {
  double seconds;
  double gap;
  double objective;
};

struct CornerSolution {
  std::vector<double> coef;  // of the best model, in the rows' type
  double objective = std::numeric_limits<double>::infinity();
  double bound = 0;  // no model has a lower objective: no loss and no penalty is negative
  bool is_solved = false;
  std::vector<double> slopes;  // of each row's loss at the last dual point, its weight left out
  std::vector<Look> looks;
  std::vector<double> points;  // coefficients at each look, where they are kept
};

// `Real`: the type that models are rounded to.
template <class Real, class Loss>
class InteriorPoint {
 public:
  InteriorPoint(const Loss& loss, const Design& design, const Targets& targets,
                const Penalty& penalty, const Rule& rule, Interrupt& interrupt)
      : loss_(loss),
        design_(design),
        targets_(targets),
        penalty_(penalty),
        rule_(rule),
        interrupt_(interrupt),
        rows_(kCorners * design.n_padded),
        columns_(penalty.l1 > 0 ? whole(design.n_cols) : 0),
        first_(*this),
        second_(*this),
        third_(*this),
        coef_(at(whole(design.stride)), 0.0),
        margins_(at(design.n_padded), 0.0),
        by_rows_(at(design.n_padded), 0.0),
        by_columns_(coef_.size(), 0.0),
        slopes_(at(design.n_padded), 0.0),
        gradient_(coef_.size(), 0.0),
        dual_error_(coef_.size(), 0.0),
        hessian_(at(design.stride * design.stride), 0.0) {
    fill_boxes();
  }

  // Begins with least squares through the corners, unless a model of zeros loses nothing.
  CornerSolution solve() {
    see_model(coef_, std::numeric_limits<double>::infinity());
    const double worst = found_.objective;
    found_.slopes.assign(at(design_.n_rows), 0.0);
    if (worst == 0) {
      found_.is_solved = true;
      found_.looks.push_back({seconds(), 0, 0});
      return std::move(found_);
    }
    fit_squares();
    put_between_walls();
    double share = kFine, halved = std::numeric_limits<double>::infinity();
    for (int n_idle = 0, n_refined = 0;;) {
      look();
      interrupt_.poll();
      if (interrupt_.requested()) break;
      const bool is_last = is_at_end() || !std::isfinite(gap_);
      n_idle = gap_ < 0.5 * halved || gap_ > kFar * value_ ? 0 : n_idle + 1;
      if (n_idle == 0) halved = gap_;
      const bool is_idle =
          n_idle > (gap_ <= rule_.most_gap(value_) ? 1 : kMostIdle) || gap_ <= kSumRounding * worst;
      if (is_last || is_idle || gap_ <= std::min(share * rule_.tol, kPolished) * value_) {
        judge();
        if (is_last || is_idle || found_.is_solved || ++n_refined > kMostRefined) break;
        share *= 0.1;
      }
      if (!advance()) {
        judge();
        break;
      }
    }
    keep_slopes();
    return std::move(found_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  // As in working_rows.py and barrier.py.
  static constexpr double kFine = 0.1, kPolished = 1e-13, kFar = 0.1;
  static constexpr int kMostIdle = 8, kMostRefined = 3;
  // Times the mean product of slack and room: from nearer the walls first steps are cut short.
  static constexpr double kFirstProduct = 4;
  static constexpr double kShareOfWay = 0.9995, kShort = 0.3, kCautious = 0.1;
  static constexpr double kRidge = 1e-14, kSumRounding = 0x1p-50, kNoWay = 1e-12;
  static constexpr double kBare = 1e-7;  // of the way between the walls
  static constexpr int kCorners = Loss::traits().n_corners;

  // A step of coefficients, margins, and walls, and how far slacks and rooms can go along it.
  struct Direction {
    explicit Direction(const InteriorPoint& of)
        : coef(at(whole(of.design_.stride)), 0.0),
          margins(at(of.design_.n_padded), 0.0),
          rows(of.rows_.n),
          columns(of.columns_.n) {}

    std::vector<double> coef, margins;
    WallStep rows, columns;
    double primal = 0, dual = 0;
  };

  static std::size_t at(int64 i) { return static_cast<std::size_t>(i); }
  int64 n_penalised() const {
    return penalty_.intercept == Intercept::kPenalised ? design_.n_cols : design_.n_features;
  }
  bool is_at_end() const { return static_cast<int64>(found_.looks.size()) >= rule_.most_entries; }

  void fill_boxes() {
    for (int k = 0; k < kCorners; ++k) {
      for (int64 i = 0; i < design_.n_rows; ++i) {
        const double c = targets_.weights[i];
        const Corner<double> corner = loss_.corner(k, targets_.labels[i]);
        const std::size_t e = at(k * design_.n_padded + i);
        rows_.at[e] = corner.at - (targets_.offsets == nullptr ? 0.0 : targets_.offsets[i]);
        rows_.low[e] = c * corner.low, rows_.width[e] = c * (corner.high - corner.low);
      }
    }
    if (columns_.n == 0) return;
    for (std::size_t j = 0; j < at(n_penalised()); ++j) {
      columns_.low[j] = -penalty_.l1, columns_.width[j] = 2 * penalty_.l1;
    }
    // A coefficient counts as much as a row: as a path's middle, whatever the penalty's strength.
    const double total = std::accumulate(rows_.width.begin(), rows_.width.end(), 0.0);
    columns_.share = total / static_cast<double>(rows_.n) / (2 * penalty_.l1);
  }

  // margins of coefficients
  void multiply(const std::vector<double>& coef, std::vector<double>& margins) {
    for (int64 first = 0; first < design_.n_padded; first += kEight) {
      design_.dot8(first, coef.data(), margins.data() + first);
    }
  }

  // to += X^T s
  void add_rows(const std::vector<double>& s, std::vector<double>& to) {
    for (int64 first = 0; first < design_.n_rows; first += kEight) {
      design_.add8(first, s.data() + first, to.data());
    }
  }

  // The factor of X^T diag(k) X and the penalty; whether there is one.
  bool factor(const std::vector<double>& k, const double* own) {
    std::fill(hessian_.begin(), hessian_.end(), 0.0);
    design_.add_gram(k.data(), hessian_.data(), design_.stride);
    for (int64 j = 0; j < design_.n_cols; ++j) {
      double& diagonal = hessian_[at(j * design_.stride + j)];
      if (j < n_penalised()) diagonal += penalty_.l2 + (own == nullptr ? 0.0 : own[j]);
      diagonal += kRidge * diagonal + std::numeric_limits<double>::min();
    }
    return factorise(hessian_.data(), design_.n_cols, design_.stride, 0);
  }

  void fit_squares() {
    for (int64 i = 0; i < design_.n_rows; ++i) {
      by_rows_[at(i)] = targets_.weights[i] != 0 ? 1.0 : 0.0;
    }
    if (!factor(by_rows_, nullptr)) return;
    std::vector<double> middle(by_rows_.size(), 0.0);
    for (int k = 0; k < kCorners; ++k) {
      for (std::size_t i = 0; i < at(design_.n_rows); ++i) {
        middle[i] += by_rows_[i] * rows_.at[at(k * design_.n_padded) + i] / kCorners;
      }
    }
    add_rows(middle, coef_);
    solve_factored(hessian_.data(), design_.n_cols, design_.stride, coef_.data());
  }

  void put_between_walls() {
    multiply(coef_, margins_);
    double lost = 0, total = 0;
    for_each_wall(margins_, coef_, [&](Walls& walls, int64 first, const double* z, int64 n) {
      for (std::size_t i = 0; i < at(n); ++i) {
        const std::size_t e = at(first) + i;
        lost += 0.5 * walls.width[e] * std::fabs(z[i] - walls.at[e]);
        total += walls.share * walls.width[e];
      }
    });
    n_walls_ = 2 * std::max(total, std::numeric_limits<double>::min());
    const double least = std::sqrt(std::numeric_limits<double>::min());
    const double product = std::max(kFirstProduct * 2 * lost / n_walls_, least);
    for_each_wall(margins_, coef_, [&](Walls& walls, int64 first, const double* z, int64 n) {
      centre_walls(z, walls.at.data() + first, walls.share * product, n, walls.over.data() + first,
                   walls.under.data() + first, walls.up.data() + first, walls.down.data() + first);
    });
  }

  // Calls with the walls of each corner of the rows, with their margins, and with those of the
  // coefficients.
  template <class Call>
  void for_each_wall(const std::vector<double>& margins, const std::vector<double>& coef,
                     Call call) {
    for (int k = 0; k < kCorners; ++k) {
      call(rows_, k * design_.n_padded, margins.data(), design_.n_padded);
    }
    if (columns_.n > 0) call(columns_, 0, coef.data(), columns_.n);
  }

  // Computes the errors of both kinds of equations, and how far the point is from a minimum.
  void look() {
    WallSums sums;
    std::fill(slopes_.begin(), slopes_.end(), 0.0);
    std::fill(by_columns_.begin(), by_columns_.end(), 0.0);
    for_each_wall(margins_, coef_, [&](Walls& walls, int64 first, const double* z, int64 n) {
      double* const v = &walls == &rows_ ? slopes_.data() : by_columns_.data();
      see_walls(z, walls.at.data() + first, walls.low.data() + first, walls.width.data() + first,
                walls.over.data() + first, walls.under.data() + first, walls.up.data() + first,
                walls.down.data() + first, n, walls.error.data() + first, v, sums.complementarity,
                sums.misfit, sums.value, sums.dual);
    });
    std::fill(gradient_.begin(), gradient_.end(), 0.0);
    add_rows(slopes_, gradient_);
    double square = 0, misfit = sum_of_lanes(sums.misfit);
    for (std::size_t j = 0; j < at(design_.n_cols); ++j) {
      const double l2 = j < at(n_penalised()) ? penalty_.l2 : 0;
      dual_error_[j] = -(gradient_[j] + l2 * coef_[j] + by_columns_[j]);
      misfit += std::fabs(dual_error_[j] * coef_[j]);
      square += l2 * coef_[j] * coef_[j];
    }
    complementarity_ = sum_of_lanes(sums.complementarity);
    dual_terms_ = sum_of_lanes(sums.dual);
    value_ = sum_of_lanes(sums.value) + 0.5 * square;
    gap_ = complementarity_ + misfit;
    found_.looks.push_back({seconds(), gap_, value_});
    if (!rule_.keeps_points) return;
    found_.points.insert(found_.points.end(), coef_.begin(), coef_.begin() + design_.n_cols);
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

  // Makes one step; returns whether there was one.
  bool advance() {
    std::fill(by_rows_.begin(), by_rows_.end(), 0.0);
    std::fill(by_columns_.begin(), by_columns_.end(), 0.0);
    for_each_wall(margins_, coef_, [&](Walls& walls, int64 first, const double*, int64 n) {
      double* const k = &walls == &rows_ ? by_rows_.data() : by_columns_.data();
      soften_walls(walls.over.data() + first, walls.under.data() + first, walls.up.data() + first,
                   walls.down.data() + first, walls.width.data() + first, n,
                   walls.per_up.data() + first, walls.per_down.data() + first,
                   walls.soft.data() + first, k);
    });
    if (!factor(by_rows_, by_columns_.data())) return false;
    const double mean = complementarity_ / n_walls_;
    direct(0.0, nullptr, 1.0, first_);
    const double left = complementarity_after(first_) / complementarity_;
    const double share = std::pow(std::min(1.0, std::max(left, 0.0)), 3);
    direct(share * mean, &first_, kShareOfWay, second_);
    Direction* best = &second_;
    if (std::min(best->primal, best->dual) < kShort) {
      direct(std::max(share, kCautious) * mean, nullptr, kShareOfWay, third_);
      const double other = std::min(third_.primal, third_.dual);
      if (other > std::min(best->primal, best->dual)) best = &third_;
    }
    if (!(std::max(best->primal, best->dual) >= kNoWay)) return false;
    go(*best);
    return true;
  }

  // Newton's step towards equal products, corrected for the second order of `before`.
  void direct(double product, const Direction* before, double share_of_way, Direction& to) {
    const double corrects = before == nullptr ? 0 : 1;
    std::fill(by_rows_.begin(), by_rows_.end(), 0.0);
    std::fill(by_columns_.begin(), by_columns_.end(), 0.0);
    for_each_wall(margins_, coef_, [&](Walls& walls, int64 first, const double*, int64 n) {
      const bool is_rows = &walls == &rows_;
      const Direction& seen = before == nullptr ? to : *before;
      const WallStep& step = is_rows ? seen.rows : seen.columns;
      aim_walls(walls.over.data() + first, walls.under.data() + first, walls.up.data() + first,
                walls.down.data() + first, walls.per_up.data() + first,
                walls.per_down.data() + first, walls.soft.data() + first,
                walls.width.data() + first, walls.error.data() + first, step.over.data() + first,
                step.under.data() + first, step.down.data() + first, walls.share * product,
                corrects, n, walls.up_aim.data() + first, walls.down_aim.data() + first,
                walls.shift.data() + first, is_rows ? by_rows_.data() : by_columns_.data());
    });
    for (std::size_t j = 0; j < to.coef.size(); ++j) to.coef[j] = dual_error_[j] + by_columns_[j];
    add_rows(by_rows_, to.coef);
    solve_factored(hessian_.data(), design_.n_cols, design_.stride, to.coef.data());
    multiply(to.coef, to.margins);
    double slacks[kEight] = {}, rooms[kEight] = {};
    for_each_wall(to.margins, to.coef, [&](Walls& walls, int64 first, const double* dz, int64 n) {
      WallStep& step = &walls == &rows_ ? to.rows : to.columns;
      step_walls(walls.over.data() + first, walls.under.data() + first, walls.per_up.data() + first,
                 walls.per_down.data() + first, walls.soft.data() + first,
                 walls.width.data() + first, walls.up_aim.data() + first,
                 walls.down_aim.data() + first, walls.shift.data() + first, dz, n,
                 step.over.data() + first, step.under.data() + first, step.down.data() + first,
                 slacks, rooms);
    });
    const double slack = *std::max_element(slacks, slacks + kEight);
    const double room = *std::max_element(rooms, rooms + kEight);
    to.primal = slack > share_of_way ? share_of_way / slack : 1;
    to.dual = room > share_of_way ? share_of_way / room : 1;
    if (penalty_.l2 > 0) to.primal = to.dual = std::min(to.primal, to.dual);  // tied together
  }

  double complementarity_after(const Direction& way) {
    double sum[kEight] = {};
    for_each_wall(margins_, coef_, [&](Walls& walls, int64 first, const double*, int64 n) {
      const WallStep& step = &walls == &rows_ ? way.rows : way.columns;
      moved_products(walls.over.data() + first, walls.under.data() + first, walls.up.data() + first,
                     walls.down.data() + first, walls.width.data() + first,
                     step.over.data() + first, step.under.data() + first, step.down.data() + first,
                     way.primal, way.dual, n, sum);
    });
    return sum_of_lanes(sum);
  }

  void go(const Direction& way) {
    for_each_wall(margins_, coef_, [&](Walls& walls, int64 first, const double*, int64 n) {
      const WallStep& step = &walls == &rows_ ? way.rows : way.columns;
      move_walls(step.over.data() + first, step.under.data() + first, step.down.data() + first,
                 way.primal, way.dual, n, walls.over.data() + first, walls.under.data() + first,
                 walls.up.data() + first, walls.down.data() + first);
    });
    for (std::size_t j = 0; j < at(design_.n_cols); ++j) coef_[j] += way.primal * way.coef[j];
    for (std::size_t i = 0; i < margins_.size(); ++i) margins_[i] += way.primal * way.margins[i];
  }

  // Takes the model, rounded, where it is better, and the bound of its slopes.
  void judge() {
    const double bound = lower_bound();
    if (bound > found_.bound) found_.bound = bound;  // not where it is NaN
    std::vector<double> model(coef_.size(), 0.0);
    for (std::size_t j = 0; j < at(design_.n_cols); ++j) {
      model[j] = static_cast<double>(static_cast<Real>(coef_[j]));
    }
    see_model(model, -std::numeric_limits<double>::infinity());
    if (columns_.n > 0) drop(model);
    const double value = found_.objective;
    const double gap = std::max(value - found_.bound, kSumRounding * (value + found_.bound));
    found_.is_solved = std::isfinite(value) && gap <= rule_.most_gap(value);
    found_.looks.back().gap = gap, found_.looks.back().objective = value;
  }

  // Slopes that all but lie in a wall are taken to.
  void keep_slopes() {
    for (int k = 0; k < kCorners; ++k) {
      for (int64 i = 0; i < design_.n_rows; ++i) {
        if (targets_.weights[i] == 0) continue;
        const std::size_t e = at(k * design_.n_padded + i);
        const double up = rows_.up[e] < kBare ? 0 : rows_.up[e];
        const double share = rows_.down[e] < kBare ? 0
                             : up < rows_.down[e]  ? 1 - up
                                                   : rows_.down[e];
        const Corner<double> corner = loss_.corner(k, targets_.labels[i]);
        found_.slopes[at(i)] += corner.low + share * (corner.high - corner.low);
      }
    }
  }

  void see_model(const std::vector<double>& model, double allowed) {
    std::vector<double> margins(margins_.size());
    multiply(model, margins);
    double value = 0, square = 0, sum = 0;
    for (int64 i = 0; i < design_.n_rows; ++i) {
      const double c = targets_.weights[i];
      const double z = margins[at(i)] + (targets_.offsets == nullptr ? 0.0 : targets_.offsets[i]);
      if (c != 0) value += c * loss_.value(z, targets_.labels[i]);
    }
    for (std::size_t j = 0; j < at(n_penalised()); ++j) {
      square += model[j] * model[j], sum += std::fabs(model[j]);
    }
    value += 0.5 * penalty_.l2 * square + penalty_.l1 * sum;
    if (!(value <= found_.objective || value - found_.bound <= allowed)) return;
    found_.objective = value;
    found_.coef.assign(model.begin(), model.begin() + design_.n_cols);
  }

  // Takes zeros for the coefficients that are to be none, if the gap stays what is allowed. Of a
  // coefficient and the room that its slope has below l1 one is zero at the minimum, nearly so
  // here.
  void drop(std::vector<double> model) {
    double largest = 0;
    for (const double w : model) largest = std::max(largest, std::fabs(w));
    bool is_changed = false;
    for (std::size_t j = 0; j < at(n_penalised()); ++j) {
      const double room = 1 - std::fabs(gradient_[j]) / penalty_.l1;
      if (model[j] == 0 || !(std::fabs(model[j]) < room * largest)) continue;
      model[j] = 0, is_changed = true;
    }
    if (is_changed) see_model(model, rule_.tol * found_.objective);
  }

  // The dual objective at the slopes, those of a free intercept made to sum up to zero.
  double lower_bound() {
    double terms = dual_terms_, left = 0;
    std::vector<double> sums = gradient_;
    if (penalty_.intercept == Intercept::kFree) {
      const std::size_t j = at(design_.n_features);
      terms += balance(sums);
      left = std::fabs(sums[j] * coef_[j]);  // rounding, at about the minimum
    }
    double largest = 0, square = 0;
    for (std::size_t j = 0; j < at(n_penalised()); ++j) {
      largest = std::max(largest, std::fabs(sums[j]));
      const double beyond = std::max(0.0, std::fabs(sums[j]) - penalty_.l1);
      square += beyond * beyond;
    }
    double bound = -std::numeric_limits<double>::infinity();
    if (penalty_.l2 > 0) bound = terms - square / (2 * penalty_.l2);
    if (penalty_.l1 > 0) {
      bound = std::max(bound, terms * std::min(1.0, penalty_.l1 / std::max(largest, 1e-300)));
    }
    return bound - left;
  }

  // Moves slopes, each by its room, until they balance; returns what the terms gain.
  double balance(std::vector<double>& sums) {
    double missing = 0, room = 0, gain = 0;
    for (std::size_t i = 0; i < slopes_.size(); ++i) missing += slopes_[i];
    const auto room_of = [&](std::size_t e) {
      return rows_.width[e] * std::min(rows_.up[e], rows_.down[e]);
    };
    for (std::size_t e = 0; e < at(rows_.n); ++e) room += room_of(e);
    if (missing == 0) return 0;
    if (!(std::fabs(missing) <= room)) return -std::numeric_limits<double>::infinity();
    std::fill(by_rows_.begin(), by_rows_.end(), 0.0);
    for (std::size_t e = 0; e < at(rows_.n); ++e) {
      const double moved = missing / room * room_of(e);
      gain += moved * rows_.at[e];
      by_rows_[e % by_rows_.size()] -= moved;
    }
    add_rows(by_rows_, sums);
    return gain;
  }

  const Loss loss_;
  const Design& design_;
  const Targets targets_;
  const Penalty penalty_;
  const Rule rule_;
  Interrupt& interrupt_;
  Walls rows_, columns_;
  Direction first_, second_, third_;
  std::vector<double> coef_, margins_;
  std::vector<double> by_rows_, by_columns_;  // scratch
  std::vector<double> slopes_, gradient_, dual_error_, hessian_;
  double complementarity_ = 0, dual_terms_ = 0, value_ = 0, gap_ = 0, n_walls_ = 1;
  CornerSolution found_;
  const Clock::time_point began_ = Clock::now();
};

}  // namespace snapml::native::small
