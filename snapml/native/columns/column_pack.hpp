// Copies of a few columns, in the order that coordinate descent reads them, and their Gram matrix.
#pragma once

#include <algorithm>
#include <atomic>
#include <utility>
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

// The kept entries of a row, by rising columns, the constant one of the intercept last.
class KeptEntries {
 public:
  template <class Real, class Index>
  void see(const CompressedRow<Real, Index>& row, const int64* positions, int64 constant_at,
           double constant) {
    n_ = 0;
    entries_.resize(static_cast<std::size_t>(row.n_stored) + 1);
    for (int64 k = 0; k < row.n_stored; ++k) {
      const int64 p = positions[row.indices[k]];
      const Real entry = row.values == nullptr ? row.constant : row.values[k];
      entries_[n_] = {p, static_cast<double>(entry)};
      n_ += p >= 0;  // no branch: it would be guessed wrong too often
    }
    if (constant_at >= 0) entries_[n_++] = {constant_at, constant};
    bool is_rising = true;
    for (std::size_t k = 1; k < n_; ++k) is_rising &= entries_[k - 1].first < entries_[k].first;
    if (!is_rising) sort_and_merge();
  }

  // Adds h times the products of one column in `n_parts` with those before it to their rows.
  void add_products(double h, int64 n_kept, int64 part, int64 n_parts, double* out) const {
    for (std::size_t a = 0; a < n_; ++a) {
      if (n_parts > 1 && entries_[a].first % n_parts != part) continue;
      double* const target = out + entries_[a].first * n_kept;
      const double scale = h * entries_[a].second;
      for (std::size_t b = 0; b <= a; ++b) target[entries_[b].first] += scale * entries_[b].second;
    }
  }

 private:
  // Entries of one column are added up: the square of their sum is not that of their squares.
  void sort_and_merge() {
    std::sort(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(n_));
    std::size_t last = 0;
    for (std::size_t k = 1; k < n_; ++k) {
      if (entries_[k].first == entries_[last].first) {
        entries_[last].second += entries_[k].second;
      } else {
        entries_[++last] = entries_[k];
      }
    }
    n_ = last + 1;
  }

  std::vector<std::pair<int64, double>> entries_;
  std::size_t n_ = 0;
};

// Columns up to which every worker has a Gram matrix of its own, of 2 MB at most.
constexpr int64 kMostOwnGram = 512;

// Adds the lower triangle of sum_i h_i x_i x_i^T over the kept columns to `out`, row-major;
// positions increase with the column. `constant_at` is the position of the intercept's constant
// column, or -1.
template <class Real, class Index>
void sparse_gram(const CompressedView<Real, Index>& view, const int64* positions, int64 n_kept,
                 int64 constant_at, double constant, const double* curvatures, double* out,
                 ThreadPool& pool, Interrupt& interrupt) {
  // Few columns: each worker has some of the rows. Many: some of the columns, and reads all rows.
  const bool has_own = n_kept <= kMostOwnGram && pool.size() > 1;
  const int64 size = n_kept * n_kept, n_parts = has_own ? 1 : pool.size();
  std::vector<double> others(has_own ? static_cast<std::size_t>(size * (pool.size() - 1)) : 0);
  pool.run([&](int worker) {
    const Range rows = has_own ? share(view.n_rows, pool.size(), worker) : Range{0, view.n_rows};
    double* const mine = has_own && worker > 0 ? others.data() + size * (worker - 1) : out;
    KeptEntries kept;
    for_each_row(view, rows, interrupt, [&](int64 i, const auto& row) {
      if (curvatures[i] == 0) return;
      kept.see(row, positions, constant_at, constant);
      kept.add_products(curvatures[i], n_kept, has_own ? 0 : worker, n_parts, mine);
    });
  });
  const double* other = others.data();
  for (int worker = 1; has_own && worker < pool.size(); ++worker) {
    for (int64 k = 0; k < size; ++k) out[k] += *other++;
  }
}

}  // namespace snapml::native
