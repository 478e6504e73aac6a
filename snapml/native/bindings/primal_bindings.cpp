// The face of the primal sweeps towards Python: check what comes, release the GIL, call.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <type_traits>

#include "bindings/arguments.hpp"
#include "bindings/dispatch.hpp"
#include "bindings/without_gil.hpp"
#include "primal/fused_pass.hpp"
#include "primal/hessian_product.hpp"
#include "rows/centred_sums.hpp"
#include "rows/row_sums.hpp"
#include "rows/rows.hpp"
#include "rows/scaled_rows.hpp"

namespace snapml::native {

void bind_primal(nb::module_& m);

namespace {

// The arrays of a primal problem's shard, as Python holds them.
struct TargetArrays {
  ReadOnlyArray labels;
  std::optional<ReadOnlyArray> row_weights;
  double weight;
  std::optional<ReadOnlyArray> row_offsets;
  int n_outputs;
  bool is_softmax;
  double bias_column;
};

template <class Real>
PrimalTargets<Real> primal_targets(const TargetArrays& arrays, int64 n_rows) {
  const int64 n_labels = n_rows * (arrays.is_softmax ? 1 : arrays.n_outputs);
  const Real* labels = vector_argument<Real>(arrays.labels, "labels", n_labels);
  const Real* weights = nullptr;
  bool differ = false;
  if (arrays.row_weights) {
    differ = static_cast<int64>(arrays.row_weights->size()) != n_rows;
    weights = vector_argument<Real>(*arrays.row_weights, "row_weights",
                                    differ ? n_rows * arrays.n_outputs : n_rows);
  }
  const double* offsets = nullptr;
  bool offsets_differ = false;
  if (arrays.row_offsets) {
    offsets_differ = static_cast<int64>(arrays.row_offsets->size()) != n_rows;
    offsets = vector_argument<double>(*arrays.row_offsets, "row_offsets",
                                      offsets_differ ? n_rows * arrays.n_outputs : n_rows);
  }
  return {labels,           weights, arrays.weight,     differ, offsets, offsets_differ,
          arrays.n_outputs, n_rows,  arrays.bias_column};
}

TargetArrays make_targets(ReadOnlyArray labels, std::optional<ReadOnlyArray> row_weights,
                          double weight, int n_outputs, bool is_softmax, double bias_column,
                          std::optional<ReadOnlyArray> row_offsets) {
  if (n_outputs < 1) {
    throw std::invalid_argument("n_outputs: expected at least 1, got " + std::to_string(n_outputs));
  }
  if (is_softmax) {
    const auto check = [&](auto real) {
      using Real = decltype(real);
      const int64 n_rows = static_cast<int64>(labels.size());
      check_class_numbers(vector_argument<Real>(labels, "labels", n_rows), n_rows, n_outputs);
    };
    labels.dtype() == nb::dtype<float>() ? check(float{}) : check(double{});
  }
  return {std::move(labels),
          std::move(row_weights),
          weight,
          std::move(row_offsets),
          n_outputs,
          is_softmax,
          bias_column};
}

// How the outputs' losses are evaluated.
template <class Real>
std::unique_ptr<OutputLosses<Real>> make_losses(const TargetArrays& arrays,
                                                const std::string& loss) {
  if (arrays.is_softmax) return std::make_unique<SoftmaxOutputs<Real>>();
  return with_primal_loss<double>(loss, [](auto type) -> std::unique_ptr<OutputLosses<Real>> {
    return std::make_unique<SeparateOutputs<decltype(type), Real>>(type);
  });
}

std::tuple<double, double> fused_pass_of(ThreadPool& pool, const Rows& rows,
                                         const std::string& loss, const TargetArrays& arrays,
                                         const ReadOnlyArray& coef, bool wants_stiffness,
                                         const AnyArray& margins, const AnyArray& gradients,
                                         bool is_part) {
  return std::visit(
      [&](const auto& view) {
        using Real = typename std::decay_t<decltype(view)>::Real;
        const PrimalTargets<Real> targets = primal_targets<Real>(arrays, view.n_rows);
        const int64 k = targets.n_outputs, size = k * (view.n_cols + 1);
        const double* w = vector_argument<double>(coef, "coef", size);
        double* z = vector_argument<double>(margins, "margins", k * view.n_rows);
        double* g = vector_argument<double>(gradients, "gradients", pool.size() * size);
        const auto losses = make_losses<Real>(arrays, loss);
        const PassSums sums = without_gil([&](Interrupt& interrupt) {
          return fused_pass(*losses, view, targets, w, wants_stiffness, z, g, is_part, pool,
                            interrupt);
        });
        return std::make_tuple(sums.loss, sums.stiffness);
      },
      rows.view);
}

void hessian_product_of(ThreadPool& pool, const Rows& rows, const std::string& loss,
                        const TargetArrays& arrays, const ReadOnlyArray& margins,
                        const ReadOnlyArray& direction, const AnyArray& products, bool is_part) {
  std::visit(
      [&](const auto& view) {
        using Real = typename std::decay_t<decltype(view)>::Real;
        const PrimalTargets<Real> targets = primal_targets<Real>(arrays, view.n_rows);
        const int64 size = targets.shape(view.n_cols).size();
        const double* z =
            vector_argument<double>(margins, "margins", targets.n_outputs * view.n_rows);
        const double* d = vector_argument<double>(direction, "direction", size);
        double* out = vector_argument<double>(products, "products", pool.size() * size);
        const auto losses = make_losses<Real>(arrays, loss);
        without_gil([&](Interrupt& interrupt) {
          hessian_product(*losses, view, targets, z, d, out, is_part, pool, interrupt);
          return true;
        });
      },
      rows.view);
}

void weighted_squares_of(ThreadPool& pool, const Rows& rows, const ReadOnlyArray& weights,
                         int64 n_outputs, const AnyArray& sums) {
  std::visit(
      [&](const auto& view) {
        const double* c = vector_argument<double>(weights, "weights", n_outputs * view.n_rows);
        double* out = vector_argument<double>(sums, "sums", pool.size() * n_outputs * view.n_cols);
        without_gil([&](Interrupt& interrupt) {
          weighted_squares(view, c, n_outputs, out, pool, interrupt);
          return true;
        });
      },
      rows.view);
}

// Calls call(view) for dense rows.
template <class Call>
void with_dense(const Rows& rows, Call call) {
  std::visit(
      [&](const auto& view) {
        using View = std::decay_t<decltype(view)>;
        if constexpr (std::is_same_v<View, DenseView<typename View::Real>>) {
          call(view);
        } else {
          throw std::invalid_argument("expected dense rows, got compressed ones");
        }
      },
      rows.view);
}

void centred_sums_of(ThreadPool& pool, const Rows& rows, const std::optional<ReadOnlyArray>& centre,
                     const AnyArray& parts) {
  const double* middle =
      centre ? vector_argument<double>(*centre, "centre", rows.n_cols()) : nullptr;
  double* out = vector_argument<double>(parts, "parts", pool.size() * 2 * rows.n_cols());
  std::visit(
      [&](const auto& view) {
        without_gil([&](Interrupt& interrupt) {
          centred_sums(view, middle, out, pool, interrupt);
          return true;
        });
      },
      rows.view);
}

void scale_rows_into(const Rows& rows, const ReadOnlyArray& means, const ReadOnlyArray& scales,
                     const std::optional<ReadOnlyArray>& weights, double bias,
                     const AnyArray& out) {
  const int64 n_rows = rows.n_rows(), n_cols = rows.n_cols(), n_out = n_rows * (n_cols + 1);
  const double* const from = vector_argument<double>(means, "means", n_cols);
  const double* const by = vector_argument<double>(scales, "scales", n_cols);
  const double* const c = weights ? vector_argument<double>(*weights, "weights", n_rows) : nullptr;
  with_dense(rows, [&](const auto& view) {
    using Real = typename std::decay_t<decltype(view)>::Real;
    const auto write = [&](auto zero) {
      auto* const to = vector_argument<decltype(zero)>(out, "out", n_out);
      const ReleasedGil released;
      scale_rows(view, from, by, c, bias, to);
    };
    out.dtype() == nb::dtype<double>() ? write(double{}) : write(Real{});
  });
}

void scale_gram_of(const AnyArray& gram, const ReadOnlyArray& mean, const ReadOnlyArray& scale,
                   double bias) {
  const int64 n_cols = static_cast<int64>(mean.size());
  double* out = vector_argument<double>(gram, "gram", (n_cols + 1) * (n_cols + 1));
  scale_gram(out, vector_argument<double>(mean, "mean", n_cols),
             vector_argument<double>(scale, "scale", n_cols), n_cols, bias);
}

int64 n_rows_of(const TargetArrays& arrays) {
  const int64 n_labels = static_cast<int64>(arrays.labels.size());
  return arrays.is_softmax ? n_labels : n_labels / arrays.n_outputs;
}

int64 n_margins(const TargetArrays& arrays) { return arrays.n_outputs * n_rows_of(arrays); }

// Calls call(targets, losses) in the type of the labels, without the GIL.
template <class Call>
auto with_targets(const TargetArrays& arrays, const std::string& loss, Call call) {
  const auto call_in = [&](auto zero) {
    using Real = decltype(zero);
    const PrimalTargets<Real> targets = primal_targets<Real>(arrays, n_rows_of(arrays));
    const auto losses = make_losses<Real>(arrays, loss);
    const ReleasedGil released;
    return call(targets, *losses);
  };
  return arrays.labels.dtype() == nb::dtype<float>() ? call_in(float{}) : call_in(double{});
}

std::tuple<double, double> line_point_of(ThreadPool& pool, const std::string& loss,
                                         const TargetArrays& arrays, const ReadOnlyArray& margins,
                                         const ReadOnlyArray& trial, double step) {
  const int64 size = n_margins(arrays);
  const double* z = vector_argument<double>(margins, "margins", size);
  const double* z_trial = vector_argument<double>(trial, "trial", size);
  const LinePoint point = with_targets(arrays, loss, [&](const auto& targets, const auto& losses) {
    return line_point(losses, targets, z, z_trial, step, pool);
  });
  return {point.value, point.slope};
}

void curvatures_into(ThreadPool& pool, const std::string& loss, const TargetArrays& arrays,
                     const ReadOnlyArray& margins, const AnyArray& out) {
  const int64 size = n_margins(arrays);
  const double* z = vector_argument<double>(margins, "margins", size);
  double* h = vector_argument<double>(out, "out", size);
  with_targets(arrays, loss, [&](const auto& targets, const auto& losses) {
    if (arrays.is_softmax) return softmax_probabilities(targets, z, h, pool);
    curvatures(losses, targets, z, h, pool);
  });
}

}  // namespace

void bind_primal(nb::module_& m) {
  nb::class_<TargetArrays>(m, "Targets")
      .def_static("make", &make_targets, nb::arg("labels"), nb::arg("row_weights").none(),
                  nb::arg("weight"), nb::arg("n_outputs"), nb::arg("is_softmax"),
                  nb::arg("bias_column"), nb::arg("row_offsets").none() = nb::none());
  m.def("fused_pass", &fused_pass_of, nb::arg("pool"), nb::arg("rows"), nb::arg("loss"),
        nb::arg("targets"), nb::arg("coef"), nb::arg("wants_stiffness"), nb::arg("margins"),
        nb::arg("gradients"), nb::arg("is_part") = false);
  m.def("hessian_product", &hessian_product_of, nb::arg("pool"), nb::arg("rows"), nb::arg("loss"),
        nb::arg("targets"), nb::arg("margins"), nb::arg("direction"), nb::arg("products"),
        nb::arg("is_part") = false);
  m.def("weighted_squares", &weighted_squares_of, nb::arg("pool"), nb::arg("rows"),
        nb::arg("weights"), nb::arg("n_outputs"), nb::arg("sums"));
  m.def("centred_sums", &centred_sums_of, nb::arg("pool"), nb::arg("rows"),
        nb::arg("centre").none(), nb::arg("parts"));
  m.def("scale_rows", &scale_rows_into, nb::arg("rows"), nb::arg("means"), nb::arg("scales"),
        nb::arg("weights").none(), nb::arg("bias"), nb::arg("out"));
  m.def("scale_gram", &scale_gram_of, nb::arg("gram"), nb::arg("mean"), nb::arg("scale"),
        nb::arg("bias"));
  m.def("line_point", &line_point_of, nb::arg("pool"), nb::arg("loss"), nb::arg("targets"),
        nb::arg("margins"), nb::arg("trial"), nb::arg("step"));
  m.def("curvatures", &curvatures_into, nb::arg("pool"), nb::arg("loss"), nb::arg("targets"),
        nb::arg("margins"), nb::arg("out"));
}

}  // namespace snapml::native
