// Coordinate descent on the columns of a quadratic model, many at once (docs/algorithms.md,
// section 17).
//
// The rows of the matrix are the model's columns. All columns of a round step from the same h_i
// u_i, u = X x the change of the margins, held in fixed point, which then changes by all of their
// steps: the same bits whatever the order of warps. Columns hold anything from one entry to one of
// every row, so that a round takes three launches: a warp sums a piece of a column, a thread takes
// the step of a column, a warp adds a piece. Macros: those of warp_rows.cuh.
#include "snapml/penalties.hpp"
#include "sums/shared_vector.cuh"
#include "sums/warp_rows.cuh"

namespace snapml::kernels {

constexpr int64 kPieceEntries = 2048;

// The pieces of a round's columns: `count` of them from `first` on.
struct Pieces {
  const int64* offsets;    // first piece of each column
  const int64* column_of;  // of each piece
  int64 first;
  int64 count;
};

#define SNAPML_PIECES const int64 *offsets, const int64 *column_of, int64 first, int64 count

// Calls visit(piece, column, begin, end) for this warp's share of the pieces, which reach from
// entry `begin` of their column to before `end`.
template <class Visit>
__device__ void for_each_piece(const View& view, const Pieces& pieces, Visit visit) {
  for (int64 p = warp_of_grid(); p < pieces.count; p += warps_of_grid()) {
    const int64 j = pieces.column_of[pieces.first + p];
    const int64 begin = (pieces.first + p - pieces.offsets[j]) * kPieceEntries;
    visit(p, j, begin, minimum(begin + kPieceEntries, length(row_of(view, j))));
  }
}

// parts[p] = sum over the entries of a piece of x_i h_i u_i. Columns of which resting[j] is not 0
// are left out; null: none rests.
extern "C" __global__ void piece_slopes(SNAPML_MATRIX, SNAPML_PIECES,
                                        const uint8* __restrict__ resting,
                                        const int64* __restrict__ words, double unit,
                                        double* __restrict__ parts) {
  const View view = MatrixView<View>::make(indptr, indices, values, constant, mean, n_rows, n_cols);
  const Pieces pieces{offsets, column_of, first, count};
  for_each_piece(view, pieces, [&](int64 p, int64 j, int64 begin, int64 end) {
    if (resting != nullptr && resting[j] != 0) return;
    const auto row = row_of(view, j);
    double sum = 0;
    for (int64 k = begin + lane_of_thread(); k < end; k += kWarp) {
      const double state = static_cast<double>(words[column(row, k)]) * unit;
      sum += static_cast<double>(plain_entry(row, k)) * state;
    }
    sum = warp_sum(sum);
    if (lane_of_thread() == 0) parts[p] = sum;
  });
}

// The steps of the `n_columns` columns from `first_column` on, a thread each, on `damping` times
// the curvature of `squares`. A free intercept always takes its best value: the slope of column j
// is less by the mean of h_i u_i, which `mean_word` holds, times `pull` sums_j; null without one.
// Adds step * slope to totals[2 slot], and step^2 squares to totals[2 slot + 1].
extern "C" __global__ void column_steps(
    const int64* __restrict__ offsets, int64 first_column, int64 n_columns,
    const double* __restrict__ parts, const uint8* __restrict__ resting,
    const double* __restrict__ slopes, const double* __restrict__ squares,
    const double* __restrict__ sums, double pull, const int64* __restrict__ mean_word, double unit,
    double l1, double l2, int is_positive, double damping, double* __restrict__ coef,
    double* __restrict__ steps, double* __restrict__ totals) {
  const ElasticNet<double> penalty{l1, l2, is_positive != 0};
  const int64 slot = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (slot >= n_columns) return;
  const int64 j = first_column + slot;
  steps[slot] = 0;
  if (resting != nullptr && resting[j] != 0) return;
  double slope = slopes[j];
  const int64 first = offsets[first_column];
  for (int64 p = offsets[j]; p < offsets[j + 1]; ++p) slope += parts[p - first];
  if (sums != nullptr) slope -= static_cast<double>(*mean_word) * unit * pull * sums[j];
  const double next = penalty.minimiser(coef[j], slope, damping * squares[j]);
  const double step = next - coef[j];
  if (step == 0) return;
  coef[j] = next;
  steps[slot] = step;
  totals[2 * slot] += step * slope;
  totals[2 * slot + 1] += step * step * squares[j];
}

// h u += h times the columns of a round times their steps; the word behind holds the mean of h u.
extern "C" __global__ void piece_updates(SNAPML_MATRIX, SNAPML_PIECES, int64 first_column,
                                         const double* __restrict__ steps,
                                         const double* __restrict__ curvatures,
                                         const double* __restrict__ sums, int64* words,
                                         double unit) {
  const View view = MatrixView<View>::make(indptr, indices, values, constant, mean, n_rows, n_cols);
  const Pieces pieces{offsets, column_of, first, count};
  const FixedVector<Real> vector{words, unit, 1 / unit};
  for_each_piece(view, pieces, [&](int64, int64 j, int64 begin, int64 end) {
    const double step = steps[j - first_column];
    if (step == 0) return;
    const auto row = row_of(view, j);
    for (int64 k = begin + lane_of_thread(); k < end; k += kWarp) {
      const int64 i = column(row, k);
      vector.add(i, step * curvatures[i], plain_entry(row, k));
    }
    if (sums != nullptr && begin == 0 && lane_of_thread() == 0) {
      vector.add(view.n_cols, step * sums[j] / static_cast<double>(view.n_cols), Real(1));
    }
  });
}

}  // namespace snapml::kernels
