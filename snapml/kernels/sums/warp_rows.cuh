// The matrix as kernels see it, and the work of one warp on one row.
//
// A program is compiled for one layout: SNAPML_VIEW is a view of dense or of compressed rows, and
// SNAPML_INDEX the type of the indices of the latter. All kernels take the matrix as the same
// parameters, so that their text and their launches do not depend on the layout.
#pragma once

#include "snapml/views.hpp"
#include "sums/reduce.cuh"

namespace snapml::kernels {

using View = SNAPML_VIEW;
using Real = View::Real;
using Index = SNAPML_INDEX;

// Not all layouts, nor all kernels, use all of them.
#define SNAPML_MATRIX                                                                   \
  [[maybe_unused]] const Index *__restrict__ indptr,                                    \
      [[maybe_unused]] const Index *__restrict__ indices,                               \
      [[maybe_unused]] const Real *__restrict__ values, [[maybe_unused]] Real constant, \
      [[maybe_unused]] const Real *__restrict__ mean, [[maybe_unused]] int64 n_rows,    \
      [[maybe_unused]] int64 n_cols

template <class>
struct MatrixView;

template <>
struct MatrixView<DenseView<Real>> {
  static __device__ DenseView<Real> make(SNAPML_MATRIX) {
    return {values, mean, n_rows, n_cols, n_cols, 1};
  }
};

template <>
struct MatrixView<CompressedView<Real, Index>> {
  static __device__ CompressedView<Real, Index> make(SNAPML_MATRIX) {
    return {indptr, indices, values, n_rows, n_cols, constant};
  }
};

inline __device__ DenseRow<Real> row_of(const DenseView<Real>& view, int64 i) {
  return {view.values + i * view.row_stride, view.mean, view.n_cols};
}

inline __device__ int64 length(const DenseRow<Real>& row) { return row.n_cols; }
inline __device__ int64 column(const DenseRow<Real>&, int64 k) { return k; }

// Of the row as it is, and of the row that the descent works on.
inline __device__ Real plain_entry(const DenseRow<Real>& row, int64 k) { return row.values[k]; }
inline __device__ Real entry(const DenseRow<Real>& row, int64 k) {
  return row.mean == nullptr ? row.values[k] : row.values[k] - row.mean[k];
}

template <class I>
__device__ CompressedRow<Real, I> row_of(const CompressedView<Real, I>& view, int64 i) {
  return view.row(i);
}

template <class I>
__device__ int64 length(const CompressedRow<Real, I>& row) {
  return row.n_stored;
}

template <class I>
__device__ int64 column(const CompressedRow<Real, I>& row, int64 k) {
  return static_cast<int64>(row.indices[k]);
}

template <class I>
__device__ Real plain_entry(const CompressedRow<Real, I>& row, int64 k) {
  return row.values == nullptr ? row.constant : row.values[k];
}

template <class I>
__device__ Real entry(const CompressedRow<Real, I>& row, int64 k) {
  return plain_entry(row, k);
}

// Number of this warp in the grid, and how many there are; blocks in one dimension.
inline __device__ int64 warp_of_grid() {
  return static_cast<int64>(blockIdx.x) * warps_of_block() + warp_of_thread();
}
inline __device__ int64 warps_of_grid() { return static_cast<int64>(gridDim.x) * warps_of_block(); }

// Sum over the entries of a row of term(k), in all lanes.
template <class Sum, class Row, class Term>
__device__ Sum sum_over_row(const Row& row, Term term) {
  const int64 n = length(row);
  Sum sum = 0;
  for (int64 k = lane_of_thread(); k < n; k += kWarp) sum += term(k);
  return warp_sum(sum);
}

}  // namespace snapml::kernels
