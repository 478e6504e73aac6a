// What conjugate gradients of many models do with whole tables, each read once for all of it.
//
// A table has a row for each column of the data and a column for each model (many_models.hpp).
// NumPy takes an operation at a time, and of many columns of the data the tables are longer than
// the caches.
#pragma once

#include <vector>

#include "snapml/config.hpp"
#include "threads/clones.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

struct TableShape {
  int64 n_rows, n_models;
  int64 size() const { return n_rows * n_models; }
};

// out[m] += sum of a[i, m] b[i, m] over some rows.
template <class Sum>
SNAPML_CLONES void add_dots(const Sum* __restrict__ a, const Sum* __restrict__ b, Range rows,
                            int64 n_models, double* __restrict__ out) {
  for (int64 i = rows.begin; i < rows.end; ++i) {
    for (int64 m = 0; m < n_models; ++m) {
      const int64 at = i * n_models + m;
      out[m] += static_cast<double>(a[at]) * static_cast<double>(b[at]);
    }
  }
}

// product += penalty[i] search; out[m] += search . product.
template <class Sum>
SNAPML_CLONES void add_bends(const Sum* __restrict__ search, const Sum* __restrict__ penalty,
                             Sum* __restrict__ product, Range rows, int64 n_models,
                             double* __restrict__ out) {
  for (int64 i = rows.begin; i < rows.end; ++i) {
    const Sum l2 = penalty[i];
    for (int64 m = 0; m < n_models; ++m) {
      const int64 at = i * n_models + m;
      product[at] += l2 * search[at];
      out[m] += static_cast<double>(search[at]) * static_cast<double>(product[at]);
    }
  }
}

// residual -= steps[m] product; out[m] += residual . residual.
template <class Sum>
SNAPML_CLONES void subtract_products(const Sum* __restrict__ steps, const Sum* __restrict__ product,
                                     Sum* __restrict__ residual, Range rows, int64 n_models,
                                     double* __restrict__ out) {
  for (int64 i = rows.begin; i < rows.end; ++i) {
    for (int64 m = 0; m < n_models; ++m) {
      const int64 at = i * n_models + m;
      residual[at] -= steps[m] * product[at];
      out[m] += static_cast<double>(residual[at]) * static_cast<double>(residual[at]);
    }
  }
}

// to = factors[m] to + from, or to + factors[m] from.
template <bool scales_target, class Sum>
SNAPML_CLONES void mix_rows(const Sum* __restrict__ factors, const Sum* __restrict__ from,
                            Sum* __restrict__ to, Range rows, int64 n_models) {
  for (int64 i = rows.begin; i < rows.end; ++i) {
    for (int64 m = 0; m < n_models; ++m) {
      const int64 at = i * n_models + m;
      to[at] = scales_target ? factors[m] * to[at] + from[at] : to[at] + factors[m] * from[at];
    }
  }
}

// Calls work(rows, sums) for each worker's rows; tables that a cache holds are one thread's. `out`
// becomes the workers' sums, in their order.
template <class Work>
void over_table(const TableShape& shape, double* out, ThreadPool& pool, Work work) {
  constexpr int64 kFewNumbers = 1 << 17;
  const int workers = pool.size();
  const auto n_models = static_cast<std::size_t>(shape.n_models);
  std::vector<std::vector<double>> sums(static_cast<std::size_t>(workers));
  const auto run = [&](int worker) {
    std::vector<double> own(n_models);
    work(share(shape.n_rows, workers, worker), own.data());
    sums[static_cast<std::size_t>(worker)] = std::move(own);
  };
  if (shape.size() > kFewNumbers) {
    pool.run(run);
  } else {
    for (int worker = 0; worker < workers; ++worker) run(worker);
  }
  if (out == nullptr) return;
  for (std::size_t m = 0; m < n_models; ++m) {
    out[m] = 0;
    for (const std::vector<double>& own : sums) out[m] += own[m];
  }
}

}  // namespace snapml::native
