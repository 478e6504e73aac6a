// An epoch of dual coordinate ascent, one warp a row (docs/algorithms.md, section 16).
//
// Many rows are in flight at once and do not see each other's changes; the stiffness of their steps
// is raised for that by the factor that the host measures from the sums kept here. Two schedules:
//   in rounds  all rows of a round step from the same vector, then the vector changes in fixed
//              point (visit_in_rounds): the same bits whatever the order of warps
//   at once    every warp goes through its rows on its own (visit_at_once), as in TPA-SCD
// Dense rows that fit shared memory have a third one, dense_rounds.cu.
#include "descent/descent.cuh"
#include "device/grid_barrier.cuh"
#include "snapml/random.hpp"
#include "sums/shared_vector.cuh"

namespace snapml::kernels {

// Takes the step of row i; returns, in every lane, the multiple of the row to add to the vector.
template <class Vector>
__device__ double visit(const View& view, const Shard& shard, const Vector& vector, int64 i,
                        VisitSums& sums) {
  const Real c = shard.weight_of(i);
  if (c == Real(0)) return 0;
  const auto row = row_of(view, i);
  const Real dot =
      sum_over_row<Real>(row, [&](int64 k) { return entry(row, k) * vector.load(column(row, k)); });
  double scale = 0;
  if (lane_of_thread() == 0) {
    const Real margin = dot + shard.tau * vector.load(view.n_cols);
    scale =
        shard.take_step(i, c, shard.norms_sq[i], shard.labels[i], margin, shard.duals + i, sums);
  }
  return __shfl_sync(kAllLanes, scale, 0);
}

template <class Vector>
__device__ void add_row(const View& view, int64 i, double scale, Real tau, const Vector& vector) {
  if (scale == 0) return;
  const auto row = row_of(view, i);
  const int64 n = length(row);
  for (int64 k = lane_of_thread(); k < n; k += kWarp) {
    vector.add(column(row, k), scale, entry(row, k));
  }
  if (lane_of_thread() == 0 && tau != Real(0)) vector.add(view.n_cols, scale, tau);
}

// order[p] is the row at position p: random blocks of `block_rows` rows, shuffled inside, as on the
// CPU. One thread a block. The last block leaves gaps, -1, where it is not full.
extern "C" __global__ void visiting_order(uint64 seed, uint64 epoch, int64 n_rows, int block_rows,
                                          int64* __restrict__ order) {
  const int64 n_blocks = (n_rows + block_rows - 1) / block_rows;
  const int64 position = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (position >= n_blocks) return;
  const int64 block = Permutation(seed, epoch, n_blocks)(position);
  const int64 first = block * block_rows;
  const int count = static_cast<int>(minimum<int64>(block_rows, n_rows - first));
  uint8 rows[kBlockRows];
  shuffle_block(seed, ~epoch, block, count, rows);
  for (int j = 0; j < block_rows; ++j) {
    order[position * block_rows + j] = j < count ? first + rows[j] : -1;
  }
}

// Every warp of the grid visits its share of the positions, one row after the other.
extern "C" __global__ void visit_at_once(SNAPML_MATRIX, SNAPML_SHARD,
                                         const int64* __restrict__ order, int64 n_positions,
                                         Real* entries, double* sums) {
  const View view = MatrixView<View>::make(indptr, indices, values, constant, mean, n_rows, n_cols);
  const Shard shard{labels, row_weights, weight, row_offsets, norms_sq,
                    duals,  tau,         offset, stiffness,   outer};
  const FloatVector<Real> vector{entries};
  const int64 n_warps = warps_of_grid();
  VisitSums visited;
  for (int64 position = warp_of_grid(); position < n_positions; position += n_warps) {
    const int64 i = order[position];
    if (i < 0) continue;
    const double scale = visit(view, shard, vector, i, visited);
    add_row(view, i, scale, tau, vector);
    __syncwarp();  // the warp's next row sees all of this one's changes
  }
  if (lane_of_thread() == 0) visited.add_to(sums, warp_of_grid(), n_warps);
}

// What the rows of a round, in slots, add to the shared vector: a warp takes every so many of them,
template <class I>
__device__ void add_round(const CompressedView<Real, I>& view, const int64* __restrict__ rows,
                          int64 n_slots, const double* scales, Real tau,
                          const FixedVector<Real>& vector) {
  for (int64 slot = warp_of_grid(); slot < n_slots; slot += warps_of_grid()) {
    if (scales[slot] != 0) add_row(view, rows[slot], scales[slot], tau, vector);
  }
}

// or 32 columns of 32 slots, a lane a column, and adds them up before it touches the vector.
// Column n_cols is the intercept's.
inline __device__ void add_round(const DenseView<Real>& view, const int64* __restrict__ rows,
                                 int64 n_slots, const double* scales, Real tau,
                                 const FixedVector<Real>& vector) {
  constexpr int kSlots = 32;
  const int64 n_strips = view.n_cols / kWarp + 1;  // of the columns and the intercept's
  const int64 n_units = n_strips * ((n_slots + kSlots - 1) / kSlots);
  for (int64 unit = warp_of_grid(); unit < n_units; unit += warps_of_grid()) {
    const int64 j = unit % n_strips * kWarp + lane_of_thread();
    const int64 begin = unit / n_strips * kSlots, end = minimum<int64>(begin + kSlots, n_slots);
    double sum = 0;
    for (int64 slot = begin; slot < end && j <= view.n_cols; ++slot) {
      if (scales[slot] == 0) continue;
      const Real x = j == view.n_cols ? tau : entry(row_of(view, rows[slot]), j);
      sum += scales[slot] * static_cast<double>(x);
    }
    if (sum != 0) vector.add(j, sum, Real(1));
  }
}

// Every row takes part in one of the rounds of `n_slots` positions; `scales` and `sums` have as
// many places, and `arrivals` is zero.
extern "C" __global__ void visit_in_rounds(SNAPML_MATRIX, SNAPML_SHARD,
                                           const int64* __restrict__ order, int64 n_positions,
                                           int64 n_slots, int64* words, double unit, double* scales,
                                           double* sums, uint64* arrivals) {
  const View view = MatrixView<View>::make(indptr, indices, values, constant, mean, n_rows, n_cols);
  const Shard shard{labels, row_weights, weight, row_offsets, norms_sq,
                    duals,  tau,         offset, stiffness,   outer};
  const FixedVector<Real> vector{words, unit, 1 / unit};
  GridBarrier barrier(arrivals);
  for (int64 first = 0; first < n_positions; first += n_slots) {
    const int64 n_taken = minimum(n_slots, n_positions - first);
    for (int64 slot = warp_of_grid(); slot < n_taken; slot += warps_of_grid()) {
      const int64 i = order[first + slot];
      VisitSums visited;
      const double scale = i < 0 ? 0.0 : visit(view, shard, vector, i, visited);
      if (lane_of_thread() == 0) {
        scales[slot] = scale;
        visited.add_to(sums, slot, n_slots);
      }
    }
    barrier.wait();
    add_round(view, order + first, n_taken, scales, tau, vector);
    barrier.wait();
  }
}

}  // namespace snapml::kernels
