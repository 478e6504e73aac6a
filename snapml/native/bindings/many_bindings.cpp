// The face of many models' sweeps towards Python: check what comes, release the GIL, call.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>

#include "bindings/arguments.hpp"
#include "bindings/dispatch.hpp"
#include "bindings/epoch_options.hpp"
#include "bindings/without_gil.hpp"
#include "dual/softmax_descent.hpp"
#include "many/many_models.hpp"
#include "many/many_softmax.hpp"
#include "many/many_steps.hpp"
#include "rows/rows.hpp"

namespace snapml::native {

void bind_many(nb::module_& m);

namespace {

template <class View>
constexpr bool is_compressed = false;
template <class Real, class Index>
constexpr bool is_compressed<CompressedView<Real, Index>> = true;

// Calls call(view, sum) with a compressed view and a number of the vectors' type.
template <class Vectors, class Call>
void with_compressed(const Rows& rows, const Vectors& vectors, Call call) {
  std::visit(
      [&](const auto& view) {
        if constexpr (is_compressed<std::decay_t<decltype(view)>>) {
          vectors.dtype() == nb::dtype<float>() ? call(view, float{}) : call(view, double{});
        } else {
          throw std::invalid_argument("rows: expected compressed rows, got dense ones");
        }
      },
      rows.view);
}

ManyShape shape_of(int64 n_models, int64 n_cols) {
  if (n_models < 1 || n_models % kFewestModels != 0) {
    throw std::invalid_argument("n_models: expected a multiple of " +
                                std::to_string(kFewestModels) + ", got " +
                                std::to_string(n_models));
  }
  return {n_models, n_cols};
}

void many_products_into(ThreadPool& pool, const Rows& rows, int64 n_models,
                        const ReadOnlyArray& vectors, const AnyArray& out) {
  with_compressed(rows, vectors, [&](const auto& view, auto zero) {
    using Sum = decltype(zero);
    const ManyShape shape = shape_of(n_models, view.n_cols);
    const Sum* v = vector_argument<Sum>(vectors, "vectors", shape.size());
    Sum* z = vector_argument<Sum>(out, "out", view.n_rows * n_models);
    without_gil([&](Interrupt& interrupt) {
      many_products(view, shape, v, z, pool, interrupt);
      return true;
    });
  });
}

void many_adjoints_into(ThreadPool& pool, const Rows& rows, int64 n_models,
                        const ReadOnlyArray& scales, bool squares_entries, const AnyArray& out,
                        bool is_part) {
  with_compressed(rows, scales, [&](const auto& view, auto zero) {
    using Sum = decltype(zero);
    const ManyShape shape = shape_of(n_models, view.n_cols);
    const Sum* s = vector_argument<Sum>(scales, "scales", view.n_rows * n_models);
    Sum* g = vector_argument<Sum>(out, "out", pool.size() * shape.size());
    without_gil([&](Interrupt& interrupt) {
      squares_entries ? many_adjoints<2>(view, shape, s, is_part, g, pool, interrupt)
                      : many_adjoints<1>(view, shape, s, is_part, g, pool, interrupt);
      return true;
    });
  });
}

void many_hessians_into(ThreadPool& pool, const Rows& rows, int64 n_models,
                        const ReadOnlyArray& curvatures, const ReadOnlyArray& vectors,
                        const AnyArray& out, bool is_part) {
  with_compressed(rows, vectors, [&](const auto& view, auto zero) {
    using Sum = decltype(zero);
    const ManyShape shape = shape_of(n_models, view.n_cols);
    const Sum* h = vector_argument<Sum>(curvatures, "curvatures", view.n_rows * n_models);
    const Sum* v = vector_argument<Sum>(vectors, "vectors", shape.size());
    Sum* g = vector_argument<Sum>(out, "out", pool.size() * shape.size());
    without_gil([&](Interrupt& interrupt) {
      many_hessians(view, shape, h, v, is_part, g, pool, interrupt);
      return true;
    });
  });
}

// The arrays of many models' targets, as Python holds them.
struct ManyTargetArrays {
  ReadOnlyArray labels, weights, label_columns, weight_columns, factors;
};

const int32* columns_argument(const ReadOnlyArray& array, const char* name, int64 n_models,
                              int64 n_columns) {
  const int32* columns = vector_argument<int32>(array, name, n_models);
  for (int64 k = 0; k < n_models; ++k) {
    if (columns[k] < 0 || columns[k] >= n_columns) {
      throw std::invalid_argument(std::string(name) + ": expected numbers below " +
                                  std::to_string(n_columns) + ", got " +
                                  std::to_string(columns[k]));
    }
  }
  return columns;
}

// Of models that have one column each, or several.
template <class Sum>
ManyTargets<Sum> many_targets(const ManyTargetArrays& arrays, bool has_panels = true) {
  if (arrays.labels.ndim() != 2 || arrays.weights.ndim() != 2) {
    throw std::invalid_argument("labels, weights: expected tables of two dimensions");
  }
  ManyTargets<Sum> found{};
  found.n_rows = static_cast<int64>(arrays.labels.shape(0));
  found.n_label_columns = static_cast<int64>(arrays.labels.shape(1));
  found.n_weight_columns = static_cast<int64>(arrays.weights.shape(1));
  found.n_models = static_cast<int64>(arrays.factors.size());
  if (has_panels) shape_of(found.n_models, 0);
  found.labels =
      vector_argument<Sum>(arrays.labels, "labels", found.n_rows * found.n_label_columns);
  found.weights =
      vector_argument<Sum>(arrays.weights, "weights", found.n_rows * found.n_weight_columns);
  found.label_columns = columns_argument(arrays.label_columns, "label_columns", found.n_models,
                                         found.n_label_columns);
  found.weight_columns = columns_argument(arrays.weight_columns, "weight_columns", found.n_models,
                                          found.n_weight_columns);
  found.factors = vector_argument<Sum>(arrays.factors, "factors", found.n_models);
  return found;
}

template <class Sum>
void many_losses_in(ThreadPool& pool, const std::string& loss, const ManyTargetArrays& arrays,
                    const ReadOnlyArray& margins, const std::optional<ReadOnlyArray>& moves,
                    const std::optional<ReadOnlyArray>& steps,
                    const std::optional<AnyArray>& slopes,
                    const std::optional<AnyArray>& curvatures, const AnyArray& losses) {
  const ManyTargets<Sum> targets = many_targets<Sum>(arrays);
  const int64 size = targets.n_rows * targets.n_models;
  if (moves.has_value() != steps.has_value()) {
    throw std::invalid_argument("moves, steps: expected both or none");
  }
  ManyMargins<Sum> at{};
  at.margins = vector_argument<Sum>(margins, "margins", size);
  if (moves) at.moves = vector_argument<Sum>(*moves, "moves", size);
  if (steps) at.steps = vector_argument<Sum>(*steps, "steps", targets.n_models);
  if (slopes) at.slopes = vector_argument<Sum>(*slopes, "slopes", size);
  if (curvatures) at.curvatures = vector_argument<Sum>(*curvatures, "curvatures", size);
  double* sums = vector_argument<double>(losses, "losses", targets.n_models);
  with_primal_loss<Sum>(loss, [&](auto type) {
    const ReleasedGil released;
    many_losses(type, targets, at, sums, pool);
  });
}

void many_losses_into(ThreadPool& pool, const std::string& loss, const ManyTargetArrays& arrays,
                      const ReadOnlyArray& margins, const std::optional<ReadOnlyArray>& moves,
                      const std::optional<ReadOnlyArray>& steps,
                      const std::optional<AnyArray>& slopes,
                      const std::optional<AnyArray>& curvatures, const AnyArray& losses) {
  const bool is_short = margins.dtype() == nb::dtype<float>();
  const auto run = is_short ? &many_losses_in<float> : &many_losses_in<double>;
  run(pool, loss, arrays, margins, moves, steps, slopes, curvatures, losses);
}

SoftmaxShape softmax_shape(int64 n_models, int n_classes, int64 n_numbers, int64 n_rows) {
  const int64 stride = n_rows == 0 ? n_models * n_classes : n_numbers / n_rows;
  if (n_classes < 2 || stride < n_models * n_classes || stride * n_rows != n_numbers) {
    throw std::invalid_argument("expected rows of at least " + std::to_string(n_models) +
                                " models of " + std::to_string(n_classes) + " classes, got " +
                                std::to_string(n_numbers) + " numbers of " +
                                std::to_string(n_rows) + " rows");
  }
  return {n_models, n_classes, stride};
}

// Class numbers index the margins: nothing else may get through.
template <class Sum>
void check_classes(const ManyTargets<Sum>& targets, int n_classes) {
  for (int64 k = 0; k < targets.n_rows * targets.n_label_columns; ++k) {
    const Sum label = targets.labels[k];
    if (!(label >= 0 && label < static_cast<Sum>(n_classes))) {
      throw std::invalid_argument("labels: expected class numbers below " +
                                  std::to_string(n_classes) + ", got " + std::to_string(label));
    }
  }
}

template <class Sum>
void many_softmax_losses_in(ThreadPool& pool, const ManyTargetArrays& arrays, int n_classes,
                            const ReadOnlyArray& margins, const std::optional<ReadOnlyArray>& moves,
                            const std::optional<ReadOnlyArray>& steps,
                            const std::optional<AnyArray>& slopes,
                            const std::optional<AnyArray>& curvatures, const AnyArray& losses) {
  const ManyTargets<Sum> targets = many_targets<Sum>(arrays, false);
  check_classes(targets, n_classes);
  if (moves.has_value() != steps.has_value() || slopes.has_value() != curvatures.has_value()) {
    throw std::invalid_argument("moves, steps; slopes, curvatures: expected both or none");
  }
  const auto size = static_cast<int64>(margins.size());
  const SoftmaxShape shape = softmax_shape(targets.n_models, n_classes, size, targets.n_rows);
  ManyMargins<Sum> at{};
  at.margins = vector_argument<Sum>(margins, "margins", size);
  if (moves) at.moves = vector_argument<Sum>(*moves, "moves", size);
  if (steps) at.steps = vector_argument<Sum>(*steps, "steps", targets.n_models);
  if (slopes) at.slopes = vector_argument<Sum>(*slopes, "slopes", size);
  if (curvatures) at.curvatures = vector_argument<Sum>(*curvatures, "curvatures", size);
  double* sums = vector_argument<double>(losses, "losses", targets.n_models);
  const ReleasedGil released;
  many_softmax_losses(targets, at, shape, sums, pool);
}

void many_softmax_losses_into(ThreadPool& pool, const ManyTargetArrays& arrays, int n_classes,
                              const ReadOnlyArray& margins,
                              const std::optional<ReadOnlyArray>& moves,
                              const std::optional<ReadOnlyArray>& steps,
                              const std::optional<AnyArray>& slopes,
                              const std::optional<AnyArray>& curvatures, const AnyArray& losses) {
  const bool is_short = margins.dtype() == nb::dtype<float>();
  const auto run = is_short ? &many_softmax_losses_in<float> : &many_softmax_losses_in<double>;
  run(pool, arrays, n_classes, margins, moves, steps, slopes, curvatures, losses);
}

template <class Sum>
void many_softmax_curve_in(ThreadPool& pool, int64 n_models, int n_classes, int64 n_rows,
                           const ReadOnlyArray& curvatures, const AnyArray& moved) {
  const auto size = static_cast<int64>(moved.size());
  const SoftmaxShape shape = softmax_shape(n_models, n_classes, size, n_rows);
  const Sum* q = vector_argument<Sum>(curvatures, "curvatures", size);
  Sum* u = vector_argument<Sum>(moved, "moved", size);
  const ReleasedGil released;
  many_softmax_curve(q, n_rows, shape, u, pool);
}

void many_softmax_curve_into(ThreadPool& pool, int64 n_models, int n_classes, int64 n_rows,
                             const ReadOnlyArray& curvatures, const AnyArray& moved) {
  const bool is_short = moved.dtype() == nb::dtype<float>();
  const auto run = is_short ? &many_softmax_curve_in<float> : &many_softmax_curve_in<double>;
  run(pool, n_models, n_classes, n_rows, curvatures, moved);
}

TableShape table_of(const ReadOnlyArray& table, const char* name) {
  if (table.ndim() != 2) {
    throw std::invalid_argument(std::string(name) + ": expected a table of two dimensions");
  }
  return {static_cast<int64>(table.shape(0)), static_cast<int64>(table.shape(1))};
}

// Calls call with a number of the table's type.
template <class Call>
void with_number_of(const ReadOnlyArray& table, Call call) {
  table.dtype() == nb::dtype<float>() ? call(float{}) : call(double{});
}

void many_dots_into(ThreadPool& pool, const ReadOnlyArray& left, const ReadOnlyArray& right,
                    const AnyArray& out) {
  with_number_of(left, [&](auto zero) {
    using Sum = decltype(zero);
    const TableShape shape = table_of(left, "left");
    const Sum* a = vector_argument<Sum>(left, "left", shape.size());
    const Sum* b = vector_argument<Sum>(right, "right", shape.size());
    double* const to = vector_argument<double>(out, "out", shape.n_models);
    const ReleasedGil released;
    over_table(shape, to, pool,
               [&](Range rows, double* own) { add_dots(a, b, rows, shape.n_models, own); });
  });
}

void many_bends_into(ThreadPool& pool, const ReadOnlyArray& search, const ReadOnlyArray& penalty,
                     const AnyArray& product, const AnyArray& out) {
  with_number_of(search, [&](auto zero) {
    using Sum = decltype(zero);
    const TableShape shape = table_of(search, "search");
    const Sum* s = vector_argument<Sum>(search, "search", shape.size());
    const Sum* l2 = vector_argument<Sum>(penalty, "penalty", shape.n_rows);
    Sum* const p = vector_argument<Sum>(product, "product", shape.size());
    double* const to = vector_argument<double>(out, "out", shape.n_models);
    const ReleasedGil released;
    over_table(shape, to, pool,
               [&](Range rows, double* own) { add_bends(s, l2, p, rows, shape.n_models, own); });
  });
}

void many_residuals_into(ThreadPool& pool, const ReadOnlyArray& steps, const ReadOnlyArray& product,
                         const AnyArray& residual, const AnyArray& out) {
  with_number_of(product, [&](auto zero) {
    using Sum = decltype(zero);
    const TableShape shape = table_of(product, "product");
    const Sum* t = vector_argument<Sum>(steps, "steps", shape.n_models);
    const Sum* p = vector_argument<Sum>(product, "product", shape.size());
    Sum* const r = vector_argument<Sum>(residual, "residual", shape.size());
    double* const to = vector_argument<double>(out, "out", shape.n_models);
    const ReleasedGil released;
    over_table(shape, to, pool, [&](Range rows, double* own) {
      subtract_products(t, p, r, rows, shape.n_models, own);
    });
  });
}

void many_mixes_into(ThreadPool& pool, const ReadOnlyArray& factors, const ReadOnlyArray& from,
                     const AnyArray& to, bool scales_target) {
  with_number_of(from, [&](auto zero) {
    using Sum = decltype(zero);
    const TableShape shape = table_of(from, "source");
    const Sum* f = vector_argument<Sum>(factors, "factors", shape.n_models);
    const Sum* a = vector_argument<Sum>(from, "source", shape.size());
    Sum* const b = vector_argument<Sum>(to, "target", shape.size());
    const auto mix = scales_target ? &mix_rows<true, Sum> : &mix_rows<false, Sum>;
    const ReleasedGil released;
    over_table(shape, nullptr, pool,
               [&](Range rows, double*) { mix(f, a, b, rows, shape.n_models); });
  });
}

// What an epoch of the multinomial dual changes and reads besides the rows.
struct SoftmaxDualArrays {
  std::optional<ReadOnlyArray> row_weights;
  double weight;
  AnyArray log_p, shared;
  ReadOnlyArray offsets;
  double tau;
};

SoftmaxDual softmax_dual(const SoftmaxDualArrays& arrays, int64 n_rows, int64 n_cols) {
  const auto n_classes = static_cast<int64>(arrays.offsets.size());
  const int64 stride = static_cast<int64>(arrays.shared.size()) / (n_cols + 1);
  if (n_classes < 2 || stride < n_classes || stride % kFewestModels != 0) {
    throw std::invalid_argument("shared: expected a multiple of " + std::to_string(kFewestModels) +
                                " numbers a column, at least as many as there are classes (" +
                                std::to_string(n_classes) + "), got " + std::to_string(stride));
  }
  SoftmaxDual dual{};
  if (arrays.row_weights) {
    dual.row_weights = vector_argument<double>(*arrays.row_weights, "row_weights", n_rows);
  }
  dual.weight = arrays.weight;
  dual.log_p = vector_argument<double>(arrays.log_p, "log_p", n_rows * n_classes);
  dual.shared = vector_argument<double>(arrays.shared, "shared", (n_cols + 1) * stride);
  dual.offsets = vector_argument<double>(arrays.offsets, "offsets", n_classes);
  dual.tau = arrays.tau;
  dual.n_classes = static_cast<int>(n_classes);
  dual.stride = stride;
  return dual;
}

std::tuple<double, double> softmax_epoch(ThreadPool& pool, const Rows& rows,
                                         const SoftmaxDualArrays& arrays,
                                         const std::optional<AnyArray>& replicas, double sigma,
                                         double relaxation, int64 rounds, int block_rows,
                                         uint64 seed, uint64 epoch,
                                         const std::optional<ReadOnlyArray>& picked,
                                         const std::optional<AnyArray>& row_gaps) {
  if (replicas.has_value() != (pool.size() > 1)) {
    throw std::invalid_argument("replicas: expected them for several threads, and none for one");
  }
  const EpochOptions options =
      epoch_options(sigma, 1.0, relaxation, rounds, block_rows, seed, epoch);
  std::tuple<double, double> found;
  with_compressed(rows, arrays.shared, [&](const auto& view, auto) {
    const SoftmaxDual dual = softmax_dual(arrays, view.n_rows, view.n_cols);
    const int64 size = (view.n_cols + 1) * dual.stride;
    double* const copies =
        replicas ? vector_argument<double>(*replicas, "replicas", pool.size() * size) : nullptr;
    RowVisits<double> visits{nullptr, view.n_rows, nullptr, nullptr};
    if (picked) {
      visits.n_rows = static_cast<int64>(picked->size());
      visits.rows = picked_rows(*picked, view.n_rows);
    }
    if (row_gaps) visits.row_gaps = vector_argument<double>(*row_gaps, "row_gaps", view.n_rows);
    const EpochReport report = without_gil([&](Interrupt& interrupt) {
      return run_softmax_epoch(view, dual, copies, options, visits, pool, interrupt);
    });
    found = {report.gap, report.sigma};
  });
  return found;
}

}  // namespace

void bind_many(nb::module_& m) {
  nb::class_<ManyTargetArrays>(m, "ManyTargets")
      .def_static(
          "make",
          [](ReadOnlyArray labels, ReadOnlyArray weights, ReadOnlyArray label_columns,
             ReadOnlyArray weight_columns, ReadOnlyArray factors) {
            return ManyTargetArrays{std::move(labels), std::move(weights), std::move(label_columns),
                                    std::move(weight_columns), std::move(factors)};
          },
          nb::arg("labels"), nb::arg("weights"), nb::arg("label_columns"),
          nb::arg("weight_columns"), nb::arg("factors"));
  nb::class_<SoftmaxDualArrays>(m, "SoftmaxDual")
      .def_static(
          "make",
          [](std::optional<ReadOnlyArray> row_weights, double weight, AnyArray log_p,
             AnyArray shared, ReadOnlyArray offsets, double tau) {
            return SoftmaxDualArrays{std::move(row_weights), weight,
                                     std::move(log_p),       std::move(shared),
                                     std::move(offsets),     tau};
          },
          nb::arg("row_weights").none(), nb::arg("weight"), nb::arg("log_p"), nb::arg("shared"),
          nb::arg("offsets"), nb::arg("tau"));
  m.def("softmax_epoch", &softmax_epoch, nb::arg("pool"), nb::arg("rows"), nb::arg("dual"),
        nb::arg("replicas").none(), nb::arg("sigma"), nb::arg("relaxation"), nb::arg("rounds"),
        nb::arg("block_rows"), nb::arg("seed"), nb::arg("epoch"), nb::arg("picked").none(),
        nb::arg("row_gaps").none());
  m.def("many_products", &many_products_into, nb::arg("pool"), nb::arg("rows"), nb::arg("n_models"),
        nb::arg("vectors"), nb::arg("out"));
  m.def("many_adjoints", &many_adjoints_into, nb::arg("pool"), nb::arg("rows"), nb::arg("n_models"),
        nb::arg("scales"), nb::arg("squares_entries"), nb::arg("out"), nb::arg("is_part") = false);
  m.def("many_hessians", &many_hessians_into, nb::arg("pool"), nb::arg("rows"), nb::arg("n_models"),
        nb::arg("curvatures"), nb::arg("vectors"), nb::arg("out"), nb::arg("is_part") = false);
  m.def("many_losses", &many_losses_into, nb::arg("pool"), nb::arg("loss"), nb::arg("targets"),
        nb::arg("margins"), nb::arg("moves").none(), nb::arg("steps").none(),
        nb::arg("slopes").none(), nb::arg("curvatures").none(), nb::arg("losses"));
  m.def("many_softmax_losses", &many_softmax_losses_into, nb::arg("pool"), nb::arg("targets"),
        nb::arg("n_classes"), nb::arg("margins"), nb::arg("moves").none(), nb::arg("steps").none(),
        nb::arg("slopes").none(), nb::arg("curvatures").none(), nb::arg("losses"));
  m.def("many_dots", &many_dots_into, nb::arg("pool"), nb::arg("left"), nb::arg("right"),
        nb::arg("out"));
  m.def("many_bends", &many_bends_into, nb::arg("pool"), nb::arg("search"), nb::arg("penalty"),
        nb::arg("product"), nb::arg("out"));
  m.def("many_residuals", &many_residuals_into, nb::arg("pool"), nb::arg("steps"),
        nb::arg("product"), nb::arg("residual"), nb::arg("out"));
  m.def("many_mixes", &many_mixes_into, nb::arg("pool"), nb::arg("factors"), nb::arg("source"),
        nb::arg("target"), nb::arg("scales_target"));
  m.def("many_softmax_curve", &many_softmax_curve_into, nb::arg("pool"), nb::arg("n_models"),
        nb::arg("n_classes"), nb::arg("n_rows"), nb::arg("curvatures"), nb::arg("moved"));
}

}  // namespace snapml::native
