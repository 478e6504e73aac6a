// One epoch of dual coordinate ascent over a shard, on one thread or many.
//
// Rows are visited in random blocks of 16, in fresh order inside a block. With K > 1 workers there
// are two ways (docs/algorithms.md, sections 3 and 4):
//   replicas  every worker descends on its own copy of the shared vector, scaled by sigma; the
//             changes are added up `rounds` times an epoch. Deterministic.
//   shared    all workers update one vector; updates may be lost, the exact pass repairs them.
#pragma once

#include <vector>

#include "dual/dual_state.hpp"
#include "dual/prefetching.hpp"
#include "rows/row_operations.hpp"
#include "rows/row_reader.hpp"
#include "snapml/losses.hpp"
#include "snapml/random.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

struct EpochOptions {
  uint64 seed;
  uint64 epoch;
  int64 rounds;       // merges of the replicas per epoch
  double sigma;       // safety factor among this shard's workers to begin with, in [1, workers]
  double outer;       // safety factor among shards; 1 where this shard is all there is
  double relaxation;  // factor on the stiffness; above 1/2 the dual objective cannot fall
  int block_rows;     // rows visited together, at most kBlockRows

  int64 n_blocks(int64 n_rows) const { return (n_rows + block_rows - 1) / block_rows; }
};

// The rows that an epoch visits, and what it notes of them.
template <class Real>
struct RowVisits {
  const int64* rows;  // each once; null: all of the shard
  int64 n_rows;       // of `rows`, or of the shard
  Real* row_gaps;     // null, or one number a row of the shard: its gap as it was visited

  int64 row(int64 position) const { return rows == nullptr ? position : rows[position]; }
};

struct EpochReport {
  double gap = 0;             // sum of the rows' gaps as each was visited
  double sigma = 1;           // factor to begin the next epoch with
  double sigma_measured = 1;  // largest factor that a merge of this epoch needed
};

// What the sweeps of one epoch have in common.
template <class Loss, class View>
struct Epoch {
  using Real = typename Loss::Real;

  Loss loss;
  const View& view;
  const DualState<Real>& state;
  const EpochOptions& options;
  const RowVisits<Real>& visits;
  Interrupt& interrupt;
  Permutation order;  // of the blocks

  int64 n_blocks() const { return options.n_blocks(visits.n_rows); }
  // Place of the first row of the block at a position, and how many rows it has.
  int64 first_of(int64 position) const { return order(position) * options.block_rows; }
  int count_of(int64 first) const {
    return static_cast<int>(minimum<int64>(options.block_rows, visits.n_rows - first));
  }
};

// The blocks at positions [range.begin, range.end) of the random order one after the other, and
// what is asked for of the two that follow.
template <class Loss, class View>
class BlockQueue {
 public:
  BlockQueue(const Epoch<Loss, View>& epoch, Range range)
      : epoch_(epoch),
        position_(range.begin),
        end_(range.end),
        first_(first_at(position_)),
        next_(first_at(position_ + 1)),
        later_(first_at(position_ + 2)) {
    look_ahead();
  }

  // Place of the first row of the block.
  int64 first() const { return first_; }

  void move_on() {
    ++position_;
    first_ = next_;
    next_ = later_;
    later_ = first_at(position_ + 2);
    look_ahead();
  }

  // To be called once a row of the block.
  void ask() {
    if (epoch_.visits.rows == nullptr) return ahead_.ask();
    if (n_asked_ < n_next_) ask_for_row(epoch_.visits.rows[next_ + n_asked_]);
    if (n_asked_ < n_later_) ask_for_state(epoch_.visits.rows[later_ + n_asked_]);
    ++n_asked_;
  }

 private:
  static constexpr int64 kNone = -1;

  int64 first_at(int64 position) const {
    return position < end_ ? epoch_.first_of(position) : kNone;
  }
  int count_of(int64 first) const { return first == kNone ? 0 : epoch_.count_of(first); }

  void look_ahead() {
    n_next_ = count_of(next_), n_later_ = count_of(later_), n_asked_ = 0;
    if (epoch_.visits.rows != nullptr) return;
    ahead_ = {};
    if (n_next_ > 0) ahead_ = {epoch_.view, next_, n_next_, epoch_.options.block_rows};
    if (n_later_ == 0) return;
    prefetch_offset(epoch_.view, later_);
    prefetch_states(epoch_.state, later_, n_later_);
  }

  void ask_for_row(int64 row) const { RowsAhead<View>(epoch_.view, row, 1, 1).ask(); }
  void ask_for_state(int64 row) const {
    prefetch_offset(epoch_.view, row);
    prefetch_states(epoch_.state, row, 1);
  }

  const Epoch<Loss, View>& epoch_;
  int64 position_;
  const int64 end_;
  int64 first_, next_, later_;
  int n_next_ = 0, n_later_ = 0, n_asked_ = 0;
  RowsAhead<View> ahead_;
};

// Visits the blocks at positions [range.begin, range.end) of the random order, on `vector`.
template <class Access, class Loss, class View>
double sweep_blocks(const Epoch<Loss, View>& epoch, RowReader<View>& reader, Range range,
                    typename Loss::Real* vector, double sigma, int worker) {
  using Real = typename Loss::Real;
  const auto& [loss, view, state, options, visits, interrupt, order] = epoch;
  const Real tau = static_cast<Real>(state.intercept.tau);
  const Real factor = static_cast<Real>(sigma * options.outer);
  const Real relaxed = static_cast<Real>(options.relaxation) * factor;
  Real* const bias = vector + view.n_cols;
  const int64* const picked = visits.rows;  // lambdas of C++17 capture no structured bindings
  uint8 rows[kBlockRows];
  double gap = 0;
  BlockQueue<Loss, View> blocks(epoch, range);
  for (int64 position = range.begin; position < range.end; ++position, blocks.move_on()) {
    if (position % 8 == 0) interrupt.poll(worker);
    if (interrupt.requested()) break;
    const int64 first = blocks.first();
    const int count = epoch.count_of(first);
    shuffle_block(options.seed, ~options.epoch, first / options.block_rows, count, rows);
    if (picked == nullptr) reader.load(first, count);
    const auto row_of = [&](int j) {
      return picked == nullptr ? reader.row(rows[j]) : reader.at(picked[first + rows[j]]);
    };
    Real block_gap = 0;
    for (int j = 0; j < count; ++j) {
      blocks.ask();
      const int64 i = visits.row(first + rows[j]);
      const Real c = state.weight_of(i);
      if (c == Real(0)) continue;
      const auto row = row_of(j);
      const Real norm_sq = state.row_norms_sq == nullptr ? static_cast<Real>(row_norm_sq(row))
                                                         : state.row_norms_sq[i];
      // Far offsets may cancel each other: in float64.
      const Real fixed = static_cast<Real>(state.intercept.offset + state.offset_of(i));
      const Real z = row_dot<Access>(row, vector) + fixed + tau * Access::load(bias);
      if (j + 1 < count) prefetch_row(row_of(j + 1), vector);
      const Real stiffness = relaxed * c * (norm_sq + tau * tau);
      const auto step = coordinate_step(loss, state.duals[i], z, state.labels[i], stiffness);
      state.duals[i] = step.state;
      block_gap += c * step.gap;
      if (visits.row_gaps != nullptr) visits.row_gaps[i] = c * step.gap;
      if (step.change == Real(0)) continue;
      const Real scale = factor * c * step.change;
      row_add<Access>(row, scale, vector);
      if (tau != Real(0)) Access::add(bias, scale * tau);
    }
    gap += static_cast<double>(block_gap);
  }
  return gap;
}

// Squared norms that a merge measures: of the summed change, and summed over the single changes.
struct MergeNorms {
  double joint = 0;
  double single = 0;
};

// Adds the changes (replica - shared) / sigma of all workers to columns [range) of the shared
// vector and resets the replicas to it.
template <class Real>
MergeNorms merge_columns(Real* shared, Real* replicas, int64 stride, int workers, Range range,
                         double sigma) {
  constexpr int64 kChunk = 512;  // stays in the first-level cache
  const Real inverse = static_cast<Real>(1 / sigma);
  Real joint[kChunk], change[kChunk];
  MergeNorms norms;
  for (int64 begin = range.begin; begin < range.end; begin += kChunk) {
    const int64 n = minimum<int64>(kChunk, range.end - begin);
    for (int64 j = 0; j < n; ++j) joint[j] = 0;
    for (int k = 0; k < workers; ++k) {
      const Real* replica = replicas + k * stride + begin;
      for (int64 j = 0; j < n; ++j) {
        change[j] = (replica[j] - shared[begin + j]) * inverse;
        joint[j] += change[j];
      }
      norms.single += static_cast<double>(dense_dot<Real>(change, change, n));
    }
    norms.joint += static_cast<double>(dense_dot<Real>(joint, joint, n));
    for (int64 j = 0; j < n; ++j) shared[begin + j] += joint[j];
    for (int k = 0; k < workers; ++k) {
      Real* replica = replicas + k * stride + begin;
      for (int64 j = 0; j < n; ++j) replica[j] = shared[begin + j];
    }
  }
  return norms;
}

// The factor for the next round. A merge shows exactly which factor would have sufficed:
// joint / single, at most `workers`. It may rise at once and falls slowly.
inline double next_sigma(double sigma, double needed, int workers) {
  constexpr double kMargin = 1.1;  // the next round may need a little more than the last
  const double wanted = clamp(kMargin * needed, 1.0, static_cast<double>(workers));
  return wanted > sigma ? wanted : 0.9 * sigma + 0.1 * wanted;
}

template <class Loss, class View>
EpochReport epoch_with_replicas(const Epoch<Loss, View>& epoch, typename Loss::Real* replicas,
                                ThreadPool& pool) {
  using Real = typename Loss::Real;
  const int workers = pool.size();
  const int64 stride = epoch.view.n_cols + 1;
  const auto count = static_cast<std::size_t>(workers);
  // All that may fail happens before the workers meet at a barrier.
  std::vector<RowReader<View>> readers(count, RowReader<View>(epoch.view));
  std::vector<double> gaps(count), sigmas(count), measured(count, 1.0);
  std::vector<MergeNorms> norms(count);
  Barrier barrier(workers);
  pool.run([&](int worker) {
    const auto self = static_cast<std::size_t>(worker);
    const int rounds = static_cast<int>(epoch.options.rounds);
    Real* const mine = replicas + worker * stride;
    for (int64 j = 0; j < stride; ++j) mine[j] = epoch.state.shared[j];
    barrier.arrive_and_wait();
    double sigma = epoch.options.sigma;
    for (int round = 0; round < rounds; ++round) {
      const Range part = share(epoch.n_blocks(), rounds, round);
      const Range own = share(part.end - part.begin, workers, worker);
      gaps[self] += sweep_blocks<PlainAccess>(epoch, readers[self],
                                              {part.begin + own.begin, part.begin + own.end}, mine,
                                              sigma, worker);
      barrier.arrive_and_wait();
      norms[self] = merge_columns(epoch.state.shared, replicas, stride, workers,
                                  share(stride, workers, worker), sigma);
      barrier.arrive_and_wait();
      MergeNorms total;  // every worker adds the same numbers in the same order
      for (const MergeNorms& part_norms : norms) {
        total.joint += part_norms.joint;
        total.single += part_norms.single;
      }
      const double needed = total.single > 0 ? total.joint / total.single : 1.0;
      measured[self] = maximum(measured[self], needed);
      sigma = next_sigma(sigma, needed, workers);
    }
    sigmas[self] = sigma;
  });
  EpochReport report{0, sigmas[0], measured[0]};
  for (double gap : gaps) report.gap += gap;
  return report;
}

template <class Access, class Loss, class View>
EpochReport epoch_on_one_vector(const Epoch<Loss, View>& epoch, ThreadPool& pool) {
  const auto count = static_cast<std::size_t>(pool.size());
  std::vector<RowReader<View>> readers(count, RowReader<View>(epoch.view));
  std::vector<double> gaps(count);
  pool.run([&](int worker) {
    const auto self = static_cast<std::size_t>(worker);
    const Range own = share(epoch.n_blocks(), pool.size(), worker);
    gaps[self] = sweep_blocks<Access>(epoch, readers[self], own, epoch.state.shared, 1.0, worker);
  });
  EpochReport report;
  for (double gap : gaps) report.gap += gap;
  return report;
}

// `replicas` null: one thread, or all threads on the shared vector itself.
template <class Loss, class View>
EpochReport run_epoch(Loss loss, const View& view, const DualState<typename Loss::Real>& state,
                      typename Loss::Real* replicas, const EpochOptions& options,
                      const RowVisits<typename Loss::Real>& visits, ThreadPool& pool,
                      Interrupt& interrupt) {
  const Permutation order(options.seed, options.epoch, options.n_blocks(visits.n_rows));
  const Epoch<Loss, View> epoch{loss, view, state, options, visits, interrupt, order};
  if (pool.size() == 1) return epoch_on_one_vector<PlainAccess>(epoch, pool);
  if (replicas == nullptr) return epoch_on_one_vector<RelaxedAccess>(epoch, pool);
  return epoch_with_replicas(epoch, replicas, pool);
}

}  // namespace snapml::native
