// Many multinomial models of one matrix: the losses of rows whose margins lie side by side, those
// of a model's classes next to each other, and columns that fill a panel behind the last model's.
#pragma once

#include <algorithm>
#include <vector>

#include "many/many_models.hpp"
#include "snapml/softmax.hpp"
#include "threads/clones.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

// Models x classes, and the columns of a row.
struct SoftmaxShape {
  int64 n_models;
  int n_classes;
  int64 stride;
};

// Rows that the softmax takes side by side.
constexpr int kSoftmaxRows = 16;

template <class Sum>
SNAPML_CLONES void softmax_tile(Sum* z, int n_classes, Sum* log_sum) {
  Softmax<Sum, kSoftmaxRows>::probabilities(z, n_classes, log_sum);
}

template <class Sum>
SNAPML_CLONES void softmax_curvature_tile(const Sum* q, int n_classes, Sum* u) {
  Softmax<Sum, kSoftmaxRows>::weighted_curvature_product(q, n_classes, u);
}

// One model's numbers of some rows, classes x kSoftmaxRows.
template <class Sum>
void load_tile(const Sum* from, const SoftmaxShape& shape, Range rows, int64 model, Sum* tile) {
  const int64 first = model * shape.n_classes;
  for (int64 i = rows.begin; i < rows.end; ++i) {
    const Sum* const row = from + i * shape.stride + first;
    for (int j = 0; j < shape.n_classes; ++j) tile[j * kSoftmaxRows + (i - rows.begin)] = row[j];
  }
}

template <class Sum>
void store_tile(const Sum* tile, const SoftmaxShape& shape, Range rows, int64 model, Sum* to) {
  const int64 first = model * shape.n_classes;
  for (int64 i = rows.begin; i < rows.end; ++i) {
    Sum* const row = to + i * shape.stride + first;
    for (int j = 0; j < shape.n_classes; ++j) row[j] = tile[j * kSoftmaxRows + (i - rows.begin)];
  }
}

// Zeros in the columns behind the last model's.
template <class Sum>
void clear_rest(const SoftmaxShape& shape, Range rows, Sum* out) {
  const int64 used = shape.n_models * shape.n_classes;
  for (int64 i = rows.begin; i < rows.end; ++i) {
    std::fill_n(out + i * shape.stride + used, shape.stride - used, Sum{0});
  }
}

// Calls visit(worker, rows) for tiles of a worker's rows.
template <class Visit>
void for_each_tile(int64 n_rows, ThreadPool& pool, Visit visit) {
  pool.run([&](int worker) {
    const Range range = share(n_rows, pool.size(), worker);
    for (int64 i = range.begin; i < range.end; i += kSoftmaxRows) {
      visit(worker, Range{i, std::min<int64>(i + kSoftmaxRows, range.end)});
    }
  });
}

// What a worker needs for a tile.
template <class Sum>
struct SoftmaxScratch {
  explicit SoftmaxScratch(int n_classes)
      : z(static_cast<std::size_t>(n_classes) * kSoftmaxRows), u(z.size()) {}
  std::vector<Sum> z, u;
};

// The loss of one model in some rows; where `at` asks for them, c (p - e_y) as slopes and c p as
// curvatures.
template <class Sum>
double softmax_losses_of_tile(const ManyTargets<Sum>& targets, const ManyMargins<Sum>& at,
                              const SoftmaxShape& shape, Range rows, int64 model,
                              SoftmaxScratch<Sum>& scratch) {
  Sum* const z = scratch.z.data();
  load_tile(at.margins, shape, rows, model, z);
  if (at.moves != nullptr) {
    load_tile(at.moves, shape, rows, model, scratch.u.data());
    for (std::size_t k = 0; k < scratch.z.size(); ++k) z[k] += at.steps[model] * scratch.u[k];
  }
  Sum chosen[kSoftmaxRows] = {}, weights[kSoftmaxRows] = {}, log_sum[kSoftmaxRows];
  int64 classes[kSoftmaxRows] = {};
  for (int64 i = rows.begin; i < rows.end; ++i) {
    const int64 r = i - rows.begin;
    classes[r] = static_cast<int64>(
        targets.labels[i * targets.n_label_columns + targets.label_columns[model]]);
    weights[r] = targets.factors[model] *
                 targets.weights[i * targets.n_weight_columns + targets.weight_columns[model]];
    chosen[r] = z[classes[r] * kSoftmaxRows + r];
  }
  softmax_tile(z, shape.n_classes, log_sum);
  double loss = 0;
  for (int64 r = 0; r < rows.end - rows.begin; ++r) {
    if (weights[r] != 0) loss += double{weights[r]} * (double{log_sum[r]} - double{chosen[r]});
  }
  if (at.slopes == nullptr) return loss;
  for (int j = 0; j < shape.n_classes; ++j) {
    for (int r = 0; r < kSoftmaxRows; ++r) {
      Sum& p = z[j * kSoftmaxRows + r];
      p = weights[r] == 0 ? Sum(0) : weights[r] * p;
    }
  }
  store_tile(z, shape, rows, model, at.curvatures);
  for (int64 r = 0; r < rows.end - rows.begin; ++r) {
    z[classes[r] * kSoftmaxRows + r] -= weights[r];
  }
  store_tile(z, shape, rows, model, at.slopes);
  return loss;
}

// losses (models) = sum_i c_i l(z_i, y_i) of each model, in float64.
template <class Sum>
void many_softmax_losses(const ManyTargets<Sum>& targets, const ManyMargins<Sum>& at,
                         const SoftmaxShape& shape, double* losses, ThreadPool& pool) {
  const auto size = static_cast<std::size_t>(shape.n_models);
  std::vector<double> parts(size * static_cast<std::size_t>(pool.size()));
  std::vector<SoftmaxScratch<Sum>> scratch(static_cast<std::size_t>(pool.size()),
                                           SoftmaxScratch<Sum>(shape.n_classes));
  for_each_tile(targets.n_rows, pool, [&](int worker, Range rows) {
    const auto mine = static_cast<std::size_t>(worker);
    for (int64 m = 0; m < shape.n_models; ++m) {
      parts[mine * size + static_cast<std::size_t>(m)] +=
          softmax_losses_of_tile(targets, at, shape, rows, m, scratch[mine]);
    }
    if (at.slopes == nullptr) return;
    clear_rest(shape, rows, at.slopes);
    clear_rest(shape, rows, at.curvatures);
  });
  std::fill_n(losses, shape.n_models, 0.0);
  for (std::size_t k = 0; k < parts.size(); ++k) losses[k % size] += parts[k];
}

// Replaces directions u by the curvature's products, q being c p.
template <class Sum>
void many_softmax_curve(const Sum* q, int64 n_rows, const SoftmaxShape& shape, Sum* u,
                        ThreadPool& pool) {
  std::vector<SoftmaxScratch<Sum>> scratch(static_cast<std::size_t>(pool.size()),
                                           SoftmaxScratch<Sum>(shape.n_classes));
  for_each_tile(n_rows, pool, [&](int worker, Range rows) {
    auto& own = scratch[static_cast<std::size_t>(worker)];
    for (int64 m = 0; m < shape.n_models; ++m) {
      load_tile(q, shape, rows, m, own.z.data());
      load_tile(u, shape, rows, m, own.u.data());
      softmax_curvature_tile(own.z.data(), shape.n_classes, own.u.data());
      store_tile(own.u.data(), shape, rows, m, u);
    }
    clear_rest(shape, rows, u);
  });
}

}  // namespace snapml::native
