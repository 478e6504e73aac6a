// Which coordinates a descent visits: all of them now and then, in between those that move.
#pragma once

#include <vector>

#include "parallel.hpp"
#include "snapml/math.hpp"

namespace snapml::native {

struct SweepLimits {
  int64 max_sweeps;
  double enough;  // stop once the objective seems to be within this of its minimum
};

struct SweepReport {
  int64 sweeps = 0;
  bool is_done = false;
};

// Visits coordinates until a sweep over all of them promises less than `enough`. visit(j) moves
// coordinate j and returns a lower bound of what that gained; is_active(j) says whether it counts
// among those worth visiting again soon (the others rest at zero).
template <class Visit, class IsActive>
SweepReport run_sweeps(int64 count, SweepLimits limits, Interrupt& interrupt, Visit visit,
                       IsActive is_active) {
  constexpr int kActiveSweeps = 10;
  std::vector<int64> active;
  SweepReport report;
  const auto sweep = [&](int64 n, auto coordinate) {
    double gained = 0;
    for (int64 k = 0; k < n && !interrupt.requested(); ++k) {
      if (k % 16 == 0) interrupt.poll(0);
      gained += visit(coordinate(k));
    }
    ++report.sweeps;
    return gained;
  };
  double rate = 0.5;  // of the linear convergence, as the last sweeps showed it
  while (report.sweeps < limits.max_sweeps && !interrupt.requested()) {
    const double gained = sweep(count, [](int64 k) { return k; });
    // What a geometric series would still gain.
    report.is_done = gained * maximum(1.0, rate / (1.0 - rate)) <= limits.enough;
    if (report.is_done) break;
    active.clear();
    for (int64 j = 0; j < count; ++j) {
      if (is_active(j)) active.push_back(j);
    }
    double before = gained;
    for (int k = 0; k < kActiveSweeps && report.sweeps < limits.max_sweeps; ++k) {
      const double more = sweep(static_cast<int64>(active.size()),
                                [&](int64 a) { return active[static_cast<std::size_t>(a)]; });
      rate = before > 0 ? minimum(0.98, more / before) : 0.0;
      before = more;
      if (more * maximum(1.0, rate / (1.0 - rate)) <= 0.3 * limits.enough) break;
    }
  }
  return report;
}

}  // namespace snapml::native
