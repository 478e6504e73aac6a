// Adds up what the blocks of a launch left behind, and long vectors.
#include "sums/reduce.cuh"

namespace snapml::kernels {

constexpr int kStrands = 8;

// out[j] = sum over p of parts[p * size + j]. A block of 32 x 8 threads owns 32 neighbouring
// columns j; row s of its threads adds the parts s, s + 8, ..., and row 0 adds up the rows.
extern "C" __global__ void parts_sum(const double* __restrict__ parts, int64 n_parts, int64 size,
                                     double* __restrict__ out) {
  __shared__ double strands[kStrands * kWarp];
  const int strand = static_cast<int>(threadIdx.y), lane = static_cast<int>(threadIdx.x);
  const int64 j = static_cast<int64>(blockIdx.x) * kWarp + lane;
  double sum = 0;
  if (j < size) {
    for (int64 p = strand; p < n_parts; p += kStrands) sum += parts[p * size + j];
  }
  strands[strand * kWarp + lane] = sum;
  __syncthreads();
  if (strand != 0 || j >= size) return;
  for (int s = 1; s < kStrands; ++s) sum += strands[s * kWarp + lane];
  out[j] = sum;
}

// parts[b * n_vectors + k] = what block b of the launch's first direction visits of vector k, the
// second one's: n_vectors = gridDim.y vectors of `size` numbers, one after the other.
extern "C" __global__ void vector_parts(const double* __restrict__ vectors, int64 size,
                                        double* __restrict__ parts) {
  __shared__ double scratch[kWarp];
  const double* own = vectors + blockIdx.y * size;
  double sum = 0;
  for (int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += static_cast<int64>(gridDim.x) * blockDim.x) {
    sum += own[i];
  }
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) parts[static_cast<int64>(blockIdx.x) * gridDim.y + blockIdx.y] = sum;
}

}  // namespace snapml::kernels
