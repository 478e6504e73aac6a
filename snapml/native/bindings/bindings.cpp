// The face of the CPU engine towards Python: check what comes, release the GIL, call. No
// arithmetic here. This file has the module, and the rows that all else is given.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

#include "bindings/arguments.hpp"
#include "bindings/without_gil.hpp"
#include "dual/objective.hpp"
#include "rows/row_checks.hpp"
#include "rows/rows.hpp"

// Registered with threadpoolctl (snapml/solvers/threads.py), which looks the symbols up by name.
// 0: no limit set.
#ifdef _WIN32
#define SNAPML_EXPORTED extern "C" __declspec(dllexport)
#else
#define SNAPML_EXPORTED extern "C" __attribute__((visibility("default")))
#endif
static std::atomic<int> thread_limit{0};
SNAPML_EXPORTED int snapml_get_num_threads() { return thread_limit.load(); }
SNAPML_EXPORTED void snapml_set_num_threads(int n) { thread_limit.store(n); }

namespace snapml::native {

void bind_core(nb::module_& m);         // core_bindings.cpp
void bind_dual(nb::module_& m);         // dual_bindings.cpp
void bind_many(nb::module_& m);         // many_bindings.cpp
void bind_primal(nb::module_& m);       // primal_bindings.cpp
void bind_small(nb::module_& m);        // small_bindings.cpp
void bind_squares(nb::module_& m);      // squares_bindings.cpp
void bind_columns(nb::module_& m);      // column_bindings.cpp
void bind_io(nb::module_& m);           // io_bindings.cpp
void bind_memory(nb::module_& m);       // memory_bindings.cpp
void bind_sparse_form(nb::module_& m);  // sparse_form_bindings.cpp
void bind_trees(nb::module_& m);        // tree_bindings.cpp
void bind_exact_trees(nb::module_& m);  // exact_tree_bindings.cpp

namespace {

template <class Real>
Rows dense_rows_of(const ReadOnlyArray& values, nb::object owner) {
  return {DenseView<Real>{static_cast<const Real*>(values.data()), nullptr,
                          static_cast<int64>(values.shape(0)), static_cast<int64>(values.shape(1)),
                          values.stride(0), values.stride(1)},
          std::move(owner)};
}

// What the caller gives as an array, or an error that says which argument is none.
ReadOnlyArray array_argument(const nb::object& object, const char* name) {
  ReadOnlyArray array;
  if (!nb::try_cast(object, array)) {
    throw std::invalid_argument(std::string(name) +
                                ": expected a NumPy array of numbers in native byte order");
  }
  return array;
}

Rows dense_rows(nb::object owner) {
  const auto values = array_argument(owner, "values");
  if (values.ndim() != 2) {
    throw std::invalid_argument("values: expected 2 dimensions, got " +
                                std::to_string(values.ndim()));
  }
  const std::size_t itemsize = values.itemsize();
  if (itemsize != 0 && reinterpret_cast<std::uintptr_t>(values.data()) % itemsize != 0) {
    throw std::invalid_argument("values: expected aligned elements, got misaligned ones");
  }
  if (values.dtype() == nb::dtype<float>()) return dense_rows_of<float>(values, owner);
  if (values.dtype() == nb::dtype<double>()) return dense_rows_of<double>(values, owner);
  throw std::invalid_argument("values: expected dtype float32 or float64, got another dtype");
}

// The descent will work on rows less `mean`.
void centre_rows(Rows& rows, nb::object mean) {
  std::visit(
      [&](auto& view) {
        using View = std::decay_t<decltype(view)>;
        using Real = typename View::Real;
        if constexpr (std::is_same_v<View, DenseView<Real>>) {
          view.mean = vector_argument<Real>(nb::cast<ReadOnlyArray>(mean), "mean", view.n_cols);
          rows.owner = nb::make_tuple(rows.owner, mean);
        } else {
          throw std::invalid_argument("centre: expected dense rows, got compressed ones");
        }
      },
      rows.view);
}

template <class Real, class Index>
Rows compressed_rows_of(const ReadOnlyArray& indptr, const ReadOnlyArray& indices,
                        const std::optional<ReadOnlyArray>& values, double constant, int64 n_cols,
                        nb::object owner, bool is_checked, ThreadPool& pool) {
  if (indptr.size() < 1) throw std::invalid_argument("indptr: expected at least 1 element, got 0");
  const int64 n_rows = static_cast<int64>(indptr.size()) - 1;
  const int64 n_given = static_cast<int64>(indices.size());
  const Index* offsets = vector_argument<Index>(indptr, "indptr", n_rows + 1);
  const Index* columns = vector_argument<Index>(indices, "indices", n_given);
  if (!is_checked) check_offsets(offsets, n_rows, n_given);
  const int64 n_stored = static_cast<int64>(offsets[n_rows]);
  const Real* stored = nullptr;
  if (values) {
    const int64 n_values = static_cast<int64>(values->size());
    stored = vector_argument<Real>(*values, "values", n_values);
    if (n_values < n_stored) {
      throw std::invalid_argument("values: expected " + std::to_string(n_stored) +
                                  " elements as indptr says, got " + std::to_string(n_values));
    }
    if (n_stored == 0) stored = nullptr;
  }
  {
    const ReleasedGil released;
    if (!is_checked) check_indices(columns, n_stored, n_cols, pool);
    if (stored != nullptr && all_equal(stored, n_stored)) {
      constant = static_cast<double>(stored[0]);
      stored = nullptr;
    }
  }
  return {CompressedView<Real, Index>{offsets, columns, stored, n_rows, n_cols,
                                      static_cast<Real>(constant)},
          std::move(owner)};
}

Rows compressed_rows(ThreadPool& pool, nb::object indptr, nb::object indices, nb::object values,
                     double constant, bool is_float64, int64 n_cols, bool is_checked) {
  if (n_cols < 0) {
    throw std::invalid_argument("n_cols: expected at least 0, got " + std::to_string(n_cols));
  }
  const auto offsets = array_argument(indptr, "indptr");
  const auto columns = array_argument(indices, "indices");
  std::optional<ReadOnlyArray> stored;
  if (!values.is_none()) stored = array_argument(values, "values");
  nb::object owner = nb::make_tuple(indptr, indices, values);
  const auto build = [&](auto real, auto index) {
    return compressed_rows_of<decltype(real), decltype(index)>(offsets, columns, stored, constant,
                                                               n_cols, owner, is_checked, pool);
  };
  if (columns.dtype() == nb::dtype<int32>()) {
    return is_float64 ? build(double{}, int32{}) : build(float{}, int32{});
  }
  if (columns.dtype() == nb::dtype<int64>()) {
    return is_float64 ? build(double{}, int64{}) : build(float{}, int64{});
  }
  throw std::invalid_argument("indices: expected dtype int32 or int64, got another dtype");
}

std::tuple<bool, bool, double> inspect_rows_of(ThreadPool& pool, const Rows& rows,
                                               std::optional<AnyArray> norms) {
  return std::visit(
      [&](const auto& view) {
        using Real = typename std::decay_t<decltype(view)>::Real;
        Real* out = norms ? vector_argument<Real>(*norms, "row_norms_sq", view.n_rows) : nullptr;
        const RowFacts facts = without_gil(
            [&](Interrupt& interrupt) { return inspect_rows(view, out, pool, interrupt); });
        return std::make_tuple(facts.finite, facts.sorted, facts.norm_sq_sum);
      },
      rows.view);
}

bool rows_have_duplicates(const Rows& rows) {
  return std::visit(
      [](const auto& view) {
        if constexpr (std::is_same_v<std::decay_t<decltype(view)>,
                                     DenseView<typename std::decay_t<decltype(view)>::Real>>) {
          return false;
        } else {
          const ReleasedGil released;
          return has_duplicates(view);
        }
      },
      rows.view);
}

bool rows_are_constant(const Rows& rows) {
  return std::visit(
      [](const auto& view) {
        using View = std::decay_t<decltype(view)>;
        if constexpr (std::is_same_v<View, DenseView<typename View::Real>>) {
          return false;
        } else {
          return view.values == nullptr;
        }
      },
      rows.view);
}

void margins_into(ThreadPool& pool, const Rows& rows, const ReadOnlyArray& coef, double intercept,
                  const AnyArray& out) {
  std::visit(
      [&](const auto& view) {
        using Real = typename std::decay_t<decltype(view)>::Real;
        const Real* weights = vector_argument<Real>(coef, "coef", view.n_cols);
        double* result = vector_argument<double>(out, "out", view.n_rows);
        without_gil([&](Interrupt& interrupt) {
          margins_of(view, weights, intercept, result, pool, interrupt);
          return true;
        });
      },
      rows.view);
}

}  // namespace

NB_MODULE(_native, m) {
  // Daemon threads that the end of a program stops leave objects behind; that is no leak of ours.
  nb::set_leak_warnings(false);
  m.doc() = "CPU engine: sweeps over rows, compiled.";

  nb::class_<ThreadPool>(m, "ThreadPool")
      .def(nb::init<int>(), nb::arg("size"))
      .def_prop_ro("size", &ThreadPool::size);

  nb::class_<Rows>(m, "Rows")
      .def_static("dense", &dense_rows, nb::arg("values"))
      .def_static("compressed", &compressed_rows, nb::arg("pool"), nb::arg("indptr"),
                  nb::arg("indices"), nb::arg("values").none(), nb::arg("constant"),
                  nb::arg("is_float64"), nb::arg("n_cols"), nb::arg("is_checked") = false)
      .def("centre", &centre_rows, nb::arg("mean"))
      .def_prop_ro("n_rows", &Rows::n_rows)
      .def_prop_ro("n_cols", &Rows::n_cols)
      .def_prop_ro("is_constant", &rows_are_constant)
      .def("has_duplicates", &rows_have_duplicates);

  m.def("inspect_rows", &inspect_rows_of, nb::arg("pool"), nb::arg("rows"),
        nb::arg("row_norms_sq").none());
  m.def("margins", &margins_into, nb::arg("pool"), nb::arg("rows"), nb::arg("coef"),
        nb::arg("intercept"), nb::arg("out"));
  m.def("get_thread_limit", &snapml_get_num_threads);
  bind_core(m);
  bind_dual(m);
  bind_many(m);
  bind_primal(m);
  bind_small(m);
  bind_squares(m);
  bind_columns(m);
  bind_io(m);
#ifndef _WIN32
  bind_memory(m);
#endif
  bind_sparse_form(m);
  bind_trees(m);
  bind_exact_trees(m);
}

}  // namespace snapml::native
