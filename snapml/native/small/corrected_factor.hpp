// A factor of the Hessian at one point that serves at the next ones too, corrected by L-BFGS (Liu
// and Nocedal, 1989).
#pragma once

#include <utility>
#include <vector>

#include "small/factor.hpp"
#include "small/problem.hpp"

namespace snapml::native::small {

template <class Problem>
class CorrectedFactor {
 public:
  using Point = typename Problem::Point;

  explicit CorrectedFactor(const Problem& problem) : problem_(problem) {}

  bool is_made() const { return !factor_.empty(); }

  // Factorises the Hessian at a point; false where it has no inverse.
  bool make(const Point& point) {
    problem_.fill_hessian(point, factor_);
    pairs_.clear();
    return factorise(factor_.data(), problem_.n_cols(), problem_.stride());
  }

  // The factor's solution for the gradient, corrected by the steps since it was made.
  std::vector<double> solve(const std::vector<double>& gradient) const {
    std::vector<double> q = gradient, factors;
    for (auto pair = pairs_.rbegin(); pair != pairs_.rend(); ++pair) {
      factors.push_back(pair->rho * problem_.inner(pair->step, q));
      subtract(factors.back(), pair->change.data(), problem_.stride(), q.data());
    }
    solve_factored(factor_.data(), problem_.n_cols(), problem_.stride(), q.data());
    for (const Pair& pair : pairs_) {
      const double factor = pair.rho * problem_.inner(pair.change, q) - factors.back();
      subtract(factor, pair.step.data(), problem_.stride(), q.data());
      factors.pop_back();
    }
    return q;
  }

  // Learns from a step along which the objective fell by about `fall`.
  void see(const Point& from, const Point& to, double fall) {
    Pair pair{to.coef, to.gradient, 0};
    subtract(1.0, from.coef.data(), problem_.stride(), pair.step.data());
    subtract(1.0, from.gradient.data(), problem_.stride(), pair.change.data());
    const double product = problem_.inner(pair.step, pair.change);
    if (!(product > kLeastCurvature * fall)) return;
    pair.rho = 1 / product;
    if (pairs_.size() == kMostPairs) pairs_.erase(pairs_.begin());
    pairs_.push_back(std::move(pair));
  }

 private:
  static constexpr double kLeastCurvature = 1e-12;
  static constexpr std::size_t kMostPairs = 10;

  struct Pair {
    std::vector<double> step, change;  // of the coefficients and of the gradient
    double rho;                        // 1 / their product
  };

  const Problem& problem_;
  std::vector<double> factor_;
  std::vector<Pair> pairs_;
};

}  // namespace snapml::native::small
