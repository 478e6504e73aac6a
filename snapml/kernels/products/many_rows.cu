// Products of compressed rows with the vectors of many models, each of one read of the rows.
//
// Vectors are (n_cols x n_models), numbers of rows (n_rows x n_models): a team of kPanel lanes, a
// lane a model, takes an entry's numbers in one transaction. X^T S are the products of the rows of
// X^T. Sums are double, in an order that depends on the launch alone. Macros: see warp_rows.cuh.
#include "snapml/math.hpp"
#include "sums/warp_rows.cuh"

namespace snapml::kernels {

constexpr int kPanel = 16;
// Longer rows are cut into pieces, each of a block: else one team would be at work for long.
constexpr int64 kPieces = 16;

__device__ __forceinline__ int lane_of_team() { return static_cast<int>(threadIdx.x) % kPanel; }
__device__ __forceinline__ int team_of_block() { return static_cast<int>(threadIdx.x) / kPanel; }
__device__ __forceinline__ int teams_of_block() { return static_cast<int>(blockDim.x) / kPanel; }

// Sum over a row's entries k = begin, begin + step, ... below end, of one model's products.
template <class Row>
__device__ __forceinline__ double dot(const Row& row, int64 begin, int64 end, int64 step,
                                      bool is_squared, const Real* __restrict__ vector,
                                      int64 n_models) {
  double sum = 0;
#pragma unroll 4
  for (int64 k = begin; k < end; k += step) {
    const double x = static_cast<double>(plain_entry(row, k));
    sum += (is_squared ? x * x : x) * static_cast<double>(vector[column(row, k) * n_models]);
  }
  return sum;
}

// A team a row and panel; rows of more than `most_entries` are left out.
extern "C" __global__ void short_rows(SNAPML_MATRIX, const Real* __restrict__ vectors,
                                      int64 n_models, int64 is_squared, int64 most_entries,
                                      Real* __restrict__ out) {
  const View view = MatrixView<View>::make(indptr, indices, values, constant, mean, n_rows, n_cols);
  const int64 n_panels = n_models / kPanel;
  const int64 first = static_cast<int64>(blockIdx.x) * teams_of_block() + team_of_block();
  const int64 step = static_cast<int64>(gridDim.x) * teams_of_block();
  for (int64 unit = first; unit < n_rows * n_panels; unit += step) {
    const int64 i = unit / n_panels, model = unit % n_panels * kPanel + lane_of_team();
    const auto row = row_of(view, i);
    const int64 n = length(row);
    if (n > most_entries) continue;
    const double sum = dot(row, 0, n, 1, is_squared != 0, vectors + model, n_models);
    out[i * n_models + model] = static_cast<Real>(sum);
  }
}

// A block a piece of a row and a panel, its teams taking turns over the entries. Leaves the sums in
// parts (kPieces x n_long x n_models).
extern "C" __global__ void long_rows(SNAPML_MATRIX, const Real* __restrict__ vectors,
                                     int64 n_models, int64 is_squared,
                                     const int64* __restrict__ chosen, int64 n_long,
                                     double* __restrict__ parts) {
  extern __shared__ double sums[];
  const View view = MatrixView<View>::make(indptr, indices, values, constant, mean, n_rows, n_cols);
  const int64 n_panels = n_models / kPanel, n_units = kPieces * n_long * n_panels;
  for (int64 unit = blockIdx.x; unit < n_units; unit += gridDim.x) {
    const int64 model = unit % n_panels * kPanel + lane_of_team();
    const int64 at = unit / n_panels % n_long, piece = unit / n_panels / n_long;
    const auto row = row_of(view, chosen[at]);
    const int64 n = length(row), size = (n + kPieces - 1) / kPieces;
    const int64 begin = piece * size, end = minimum(begin + size, n);
    sums[threadIdx.x] = dot(row, begin + team_of_block(), end, teams_of_block(), is_squared != 0,
                            vectors + model, n_models);
    __syncthreads();
    if (team_of_block() == 0) {
      double sum = 0;
      for (int team = 0; team < teams_of_block(); ++team) {
        sum += sums[team * kPanel + lane_of_team()];
      }
      parts[(piece * n_long + at) * n_models + model] = sum;
    }
    __syncthreads();
  }
}

}  // namespace snapml::kernels
