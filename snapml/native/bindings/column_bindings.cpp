// The face towards Python of what primal methods need: products, packed columns, descents.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>

#include "bindings/arguments.hpp"
#include "bindings/dispatch.hpp"
#include "bindings/without_gil.hpp"
#include "columns/column_pack.hpp"
#include "columns/columns.hpp"
#include "columns/gram_descent.hpp"
#include "columns/gram_path.hpp"
#include "columns/sparse_gram.hpp"
#include "rows/row_checks.hpp"
#include "rows/row_sums.hpp"
#include "rows/rows.hpp"

namespace snapml::native {

void bind_columns(nb::module_& m);

namespace {

// The elements of an optional vector, null where there is none.
template <class Real, class Array>
auto optional_vector(const std::optional<Array>& array, const char* name, int64 size) {
  return array ? vector_argument<Real>(*array, name, size) : nullptr;
}

// Calls call(float{}) or call(double{}) as the array's dtype says.
template <class Array, class Call>
auto with_float(const Array& array, Call call) {
  return array.dtype() == nb::dtype<float>() ? call(float{}) : call(double{});
}

template <class Real>
RowLabels<Real> row_labels(const ReadOnlyArray& labels, const std::optional<ReadOnlyArray>& weights,
                           double weight) {
  const int64 n = static_cast<int64>(labels.size());
  return {vector_argument<Real>(labels, "labels", n),
          optional_vector<Real>(weights, "row_weights", n), weight};
}

std::tuple<double, double, double> loss_derivatives_of(
    ThreadPool& pool, const std::string& loss, const ReadOnlyArray& labels,
    std::optional<ReadOnlyArray> weights, double weight, const ReadOnlyArray& margins, double shift,
    std::optional<AnyArray> gradients, std::optional<AnyArray> curvatures) {
  const int64 n = static_cast<int64>(labels.size());
  const double* z = vector_argument<double>(margins, "margins", n);
  double* first = optional_vector<double>(gradients, "gradients", n);
  double* second = optional_vector<double>(curvatures, "curvatures", n);
  return with_float(labels, [&](auto real) {
    const auto rows = row_labels<decltype(real)>(labels, weights, weight);
    const LossSums sums = with_primal_loss<double>(loss, [&](auto type) {
      const ReleasedGil released;
      return loss_derivatives(type, rows, z, shift, first, second, n, pool);
    });
    return std::make_tuple(sums.value, sums.slope, sums.curvature);
  });
}

double dual_terms_of(ThreadPool& pool, const std::string& loss, const ReadOnlyArray& labels,
                     std::optional<ReadOnlyArray> weights, double weight,
                     const ReadOnlyArray& gradients, double scale) {
  const int64 n = static_cast<int64>(labels.size());
  const double* r = vector_argument<double>(gradients, "gradients", n);
  return with_float(labels, [&](auto real) {
    const auto rows = row_labels<decltype(real)>(labels, weights, weight);
    return with_primal_loss<double>(loss, [&](auto type) {
      const ReleasedGil released;
      return dual_terms(type, rows, r, scale, n, pool);
    });
  });
}

// Calls call(view, interrupt) without the GIL.
template <class Call>
void with_view(const Rows& rows, Call call) {
  std::visit(
      [&](const auto& view) {
        without_gil([&](Interrupt& interrupt) {
          call(view, interrupt);
          return true;
        });
      },
      rows.view);
}

void adjoint_product_of(ThreadPool& pool, const Rows& rows, const ReadOnlyArray& vector,
                        const AnyArray& out) {
  const double* r = vector_argument<double>(vector, "vector", rows.n_rows());
  double* sums = vector_argument<double>(out, "out", pool.size() * rows.n_cols());
  with_view(rows, [&](const auto& view, Interrupt& interrupt) {
    adjoint_product(view, r, sums, pool, interrupt);
  });
}

void product_of(ThreadPool& pool, const Rows& rows, const ReadOnlyArray& coef,
                const AnyArray& out) {
  const double* w = vector_argument<double>(coef, "coef", rows.n_cols());
  double* result = vector_argument<double>(out, "out", rows.n_rows());
  with_view(rows, [&](const auto& view, Interrupt& interrupt) {
    product(view, w, result, pool, interrupt);
  });
}

void column_moments_of(ThreadPool& pool, const Rows& rows, std::optional<ReadOnlyArray> weights,
                       double weight, const AnyArray& out) {
  double* sums = vector_argument<double>(out, "out", pool.size() * 2 * rows.n_cols());
  with_view(rows, [&](const auto& view, Interrupt& interrupt) {
    using Real = typename std::decay_t<decltype(view)>::Real;
    const RowLabels<Real> labels{
        nullptr, optional_vector<Real>(weights, "row_weights", view.n_rows), weight};
    column_moments(view, labels, sums, pool, interrupt);
  });
}

// Numbers of columns, less than `end`.
const int64* column_numbers(const ReadOnlyArray& columns, const std::string& name, int64 end) {
  const int64 count = static_cast<int64>(columns.size());
  const int64* result = vector_argument<int64>(columns, name.c_str(), count);
  for (int64 k = 0; k < count; ++k) {
    if (result[k] < 0 || result[k] >= end) {
      throw std::invalid_argument(name + ": expected numbers from 0 to " + std::to_string(end - 1) +
                                  ", got " + std::to_string(result[k]));
    }
  }
  return result;
}

void pack_dense_of(ThreadPool& pool, const Rows& rows, const ReadOnlyArray& columns,
                   double constant, bool by_columns, const AnyArray& out) {
  const int64 count = static_cast<int64>(columns.size());
  const int64* chosen = column_numbers(columns, "columns", rows.n_cols() + 1);
  with_view(rows, [&](const auto& view, Interrupt& interrupt) {
    using View = std::decay_t<decltype(view)>;
    using Real = typename View::Real;
    if constexpr (std::is_same_v<View, DenseView<Real>>) {
      Real* copy = vector_argument<Real>(out, "out", view.n_rows * count);
      pack_dense(view, chosen, count, static_cast<Real>(constant), by_columns, copy, pool,
                 interrupt);
    } else {
      throw std::invalid_argument("pack_dense: expected dense rows, got compressed ones");
    }
  });
}

void weighted_block_of(ThreadPool& pool, const Rows& rows, int64 first, int64 count,
                       const ReadOnlyArray& mean, const ReadOnlyArray& root, const AnyArray& out) {
  if (first < 0 || count < 0 || first > rows.n_rows() - count) {
    throw std::invalid_argument("expected rows in [0, " + std::to_string(rows.n_rows()) +
                                "), got " + std::to_string(count) + " from " +
                                std::to_string(first));
  }
  const double* centre = vector_argument<double>(mean, "mean", rows.n_cols());
  const double* scale = vector_argument<double>(root, "root", count);
  with_view(rows, [&](const auto& view, Interrupt& interrupt) {
    using View = std::decay_t<decltype(view)>;
    using Real = typename View::Real;
    if constexpr (std::is_same_v<View, DenseView<Real>>) {
      Real* block = vector_argument<Real>(out, "out", count * view.n_cols);
      weighted_block(view, first, count, centre, scale, block, pool, interrupt);
    } else {
      throw std::invalid_argument("weighted_block: expected dense rows, got compressed ones");
    }
  });
}

// The new number of each column, -1 for those left out.
const int64* positions_argument(const ReadOnlyArray& positions, int64 n_cols, int64 n_kept) {
  const int64* result = vector_argument<int64>(positions, "positions", n_cols);
  for (int64 j = 0; j < n_cols; ++j) {
    if (result[j] < -1 || result[j] >= n_kept) {
      throw std::invalid_argument("positions: expected numbers from -1 to " +
                                  std::to_string(n_kept - 1) + ", got " +
                                  std::to_string(result[j]));
    }
  }
  return result;
}

// Calls call(view, interrupt) for compressed rows, and refuses dense ones.
template <class Call>
void with_compressed(const Rows& rows, Call call) {
  with_view(rows, [&](const auto& view, Interrupt& interrupt) {
    using View = std::decay_t<decltype(view)>;
    if constexpr (std::is_same_v<View, DenseView<typename View::Real>>) {
      throw std::invalid_argument("expected compressed rows, got dense ones");
    } else {
      call(view, interrupt);
    }
  });
}

void count_entries_of(ThreadPool& pool, const Rows& rows, const ReadOnlyArray& positions,
                      int64 n_kept, const AnyArray& counts) {
  const int64* kept = positions_argument(positions, rows.n_cols(), n_kept);
  int64* result = vector_argument<int64>(counts, "counts", pool.size() * (n_kept + 1));
  with_compressed(rows, [&](const auto& view, Interrupt& interrupt) {
    count_entries(view, kept, n_kept, result, pool, interrupt);
  });
}

// Kept columns of the rows as compressed columns: indptr, then indices and values are filled.
void fill_columns_of(ThreadPool& pool, const Rows& rows, const ReadOnlyArray& positions,
                     int64 n_kept, const AnyArray& offsets, const AnyArray& indices,
                     std::optional<AnyArray> values) {
  const int64* kept = positions_argument(positions, rows.n_cols(), n_kept);
  int64* next = vector_argument<int64>(offsets, "offsets", pool.size() * (n_kept + 1));
  const int64 size = static_cast<int64>(indices.size());
  with_compressed(rows, [&](const auto& view, Interrupt& interrupt) {
    using Real = typename std::decay_t<decltype(view)>::Real;
    Real* entries = optional_vector<Real>(values, "values", size);
    if ((entries == nullptr) != (view.values == nullptr)) {
      throw std::invalid_argument("values: expected one per entry where the rows store them");
    }
    const auto fill = [&](auto* numbers) {
      return fill_columns(view, kept, n_kept, next, numbers, entries, size, pool, interrupt);
    };
    const bool fits = indices.dtype() == nb::dtype<int32>()
                          ? fill(vector_argument<int32>(indices, "indices", size))
                          : fill(vector_argument<int64>(indices, "indices", size));
    if (!fits) {
      throw std::invalid_argument("offsets: expected places from 0 to " + std::to_string(size - 1) +
                                  " for every entry of the rows");
    }
  });
}

void sparse_gram_of(ThreadPool& pool, const Rows& rows, const ReadOnlyArray& positions,
                    int64 n_kept, int64 constant_at, double constant,
                    const ReadOnlyArray& curvatures, const AnyArray& out) {
  const int64* kept = positions_argument(positions, rows.n_cols(), n_kept);
  const double* h = vector_argument<double>(curvatures, "curvatures", rows.n_rows());
  double* gram = vector_argument<double>(out, "out", n_kept * n_kept);
  if (constant_at < -1 || constant_at >= n_kept) {
    throw std::invalid_argument("constant_at: expected -1 or a position, got " +
                                std::to_string(constant_at));
  }
  with_compressed(rows, [&](const auto& view, Interrupt& interrupt) {
    sparse_gram(view, {kept, n_kept, constant_at, constant}, h, gram, pool, interrupt);
  });
}

template <class Real, class Index>
Columns sparse_columns_of(const ReadOnlyArray& indptr, const ReadOnlyArray& indices,
                          const std::optional<ReadOnlyArray>& values, double constant, int64 n_rows,
                          nb::object owner, ThreadPool& pool) {
  const int64 n_cols = static_cast<int64>(indptr.size()) - 1;
  const int64 n_stored = static_cast<int64>(indices.size());
  const int64* offsets = vector_argument<int64>(indptr, "indptr", n_cols + 1);
  const Index* numbers = vector_argument<Index>(indices, "indices", n_stored);
  check_offsets(offsets, n_cols, n_stored);
  check_indices(numbers, offsets[n_cols], n_rows, pool);
  return {SparseColumns<Real, Index>{offsets, numbers,
                                     optional_vector<Real>(values, "values", n_stored),
                                     static_cast<Real>(constant)},
          n_rows, n_cols, std::move(owner)};
}

Columns sparse_columns(ThreadPool& pool, nb::object indptr, nb::object indices, nb::object values,
                       double constant, bool is_float64, int64 n_rows) {
  const auto offsets = nb::cast<ReadOnlyArray>(indptr);
  const auto numbers = nb::cast<ReadOnlyArray>(indices);
  if (offsets.size() < 1) throw std::invalid_argument("indptr: expected at least 1 element, got 0");
  std::optional<ReadOnlyArray> stored;
  if (!values.is_none()) stored = nb::cast<ReadOnlyArray>(values);
  nb::object owner = nb::make_tuple(indptr, indices, values);
  const auto build = [&](auto real, auto index) {
    return sparse_columns_of<decltype(real), decltype(index)>(offsets, numbers, stored, constant,
                                                              n_rows, owner, pool);
  };
  if (numbers.dtype() == nb::dtype<int32>()) {
    return is_float64 ? build(double{}, int32{}) : build(float{}, int32{});
  }
  return is_float64 ? build(double{}, int64{}) : build(float{}, int64{});
}

Columns dense_columns(nb::object values, int64 n_rows) {
  const auto array = nb::cast<ReadOnlyArray>(values);
  const int64 size = static_cast<int64>(array.size());
  if (n_rows < 1 || size % n_rows != 0) {
    throw std::invalid_argument("values: expected whole columns of " + std::to_string(n_rows) +
                                " rows, got " + std::to_string(size) + " elements");
  }
  return with_float(array, [&](auto real) {
    using Real = decltype(real);
    const Real* entries = vector_argument<Real>(array, "values", size);
    return Columns{DenseColumns<Real>{entries, n_rows}, n_rows, size / n_rows, values};
  });
}

// Calls call(view, rows of the model): states are n pairs (curvature, state), or n states where
// all curvatures are `weight`.
template <class Call>
auto with_model(const Columns& columns, const AnyArray& states, double weight, Call call) {
  return std::visit(
      [&](const auto& view) {
        using Real = typename std::decay_t<decltype(view)>::Real;
        const bool is_weighted = states.ndim() == 2;
        Real* state =
            vector_argument<Real>(states, "states", columns.n_rows * (is_weighted ? 2 : 1));
        using Pairs = WeightedRows<Real>;
        return is_weighted ? call(view, Pairs{reinterpret_cast<typename Pairs::Row*>(state)})
                           : call(view, EqualRows<Real>{state, weight});
      },
      columns.view);
}

void column_curvatures_of(const Columns& columns, const AnyArray& states, double weight,
                          const AnyArray& sums, const AnyArray& squares) {
  double* first = vector_argument<double>(sums, "sums", columns.n_cols);
  double* second = vector_argument<double>(squares, "squares", columns.n_cols);
  with_model(columns, states, weight, [&](const auto& view, const auto& rows) {
    return without_gil([&](Interrupt& interrupt) {
      column_curvatures(view, columns.n_cols, rows, first, second, interrupt);
      return true;
    });
  });
}

// Calls call(view, interrupt) without the GIL.
template <class Call>
void with_columns(const Columns& columns, Call call) {
  std::visit(
      [&](const auto& view) {
        without_gil([&](Interrupt& interrupt) {
          call(view, interrupt);
          return true;
        });
      },
      columns.view);
}

void columns_adjoint_of(ThreadPool& pool, const Columns& columns, const ReadOnlyArray& vector,
                        const AnyArray& out) {
  const double* r = vector_argument<double>(vector, "vector", columns.n_rows);
  double* sums = vector_argument<double>(out, "out", columns.n_cols);
  with_columns(columns, [&](const auto& view, Interrupt& interrupt) {
    columns_adjoint(view, columns.n_cols, r, sums, pool, interrupt);
  });
}

void columns_product_of(const Columns& columns, const ReadOnlyArray& coef, const AnyArray& out) {
  const double* w = vector_argument<double>(coef, "coef", columns.n_cols);
  double* sums = vector_argument<double>(out, "out", columns.n_rows);
  with_columns(columns, [&](const auto& view, Interrupt& interrupt) {
    columns_product(view, columns.n_cols, w, sums, interrupt);
  });
}

std::tuple<int64, bool> column_descent_of(const Columns& columns, const AnyArray& states,
                                          double weight, const ReadOnlyArray& slopes,
                                          const ReadOnlyArray& curvatures,
                                          std::optional<ReadOnlyArray> sums, double total,
                                          const AnyArray& coef, double l1, double l2,
                                          bool is_positive, int64 max_sweeps, double enough,
                                          std::optional<ReadOnlyArray> among) {
  const int64 n = columns.n_cols;
  Visits visits{n};
  if (among) {
    visits.count = static_cast<int64>(among->size());
    visits.among = column_numbers(*among, "among", n);
  }
  const ColumnModel model{vector_argument<double>(slopes, "slopes", n),
                          vector_argument<double>(curvatures, "curvatures", n),
                          optional_vector<double>(sums, "sums", n), total,
                          vector_argument<double>(coef, "coef", n)};
  return with_model(columns, states, weight, [&](const auto& view, const auto& rows) {
    const SweepReport report = without_gil([&](Interrupt& interrupt) {
      return column_descent(view, visits, rows, model, ElasticNet<double>{l1, l2, is_positive},
                            {max_sweeps, enough}, interrupt);
    });
    return std::make_tuple(report.sweeps, report.is_done);
  });
}

using OptionalArray = std::optional<ReadOnlyArray>;

// The penalty of n columns; bounds come for all of them and on both sides, or not at all.
ColumnPenalties<double> column_penalties(double l1, double l2, bool is_positive,
                                         const OptionalArray& lower, const OptionalArray& upper,
                                         int64 n) {
  if (lower.has_value() != upper.has_value()) {
    throw std::invalid_argument("expected both bounds or none");
  }
  return {{l1, l2, is_positive},
          optional_vector<double>(lower, "lower", n),
          optional_vector<double>(upper, "upper", n)};
}

std::tuple<int64, bool> gram_descent_of(const ReadOnlyArray& gram, const ReadOnlyArray& ridge,
                                        double l1, double l2, bool is_positive,
                                        const OptionalArray& lower, const OptionalArray& upper,
                                        const AnyArray& coef, const AnyArray& gradient,
                                        int64 max_sweeps, double enough) {
  const int64 n = static_cast<int64>(ridge.size());
  const ColumnPenalties<double> penalties = column_penalties(l1, l2, is_positive, lower, upper, n);
  return with_float(gram, [&](auto real) {
    using Real = decltype(real);
    const Real* matrix = vector_argument<Real>(gram, "gram", n * n);
    const double* diagonal = vector_argument<double>(ridge, "ridge", n);
    double* w = vector_argument<double>(coef, "coef", n);
    double* q = vector_argument<double>(gradient, "gradient", n);
    const SweepReport report = without_gil([&](Interrupt& interrupt) {
      return gram_descent(matrix, n, n, diagonal, penalties, w, q, {max_sweeps, enough}, interrupt);
    });
    return std::make_tuple(report.sweeps, report.is_done);
  });
}

// Numbers of a fit that whoever asks for a path is given: whether it is solved, P and its gap.
constexpr int64 kFitFacts = 3;

// One elastic net after the other, each from the last one's model; the first from that in the first
// row of `coef`, which gets all models. An interrupt leaves the rest as it is.
void gram_path_of(const ReadOnlyArray& gram, const ReadOnlyArray& products, double squares,
                  const ReadOnlyArray& l1, const ReadOnlyArray& l2, bool is_positive, double tol,
                  const AnyArray& coef, const AnyArray& facts) {
  const int64 n = static_cast<int64>(products.size()), n_fits = static_cast<int64>(l1.size());
  const NormalEquations equations{vector_argument<double>(gram, "gram", n * n),
                                  vector_argument<double>(products, "products", n), squares, n};
  const double* const l1s = vector_argument<double>(l1, "l1", n_fits);
  const double* const l2s = vector_argument<double>(l2, "l2", n_fits);
  double* const models = vector_argument<double>(coef, "coef", n_fits * n);
  double* const found = vector_argument<double>(facts, "facts", n_fits * kFitFacts);
  without_gil([&](Interrupt& interrupt) {
    GramEquations known(equations);
    GramPath path(known, models, tol, interrupt);
    for (int64 k = 0; k < n_fits && !interrupt.requested(); ++k) {
      const GramFit fit = path.solve({l1s[k], l2s[k], is_positive});
      std::copy_n(path.coef().data(), n, models + k * n);
      found[k * kFitFacts] = fit.is_solved ? 1 : 0;
      found[k * kFitFacts + 1] = fit.objective, found[k * kFitFacts + 2] = fit.gap();
    }
    return true;
  });
}

template <class Term>
double sum_over(const ReadOnlyArray& vector, Term term) {
  const int64 n = static_cast<int64>(vector.size());
  const double* values = vector_argument<double>(vector, "vector", n);
  double sum = 0;
  for (int64 j = 0; j < n; ++j) sum += term(j, values[j]);
  return sum;
}

}  // namespace

void bind_columns(nb::module_& m) {
  nb::class_<Columns>(m, "Columns")
      .def_static("sparse", &sparse_columns, nb::arg("pool"), nb::arg("indptr"), nb::arg("indices"),
                  nb::arg("values").none(), nb::arg("constant"), nb::arg("is_float64"),
                  nb::arg("n_rows"))
      .def_static("dense", &dense_columns, nb::arg("values"), nb::arg("n_rows"))
      .def_ro("n_rows", &Columns::n_rows)
      .def_ro("n_cols", &Columns::n_cols);

  m.def("loss_derivatives", &loss_derivatives_of, nb::arg("pool"), nb::arg("loss"),
        nb::arg("labels"), nb::arg("row_weights").none(), nb::arg("weight"), nb::arg("margins"),
        nb::arg("shift"), nb::arg("gradients").none(), nb::arg("curvatures").none());
  m.def("dual_terms", &dual_terms_of, nb::arg("pool"), nb::arg("loss"), nb::arg("labels"),
        nb::arg("row_weights").none(), nb::arg("weight"), nb::arg("gradients"), nb::arg("scale"));
  m.def("adjoint_product", &adjoint_product_of, nb::arg("pool"), nb::arg("rows"), nb::arg("vector"),
        nb::arg("out"));
  m.def("product", &product_of, nb::arg("pool"), nb::arg("rows"), nb::arg("coef"), nb::arg("out"));
  m.def("column_moments", &column_moments_of, nb::arg("pool"), nb::arg("rows"),
        nb::arg("row_weights").none(), nb::arg("weight"), nb::arg("out"));
  m.def("pack_dense", &pack_dense_of, nb::arg("pool"), nb::arg("rows"), nb::arg("columns"),
        nb::arg("constant"), nb::arg("by_columns"), nb::arg("out"));
  m.def("weighted_block", &weighted_block_of, nb::arg("pool"), nb::arg("rows"), nb::arg("first"),
        nb::arg("count"), nb::arg("mean"), nb::arg("root"), nb::arg("out"));
  m.def("count_entries", &count_entries_of, nb::arg("pool"), nb::arg("rows"), nb::arg("positions"),
        nb::arg("n_kept"), nb::arg("counts"));
  m.def("fill_columns", &fill_columns_of, nb::arg("pool"), nb::arg("rows"), nb::arg("positions"),
        nb::arg("n_kept"), nb::arg("offsets"), nb::arg("indices"), nb::arg("values").none());
  m.def("sparse_gram", &sparse_gram_of, nb::arg("pool"), nb::arg("rows"), nb::arg("positions"),
        nb::arg("n_kept"), nb::arg("constant_at"), nb::arg("constant"), nb::arg("curvatures"),
        nb::arg("out"));
  m.def("column_curvatures", &column_curvatures_of, nb::arg("columns"), nb::arg("states"),
        nb::arg("weight"), nb::arg("sums"), nb::arg("squares"));
  m.def("columns_adjoint", &columns_adjoint_of, nb::arg("pool"), nb::arg("columns"),
        nb::arg("vector"), nb::arg("out"));
  m.def("columns_product", &columns_product_of, nb::arg("columns"), nb::arg("coef"),
        nb::arg("out"));
  m.def("column_descent", &column_descent_of, nb::arg("columns"), nb::arg("states"),
        nb::arg("weight"), nb::arg("slopes"), nb::arg("curvatures"), nb::arg("sums").none(),
        nb::arg("total"), nb::arg("coef"), nb::arg("l1"), nb::arg("l2"), nb::arg("is_positive"),
        nb::arg("max_sweeps"), nb::arg("enough"), nb::arg("among").none());
  m.def("gram_descent", &gram_descent_of, nb::arg("gram"), nb::arg("ridge"), nb::arg("l1"),
        nb::arg("l2"), nb::arg("is_positive"), nb::arg("lower").none(), nb::arg("upper").none(),
        nb::arg("coef"), nb::arg("gradient"), nb::arg("max_sweeps"), nb::arg("enough"));
  m.def("gram_path", &gram_path_of, nb::arg("gram"), nb::arg("products"), nb::arg("squares"),
        nb::arg("l1"), nb::arg("l2"), nb::arg("is_positive"), nb::arg("tol"), nb::arg("coef"),
        nb::arg("facts"));
  m.def(
      "elastic_net_value",
      [](const ReadOnlyArray& w, double l1, double l2, bool is_positive, OptionalArray lower,
         OptionalArray upper) {
        const auto n = static_cast<int64>(w.size());
        const auto penalties = column_penalties(l1, l2, is_positive, lower, upper, n);
        return sum_over(w, [&](int64 j, double x) { return penalties.of(j).value(x); });
      },
      nb::arg("w"), nb::arg("l1"), nb::arg("l2"), nb::arg("is_positive"), nb::arg("lower").none(),
      nb::arg("upper").none());
  m.def(
      "elastic_net_conjugate",
      [](const ReadOnlyArray& v, double l1, double l2, bool is_positive, OptionalArray lower,
         OptionalArray upper) {
        const auto n = static_cast<int64>(v.size());
        const auto penalties = column_penalties(l1, l2, is_positive, lower, upper, n);
        return sum_over(v, [&](int64 j, double x) { return penalties.of(j).conjugate(x); });
      },
      nb::arg("v"), nb::arg("l1"), nb::arg("l2"), nb::arg("is_positive"), nb::arg("lower").none(),
      nb::arg("upper").none());
}

}  // namespace snapml::native
