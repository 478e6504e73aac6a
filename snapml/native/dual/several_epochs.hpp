// Epochs of a small shard, several in one call: what lies between two of them in Python takes as
// long as an epoch over a few thousand entries.
#pragma once

#include <cmath>

#include "dual/moving_rows.hpp"

namespace snapml::native {

struct SeveralLimits {
  int64 most_epochs;
  double most_moving;         // share of the rows that may be visited again
  double enough;              // of an epoch's gap, that these may leave
  int64 most_moving_entries;  // that they may read
  double before;              // gap of the epoch before the first; NaN: gaps count as they are
  double factor, target;      // end once the predicted gap, times the factor, is no more
};

// The gap that an epoch leaves, by its own and the one before; the same as Progress.see_epoch.
inline double predicted_gap(double gap, double before) {
  return before > 0 ? gap * minimum(1.0, gap / before) : gap;
}

template <class View>
void visit_moving(const EpochRunner<typename View::Real>& run, const View& view,
                  const DualState<typename View::Real>& state, const EpochOptions& options,
                  uint8* at_rest, double gap, const SeveralLimits& limits, Interrupt& interrupt) {
  int64 n_moving = 0;
  for (int64 i = 0; i < view.n_rows; ++i) n_moving += at_rest[i] == 0;
  const auto most = limits.most_moving * static_cast<double>(view.n_rows);
  if (static_cast<double>(n_moving) > most) return;
  sweep_moving_rows(run, view, state, nullptr, options, at_rest,
                    {limits.enough * gap, limits.most_moving_entries}, interrupt);
}

// One epoch after the other on one thread, from `options.epoch` on, into `gaps`; returns how many.
// `at_rest` is null where rows do not rest. A free intercept's multiplier moves with each.
template <class View>
int64 several_epochs(const EpochRunner<typename View::Real>& run, const View& view,
                     DualState<typename View::Real>& state, EpochOptions options, bool is_free,
                     uint8* at_rest, const SeveralLimits& limits, double* gaps,
                     Interrupt& interrupt) {
  using Real = typename View::Real;
  double before = limits.before;
  int64 k = 0;
  while (k < limits.most_epochs && !interrupt.requested()) {
    const RowVisits<Real> visits{nullptr, view.n_rows, nullptr, at_rest};
    const double gap = run(nullptr, options, visits).gap;
    if (at_rest != nullptr && std::isfinite(gap)) {
      visit_moving(run, view, state, options, at_rest, gap, limits, interrupt);
    }
    if (is_free) {
      state.intercept.offset +=
          state.intercept.tau * static_cast<double>(state.shared[view.n_cols]);
    }
    gaps[k++] = gap;
    ++options.epoch;
    if (limits.factor * predicted_gap(gap, before) <= limits.target || !std::isfinite(gap)) break;
    if (!std::isnan(before)) before = gap;
  }
  return k;
}

}  // namespace snapml::native
