// Margins, loss and gradient of compressed rows, a warp a row.
//
// compressed_pass reads the rows once (their second visit hits the cache) and adds to the gradient
// with atomics: fast, and not the same to the last bit twice. compressed_slopes leaves the slopes
// behind instead, for the columns to gather (columns.cu): equal runs then give equal bits.
//
// coef is (K x (n_cols + 1)), margins and slopes (K x n_rows), parts (gridDim.x x (K + 1)): the
// sums of the slopes times bias_column, then the loss.
#include "compressed.cuh"
#include "outputs.cuh"

namespace snapml::kernels {

// Shared memory of a block, in doubles: K numbers of each warp twice. fused_pass.py says the same.
struct WarpSums {
  double* slopes;       // of the warp's row
  double* bias_slopes;  // summed over the warp's rows

  __device__ WarpSums(double* memory, int n_outputs)
      : slopes(memory + warp_of_thread() * n_outputs),
        bias_slopes(memory + (warps_of_block() + warp_of_thread()) * n_outputs) {
    for (int k = lane_of_thread(); k < n_outputs; k += kWarp) bias_slopes[k] = 0;
  }

  // The rows' sums of a block, in the order of its warps; `memory` is what the constructor got.
  __device__ void store(double* memory, int n_outputs, double bias_column, double loss,
                        double* part) const {
    loss = block_sum(loss, memory);  // the slopes' place; has a barrier before it writes
    const double* const all = memory + warps_of_block() * n_outputs;
    for (int k = static_cast<int>(threadIdx.x); k < n_outputs; k += static_cast<int>(blockDim.x)) {
      double sum = 0;
      for (int w = 0; w < warps_of_block(); ++w) sum += all[w * n_outputs + k];
      part[k] = bias_column * sum;
    }
    if (threadIdx.x == 0) part[n_outputs] = loss;
  }
};

// Fills the margins of row i, leaves its slopes in `sums` for all lanes; the loss is lane 0's.
__device__ __forceinline__ double row_slopes(const Row& row, const Targets& targets, int64 i,
                                             const Sum* __restrict__ coef, int64 stride,
                                             double bias_column, const WarpSums& sums,
                                             double* __restrict__ margins) {
  double loss = 0;
#pragma unroll 1
  for (int k = 0; k < targets.n_outputs; ++k) {
    const Sum* const w = coef + k * stride;
    const double dot = static_cast<double>(warp_dot(row, w));
    if (lane_of_thread() == 0) {
      const double z = dot + bias_column * static_cast<double>(w[stride - 1]);
      margins[k * targets.n_rows + i] = sums.slopes[k] = z;
    }
  }
  if (lane_of_thread() == 0) loss = Outputs::slopes(targets, i, sums.slopes);
  __syncwarp();
  for (int k = lane_of_thread(); k < targets.n_outputs; k += kWarp) {
    sums.bias_slopes[k] += sums.slopes[k];
  }
  return loss;
}

extern "C" __global__ void compressed_pass(
    const Index* __restrict__ indptr, const Index* __restrict__ indices,
    const Real* __restrict__ values, double constant, int64 n_rows, int64 n_cols,
    const Real* __restrict__ labels, const Real* __restrict__ row_weights, int64 weight_stride,
    double weight, const Sum* __restrict__ coef, int64 n_outputs, double bias_column,
    double* __restrict__ margins, double* __restrict__ gradient, double* __restrict__ parts) {
  extern __shared__ double memory[];
  const int outputs = static_cast<int>(n_outputs);
  const int64 stride = n_cols + 1;
  const View view{indptr, indices, values, n_rows, n_cols, static_cast<Real>(constant)};
  const Targets targets{labels, row_weights, weight_stride, weight, n_rows, outputs};
  const WarpSums sums(memory, outputs);
  double loss = 0;
  for (int64 i = first_of_warp(); i < n_rows; i += warps_of_grid()) {
    const Row row = view.row(i);
    loss += row_slopes(row, targets, i, coef, stride, bias_column, sums, margins);
#pragma unroll 1
    for (int k = 0; k < outputs; ++k) {
      const Sum slope = static_cast<Sum>(sums.slopes[k]);
      if (slope == Sum(0)) continue;  // beyond a hinge
      for (int64 e = lane_of_thread(); e < row.n_stored; e += kWarp) {
        atomicAdd(gradient + k * stride + row.indices[e],
                  static_cast<double>(slope * entry_of(row, e)));
      }
    }
    __syncwarp();  // the next row's slopes take their place
  }
  sums.store(memory, outputs, bias_column, loss, parts + blockIdx.x * (outputs + 1));
}

extern "C" __global__ void compressed_slopes(
    const Index* __restrict__ indptr, const Index* __restrict__ indices,
    const Real* __restrict__ values, double constant, int64 n_rows, int64 n_cols,
    const Real* __restrict__ labels, const Real* __restrict__ row_weights, int64 weight_stride,
    double weight, const Sum* __restrict__ coef, int64 n_outputs, double bias_column,
    double* __restrict__ margins, Sum* __restrict__ slopes, double* __restrict__ parts) {
  extern __shared__ double memory[];
  const int outputs = static_cast<int>(n_outputs);
  const View view{indptr, indices, values, n_rows, n_cols, static_cast<Real>(constant)};
  const Targets targets{labels, row_weights, weight_stride, weight, n_rows, outputs};
  const WarpSums sums(memory, outputs);
  double loss = 0;
  for (int64 i = first_of_warp(); i < n_rows; i += warps_of_grid()) {
    loss += row_slopes(view.row(i), targets, i, coef, n_cols + 1, bias_column, sums, margins);
    for (int k = lane_of_thread(); k < outputs; k += kWarp) {
      slopes[k * n_rows + i] = static_cast<Sum>(sums.slopes[k]);
    }
    __syncwarp();  // the next row's slopes take their place
  }
  sums.store(memory, outputs, bias_column, loss, parts + blockIdx.x * (outputs + 1));
}

}  // namespace snapml::kernels
