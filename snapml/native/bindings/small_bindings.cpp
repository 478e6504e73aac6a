// The face of the solver of small problems towards Python: one call a fit.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>

#include "bindings/arguments.hpp"
#include "bindings/dispatch.hpp"
#include "bindings/without_gil.hpp"
#include "rows/rows.hpp"
#include "small/interior_point.hpp"
#include "small/newton.hpp"
#include "small/softmax_problem.hpp"

namespace snapml::native {

void bind_small(nb::module_& m);

namespace {

constexpr int64 kEntryNumbers = 4, kLookNumbers = 3;

// The numbers of a vector as float64, `common` for all where there is none, with `padding` behind
// them up to a multiple of eight.
template <class Real>
std::vector<double> widened(const std::optional<ReadOnlyArray>& array, const char* name, int64 size,
                            double common, double padding) {
  std::vector<double> wide(static_cast<std::size_t>(small::whole(size)), padding);
  if (!array) {
    std::fill(wide.begin(), wide.begin() + size, common);
    return wide;
  }
  const Real* const values = vector_argument<Real>(*array, name, size);
  std::copy(values, values + size, wide.begin());
  return wide;
}

// What each row is to become, and what it counts; keeps what `targets` points to.
struct SmallTargets {
  std::vector<double> labels, weights;
  const double* offsets = nullptr;

  small::Targets targets() const { return {labels.data(), weights.data(), offsets}; }
};

template <class Real>
SmallTargets small_targets(const ReadOnlyArray& labels,
                           const std::optional<ReadOnlyArray>& row_weights, double weight,
                           const std::optional<ReadOnlyArray>& row_offsets, int64 n_rows,
                           int64 n_outputs = 1) {
  SmallTargets made;
  made.labels = widened<Real>(labels, "labels", n_rows, 1.0, 1.0);
  made.weights = widened<Real>(row_weights, "row_weights", n_rows, weight, 0.0);
  if (row_offsets) {
    made.offsets = vector_argument<double>(*row_offsets, "row_offsets", n_outputs * n_rows);
  }
  return made;
}

small::Intercept intercept_of(const std::string& kind) {
  if (kind == "none") return small::Intercept::kNone;
  if (kind == "free") return small::Intercept::kFree;
  if (kind == "penalised") return small::Intercept::kPenalised;
  throw std::invalid_argument("intercept: expected none, free or penalised, got '" + kind + "'");
}

std::unique_ptr<small::RowLosses> make_losses(const std::string& loss) {
  return with_primal_loss<double>(loss, [](const auto& type) -> std::unique_ptr<small::RowLosses> {
    return std::make_unique<small::RowLossesOf<std::decay_t<decltype(type)>>>(type);
  });
}

// What a fit gives back beside the arrays that it fills.
using SmallFit = std::tuple<bool, int64, int64, double, double, double, double>;

// Where a fit goes.
struct SmallArrays {
  double* coef;  // of the start, and then of the model
  double* history;
  double* points;  // null, or the coefficients of each entry of the history
};

template <class Real, class Problem>
SmallFit small_fit(const Problem& problem, const small::Rule& rule, SmallArrays to,
                   Interrupt& interrupt) {
  const small::Solution found = small::Newton<Problem>(problem, rule, interrupt).solve(to.coef);
  if (interrupt.requested()) return {};
  typename Problem::Point rounded = problem.point();
  rounded.coef = found.coef;
  for (double& w : rounded.coef) w = static_cast<double>(static_cast<Real>(w));
  rounded.objective = found.objective;
  if (rounded.coef != found.coef) problem.evaluate(rounded);
  problem.store(rounded.coef, to.coef);
  for (const small::Entry& entry : found.history) {
    for (const double x : {entry.seconds, entry.decrement, entry.gap, entry.objective}) {
      *to.history++ = x;
    }
    if (to.points == nullptr) continue;
    problem.store(entry.coef, to.points);
    to.points += problem.n_coefs();
  }
  const double stiffness = problem.design.weighted_squares(problem.targets.weights);
  const int64 n_entries = static_cast<int64>(found.history.size());
  return {found.is_solved, found.n_passes,    n_entries, found.objective,
          found.bound,     rounded.objective, stiffness};
}

SmallFit small_newton(const Rows& rows, const std::string& loss, int n_classes,
                      const ReadOnlyArray& labels, const std::optional<ReadOnlyArray>& row_weights,
                      double weight, const std::optional<ReadOnlyArray>& row_offsets, double l1,
                      double l2, const std::string& intercept, double bias_column, double tol,
                      double floor, int64 most_passes, const AnyArray& coef,
                      const AnyArray& history, const std::optional<AnyArray>& points) {
  const int64 n_entries = static_cast<int64>(history.size()) / kEntryNumbers;
  const small::Penalty penalty{l1, l2, intercept_of(intercept)};
  const small::Rule rule{tol, floor, most_passes, n_entries, points.has_value()};
  return std::visit(
      [&](const auto& view) {
        using Real = typename std::decay_t<decltype(view)>::Real;
        const int64 n = view.n_rows, k = n_classes > 0 ? n_classes : 1;
        const int64 n_coefs = k * (view.n_cols + (bias_column != 0 ? 1 : 0));
        const auto made = small_targets<Real>(labels, row_weights, weight, row_offsets, n, k);
        SmallArrays to{vector_argument<double>(coef, "coef", n_coefs),
                       vector_argument<double>(history, "history", kEntryNumbers * n_entries),
                       nullptr};
        if (points) to.points = vector_argument<double>(*points, "points", n_entries * n_coefs);
        if (n_classes > 0) check_class_numbers(made.labels.data(), n, n_classes);
        const auto fit = [&](const auto& make) {
          return without_gil([&](Interrupt& interrupt) {
            const small::Design design(view, bias_column);
            return small_fit<Real>(make(design, made.targets()), rule, to, interrupt);
          });
        };
        if (n_classes > 0) {
          return fit([&](const small::Design& design, const small::Targets& targets) {
            return small::SoftmaxProblem(n_classes, design, targets, penalty);
          });
        }
        std::vector<double> gram;
        const auto losses = make_losses(loss);
        return fit([&](const small::Design& design, const small::Targets& targets) {
          return small::Problem(*losses, design, targets, penalty, &gram);
        });
      },
      rows.view);
}

// A loss with corners by an interior point method. `coef` gets the model, `slopes` the dual point;
// `history` and `points` get what as many looks as there is room for have seen. Returns whether the
// tolerance is met, how many looks there were, the objective, its lower bound, and the rows'
// weighted squares.
std::tuple<bool, int64, double, double, double> small_interior_point(
    const Rows& rows, const std::string& loss, const ReadOnlyArray& labels,
    const std::optional<ReadOnlyArray>& row_weights, double weight,
    const std::optional<ReadOnlyArray>& row_offsets, double l1, double l2,
    const std::string& intercept, double bias_column, double tol, double floor,
    const AnyArray& coef, const AnyArray& slopes, const AnyArray& history,
    const std::optional<AnyArray>& points) {
  const int64 most_entries = static_cast<int64>(history.size()) / kLookNumbers;
  const small::Penalty penalty{l1, l2, intercept_of(intercept)};
  const small::Rule rule{tol, floor, most_entries, most_entries, points.has_value()};
  return std::visit(
      [&](const auto& view) {
        using Real = typename std::decay_t<decltype(view)>::Real;
        const int64 n = view.n_rows, n_coefs = view.n_cols + (bias_column != 0 ? 1 : 0);
        const auto made = small_targets<Real>(labels, row_weights, weight, row_offsets, n);
        double* const model = vector_argument<double>(coef, "coef", n_coefs);
        double* to = vector_argument<double>(history, "history", kLookNumbers * most_entries);
        double* const all =
            points ? vector_argument<double>(*points, "points", most_entries * n_coefs) : nullptr;
        double* const v = vector_argument<double>(slopes, "slopes", n);
        double stiffness = 0;
        const small::CornerSolution best = with_primal_loss<double>(loss, [&](const auto& type) {
          using Loss = std::decay_t<decltype(type)>;
          if constexpr (Loss::traits().n_corners == 0) {
            throw std::invalid_argument("loss: expected one with corners, got '" + loss + "'");
            return small::CornerSolution();
          } else {
            return without_gil([&](Interrupt& interrupt) {
              const small::Design design(view, bias_column);
              stiffness = design.weighted_squares(made.weights.data());
              small::InteriorPoint<Real, Loss> fit(type, design, made.targets(), penalty, rule,
                                                   interrupt);
              return fit.solve();
            });
          }
        });
        std::copy(best.coef.begin(), best.coef.end(), model);
        std::copy(best.slopes.begin(), best.slopes.end(), v);
        for (const small::Look& look : best.looks) {
          for (const double x : {look.seconds, look.gap, look.objective}) *to++ = x;
        }
        if (all != nullptr) std::copy(best.points.begin(), best.points.end(), all);
        return std::make_tuple(best.is_solved, static_cast<int64>(best.looks.size()),
                               best.objective, best.bound, stiffness);
      },
      rows.view);
}

// Rows [first, last) of a view.
template <class Real>
DenseView<Real> rows_between(DenseView<Real> view, int64 first, int64 last) {
  view.values += first * view.row_stride;
  view.n_rows = last - first;
  return view;
}

template <class Real, class Index>
CompressedView<Real, Index> rows_between(CompressedView<Real, Index> view, int64 first,
                                         int64 last) {
  view.indptr += first;
  view.n_rows = last - first;
  return view;
}

// Targets of some rows, padded as a `Design` is.
struct GroupTargets {
  std::vector<double> labels, weights;

  template <class Real>
  void fill(const Real* y, const Real* c, double common, int64 first, int64 last) {
    const auto size = static_cast<std::size_t>(small::whole(last - first));
    labels.assign(size, 1.0), weights.assign(size, 0.0);
    for (int64 i = first; i < last; ++i) {
      const auto to = static_cast<std::size_t>(i - first);
      labels[to] = static_cast<double>(y[i]);
      weights[to] = c == nullptr ? common : static_cast<double>(c[i]);
    }
  }
};

// Calls fit(worker, group, view, targets) for groups of neighbouring rows, on all threads.
template <class View, class Fit>
void for_each_group(const View& view, const int64* bounds, int64 n_groups,
                    const typename View::Real* y, const typename View::Real* c, double weight,
                    ThreadPool& pool, Interrupt& interrupt, Fit fit) {
  std::vector<GroupTargets> targets(static_cast<std::size_t>(pool.size()));
  run_parts(pool, n_groups, 1, [&](int worker, Range groups) {
    interrupt.poll();
    if (interrupt.requested()) return;
    const int64 first = bounds[groups.begin], last = bounds[groups.begin + 1];
    GroupTargets& own = targets[static_cast<std::size_t>(worker)];
    own.fill(y, c, weight, first, last);
    fit(groups.begin, rows_between(view, first, last),
        small::Targets{own.labels.data(), own.weights.data(), nullptr});
  });
}

// The numbers of a `SmallFit` that whoever asks for many fits is given: the seconds in place of the
// entries of the history, of which only the last is known then.
constexpr int64 kFacts = 7;

template <class Real, class Problem>
void fit_for_facts(const Problem& problem, const small::Rule& rule, double* coef, double* facts,
                   Interrupt& interrupt) {
  std::vector<double> history(static_cast<std::size_t>(kEntryNumbers * rule.most_entries));
  const SmallFit fit = small_fit<Real>(problem, rule, {coef, history.data(), nullptr}, interrupt);
  const int64 n_entries = std::get<2>(fit);
  facts[0] = std::get<0>(fit), facts[1] = static_cast<double>(std::get<1>(fit));
  facts[2] = n_entries > 0 ? history[static_cast<std::size_t>(kEntryNumbers * (n_entries - 1))] : 0;
  facts[3] = std::get<3>(fit), facts[4] = std::get<4>(fit);
  facts[5] = std::get<5>(fit), facts[6] = std::get<6>(fit);
}

// As `small_newton`, for one penalty after the other, each from the last one's model; the first
// from that in `coef`, which gets all models. An interrupt leaves the rest as it is.
void small_newton_path(const Rows& rows, const std::string& loss, const ReadOnlyArray& labels,
                       const std::optional<ReadOnlyArray>& row_weights, double weight,
                       const std::optional<ReadOnlyArray>& row_offsets, const ReadOnlyArray& l1,
                       const ReadOnlyArray& l2, const std::string& intercept, double bias_column,
                       double tol, int64 most_passes, const AnyArray& coef, const AnyArray& facts) {
  const small::Rule rule{tol, 0, most_passes, most_passes, false};
  const small::Intercept kind = intercept_of(intercept);
  const int64 n_fits = static_cast<int64>(l1.size());
  const double* const l1s = vector_argument<double>(l1, "l1", n_fits);
  const double* const l2s = vector_argument<double>(l2, "l2", n_fits);
  std::visit(
      [&](const auto& view) {
        using Real = typename std::decay_t<decltype(view)>::Real;
        const int64 n = view.n_rows, n_coefs = view.n_cols + (bias_column != 0 ? 1 : 0);
        const auto made = small_targets<Real>(labels, row_weights, weight, row_offsets, n);
        double* const models = vector_argument<double>(coef, "coef", n_fits * n_coefs);
        double* const found = vector_argument<double>(facts, "facts", n_fits * kFacts);
        const auto losses = make_losses(loss);
        without_gil([&](Interrupt& interrupt) {
          const small::Design design(view, bias_column);
          const small::Targets targets = made.targets();
          std::vector<double> gram;
          for (int64 k = 0; k < n_fits && !interrupt.requested(); ++k) {
            double* const own = models + k * n_coefs;
            if (k > 0) std::copy(own - n_coefs, own, own);
            const small::Penalty penalty{l1s[k], l2s[k], kind};
            fit_for_facts<Real>(small::Problem(*losses, design, targets, penalty, &gram), rule, own,
                                found + k * kFacts, interrupt);
          }
          return true;
        });
      },
      rows.view);
}

// As `small_newton`, for each group of neighbouring rows; coef gets their models, and facts the
// numbers of `SmallFit`, with the seconds of a fit in place of its entries.
void small_newton_groups(ThreadPool& pool, const Rows& rows, const std::string& loss,
                         const ReadOnlyArray& bounds, const ReadOnlyArray& labels,
                         const std::optional<ReadOnlyArray>& row_weights, double weight, double l1,
                         double l2, const std::string& intercept, double bias_column, double tol,
                         int64 most_passes, const AnyArray& coef, const AnyArray& facts) {
  const small::Penalty penalty{l1, l2, intercept_of(intercept)};
  const small::Rule rule{tol, 0, most_passes, most_passes, false};
  const int64 n_groups = static_cast<int64>(bounds.size()) - 1;
  std::visit(
      [&](const auto& view) {
        using Real = typename std::decay_t<decltype(view)>::Real;
        const int64* const ends = vector_argument<int64>(bounds, "bounds", n_groups + 1);
        for (int64 g = 0; g <= n_groups; ++g) {
          if (ends[g] < (g == 0 ? 0 : ends[g - 1]) || ends[g] > view.n_rows) {
            throw std::invalid_argument("bounds: expected ascending rows of the matrix");
          }
        }
        const Real* const y = vector_argument<Real>(labels, "labels", view.n_rows);
        const Real* const c =
            row_weights ? vector_argument<Real>(*row_weights, "row_weights", view.n_rows) : nullptr;
        const int64 n_coefs = view.n_cols + (bias_column != 0 ? 1 : 0);
        double* const models = vector_argument<double>(coef, "coef", n_groups * n_coefs);
        double* const found = vector_argument<double>(facts, "facts", n_groups * kFacts);
        const auto losses = make_losses(loss);
        without_gil([&](Interrupt& interrupt) {
          for_each_group(
              view, ends, n_groups, y, c, weight, pool, interrupt,
              [&](int64 group, const auto& own, const small::Targets& targets) {
                Interrupt quiet([] { return false; });  // one thread alone asks, between groups
                const small::Design design(own, bias_column);
                fit_for_facts<Real>(small::Problem(*losses, design, targets, penalty), rule,
                                    models + group * n_coefs, found + group * kFacts, quiet);
              });
          return true;
        });
      },
      rows.view);
}

}  // namespace

void bind_small(nb::module_& m) {
  m.def("small_newton", &small_newton, nb::arg("rows"), nb::arg("loss"), nb::arg("n_classes"),
        nb::arg("labels"), nb::arg("row_weights").none(), nb::arg("weight"),
        nb::arg("row_offsets").none(), nb::arg("l1"), nb::arg("l2"), nb::arg("intercept"),
        nb::arg("bias_column"), nb::arg("tol"), nb::arg("floor"), nb::arg("most_passes"),
        nb::arg("coef"), nb::arg("history"), nb::arg("points").none());
  m.def("small_interior_point", &small_interior_point, nb::arg("rows"), nb::arg("loss"),
        nb::arg("labels"), nb::arg("row_weights").none(), nb::arg("weight"),
        nb::arg("row_offsets").none(), nb::arg("l1"), nb::arg("l2"), nb::arg("intercept"),
        nb::arg("bias_column"), nb::arg("tol"), nb::arg("floor"), nb::arg("coef"),
        nb::arg("slopes"), nb::arg("history"), nb::arg("points").none());
  m.def("small_newton_path", &small_newton_path, nb::arg("rows"), nb::arg("loss"),
        nb::arg("labels"), nb::arg("row_weights").none(), nb::arg("weight"),
        nb::arg("row_offsets").none(), nb::arg("l1"), nb::arg("l2"), nb::arg("intercept"),
        nb::arg("bias_column"), nb::arg("tol"), nb::arg("most_passes"), nb::arg("coef"),
        nb::arg("facts"));
  m.def("small_newton_groups", &small_newton_groups, nb::arg("pool"), nb::arg("rows"),
        nb::arg("loss"), nb::arg("bounds"), nb::arg("labels"), nb::arg("row_weights").none(),
        nb::arg("weight"), nb::arg("l1"), nb::arg("l2"), nb::arg("intercept"),
        nb::arg("bias_column"), nb::arg("tol"), nb::arg("most_passes"), nb::arg("coef"),
        nb::arg("facts"));
}

}  // namespace snapml::native
