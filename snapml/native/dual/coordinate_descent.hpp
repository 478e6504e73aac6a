// One epoch of dual coordinate ascent over a shard, on one thread or many.
//
// Rows are visited in random blocks of up to 16, in fresh order inside a block. With K > 1 workers
// there are two ways (docs/algorithms.md, sections 3 and 4):
//   replicas  every worker descends on its own copy of the shared vector, scaled by sigma; the
//             changes are added up `rounds` times an epoch. Deterministic.
//   shared    all workers update one vector; updates may be lost, the exact pass repairs them.
#pragma once

#include <functional>
#include <type_traits>
#include <vector>

#include "dual/block_order.hpp"
#include "dual/dual_state.hpp"
#include "dual/prefetching.hpp"
#include "dual/replicas.hpp"
#include "rows/row_operations.hpp"
#include "rows/row_reader.hpp"
#include "snapml/losses.hpp"
#include "snapml/random.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

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
};

// The blocks at positions [range.begin, range.end) of the random order one after the other, and
// what is asked for of those that follow: of the near one its rows, of the far one where its rows
// begin. Short blocks are asked for earlier. It knows no loss, so it is compiled once a layout.
template <class View>
class BlockQueue {
 public:
  using Real = typename View::Real;
  static constexpr int64 kNone = BlockOrder::kNone;

  template <class Loss>
  BlockQueue(const Epoch<Loss, View>& epoch, Range range)
      : view_(epoch.view),
        state_(epoch.state),
        options_(epoch.options),
        visits_(epoch.visits),
        order_(epoch.order, range),
        distance_(maximum(1, kRowsAhead / epoch.options.block_rows)) {
    start();
  }

  // Place of the first row of the block, and how many rows it has.
  int64 first() const { return first_; }
  int count() const { return count_; }
  // Place of the row of visit j; behind the last that of the next block's first, or kNone.
  int64 place(int j) const {
    if (j < count_) return first_ + orders_[now_ % 2][j];
    return next_count_ == 0 ? kNone : at(1) + orders_[(now_ + 1) % 2][0];
  }

  [[gnu::noinline]] void move_on() {
    ++now_;
    firsts_[(now_ + 2 * distance_) % kRing] = next_first();
    first_ = at(0), count_ = next_count_;
    shuffle_next();
    look_ahead();
  }

  // To be called once a row of the block.
  void ask() {
    if (visits_.rows == nullptr) return ahead_.ask();
    if (n_asked_ < n_near_) ask_for_row(visits_.rows[at(distance_) + n_asked_]);
    if (n_asked_ < n_far_) ask_for_state(visits_.rows[at(2 * distance_) + n_asked_]);
    ++n_asked_;
  }

 private:
  static constexpr int kRing = 16, kRowsAhead = 4;

  [[gnu::noinline]] void start() {
    for (int k = 0; k < 2 * distance_; ++k) firsts_[k + 1] = next_first();
    // Once more, so that the first block is this one.
    shuffle_next();
    move_on();
  }

  int64 at(int ahead) const { return firsts_[(now_ + ahead) % kRing]; }
  int64 next_first() {
    const int64 block = order_.next();
    return block == kNone ? kNone : block * options_.block_rows;
  }
  // How many rows a block has whose first is at that place.
  int count_of(int64 first) const {
    if (first == kNone) return 0;
    return static_cast<int>(minimum<int64>(options_.block_rows, visits_.n_rows - first));
  }

  void shuffle_next() {
    uint8* const order = orders_[(now_ + 1) % 2];
    next_count_ = count_of(at(1));
    if (next_count_ == 0) return;
    shuffle_block(options_.seed, ~options_.epoch, at(1) / options_.block_rows, next_count_, order);
  }

  void look_ahead() {
    const int64 near = at(distance_), far = at(2 * distance_);
    n_near_ = count_of(near), n_far_ = count_of(far), n_asked_ = 0;
    if (visits_.rows != nullptr) return;
    ahead_ = {};
    if (n_near_ > 0) ahead_ = {view_, near, n_near_, options_.block_rows};
    if (n_far_ == 0) return;
    prefetch_offset(view_, far);
    prefetch_states(state_, far, n_far_);
  }

  void ask_for_row(int64 row) const { RowsAhead<View>(view_, row, 1, 1).ask(); }
  void ask_for_state(int64 row) const {
    prefetch_offset(view_, row);
    prefetch_states(state_, row, 1);
  }

  const View& view_;
  const DualState<Real>& state_;
  const EpochOptions& options_;
  const RowVisits<Real>& visits_;
  BlockOrder order_;
  const int distance_;  // of the near block; the far one is twice as far
  uint32 now_ = 0;
  int n_near_ = 0, n_far_ = 0, n_asked_ = 0;
  int64 first_ = kNone;
  int count_ = 0, next_count_ = 0;
  int64 firsts_[kRing];
  uint8 orders_[2][kBlockRows];  // inside this block and the next
  RowsAhead<View> ahead_;
};

// Visits the blocks at positions [range.begin, range.end) of the random order, on `vector`.
template <class Access, class Loss, class View>
double sweep_blocks(const Epoch<Loss, View>& epoch, RowReader<View>& reader, Range range,
                    typename Loss::Real* vector, double sigma) {
  using Real = typename Loss::Real;
  const auto& [loss, view, state, options, visits, interrupt, order] = epoch;
  const Real tau = static_cast<Real>(state.intercept.tau);
  const Real factor = static_cast<Real>(sigma * options.outer);
  const Real relaxed = static_cast<Real>(options.relaxation) * factor;
  Real* const bias = vector + view.n_cols;
  const bool is_far = view.n_cols * static_cast<int64>(sizeof(Real)) > kNearBytes;
  const auto ask_for_vector = [&view = epoch.view, &visits = epoch.visits, vector](int64 place) {
    if (place != BlockOrder::kNone) prefetch_gathered(view, visits.row(place), vector);
  };
  double gap = 0;
  BlockQueue<View> blocks(epoch, range);
  for (int64 position = range.begin; position < range.end; ++position, blocks.move_on()) {
    if (position % kPollBlocks == 0) interrupt.poll();
    if (interrupt.requested()) break;
    const int count = blocks.count();
    if (visits.rows == nullptr) reader.load(blocks.first(), count);
    Real block_gap = 0;
    for (int j = 0; j < count; ++j) {
      blocks.ask();
      const int64 place = blocks.place(j), i = visits.row(place);
      const Real c = state.weight_of(i);
      if (c == Real(0)) continue;
      const auto row = visits.rows == nullptr ? reader.row(static_cast<int>(place - blocks.first()))
                                              : reader.at(i);
      const Real norm_sq = state.row_norms_sq == nullptr ? static_cast<Real>(row_norm_sq(row))
                                                         : state.row_norms_sq[i];
      // Far offsets may cancel each other: in float64.
      const Real fixed = static_cast<Real>(state.intercept.offset + state.offset_of(i));
      const Real z = row_dot<Access>(row, vector) + fixed + tau * Access::load(bias);
      if (is_far) ask_for_vector(blocks.place(j + 1));
      const Real stiffness = relaxed * c * (norm_sq + tau * tau);
      const auto step = coordinate_step(loss, state.duals[i], z, state.labels[i], stiffness);
      state.duals[i] = step.state;
      block_gap += c * step.gap;
      if (visits.row_gaps != nullptr) visits.row_gaps[i] = c * step.gap;
      const bool is_still = step.change == Real(0);
      if (visits.at_rest != nullptr) visits.at_rest[i] = is_still && step.gap == Real(0);
      if (is_still) continue;
      const Real scale = factor * c * step.change;
      row_add<Access>(row, scale, vector);
      if (tau != Real(0)) Access::add(bias, scale * tau);
    }
    gap += static_cast<double>(block_gap);
  }
  return gap;
}

// `replicas` null: one thread, or all threads on the shared vector itself.
template <class Loss, class View>
EpochReport run_epoch(Loss loss, const View& view, const DualState<typename Loss::Real>& state,
                      typename Loss::Real* replicas, const EpochOptions& options,
                      const RowVisits<typename Loss::Real>& visits, ThreadPool& pool,
                      Interrupt& interrupt) {
  using Real = typename Loss::Real;
  const int64 n_blocks = options.n_blocks(visits.n_rows);
  const Permutation order(options.seed, options.epoch, n_blocks);
  const Epoch<Loss, View> epoch{loss, view, state, options, visits, interrupt, order};
  std::vector<RowReader<View>> readers(static_cast<std::size_t>(pool.size()),
                                       RowReader<View>(view));
  const auto sweep_with = [&](auto access) -> Sweep<Real> {
    return [&, access](int worker, Range range, Real* vector, double sigma) {
      RowReader<View>& reader = readers[static_cast<std::size_t>(worker)];
      return sweep_blocks<std::decay_t<decltype(access)>>(epoch, reader, range, vector, sigma);
    };
  };
  const Replicas<Real> vectors{state.shared, replicas, view.n_cols + 1};
  if (pool.size() == 1) return sweep_one_vector(vectors, n_blocks, pool, sweep_with(PlainAccess{}));
  if (replicas == nullptr) {
    return sweep_one_vector(vectors, n_blocks, pool, sweep_with(RelaxedAccess{}));
  }
  return sweep_replicas(vectors, n_blocks, options, pool, sweep_with(PlainAccess{}));
}

// An epoch over a shard whose loss is known already: run(replicas, options, visits).
template <class Real>
using EpochRunner =
    std::function<EpochReport(Real* replicas, const EpochOptions&, const RowVisits<Real>&)>;

}  // namespace snapml::native
