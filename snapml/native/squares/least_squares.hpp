// Least squares of few columns, with an L2 penalty or none: the normal equations of the
// centred columns, refined on the residual. docs/algorithms.md, section 14.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "small/factor.hpp"
#include "squares/row_sums.hpp"

namespace snapml::native::squares {

// Sums with what their rounding loses (Ogita, Rump and Oishi, SIAM J. Sci. Comput. 26, 2005): of
// numbers that nearly cancel each other all digits are right.
class ExactSum {
 public:
  void add(double x) {
    const double sum = high_ + x, moved = sum - high_;
    low_ += (high_ - (sum - moved)) + (x - moved);
    high_ = sum;
  }

  void add_product(double x, double y) {
    const double product = x * y;
    add(product);
    low_ += std::fma(x, y, -product);
  }

  double value() const { return high_ + low_; }

 private:
  double high_ = 0, low_ = 0;
};

// What is known of a model.
struct LeastSquaresFacts {
  double objective = 0, bound = 0;  // of P above its minimum, both for the means' intercept
  double intercept = 0;             // in the type of the rows
  double beside = 0;                // by how much it is rounded
  double residuals = 0;             // their weighted sum
};

// min_w sum_i c_i (x_i.w + b - y_i)^2 / 2 + alpha ||w||^2 / 2: models k of the targets in turn,
// each with a penalty of its own.
template <class View>
class LeastSquares {
 public:
  using Real = typename View::Real;

  LeastSquares(const RowsWithTargets<View>& all, int64 n_models, bool is_centred, ThreadPool& pool,
               Interrupt& interrupt)
      : all_(all),
        n_models_(n_models),
        is_centred_(is_centred),
        n_cols_(all.rows.n_cols),
        stride_(whole(n_cols_)),
        pool_(pool),
        interrupt_(interrupt),
        total_weight_(all.total_weight()),
        mean_(size(all.n_columns())),
        before_(mean_.size()) {}

  // Whether the equations are so well conditioned, and the means so near, that the models in coef
  // (n_models x n_cols), which are rounded to Real, are as good as any.
  bool solve(const double* alphas, double* coef, LeastSquaresFacts* facts) {
    if (!(total_weight_ > 0) || !find_products()) return false;
    if (interrupt_.requested() || !are_near() || !factorise_all(alphas)) return false;
    std::fill_n(coef, n_models_ * n_cols_, 0.0);
    // At zero the residuals are the targets.
    std::vector<double> residuals = residuals_by_products(coef);
    std::vector<double> slope(size(n_cols_)), step(size(n_cols_));
    for (int number = 0; number <= kMostSteps && !interrupt_.requested(); ++number) {
      bool is_done = number > 0;
      for (int64 k = 0; k < n_models_; ++k) {
        double* const w = coef + k * n_cols_;
        const double* const sums = residuals.data() + k * (n_cols_ + 2);
        for (int64 j = 0; j < n_cols_; ++j) slope[at(j)] = sums[j] - alphas[k] * w[j];
        step = slope;
        small::solve_factored(factors_[factor_of_[at(k)]].data(), n_cols_, stride_, step.data());
        if (number > 0) judge(w, sums, alphas[k], slope.data(), step.data(), facts[k]);
        if (number > 0 && changes_nothing(w, step.data(), facts[k])) continue;
        for (int64 j = 0; j < n_cols_; ++j) w[j] = rounded(w[j] + step[at(j)]);
        is_done = false;
      }
      if (is_done) {
        for (int64 k = 0; k < n_models_; ++k) find_intercept(k, coef, facts[k]);
        return true;
      }
      residuals = residuals_by_products(coef);
      if (number > 0 || !are_trusted(residuals)) {
        residuals = residual_sums(all_, mean_.data(), coef, n_models_, pool_, interrupt_);
      }
    }
    return false;
  }

  // The Gram matrix of the centred columns, whole.
  void store_gram(double* to) const {
    for (int64 i = 0; i < n_cols_; ++i) std::copy_n(product(i), n_cols_, to + i * n_cols_);
  }

  // sum_i c_i ||x_i||^2
  double squares() const {
    double sum = 0;
    for (int64 j = 0; j < n_cols_; ++j) {
      sum += product(j)[j] + total_weight_ * mean_[at(j)] * mean_[at(j)];
    }
    return sum;
  }

  double total_weight() const { return total_weight_; }

 private:
  // A mean of more than so many times the spread is rounded by more than counts, or, where products
  // are centred after they are made, takes away too many of their digits; pivots below this share
  // of their diagonal entry tell of columns that depend on each other, or, where a penalty keeps
  // them apart, are more than steps can refine; a relative step below which another changes
  // nothing, and how many are taken.
  static constexpr double kFarOrigin = 100;  // shares of the squares that centring takes away
  static constexpr double kFar = 1e6, kFarOfThin = 10, kRefined = 1e-11;
  static constexpr double kLeastTrusted = 1e-8, kLeastPenalised = 1e-12;
  static constexpr int kMostSteps = 6;
  static constexpr int64 kOriginRows = 16;
  // A share of the targets' squares that residuals are to have for sums of products to know them,
  // and how much larger than one rounding the error of a solution of well conditioned equations is.
  static constexpr double kKnownShare = 0.1, kRoundings = 16;

  static std::size_t size(int64 n) { return static_cast<std::size_t>(n); }
  static std::size_t at(int64 i) { return static_cast<std::size_t>(i); }
  // Where a model's target is behind the columns.
  int64 target_of(int64 k) const { return n_cols_ + k % all_.n_targets; }

  // Of a column, or behind them a target, with all of them.
  const double* product(int64 j) const { return products_.data() + j * all_.n_columns(); }

  // Products about the means: of thin rows about zero, of others about the mean of a few, so that
  // those of constant columns are exact, and centred after that; the refinement makes up for what
  // that loses. Where it may lose much, the rows are read again. Returns whether all entries are
  // finite.
  bool find_products() {
    const std::vector<double> from = origin();
    products_ = row_sums(all_, from.data(), pool_, interrupt_);
    const int64 n = all_.n_columns();
    const std::vector<double> sums(products_.begin() + n * n, products_.end());
    bool is_far = false;
    for (int64 j = 0; j < n; ++j) {
      if (!std::isfinite(from[at(j)]) || !std::isfinite(sums[at(j)])) return false;
      before_[at(j)] = product(j)[j];
      if (!is_centred_) continue;
      mean_[at(j)] = from[at(j)] + sums[at(j)] / total_weight_;
      const double shift = sums[at(j)] * sums[at(j)] / total_weight_;
      const double share = shift / (product(j)[j] - shift);
      is_far = is_far || share > kFarOrigin;
      if (product(j)[j] > shift) most_centred_ = std::max(most_centred_, share);
    }
    if (is_far && !is_thin(all_.rows)) {
      products_ = row_sums(all_, mean_.data(), pool_, interrupt_);
      most_centred_ = 0;
      for (int64 j = 0; j < n; ++j) before_[at(j)] = product(j)[j];
    } else if (is_centred_) {
      for (int64 i = 0; i < n; ++i) {
        const double share = sums[at(i)] / total_weight_;
        for (int64 j = 0; j < n; ++j) products_[at(i * n + j)] -= share * sums[at(j)];
      }
    }
    return true;
  }

  // The mean of a few rows, halves of two at a time: of equal numbers that is exact.
  std::vector<double> origin() const {
    const std::vector<double> zeros(mean_.size());
    if (!is_centred_ || is_thin(all_.rows)) return zeros;
    int64 count = kOriginRows;
    while (count > all_.rows.n_rows) count /= 2;
    CentredBlocks<View> blocks(all_, zeros.data());
    std::vector<std::vector<double>> rows;
    for (int64 k = 0; k < count; ++k) {
      const double* const row = blocks.fill(all_.rows.n_rows / count * k, 1);
      rows.emplace_back(row, row + mean_.size());
    }
    for (; rows.size() > 1; rows.resize(rows.size() / 2)) {
      const std::size_t half = rows.size() / 2;
      for (std::size_t k = 0; k < half; ++k) {
        for (std::size_t j = 0; j < zeros.size(); ++j) {
          rows[k][j] = 0.5 * rows[k][j] + 0.5 * rows[half + k][j];
        }
      }
    }
    return rows[0];
  }

  // Whether rounding of the means is of no account.
  bool are_near() const {
    for (int64 j = 0; j < all_.n_columns(); ++j) {
      const double square = product(j)[j], mean = mean_[at(j)];
      const double far = is_thin(all_.rows) && j < n_cols_ ? kFarOfThin : kFar;
      const bool is_constant = square == 0;
      if (!is_constant && !(mean * mean <= far * far * (square / total_weight_))) return false;
    }
    return true;
  }

  // One factor for all models of one penalty.
  bool factorise_all(const double* alphas) {
    for (int64 k = 0; k < n_models_; ++k) {
      const double* const same = std::find(alphas, alphas + k, alphas[k]);
      if (same != alphas + k) {
        factor_of_.push_back(factor_of_[at(same - alphas)]);
        continue;
      }
      factor_of_.push_back(factors_.size());
      factors_.emplace_back(size(stride_ * stride_));
      if (!factorise_with(alphas[k], factors_.back())) return false;
    }
    return true;
  }

  bool factorise_with(double alpha, std::vector<double>& h) {
    std::vector<double> diagonal(size(n_cols_));
    for (int64 j = 0; j < n_cols_; ++j) {
      std::copy_n(product(j), n_cols_, h.data() + j * stride_);
      diagonal[at(j)] = h[at(j * stride_ + j)] += alpha;
    }
    if (!small::factorise(h.data(), n_cols_, stride_)) return false;
    for (int64 j = 0; j < n_cols_; ++j) {
      const double share = h[at(j * stride_ + j)] / diagonal[at(j)];
      if (!(share > (alpha > 0 ? kLeastPenalised : kLeastTrusted))) return false;
      least_pivot_ = std::min(least_pivot_, share);
    }
    return true;
  }

  // What `residual_sums` returns, from the products alone, of the best intercepts.
  std::vector<double> residuals_by_products(const double* coef) const {
    std::vector<double> out(size(n_models_ * (n_cols_ + 2)));
    double* to = out.data();
    for (int64 k = 0; k < n_models_; ++k, coef += n_cols_, to += n_cols_ + 2) {
      const double* const with_target = product(target_of(k));
      std::copy_n(with_target, n_cols_, to);
      for (int64 i = 0; i < n_cols_; ++i) small::subtract(coef[i], product(i), n_cols_, to);
      to[n_cols_] = with_target[target_of(k)];
      for (int64 j = 0; j < n_cols_; ++j) to[n_cols_] -= coef[j] * (with_target[j] + to[j]);
    }
    return out;
  }

  // Whether the products know the solutions, and their residuals, as well as the rows do; those of
  // thin rows have lost digits when they were centred.
  bool are_trusted(const std::vector<double>& residuals) const {
    if (is_thin(all_.rows)) return false;
    constexpr bool is_wide = std::is_same_v<Real, double>;
    constexpr double kRounding = std::numeric_limits<double>::epsilon();
    const double least = is_wide ? kRefined : std::numeric_limits<Real>::epsilon() / 16.0;
    if (!(kRoundings * kRounding * (1 + most_centred_) <= least * least_pivot_)) return false;
    for (int64 k = 0; k < n_models_; ++k) {
      const int64 j = target_of(k);
      const double left = residuals[at(k * (n_cols_ + 2) + n_cols_)];
      if (!(left >= kKnownShare * before_[at(j)])) return false;
    }
    return true;
  }

  // `slope` is minus the gradient of P at w, `step` the one that would end there.
  void judge(const double* w, const double* sums, double alpha, const double* slope,
             const double* step, LeastSquaresFacts& facts) const {
    double length = 0;
    for (int64 j = 0; j < n_cols_; ++j) length += w[j] * w[j];
    facts.objective = (sums[n_cols_] + alpha * length) / 2;
    facts.residuals = sums[n_cols_ + 1];
    facts.bound = bound(slope, step, alpha, facts.objective);
  }

  // What P at a gradient g is above its minimum: at most g.inverse(H).g / 2, g.g / (2 alpha), and
  // itself.
  double bound(const double* g, const double* step, double alpha, double objective) const {
    double decrement = 0, square = 0;
    for (int64 j = 0; j < n_cols_; ++j) decrement += g[j] * step[j], square += g[j] * g[j];
    const double least = std::min(objective, decrement / 2);
    return alpha > 0 ? std::min(least, square / (2 * alpha)) : least;
  }

  // Whether the type does not show a step, or it is too short to matter: to the coefficients, and
  // to the objective, which is next to nothing where the targets are interpolated.
  bool changes_nothing(const double* w, const double* step, const LeastSquaresFacts& facts) const {
    bool has_moved = false;
    double moved = 0, length = 0;
    for (int64 j = 0; j < n_cols_; ++j) {
      has_moved = has_moved || rounded(w[j] + step[j]) != w[j];
      moved += step[j] * step[j], length += w[j] * w[j];
    }
    constexpr double kRounding = std::numeric_limits<double>::epsilon();
    const bool is_level = facts.bound <= kRounding * facts.objective;
    const double least = is_level ? kRefined : 4 * kRounding;
    return !has_moved || std::sqrt(moved) <= least * std::sqrt(length);
  }

  void find_intercept(int64 k, const double* coef, LeastSquaresFacts& facts) const {
    if (!is_centred_) return;
    ExactSum sum;
    sum.add(mean_[at(target_of(k))]);
    for (int64 j = 0; j < n_cols_; ++j) sum.add_product(-mean_[at(j)], coef[k * n_cols_ + j]);
    facts.intercept = rounded(sum.value());
    sum.add(-facts.intercept);
    facts.beside = -sum.value();
  }

  static double rounded(double x) { return static_cast<double>(static_cast<Real>(x)); }

  const RowsWithTargets<View> all_;
  const int64 n_models_;
  const bool is_centred_;
  const int64 n_cols_, stride_;
  ThreadPool& pool_;
  Interrupt& interrupt_;
  const double total_weight_;
  std::vector<double> mean_;      // of columns and targets
  std::vector<double> before_;    // squares of them, before they were centred
  std::vector<double> products_;  // of them with each other
  double most_centred_ = 0;       // the largest share of a column's squares that centring took away
  double least_pivot_ = 1;        // the smallest, as a share of its diagonal entry
  std::vector<std::vector<double>> factors_;
  std::vector<std::size_t> factor_of_;
};

}  // namespace snapml::native::squares
