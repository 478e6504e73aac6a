// The hinge on rows that stay in the cache, by continuation: Newton's method on hinges whose corner
// is rounded off less and less around the last dual point, with the hinge's own certificate.
// docs/algorithms.md, section 11; solvers/newton/smoothed_hinge.py has the same for many rows.
#pragma once

#include <chrono>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "small/lower_bound.hpp"
#include "small/newton.hpp"

namespace snapml::native::small {

// What a stage has led to.
struct Stage {
  double seconds;
  double n_passes;  // of all stages so far
  double gap;
  double objective;
};

struct HingeSolution {
  std::vector<double> coef;    // of the best model, in the rows' type
  std::vector<double> slacks;  // alpha / c of each row, between 0 and 1: the last dual point
  double objective = std::numeric_limits<double>::infinity();
  double bound = 0;  // no model has a lower objective: no loss and no penalty is negative
  bool is_solved = false;
  int64 n_passes = 0;
  int64 n_entries = 0;  // steps of all stages, their starts among them
  std::vector<Stage> stages;
  std::vector<double> points;  // coefficients of each entry, where they are kept
};

// `Real`: the type that models are rounded to.
template <class Real>
class SmoothedHingeFit {
 public:
  SmoothedHingeFit(const Design& design, const Targets& targets, const Penalty& penalty,
                   const Rule& rule, Interrupt& interrupt)
      : design_(design),
        targets_(targets),
        penalty_(penalty),
        rule_(rule),
        interrupt_(interrupt),
        weights_(at(design.n_padded), 0.0),
        offsets_(at(design.n_padded), 0.0) {}

  // Goes on from coefficients, and from the dual point that belongs to them: null, that of zeros.
  HingeSolution solve(const double* start, const double* slacks) {
    double width = slacks == nullptr ? kFirstWidth : kCentredWidth;
    std::vector<double> coef(start, start + design_.n_cols);
    found_.slacks.assign(at(design_.n_padded), 0.0);
    if (slacks != nullptr) std::copy(slacks, slacks + design_.n_rows, found_.slacks.begin());
    while (width >= kLeastWidth && found_.n_passes < rule_.most_passes && n_entries_left() > 0) {
      const Smoothed smoothed = stage_problem(width);
      for (double& w : coef) w /= width;
      Newton<Smoothed> newton(smoothed, stage_rule(width), interrupt_);
      const Solution stage = newton.solve(coef.data());
      found_.n_passes += stage.n_passes;
      keep_points(stage, width);
      if (interrupt_.requested() || stage.coef.empty()) break;
      judge(smoothed, stage.coef, width);
      if (found_.is_solved || !stage.is_solved) break;
      for (std::size_t j = 0; j < coef.size(); ++j) coef[j] = width * stage.coef[j];
      width *= stage.n_passes <= kQuickPasses ? kQuickNarrowing : kNarrowing;
    }
    found_.slacks.resize(at(design_.n_rows));
    return std::move(found_);
  }

 private:
  using Smoothed = Problem<SmoothedHinge<double>>;
  using Clock = std::chrono::steady_clock;

  // As in smoothed_hinge.py. All widths are powers of two: a change of units rounds nothing.
  static constexpr double kFirstWidth = 16, kCentredWidth = 0.25, kLeastWidth = 1e-11;
  static constexpr double kNarrowing = 0.5, kQuickNarrowing = 0.25;
  static constexpr int64 kQuickPasses = 7;
  static constexpr double kStageGap = 0.1, kMostStageGap = 1e-2;
  static constexpr int64 kMostStagePasses = 200;  // they suffice where this method does well
  static constexpr double kSumRounding = 0x1p-50;

  static std::size_t at(int64 i) { return static_cast<std::size_t>(i); }

  int64 n_entries_left() const { return rule_.most_entries - found_.n_entries; }

  // The problem of a width in the units in which the corner's is 1: coefficients and margins are
  // taken in units of it, weights are times it, and an offset moves the corner to its place.
  Smoothed stage_problem(double width) {
    for (int64 i = 0; i < design_.n_rows; ++i) {
      const double own = targets_.offsets == nullptr ? 0.0 : targets_.offsets[i] / width;
      weights_[at(i)] = width * targets_.weights[i];
      offsets_[at(i)] = targets_.labels[i] * (1 - 1 / width - found_.slacks[at(i)]) + own;
    }
    const Targets moved{targets_.labels, weights_.data(), offsets_.data()};
    const Penalty penalty{0, width * width * penalty_.l2, penalty_.intercept};
    return Smoothed(SmoothedHinge<double>{}, design_, moved, penalty);
  }

  // A stage's gap is to be small beside what its corner leaves wrong.
  Rule stage_rule(double width) const {
    const int64 most = std::min(kMostStagePasses, rule_.most_passes - found_.n_passes);
    return {std::min(kMostStageGap, kStageGap * width), most, n_entries_left(), rule_.keeps_points};
  }

  void keep_points(const Solution& stage, double width) {
    found_.n_entries += static_cast<int64>(stage.history.size());
    if (!rule_.keeps_points) return;
    for (const Entry& entry : stage.history) {
      for (std::size_t j = 0; j < at(design_.n_cols); ++j) {
        found_.points.push_back(width * entry.coef[j]);
      }
    }
  }

  // Takes the stage's dual point, and its model where it is better.
  void judge(const Smoothed& smoothed, const std::vector<double>& coef, double width) {
    Point point = smoothed.point();
    point.coef = coef;
    evaluate(smoothed, point);
    // Both losses have the same slopes as dual point, and the true one's dual value is finite there
    // too: between the two lie the loss terms alone.
    double terms = 0;
    const std::vector<double> before = found_.slacks;
    for (int64 i = 0; i < design_.n_rows; ++i) {
      const double c = targets_.weights[i];
      if (c == 0) continue;
      const double a = std::fabs(point.slopes[at(i)]) / weights_[at(i)];
      terms += c * a * (0.5 * a - before[at(i)]);
      found_.slacks[at(i)] = a;
    }
    const double bound = smoothed.lower_bound(point) + width * terms - balancing(point);
    if (bound > found_.bound) found_.bound = bound;  // not where it is NaN
    see_model(smoothed, point, before, width);
    const double value = found_.objective;
    const double gap = std::max(value - found_.bound, kSumRounding * (value + found_.bound));
    found_.is_solved = gap <= rule_.tol * value;
    const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    found_.stages.push_back({seconds, static_cast<double>(found_.n_passes), gap, value});
  }

  void evaluate(const Smoothed& smoothed, Point& point) {
    ++found_.n_passes;
    smoothed.evaluate(point);
  }

  // How much of the terms a free intercept's balance may take away: the dual variables that
  // `lower_bound` moves make up for the sum of all, and a row's terms have a slope of at most the
  // width, which the gradient here is a multiple of.
  double balancing(const Point& point) const {
    const bool is_free = penalty_.intercept == Intercept::kFree;
    return is_free ? std::fabs(point.loss_gradient[at(design_.n_features)]) : 0;
  }

  void see_model(const Smoothed& smoothed, Point& point, const std::vector<double>& slacks,
                 double width) {
    std::vector<double> model(at(design_.n_cols));
    bool is_rounded = false;
    for (std::size_t j = 0; j < model.size(); ++j) {
      const double exact = width * point.coef[j];
      model[j] = static_cast<double>(static_cast<Real>(exact));
      if (model[j] == exact) continue;
      is_rounded = true;
      point.coef[j] = model[j] / width;
    }
    if (is_rounded) evaluate(smoothed, point);
    double value = 0;
    for (int64 i = 0; i < design_.n_rows; ++i) {
      const double y = targets_.labels[i], c = targets_.weights[i];
      const double margin = y + width * (point.margins[at(i)] - y * (1 - slacks[at(i)]));
      if (c != 0) value += c * Hinge<double>::value(margin, y);
    }
    double square = 0;
    for (std::size_t j = 0; j < at(smoothed.n_penalised()); ++j) square += model[j] * model[j];
    value += 0.5 * penalty_.l2 * square;
    if (!(value <= found_.objective)) return;
    found_.objective = value;
    found_.coef = std::move(model);
  }

  const Design& design_;
  const Targets targets_;
  const Penalty penalty_;
  const Rule rule_;
  Interrupt& interrupt_;
  std::vector<double> weights_, offsets_;  // of the present stage
  HingeSolution found_;
  const Clock::time_point began_ = Clock::now();
};

}  // namespace snapml::native::small
