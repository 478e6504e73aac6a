// The equations of least squares of dense rows, of the columns that a working set asks for: the
// others take part in reads of the rows alone, one for the slopes of all columns at each point.
// docs/algorithms.md, section 13.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

#include "columns/gram_path.hpp"
#include "primal/block_products.hpp"
#include "squares/centred_blocks.hpp"

namespace snapml::native::squares {

// Rows of one target, centred where an intercept is free; `Equations` of columns/gram_path.hpp.
template <class Real>
class RowEquations {
 public:
  RowEquations(const RowsWithTargets<DenseView<Real>>& all, bool is_centred, ThreadPool& pool,
               Interrupt& interrupt)
      : all_(all),
        is_centred_(is_centred),
        pool_(pool),
        interrupt_(interrupt),
        total_(all.total_weight()),
        centre_(size(n_cols() + 1)),
        products_(size(n_cols())) {
    if (is_centred_) centre_.back() = mean_target();
    // The second vector of a read is of the weights alone: sums of the columns.
    const std::vector<double> sums = read(nullptr, centre_.back(), is_centred_ ? 2 : 1);
    stiffness_ = sums[size(n_sums() - 3)];
    double residuals = sums[size(n_sums() - 2)], shift = sums[size(n_sums() - 1)];
    for (int64 j = 0; j < n_cols(); ++j) {
      if (is_centred_) centre_[size(j)] = sums[size(n_cols() + j)] / total_;
      products_[size(j)] = sums[size(j)] - centre_[size(j)] * shift;
    }
    beside_ = is_centred_ ? shift : 0;
    squares_ = residuals_ = along_ = residuals - (is_centred_ ? shift * shift / total_ : 0);
  }

  int64 n_cols() const { return all_.rows.n_cols; }
  const double* products() const { return products_.data(); }
  double squares() const { return squares_; }
  double residuals(const std::vector<double>&, const std::vector<double>&) const {
    return residuals_;
  }
  // The targets' products with the residuals, summed by themselves: squares of targets far from
  // zero less what is fitted of them leave rounding alone.
  double along(const std::vector<double>&) const { return along_; }
  // Whose products with each other cost about what a read does.
  int64 most_new_columns() const {
    return std::max<int64>(32,
                           std::lround(std::sqrt(kProductsOfRead * static_cast<double>(n_cols()))));
  }

  // Whether anything counts, and numbers are finite.
  bool is_sound() const {
    bool is_finite = total_ > 0 && std::isfinite(squares_);
    for (const double x : products_) is_finite = is_finite && std::isfinite(x);
    for (const double x : centre_) is_finite = is_finite && std::isfinite(x);
    return is_finite;
  }

  // Whether rounding of numbers that are not centred leaves slopes known to a share of l1, or is
  // hardly more than that of centred ones.
  bool knows_slopes(const std::vector<double>& coef, double l1, double share) const {
    double largest = 0, along = 0, square = 0;
    for (int64 j = 0; j < n_cols(); ++j) {
      const double mean = std::fabs(centre_[size(j)]);
      largest = std::max(largest, mean), square += mean * mean;
      along += mean * std::fabs(coef[size(j)]);
    }
    const double variances = stiffness_ / total_ - square, n = static_cast<double>(n_cols());
    if (n * largest * largest <= kNear * kNear * variances) return true;
    constexpr double kRounding = 4 * std::numeric_limits<double>::epsilon();
    // Of products with residuals, and of the residuals themselves.
    const double spread = std::sqrt(residuals_ / total_), beside = along + spread;
    return kRounding * largest * total_ * spread <= share * l1 && kRounding * beside <= spread;
  }

  void fill_block(const std::vector<int64>& set, int64 first, double* block, int64 stride) {
    const int64 count = static_cast<int64>(set.size()), n_new = count - first;
    const int64 width = whole(count), n_rows_of_h = (n_new + 3) / 4 * 4;
    // New columns first: their rows of the products end with those of the others.
    std::vector<int64> order(set.begin() + first, set.end());
    order.insert(order.end(), set.begin(), set.begin() + first);
    const std::vector<double> h =
        sum_of_workers(n_rows_of_h * width, pool_, [&](int worker, double* own) {
          std::vector<double> rows(size(kGathered * width));
          double weights[kGathered];
          each_block(worker, kGathered, [&](int64 begin, int64 n_here) {
            gather(order, begin, n_here, width, rows.data());
            for (int64 i = 0; i < n_here; ++i) weights[i] = all_.weight(begin + i);
            small::add_gram(rows.data(), weights, n_here, n_new, width, own, width);
          });
        });
    const auto place = [&](int64 a) { return a < n_new ? first + a : a - n_new; };
    for (int64 a = 0; a < n_new; ++a) {
      for (int64 b = a; b < count; ++b) {
        block[place(a) * stride + place(b)] = block[place(b) * stride + place(a)] =
            h[size(a * width + b)];
      }
    }
  }

  // Reads the rows at the new point.
  void move(const std::vector<double>&, const std::vector<double>& coef,
            std::vector<double>& slopes) {
    const std::vector<double> sums = read(coef.data(), intercept_of_means(coef), 1);
    residuals_ = sums[size(n_sums() - 2)], shift_ = sums[size(n_sums() - 1)];
    along_ = sums[size(n_sums() - 4)] - beside_ * shift_ / total_;
    if (is_centred_) residuals_ = std::max(0.0, residuals_ - shift_ * shift_ / total_);
    for (int64 j = 0; j < n_cols(); ++j) {
      slopes[size(j)] = centre_[size(j)] * shift_ - sums[size(j)];
    }
  }

  // The best intercept of the point last read.
  double intercept(const std::vector<double>& coef) const {
    return is_centred_ ? intercept_of_means(coef) + shift_ / total_ : 0;
  }

  double stiffness() const { return stiffness_; }  // sum_i c_i ||x_i||^2

 private:
  // Products of a set's columns that cost what an entry of a read does; rows gathered at a time.
  static constexpr double kProductsOfRead = 16;
  static constexpr double kNear = 30;  // times the columns' spread, as it mostly is
  static constexpr int64 kGathered = small::kGramRows;

  static std::size_t size(int64 n) { return static_cast<std::size_t>(n); }
  // Of a read with two vectors, of which the first is the residuals'.
  int64 n_sums() const { return 2 * n_cols() + 4; }

  // With which a model passes through the means.
  double intercept_of_means(const std::vector<double>& coef) const {
    double sum = centre_.back();
    for (int64 j = 0; j < n_cols(); ++j) sum -= centre_[size(j)] * coef[size(j)];
    return sum;
  }

  double mean_target() const {
    double sum = 0;
    for (int64 i = 0; i < all_.rows.n_rows; ++i) sum += all_.weight(i) * all_.targets[i];
    return sum / total_;
  }

  // Calls call(first, count) for a worker's rows, at most `most` at a time.
  template <class Call>
  void each_block(int worker, int64 most, Call call) {
    const int64 n_rows = all_.rows.n_rows, n_blocks = (n_rows + most - 1) / most;
    const Range range = share(n_blocks, pool_.size(), worker);
    for (int64 block = range.begin; block < range.end; ++block) {
      interrupt_.poll();
      if (interrupt_.requested()) return;
      call(block * most, std::min(most, n_rows - block * most));
    }
  }

  // sum_i c_i r_i x_i of the residuals r of a model, null for 0, and where there are two vectors
  // sum_i c_i x_i; behind these the products of the targets, less their mean, with c_i r_i, then
  // sum_i c_i ||x_i||^2 (of the model 0), sum_i c_i r_i^2 and sum_i c_i r_i.
  std::vector<double> read(const double* w, double intercept, int n_vectors) {
    return sum_of_workers(n_sums(), pool_, [&](int worker, double* own) {
      RowReader<DenseView<Real>> reader(all_.rows);
      double along = 0, norms = 0, squares = 0, sum = 0;
      each_block(worker, kBlockRows, [&](int64 first, int64 n_here) {
        const int count = static_cast<int>(n_here);
        double z[kBlockRows] = {}, r[2 * kBlockRows] = {};
        reader.load(first, count);
        if (w != nullptr) block_dots(reader, count, n_cols(), w, n_cols(), 1, z);
        for (int i = 0; i < count; ++i) {
          const double c = all_.weight(first + i);
          const double residual = all_.targets[first + i] - (z[i] + intercept);
          r[i] = c * residual, r[kBlockRows + i] = c;
          squares += r[i] * residual, sum += r[i];
          along += r[i] * (all_.targets[first + i] - centre_.back());
          if (w == nullptr) norms += c * row_norm_sq(reader.row(i));
        }
        block_add(reader, count, n_cols(), r, own, n_cols(), n_vectors);
      });
      own[n_sums() - 4] = along, own[n_sums() - 3] = norms, own[n_sums() - 2] = squares,
                     own[n_sums() - 1] = sum;
    });
  }

  // Some columns of some rows, less their means, `width` apart; behind them are zeros.
  void gather(const std::vector<int64>& columns, int64 first, int64 count, int64 width,
              double* to) const {
    const DenseView<Real>& view = all_.rows;
    for (int64 i = 0; i < count; ++i, to += width) {
      const Real* const x = view.values + (first + i) * view.row_stride;
      for (std::size_t a = 0; a < columns.size(); ++a) {
        const int64 j = columns[a];
        to[a] = static_cast<double>(x[j * view.col_stride]) - centre_[size(j)];
      }
    }
  }

  const RowsWithTargets<DenseView<Real>> all_;
  const bool is_centred_;
  ThreadPool& pool_;
  Interrupt& interrupt_;
  const double total_;
  std::vector<double> centre_;    // means of columns, and behind them of the target
  std::vector<double> products_;  // of the columns with the targets
  double squares_ = 0;            // of the targets
  double stiffness_ = 0;
  // Of the residuals last read: squares, sum and products with the targets.
  double residuals_ = 0, shift_ = 0, along_ = 0;
  double beside_ = 0;  // sum of the targets less their mean
};

// What is kept of each point of a fit: entries of four numbers (seconds, its gap twice, P), and its
// coefficients and intercept where `points` is not null.
struct Looks {
  double* entries;
  double* points;
  int64 most;
};

// One elastic net on such rows.
template <class Real>
class RowFit {
 public:
  RowFit(const RowsWithTargets<DenseView<Real>>& all, bool is_centred, ThreadPool& pool,
         Interrupt& interrupt)
      : equations_(all, is_centred, pool, interrupt), interrupt_(interrupt) {}

  double objective = 0, lower = 0, intercept = 0;  // P of the model, and a bound of its minimum
  int64 n_looks = 0;
  double stiffness() const { return equations_.stiffness(); }

  // Goes on from the model in `w`, which becomes the last one, rounded to Real. Returns whether its
  // gap is below `tol`, relative, and what is not centred lets it be known.
  bool solve(const ElasticNet<double>& penalty, double tol, const Looks& looks, double* w) {
    if (interrupt_.requested() || !equations_.is_sound()) return false;
    GramPath<RowEquations<Real>> path(equations_, w, tol, interrupt_);
    const GramFit found = path.solve(penalty, looks.most, [&](const GramFit& fit) {
      double* const entry = looks.entries + 4 * n_looks;
      entry[0] = std::chrono::duration<double>(Clock::now() - began_).count();
      entry[1] = entry[2] = fit.gap(), entry[3] = fit.objective;
      if (looks.points != nullptr) {
        double* const point = looks.points + n_looks * (equations_.n_cols() + 1);
        *std::copy(path.coef().begin(), path.coef().end(), point) =
            equations_.intercept(path.coef());
      }
      ++n_looks;
    });
    std::vector<double> coef = path.coef();
    objective = found.objective, lower = found.lower;
    if (sizeof(Real) < sizeof(double)) {
      for (double& x : coef) x = static_cast<double>(static_cast<Real>(x));
      objective = value_at(coef, penalty);
    }
    std::copy(coef.begin(), coef.end(), w);
    intercept = equations_.intercept(coef);
    return found.is_solved && equations_.knows_slopes(coef, penalty.l1, kKnown * tol);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kKnown = 0.1;  // of the tolerance, what slopes may be off by

  // P, by another read.
  double value_at(const std::vector<double>& coef, const ElasticNet<double>& penalty) {
    std::vector<double> slopes(coef.size());
    equations_.move(coef, coef, slopes);
    double value = equations_.residuals(coef, slopes) / 2;
    for (const double x : coef) value += penalty.l1 * std::fabs(x) + penalty.l2 / 2 * x * x;
    return value;
  }

  const Clock::time_point began_ = Clock::now();  // before the first read
  RowEquations<Real> equations_;
  Interrupt& interrupt_;
};

}  // namespace snapml::native::squares
