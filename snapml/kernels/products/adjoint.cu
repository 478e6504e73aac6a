// One read of the matrix in float64: margins X w, and X^T beta to the same bits every time.
//
// Compressed rows scatter into two words of fixed point a column: sums of integers do not depend on
// the order, and two words hold every addend to far below the rounding of float64, whatever share
// of the largest it is. Dense rows leave X^T beta to transposed.cu. Macros: see warp_rows.cuh.
#include "sums/shared_vector.cuh"
#include "sums/warp_rows.cuh"

namespace snapml::kernels {

// x in units of `per_unit`, and what is left of it in units 2^-32 of those. At most 2^32 addends
// fit into a word if their sum of absolute values stays below 2^62 units.
inline __device__ void add_wide(int64* words, double x, double per_unit) {
  constexpr double kFiner = 4294967296.0;
  const double scaled = x * per_unit;
  const int64 high = ::llrint(scaled);
  const int64 low = ::llrint((scaled - static_cast<double>(high)) * kFiner);
  add_word(words, high);
  if (low != 0) add_word(words + 1, low);
}

// A warp a row. Fills the margins, and adds X^T beta to words (n_cols x 2) unless `words` is null.
extern "C" __global__ void exact_rows(SNAPML_MATRIX, const Real* __restrict__ model, double bias,
                                      double* __restrict__ margins, const double* __restrict__ beta,
                                      double per_unit, int64* words) {
  const View view = MatrixView<View>::make(indptr, indices, values, constant, mean, n_rows, n_cols);
  for (int64 i = warp_of_grid(); i < n_rows; i += warps_of_grid()) {
    const auto row = row_of(view, i);
    const double dot = sum_over_row<double>(row, [&](int64 k) {
      return static_cast<double>(plain_entry(row, k)) * static_cast<double>(model[column(row, k)]);
    });
    if (lane_of_thread() == 0) margins[i] = dot + bias;
    if (words == nullptr || beta[i] == 0) continue;
    const int64 n = length(row);
    for (int64 k = lane_of_thread(); k < n; k += kWarp) {
      const double x = beta[i] * static_cast<double>(plain_entry(row, k));
      add_wide(words + 2 * column(row, k), x, per_unit);
    }
  }
}

}  // namespace snapml::kernels
