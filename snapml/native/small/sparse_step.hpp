// The minimum of a quadratic model with an L1 penalty: coordinate descent finds the columns and
// their signs, and a factor of these columns' block the rest.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "small/factor.hpp"
#include "snapml/penalties.hpp"

namespace snapml::native::small {

// Of g.d + d.H d / 2 + l1 |(w + d)_j| summed over the first n_penalised columns.
class SparseStep {
 public:
  // `h` has its upper half filled, in rows of `stride` numbers; the lower one is filled here.
  SparseStep(std::vector<double>& h, int64 n_cols, int64 stride, int64 n_penalised, double l1)
      : h_(h), n_cols_(n_cols), stride_(stride), n_penalised_(n_penalised), l1_(l1) {
    for (int64 i = 0; i < n_cols; ++i) {
      for (int64 j = 0; j < i; ++j) h_[at(i, j)] = h_[at(j, i)];
    }
  }

  // The same where both halves of `h` are filled, and all columns are penalised.
  SparseStep(std::vector<double>& h, int64 n_cols, int64 stride, double l1)
      : h_(h), n_cols_(n_cols), stride_(stride), n_penalised_(n_cols), l1_(l1) {}

  // Returns w + d, after so many rounds at most.
  std::vector<double> minimise(const std::vector<double>& coef, const std::vector<double>& gradient,
                               int most_rounds = kMostRounds) {
    v_ = coef;
    r_ = gradient;  // of the model at v, without the penalty
    bool is_whole = true;
    for (int round = 0; round < most_rounds; ++round) {
      // Where a sign has stopped a step, descent would take up again what has come to rest at 0.
      const int64 cycles = std::max<int64>(kCycles, n_cols_ / kSweepsOfFactor);
      for (int64 cycle = 0; cycle < cycles && is_whole; ++cycle) sweep();
      is_whole = solve_supported();
      if (is_whole && is_minimum()) break;
    }
    return v_;
  }

  // Takes a point and the model's slopes there to the minimum in the columns that are not 0, or to
  // where some of them have come to rest.
  void solve_supported(std::vector<double>& coef, std::vector<double>& slopes) {
    v_.swap(coef), r_.swap(slopes);
    solve_supported();
    v_.swap(coef), r_.swap(slopes);
  }

  // Of g.d + d.H d / 2 at the minimum, in d.
  const std::vector<double>& slopes() const { return r_; }

 private:
  static constexpr int kMostRounds = 100, kCycles = 3;
  static constexpr int64 kSweepsOfFactor = 4;  // columns: about what a sweep costs of a factor
  static constexpr double kRounding = 1e-12;   // of a slope beside l1
  static constexpr double kRidge = 1e-10;      // of a diagonal that has no inverse otherwise

  std::size_t at(int64 i, int64 j) const { return static_cast<std::size_t>(i * stride_ + j); }
  double l1_of(int64 j) const { return j < n_penalised_ ? l1_ : 0; }

  // One step in every coordinate.
  void sweep() {
    for (int64 j = 0; j < n_cols_; ++j) {
      const double h = h_[at(j, j)];
      if (!(h > 0)) continue;
      double& v = v_[static_cast<std::size_t>(j)];
      const double t = v - r_[static_cast<std::size_t>(j)] / h;
      const double change = soft_threshold(t, l1_of(j) / h) - v;
      if (change == 0) continue;
      v += change;
      subtract(-change, h_.data() + j * stride_, n_cols_, r_.data());
    }
  }

  // Goes to the minimum in the columns that are not 0, as far as their signs stay what they are;
  // says whether that is all of the way.
  bool solve_supported() {
    std::vector<int64> columns;
    std::vector<double> step;
    for (int64 j = 0; j < n_cols_; ++j) {
      const double v = v_[static_cast<std::size_t>(j)];
      if (v == 0 && j < n_penalised_) continue;
      columns.push_back(j);
      step.push_back(-r_[static_cast<std::size_t>(j)] - (v == 0 ? 0 : std::copysign(l1_of(j), v)));
    }
    const int64 m = static_cast<int64>(columns.size());
    std::vector<double> block = block_of(columns, 1);
    if (!factorise(block.data(), m, m)) {  // columns that are alike: any of their sums will do
      block = block_of(columns, 1 + kRidge);
      if (!factorise(block.data(), m, m)) return false;
    }
    solve_factored(block.data(), m, m, step.data());
    return walk(columns, step);
  }

  // The upper half of h for some columns, with a factor on the diagonal.
  std::vector<double> block_of(const std::vector<int64>& columns, double factor) const {
    const std::size_t m = columns.size();
    std::vector<double> block(m * m);
    for (std::size_t a = 0; a < m; ++a) {
      for (std::size_t b = a; b < m; ++b) block[a * m + b] = h_[at(columns[a], columns[b])];
      block[a * (m + 1)] *= factor;
    }
    return block;
  }

  // Takes a step as far as signs stay what they are; says whether that is all of it. Coefficients
  // that would change theirs all come to rest at 0 where that leads down, else the first of them.
  bool walk(const std::vector<int64>& columns, const std::vector<double>& step) {
    double length = 1;
    std::size_t first = columns.size();  // whose sign would change first
    std::vector<double> clipped = step;
    for (std::size_t a = 0; a < columns.size(); ++a) {
      const double v = v_[static_cast<std::size_t>(columns[a])];
      if (columns[a] >= n_penalised_ || v * (v + step[a]) >= 0) continue;
      clipped[a] = -v;
      if (v * (v + length * step[a]) < 0) length = -v / step[a], first = a;
    }
    if (first == columns.size()) {
      move(columns, step);
      return true;
    }
    const std::vector<double> v = v_, r = r_;
    if (!(move(columns, clipped) < 0)) {
      v_ = v, r_ = r;
      for (std::size_t a = 0; a < columns.size(); ++a) clipped[a] = length * step[a];
      clipped[first] = -v_[static_cast<std::size_t>(columns[first])];
      move(columns, clipped);
    }
    return false;
  }

  // Returns by how much the model rises.
  double move(const std::vector<int64>& columns, const std::vector<double>& step) {
    double rise = 0;
    const auto half = [&](std::size_t a) {
      return 0.5 * step[a] * r_[static_cast<std::size_t>(columns[a])];
    };
    for (std::size_t a = 0; a < columns.size(); ++a) rise += half(a);
    for (std::size_t a = 0; a < columns.size(); ++a) {
      double& v = v_[static_cast<std::size_t>(columns[a])];
      const double before = v;
      v += step[a];
      rise += l1_of(columns[a]) * (std::fabs(v) - std::fabs(before));
      subtract(before - v, h_.data() + columns[a] * stride_, n_cols_, r_.data());
    }
    for (std::size_t a = 0; a < columns.size(); ++a) rise += half(a);
    return rise;
  }

  // Whether no column that is 0 leads down.
  bool is_minimum() const {
    for (int64 j = 0; j < n_penalised_; ++j) {
      const bool is_zero = v_[static_cast<std::size_t>(j)] == 0;
      if (is_zero && std::fabs(r_[static_cast<std::size_t>(j)]) > l1_ * (1 + kRounding))
        return false;
    }
    return true;
  }

  std::vector<double>& h_;
  const int64 n_cols_, stride_, n_penalised_;
  const double l1_;
  std::vector<double> v_, r_;
};

}  // namespace snapml::native::small
