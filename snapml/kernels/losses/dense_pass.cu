// Margins, loss and gradient of dense rows (row-major) in one read of them.
//
// A block copies one tile of rows after the other into shared memory; the next one is on its way
// while this one is worked on. A team of `n_lanes` threads (a part of a warp, or whole warps) takes
// `team_rows` rows of a tile: a thread multiplies its columns of them with the coefficients and,
// once one thread a row has turned margins into slopes, adds them up, times the slopes, into the
// team's gradient. Every block leaves its sums in `parts`; parts_sum adds them up, in an order
// fixed by the launch.
//
// coef is (K x (n_cols + 1)), margins (K x n_rows), parts (gridDim.x x (K (n_cols + 1) + 1)): the
// gradient, whose last column belongs to the constant column of value bias_column, then the loss.
#include "device/async_copy.cuh"
#include "device/copy_span.cuh"
#include "losses/outputs.cuh"
#include "sums/reduce.cuh"

namespace snapml::kernels {

constexpr int kColumns = SNAPML_COLUMNS;     // of a thread
constexpr int kTeamRows = SNAPML_TEAM_ROWS;  // most rows of a team in a tile
constexpr int kMaxThreads = 512;

// How many threads, rows and outputs a block has, all as the launch decides.
struct Sizes {
  int n_cols, n_outputs, n_lanes, n_teams, team_rows;

  __device__ int tile_rows() const { return n_teams * team_rows; }
  __device__ int stride() const { return n_cols + 1; }  // of the outputs' coefficients
  __device__ int n_warps() const { return (n_lanes + kWarp - 1) / kWarp; }  // of a team
  __device__ int slope_stride() const { return n_outputs | 1; }  // odd: a warp uses all banks
};

// Rows with their labels and weights. The labels of a tile are (K x tile rows), as `Targets` are.
struct Tile {
  Real* rows;
  Real* labels;
  Real* weights;

  __device__ void fetch(const Real* values, const Targets& targets, int64 first, int count,
                        const Sizes& sizes) const {
    const int thread = static_cast<int>(threadIdx.x), n_threads = static_cast<int>(blockDim.x);
    copy_span(rows, values + first * sizes.n_cols, static_cast<int64>(count) * sizes.n_cols, thread,
              n_threads);
    const int n_labels = Outputs::n_labels(sizes.n_outputs);
    for (int t = thread; t < count; t += n_threads) {
      for (int k = 0; k < n_labels; ++k) {
        copy_async<sizeof(Real)>(labels + k * sizes.tile_rows() + t,
                                 targets.labels + k * targets.n_rows + first + t);
      }
      const int n_weights = targets.weight_stride == 0 ? 1 : sizes.n_outputs;
      for (int k = 0; targets.row_weights != nullptr && k < n_weights; ++k) {
        copy_async<sizeof(Real)>(weights + k * sizes.tile_rows() + t,
                                 targets.row_weights + k * targets.weight_stride + first + t);
      }
    }
  }

  // The targets of the tile's rows, which have the numbers 0, 1, ... here.
  __device__ Targets targets_of(const Targets& all, int tile_rows) const {
    return {labels,
            all.row_weights == nullptr ? nullptr : weights,
            all.weight_stride == 0 ? 0 : tile_rows,
            all.weight,
            tile_rows,
            all.n_outputs};
  }
};

// Shared memory of a block. fused_pass.py adds up the same sizes.
struct Shared {
  Real* tiles;  // two of them
  int tile_numbers;
  double* gradients;  // teams x K x (n_cols + 1)
  double* partial;    // tile rows x K x warps of a team: sums of the margins
  double* slopes;     // tile rows x slope_stride: margins, then slopes

  __device__ Shared(double* memory, const Sizes& sizes) : tiles(reinterpret_cast<Real*>(memory)) {
    constexpr int kOfWord = 16 / sizeof(Real);
    const int used = sizes.tile_rows() * (sizes.n_cols + 2 * sizes.n_outputs);
    tile_numbers = (used + kOfWord - 1) / kOfWord * kOfWord;
    gradients = reinterpret_cast<double*>(tiles + 2 * tile_numbers);
    partial = gradients + sizes.n_teams * sizes.n_outputs * sizes.stride();
    slopes = partial + sizes.tile_rows() * sizes.n_outputs * sizes.n_warps();
  }

  __device__ Tile tile(int turn, const Sizes& sizes) const {
    Real* const rows = tiles + turn * tile_numbers;
    Real* const labels = rows + sizes.tile_rows() * sizes.n_cols;
    return {rows, labels, labels + sizes.tile_rows() * sizes.n_outputs};
  }
};

// One thread's part of the rows of its team: every n_lanes-th column of every n_teams-th row. Loops
// have fixed lengths and no branches, so that loads overlap; what a short tile or row does not have
// is read from its last row or column, and counts for nothing.
struct Share {
  Sizes sizes;
  int team, lane;
  int turn;  // the first column, so that teams whose rows begin in the same bank use others

  __device__ Share(const Sizes& sizes, int thread)
      : sizes(sizes), team(thread / sizes.n_lanes), lane(thread % sizes.n_lanes) {
    turn = sizes.n_cols % (2 * sizes.n_lanes) == 0 ? team % kColumns : 0;
  }

  __device__ __forceinline__ int column(int c) const {
    const int turned = c + turn;
    return lane + (turned < kColumns ? turned : turned - kColumns) * sizes.n_lanes;
  }
  __device__ __forceinline__ int row(int r) const {
    return minimum(r, sizes.team_rows - 1) * sizes.n_teams + team;
  }
  __device__ __forceinline__ void find_rows(const Real* tile, const Real** rows) const {
#pragma unroll
    for (int r = 0; r < kTeamRows; ++r) rows[r] = tile + row(r) * sizes.n_cols;
  }

  // Sums of the products with the coefficients, by warps of the team.
  __device__ __forceinline__ void multiply(const Real* tile, const Sum* __restrict__ coef,
                                           int output, double* partial) const {
    const Real* rows[kTeamRows];
    find_rows(tile, rows);
    Sum z[kTeamRows] = {};
#pragma unroll 4
    for (int c = 0; c < kColumns; ++c) {
      const int j = column(c), at = minimum(j, sizes.n_cols - 1);
      const Sum w = j < sizes.n_cols ? coef[output * sizes.stride() + at] : Sum(0);
#pragma unroll
      for (int r = 0; r < kTeamRows; ++r) {
        z[r] += static_cast<Sum>(rows[r][at]) * w;
      }
    }
    for (int flip = minimum(sizes.n_lanes, kWarp) / 2; flip > 0; flip /= 2) {
#pragma unroll
      for (int r = 0; r < kTeamRows; ++r) z[r] += __shfl_xor_sync(kAllLanes, z[r], flip);
    }
    if (lane % kWarp != 0) return;
#pragma unroll
    for (int r = 0; r < kTeamRows; ++r) {
      const int number = row(r) * sizes.n_outputs + output;
      partial[number * sizes.n_warps() + lane / kWarp] = static_cast<double>(z[r]);
    }
  }

  // Adds the first `count` rows of the tile, times their slopes.
  __device__ __forceinline__ void add(const Real* tile, const double* slopes, int output, int count,
                                      double bias_column, double* gradient) const {
    const Real* rows[kTeamRows];
    find_rows(tile, rows);
    Sum slope[kTeamRows];
    double all = 0;
#pragma unroll
    for (int r = 0; r < kTeamRows; ++r) {
      const bool is_one = r < sizes.team_rows && row(r) < count;
      const double s = is_one ? slopes[row(r) * sizes.slope_stride() + output] : 0.0;
      all += s;
      slope[r] = static_cast<Sum>(s);
    }
    if (lane == 0) gradient[sizes.n_cols] += bias_column * all;
#pragma unroll 4
    for (int c = 0; c < kColumns; ++c) {
      const int j = column(c), at = minimum(j, sizes.n_cols - 1);
      Sum sum = 0;
#pragma unroll
      for (int r = 0; r < kTeamRows; ++r) {
        sum += slope[r] * static_cast<Sum>(rows[r][at]);
      }
      if (j < sizes.n_cols) gradient[j] += static_cast<double>(sum);
    }
  }
};

// Margins of row t of the tile, from the sums of its team's warps and its offsets; slopes in their
// place. Returns the row's loss.
__device__ __forceinline__ double finish_row(const Targets& targets, const Sizes& sizes,
                                             const Shared& shared, int t,
                                             const Sum* __restrict__ coef, double bias_column,
                                             const double* __restrict__ offsets,
                                             int64 offset_stride, double* __restrict__ margins,
                                             int64 n_rows) {
  double* const z = shared.slopes + t * sizes.slope_stride();
  const double* sums = shared.partial + t * sizes.n_outputs * sizes.n_warps();
#pragma unroll 1
  for (int k = 0; k < sizes.n_outputs; ++k) {
    double sum = bias_column * static_cast<double>(coef[k * sizes.stride() + sizes.n_cols]);
#pragma unroll 1
    for (int w = 0; w < sizes.n_warps(); ++w) sum += *sums++;
    if (offsets != nullptr) sum += offsets[k * offset_stride];
    z[k] = sum;
    margins[k * n_rows] = sum;
  }
  return Outputs::slopes(targets, t, z);
}

extern "C" __global__ void __launch_bounds__(kMaxThreads, 1)
    dense_pass(const Real* __restrict__ values, int64 n_rows, int64 n_columns,
               const Real* __restrict__ labels, const Real* __restrict__ row_weights,
               int64 weight_stride, double weight, const double* __restrict__ row_offsets,
               int64 offset_stride, const Sum* __restrict__ coef, int64 n_outputs,
               double bias_column, int64 team_lanes, int64 team_rows, double* __restrict__ margins,
               double* __restrict__ parts) {
  extern __shared__ double memory[];
  const int thread = static_cast<int>(threadIdx.x), n_threads = static_cast<int>(blockDim.x);
  const int n_lanes = static_cast<int>(team_lanes), outputs = static_cast<int>(n_outputs);
  const Sizes sizes{static_cast<int>(n_columns), outputs, n_lanes, n_threads / n_lanes,
                    static_cast<int>(team_rows)};
  const int size = outputs * sizes.stride(), tile_rows = sizes.tile_rows();
  const Targets targets{labels, row_weights, weight_stride, weight, n_rows, outputs};
  const Shared shared(memory, sizes);
  const Share share(sizes, thread);
  const auto rows_from = [&](int64 row) {
    return static_cast<int>(minimum<int64>(tile_rows, n_rows - row));
  };

  int64 first = static_cast<int64>(blockIdx.x) * tile_rows;
  if (first < n_rows) shared.tile(0, sizes).fetch(values, targets, first, rows_from(first), sizes);
  for (int j = thread; j < sizes.n_teams * size; j += n_threads) shared.gradients[j] = 0;
  // Rows that a tile does not have are multiplied too, with slopes of zero.
  for (int j = thread; j < tile_rows * sizes.n_cols; j += n_threads) {
    if (first >= n_rows || j >= rows_from(first) * sizes.n_cols) shared.tile(0, sizes).rows[j] = 0;
    shared.tile(1, sizes).rows[j] = 0;
  }

  double loss = 0;
  const int64 step = static_cast<int64>(gridDim.x) * tile_rows;
  for (int turn = 0; first < n_rows; first += step, turn ^= 1) {
    const Tile tile = shared.tile(turn, sizes);
    const int count = rows_from(first);
    wait_for_copies();
    __syncthreads();
    if (first + step < n_rows) {
      const int n_next = rows_from(first + step);
      shared.tile(turn ^ 1, sizes).fetch(values, targets, first + step, n_next, sizes);
    }
#pragma unroll 1
    for (int k = 0; k < outputs; ++k) share.multiply(tile.rows, coef, k, shared.partial);
    __syncthreads();
    const Targets here = tile.targets_of(targets, tile_rows);
#pragma unroll 1
    for (int t = thread; t < count; t += n_threads) {
      const double* const offsets = row_offsets == nullptr ? nullptr : row_offsets + first + t;
      loss += finish_row(here, sizes, shared, t, coef, bias_column, offsets, offset_stride,
                         margins + first + t, n_rows);
    }
    __syncthreads();
    double* const gradients = shared.gradients + share.team * size;
#pragma unroll 1
    for (int k = 0; k < outputs; ++k) {
      share.add(tile.rows, shared.slopes, k, count, bias_column, gradients + k * sizes.stride());
    }
  }

  loss = block_sum(loss, shared.partial);
  double* const part = parts + static_cast<int64>(blockIdx.x) * (size + 1);
  for (int j = thread; j < size; j += n_threads) {
    double sum = 0;
    for (int t = 0; t < sizes.n_teams; ++t) sum += shared.gradients[t * size + j];
    part[j] = sum;
  }
  if (thread == 0) part[size] = loss;
}

}  // namespace snapml::kernels
