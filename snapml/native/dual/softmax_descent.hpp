// One epoch of dual coordinate ascent for the multinomial loss, over compressed rows: all classes
// of a row move at once, and read its entries once (docs/algorithms.md, section 1.7).
//
// The shared vectors lie side by side, columns x classes, padded to whole panels as those of many
// models are; the intercepts' column is the last, and comes with the value tau.
#pragma once

#include <vector>

#include "dual/block_order.hpp"
#include "dual/replicas.hpp"
#include "many/many_models.hpp"
#include "rows/row_operations.hpp"
#include "snapml/random.hpp"
#include "snapml/softmax_step.hpp"
#include "threads/clones.hpp"

namespace snapml::native {

// A shard of the dual problem. Probabilities and shared vectors are float64 whatever the rows are.
struct SoftmaxDual {
  const double* row_weights;  // null: every row has `weight`
  double weight;
  double* log_p;          // rows x n_classes
  double* shared;         // (n_cols + 1) x stride
  const double* offsets;  // of the classes
  double tau;
  int n_classes;
  int64 stride;

  double weight_of(int64 i) const { return row_weights == nullptr ? weight : row_weights[i]; }
};

// What one worker needs for a row: numbers of as many classes as the stride.
class SoftmaxRooms {
 public:
  explicit SoftmaxRooms(int64 stride)
      : stride_(stride), numbers_(5 * static_cast<std::size_t>(stride)) {}
  double* margins() { return part(0); }
  double* change() { return part(1); }
  SoftmaxStepRooms<double> step() { return {part(2), part(3), part(4)}; }

 private:
  double* part(int k) { return numbers_.data() + k * stride_; }
  int64 stride_;
  std::vector<double> numbers_;
};

// Visits one row with the weight c: returns its gap over c.
template <bool has_values>
struct VisitSoftmaxRow {
  template <int parts, class Real, class Index>
  [[gnu::always_inline]] static double run(CompressedRow<Real, Index> row, double c, double factor,
                                           double relaxation, const SoftmaxDual* of, int64 n_cols,
                                           double* log_p, double* vectors, SoftmaxRooms* rooms) {
    using Panel = Wide<double, kFewestModels, parts>;
    const SoftmaxDual& dual = *of;
    double *const z = rooms->margins(), *const change = rooms->change();
    for (int64 first = 0; first < dual.stride; first += kFewestModels) {
      gather_panel<Panel, has_values>(row, vectors + first, dual.stride).store(z + first);
    }
    double* const bias = vectors + n_cols * dual.stride;
    for (int j = 0; j < dual.n_classes; ++j) z[j] += dual.offsets[j] + dual.tau * bias[j];
    const double stiffness = relaxation * factor * c * (row_norm_sq(row) + dual.tau * dual.tau);
    const double gap = softmax_step(z, dual.n_classes, stiffness, log_p, change, rooms->step());
    const double scale = -factor * c;
    for (int j = 0; j < dual.n_classes; ++j) change[j] *= scale;
    for (int64 first = 0; first < dual.stride; first += kFewestModels) {
      scatter_panel<1, has_values>(row, Panel::load(change + first), vectors + first, dual.stride);
    }
    for (int j = 0; j < dual.n_classes; ++j) bias[j] += dual.tau * change[j];
    return gap;
  }
};

template <class Real, class Index>
double sweep_softmax_blocks(const CompressedView<Real, Index>& view, const SoftmaxDual& dual,
                            const EpochOptions& options, const RowVisits<double>& visits,
                            const Permutation& order, Range range, double* vectors, double sigma,
                            SoftmaxRooms& rooms, Interrupt& interrupt) {
  using Row = CompressedRow<Real, Index>;
  const auto visit = [&](const Row& row, double c, int64 i) {
    double* const log_p = dual.log_p + i * dual.n_classes;
    if (view.values == nullptr) {
      return run_wide<VisitSoftmaxRow<false>>(row, c, sigma, options.relaxation, &dual, view.n_cols,
                                              log_p, vectors, &rooms);
    }
    return run_wide<VisitSoftmaxRow<true>>(row, c, sigma, options.relaxation, &dual, view.n_cols,
                                           log_p, vectors, &rooms);
  };
  uint8 rows[kBlockRows];
  double gap = 0;
  BlockOrder blocks(order, range);
  for (int64 position = range.begin; position < range.end; ++position) {
    if (position % kPollBlocks == 0) interrupt.poll();
    if (interrupt.requested()) break;
    const int64 first = blocks.next() * options.block_rows;
    const int count = static_cast<int>(minimum<int64>(options.block_rows, visits.n_rows - first));
    shuffle_block(options.seed, ~options.epoch, first / options.block_rows, count, rows);
    for (int k = 0; k < count; ++k) {
      const int64 i = visits.row(first + rows[k]);
      const double c = dual.weight_of(i);
      if (c == 0) continue;
      const double own = c * visit(view.row(i), c, i);
      if (visits.row_gaps != nullptr) visits.row_gaps[i] = own;
      gap += own;
    }
  }
  return gap;
}

// `replicas`: numbers for each worker's shared vectors; null for one worker, which needs none.
template <class Real, class Index>
EpochReport run_softmax_epoch(const CompressedView<Real, Index>& view, const SoftmaxDual& dual,
                              double* replicas, const EpochOptions& options,
                              const RowVisits<double>& visits, ThreadPool& pool,
                              Interrupt& interrupt) {
  const int64 n_blocks = options.n_blocks(visits.n_rows);
  const Permutation order(options.seed, options.epoch, n_blocks);
  std::vector<SoftmaxRooms> rooms(static_cast<std::size_t>(pool.size()), SoftmaxRooms(dual.stride));
  const Sweep<double> sweep = [&](int worker, Range range, double* vectors, double sigma) {
    return sweep_softmax_blocks(view, dual, options, visits, order, range, vectors, sigma,
                                rooms[static_cast<std::size_t>(worker)], interrupt);
  };
  if (replicas == nullptr) return {sweep(0, {0, n_blocks}, dual.shared, 1.0)};
  const Replicas<double> vectors{dual.shared, replicas, (view.n_cols + 1) * dual.stride};
  return sweep_replicas(vectors, n_blocks, options, pool, sweep);
}

}  // namespace snapml::native
