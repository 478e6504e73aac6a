// What the losses say at margins that an earlier pass left behind: nothing here reads the matrix.
//
// A thread takes a row, and keeps the numbers of its K outputs in shared memory; the grid runs over
// the rows with the stride of its threads. Arrays of margins are (K x n_rows). Sums go to `parts`,
// one row of them for each block.
#include "losses/outputs.cuh"
#include "sums/reduce.cuh"

namespace snapml::kernels {

// The K numbers of this thread. The distance of two threads is odd: a warp uses all banks.
__device__ __forceinline__ double* numbers_of_thread(double* memory, int n_outputs) {
  return memory + static_cast<int>(threadIdx.x) * (n_outputs | 1);
}

__device__ __forceinline__ int64 first_of_thread() {
  return static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ int64 threads_of_grid() {
  return static_cast<int64>(gridDim.x) * blockDim.x;
}

// Loss, and its slope in `step`, on margins + step * (trial - margins).
extern "C" __global__ void line_point(const Real* __restrict__ labels,
                                      const Real* __restrict__ row_weights, int64 weight_stride,
                                      double weight, int64 n_rows, int64 n_outputs,
                                      const double* __restrict__ margins,
                                      const double* __restrict__ trial, double step,
                                      double* __restrict__ parts) {
  extern __shared__ double memory[];
  const int outputs = static_cast<int>(n_outputs);
  const Targets targets{labels, row_weights, weight_stride, weight, n_rows, outputs};
  double* const z = numbers_of_thread(memory, outputs);
  double loss = 0, slope = 0;
  for (int64 i = first_of_thread(); i < n_rows; i += threads_of_grid()) {
    for (int k = 0; k < outputs; ++k) {
      const double start = margins[k * n_rows + i];
      z[k] = start + step * (trial[k * n_rows + i] - start);
    }
    loss += Outputs::slopes(targets, i, z);
    for (int k = 0; k < outputs; ++k) {
      slope += z[k] * (trial[k * n_rows + i] - margins[k * n_rows + i]);
    }
  }
  loss = block_sum(loss, memory);
  slope = block_sum(slope, memory);
  if (threadIdx.x == 0) {
    parts[2 * static_cast<int64>(blockIdx.x)] = loss;
    parts[2 * static_cast<int64>(blockIdx.x) + 1] = slope;
  }
}

// Slopes c_i l', and the loss.
extern "C" __global__ void slopes(const Real* __restrict__ labels,
                                  const Real* __restrict__ row_weights, int64 weight_stride,
                                  double weight, int64 n_rows, int64 n_outputs,
                                  const double* __restrict__ margins, double* __restrict__ out,
                                  double* __restrict__ parts) {
  extern __shared__ double memory[];
  const int outputs = static_cast<int>(n_outputs);
  const Targets targets{labels, row_weights, weight_stride, weight, n_rows, outputs};
  double* const z = numbers_of_thread(memory, outputs);
  double loss = 0;
  for (int64 i = first_of_thread(); i < n_rows; i += threads_of_grid()) {
    for (int k = 0; k < outputs; ++k) z[k] = margins[k * n_rows + i];
    loss += Outputs::slopes(targets, i, z);
    for (int k = 0; k < outputs; ++k) out[k * n_rows + i] = z[k];
  }
  loss = block_sum(loss, memory);
  if (threadIdx.x == 0) parts[blockIdx.x] = loss;
}

// c_i l'' of separate outputs, the probabilities of the softmax.
extern "C" __global__ void curvatures(const Real* __restrict__ labels,
                                      const Real* __restrict__ row_weights, int64 weight_stride,
                                      double weight, int64 n_rows, int64 n_outputs,
                                      const double* __restrict__ margins,
                                      double* __restrict__ out) {
  extern __shared__ double memory[];
  const int outputs = static_cast<int>(n_outputs);
  const Targets targets{labels, row_weights, weight_stride, weight, n_rows, outputs};
  double* const z = numbers_of_thread(memory, outputs);
  for (int64 i = first_of_thread(); i < n_rows; i += threads_of_grid()) {
    for (int k = 0; k < outputs; ++k) z[k] = margins[k * n_rows + i];
    Outputs::curvatures(targets, i, z);
    for (int k = 0; k < outputs; ++k) out[k * n_rows + i] = z[k];
  }
}

// The losses' Hessian in the margins times directions in them, which the products replace.
extern "C" __global__ void curvature_products(const Real* __restrict__ labels,
                                              const Real* __restrict__ row_weights,
                                              int64 weight_stride, double weight, int64 n_rows,
                                              int64 n_outputs, const double* __restrict__ margins,
                                              double* __restrict__ directions) {
  extern __shared__ double memory[];
  const int outputs = static_cast<int>(n_outputs);
  const Targets targets{labels, row_weights, weight_stride, weight, n_rows, outputs};
  double* const z = numbers_of_thread(memory, 2 * outputs);
  double* const u = z + outputs;
  for (int64 i = first_of_thread(); i < n_rows; i += threads_of_grid()) {
    for (int k = 0; k < outputs; ++k) {
      z[k] = margins[k * n_rows + i];
      u[k] = directions[k * n_rows + i];
    }
    Outputs::curvature_products(targets, i, z, u);
    for (int k = 0; k < outputs; ++k) directions[k * n_rows + i] = u[k];
  }
}

}  // namespace snapml::kernels
