// Products of dense rows' transpose with vectors over the rows, out = X^T s, for K vectors at once.
#include "device/types.cuh"
#include "snapml/math.hpp"
#include "sums/reduce.cuh"

namespace snapml::kernels {

constexpr int kStrands = 8;   // rows that a block reads at once
constexpr int kTogether = 4;  // vectors that share a read of the rows

// A block of 32 x 8 threads owns 32 neighbouring columns (blockIdx.x) and a strip of the rows
// (blockIdx.y); `parts` is (strips x K x n_cols), and what is added up later: equal runs give equal
// bits. Sums are double.
extern "C" __global__ void dense_products(const Real* __restrict__ values, int64 n_rows,
                                          int64 n_cols, const double* __restrict__ vectors,
                                          int64 n_vectors, double* __restrict__ parts) {
  __shared__ double strands[kStrands * kTogether * kWarp];
  const int strand = static_cast<int>(threadIdx.y), lane = static_cast<int>(threadIdx.x);
  const int64 j = static_cast<int64>(blockIdx.x) * kWarp + lane;
  const int64 strip = (n_rows + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * strip;
  const int64 end = minimum(begin + strip, n_rows);
  for (int64 first = 0; first < n_vectors; first += kTogether) {
    const int count = static_cast<int>(minimum<int64>(kTogether, n_vectors - first));
    double sums[kTogether] = {};
    for (int64 i = begin + strand; i < end; i += kStrands) {
      const double x = j < n_cols ? static_cast<double>(values[i * n_cols + j]) : 0.0;
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        if (k < count) sums[k] += x * vectors[(first + k) * n_rows + i];
      }
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) strands[(strand * kTogether + k) * kWarp + lane] = sums[k];
    __syncthreads();
    if (strand < count && j < n_cols) {
      double sum = 0;
      for (int s = 0; s < kStrands; ++s) sum += strands[(s * kTogether + strand) * kWarp + lane];
      parts[(blockIdx.y * n_vectors + first + strand) * n_cols + j] = sum;
    }
    __syncthreads();  // the next vectors' sums take their place
  }
}

}  // namespace snapml::kernels
