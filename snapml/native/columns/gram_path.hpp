// Least squares with one elastic net penalty after the other on a Gram matrix: no data are read.
// docs/algorithms.md, section 13.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "columns/gram_descent.hpp"
#include "small/sparse_step.hpp"
#include "squares/elastic_net_bounds.hpp"

namespace snapml::native {

// sum_i c_i (y_i - x_i.w)^2 / 2, of rows and targets that are centred where an intercept is free.
struct NormalEquations {
  const double* gram;      // sum_i c_i x_i x_i^T, both halves
  const double* products;  // sum_i c_i y_i x_i
  double squares;          // sum_i c_i y_i^2
  int64 n_cols;
};

struct GramFit {
  double objective = 0;
  double gap = std::numeric_limits<double>::infinity();
  bool is_solved = false;
};

// Each fit goes on from the last one's model, and keeps its working set: columns that are needed,
// with their part of the Gram matrix.
class GramPath {
 public:
  GramPath(const NormalEquations& equations, const double* start, double tol, Interrupt& interrupt)
      : equations_(equations),
        tol_(tol),
        interrupt_(interrupt),
        coef_(start, start + equations.n_cols),
        slopes_(at(equations.n_cols)),
        is_in_set_(at(equations.n_cols), false) {
    for (int64 j = 0; j < equations.n_cols; ++j) slopes_[at(j)] = -equations.products[j];
    std::vector<int64> support;
    for (int64 j = 0; j < equations.n_cols; ++j) {
      if (start[j] != 0) change_slopes(j, start[j]), support.push_back(j);
    }
    extend_set(support);
  }

  const std::vector<double>& coef() const { return coef_; }

  GramFit solve(const ElasticNet<double>& penalty) {
    change_ridge(penalty.l2);
    double share = kShare;
    for (int round = 0; round < kMostRounds; ++round) {
      interrupt_.poll();
      const GramFit fit = judge(penalty);
      if (fit.is_solved || !std::isfinite(fit.objective)) return fit;
      const bool has_more = choose_columns(penalty);
      if (!has_more && round > 0) share *= kFiner;
      if (interrupt_.requested()) break;
      descend(penalty, std::max(share * tol_ * fit.objective, has_more ? kRough * fit.gap : 0.0));
    }
    return {};
  }

 private:
  static constexpr int kMostRounds = 100;
  // Sweeps before a Newton step on the support, which costs more and gets on where sweeps do not.
  static constexpr int64 kSweeps = 12;
  static constexpr int kMostSteps = 20;
  // Of the gap asked for: what a working set may leave; and of that, once no column is missing.
  static constexpr double kShare = 0.3, kFiner = 0.1;
  static constexpr double kRough = 0.03;    // of the gap, while columns are missing
  static constexpr int64 kFewColumns = 32;  // that a set may gain in any round
  static constexpr double kCrowded = 2;     // columns of a set, of those needed, before it is anew
  static constexpr double kRounding = 1e-14;  // of the targets' squares: a gap that means nothing

  static std::size_t at(int64 j) { return static_cast<std::size_t>(j); }
  int64 n_set() const { return static_cast<int64>(set_.size()); }

  // The slope along a column, without the L1 norm.
  double slope(int64 j) const { return slopes_[at(j)] + ridge_ * coef_[at(j)]; }

  // P, and its distance from the dual objective, by the Gram matrix alone.
  GramFit judge(const ElasticNet<double>& penalty) const {
    double fitted = 0, half = 0, norm = 0, square = 0, largest = 0;
    for (int64 j = 0; j < equations_.n_cols; ++j) {
      const double w = coef_[at(j)], g = slope(j);
      largest = std::max(largest, penalty.is_positive ? -g : std::fabs(g));
      if (w == 0) continue;
      fitted += w * equations_.products[j];
      half += w * (slopes_[at(j)] - equations_.products[j]);
      norm += std::fabs(w), square += w * w;
    }
    const double residuals = std::max(0.0, equations_.squares + half) + penalty.l2 * square;
    const double along = equations_.squares - fitted;
    const squares::Bounds bounds =
        squares::bounds_of({residuals, along, norm, largest}, penalty.l1);
    GramFit fit;
    fit.objective = bounds.objective;
    fit.gap = std::max(0.0, bounds.objective - bounds.lower);
    fit.is_solved = fit.gap <= std::max(tol_ * fit.objective, kRounding * equations_.squares);
    return fit;
  }

  void change_ridge(double l2) {
    for (int64 a = 0; a < n_set(); ++a) block_[at(a * (stride_ + 1))] += l2 - ridge_;
    ridge_ = l2;
  }

  // Adds columns whose slopes are beyond the norm's, the steepest first; says whether there were.
  bool choose_columns(const ElasticNet<double>& penalty) {
    std::vector<int64> missing;
    int64 n_support = 0;
    for (int64 j = 0; j < equations_.n_cols; ++j) {
      n_support += coef_[at(j)] != 0 ? 1 : 0;
      if (!is_in_set_[at(j)] && penalty.excess(-slope(j)) > 0) missing.push_back(j);
    }
    if (missing.empty()) return false;
    const int64 most = std::max(kFewColumns, n_support);
    if (static_cast<int64>(missing.size()) > most) {
      const auto is_steeper = [&](int64 a, int64 b) {
        return std::fabs(slope(a)) > std::fabs(slope(b));
      };
      std::nth_element(missing.begin(), missing.begin() + most, missing.end(), is_steeper);
      missing.resize(at(most));
    }
    const auto needed = static_cast<double>(n_support) + static_cast<double>(missing.size());
    const auto all = static_cast<double>(set_.size() + missing.size());
    if (all > kCrowded * needed + static_cast<double>(kFewColumns)) begin_set();
    extend_set(missing);
    return true;
  }

  // Keeps the columns that are not 0.
  void begin_set() {
    std::vector<int64> support;
    for (const int64 j : set_) {
      is_in_set_[at(j)] = false;
      if (coef_[at(j)] != 0) support.push_back(j);
    }
    set_.clear();
    extend_set(support);
  }

  void extend_set(const std::vector<int64>& columns) {
    const int64 first = n_set(), count = first + static_cast<int64>(columns.size());
    if (count > stride_) {
      const int64 stride = std::min(equations_.n_cols, std::max(count, 2 * stride_));
      std::vector<double> block(at(stride * stride));
      for (int64 a = 0; a < first; ++a) {
        std::copy_n(block_.data() + a * stride_, first, block.data() + a * stride);
      }
      block_.swap(block), stride_ = stride;
    }
    set_.insert(set_.end(), columns.begin(), columns.end());
    for (int64 a = first; a < count; ++a) {
      const double* const row = equations_.gram + set_[at(a)] * equations_.n_cols;
      for (int64 b = 0; b <= a; ++b) {
        block_[at(a * stride_ + b)] = block_[at(b * stride_ + a)] = row[set_[at(b)]];
      }
      block_[at(a * (stride_ + 1))] += ridge_;
      is_in_set_[at(set_[at(a)])] = true;
    }
  }

  // Moves the columns of the set until their gap seems to be less than `enough`.
  void descend(const ElasticNet<double>& penalty, double enough) {
    const int64 m = n_set();
    std::vector<double> coef(at(m)), slopes(at(m));
    for (int64 a = 0; a < m; ++a) {
      coef[at(a)] = coef_[at(set_[at(a)])], slopes[at(a)] = slope(set_[at(a)]);
    }
    const std::vector<double> before = coef, none(at(m));
    // The ridge is on the block's diagonal.
    const ColumnPenalties<double> own{{penalty.l1, 0, penalty.is_positive}, nullptr, nullptr};
    small::SparseStep newton(block_, m, stride_, penalty.l1);
    for (int step = 0; step < kMostSteps; ++step) {
      const SweepReport report =
          gram_descent(block_.data(), stride_, m, none.data(), own, coef.data(), slopes.data(),
                       {kSweeps, enough}, interrupt_);
      if (report.is_done || interrupt_.requested()) break;
      newton.solve_supported(coef, slopes, kMostSteps);
    }
    for (int64 a = 0; a < m; ++a) {
      const double change = coef[at(a)] - before[at(a)];
      if (change == 0) continue;
      coef_[at(set_[at(a)])] = coef[at(a)];
      change_slopes(set_[at(a)], change);
    }
  }

  void change_slopes(int64 j, double change) {
    const int64 n = equations_.n_cols;
    dense_axpy<double>(change, equations_.gram + j * n, slopes_.data(), n);
  }

  const NormalEquations equations_;
  const double tol_;
  Interrupt& interrupt_;
  std::vector<double> coef_, slopes_;  // w, and X^T (X w - y)
  std::vector<bool> is_in_set_;
  std::vector<int64> set_;
  std::vector<double> block_;  // the set's Gram matrix, l2 on its diagonal
  int64 stride_ = 0;
  double ridge_ = 0;
};

}  // namespace snapml::native
