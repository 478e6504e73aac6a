// What must be true of a matrix before a sweep may trust it, and what is worth knowing about it.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "dual/objective.hpp"
#include "rows/row_operations.hpp"
#include "snapml/views.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

struct RowFacts {
  bool finite = true;
  bool sorted = true;      // every row's indices strictly increase
  double norm_sq_sum = 0;  // sum_i ||x_i||^2, inf or nan where an entry is
};

// Throws where an offset or index would lead a sweep outside the arrays.
template <class Index>
void check_offsets(const Index* indptr, int64 n_rows, int64 n_stored) {
  if (indptr[0] != 0) {
    throw std::invalid_argument("indptr must start with 0, got " + std::to_string(indptr[0]));
  }
  for (int64 i = 0; i < n_rows; ++i) {
    if (indptr[i + 1] < indptr[i]) {
      throw std::invalid_argument("indptr must not decrease, got " + std::to_string(indptr[i]) +
                                  " then " + std::to_string(indptr[i + 1]) + " at row " +
                                  std::to_string(i));
    }
  }
  if (static_cast<int64>(indptr[n_rows]) > n_stored) {
    throw std::invalid_argument("indptr ends at " + std::to_string(indptr[n_rows]) + ", but only " +
                                std::to_string(n_stored) + " indices are stored");
  }
}

template <class Index>
void check_indices(const Index* indices, int64 n_stored, int64 n_cols, ThreadPool& pool) {
  const int parts = pool.size();
  std::vector<int64> wrong(static_cast<std::size_t>(parts), -1);
  pool.run([&](int worker) {
    const Range range = share(n_stored, parts, worker);
    for (int64 k = range.begin; k < range.end; ++k) {
      // One comparison finds negative indices too.
      if (static_cast<uint64>(static_cast<int64>(indices[k])) >= static_cast<uint64>(n_cols)) {
        wrong[static_cast<std::size_t>(worker)] = k;
        return;
      }
    }
  });
  for (int64 k : wrong) {
    if (k < 0) continue;
    throw std::invalid_argument("column indices must lie in [0, " + std::to_string(n_cols) +
                                "), got " + std::to_string(indices[k]) + " at position " +
                                std::to_string(k));
  }
}

template <class Real, class Index>
bool is_increasing(const CompressedRow<Real, Index>& row) {
  bool increasing = true;
  for (int64 k = 1; k < row.n_stored; ++k) increasing &= row.indices[k - 1] < row.indices[k];
  return increasing;
}

template <class Real>
bool is_increasing(const DenseRow<Real>&) {
  return true;
}

template <class Real>
bool entries_are_finite(const DenseRow<Real>& row) {
  for (int64 j = 0; j < row.n_cols; ++j) {
    if (!std::isfinite(row.values[j])) return false;
  }
  return true;
}

template <class Real, class Index>
bool entries_are_finite(const CompressedRow<Real, Index>& row) {
  if (row.values == nullptr) return std::isfinite(row.constant);
  for (int64 k = 0; k < row.n_stored; ++k) {
    if (!std::isfinite(row.values[k])) return false;
  }
  return true;
}

// One read of the matrix: row norms (where `norms` is not null), finiteness, order of indices.
template <class View>
RowFacts inspect_rows(const View& view, typename View::Real* norms, ThreadPool& pool,
                      Interrupt& interrupt) {
  std::vector<RowFacts> parts(static_cast<std::size_t>(pool.size()));
  pool.run([&](int worker) {
    RowFacts facts;
    for_each_row(view, share(view.n_rows, pool.size(), worker), interrupt,
                 [&](int64 i, const auto& row) {
                   const double norm_sq = row_norm_sq(row);
                   // Squares of finite float64 may overflow: only then look at every entry.
                   if (!std::isfinite(norm_sq)) facts.finite &= entries_are_finite(row);
                   facts.norm_sq_sum += norm_sq;
                   facts.sorted &= is_increasing(row);
                   if (norms != nullptr) norms[i] = static_cast<typename View::Real>(norm_sq);
                 });
    parts[static_cast<std::size_t>(worker)] = facts;
  });
  RowFacts total;
  for (const RowFacts& part : parts) {
    total.finite &= part.finite;
    total.sorted &= part.sorted;
    total.norm_sq_sum += part.norm_sq_sum;
  }
  return total;
}

// Whether any row stores a column twice; asked only where indices are unsorted.
template <class Real, class Index>
bool has_duplicates(const CompressedView<Real, Index>& view) {
  std::vector<int64> last_row(static_cast<std::size_t>(view.n_cols), -1);
  for (int64 i = 0; i < view.n_rows; ++i) {
    const auto row = view.row(i);
    for (int64 k = 0; k < row.n_stored; ++k) {
      int64& seen = last_row[static_cast<std::size_t>(row.indices[k])];
      if (seen == i) return true;
      seen = i;
    }
  }
  return false;
}

// Whether all n values are bitwise the first one, so that they need not be read again.
template <class Real>
bool all_equal(const Real* values, int64 n) {
  for (int64 k = 1; k < n; ++k) {
    if (values[k] != values[0]) return false;
  }
  return n > 0;
}

}  // namespace snapml::native
