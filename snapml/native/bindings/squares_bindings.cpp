// The face of least squares of few columns, and of sums over rows, towards Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>

#include "bindings/arguments.hpp"
#include "bindings/without_gil.hpp"
#include "rows/rows.hpp"
#include "squares/elastic_net_bounds.hpp"
#include "squares/least_squares.hpp"
#include "squares/row_equations.hpp"
#include "squares/row_forms.hpp"

namespace snapml::native {

void bind_squares(nb::module_& m);

namespace {

// Calls `call` with rows, their targets and weights.
template <class Call>
auto with_targets(const Rows& rows, const ReadOnlyArray& targets,
                  const std::optional<ReadOnlyArray>& row_weights, Call call) {
  if (rows.n_rows() == 0) throw std::invalid_argument("rows: expected at least one, got none");
  const int64 n_rows = rows.n_rows(), n_targets = static_cast<int64>(targets.size()) / n_rows;
  const double* const y = vector_argument<double>(targets, "targets", n_targets * n_rows);
  const double* const weights =
      row_weights ? vector_argument<double>(*row_weights, "row_weights", n_rows) : nullptr;
  return std::visit(
      [&](const auto& view) {
        using View = std::decay_t<decltype(view)>;
        return call(squares::RowsWithTargets<View>{view, y, n_targets, weights});
      },
      rows.view);
}

// Least squares of few columns. coef (n_models x n_cols) gets the models, of the targets in turn,
// and facts the numbers of `squares::LeastSquaresFacts` of each; `gram`, where it is wanted, the
// centred columns' products. Returns whether the equations could be trusted, the rows' weighted
// squares and their weight.
std::tuple<bool, double, double> least_squares(ThreadPool& pool, const Rows& rows,
                                               const ReadOnlyArray& targets,
                                               const std::optional<ReadOnlyArray>& row_weights,
                                               bool is_centred, const ReadOnlyArray& alphas,
                                               const AnyArray& coef, const AnyArray& facts,
                                               const std::optional<AnyArray>& gram) {
  constexpr int64 kLeastSquaresFacts = 5;
  return with_targets(rows, targets, row_weights, [&](const auto& all) {
    using View = std::decay_t<decltype(all.rows)>;
    const int64 n_models = static_cast<int64>(alphas.size()), n_cols = all.rows.n_cols;
    if (all.n_targets == 0) throw std::invalid_argument("targets: expected at least one");
    const double* const strengths = vector_argument<double>(alphas, "alphas", n_models);
    double* const models = vector_argument<double>(coef, "coef", n_models * n_cols);
    double* to = vector_argument<double>(facts, "facts", kLeastSquaresFacts * n_models);
    double* const products =
        gram ? vector_argument<double>(*gram, "gram", n_cols * n_cols) : nullptr;
    return without_gil([&](Interrupt& interrupt) -> std::tuple<bool, double, double> {
      squares::LeastSquares<View> fit(all, n_models, is_centred, pool, interrupt);
      std::vector<squares::LeastSquaresFacts> found(static_cast<std::size_t>(n_models));
      if (!fit.solve(strengths, models, found.data())) return {false, 0.0, 0.0};
      if (products != nullptr) fit.store_gram(products);
      for (const squares::LeastSquaresFacts& each : found) {
        for (const double x :
             {each.objective, each.bound, each.intercept, each.beside, each.residuals}) {
          *to++ = x;
        }
      }
      return {true, fit.squares(), fit.total_weight()};
    });
  });
}

// What `squares::row_sums` makes of rows and their targets, n_columns of them: the matrix of
// their products in `products`, their sums in `sums`.
void row_sums(ThreadPool& pool, const Rows& rows, const ReadOnlyArray& targets,
              const std::optional<ReadOnlyArray>& row_weights, const ReadOnlyArray& origin,
              const AnyArray& products, const AnyArray& sums) {
  with_targets(rows, targets, row_weights, [&](const auto& all) {
    const int64 n = all.n_columns();
    const double* const from = vector_argument<double>(origin, "origin", n);
    double* const to = vector_argument<double>(products, "products", n * n);
    double* const beside = vector_argument<double>(sums, "sums", n);
    return without_gil([&](Interrupt& interrupt) {
      const auto found = squares::row_sums(all, from, pool, interrupt);
      std::copy_n(found.data(), n * n, to);
      std::copy_n(found.data() + n * n, n, beside);
      return true;
    });
  });
}

// The quadratic form of a symmetric `matrix` (n_cols x n_cols), whose upper half is read, at every
// row of compressed ones.
void row_forms(ThreadPool& pool, const Rows& rows, const ReadOnlyArray& matrix,
               const AnyArray& out) {
  const int64 n = rows.n_cols();
  const double* const from = vector_argument<double>(matrix, "matrix", n * n);
  double* const to = vector_argument<double>(out, "out", rows.n_rows());
  std::visit(
      [&](const auto& view) {
        if constexpr (squares::kIsCompressed<std::decay_t<decltype(view)>>) {
          without_gil([&](Interrupt& interrupt) {
            squares::row_forms(view, from, to, pool, interrupt);
            return true;
          });
        } else {
          throw std::invalid_argument("rows: expected compressed ones, got dense ones");
        }
      },
      rows.view);
}

// Reads the rows once for models (n_models x n_cols) of one target, with penalties of their own.
// `out` gets P of each, a lower bound of its minimum, and the sum of the residuals, which are those
// of the best intercept where one is free: the centre is then that of all rows.
void certify_squares(ThreadPool& pool, const Rows& rows, const ReadOnlyArray& targets,
                     const std::optional<ReadOnlyArray>& row_weights, const ReadOnlyArray& centre,
                     bool has_intercept, const ReadOnlyArray& models, const ReadOnlyArray& l1,
                     const ReadOnlyArray& l2, bool is_positive, const AnyArray& out) {
  with_targets(rows, targets, row_weights, [&](const auto& all) {
    const int64 n = all.rows.n_cols, n_models = static_cast<int64>(l1.size());
    if (all.n_targets != 1) throw std::invalid_argument("targets: expected one for each row");
    const double* const from = vector_argument<double>(centre, "centre", n + 1);
    const double* const w = vector_argument<double>(models, "models", n_models * n);
    const double* const l1s = vector_argument<double>(l1, "l1", n_models);
    const double* const l2s = vector_argument<double>(l2, "l2", n_models);
    double* const to = vector_argument<double>(out, "out", n_models * 3);
    return without_gil([&](Interrupt& interrupt) {
      const double total = all.total_weight();
      const auto sums = squares::residual_sums(all, from, w, n_models, pool, interrupt);
      for (int64 k = 0; k < n_models; ++k) {
        const double* const own = sums.data() + k * (n + 2);
        const double shift = has_intercept ? own[n + 1] / total : 0;
        const squares::Bounds found = squares::bounds_at(own, n, own[n] - shift * own[n + 1],
                                                         w + k * n, l1s[k], l2s[k], is_positive);
        to[3 * k] = found.objective, to[3 * k + 1] = found.lower, to[3 * k + 2] = own[n + 1];
      }
      return true;
    });
  });
}

// An elastic net on dense rows of one target, by working sets of columns: `coef` has where to begin
// and gets the model, rounded to the rows' type. `looks` and `points` get what `squares::Looks`
// says, of at most as many points as the former has room for. Returns whether the tolerance was
// met, how many looks there were, P, a lower bound of its minimum, the best intercept, and the
// rows' weighted squares.
std::tuple<bool, int64, double, double, double, double> elastic_net_on_rows(
    ThreadPool& pool, const Rows& rows, const ReadOnlyArray& targets,
    const std::optional<ReadOnlyArray>& row_weights, bool is_centred, double l1, double l2,
    bool is_positive, double tol, const AnyArray& coef, const AnyArray& looks,
    const std::optional<AnyArray>& points) {
  using Found = std::tuple<bool, int64, double, double, double, double>;
  return with_targets(rows, targets, row_weights, [&](const auto& all) -> Found {
    using View = std::decay_t<decltype(all.rows)>;
    if constexpr (squares::kIsCompressed<View>) {
      throw std::invalid_argument("rows: expected dense ones, got compressed ones");
    } else {
      const int64 n = all.rows.n_cols, most = static_cast<int64>(looks.size()) / 4;
      if (all.n_targets != 1) throw std::invalid_argument("targets: expected one for each row");
      double* const w = vector_argument<double>(coef, "coef", n);
      const squares::Looks kept{
          vector_argument<double>(looks, "looks", 4 * most),
          points ? vector_argument<double>(*points, "points", most * (n + 1)) : nullptr, most};
      return without_gil([&](Interrupt& interrupt) -> Found {
        squares::RowFit fit(all, is_centred, pool, interrupt);
        const bool is_solved = fit.solve({l1, l2, is_positive}, tol, kept, w);
        return {is_solved, fit.n_looks, fit.objective, fit.lower, fit.intercept, fit.stiffness()};
      });
    }
  });
}

}  // namespace

void bind_squares(nb::module_& m) {
  m.def("least_squares", &least_squares, nb::arg("pool"), nb::arg("rows"), nb::arg("targets"),
        nb::arg("row_weights").none(), nb::arg("is_centred"), nb::arg("alphas"), nb::arg("coef"),
        nb::arg("facts"), nb::arg("gram").none());
  m.def("row_sums", &row_sums, nb::arg("pool"), nb::arg("rows"), nb::arg("targets"),
        nb::arg("row_weights").none(), nb::arg("origin"), nb::arg("products"), nb::arg("sums"));
  m.def("row_forms", &row_forms, nb::arg("pool"), nb::arg("rows"), nb::arg("matrix"),
        nb::arg("out"));
  m.def("elastic_net_on_rows", &elastic_net_on_rows, nb::arg("pool"), nb::arg("rows"),
        nb::arg("targets"), nb::arg("row_weights").none(), nb::arg("is_centred"), nb::arg("l1"),
        nb::arg("l2"), nb::arg("is_positive"), nb::arg("tol"), nb::arg("coef"), nb::arg("looks"),
        nb::arg("points").none());
  m.def("certify_squares", &certify_squares, nb::arg("pool"), nb::arg("rows"), nb::arg("targets"),
        nb::arg("row_weights").none(), nb::arg("centre"), nb::arg("has_intercept"),
        nb::arg("models"), nb::arg("l1"), nb::arg("l2"), nb::arg("is_positive"), nb::arg("out"));
}

}  // namespace snapml::native
