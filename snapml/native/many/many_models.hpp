// Many models of one matrix: every stored entry is read once and meets a row of vectors.
//
// Vectors lie side by side, columns x models, padded to whole panels of 16 models, or to 8: what a
// row gathers for an entry, and adds for it, is a cache line or two a panel, or half a line.
// Compressed rows only; for dense ones these are matrix products.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "dual/objective.hpp"
#include "snapml/losses.hpp"
#include "snapml/views.hpp"
#include "threads/clones.hpp"
#include "threads/parallel.hpp"
#include "threads/wide.hpp"

namespace snapml::native {

constexpr int kFewestModels = 8;

// Calls call with how many models a panel has, as a type: as many as fill a line, if they can.
template <class Sum, class Call>
void with_panels(int64 n_models, Call call) {
  if constexpr (sizeof(Sum) == sizeof(float)) {
    if (n_models % (2 * kFewestModels) == 0) {
      return call(std::integral_constant<int, 2 * kFewestModels>{});
    }
  }
  call(std::integral_constant<int, kFewestModels>{});
}

// Entries of a row whose vectors are asked for before the first of them is used.
constexpr int64 kEntriesAhead = 64;

// sum = sum over the row's entries of entry * vectors[column], a panel of models.
template <class Panel, bool has_values, class Sum, class Real, class Index>
[[gnu::always_inline]] inline Panel gather_panel(const CompressedRow<Real, Index>& row,
                                                 const Sum* vectors, int64 stride) {
  Panel even{}, odd{};
  const auto vector_of = [&](int64 k) {
    return vectors + static_cast<int64>(row.indices[k]) * stride;
  };
  const auto entry = [&](int64 k) {
    return static_cast<Sum>(has_values ? row.values[k] : row.constant);
  };
  for (int64 first = 0; first < row.n_stored; first += kEntriesAhead) {
    const int64 end = std::min(first + kEntriesAhead, row.n_stored);
    for (int64 k = first; k < end; ++k) __builtin_prefetch(vector_of(k));
    int64 k = first;
    for (; k + 2 <= end; k += 2) {
      even.add(entry(k), Panel::load(vector_of(k)));
      odd.add(entry(k + 1), Panel::load(vector_of(k + 1)));
    }
    if (k < end) even.add(entry(k), Panel::load(vector_of(k)));
  }
  even += odd;
  return even;
}

// vectors[column] += entry^power * scales for each of the row's entries, a panel of models.
template <int power, bool has_values, class Panel, class Sum, class Real, class Index>
[[gnu::always_inline]] inline void scatter_panel(const CompressedRow<Real, Index>& row,
                                                 const Panel& scales, Sum* vectors, int64 stride) {
  for (int64 k = 0; k < row.n_stored; ++k) {
    const Sum entry = static_cast<Sum>(has_values ? row.values[k] : row.constant);
    Sum* const at = vectors + static_cast<int64>(row.indices[k]) * stride;
    auto lanes = Panel::load(at);
    lanes.add(power == 1 ? entry : entry * entry, scales);
    lanes.store(at);
  }
}

// The three sweeps below take some rows and a panel of models, whose first numbers the pointers
// are at. Whole blocks of rows, as a call of a clone costs as much as some entries.

// out (rows x models) = X vectors.
template <int models, bool has_values>
struct MultiplyBlock {
  template <int parts, class Sum, class Real, class Index>
  [[gnu::always_inline]] static void run(CompressedView<Real, Index> view, Range rows, int64 stride,
                                         const Sum* vectors, Sum* out) {
    using Panel = Wide<Sum, models, parts>;
    const auto bias = Panel::load(vectors + view.n_cols * stride);
    for (int64 i = rows.begin; i < rows.end; ++i) {
      auto z = gather_panel<Panel, has_values>(view.row(i), vectors, stride);
      z += bias;
      z.store(out + i * stride);
    }
  }
};

// out (columns x models) += X^T scales, entries to the power.
template <int models, int power, bool has_values>
struct AddBlock {
  template <int parts, class Sum, class Real, class Index>
  [[gnu::always_inline]] static void run(CompressedView<Real, Index> view, Range rows, int64 stride,
                                         const Sum* scales, Sum* out) {
    using Panel = Wide<Sum, models, parts>;
    Panel bias{};
    for (int64 i = rows.begin; i < rows.end; ++i) {
      const auto z = Panel::load(scales + i * stride);
      scatter_panel<power, has_values>(view.row(i), z, out, stride);
      bias += z;
    }
    Sum* const last = out + view.n_cols * stride;
    bias += Panel::load(last);
    bias.store(last);
  }
};

// out (columns x models) += X^T (curvatures * (X vectors)).
template <int models, bool has_values>
struct CurveBlock {
  template <int parts, class Sum, class Real, class Index>
  [[gnu::always_inline]] static void run(CompressedView<Real, Index> view, Range rows, int64 stride,
                                         const Sum* curvatures, const Sum* vectors, Sum* out) {
    using Panel = Wide<Sum, models, parts>;
    const auto offset = Panel::load(vectors + view.n_cols * stride);
    Panel bias{};
    for (int64 i = rows.begin; i < rows.end; ++i) {
      const auto row = view.row(i);
      auto z = gather_panel<Panel, has_values>(row, vectors, stride);
      z += offset;
      z *= Panel::load(curvatures + i * stride);
      scatter_panel<1, has_values>(row, z, out, stride);
      bias += z;
    }
    Sum* const last = out + view.n_cols * stride;
    bias += Panel::load(last);
    bias.store(last);
  }
};

// Calls call with whether entries have values, as a type.
template <class View, class Call>
void with_values_known(const View& view, Call call) {
  if (view.values == nullptr) return call(std::false_type{});
  call(std::true_type{});
}

// The numbers of models and of columns, the intercept's column last.
struct ManyShape {
  int64 n_models;
  int64 n_cols;
  int64 size() const { return n_models * (n_cols + 1); }
};

// Calls visit(worker, rows, first) for blocks of a worker's rows and the panels that begin with the
// model `first`.
template <int models, class View, class Visit>
void for_each_panel(const View& view, const ManyShape& shape, ThreadPool& pool,
                    Interrupt& interrupt, Visit visit) {
  pool.run([&](int worker) {
    const Range mine = share(view.n_rows, pool.size(), worker);
    for_each_block(mine, interrupt, [&](Range rows) {
      for (int64 first = 0; first < shape.n_models; first += models) {
        visit(worker, rows, first);
      }
    });
  });
}

// out (n_rows x models) = X vectors, the intercept's column being one.
template <class Sum, class Real, class Index>
void many_products(const CompressedView<Real, Index>& view, const ManyShape& shape,
                   const Sum* vectors, Sum* out, ThreadPool& pool, Interrupt& interrupt) {
  with_panels<Sum>(shape.n_models, [&](auto panel) {
    constexpr int models = decltype(panel)::value;
    with_values_known(view, [&](auto has_values) {
      using Kernel = MultiplyBlock<models, decltype(has_values)::value>;
      for_each_panel<models>(view, shape, pool, interrupt, [&](int, Range rows, int64 first) {
        run_wide<Kernel>(view, rows, shape.n_models, vectors + first, out + first);
      });
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

// Sums by column of what add(rows, first, sums) adds for a block of rows and a panel of models: out
// (workers x columns x models), the sum in the first. Parts of more rows than these are added to
// what is there, and each worker's stays its own.
template <int models, class Sum, class View, class Add>
void add_up_blocks(const View& view, const ManyShape& shape, bool is_part, Sum* out,
                   ThreadPool& pool, Interrupt& interrupt, Add add) {
  if (!is_part) {
    pool.run([&](int worker) { std::fill_n(out + worker * shape.size(), shape.size(), Sum{0}); });
  }
  for_each_panel<models>(view, shape, pool, interrupt, [&](int worker, Range rows, int64 first) {
    add(rows, first, out + worker * shape.size() + first);
  });
  if (!is_part) add_up_vectors(out, shape.size(), pool);
}

// out = X^T scales for power 1, (X * X)^T scales for power 2; scales n_rows x models.
template <int power, class Sum, class Real, class Index>
void many_adjoints(const CompressedView<Real, Index>& view, const ManyShape& shape,
                   const Sum* scales, bool is_part, Sum* out, ThreadPool& pool,
                   Interrupt& interrupt) {
  with_panels<Sum>(shape.n_models, [&](auto panel) {
    constexpr int models = decltype(panel)::value;
    with_values_known(view, [&](auto has_values) {
      using Kernel = AddBlock<models, power, decltype(has_values)::value>;
      add_up_blocks<models>(view, shape, is_part, out, pool, interrupt,
                            [&](Range rows, int64 first, Sum* sums) {
                              run_wide<Kernel>(view, rows, shape.n_models, scales + first, sums);
                            });
    });
  });
}

// out = X^T (curvatures * (X vectors)), one read of X; curvatures n_rows x models.
template <class Sum, class Real, class Index>
void many_hessians(const CompressedView<Real, Index>& view, const ManyShape& shape,
                   const Sum* curvatures, const Sum* vectors, bool is_part, Sum* out,
                   ThreadPool& pool, Interrupt& interrupt) {
  with_panels<Sum>(shape.n_models, [&](auto panel) {
    constexpr int models = decltype(panel)::value;
    with_values_known(view, [&](auto has_values) {
      using Kernel = CurveBlock<models, decltype(has_values)::value>;
      add_up_blocks<models>(
          view, shape, is_part, out, pool, interrupt, [&](Range rows, int64 first, Sum* sums) {
            run_wide<Kernel>(view, rows, shape.n_models, curvatures + first, vectors + first, sums);
          });
    });
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

// Some models in some rows, one after another: enough entries to hide how long each takes.
constexpr int64 kTileRows = 32;
template <class Sum>
struct Tile {
  static constexpr int64 kSize = kTileRows * kFewestModels;
  Sum z[kSize], y[kSize], c[kSize], loss[kSize], slope[kSize], curvature[kSize];
};

// Losses and slopes, each times the row's weight.
template <class Loss, class Sum>
SNAPML_FLAT_CLONES void tile_losses(Loss loss, const Sum* __restrict__ z, const Sum* __restrict__ y,
                                    const Sum* __restrict__ c, int64 size, Sum* __restrict__ value,
                                    Sum* __restrict__ slope) {
  for (int64 k = 0; k < size; ++k) {
    const Tangent<Sum> at = loss.tangent(z[k], y[k]);
    value[k] = c[k] == 0 ? Sum(0) : c[k] * at.value;
    slope[k] = c[k] == 0 ? Sum(0) : c[k] * at.gradient;
  }
}

template <class Loss, class Sum>
SNAPML_FLAT_CLONES void tile_curvatures(Loss loss, const Sum* __restrict__ z,
                                        const Sum* __restrict__ y, const Sum* __restrict__ c,
                                        int64 size, Sum* __restrict__ out) {
  for (int64 k = 0; k < size; ++k) {
    out[k] = c[k] == 0 ? Sum(0) : c[k] * loss.curvature(z[k], y[k]);
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
    std::memcpy(z, margins.margins + at, kFewestModels * sizeof(Sum));
    for (int64 k = 0; k < kFewestModels; ++k) {
      if (margins.moves != nullptr) z[k] += margins.steps[first + k] * margins.moves[at + k];
      y[k] = labels[label_columns[k]];
      c[k] = targets.factors[first + k] * weights[weight_columns[k]];
    }
    z += kFewestModels;
    y += kFewestModels;
    c += kFewestModels;
  }
}

// The losses of some rows and kFewestModels models, of which `first` is the first.
template <class Loss, class Sum>
void losses_of_tile(Loss loss, const ManyTargets<Sum>& targets, const ManyMargins<Sum>& margins,
                    Range rows, int64 first, Tile<Sum>& tile, double* losses) {
  fill_tile(targets, margins, rows, first, tile);
  const int64 size = (rows.end - rows.begin) * kFewestModels;
  tile_losses(loss, tile.z, tile.y, tile.c, size, tile.loss, tile.slope);
  if (margins.curvatures != nullptr) {
    tile_curvatures(loss, tile.z, tile.y, tile.c, size, tile.curvature);
  }
  for (int64 i = rows.begin; i < rows.end; ++i) {
    const int64 from = (i - rows.begin) * kFewestModels, to = i * targets.n_models + first;
    for (int64 k = 0; k < kFewestModels; ++k) losses[first + k] += double{tile.loss[from + k]};
    if (margins.slopes != nullptr) {
      std::memcpy(margins.slopes + to, tile.slope + from, kFewestModels * sizeof(Sum));
    }
    if (margins.curvatures != nullptr) {
      std::memcpy(margins.curvatures + to, tile.curvature + from, kFewestModels * sizeof(Sum));
    }
  }
}

// losses (models) = sum_i c_i l(z_i, y_i) of each model, in float64.
template <class Loss, class Sum>
void many_losses(Loss loss, const ManyTargets<Sum>& targets, const ManyMargins<Sum>& margins,
                 double* losses, ThreadPool& pool) {
  const int64 m = targets.n_models;
  std::vector<double> parts(static_cast<std::size_t>(m * pool.size()));
  pool.run([&](int worker) {
    double* const mine = parts.data() + worker * m;
    const Range range = share(targets.n_rows, pool.size(), worker);
    Tile<Sum> tile;
    for (int64 i = range.begin; i < range.end; i += kTileRows) {
      const Range rows{i, std::min(i + kTileRows, range.end)};
      for (int64 first = 0; first < m; first += kFewestModels) {
        losses_of_tile(loss, targets, margins, rows, first, tile, mine);
      }
    }
  });
  for (int64 k = 0; k < m; ++k) losses[k] = 0;
  for (int worker = 0; worker < pool.size(); ++worker) {
    for (int64 k = 0; k < m; ++k) losses[k] += parts[static_cast<std::size_t>(worker * m + k)];
  }
}

}  // namespace snapml::native
