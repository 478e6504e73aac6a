// Dense rows in centred and scaled columns, and what those are made from: sums over the rows.
#include "device/types.cuh"
#include "snapml/math.hpp"
#include "sums/reduce.cuh"

namespace snapml::kernels {

constexpr int kStrands = 8;  // rows that a block of `column_sums` reads at once

// The sums over a strip of the rows (blockIdx.y) of x_ij, or, where there is a centre, of
// (x_ij - centre_j)^2. A block of 32 x 8 threads owns 32 neighbouring columns (blockIdx.x); `parts`
// is (strips x n_cols), and what is added up later: equal runs give equal bits.
extern "C" __global__ void column_sums(const Real* __restrict__ values, int64 n_rows, int64 n_cols,
                                       const double* __restrict__ centre,
                                       double* __restrict__ parts) {
  __shared__ double strands[kStrands * kWarp];
  const int strand = static_cast<int>(threadIdx.y), lane = static_cast<int>(threadIdx.x);
  const int64 j = static_cast<int64>(blockIdx.x) * kWarp + lane;
  const int64 strip = (n_rows + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * strip;
  const int64 end = minimum(begin + strip, n_rows);
  const double middle = centre != nullptr && j < n_cols ? centre[j] : 0.0;
  double sum = 0;
  if (j < n_cols) {
    for (int64 i = begin + strand; i < end; i += kStrands) {
      const double x = static_cast<double>(values[i * n_cols + j]) - middle;
      sum += centre != nullptr ? x * x : x;
    }
  }
  strands[strand * kWarp + lane] = sum;
  __syncthreads();
  if (strand != 0 || j >= n_cols) return;
  for (int s = 1; s < kStrands; ++s) sum += strands[s * kWarp + lane];
  parts[blockIdx.y * n_cols + j] = sum;
}

// out_i = sqrt(weight_i) ((x_i - mean) / scale, bias), a warp a row; without weights they are 1.
extern "C" __global__ void scale_rows(const Real* __restrict__ values, int64 n_rows, int64 n_cols,
                                      const double* __restrict__ mean,
                                      const double* __restrict__ scale,
                                      const double* __restrict__ weights, double bias,
                                      Sum* __restrict__ out) {
  const int64 n_warps = static_cast<int64>(gridDim.x) * warps_of_block();
  for (int64 i = static_cast<int64>(blockIdx.x) * warps_of_block() + warp_of_thread(); i < n_rows;
       i += n_warps) {
    const double root = weights != nullptr ? sqrt(weights[i]) : 1.0;
    for (int64 j = lane_of_thread(); j <= n_cols; j += kWarp) {
      double x = bias;
      if (j < n_cols) x = (static_cast<double>(values[i * n_cols + j]) - mean[j]) / scale[j];
      out[i * (n_cols + 1) + j] = static_cast<Sum>(root * x);
    }
  }
}

}  // namespace snapml::kernels
