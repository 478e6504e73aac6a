// A small problem P(w) = sum_i c_i l(x_i.w + o_i, y_i) + R(w), and what one pass over its rows
// gives.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "small/design.hpp"
#include "small/row_losses.hpp"

namespace snapml::native::small {

enum class Intercept { kNone, kFree, kPenalised };

// R(w) = l1 ||w||_1 + l2 ||w||^2 / 2, of an intercept too where that is penalised.
struct Penalty {
  double l1, l2;
  Intercept intercept;
};

// Of the rows, and of as many more as a `Design` is padded with: those have the weight 0.
struct Targets {
  const double* labels;
  const double* weights;  // c_i
  const double* offsets;  // null where there are none
};

inline double total_weight(const Targets& targets, int64 n_rows) {
  double sum = 0;
  for (int64 i = 0; i < n_rows; ++i) sum += targets.weights[i];
  return sum;
}

// Returns balanced(step), a bound by every `step`-th row: by few of them where these make up for
// what is missing from a free intercept's condition, else by more. Where much is missing the point
// is so far from the minimum that no bound would help.
template <class Balanced>
double balanced_by_few(int64 n_rows, double missing, double total_weight, Balanced balanced) {
  constexpr int64 kFewRows = 32, kTimesAsMany = 8;
  constexpr double kLittle = 1.0 / 64;
  for (int64 n_moved = kFewRows;; n_moved *= kTimesAsMany) {
    const int64 step = std::max<int64>(1, n_rows / n_moved);
    const double found = balanced(step);
    if (std::isfinite(found) || step == 1 || missing > kLittle * total_weight) return found;
  }
}

// A point, and what one pass over the rows there has left.
struct Point {
  std::vector<double> coef;
  std::vector<double> margins, slopes;  // c_i l'(z_i)
  std::vector<double> loss_gradient;
  std::vector<double> gradient;  // with that of l2 ||w||^2 / 2
  double loss = 0;
  double objective = 0;
};

class Problem {
 public:
  using Point = small::Point;
  static constexpr bool kHasNorm = true;  // l1 may be above 0

  // `gram`: where the Hessian of a quadratic loss is kept, empty before the first one is made; of
  // all problems that differ in nothing but the penalty. Null where none is kept.
  Problem(const RowLosses& loss, const Design& design, const Targets& targets,
          const Penalty& penalty, std::vector<double>* gram = nullptr)
      : loss(loss), design(design), targets(targets), penalty(penalty), gram_(gram) {}

  const RowLosses& loss;
  const Design& design;
  const Targets targets;
  const Penalty penalty;

  bool is_quadratic() const { return loss.traits.is_quadratic; }
  bool jumps() const { return loss.traits.kinks != Kinks::kNone; }  // the curvature

  int64 n_cols() const { return design.n_cols; }
  int64 stride() const { return design.stride; }

  // Number of coefficients that the penalty is taken of, the first ones.
  int64 n_penalised() const {
    return penalty.intercept == Intercept::kPenalised ? design.n_cols : design.n_features;
  }

  // What a factor of the Hessian at a point costs, in passes over the rows.
  double factor_cost(const Point& point) const {
    const double q = static_cast<double>(n_cols());
    const double n = static_cast<double>(design.n_rows);
    const double share = jumps() ? static_cast<double>(n_curved(point)) / n : 1;
    return (share * design.gram_work() + q * q * q / 6) / design.pass_work();
  }

  // Rows that the loss is not flat at.
  int64 n_curved(const Point& point) const { return count_curved(curvatures(point)); }

  // Whether enough rows are flat at one of two points alone for a factor made at the first to be
  // worth little: one of so many that are curved at the second.
  bool is_curved_elsewhere(const Point& first, const Point& second) const {
    constexpr int64 kFew = 32;
    const std::vector<double> before = curvatures(first), now = curvatures(second);
    int64 n_changed = 0;
    for (std::size_t i = 0; i < now.size(); ++i) {
      n_changed += (before[i] != 0) != (now[i] != 0) ? 1 : 0;
    }
    return n_changed * kFew > count_curved(now);
  }

  // Coefficients from and to arrays of as many numbers as there are columns.
  void load(const double* from, std::vector<double>& coef) const {
    std::copy(from, from + n_cols(), coef.begin());
  }
  void store(const std::vector<double>& coef, double* to) const {
    std::copy(coef.begin(), coef.begin() + n_cols(), to);
  }
  int64 n_coefs() const { return n_cols(); }

  double lower_bound(const Point& point) const;

  Point point() const {
    small::Point point;
    point.margins.assign(static_cast<std::size_t>(design.n_padded), 0.0);
    point.slopes = point.margins;
    point.coef.assign(static_cast<std::size_t>(stride()), 0.0);
    point.loss_gradient = point.gradient = point.coef;
    return point;
  }

  void evaluate(Point& point) const {
    for (int64 first = 0; first < design.n_padded; first += kEight) {
      design.dot8(first, point.coef.data(), point.margins.data() + first);
    }
    if (targets.offsets != nullptr) {
      for (int64 i = 0; i < design.n_rows; ++i) point.margins[at(i)] += targets.offsets[i];
    }
    double sum[kEight] = {};
    loss.tangents(point.margins.data(), targets.labels, targets.weights, design.n_padded,
                  point.slopes.data(), sum);
    point.loss = sum_of_lanes(sum);
    fill_loss_gradient(point);
    add_penalty(point);
  }

  // The loss's gradient from the rows' slopes.
  void fill_loss_gradient(Point& point) const {
    std::fill(point.loss_gradient.begin(), point.loss_gradient.end(), 0.0);
    for (int64 first = 0; first < design.n_rows; first += kEight) {
      design.add8(first, point.slopes.data() + first, point.loss_gradient.data());
    }
  }

  // Fills h (`stride` rows of as many numbers, of which n_cols count) with the upper half of the
  // Hessian of the loss and of l2 ||w||^2 / 2.
  void fill_hessian(const Point& point, std::vector<double>& h) const {
    const bool is_kept = is_quadratic() && gram_ != nullptr;
    if (is_kept && !gram_->empty()) {
      h = *gram_;
    } else {
      fill_loss_hessian(point, h);
      if (is_kept) *gram_ = h;
    }
    for (int64 j = 0; j < n_penalised(); ++j) h[at(j * stride() + j)] += penalty.l2;
  }

  double curvature(const Point& point, int64 i) const {
    const double c = targets.weights[i];
    return c == 0 ? 0 : c * loss.curvature(point.margins[at(i)], targets.labels[i]);
  }

  // Of all rows, and of those that pad them.
  std::vector<double> curvatures(const Point& point) const {
    std::vector<double> found(point.margins.size());
    loss.curvatures(point.margins.data(), targets.labels, targets.weights, design.n_padded,
                    found.data());
    return found;
  }

  double inner(const std::vector<double>& a, const std::vector<double>& b) const {
    double sum = 0;
    for (std::size_t j = 0; j < at(n_cols()); ++j) sum += a[j] * b[j];
    return sum;
  }

  // l1 times the sum of magnitudes.
  double absolute_sum(const std::vector<double>& coef) const {
    double sum = 0;
    for (std::size_t j = 0; j < at(n_penalised()); ++j) sum += std::fabs(coef[j]);
    return penalty.l1 * sum;
  }

 private:
  static int64 count_curved(const std::vector<double>& curvatures) {
    return static_cast<int64>(curvatures.size()) -
           std::count(curvatures.begin(), curvatures.end(), 0.0);
  }

  void fill_loss_hessian(const Point& point, std::vector<double>& h) const {
    h.assign(static_cast<std::size_t>(stride() * stride()), 0.0);
    design.add_gram(curvatures(point).data(), h.data(), stride());
  }

  std::vector<double>* const gram_;
  static std::size_t at(int64 i) { return static_cast<std::size_t>(i); }

  void add_penalty(Point& point) const {
    double square = 0;
    point.gradient = point.loss_gradient;
    for (std::size_t j = 0; j < at(n_penalised()); ++j) {
      const double w = point.coef[j];
      square += w * w;
      point.gradient[j] += penalty.l2 * w;
    }
    point.objective = point.loss + 0.5 * penalty.l2 * square + absolute_sum(point.coef);
  }
};

}  // namespace snapml::native::small
