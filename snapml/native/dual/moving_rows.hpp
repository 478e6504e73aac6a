// Sweeps over the rows that still move. At a bound of its dual variable a row may rest: its step
// changes nothing and its gap is 0, sweep after sweep (Hsieh et al., A dual coordinate descent
// method for large-scale linear SVM, ICML 2008, section 3.2; docs/algorithms.md, section 2).
#pragma once

#include <vector>

#include "dual/coordinate_descent.hpp"

namespace snapml::native {

struct MovingLimits {
  double enough;       // end once a sweep's gap is less
  int64 most_entries;  // of the matrix, that all sweeps may read
};

template <class Real, class Index>
int64 entries_of(const CompressedView<Real, Index>& view, int64 i) {
  return static_cast<int64>(view.indptr[i + 1] - view.indptr[i]);
}

template <class Real>
int64 entries_of(const DenseView<Real>& view, int64 /*i*/) {
  return view.n_cols;
}

// Visits the rows that were not at rest when `at_rest` was written, a number a row of the shard,
// until they leave little of the gap. A row that comes to rest is left alone. `options.epoch` is
// that of all rows; sweeps get numbers of their own. The report's gap is that of the last sweep.
template <class View>
EpochReport sweep_moving_rows(const EpochRunner<typename View::Real>& run, const View& view,
                              const DualState<typename View::Real>& state,
                              typename View::Real* replicas, EpochOptions options, uint8* at_rest,
                              const MovingLimits& limits, Interrupt& interrupt) {
  using Real = typename View::Real;
  constexpr int kShift = 32;  // epochs are fewer than 2^32, and so are sweeps
  const uint64 epoch = options.epoch;
  std::vector<int64> moving;
  for (int64 i = 0; i < view.n_rows; ++i) {
    if (at_rest[i] == 0 && state.weight_of(i) != Real(0)) moving.push_back(i);
  }
  EpochReport report{0, options.sigma, 1};
  int64 entries = 0;
  for (uint64 sweep = 1; !moving.empty() && !interrupt.requested(); ++sweep) {
    const auto n_moving = static_cast<int64>(moving.size());
    for (int64 i : moving) entries += entries_of(view, i) + 1;
    if (entries > limits.most_entries) break;
    options.epoch = epoch + (sweep << kShift);
    options.sigma = report.sigma;
    const RowVisits<Real> visits{moving.data(), n_moving, nullptr, at_rest};
    report = run(replicas, options, visits);
    if (!(report.gap > limits.enough)) break;
    std::size_t n_left = 0;
    for (int64 i : moving) {
      if (at_rest[i] == 0) moving[n_left++] = i;
    }
    moving.resize(n_left);
  }
  return report;
}

}  // namespace snapml::native
