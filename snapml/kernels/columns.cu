// Products of compressed columns with vectors over the rows, without atomics.
//
// Columns of click logs hold anything from one entry to one of every row. They are cut into pieces
// of bounded length, a warp sums a piece, and a second kernel adds up the pieces of a column in
// their order. columns.py makes the pieces.
#include "compressed.cuh"

namespace snapml::kernels {

// sums[k * n_pieces + p] = sum over the entries e of piece p of x_e vectors[k * n_rows + row_e].
extern "C" __global__ void piece_products(const int64* __restrict__ begins,
                                          const int64* __restrict__ ends, int64 n_pieces,
                                          const Index* __restrict__ indices,
                                          const Real* __restrict__ values, double constant,
                                          int64 n_rows, const Sum* __restrict__ vectors,
                                          int64 n_outputs, double* __restrict__ sums) {
  for (int64 p = first_of_warp(); p < n_pieces; p += warps_of_grid()) {
    const Row piece{indices + begins[p], values == nullptr ? nullptr : values + begins[p],
                    ends[p] - begins[p], static_cast<Real>(constant)};
    for (int64 k = 0; k < n_outputs; ++k) {
      const Sum* const vector = vectors + k * n_rows;
      double sum = 0;  // over rows, so not a warp_dot
      for (int64 e = lane_of_thread(); e < piece.n_stored; e += kWarp) {
        sum += static_cast<double>(entry_of(piece, e) * vector[piece.indices[e]]);
      }
      sum = warp_sum(sum);
      if (lane_of_thread() == 0) sums[k * n_pieces + p] = sum;
    }
  }
}

// out[k * out_stride + j] = sum of the pieces offsets[j] up to offsets[j + 1]; a thread a column.
extern "C" __global__ void pieces_sum(const int64* __restrict__ offsets, int64 n_cols,
                                      int64 n_pieces, const double* __restrict__ sums,
                                      int64 n_outputs, int64 out_stride, double* __restrict__ out) {
  const int64 step = static_cast<int64>(gridDim.x) * blockDim.x;
  for (int64 j = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; j < n_cols; j += step) {
    for (int64 k = 0; k < n_outputs; ++k) {
      double sum = 0;
      for (int64 p = offsets[j]; p < offsets[j + 1]; ++p) sum += sums[k * n_pieces + p];
      out[k * out_stride + j] = sum;
    }
  }
}

}  // namespace snapml::kernels
