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
    Step last;
    for (int round = 0; round < most_rounds; ++round) {
      // Where signs have stopped a step, descent would take up again what has come to rest at 0.
      const int64 cycles = std::max<int64>(kCycles, n_cols_ / kSweepsOfFactor);
      for (int64 cycle = 0; cycle < cycles && !last.is_cut(); ++cycle) sweep();
      last = solve_supported();
      if (last.n_rests == 0 && is_minimum()) break;
    }
    return v_;
  }

  // Takes a point and the model's slopes there to the minimum in the columns that are not 0, but
  // for those that come to rest there. Where columns have much in common, the first that does so
  // ends the way of the others too, and those left start anew: descent does not get on there.
  void solve_supported(std::vector<double>& coef, std::vector<double>& slopes, int most_steps) {
    v_.swap(coef), r_.swap(slopes);
    for (int step = 0; step < most_steps && solve_supported().is_cut(); ++step) continue;
    v_.swap(coef), r_.swap(slopes);
  }

  // Of g.d + d.H d / 2 at the minimum, in d.
  const std::vector<double>& slopes() const { return r_; }

 private:
  static constexpr int kMostRounds = 100, kCycles = 3;
  static constexpr int64 kSweepsOfFactor = 4;  // columns: about what a sweep costs of a factor
  static constexpr double kMostOfWay = 0.5;
  static constexpr double kRounding = 1e-12;  // of a slope beside l1
  static constexpr double kRidge = 1e-10;     // of a diagonal that has no inverse otherwise

  struct Step {
    double share = 1;   // of its way
    int64 n_rests = 0;  // columns that have come to rest at 0
    // Whether too little is done to look for more columns.
    bool is_cut() const { return n_rests > 0 && share < kMostOfWay; }
  };
  struct End {
    double length;  // of a step, where its column would change sign
    int64 column;
  };

  static std::size_t at(int64 j) { return static_cast<std::size_t>(j); }
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

  // Goes to the minimum in the columns that are not 0, as far as their signs stay what they are.
  Step solve_supported() {
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
      if (!factorise(block.data(), m, m)) return {0, 1};
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

  // Follows a step to its first minimum, and and says how far that was. What would change its sign
  // comes to rest at 0 while the others go on: between one such end and the next the model is a
  // parabola.
  Step walk(const std::vector<int64>& columns, const std::vector<double>& step) {
    std::vector<double> moving(at(n_cols_)), change(at(n_cols_));
    std::vector<End> ends;
    for (std::size_t a = 0; a < columns.size(); ++a) {
      const int64 j = columns[a];
      moving[at(j)] = step[a];
      subtract(-step[a], h_.data() + j * stride_, n_cols_, change.data());
      const double v = v_[at(j)];
      if (j < n_penalised_ && v * (v + step[a]) < 0) ends.push_back({-v / step[a], j});
    }
    std::sort(ends.begin(), ends.end(), [](const End& a, const End& b) {
      return a.length < b.length || (a.length == b.length && a.column < b.column);
    });
    Step gone{0, 0};
    for (const End& end : ends) {
      gone.share = advance(columns, moving, change, gone.share, end.length);
      if (gone.share < end.length) return gone;
      v_[at(end.column)] = 0;
      subtract(moving[at(end.column)], h_.data() + end.column * stride_, n_cols_, change.data());
      moving[at(end.column)] = 0;
      gone.n_rests += 1;
    }
    gone.share = advance(columns, moving, change, gone.share, 1);
    return gone;
  }

  // Goes on to the minimum along `moving`, but not beyond `length`; returns how far that was.
  double advance(const std::vector<int64>& columns, const std::vector<double>& moving,
                 const std::vector<double>& change, double went, double length) {
    double slope = 0, curvature = 0;
    for (const int64 j : columns) {
      const double v = v_[at(j)], pull = v == 0 ? 0 : std::copysign(l1_of(j), v);
      slope += moving[at(j)] * (r_[at(j)] + pull);
      curvature += moving[at(j)] * change[at(j)];
    }
    if (!(slope < 0)) return went;
    // On a flat model nothing else than the step's own length might end it.
    const double bottom = curvature > 0 ? went - slope / curvature : length;
    const double part = std::min(bottom, length) - went;
    for (const int64 j : columns) v_[at(j)] += part * moving[at(j)];
    subtract(-part, change.data(), n_cols_, r_.data());
    return went + part;
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
