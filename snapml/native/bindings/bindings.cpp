// The face of the CPU engine towards Python: check what comes, release the GIL, call. No
// arithmetic here.
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
#include "bindings/dispatch.hpp"
#include "bindings/epoch_options.hpp"
#include "bindings/without_gil.hpp"
#include "dual/coordinate_descent.hpp"
#include "dual/dual_line.hpp"
#include "dual/objective.hpp"
#include "dual/several_epochs.hpp"
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

// The arrays of a shard, as Python holds them.
struct ShardArrays {
  ReadOnlyArray labels;
  std::optional<ReadOnlyArray> row_weights;
  double weight;
  std::optional<ReadOnlyArray> row_offsets;
  std::optional<ReadOnlyArray> row_norms_sq;
  AnyArray duals;
  AnyArray shared;
  Intercept intercept;
};

template <class View>
DualState<typename View::Real> dual_state(const View& view, const ShardArrays& shard) {
  using Real = typename View::Real;
  const auto optional_vector = [&](const auto& array, const char* name) {
    return array ? vector_argument<Real>(*array, name, view.n_rows) : nullptr;
  };
  return {vector_argument<Real>(shard.labels, "labels", view.n_rows),
          optional_vector(shard.row_weights, "row_weights"),
          static_cast<Real>(shard.weight),
          shard.row_offsets
              ? vector_argument<double>(*shard.row_offsets, "row_offsets", view.n_rows)
              : nullptr,
          optional_vector(shard.row_norms_sq, "row_norms_sq"),
          vector_argument<Real>(shard.duals, "duals", view.n_rows),
          vector_argument<Real>(shard.shared, "shared", view.n_cols + 1),
          shard.intercept};
}

// Single rows are read where they are.
template <class Real>
void check_contiguous_rows(const DenseView<Real>& view) {
  if (view.col_stride != 1 && view.n_cols > 1) {
    throw std::invalid_argument("picked: expected contiguous rows, got columns " +
                                std::to_string(view.col_stride) + " elements apart");
  }
}

template <class Real, class Index>
void check_contiguous_rows(const CompressedView<Real, Index>&) {}

// A copy of the shared vector for each thread, null where there are none.
template <class View>
auto replicas_argument(const std::optional<AnyArray>& replicas, const View& view,
                       const ThreadPool& pool) {
  using Real = typename View::Real;
  const int64 size = pool.size() * (view.n_cols + 1);
  return replicas ? vector_argument<Real>(*replicas, "replicas", size) : nullptr;
}

std::tuple<double, double, double> dual_epoch(
    ThreadPool& pool, const Rows& rows, const std::string& loss, const ShardArrays& shard,
    std::optional<AnyArray> replicas, double sigma, double outer, double relaxation, int64 rounds,
    int block_rows, uint64 seed, uint64 epoch, std::optional<ReadOnlyArray> picked,
    std::optional<AnyArray> row_gaps, std::optional<AnyArray> at_rest) {
  const EpochOptions options =
      epoch_options(sigma, outer, relaxation, rounds, block_rows, seed, epoch);
  return std::visit(
      [&](const auto& view) {
        using Real = typename std::decay_t<decltype(view)>::Real;
        const DualState<Real> state = dual_state(view, shard);
        Real* const copies = replicas_argument(replicas, view, pool);
        RowVisits<Real> visits{nullptr, view.n_rows, nullptr, nullptr};
        if (at_rest) visits.at_rest = vector_argument<uint8>(*at_rest, "at_rest", view.n_rows);
        if (row_gaps) visits.row_gaps = vector_argument<Real>(*row_gaps, "row_gaps", view.n_rows);
        if (picked) {
          check_contiguous_rows(view);
          visits.n_rows = static_cast<int64>(picked->size());
          visits.rows = picked_rows(*picked, view.n_rows);
        }
        const EpochReport report = with_loss<Real>(loss, [&](auto loss_type) {
          return without_gil([&](Interrupt& interrupt) {
            return run_epoch(loss_type, view, state, copies, options, visits, pool, interrupt);
          });
        });
        return std::make_tuple(report.gap, report.sigma, report.sigma_measured);
      },
      rows.view);
}

std::tuple<double, double> sweep_moving_rows_of(ThreadPool& pool, const Rows& rows,
                                                const std::string& loss, const ShardArrays& shard,
                                                std::optional<AnyArray> replicas, double sigma,
                                                double outer, double relaxation, int64 rounds,
                                                int block_rows, uint64 seed, uint64 epoch,
                                                const AnyArray& at_rest, double enough,
                                                int64 most_entries) {
  const EpochOptions options =
      epoch_options(sigma, outer, relaxation, rounds, block_rows, seed, epoch);
  return std::visit(
      [&](const auto& view) {
        using Real = typename std::decay_t<decltype(view)>::Real;
        check_contiguous_rows(view);
        const DualState<Real> state = dual_state(view, shard);
        Real* const copies = replicas_argument(replicas, view, pool);
        uint8* const resting = vector_argument<uint8>(at_rest, "at_rest", view.n_rows);
        const EpochReport report = with_loss<Real>(loss, [&](auto loss_type) {
          return without_gil([&](Interrupt& interrupt) {
            return sweep_moving_rows(loss_type, view, state, copies, options, resting,
                                     {enough, most_entries}, pool, interrupt);
          });
        });
        return std::make_tuple(report.gap, report.sigma);
      },
      rows.view);
}

int64 several_epochs_of(ThreadPool& pool, const Rows& rows, const std::string& loss,
                        ShardArrays& shard, double relaxation, int block_rows, uint64 seed,
                        uint64 epoch, bool is_free, std::optional<AnyArray> at_rest,
                        double most_moving, double enough, int64 most_moving_entries, double before,
                        double factor, double target, const AnyArray& gaps) {
  if (pool.size() != 1) throw std::invalid_argument("pool: expected one thread");
  const EpochOptions options = epoch_options(1.0, 1.0, relaxation, 1, block_rows, seed, epoch);
  const auto most = static_cast<int64>(gaps.size());
  const SeveralLimits limits{most,   most_moving, enough, most_moving_entries,
                             before, factor,      target};
  return std::visit(
      [&](const auto& view) {
        using Real = typename std::decay_t<decltype(view)>::Real;
        DualState<Real> state = dual_state(view, shard);
        uint8* resting = nullptr;
        if (at_rest) {
          check_contiguous_rows(view);
          resting = vector_argument<uint8>(*at_rest, "at_rest", view.n_rows);
        }
        double* const out = vector_argument<double>(gaps, "gaps", most);
        const int64 count = with_loss<Real>(loss, [&](auto loss_type) {
          return without_gil([&](Interrupt& interrupt) {
            return several_epochs(loss_type, view, state, options, is_free, resting, limits, out,
                                  pool, interrupt);
          });
        });
        shard.intercept.offset = state.intercept.offset;
        return count;
      },
      rows.view);
}

// Calls call(loss type in float64, view, state) for the layout and loss at hand.
template <class Call>
auto with_shard(const Rows& rows, const std::string& loss, const ShardArrays& shard, Call call) {
  return std::visit(
      [&](const auto& view) {
        const auto state = dual_state(view, shard);
        return with_loss<double>(loss, [&](auto type) { return call(type, view, state); });
      },
      rows.view);
}

std::tuple<double, double> dual_mass_of(ThreadPool& pool, const Rows& rows, const std::string& loss,
                                        const ShardArrays& shard) {
  return with_shard(rows, loss, shard, [&](auto type, const auto& view, const auto& state) {
    const ReleasedGil released;
    const DualMass mass = dual_mass(type, state, view.n_rows, pool);
    return std::make_tuple(mass.positive, mass.negative);
  });
}

double exact_sweep_of(ThreadPool& pool, const Rows& rows, const std::string& loss,
                      const ShardArrays& shard, double positive_scale, double negative_scale,
                      const AnyArray& margins, const AnyArray& adjoints) {
  return with_shard(rows, loss, shard, [&](auto type, const auto& view, const auto& state) {
    double* margins_out = vector_argument<double>(margins, "margins", view.n_rows);
    double* adjoints_out =
        vector_argument<double>(adjoints, "adjoints", pool.size() * (view.n_cols + 1));
    return without_gil([&](Interrupt& interrupt) {
      return exact_sweep(type, view, state, {positive_scale, negative_scale}, margins_out,
                         adjoints_out, pool, interrupt);
    });
  });
}

double loss_value_of(ThreadPool& pool, const Rows& rows, const std::string& loss,
                     const ShardArrays& shard, const ReadOnlyArray& margins, double shift) {
  return with_shard(rows, loss, shard, [&](auto type, const auto& view, const auto& state) {
    const double* z = vector_argument<double>(margins, "margins", view.n_rows);
    const ReleasedGil released;
    return loss_value(type, state, z, shift, view.n_rows, pool);
  });
}

std::tuple<double, double> loss_slope_of(ThreadPool& pool, const Rows& rows,
                                         const std::string& loss, const ShardArrays& shard,
                                         const ReadOnlyArray& margins, double shift) {
  return with_shard(rows, loss, shard, [&](auto type, const auto& view, const auto& state) {
    const double* z = vector_argument<double>(margins, "margins", view.n_rows);
    const ReleasedGil released;
    const Slope sums = loss_slope(type, state, z, shift, view.n_rows, pool);
    return std::make_tuple(sums.slope, sums.curvature);
  });
}

double line_slope_of(ThreadPool& pool, const Rows& rows, const std::string& loss,
                     const ShardArrays& shard, const ReadOnlyArray& kept, double step) {
  return with_shard(rows, loss, shard, [&](auto type, const auto& view, const auto& state) {
    using Real = typename std::decay_t<decltype(view)>::Real;
    const Real* states = vector_argument<Real>(kept, "kept", view.n_rows);
    const ReleasedGil released;
    return line_slope(type, state, states, step, view.n_rows, pool);
  });
}

void go_to_of(ThreadPool& pool, const Rows& rows, const std::string& loss, const ShardArrays& shard,
              const ReadOnlyArray& kept, double step) {
  with_shard(rows, loss, shard, [&](auto type, const auto& view, const auto& state) {
    using Real = typename std::decay_t<decltype(view)>::Real;
    const Real* states = vector_argument<Real>(kept, "kept", view.n_rows);
    const ReleasedGil released;
    go_to(type, state, states, step, view.n_rows, pool);
  });
}

// Calls call(pointer, size) for a contiguous vector of either float type.
template <class Call>
double with_vector(const ReadOnlyArray& vector, Call call) {
  const int64 n = static_cast<int64>(vector.size());
  if (vector.dtype() == nb::dtype<float>()) {
    return call(vector_argument<float>(vector, "vector", n), n);
  }
  return call(vector_argument<double>(vector, "vector", n), n);
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

ShardArrays make_shard(ReadOnlyArray labels, std::optional<ReadOnlyArray> row_weights,
                       double weight, std::optional<ReadOnlyArray> row_norms_sq, AnyArray duals,
                       AnyArray shared, double tau, double offset,
                       std::optional<ReadOnlyArray> row_offsets) {
  return {std::move(labels),      std::move(row_weights),  weight,
          std::move(row_offsets), std::move(row_norms_sq), std::move(duals),
          std::move(shared),      Intercept{tau, offset}};
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

  nb::class_<ShardArrays>(m, "Shard")
      .def_static("make", &make_shard, nb::arg("labels"), nb::arg("row_weights").none(),
                  nb::arg("weight"), nb::arg("row_norms_sq").none(), nb::arg("duals"),
                  nb::arg("shared"), nb::arg("tau"), nb::arg("offset"),
                  nb::arg("row_offsets").none() = nb::none())
      .def_prop_rw(
          "offset", [](const ShardArrays& s) { return s.intercept.offset; },
          [](ShardArrays& s, double value) { s.intercept.offset = value; });

  m.def("inspect_rows", &inspect_rows_of, nb::arg("pool"), nb::arg("rows"),
        nb::arg("row_norms_sq").none());
  m.def("dual_epoch", &dual_epoch, nb::arg("pool"), nb::arg("rows"), nb::arg("loss"),
        nb::arg("shard"), nb::arg("replicas").none(), nb::arg("sigma"), nb::arg("outer"),
        nb::arg("relaxation"), nb::arg("rounds"), nb::arg("block_rows"), nb::arg("seed"),
        nb::arg("epoch"), nb::arg("picked").none() = nb::none(),
        nb::arg("row_gaps").none() = nb::none(), nb::arg("at_rest").none() = nb::none());
  m.def("sweep_moving_rows", &sweep_moving_rows_of, nb::arg("pool"), nb::arg("rows"),
        nb::arg("loss"), nb::arg("shard"), nb::arg("replicas").none(), nb::arg("sigma"),
        nb::arg("outer"), nb::arg("relaxation"), nb::arg("rounds"), nb::arg("block_rows"),
        nb::arg("seed"), nb::arg("epoch"), nb::arg("at_rest"), nb::arg("enough"),
        nb::arg("most_entries"));
  m.def("several_epochs", &several_epochs_of, nb::arg("pool"), nb::arg("rows"), nb::arg("loss"),
        nb::arg("shard"), nb::arg("relaxation"), nb::arg("block_rows"), nb::arg("seed"),
        nb::arg("epoch"), nb::arg("is_free"), nb::arg("at_rest").none(), nb::arg("most_moving"),
        nb::arg("enough"), nb::arg("most_moving_entries"), nb::arg("before"), nb::arg("factor"),
        nb::arg("target"), nb::arg("gaps"));
  m.def("dual_mass", &dual_mass_of, nb::arg("pool"), nb::arg("rows"), nb::arg("loss"),
        nb::arg("shard"));
  m.def("exact_sweep", &exact_sweep_of, nb::arg("pool"), nb::arg("rows"), nb::arg("loss"),
        nb::arg("shard"), nb::arg("positive_scale"), nb::arg("negative_scale"), nb::arg("margins"),
        nb::arg("adjoints"));
  m.def("loss_value", &loss_value_of, nb::arg("pool"), nb::arg("rows"), nb::arg("loss"),
        nb::arg("shard"), nb::arg("margins"), nb::arg("shift"));
  m.def("loss_slope", &loss_slope_of, nb::arg("pool"), nb::arg("rows"), nb::arg("loss"),
        nb::arg("shard"), nb::arg("margins"), nb::arg("shift"));
  m.def("line_slope", &line_slope_of, nb::arg("pool"), nb::arg("rows"), nb::arg("loss"),
        nb::arg("shard"), nb::arg("kept"), nb::arg("step"));
  m.def("go_to", &go_to_of, nb::arg("pool"), nb::arg("rows"), nb::arg("loss"), nb::arg("shard"),
        nb::arg("kept"), nb::arg("step"));
  m.def(
      "penalty_value",
      [](ThreadPool& pool, const ReadOnlyArray& w) {
        return with_vector(w, [&](const auto* p, int64 n) { return penalty_value(p, n, pool); });
      },
      nb::arg("pool"), nb::arg("w"));
  m.def(
      "penalty_conjugate",
      [](ThreadPool& pool, const ReadOnlyArray& v) {
        return with_vector(v,
                           [&](const auto* p, int64 n) { return penalty_conjugate(p, n, pool); });
      },
      nb::arg("pool"), nb::arg("v"));
  m.def("margins", &margins_into, nb::arg("pool"), nb::arg("rows"), nb::arg("coef"),
        nb::arg("intercept"), nb::arg("out"));
  m.def("get_thread_limit", &snapml_get_num_threads);
  bind_core(m);
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
