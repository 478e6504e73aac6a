// The sums of row_sums.hpp over compressed rows that leave most of their columns empty, entry by
// entry: about zero, and centred after that.
#pragma once

#include <type_traits>

#include "squares/centred_blocks.hpp"

namespace snapml::native::squares {

// Times that the product of two entries costs one of a register's.
inline constexpr double kEntryProduct = 14;

template <class View>
inline constexpr bool kIsCompressed = !std::is_same_v<View, DenseView<typename View::Real>>;

// Whether products of entries cost less than those of rows with their zeros.
template <class Real>
bool is_thin(const DenseView<Real>&) {
  return false;
}

template <class Real, class Index>
bool is_thin(const CompressedView<Real, Index>& view) {
  const double n_stored = static_cast<double>(view.indptr[view.n_rows] - view.indptr[0]);
  const double a_row = n_stored / static_cast<double>(view.n_rows);
  const double n_cols = static_cast<double>(view.n_cols);
  return kEntryProduct * a_row * a_row < n_cols * n_cols;
}

template <class Real, class Index>
double value_of(const CompressedRow<Real, Index>& row, int64 e) {
  return static_cast<double>(row.values == nullptr ? row.constant : row.values[e]);
}

// Adds up add(own, i) over all rows in `size` sums.
template <class View, class Add>
std::vector<double> sum_of_rows(const View& view, int64 size, ThreadPool& pool,
                                Interrupt& interrupt, Add add) {
  return sum_of_workers(size, pool, [&](int worker, double* own) {
    const Range range = share(view.n_rows, pool.size(), worker);
    for (int64 i = range.begin; i < range.end; ++i) {
      interrupt.poll();
      if (interrupt.requested()) return;
      add(own, i);
    }
  });
}

// h (upper half) and `sums` get the products of a row's entries with each other and with its
// targets less their centre; entries of one place count as their sum.
template <class Real, class Index>
void add_entries(const RowsWithTargets<CompressedView<Real, Index>>& all, int64 i, double weight,
                 const double* target_centre, int64 stride, double* h, double* sums) {
  const CompressedRow<Real, Index> row = all.rows.row(i);
  const int64 n = all.rows.n_cols;
  const auto target = [&](int64 t) {
    return all.targets[t * all.rows.n_rows + i] - target_centre[t];
  };
  for (int64 e = 0; e < row.n_stored; ++e) {
    const int64 j = static_cast<int64>(row.indices[e]);
    const double scaled = weight * value_of(row, e);
    double* const to = h + j * stride;
    to[j] += scaled * value_of(row, e);
    for (int64 f = e + 1; f < row.n_stored; ++f) {
      const int64 k = static_cast<int64>(row.indices[f]);
      const double product = scaled * value_of(row, f);
      if (k > j) {
        to[k] += product;
      } else {
        h[k * stride + j] += k == j ? 2 * product : product;
      }
    }
    for (int64 t = 0; t < all.n_targets; ++t) to[n + t] += scaled * target(t);
    sums[j] += scaled;
  }
  for (int64 t = 0; t < all.n_targets; ++t) {
    const double scaled = weight * target(t);
    for (int64 u = t; u < all.n_targets; ++u) h[(n + t) * stride + n + u] += scaled * target(u);
    sums[n + t] += scaled;
  }
}

// The same as `upper_row_sums` of thin rows, product by product: about zero, and centred after
// that.
template <class Real, class Index>
std::vector<double> upper_thin_sums(const RowsWithTargets<CompressedView<Real, Index>>& all,
                                    const double* centre, int64 stride, ThreadPool& pool,
                                    Interrupt& interrupt) {
  const int64 n = all.rows.n_cols, last = stride * stride;
  std::vector<double> h =
      sum_of_rows(all.rows, last + stride + 1, pool, interrupt, [&](double* own, int64 i) {
        add_entries(all, i, all.weight(i), centre + n, stride, own, own + last);
        own[last + stride] += all.weight(i);
      });
  double* const sums = h.data() + last;
  const double total = sums[stride];
  for (int64 i = 0; i < n; ++i) {
    double* const row = h.data() + i * stride;
    for (int64 j = i; j < n; ++j) {
      row[j] -= sums[i] * centre[j] + centre[i] * (sums[j] - total * centre[j]);
    }
    for (int64 t = 0; t < all.n_targets; ++t) row[n + t] -= centre[i] * sums[n + t];
  }
  for (int64 i = 0; i < n; ++i) sums[i] -= total * centre[i];
  return h;
}

// What `residual_sums` returns.
template <class Real, class Index>
std::vector<double> thin_residual_sums(const RowsWithTargets<CompressedView<Real, Index>>& all,
                                       const double* centre, const double* models, int64 n_models,
                                       ThreadPool& pool, Interrupt& interrupt) {
  const int64 n = all.rows.n_cols, part = n + 2;
  std::vector<double> shifts(static_cast<std::size_t>(n_models));
  for (int64 k = 0; k < n_models; ++k) {
    const int64 target = n + k % all.n_targets;
    double shift = centre[target];
    for (int64 j = 0; j < n; ++j) shift -= centre[j] * models[k * n + j];
    shifts[static_cast<std::size_t>(k)] = shift;
  }
  std::vector<double> sums =
      sum_of_rows(all.rows, part * n_models, pool, interrupt, [&](double* own, int64 i) {
        const CompressedRow<Real, Index> row = all.rows.row(i);
        for (int64 k = 0; k < n_models; ++k, own += part) {
          const double* const w = models + k * n;
          double z = shifts[static_cast<std::size_t>(k)];
          for (int64 e = 0; e < row.n_stored; ++e) z += w[row.indices[e]] * value_of(row, e);
          const double y = all.targets[k % all.n_targets * all.rows.n_rows + i];
          const double residual = y - z, weighted = all.weight(i) * residual;
          for (int64 e = 0; e < row.n_stored; ++e) {
            own[row.indices[e]] += weighted * value_of(row, e);
          }
          own[n] += weighted * residual, own[n + 1] += weighted;
        }
      });
  for (int64 k = 0; k < n_models; ++k) {
    double* const own = sums.data() + k * part;
    for (int64 j = 0; j < n; ++j) own[j] -= centre[j] * own[n + 1];
  }
  return sums;
}

}  // namespace snapml::native::squares
