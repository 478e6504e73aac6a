// Margins, loss and gradient of dense rows (row-major) in one read of them.
//
// A team of `n_lanes` threads takes a tile of kTileRows rows: the lane's kColumns columns of each
// are loaded into registers, multiplied with the coefficients, and, once the slopes of the losses
// are known, added up into the team's gradient in shared memory. Teams are parts of a warp, or
// whole warps. Between the two products one thread a row turns margins into slopes. Every block
// leaves its sums in `parts`; parts_sum adds them up, in an order fixed by the launch.
//
// coef is (K x (n_cols + 1)), margins (K x n_rows), parts (gridDim.x x (K (n_cols + 1) + 1)): the
// gradient, whose last column belongs to the constant column of value bias_column, then the loss.
#include "outputs.cuh"
#include "reduce.cuh"

namespace snapml::kernels {

// Both together fill registers: few enough of them that several blocks share a multiprocessor, one
// of which loads while another one waits for its slopes. Loops whose length the launch decides are
// not unrolled: nvcc would spend the registers on copies of the loss.
constexpr int kColumns = SNAPML_COLUMNS;
constexpr int kTileRows = SNAPML_TILE_ROWS;
constexpr int kMaxThreads = 512;

// Shared memory of a block, in doubles. fused_pass.py adds up the same sizes.
struct Shared {
  int n_outputs, n_warps, slope_stride;
  double* gradients;  // teams x K x (n_cols + 1)
  double* partial;    // tile rows x K x warps of a team: sums of the margins
  double* slopes;     // tile rows x slope_stride: margins, then slopes

  __device__ Shared(double* memory, int n_teams, int n_lanes, int n_outputs, int stride)
      : n_outputs(n_outputs),
        n_warps((n_lanes + kWarp - 1) / kWarp),
        slope_stride(n_outputs | 1),  // odd: the threads of a warp use all banks
        gradients(memory),
        partial(gradients + n_teams * n_outputs * stride),
        slopes(partial + n_teams * kTileRows * n_outputs * n_warps) {}

  __device__ double* partial_of(int t, int output, int warp) const {
    return partial + (t * n_outputs + output) * n_warps + warp;
  }
};

// The columns lane, lane + n_lanes, ... of a tile of rows, as one thread holds them.
struct Tile {
  Real x[kTileRows][kColumns];

  __device__ __forceinline__ void load(const Real* __restrict__ rows, int64 n_rows, int n_cols,
                                       int lane, int n_lanes) {
#pragma unroll
    for (int r = 0; r < kTileRows; ++r) {
      const Real* const row = rows + static_cast<int64>(r) * n_cols;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int j = lane + c * n_lanes;
        x[r][c] = r < n_rows && j < n_cols ? row[j] : Real(0);
      }
    }
  }

  __device__ __forceinline__ void dots(const Sum* __restrict__ w, int n_cols, int lane, int n_lanes,
                                       Sum* z) const {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int j = lane + c * n_lanes;
      const Sum wj = j < n_cols ? w[j] : Sum(0);
#pragma unroll
      for (int r = 0; r < kTileRows; ++r) z[r] += static_cast<Sum>(x[r][c]) * wj;
    }
  }

  __device__ __forceinline__ void add(const Sum* slopes, int n_cols, int lane, int n_lanes,
                                      double* gradient) const {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int j = lane + c * n_lanes;
      Sum sum = 0;
#pragma unroll
      for (int r = 0; r < kTileRows; ++r) sum += slopes[r] * static_cast<Sum>(x[r][c]);
      if (j < n_cols) gradient[j] += static_cast<double>(sum);
    }
  }
};

// Margins of row i, the t-th of the tile, from the sums of its team's warps; slopes in their place.
__device__ __forceinline__ double finish_row(const Targets& targets, const Shared& shared, int t,
                                             int64 i, const Sum* __restrict__ coef, int n_cols,
                                             double bias_column, double* __restrict__ margins) {
  double* const z = shared.slopes + t * shared.slope_stride;
#pragma unroll 1
  for (int k = 0; k < targets.n_outputs; ++k) {
    double sum = bias_column * static_cast<double>(coef[k * (n_cols + 1) + n_cols]);
#pragma unroll 1
    for (int w = 0; w < shared.n_warps; ++w) sum += *shared.partial_of(t, k, w);
    z[k] = sum;
    margins[k * targets.n_rows + i] = sum;
  }
  return Outputs::slopes(targets, i, z);
}

extern "C" __global__ void __launch_bounds__(kMaxThreads, 1)
    dense_pass(const Real* __restrict__ values, int64 n_rows, int64 n_columns,
               const Real* __restrict__ labels, const Real* __restrict__ row_weights,
               int64 weight_stride, double weight, const Sum* __restrict__ coef, int64 n_outputs,
               double bias_column, int64 team_lanes, double* __restrict__ margins,
               double* __restrict__ parts) {
  extern __shared__ double memory[];
  const int thread = static_cast<int>(threadIdx.x), n_threads = static_cast<int>(blockDim.x);
  const int n_cols = static_cast<int>(n_columns), n_lanes = static_cast<int>(team_lanes);
  const int team = thread / n_lanes, lane = thread % n_lanes, n_teams = n_threads / n_lanes;
  const int stride = n_cols + 1, outputs = static_cast<int>(n_outputs), size = outputs * stride;
  const int tile_rows = n_teams * kTileRows;
  const Targets targets{labels, row_weights, weight_stride, weight, n_rows, outputs};
  const Shared shared(memory, n_teams, n_lanes, outputs, stride);
  double* const gradients = shared.gradients + team * size;
  for (int j = thread; j < n_teams * size; j += n_threads) shared.gradients[j] = 0;
  __syncthreads();

  double loss = 0;
  const int64 step = static_cast<int64>(gridDim.x) * tile_rows;
  for (int64 first = static_cast<int64>(blockIdx.x) * tile_rows; first < n_rows; first += step) {
    const int64 mine = first + team * kTileRows;
    Tile tile;
    tile.load(values + mine * n_cols, n_rows - mine, n_cols, lane, n_lanes);
#pragma unroll 1
    for (int k = 0; k < outputs; ++k) {
      Sum z[kTileRows] = {};
      tile.dots(coef + k * stride, n_cols, lane, n_lanes, z);
#pragma unroll
      for (int r = 0; r < kTileRows; ++r) {
        const Sum sum = team_sum(z[r], minimum(n_lanes, kWarp));
        if (lane % kWarp == 0)
          *shared.partial_of(team * kTileRows + r, k, lane / kWarp) = static_cast<double>(sum);
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int t = thread; t < tile_rows; t += n_threads) {
      if (first + t < n_rows) {
        loss += finish_row(targets, shared, t, first + t, coef, n_cols, bias_column, margins);
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < outputs; ++k) {
      Sum slopes[kTileRows];
#pragma unroll
      for (int r = 0; r < kTileRows; ++r) {
        const int t = team * kTileRows + r;
        const double slope = first + t < n_rows ? shared.slopes[t * shared.slope_stride + k] : 0.0;
        slopes[r] = static_cast<Sum>(slope);
        if (lane == 0) gradients[k * stride + n_cols] += bias_column * slope;
      }
      tile.add(slopes, n_cols, lane, n_lanes, gradients + k * stride);
    }
  }

  loss = block_sum(loss, shared.partial);
  double* const part = parts + static_cast<int64>(blockIdx.x) * (size + 1);
  for (int j = thread; j < size; j += n_threads) {
    double sum = 0;
    for (int t = 0; t < n_teams; ++t) sum += shared.gradients[t * size + j];
    part[j] = sum;
  }
  if (thread == 0) part[size] = loss;
}

}  // namespace snapml::kernels
