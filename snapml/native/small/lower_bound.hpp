// The dual objective at the dual point that the losses' slopes make: no model has a lower
// objective. docs/algorithms.md, section 9.
#pragma once

#include <limits>

#include "small/problem.hpp"

namespace snapml::native::small {

class LowerBound {
 public:
  LowerBound(const Problem& problem, const Point& point) : problem_(problem), point_(point) {}

  // -inf where the dual point is not feasible.
  double value() const {
    // sum_i -c_i l*(l'(z_i)), by Fenchel's equality
    return value_of(point_.loss - problem_.inner(point_.loss_gradient, point_.coef));
  }

  // The same for the loss terms of slopes that need not be those at the point's margins.
  double value_of(double terms) const {
    if (problem_.penalty.intercept != Intercept::kFree) return bound(terms, point_.loss_gradient);
    const double missing = std::fabs(point_.loss_gradient[at(problem_.design.n_features)]);
    return balanced_by_few(problem_.design.n_rows, missing,
                           total_weight(problem_.targets, problem_.design.n_rows),
                           [&](int64 step) { return balanced(terms, step); });
  }

 private:
  static constexpr double kNone = -std::numeric_limits<double>::infinity();

  // The dual objective of loss terms and -X^T beta.
  double bound(double terms, const std::vector<double>& gradient) const {
    const Penalty& penalty = problem_.penalty;
    if (penalty.l1 == 0) return finite(terms - conjugate(gradient));
    double largest = 0;
    for (std::size_t j = 0; j < n_penalised(); ++j) {
      largest = std::max(largest, std::fabs(gradient[j]));
    }
    // Scaled by s, the loss terms keep at least that share: l* is convex and l*(0) not positive.
    const double scale = largest > penalty.l1 ? penalty.l1 / largest : 1;
    const double scaled = finite(scale * terms);
    if (penalty.l2 == 0) return scaled;
    return std::max(scaled, finite(terms - conjugate(gradient)));
  }

  // R* of the gradient, for l2 > 0.
  double conjugate(const std::vector<double>& gradient) const {
    double square = 0;
    for (std::size_t j = 0; j < n_penalised(); ++j) {
      const double beyond = std::max(0.0, std::fabs(gradient[j]) - problem_.penalty.l1);
      square += beyond * beyond;
    }
    return square / (2 * problem_.penalty.l2);
  }

  // Every `step`-th row takes its part, by its curvature, of what the dual variables miss to 0.
  double balanced(double terms, int64 step) const {
    const Design& design = problem_.design;
    const Targets& targets = problem_.targets;
    const double missing = point_.loss_gradient[at(design.n_features)];
    if (missing == 0) return bound(terms, point_.loss_gradient);
    double room = 0;
    for (int64 i = 0; i < design.n_rows; i += step) room += problem_.curvature(point_, i);
    if (!(room > 0)) return kNone;
    std::vector<double> gradient = point_.loss_gradient;
    double moved = 0;
    for (int64 i = 0; i < design.n_rows; i += step) {
      const double shift = missing * problem_.curvature(point_, i) / room;  // of beta_i
      if (shift == 0) continue;
      const double c = targets.weights[i], y = targets.labels[i], slope = point_.slopes[at(i)] / c;
      terms +=
          c * (problem_.loss.conjugate(slope, y) - problem_.loss.conjugate(slope - shift / c, y));
      if (targets.offsets != nullptr) terms -= shift * targets.offsets[i];
      moved += shift;
      design.add_row(i, -shift, gradient.data());
    }
    const double rounding = std::numeric_limits<double>::epsilon() *
                            total_weight(problem_.targets, problem_.design.n_rows);
    if (!(std::fabs(moved - missing) <= 1e-6 * std::fabs(missing) + rounding)) return kNone;
    return bound(terms, gradient);
  }

  static double finite(double bound) { return std::isfinite(bound) ? bound : kNone; }
  static std::size_t at(int64 i) { return static_cast<std::size_t>(i); }
  std::size_t n_penalised() const { return at(problem_.n_penalised()); }

  const Problem& problem_;
  const Point& point_;
};

inline double Problem::lower_bound(const Point& point) const {
  return LowerBound(*this, point).value();
}

}  // namespace snapml::native::small
