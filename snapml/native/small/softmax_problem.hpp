// The multinomial loss of K classes with an L2 penalty on a small problem's rows, for `Newton`. The
// coefficients of the classes stand one after the other, each padded to whole registers.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "small/factor.hpp"
#include "small/pair_sums.hpp"
#include "small/problem.hpp"
#include "snapml/softmax.hpp"

namespace snapml::native::small {

template <class Real>
SNAPML_CLONES void probabilities8(Real* z, int n_classes, Real* log_sum) {
  Softmax<Real, kEight>::probabilities(z, n_classes, log_sum);
}

class SoftmaxProblem {
 public:
  struct Point {
    std::vector<double> coef;
    std::vector<double> probabilities, slopes;  // classes x rows
    std::vector<double> loss_gradient, gradient;
    double loss = 0;
    double objective = 0;
  };

  SoftmaxProblem(int n_classes, const Design& design, const Targets& targets,
                 const Penalty& penalty)
      : n_classes(n_classes), design(design), targets(targets), penalty(penalty) {}

  static constexpr bool kHasNorm = false;  // an L1 norm is another method's

  const int n_classes;
  const Design& design;
  const Targets targets;  // offsets are classes x rows
  const Penalty penalty;

  static constexpr bool jumps() { return false; }
  static constexpr bool is_curved_elsewhere(const Point&, const Point&) { return false; }

  int64 n_cols() const { return n_classes * design.stride; }
  int64 stride() const { return n_cols(); }
  int64 n_coefs() const { return n_classes * design.n_cols; }

  double factor_cost(const Point& /*point*/) const {
    const double k = n_classes, size = k * static_cast<double>(design.n_cols);
    const double blocks = k * k / 2;
    return (blocks * design.gram_work() + size * size * size / 6) / (k * design.pass_work());
  }

  void load(const double* from, std::vector<double>& coef) const {
    for (int64 k = 0; k < n_classes; ++k, from += design.n_cols) {
      std::copy(from, from + design.n_cols, coef.begin() + k * design.stride);
    }
  }
  void store(const std::vector<double>& coef, double* to) const {
    for (int64 k = 0; k < n_classes; ++k, to += design.n_cols) {
      const auto from = coef.begin() + k * design.stride;
      std::copy(from, from + design.n_cols, to);
    }
  }

  Point point() const {
    Point point;
    point.coef.assign(at(n_cols()), 0.0);
    point.loss_gradient = point.gradient = point.coef;
    point.probabilities.assign(at(n_classes * design.n_padded), 0.0);
    point.slopes = point.probabilities;
    return point;
  }

  void evaluate(Point& point) const {
    std::vector<double> tile(at(n_classes * kEight));
    point.loss = 0;
    std::fill(point.loss_gradient.begin(), point.loss_gradient.end(), 0.0);
    for (int64 first = 0; first < design.n_rows; first += kEight) {
      for (int64 k = 0; k < n_classes; ++k) {
        design.dot8(first, point.coef.data() + k * design.stride, tile.data() + k * kEight);
      }
      point.loss += finish_rows(point, first, tile.data());
      for (int64 k = 0; k < n_classes; ++k) {
        design.add8(first, point.slopes.data() + k * design.n_padded + first,
                    point.loss_gradient.data() + k * design.stride);
      }
    }
    double square = 0;
    point.gradient = point.loss_gradient;
    each_penalised([&](std::size_t j) {
      square += point.coef[j] * point.coef[j];
      point.gradient[j] += penalty.l2 * point.coef[j];
    });
    point.objective = point.loss + 0.5 * penalty.l2 * square;
  }

  void fill_hessian(const Point& point, std::vector<double>& h) const {
    h.assign(at(stride() * stride()), 0.0);
    if (is_uniform(point)) {
      fill_uniform(h);
    } else if (are_blocks_cheaper()) {
      fill_blocks(point, h);
    } else {
      PairSums sums(design, n_classes);
      sums.add([&](int64 k, int64 l, int64 first, int64 count, int64 step, double* to) {
        for (int64 r = 0; r < count; ++r) to[r * step] = curvature(point, k, l, first + r);
      });
      sums.each([&](int64 k, int64 l, int64 i, int64 j, double sum) { put(h, k, l, i, j, sum); });
    }
    each_penalised([&](std::size_t j) { h[j * at(stride()) + j] += penalty.l2; });
    close_free_directions(h);
  }

  double inner(const std::vector<double>& a, const std::vector<double>& b) const {
    double sum = 0;
    for (std::size_t j = 0; j < a.size(); ++j) sum += a[j] * b[j];
    return sum;
  }

  // D at the dual point that the slopes make; -inf where it is not feasible.
  double lower_bound(const Point& point) const {
    const double terms = point.loss - inner(point.loss_gradient, point.coef);
    if (penalty.intercept != Intercept::kFree) return bound(terms, point.loss_gradient);
    double missing = 0;
    for (int64 k = 0; k < n_classes; ++k) {
      const double own = point.loss_gradient[at(k * design.stride + free_column())];
      missing = std::max(missing, std::fabs(own));
    }
    return balanced_by_few(design.n_rows, missing, total_weight(targets, design.n_rows),
                           [&](int64 step) { return balanced(point, terms, step); });
  }

 private:
  static constexpr double kNone = -std::numeric_limits<double>::infinity();

  static std::size_t at(int64 i) { return static_cast<std::size_t>(i); }
  int64 row_of_class(int64 k, int64 i) const { return k * design.n_padded + i; }
  double probability(const Point& point, int64 k, int64 i) const {
    return point.probabilities[at(row_of_class(k, i))];
  }
  // Of a row's loss in the margins of two classes.
  double curvature(const Point& point, int64 k, int64 l, int64 i) const {
    const double p = probability(point, k, i), q = probability(point, l, i);
    return targets.weights[i] * (k == l ? p * (1 - p) : -p * q);
  }
  int64 free_column() const { return design.n_features; }

  template <class Call>
  void each_penalised(Call call) const {
    const bool all = penalty.intercept == Intercept::kPenalised;
    const int64 count = all ? design.n_cols : design.n_features;
    for (int64 k = 0; k < n_classes; ++k) {
      for (int64 j = 0; j < count; ++j) call(at(k * design.stride + j));
    }
  }

  // Probabilities and slopes of eight rows from their margins; returns their losses.
  double finish_rows(Point& point, int64 first, double* z) const {
    double chosen[kEight] = {}, log_sum[kEight], loss = 0;
    const int64 count = std::min<int64>(kEight, design.n_rows - first);
    for (int64 r = 0; r < count; ++r) {
      for (int64 k = 0; targets.offsets != nullptr && k < n_classes; ++k) {
        z[k * kEight + r] += targets.offsets[k * design.n_rows + first + r];
      }
      chosen[r] = z[static_cast<int64>(targets.labels[first + r]) * kEight + r];
    }
    probabilities8(z, n_classes, log_sum);
    for (int64 r = 0; r < count; ++r) {
      const double c = targets.weights[first + r];
      const int64 label = static_cast<int64>(targets.labels[first + r]);
      if (c != 0) loss += c * (log_sum[r] - chosen[r]);
      for (int64 k = 0; k < n_classes; ++k) {
        const double p = z[k * kEight + r];
        point.probabilities[at(row_of_class(k, first + r))] = p;
        point.slopes[at(row_of_class(k, first + r))] = c == 0 ? 0 : c * (p - (k == label ? 1 : 0));
      }
    }
    return loss;
  }

  // An entry of the upper half, and of a block beside the diagonal, which is symmetric itself.
  void put(std::vector<double>& h, int64 k, int64 l, int64 i, int64 j, double value) const {
    const int64 from = k * design.stride, to = l * design.stride;
    h[at((from + i) * stride() + to + j)] = value;
    if (k != l) h[at((from + j) * stride() + to + i)] = value;
  }

  // Whether the blocks' products one after the other cost less than those of `PairSums`, which
  // makes a pair of columns' product once but takes its time for it. In products of eight at a
  // time.
  bool are_blocks_cheaper() const {
    constexpr double kOfPair = 12, kOfShortRow = 18;
    const int64 n_blocks = n_classes * (n_classes + 1) / 2;
    const double each = 1 + kOfShortRow / static_cast<double>(design.n_cols);
    return design.keeps_rows() &&
           static_cast<double>(n_blocks) * each < static_cast<double>(whole(n_blocks)) + kOfPair;
  }

  // One block after the other.
  void fill_blocks(const Point& point, std::vector<double>& h) const {
    std::vector<double> weights(at(design.n_padded), 0.0);
    std::vector<double> gram(at(design.stride * design.stride));
    for (int64 k = 0; k < n_classes; ++k) {
      for (int64 l = k; l < n_classes; ++l) {
        for (int64 i = 0; i < design.n_rows; ++i) weights[at(i)] = curvature(point, k, l, i);
        std::fill(gram.begin(), gram.end(), 0.0);
        design.add_gram(weights.data(), gram.data(), design.stride);
        put_block(h, k, l, gram, 1.0);
      }
    }
  }

  // A block whose upper half is `factor` times that of a matrix.
  void put_block(std::vector<double>& h, int64 k, int64 l, const std::vector<double>& upper,
                 double factor) const {
    for (int64 i = 0; i < design.n_cols; ++i) {
      for (int64 j = i; j < design.n_cols; ++j) {
        put(h, k, l, i, j, factor * upper[at(i * design.stride + j)]);
      }
    }
  }

  // Whether all classes are as probable everywhere: all blocks are then one.
  bool is_uniform(const Point& point) const {
    return targets.offsets == nullptr &&
           std::all_of(point.coef.begin(), point.coef.end(), [](double w) { return w == 0; });
  }

  void fill_uniform(std::vector<double>& h) const {
    std::vector<double> gram(at(design.stride * design.stride), 0.0);
    std::vector<double> weights(targets.weights, targets.weights + design.n_rows);
    weights.resize(at(design.n_padded), 0.0);
    design.add_gram(weights.data(), gram.data(), design.stride);
    const double p = 1.0 / n_classes;
    for (int64 k = 0; k < n_classes; ++k) {
      for (int64 l = k; l < n_classes; ++l) {
        put_block(h, k, l, gram, k == l ? p * (1 - p) : -p * p);
      }
    }
  }

  // Gives what nothing depends on a curvature: padding, and free intercepts that all move alike.
  void close_free_directions(std::vector<double>& h) const {
    for (int64 k = 0; k < n_classes; ++k) {
      for (int64 j = design.n_cols; j < design.stride; ++j) {
        h[at((k * design.stride + j) * (stride() + 1))] = 1;
      }
    }
    if (penalty.intercept != Intercept::kFree) return;
    double trace = 0;
    for (int64 k = 0; k < n_classes; ++k) {
      trace += h[at((k * design.stride + free_column()) * (stride() + 1))];
    }
    for (int64 k = 0; k < n_classes; ++k) {
      for (int64 l = k; l < n_classes; ++l) {
        const int64 i = k * design.stride + free_column(), j = l * design.stride + free_column();
        h[at(i * stride() + j)] += trace / (n_classes * n_classes);
      }
    }
  }

  double bound(double terms, const std::vector<double>& gradient) const {
    double square = 0;
    each_penalised([&](std::size_t j) { square += gradient[j] * gradient[j]; });
    const double found = terms - square / (2 * penalty.l2);
    return std::isfinite(found) ? found : kNone;
  }

  // Every `step`-th row's dual variables move as its probabilities would with intercepts whose
  // change makes up for what they miss to 0: none leaves the simplex while that change is small.
  double balanced(const Point& point, double terms, int64 step) const {
    std::vector<double> missing(at(n_classes)), moved(at(n_classes)), turn;
    double largest = 0;
    for (int64 k = 0; k < n_classes; ++k) {
      missing[at(k)] = point.loss_gradient[at(k * design.stride + free_column())];
      largest = std::max(largest, std::fabs(missing[at(k)]));
    }
    if (largest == 0) return bound(terms, point.loss_gradient);
    if (!find_turn(point, missing, step, turn)) return kNone;
    std::vector<double> gradient = point.loss_gradient;  // -X^T beta
    for (int64 i = 0; i < design.n_rows; i += step) {
      const double c = targets.weights[i];
      double mean = 0;
      for (int64 k = 0; k < n_classes; ++k) mean += turn[at(k)] * probability(point, k, i);
      for (int64 k = 0; c != 0 && k < n_classes; ++k) {
        const double p = probability(point, k, i), change = p * (turn[at(k)] - mean);
        const double shift = c * change;  // of beta_ik
        terms += c * (Entry::conjugate_entry(p) - Entry::conjugate_entry(p - change));
        if (targets.offsets != nullptr) terms -= shift * targets.offsets[k * design.n_rows + i];
        moved[at(k)] += shift;
        design.add_row(i, -shift, gradient.data() + k * design.stride);
      }
    }
    const double total = total_weight(targets, design.n_rows);
    const double rounding = 1e-6 * largest + std::numeric_limits<double>::epsilon() * total;
    for (int64 k = 0; k < n_classes; ++k) {
      if (!(std::fabs(moved[at(k)] - missing[at(k)]) <= rounding)) return kNone;
    }
    return bound(terms, gradient);
  }

  // Solves for the change of the intercepts that moves the sums of the duals by `missing`.
  bool find_turn(const Point& point, const std::vector<double>& missing, int64 step,
                 std::vector<double>& turn) const {
    std::vector<double> block(at(n_classes * n_classes));
    double trace = 0;
    for (int64 k = 0; k < n_classes; ++k) {
      for (int64 l = k; l < n_classes; ++l) {
        double& entry = block[at(k * n_classes + l)];
        for (int64 i = 0; i < design.n_rows; i += step) entry += curvature(point, k, l, i);
      }
      trace += block[at(k * (n_classes + 1))];
    }
    // All intercepts moved alike change nothing: any curvature in that direction will do.
    for (double& entry : block) entry += trace / (n_classes * n_classes);
    turn = missing;
    if (!factorise(block.data(), n_classes, n_classes)) return false;
    solve_factored(block.data(), n_classes, n_classes, turn.data());
    return true;
  }

  using Entry = Softmax<double, 1>;
};

}  // namespace snapml::native::small
