// Copies of a few columns, in the order that coordinate descent reads them.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "dual/objective.hpp"
#include "snapml/views.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

// out(i, p) = x(i, columns[p]); a column of number n_cols is the constant one of the intercept.
// The copy is row-major, or column-major where `by_columns`.
template <class Real>
void pack_dense(const DenseView<Real>& view, const int64* columns, int64 count, Real constant,
                bool by_columns, Real* out, ThreadPool& pool, Interrupt& interrupt) {
  constexpr int64 kRows = 64;
  const int64 row_step = by_columns ? 1 : count, col_step = by_columns ? view.n_rows : 1;
  pool.run([&](int worker) {
    const Range rows = share(view.n_rows, pool.size(), worker);
    for (int64 first = rows.begin; first < rows.end; first += kRows) {
      interrupt.poll();
      if (interrupt.requested()) return;
      const int64 last = minimum(first + kRows, rows.end);
      const auto copy = [&](int64 i, int64 p) {
        const Real* source = view.values + i * view.row_stride + columns[p] * view.col_stride;
        out[i * row_step + p * col_step] = columns[p] == view.n_cols ? constant : *source;
      };
      if (by_columns) {
        for (int64 p = 0; p < count; ++p) {
          for (int64 i = first; i < last; ++i) copy(i, p);
        }
      } else {
        for (int64 i = first; i < last; ++i) {
          for (int64 p = 0; p < count; ++p) copy(i, p);
        }
      }
    }
  });
}

// out(k, p) = (x(first + k, p) - mean[p]) * root[k]: a block whose products with itself add up to
// a centred and weighted Gram matrix. Centred before it is multiplied, so that columns far from
// zero lose no digits.
template <class Real>
void weighted_block(const DenseView<Real>& view, int64 first, int64 count, const double* mean,
                    const double* root, Real* out, ThreadPool& pool, Interrupt& interrupt) {
  pool.run([&](int worker) {
    const Range rows = share(count, pool.size(), worker);
    for (int64 k = rows.begin; k < rows.end && !interrupt.requested(); ++k) {
      if (k % 16 == 0) interrupt.poll();
      const Real* source = view.values + (first + k) * view.row_stride;
      Real* target = out + k * view.n_cols;
      const double scale = root[k];
      for (int64 p = 0; p < view.n_cols; ++p) {
        const double entry = static_cast<double>(source[p * view.col_stride]) - mean[p];
        target[p] = static_cast<Real>(entry * scale);
      }
    }
  });
}

// How many entries of each kept column every worker's rows hold; counts is workers x (n_kept + 1),
// and entries of other columns count in the first place: a branch would be guessed wrong too often.
template <class Real, class Index>
void count_entries(const CompressedView<Real, Index>& view, const int64* positions, int64 n_kept,
                   int64* counts, ThreadPool& pool, Interrupt& interrupt) {
  pool.run([&](int worker) {
    int64* const mine = counts + worker * (n_kept + 1);
    for (int64 p = 0; p <= n_kept; ++p) mine[p] = 0;
    for_each_row(view, share(view.n_rows, pool.size(), worker), interrupt,
                 [&](int64, const auto& row) {
                   for (int64 k = 0; k < row.n_stored; ++k) {
                     ++mine[positions[row.indices[k]] + 1];
                   }
                 });
  });
}

// Fills compressed columns; offsets (workers x (n_kept + 1)) say where each worker writes next. The
// first of each is one place for the entries of all other columns. Returns whether every entry
// found its place within the `size` ones: the test costs nothing beside the scattered writes, and a
// count of what the offsets must leave room for would be one more read of all indices.
template <class Real, class Index, class RowIndex>
bool fill_columns(const CompressedView<Real, Index>& view, const int64* positions, int64 n_kept,
                  int64* offsets, RowIndex* indices, Real* values, int64 size, ThreadPool& pool,
                  Interrupt& interrupt) {
  std::atomic<bool> fits{true};
  pool.run([&](int worker) {
    int64* const next = offsets + worker * (n_kept + 1);
    for_each_row(view, share(view.n_rows, pool.size(), worker), interrupt,
                 [&](int64 i, const auto& row) {
                   for (int64 k = 0; k < row.n_stored; ++k) {
                     const int64 p = positions[row.indices[k]];
                     const int64 at = next[p + 1];
                     if (static_cast<uint64>(at) >= static_cast<uint64>(size)) {
                       fits.store(false, std::memory_order_relaxed);
                       return;
                     }
                     next[p + 1] += p >= 0;
                     indices[at] = static_cast<RowIndex>(i);
                     if (values != nullptr) values[at] = row.values[k];
                   }
                 });
  });
  return fits.load();
}

}  // namespace snapml::native
