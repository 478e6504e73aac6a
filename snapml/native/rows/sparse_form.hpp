// Dense rows without the numbers that most rows have: zeros, or one number for each column.
#pragma once

#include <algorithm>

#include "snapml/views.hpp"

namespace snapml::native {

// Entries of dense rows, in arrays with room for `most`.
template <class Real, class Index>
struct EntryArrays {
  Index* indptr;
  Index* indices;
  Real* entries;
  int64 most;
};

// Fills the entries of rows whose numbers lie side by side; returns how many there are, or more
// than there is room for. `left` says what a number is beside its column's.
template <class Real, class Index, class Left>
int64 fill_from_rows(const DenseView<Real>& x, const EntryArrays<Real, Index>& to, Left left) {
  int64 n = 0;
  to.indptr[0] = 0;
  for (int64 i = 0; i < x.n_rows; ++i) {
    const Real* const row = x.values + i * x.row_stride;
    for (int64 j = 0; j < x.n_cols; ++j) {
      const Real value = left(row[j], j);
      if (value == 0) continue;
      if (n == to.most) return n + 1;
      to.indices[n] = static_cast<Index>(j), to.entries[n] = value, ++n;
    }
    to.indptr[i + 1] = static_cast<Index>(n);
  }
  return n;
}

// The same of any rows, by columns: their numbers may lie side by side.
template <class Real, class Index, class Left>
int64 fill_from_columns(const DenseView<Real>& x, const EntryArrays<Real, Index>& to, Left left) {
  const auto each = [&](auto call) {
    for (int64 j = 0; j < x.n_cols; ++j) {
      for (int64 i = 0; i < x.n_rows; ++i) {
        const Real value = left(x.values[i * x.row_stride + j * x.col_stride], j);
        if (value != 0) call(i, j, value);
      }
    }
  };
  Index* const indptr = to.indptr;
  std::fill(indptr, indptr + x.n_rows + 1, Index{0});
  each([&](int64 i, int64, Real) { ++indptr[i + 1]; });
  for (int64 i = 0; i < x.n_rows; ++i) indptr[i + 1] += indptr[i];
  const int64 n = static_cast<int64>(indptr[x.n_rows]);
  if (n > to.most) return n;
  each([&](int64 i, int64 j, Real value) {
    const auto place = static_cast<int64>(indptr[i]++);
    to.indices[place] = static_cast<Index>(j), to.entries[place] = value;
  });
  for (int64 i = x.n_rows; i > 0; --i) indptr[i] = indptr[i - 1];  // each has come to the next
  indptr[0] = 0;
  return n;
}

// Without the zeros, or where `common` is given without its number of each column.
template <class Real, class Index>
int64 fill_entries(const DenseView<Real>& x, const Real* common,
                   const EntryArrays<Real, Index>& to) {
  const auto fill = [&](auto left) {
    return x.col_stride == 1 ? fill_from_rows(x, to, left) : fill_from_columns(x, to, left);
  };
  if (common == nullptr) return fill([](Real value, int64) { return value; });
  return fill([common](Real value, int64 j) { return value - common[j]; });
}

}  // namespace snapml::native
