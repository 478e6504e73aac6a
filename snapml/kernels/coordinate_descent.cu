// An epoch of dual coordinate ascent, one warp a row (docs/algorithms.md, section 16).
//
// Many rows are in flight at once and do not see each other's changes; the stiffness of their steps
// is raised for that by the factor that the host measures from the sums kept here. Two schedules:
//   rounds    all rows of a round step from the same vector (round_steps), then the vector changes
//             in fixed point (round_updates): the same bits whatever the order of warps
//   at once   every warp goes through its rows on its own (visit_rows), as in TPA-SCD
//
// Macros: SNAPML_LOSS, and those of warp_rows.cuh.
#include "shared_vector.cuh"
#include "snapml/coordinate_step.hpp"
#include "snapml/random.hpp"
#include "warp_rows.cuh"

namespace snapml::kernels {

using Loss = SNAPML_LOSS<Real>;

// The rows' problem and their states. The intercept's column has the value tau and stands last in
// the shared vector.
struct Shard {
  const Real* labels;
  const Real* row_weights;  // null: every row has `weight`
  Real weight;
  const Real* norms_sq;  // without the intercept's column
  Real* duals;
  Real tau;
  Real offset;
  Real stiffness;  // factor on c ||x||^2
  double outer;    // factor on changes of the shared vector

  __device__ Real weight_of(int64 i) const {
    return row_weights == nullptr ? weight : row_weights[i];
  }
};

#define SNAPML_SHARD                                                                           \
  const Real *labels, const Real *row_weights, Real weight, const Real *norms_sq, Real *duals, \
      Real tau, Real offset, Real stiffness, double outer

// What lane 0 of a warp adds up: with d = change of beta,
struct VisitSums {
  double gap = 0;     // the rows' gaps, each as it was visited
  double slope = 0;   // sum d (z - offset)
  double single = 0;  // sum d^2 ||x||^2

  __device__ void add_to(double* sums, int64 slot, int64 n_slots) const {
    sums[slot] += gap;
    sums[n_slots + slot] += slope;
    sums[2 * n_slots + slot] += single;
  }
};

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
    const Real norm_sq = shard.norms_sq[i] + shard.tau * shard.tau;
    const auto step = coordinate_step(Loss{}, shard.duals[i], margin + shard.offset,
                                      shard.labels[i], shard.stiffness * c * norm_sq);
    shard.duals[i] = step.state;
    const double change = static_cast<double>(c) * static_cast<double>(step.change);
    sums.gap += static_cast<double>(c) * static_cast<double>(step.gap);
    sums.slope += change * static_cast<double>(margin);
    sums.single += change * change * static_cast<double>(norm_sq);
    scale = shard.outer * change;
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
extern "C" __global__ void visit_rows(SNAPML_MATRIX, SNAPML_SHARD, const int64* __restrict__ order,
                                      int64 n_positions, Real* entries, double* sums) {
  const View view = MatrixView<View>::make(indptr, indices, values, constant, mean, n_rows, n_cols);
  const Shard shard{labels, row_weights, weight, norms_sq, duals, tau, offset, stiffness, outer};
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

// One warp for each of the `n_slots` positions from `first` on.
extern "C" __global__ void round_steps(SNAPML_MATRIX, SNAPML_SHARD, const int64* __restrict__ order,
                                       int64 n_positions, int64 first, int64 n_slots, int64* words,
                                       double unit, double* __restrict__ scales, double* sums) {
  const View view = MatrixView<View>::make(indptr, indices, values, constant, mean, n_rows, n_cols);
  const Shard shard{labels, row_weights, weight, norms_sq, duals, tau, offset, stiffness, outer};
  const FixedVector<Real> vector{words, unit, 1 / unit};
  const int64 slot = warp_of_grid();
  if (slot >= n_slots) return;
  const int64 i = first + slot < n_positions ? order[first + slot] : -1;
  VisitSums visited;
  const double scale = i < 0 ? 0.0 : visit(view, shard, vector, i, visited);
  if (lane_of_thread() != 0) return;
  scales[slot] = scale;
  visited.add_to(sums, slot, n_slots);
}

// What the slots of a round add to the shared vector, by layout: one warp for each slot,
template <class I>
__device__ void add_round(const CompressedView<Real, I>& view, const int64* __restrict__ rows,
                          int64 n_slots, const double* __restrict__ scales, Real tau,
                          const FixedVector<Real>& vector) {
  const int64 slot = warp_of_grid();
  if (slot < n_slots && scales[slot] != 0) add_row(view, rows[slot], scales[slot], tau, vector);
}

// or a block of 32 x kTeam threads for each 32 columns and kTeam * kRowsEach slots, which adds them
// up before it touches the vector. Column n_cols is the intercept's.
inline __device__ void add_round(const DenseView<Real>& view, const int64* __restrict__ rows,
                                 int64 n_slots, const double* __restrict__ scales, Real tau,
                                 const FixedVector<Real>& vector) {
  constexpr int kTeam = 8, kRowsEach = 4;
  __shared__ double parts[kTeam][kWarp];
  const int64 j = static_cast<int64>(blockIdx.x) * kWarp + threadIdx.x;
  const int64 begin = (static_cast<int64>(blockIdx.y) * kTeam + threadIdx.y) * kRowsEach;
  const int64 end = minimum<int64>(begin + kRowsEach, n_slots);
  double sum = 0;
  for (int64 slot = begin; slot < end && j <= view.n_cols; ++slot) {
    if (scales[slot] == 0) continue;
    const Real x = j == view.n_cols ? tau : entry(row_of(view, rows[slot]), j);
    sum += scales[slot] * static_cast<double>(x);
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || j > view.n_cols) return;
  for (int k = 1; k < kTeam; ++k) sum += parts[k][threadIdx.x];
  vector.add(j, sum, Real(1));
}

// Adds the changes of the `n_slots` rows at positions from `first` on.
extern "C" __global__ void round_updates(SNAPML_MATRIX, const int64* __restrict__ order,
                                         int64 first, int64 n_slots,
                                         const double* __restrict__ scales, Real tau, int64* words,
                                         double unit) {
  const View view = MatrixView<View>::make(indptr, indices, values, constant, mean, n_rows, n_cols);
  add_round(view, order + first, n_slots, scales, tau, {words, unit, 1 / unit});
}

}  // namespace snapml::kernels
