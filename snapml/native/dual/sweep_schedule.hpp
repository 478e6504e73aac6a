// Which coordinates a descent visits: all of them now and then, in between those that move.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "snapml/penalties.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

struct SweepLimits {
  int64 max_sweeps;
  double enough;  // stop once the duality gap seems to be less
};

// The coordinates that may move: all, or those in a list.
struct Visits {
  int64 count;
  const int64* among = nullptr;

  int64 operator[](int64 k) const { return among == nullptr ? k : among[k]; }
};

struct SweepReport {
  int64 sweeps = 0;
  bool is_done = false;
  double gap = 0;      // of the last sweep
  double decline = 1;  // its share of the one before, on average over the last few

  // How many more sweeps like the last few lead to a gap.
  double sweeps_to(double enough) const {
    if (gap <= enough) return 1;
    return decline < 1 ? 1 + std::log(enough / gap) / std::log(decline)
                       : std::numeric_limits<double>::infinity();
  }
};

// What one visit of a coordinate did: by how much the objective fell at least, and how far the
// slope was from optimal.
struct Visited {
  double gained = 0;
  double violation = 0;
};

// What a sweep saw of all its visits.
struct SweepSums {
  double gained = 0, largest = 0, squares = 0;

  void see(const Visited& visited) {
    gained += visited.gained;
    largest = maximum(largest, visited.violation);
    squares += visited.violation * visited.violation;
  }
  // Duality gap that the violations stand for. The dual point is feasible once it is scaled by 1 -
  // largest / l1, which costs the penalty's share of that; with l2 > 0 no scaling is needed.
  double gap(const ElasticNet<double>& penalty, const double* coef, Visits visits) const {
    double norm = 0;
    for (int64 k = 0; k < visits.count; ++k) norm += scalar::fabs(coef[visits[k]]);
    const double scaled = largest * norm;
    return penalty.l2 > 0 ? minimum(scaled, 0.5 * squares / penalty.l2) : scaled;
  }
};

// Visits coordinates until a sweep over all of them shows a gap of less than `enough`. visit(j)
// moves coordinate j of `coef`; in between, only those that are not zero are visited.
template <class Visit>
SweepReport run_sweeps(Visits visits, const double* coef, const ElasticNet<double>& penalty,
                       SweepLimits limits, Interrupt& interrupt, Visit visit) {
  constexpr int kActiveSweeps = 10;
  std::vector<int64> active;
  SweepReport report;
  const auto sweep = [&](int64 n, auto coordinate) {
    SweepSums sums;
    for (int64 k = 0; k < n && !interrupt.requested(); ++k) {
      if (k % 16 == 0) interrupt.poll();
      sums.see(visit(coordinate(k)));
    }
    ++report.sweeps;
    return sums;
  };
  while (report.sweeps < limits.max_sweeps && !interrupt.requested()) {
    const SweepSums all = sweep(visits.count, [&](int64 k) { return visits[k]; });
    const double first = all.gap(penalty, coef, visits);
    report.gap = first;
    report.is_done = maximum(all.gained, first) <= limits.enough;
    if (report.is_done) break;
    active.clear();
    for (int64 k = 0; k < visits.count; ++k) {
      if (coef[visits[k]] != 0) active.push_back(visits[k]);
    }
    for (int k = 0; k < kActiveSweeps && report.sweeps < limits.max_sweeps; ++k) {
      const SweepSums sums = sweep(static_cast<int64>(active.size()),
                                   [&](int64 a) { return active[static_cast<std::size_t>(a)]; });
      report.gap = sums.gap(penalty, coef, visits);
      report.decline = std::pow(report.gap / first, 1.0 / (k + 1));
      if (maximum(sums.gained, report.gap) <= 0.3 * limits.enough) break;
    }
  }
  return report;
}

}  // namespace snapml::native
