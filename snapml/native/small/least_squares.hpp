// Least squares of few dense columns, with an L2 penalty or none: the normal equations of the
// centred columns, refined on the residual. docs/algorithms.md, section 14.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "small/centred_blocks.hpp"
#include "small/factor.hpp"

namespace snapml::native::small {

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

// Sums over rows; which of them are made is up to the pass.
struct TargetSums {
  std::vector<double> gram;           // n_cols x n_cols, upper half
  std::vector<double> products;       // n_targets x n_cols
  std::vector<double> squares, sums;  // n_targets

  TargetSums& operator+=(const TargetSums& other) {
    add(other.gram, gram), add(other.products, products);
    add(other.squares, squares), add(other.sums, sums);
    return *this;
  }

 private:
  static void add(const std::vector<double>& from, std::vector<double>& to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }
};

// What is known of one target's model.
struct LeastSquaresFacts {
  double objective = 0, bound = 0;  // of P above its minimum, both for the means' intercept
  double intercept = 0;             // in the type of the rows
  double beside = 0;                // by how much it is rounded
  double residuals = 0;             // their weighted sum
};

// min_w sum_i c_i (x_i.w + b - y_i)^2 / 2 + alpha ||w||^2 / 2 for every target.
template <class Real>
class LeastSquares {
 public:
  // targets (n_targets x n_rows); weights of rows padded with zeros to a multiple of eight.
  LeastSquares(const DenseView<Real>& view, const double* targets, const double* weights,
               int64 n_targets, bool is_centred, ThreadPool& pool, Interrupt& interrupt)
      : view_(view),
        targets_(targets),
        weights_(weights),
        n_targets_(n_targets),
        is_centred_(is_centred),
        stride_(whole(view.n_cols)),
        pool_(pool),
        interrupt_(interrupt),
        mean_(size(stride_)),
        target_means_(size(n_targets)),
        coef_(size(n_targets * stride_)) {}

  // Whether the equations are so well conditioned, and the means so near, that the models in coef
  // (n_targets x n_cols), which are rounded to Real, are as good as any.
  bool solve(const double* alphas, double* coef, LeastSquaresFacts* facts) {
    for (int64 i = 0; i < view_.n_rows; ++i) total_weight_ += weights_[i];
    if (!(total_weight_ > 0) || !find_means()) return false;
    TargetSums at_model = products();
    gram_ = std::move(at_model.gram);
    if (!are_near(at_model.squares) || !factorise_all(alphas)) return false;
    std::vector<double> step(size(stride_));
    for (int number = 0; number <= kMostSteps && !interrupt_.requested(); ++number) {
      bool is_done = number > 0;
      for (int64 k = 0; k < n_targets_; ++k) {
        const double* const slope = at_model.products.data() + k * stride_;
        step.assign(slope, slope + stride_);
        solve_factored(factors_[factor_of_[at(k)]].data(), view_.n_cols, stride_, step.data());
        double* const w = coef_.data() + k * stride_;
        if (number > 0) facts[k].bound = bound(slope, step.data(), alphas[k], facts[k].objective);
        if (number > 0 && changes_nothing(w, step.data())) continue;
        for (int64 j = 0; j < view_.n_cols; ++j) w[j] = rounded(w[j] + step[at(j)]);
        is_done = false;
      }
      if (is_done) {
        store(coef, facts);
        return true;
      }
      at_model = evaluate(alphas, facts);
    }
    return false;
  }

  // The Gram matrix of the centred columns, whole.
  void store_gram(double* to) const {
    for (int64 i = 0; i < view_.n_cols; ++i) {
      for (int64 j = 0; j < view_.n_cols; ++j) {
        to[i * view_.n_cols + j] = gram_[at(std::min(i, j) * stride_ + std::max(i, j))];
      }
    }
  }

  // sum_i c_i ||x_i||^2
  double squares() const {
    double sum = 0;
    for (int64 j = 0; j < view_.n_cols; ++j) {
      sum += gram_[at(j * stride_ + j)] + total_weight_ * mean_[at(j)] * mean_[at(j)];
    }
    return sum;
  }

  double total_weight() const { return total_weight_; }

 private:
  // A mean of more than so many times the spread is rounded by more than counts; pivots below this
  // share of their diagonal entry tell of columns that depend on each other; a relative step below
  // which another changes nothing, and how many are taken.
  static constexpr double kFar = 1e6, kLeastTrusted = 1e-8, kRefined = 1e-11;
  static constexpr int kMostSteps = 6;

  static std::size_t size(int64 n) { return static_cast<std::size_t>(n); }
  static std::size_t at(int64 i) { return static_cast<std::size_t>(i); }
  double target(int64 k, int64 i) const {
    return i < view_.n_rows ? targets_[k * view_.n_rows + i] - target_means_[at(k)] : 0.0;
  }

  // Reads all rows: add(sums, first, end, rows) for blocks [first, end) of them less `centre`.
  template <class Add>
  TargetSums read(const std::vector<double>& centre, int64 gram_size, Add add) {
    std::vector<TargetSums> parts(static_cast<std::size_t>(pool_.size()));
    for (TargetSums& part : parts) {
      part.gram.resize(size(gram_size)), part.products.resize(size(n_targets_ * stride_));
      part.squares.resize(size(n_targets_)), part.sums.resize(size(n_targets_));
    }
    each_block(view_, nullptr, centre.data(), pool_, interrupt_,
               [&](int worker, int64 first, int64 end, const double* rows) {
                 add(parts[static_cast<std::size_t>(worker)], first, end, rows);
               });
    for (std::size_t i = 1; i < parts.size(); ++i) parts[0] += parts[i];
    return std::move(parts[0]);
  }

  // Means about the first row, so that those of constant columns are exact. Returns whether all
  // entries are finite.
  bool find_means() {
    std::vector<double> from(size(stride_));
    for (int64 j = 0; j < view_.n_cols; ++j) {
      from[at(j)] = static_cast<double>(view_.values[j * view_.col_stride]);
    }
    std::vector<double> target_from(size(n_targets_));
    for (int64 k = 0; k < n_targets_; ++k) target_from[at(k)] = target(k, 0);
    const TargetSums about =
        read(from, stride_, [&](TargetSums& to, int64 first, int64 end, const double* rows) {
          for (int64 i = first; i < end; i += kEight, rows += kEight * stride_) {
            small::add8(rows, weights_ + i, stride_, to.gram.data());
            for (int64 k = 0; is_centred_ && k < n_targets_; ++k) {
              for (int r = 0; r < kEight; ++r) {
                to.sums[at(k)] += weights_[i + r] * (target(k, i + r) - target_from[at(k)]);
              }
            }
          }
        });
    for (int64 j = 0; j < view_.n_cols; ++j) {
      if (!std::isfinite(from[at(j)]) || !std::isfinite(about.gram[at(j)])) return false;
      if (is_centred_) mean_[at(j)] = from[at(j)] + about.gram[at(j)] / total_weight_;
    }
    for (int64 k = 0; is_centred_ && k < n_targets_; ++k) {
      target_means_[at(k)] = target_from[at(k)] + about.sums[at(k)] / total_weight_;
    }
    return true;
  }

  // The Gram matrix, the products of columns and targets, and the targets' squares.
  TargetSums products() {
    return read(mean_, stride_ * stride_,
                [&](TargetSums& to, int64 first, int64 end, const double* rows) {
                  double weighted[kEight];
                  for (int64 i = first; i < end; i += kEight, rows += kEight * stride_) {
                    add_gram8(rows, weights_ + i, view_.n_cols, stride_, to.gram.data(), stride_);
                    for (int64 k = 0; k < n_targets_; ++k) {
                      for (int r = 0; r < kEight; ++r) {
                        const double y = target(k, i + r);
                        weighted[r] = weights_[i + r] * y;
                        to.squares[at(k)] += weighted[r] * y;
                      }
                      small::add8(rows, weighted, stride_, to.products.data() + k * stride_);
                    }
                  }
                });
  }

  // Whether rounding of the means is of no account.
  bool are_near(const std::vector<double>& target_squares) const {
    const auto is_near = [&](double mean, double squares) {
      return squares == 0 || mean * mean <= kFar * kFar * (squares / total_weight_);
    };
    for (int64 j = 0; j < view_.n_cols; ++j) {
      if (!is_near(mean_[at(j)], gram_[at(j * stride_ + j)])) return false;
    }
    for (std::size_t k = 0; k < target_squares.size(); ++k) {
      if (!is_near(target_means_[k], target_squares[k])) return false;
    }
    return true;
  }

  // One factor for all targets of one penalty.
  bool factorise_all(const double* alphas) {
    for (int64 k = 0; k < n_targets_; ++k) {
      const double* const same = std::find(alphas, alphas + k, alphas[k]);
      if (same != alphas + k) {
        factor_of_.push_back(factor_of_[at(same - alphas)]);
        continue;
      }
      factor_of_.push_back(factors_.size());
      factors_.push_back(gram_);
      if (!factorise_with(alphas[k], factors_.back())) return false;
    }
    return true;
  }

  bool factorise_with(double alpha, std::vector<double>& h) const {
    std::vector<double> diagonal(size(view_.n_cols));
    for (int64 j = 0; j < view_.n_cols; ++j) {
      diagonal[at(j)] = h[at(j * stride_ + j)] += alpha;
    }
    if (!factorise(h.data(), view_.n_cols, stride_)) return false;
    for (int64 j = 0; j < view_.n_cols; ++j) {
      if (!(h[at(j * stride_ + j)] > kLeastTrusted * diagonal[at(j)])) return false;
    }
    return true;
  }

  // The objectives at coef_, and minus their gradients in place of the products.
  TargetSums evaluate(const double* alphas, LeastSquaresFacts* facts) {
    TargetSums found =
        read(mean_, 0, [&](TargetSums& to, int64 first, int64 end, const double* rows) {
          for (int64 k = 0; k < n_targets_; ++k) add_residuals(k, first, end, rows, to);
        });
    for (int64 k = 0; k < n_targets_; ++k) {
      double square = 0;
      for (int64 j = 0; j < view_.n_cols; ++j) {
        const double w = coef_[at(k * stride_ + j)];
        square += w * w;
        found.products[at(k * stride_ + j)] -= alphas[k] * w;
      }
      facts[k].objective = (found.squares[at(k)] + alphas[k] * square) / 2;
      facts[k].residuals = found.sums[at(k)];
    }
    return found;
  }

  void add_residuals(int64 k, int64 first, int64 end, const double* rows, TargetSums& to) const {
    double z[kEight], weighted[kEight], squares = 0, sum = 0;
    for (int64 i = first; i < end; i += kEight, rows += kEight * stride_) {
      small::dot8(rows, coef_.data() + k * stride_, stride_, z);
      for (int r = 0; r < kEight; ++r) {
        const double residual = target(k, i + r) - z[r];
        weighted[r] = weights_[i + r] * residual;
        squares += weighted[r] * residual, sum += weighted[r];
      }
      small::add8(rows, weighted, stride_, to.products.data() + k * stride_);
    }
    to.squares[at(k)] += squares, to.sums[at(k)] += sum;
  }

  // What P at a gradient g is above its minimum: at most g.inverse(H).g / 2, g.g / (2 alpha), and
  // itself.
  double bound(const double* g, const double* step, double alpha, double objective) const {
    double decrement = 0, square = 0;
    for (int64 j = 0; j < view_.n_cols; ++j) decrement += g[j] * step[j], square += g[j] * g[j];
    const double least = std::min(objective, decrement / 2);
    return alpha > 0 ? std::min(least, square / (2 * alpha)) : least;
  }

  // Whether the type does not show a step, or it is too short to matter.
  bool changes_nothing(const double* w, const double* step) const {
    bool has_moved = false;
    double moved = 0, length = 0;
    for (int64 j = 0; j < view_.n_cols; ++j) {
      has_moved = has_moved || rounded(w[j] + step[j]) != w[j];
      moved += step[j] * step[j], length += w[j] * w[j];
    }
    return !has_moved || std::sqrt(moved) <= kRefined * std::sqrt(length);
  }

  void store(double* coef, LeastSquaresFacts* facts) const {
    for (int64 k = 0; k < n_targets_; ++k) {
      const double* const w = coef_.data() + k * stride_;
      std::copy(w, w + view_.n_cols, coef + k * view_.n_cols);
      if (!is_centred_) continue;
      ExactSum sum;
      sum.add(target_means_[at(k)]);
      for (int64 j = 0; j < view_.n_cols; ++j) sum.add_product(-mean_[at(j)], w[j]);
      facts[k].intercept = rounded(sum.value());
      sum.add(-facts[k].intercept);
      facts[k].beside = -sum.value();
    }
  }

  static double rounded(double x) { return static_cast<double>(static_cast<Real>(x)); }

  const DenseView<Real> view_;
  const double* const targets_;
  const double* const weights_;
  const int64 n_targets_;
  const bool is_centred_;
  const int64 stride_;
  ThreadPool& pool_;
  Interrupt& interrupt_;
  double total_weight_ = 0;
  std::vector<double> mean_, target_means_, gram_, coef_;
  std::vector<std::vector<double>> factors_;
  std::vector<std::size_t> factor_of_;
};

}  // namespace snapml::native::small
