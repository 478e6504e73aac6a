// Hands out the rows of one block as contiguous rows, whatever the layout of the matrix.
#pragma once

#include <vector>

#include "snapml/views.hpp"

namespace snapml::native {

template <class View>
class RowReader;

template <class Real, class Index>
class RowReader<CompressedView<Real, Index>> {
 public:
  explicit RowReader(const CompressedView<Real, Index>& view) : view_(view) {}
  void load(int64 first, int /*count*/) { first_ = first; }
  CompressedRow<Real, Index> row(int j) const { return view_.row(first_ + j); }
  CompressedRow<Real, Index> at(int64 i) const { return view_.row(i); }

 private:
  const CompressedView<Real, Index>& view_;
  int64 first_ = 0;
};

// A column-major or strided block is packed first: its 16 rows share cache lines, one row alone
// would touch n_cols of them.
template <class Real>
class RowReader<DenseView<Real>> {
 public:
  explicit RowReader(const DenseView<Real>& view) : view_(view) {
    if (view.col_stride != 1 && view.n_cols > 1) {
      packed_.resize(static_cast<std::size_t>(kBlockRows * view.n_cols));
    }
  }

  void load(int64 first, int count) {
    first_ = view_.values + first * view_.row_stride;
    if (packed_.empty()) return;
    for (int64 column = 0; column < view_.n_cols; ++column) {
      const Real* source = first_ + column * view_.col_stride;
      for (int j = 0; j < count; ++j) {
        packed_[static_cast<std::size_t>(j * view_.n_cols + column)] = source[j * view_.row_stride];
      }
    }
  }

  // From a row of this block to the same row of the next, in elements; 0 where rows are packed.
  int64 ahead() const { return packed_.empty() ? kBlockRows * view_.row_stride : 0; }

  DenseRow<Real> row(int j) const {
    const Real* values =
        packed_.empty() ? first_ + j * view_.row_stride : packed_.data() + j * view_.n_cols;
    return {values, view_.mean, view_.n_cols};
  }

  // Any row, of contiguous ones.
  DenseRow<Real> at(int64 i) const {
    return {view_.values + i * view_.row_stride, view_.mean, view_.n_cols};
  }

 private:
  const DenseView<Real>& view_;
  const Real* first_ = nullptr;
  std::vector<Real> packed_;
};

}  // namespace snapml::native
