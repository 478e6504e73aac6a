// An epoch of dual coordinate ascent in rounds over dense rows, which are read once.
//
// As visit_in_rounds of coordinate_descent.cu, but a block keeps its rows of a round in shared
// memory between their steps and the change of the vector, and its own copy of the vector beside
// them. The rows of the next round arrive while blocks wait for each other, once a round: what a
// round changes is added up in one of three arrays in turn. While blocks that are ahead add to the
// next one, others may still read this one, and nobody has to do with the third.
#include "descent/descent.cuh"
#include "device/async_copy.cuh"
#include "device/copy_span.cuh"
#include "device/grid_barrier.cuh"
#include "sums/shared_vector.cuh"

namespace snapml::kernels {

constexpr int kRowsTogether = 2;  // rows of a warp that share its reads of the vector
constexpr int kMaxThreads = 512;

// Shared memory of a block. DenseRoundsShape of dense_rounds.py adds up the same sizes.
struct Tile {
  int n_slots;
  int row_stride;
  Real* rows;      // n_slots x row_stride
  Real* facts[4];  // n_slots each: labels, norms_sq, states, weights (where they differ)
  Real* vector;    // row_stride + 1, the intercept's column last
  int64* words;    // n_cols + 1: the same in fixed point
  double* scales;  // n_slots
  int64* numbers;  // n_slots: of the rows, -1 where there is none

  __device__ Tile(double* memory, int n_slots, int n_cols)
      : n_slots(n_slots), row_stride(round_up(n_cols)) {
    rows = reinterpret_cast<Real*>(memory);
    Real* next = rows + static_cast<int64>(n_slots) * row_stride;
    for (Real*& fact : facts) {
      fact = next;
      next += round_up(n_slots);
    }
    vector = next;
    words = reinterpret_cast<int64*>(vector + round_up(n_cols + 1));
    scales = reinterpret_cast<double*>(words + n_cols + 1);
    numbers = reinterpret_cast<int64*>(scales + n_slots);
  }

  // Whole words of 16 bytes.
  static __device__ int round_up(int count) {
    constexpr int kOfWord = 16 / sizeof(Real);
    return (count + kOfWord - 1) / kOfWord * kOfWord;
  }
};

// The part of an epoch that one block has: the slots [begin, begin + tile.n_slots) of every round.
struct BlockRounds {
  DenseView<Real> view;
  Shard shard;
  Tile tile;
  const int64* order;
  int64 n_positions, n_slots;  // of the epoch, and of a round

  __device__ int64 number_at(int64 first, int slot) const {
    const int64 in_round = static_cast<int64>(blockIdx.x) * tile.n_slots + slot;
    const bool is_one = slot < tile.n_slots && in_round < n_slots && first + in_round < n_positions;
    return is_one ? order[first + in_round] : -1;
  }

  // Begins to copy the rows whose numbers are in the tile. Where there is none, its row is zero.
  __device__ void fetch() const {
    const int thread = static_cast<int>(threadIdx.x);
    for (int slot = warp_of_thread(); slot < tile.n_slots; slot += warps_of_block()) {
      const int64 i = tile.numbers[slot];
      Real* const row = tile.rows + static_cast<int64>(slot) * tile.row_stride;
      if (i >= 0) {
        copy_span(row, view.values + i * view.row_stride, view.n_cols, lane_of_thread(), kWarp);
      } else {
        for (int64 j = lane_of_thread(); j < view.n_cols; j += kWarp) row[j] = 0;
      }
    }
    if (thread >= tile.n_slots || tile.numbers[thread] < 0) return;
    const int64 i = tile.numbers[thread];
    copy_async<sizeof(Real)>(tile.facts[0] + thread, shard.labels + i);
    copy_async<sizeof(Real)>(tile.facts[1] + thread, shard.norms_sq + i);
    copy_async<sizeof(Real)>(tile.facts[2] + thread, shard.duals + i);
    if (shard.row_weights == nullptr) return;
    copy_async<sizeof(Real)>(tile.facts[3] + thread, shard.row_weights + i);
  }

  __device__ void subtract_mean() const {
    for (int slot = warp_of_thread(); slot < tile.n_slots; slot += warps_of_block()) {
      if (tile.numbers[slot] < 0) continue;
      Real* const row = tile.rows + static_cast<int64>(slot) * tile.row_stride;
      for (int64 j = lane_of_thread(); j < view.n_cols; j += kWarp) row[j] -= view.mean[j];
    }
  }

  // Steps of this warp's rows: lane r takes that of its r-th one.
  __device__ void take_steps(VisitSums& sums) const {
    const int lane = lane_of_thread();
    for (int first = warp_of_thread() * kRowsTogether; first < tile.n_slots;
         first += warps_of_block() * kRowsTogether) {
      Real dots[kRowsTogether] = {};
      for (int64 j = lane; j < view.n_cols; j += kWarp) {
        const Real v = tile.vector[j];
#pragma unroll
        for (int r = 0; r < kRowsTogether; ++r) {
          const int slot = minimum(first + r, tile.n_slots - 1);
          dots[r] += tile.rows[static_cast<int64>(slot) * tile.row_stride + j] * v;
        }
      }
      Real dot = 0;
#pragma unroll
      for (int r = 0; r < kRowsTogether; ++r) {
        const Real sum = warp_sum(dots[r]);
        if (lane == r) dot = sum;
      }
      const int slot = first + lane;
      if (lane < kRowsTogether && slot < tile.n_slots) tile.scales[slot] = step(slot, dot, sums);
    }
  }

  __device__ double step(int slot, Real dot, VisitSums& sums) const {
    const int64 i = tile.numbers[slot];
    if (i < 0) return 0;
    const Real c = shard.row_weights == nullptr ? shard.weight : tile.facts[3][slot];
    if (c == Real(0)) return 0;
    const Real margin = dot + shard.tau * tile.vector[view.n_cols];
    Real* const state = tile.facts[2] + slot;
    const double scale =
        shard.take_step(i, c, tile.facts[1][slot], tile.facts[0][slot], margin, state, sums);
    shard.duals[i] = *state;
    return scale;
  }

  // Adds what this block's rows change, a thread a column.
  __device__ void add_changes(const FixedVector<Real>& changes) const {
    const int n_threads = static_cast<int>(blockDim.x);
    for (int64 j = threadIdx.x; j <= view.n_cols; j += n_threads) {
      const Real* const column = tile.rows + minimum(j, view.n_cols - 1);
      double sum = 0;
#pragma unroll 4
      for (int slot = 0; slot < tile.n_slots; ++slot) {
        const double scale = tile.scales[slot];
        const Real x =
            j == view.n_cols ? shard.tau : column[static_cast<int64>(slot) * tile.row_stride];
        sum += scale * static_cast<double>(x);
      }
      if (sum != 0) changes.add(j, sum, Real(1));
    }
  }
};

// `changes` is (3 x (n_cols + 1)) and `arrivals` one number, all zero; `sums` is (3 x threads).
extern "C" __global__ void __launch_bounds__(kMaxThreads, 1)
    dense_rounds(SNAPML_MATRIX, SNAPML_SHARD, const int64* __restrict__ order, int64 n_positions,
                 int64 n_slots, int64 slots_each, int64* words, double unit, int64* changes,
                 double* sums, uint64* arrivals) {
  extern __shared__ double memory[];
  const int thread = static_cast<int>(threadIdx.x), n_threads = static_cast<int>(blockDim.x);
  const int64 size = n_cols + 1;
  const Tile tile(memory, static_cast<int>(slots_each), static_cast<int>(n_cols));
  const Shard shard{labels, row_weights, weight, row_offsets, norms_sq,
                    duals,  tau,         offset, stiffness,   outer};
  const View view = MatrixView<View>::make(indptr, indices, values, constant, mean, n_rows, n_cols);
  const BlockRounds rounds{view, shard, tile, order, n_positions, n_slots};
  const FixedVector<Real> start{words, unit, 1 / unit};
  for (int64 j = thread; j < size; j += n_threads) {
    tile.words[j] = words[j];
    tile.vector[j] = start.load(j);
  }
  if (thread < tile.n_slots) tile.numbers[thread] = rounds.number_at(0, thread);
  __syncthreads();
  rounds.fetch();

  GridBarrier barrier(arrivals);
  VisitSums visited;
  int turn = 0;
  for (int64 first = 0; first < n_positions; first += n_slots) {
    const int64 upcoming = rounds.number_at(first + n_slots, thread);
    wait_for_copies();
    __syncthreads();
    if (mean != nullptr) {
      rounds.subtract_mean();
      __syncthreads();
    }
    rounds.take_steps(visited);
    __syncthreads();
    int64* const now = changes + turn * size;
    turn = (turn + 1) % 3;
    rounds.add_changes({now, unit, 1 / unit});
    // The next round's array: all have read it, as it was two rounds ago.
    for (int64 j = static_cast<int64>(blockIdx.x) * n_threads + thread; j < size;
         j += static_cast<int64>(gridDim.x) * n_threads) {
      changes[turn * size + j] = 0;
    }
    if (thread < tile.n_slots) tile.numbers[thread] = upcoming;
    __syncthreads();
    rounds.fetch();
    barrier.wait();
    for (int64 j = thread; j < size; j += n_threads) {
      tile.words[j] += __ldcg(now + j);
      tile.vector[j] = FixedVector<Real>{tile.words, unit, 1 / unit}.load(j);
    }
  }

  if (blockIdx.x == 0) {
    for (int64 j = thread; j < size; j += n_threads) words[j] = tile.words[j];
  }
  visited.add_to(sums, static_cast<int64>(blockIdx.x) * n_threads + thread,
                 static_cast<int64>(gridDim.x) * n_threads);
}

}  // namespace snapml::kernels
