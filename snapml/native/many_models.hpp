// Many models of one matrix: every stored entry is read once and meets a row of vectors.
//
// Vectors lie side by side, columns x models, padded to whole panels of 64 bytes: what a row
// gathers for an entry, and adds for it, is one cache line a panel. Compressed rows only; for dense
// ones these are matrix products.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "clones.hpp"
#include "objective.hpp"
#include "parallel.hpp"
#include "snapml/losses.hpp"
#include "snapml/views.hpp"

namespace snapml::native {

constexpr int64 kPanelBytes = 64;

template <class Sum>
constexpr int64 kPanel = kPanelBytes / static_cast<int64>(sizeof(Sum));

template <class Sum>
struct Panel {
  typedef Sum Lanes __attribute__((vector_size(kPanelBytes)));
};

// out = sum over the row's entries of entry * vectors[column], a panel of models.
template <class Sum, class Real, class Index>
SNAPML_CLONES void gather_panel(const CompressedRow<Real, Index>& row, const Sum* vectors,
                                int64 stride, Sum* out) {
  typename Panel<Sum>::Lanes even = {}, odd = {}, lanes;
  const auto entry = [&](int64 k) {
    return static_cast<Sum>(row.values == nullptr ? row.constant : row.values[k]);
  };
  int64 k = 0;
  for (; k + 2 <= row.n_stored; k += 2) {
    std::memcpy(&lanes, vectors + static_cast<int64>(row.indices[k]) * stride, kPanelBytes);
    even += entry(k) * lanes;
    std::memcpy(&lanes, vectors + static_cast<int64>(row.indices[k + 1]) * stride, kPanelBytes);
    odd += entry(k + 1) * lanes;
  }
  if (k < row.n_stored) {
    std::memcpy(&lanes, vectors + static_cast<int64>(row.indices[k]) * stride, kPanelBytes);
    even += entry(k) * lanes;
  }
  even += odd;
  std::memcpy(out, &even, kPanelBytes);
}

// vectors[column] += entry^power * scales for each of the row's entries, a panel of models.
template <int power, class Sum, class Real, class Index>
SNAPML_CLONES void scatter_panel(const CompressedRow<Real, Index>& row, const Sum* scales,
                                 Sum* vectors, int64 stride) {
  typename Panel<Sum>::Lanes by, lanes;
  std::memcpy(&by, scales, kPanelBytes);
  for (int64 k = 0; k < row.n_stored; ++k) {
    const Sum entry = static_cast<Sum>(row.values == nullptr ? row.constant : row.values[k]);
    Sum* const at = vectors + static_cast<int64>(row.indices[k]) * stride;
    std::memcpy(&lanes, at, kPanelBytes);
    lanes += (power == 1 ? entry : entry * entry) * by;
    std::memcpy(at, &lanes, kPanelBytes);
  }
}

// The numbers of models and of columns, the intercept's column last.
struct ManyShape {
  int64 n_models;
  int64 n_cols;
  int64 size() const { return n_models * (n_cols + 1); }
};

// out (n_rows x models) = X vectors, the intercept's column being one.
template <class Sum, class Real, class Index>
void many_products(const CompressedView<Real, Index>& view, const ManyShape& shape,
                   const Sum* vectors, Sum* out, ThreadPool& pool, Interrupt& interrupt) {
  const int64 m = shape.n_models;
  const Sum* const bias = vectors + shape.n_cols * m;
  pool.run([&](int worker) {
    for_each_row(view, share(view.n_rows, pool.size(), worker), interrupt, worker,
                 [&](int64 i, const auto& row) {
                   for (int64 first = 0; first < m; first += kPanel<Sum>) {
                     gather_panel(row, vectors + first, m, out + i * m + first);
                   }
                   for (int64 k = 0; k < m; ++k) out[i * m + k] += bias[k];
                 });
  });
}

// The sum of the workers' vectors, in the first of them.
template <class Sum>
void add_up_vectors(Sum* vectors, int64 size, ThreadPool& pool) {
  pool.run([&](int worker) {
    const Range range = share(size, pool.size(), worker);
    for (int k = 1; k < pool.size(); ++k) {
      for (int64 j = range.begin; j < range.end; ++j) vectors[j] += vectors[k * size + j];
    }
  });
}

// Visits the rows with scales_of(worker, i, row), a number for each model, and adds
// entry^power * scales up by column: out (workers x columns x models), the sum in the first. Parts
// of more rows than these are added to what is there, and each worker's stays its own.
template <int power, class Sum, class Real, class Index, class ScalesOf>
void add_scaled_rows(const CompressedView<Real, Index>& view, const ManyShape& shape, bool is_part,
                     Sum* out, ThreadPool& pool, Interrupt& interrupt, ScalesOf scales_of) {
  const int64 m = shape.n_models;
  pool.run([&](int worker) {
    Sum* const mine = out + worker * shape.size();
    if (!is_part) std::fill_n(mine, shape.size(), Sum{0});
    Sum* const bias = mine + shape.n_cols * m;
    for_each_row(view, share(view.n_rows, pool.size(), worker), interrupt, worker,
                 [&](int64 i, const auto& row) {
                   const Sum* const scales = scales_of(worker, i, row);
                   for (int64 first = 0; first < m; first += kPanel<Sum>) {
                     scatter_panel<power>(row, scales + first, mine + first, m);
                   }
                   for (int64 k = 0; k < m; ++k) bias[k] += scales[k];
                 });
  });
  if (!is_part) add_up_vectors(out, shape.size(), pool);
}

// out = X^T scales for power 1, (X * X)^T scales for power 2; scales n_rows x models.
template <int power, class Sum, class Real, class Index>
void many_adjoints(const CompressedView<Real, Index>& view, const ManyShape& shape,
                   const Sum* scales, bool is_part, Sum* out, ThreadPool& pool,
                   Interrupt& interrupt) {
  add_scaled_rows<power>(view, shape, is_part, out, pool, interrupt,
                         [&](int, int64 i, const auto&) { return scales + i * shape.n_models; });
}

// out = X^T (curvatures * (X vectors)), one read of X; curvatures n_rows x models.
template <class Sum, class Real, class Index>
void many_hessians(const CompressedView<Real, Index>& view, const ManyShape& shape,
                   const Sum* curvatures, const Sum* vectors, bool is_part, Sum* out,
                   ThreadPool& pool, Interrupt& interrupt) {
  const int64 m = shape.n_models;
  const Sum* const bias = vectors + shape.n_cols * m;
  std::vector<Sum> products(static_cast<std::size_t>(m * pool.size()));
  add_scaled_rows<1>(view, shape, is_part, out, pool, interrupt,
                     [&](int worker, int64 i, const auto& row) {
                       Sum* const z = products.data() + worker * m;
                       for (int64 first = 0; first < m; first += kPanel<Sum>) {
                         gather_panel(row, vectors + first, m, z + first);
                       }
                       const Sum* const h = curvatures + i * m;
                       for (int64 k = 0; k < m; ++k) z[k] = h[k] * (z[k] + bias[k]);
                       return z;
                     });
}

// Labels and weights of many models: of each one column of the tables, and a factor on the weights.
template <class Sum>
struct ManyTargets {
  const Sum* labels;   // n_rows x n_label_columns
  const Sum* weights;  // n_rows x n_weight_columns
  const int32* label_columns;
  const int32* weight_columns;
  const Sum* factors;
  int64 n_rows, n_models, n_label_columns, n_weight_columns;
};

// Where the losses are evaluated, n_rows x models, and what they leave there where it is asked for.
template <class Sum>
struct ManyMargins {
  const Sum* margins;
  const Sum* moves;  // null, or the margins' change for a step of one
  const Sum* steps;  // of each model
  Sum* slopes;
  Sum* curvatures;
};

// A panel of models in some rows, one after another: enough entries to hide how long each takes.
constexpr int64 kTileRows = 16;
template <class Sum>
struct Tile {
  static constexpr int64 kSize = kTileRows * kPanel<Sum>;
  Sum z[kSize], y[kSize], c[kSize], loss[kSize], slope[kSize], curvature[kSize];
};

// Losses and slopes, each times the row's weight.
template <class Loss, class Sum>
SNAPML_CLONES void tile_losses(const Sum* __restrict__ z, const Sum* __restrict__ y,
                               const Sum* __restrict__ c, int64 size, Sum* __restrict__ loss,
                               Sum* __restrict__ slope) {
  for (int64 k = 0; k < size; ++k) {
    const Tangent<Sum> at = Loss::tangent(z[k], y[k]);
    loss[k] = c[k] == 0 ? Sum(0) : c[k] * at.value;
    slope[k] = c[k] == 0 ? Sum(0) : c[k] * at.gradient;
  }
}

template <class Loss, class Sum>
SNAPML_CLONES void tile_curvatures(const Sum* __restrict__ z, const Sum* __restrict__ y,
                                   const Sum* __restrict__ c, int64 size, Sum* __restrict__ out) {
  for (int64 k = 0; k < size; ++k) {
    out[k] = c[k] == 0 ? Sum(0) : c[k] * Loss::curvature(z[k], y[k]);
  }
}

// Margins, labels and weights of the models from `first` on in some rows.
template <class Sum>
void fill_tile(const ManyTargets<Sum>& targets, const ManyMargins<Sum>& margins, Range rows,
               int64 first, Tile<Sum>& tile) {
  Sum *z = tile.z, *y = tile.y, *c = tile.c;
  const int32* const label_columns = targets.label_columns + first;
  const int32* const weight_columns = targets.weight_columns + first;
  for (int64 i = rows.begin; i < rows.end; ++i) {
    const int64 at = i * targets.n_models + first;
    const Sum* const labels = targets.labels + i * targets.n_label_columns;
    const Sum* const weights = targets.weights + i * targets.n_weight_columns;
    std::memcpy(z, margins.margins + at, kPanelBytes);
    for (int64 k = 0; k < kPanel<Sum>; ++k) {
      if (margins.moves != nullptr) z[k] += margins.steps[first + k] * margins.moves[at + k];
      y[k] = labels[label_columns[k]];
      c[k] = targets.factors[first + k] * weights[weight_columns[k]];
    }
    z += kPanel<Sum>;
    y += kPanel<Sum>;
    c += kPanel<Sum>;
  }
}

// The losses of some rows and one panel, whose models begin with `first`.
template <class Loss, class Sum>
void panel_losses(const ManyTargets<Sum>& targets, const ManyMargins<Sum>& margins, Range rows,
                  int64 first, Tile<Sum>& tile, double* losses) {
  fill_tile(targets, margins, rows, first, tile);
  const int64 size = (rows.end - rows.begin) * kPanel<Sum>;
  tile_losses<Loss>(tile.z, tile.y, tile.c, size, tile.loss, tile.slope);
  if (margins.curvatures != nullptr) {
    tile_curvatures<Loss>(tile.z, tile.y, tile.c, size, tile.curvature);
  }
  for (int64 i = rows.begin; i < rows.end; ++i) {
    const int64 from = (i - rows.begin) * kPanel<Sum>, to = i * targets.n_models + first;
    for (int64 k = 0; k < kPanel<Sum>; ++k) losses[first + k] += double{tile.loss[from + k]};
    if (margins.slopes != nullptr) {
      std::memcpy(margins.slopes + to, tile.slope + from, kPanelBytes);
    }
    if (margins.curvatures != nullptr) {
      std::memcpy(margins.curvatures + to, tile.curvature + from, kPanelBytes);
    }
  }
}

// losses (models) = sum_i c_i l(z_i, y_i) of each model, in float64.
template <class Loss, class Sum>
void many_losses(const ManyTargets<Sum>& targets, const ManyMargins<Sum>& margins, double* losses,
                 ThreadPool& pool) {
  const int64 m = targets.n_models;
  std::vector<double> parts(static_cast<std::size_t>(m * pool.size()));
  pool.run([&](int worker) {
    double* const mine = parts.data() + worker * m;
    const Range range = share(targets.n_rows, pool.size(), worker);
    Tile<Sum> tile;
    for (int64 i = range.begin; i < range.end; i += kTileRows) {
      const Range rows{i, std::min(i + kTileRows, range.end)};
      for (int64 first = 0; first < m; first += kPanel<Sum>) {
        panel_losses<Loss>(targets, margins, rows, first, tile, mine);
      }
    }
  });
  for (int64 k = 0; k < m; ++k) losses[k] = 0;
  for (int worker = 0; worker < pool.size(); ++worker) {
    for (int64 k = 0; k < m; ++k) losses[k] += parts[static_cast<std::size_t>(worker * m + k)];
  }
}

}  // namespace snapml::native
