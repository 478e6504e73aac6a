// What one read of dense rows gives without any loss: squared norms, and margins.
//
// A warp takes a row, its lanes take entries; the grid runs over the rows with the stride of its
// warps. Norms are added in double. `coef` is (n_outputs x (n_cols + 1)), the last column belonging
// to the intercept's constant column of value `bias_column`; `margins` is (n_outputs x n_rows).
#include "device/types.cuh"
#include "sums/reduce.cuh"

namespace snapml::kernels {

__device__ __forceinline__ int64 first_of_warp() {
  return static_cast<int64>(blockIdx.x) * warps_of_block() + warp_of_thread();
}
__device__ __forceinline__ int64 warps_of_grid() {
  return static_cast<int64>(gridDim.x) * warps_of_block();
}

extern "C" __global__ void dense_row_norms(const Real* __restrict__ values, int64 n_rows,
                                           int64 n_cols, double* __restrict__ norms_sq) {
  for (int64 i = first_of_warp(); i < n_rows; i += warps_of_grid()) {
    double sum = 0;
    for (int64 j = lane_of_thread(); j < n_cols; j += kWarp) {
      const double x = static_cast<double>(values[i * n_cols + j]);
      sum += x * x;
    }
    sum = warp_sum(sum);
    if (lane_of_thread() == 0) norms_sq[i] = sum;
  }
}

extern "C" __global__ void dense_margins(const Real* __restrict__ values, int64 n_rows,
                                         int64 n_cols, const Sum* __restrict__ coef,
                                         int64 n_outputs, double bias_column,
                                         double* __restrict__ margins) {
  for (int64 i = first_of_warp(); i < n_rows; i += warps_of_grid()) {
    for (int64 k = 0; k < n_outputs; ++k) {
      const Sum* const w = coef + k * (n_cols + 1);
      Sum sum = 0;
      for (int64 j = lane_of_thread(); j < n_cols; j += kWarp) {
        sum += static_cast<Sum>(values[i * n_cols + j]) * w[j];
      }
      const double z = static_cast<double>(warp_sum(sum));
      if (lane_of_thread() == 0) {
        margins[k * n_rows + i] = z + bias_column * static_cast<double>(w[n_cols]);
      }
    }
  }
}

}  // namespace snapml::kernels
