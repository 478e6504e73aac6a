// Least squares with one elastic net penalty after the other, on working sets of columns and their
// Gram matrix. docs/algorithms.md, section 13.
#pragma once

#include <algorithm>
#include <cmath>
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

// They, where the Gram matrix of all columns is known: no data are read.
class GramEquations {
 public:
  explicit GramEquations(const NormalEquations& all) : all_(all) {}

  int64 n_cols() const { return all_.n_cols; }
  const double* products() const { return all_.products; }
  double squares() const { return all_.squares; }
  // sum_i c_i y_i (y_i - x_i.w).
  double along(const std::vector<double>& coef) const {
    double fitted = 0;
    for (std::size_t j = 0; j < coef.size(); ++j) {
      if (coef[j] != 0) fitted += coef[j] * all_.products[j];
    }
    return all_.squares - fitted;
  }
  // Columns that a working set may gain at a time, however few it has.
  int64 most_new_columns() const { return 32; }

  // The rows and columns of the set's Gram matrix from `first` on, both halves.
  void fill_block(const std::vector<int64>& set, int64 first, double* block, int64 stride) {
    const int64 count = static_cast<int64>(set.size());
    for (int64 a = first; a < count; ++a) {
      const double* const row = all_.gram + set[static_cast<std::size_t>(a)] * all_.n_cols;
      for (int64 b = 0; b <= a; ++b) {
        block[a * stride + b] = block[b * stride + a] = row[set[static_cast<std::size_t>(b)]];
      }
    }
  }

  // X^T (X w - y) after changes of w.
  void move(const std::vector<double>& changes, const std::vector<double>&,
            std::vector<double>& slopes) {
    for (int64 j = 0; j < all_.n_cols; ++j) {
      const double change = changes[static_cast<std::size_t>(j)];
      if (change == 0) continue;
      dense_axpy<double>(change, all_.gram + j * all_.n_cols, slopes.data(), all_.n_cols);
    }
  }

  // sum_i c_i (y_i - x_i.w)^2 at the point whose slopes they are.
  double residuals(const std::vector<double>& coef, const std::vector<double>& slopes) const {
    double half = 0;
    for (std::size_t j = 0; j < coef.size(); ++j) {
      if (coef[j] != 0) half += coef[j] * (slopes[j] - all_.products[j]);
    }
    return std::max(0.0, all_.squares + half);
  }

 private:
  const NormalEquations all_;
};

struct GramFit {
  double objective = 0, lower = 0;  // P, and a bound of its minimum
  bool is_solved = false;

  double gap() const { return std::max(0.0, objective - lower); }
};

// Each fit goes on from the last one's model, and keeps its working set: columns that are needed,
// with their part of the Gram matrix.
template <class Equations>
class GramPath {
 public:
  GramPath(Equations& equations, const double* start, double tol, Interrupt& interrupt)
      : equations_(equations),
        tol_(tol),
        interrupt_(interrupt),
        coef_(start, start + equations.n_cols()),
        slopes_(at(equations.n_cols())),
        is_in_set_(at(equations.n_cols()), false) {
    for (std::size_t j = 0; j < slopes_.size(); ++j) slopes_[j] = -equations.products()[j];
    std::vector<int64> support;
    for (int64 j = 0; j < equations.n_cols(); ++j) {
      if (start[j] != 0) support.push_back(j);
    }
    if (support.empty()) return;
    equations_.move(coef_, coef_, slopes_);
    extend_set(support);
  }

  const std::vector<double>& coef() const { return coef_; }

  GramFit solve(const ElasticNet<double>& penalty) {
    return solve(penalty, kMostRounds, [](const GramFit&) {});
  }

  // Calls look(fit) of each point, of which there are at most so many; the last one is returned.
  template <class Look>
  GramFit solve(const ElasticNet<double>& penalty, int64 most_looks, Look look) {
    change_ridge(penalty.l2);
    double share = kShare;
    GramFit fit;
    for (int64 round = 0; round < most_looks; ++round) {
      interrupt_.poll();
      fit = judge(penalty);
      look(fit);
      if (fit.is_solved || !std::isfinite(fit.objective) || round + 1 == most_looks) break;
      const bool has_more = choose_columns(penalty);
      if (!has_more && round > 0) share *= kFiner;
      if (interrupt_.requested()) break;
      descend(penalty, std::max(share * tol_ * fit.objective, has_more ? kRough * fit.gap() : 0.0));
    }
    return fit;
  }

 private:
  static constexpr int64 kMostRounds = 100;
  // Sweeps before a Newton step on the support, which costs more and gets on where sweeps do not.
  static constexpr int64 kSweeps = 12;
  static constexpr int kMostSteps = 20;
  static constexpr double kSweepsOfFactor = 4;  // columns, for each sweep that a factor costs
  // Of the gap asked for: what a working set may leave; and of that, once no column is missing.
  static constexpr double kShare = 0.3, kFiner = 0.1;
  static constexpr double kRough = 0.1;  // of the gap, while columns are missing
  static constexpr double kCrowded = 2;  // columns of a set, of those needed, before it is anew
  static constexpr double kRounding = 1e-14;  // of the targets' squares: a gap that means nothing

  static std::size_t at(int64 j) { return static_cast<std::size_t>(j); }
  int64 n_set() const { return static_cast<int64>(set_.size()); }

  // The slope along a column, without the L1 norm.
  double slope(int64 j) const { return slopes_[at(j)] + ridge_ * coef_[at(j)]; }

  // P, and the dual objective.
  GramFit judge(const ElasticNet<double>& penalty) const {
    double norm = 0, square = 0, largest = 0;
    for (int64 j = 0; j < equations_.n_cols(); ++j) {
      const double w = coef_[at(j)], g = slope(j);
      largest = std::max(largest, penalty.is_positive ? -g : std::fabs(g));
      if (w == 0) continue;
      norm += std::fabs(w), square += w * w;
    }
    const double residuals = equations_.residuals(coef_, slopes_) + penalty.l2 * square;
    const double along = equations_.along(coef_);
    const squares::Bounds bounds =
        squares::bounds_of({residuals, along, norm, largest}, penalty.l1);
    GramFit fit{bounds.objective, bounds.lower};
    fit.is_solved = fit.gap() <= std::max(tol_ * fit.objective, kRounding * equations_.squares());
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
    for (int64 j = 0; j < equations_.n_cols(); ++j) {
      n_support += coef_[at(j)] != 0 ? 1 : 0;
      if (!is_in_set_[at(j)] && penalty.excess(-slope(j)) > 0) missing.push_back(j);
    }
    if (missing.empty()) return false;
    const int64 most = std::max(equations_.most_new_columns(), n_support);
    if (static_cast<int64>(missing.size()) > most) {
      const auto is_steeper = [&](int64 a, int64 b) {
        return std::fabs(slope(a)) > std::fabs(slope(b));
      };
      std::nth_element(missing.begin(), missing.begin() + most, missing.end(), is_steeper);
      missing.resize(at(most));
    }
    const auto needed = static_cast<double>(n_support) + static_cast<double>(missing.size());
    const auto all = static_cast<double>(set_.size() + missing.size());
    if (all > kCrowded * needed + static_cast<double>(equations_.most_new_columns())) begin_set();
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
      const int64 stride = std::min(equations_.n_cols(), std::max(count, 2 * stride_));
      std::vector<double> block(at(stride * stride));
      for (int64 a = 0; a < first; ++a) {
        std::copy_n(block_.data() + a * stride_, first, block.data() + a * stride);
      }
      block_.swap(block), stride_ = stride;
    }
    set_.insert(set_.end(), columns.begin(), columns.end());
    equations_.fill_block(set_, first, block_.data(), stride_);
    for (int64 a = first; a < count; ++a) {
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
      // Of columns that have little in common few sweeps more get there, and cost less than a
      // factor.
      const double left = report.sweeps_to(enough);
      if (left <= kSweeps && left * kSweepsOfFactor < static_cast<double>(m)) continue;
      newton.solve_supported(coef, slopes, kMostSteps);
    }
    std::vector<double> changes(coef_.size());
    for (int64 a = 0; a < m; ++a) {
      changes[at(set_[at(a)])] = coef[at(a)] - before[at(a)];
      coef_[at(set_[at(a)])] = coef[at(a)];
    }
    equations_.move(changes, coef_, slopes_);
  }

  Equations& equations_;
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
