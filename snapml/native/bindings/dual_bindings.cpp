// The face of dual coordinate ascent towards Python: check what comes, release the GIL, call.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>
#include <type_traits>

#include "bindings/arguments.hpp"
#include "bindings/dispatch.hpp"
#include "bindings/epoch_options.hpp"
#include "bindings/without_gil.hpp"
#include "dual/coordinate_descent.hpp"
#include "dual/dual_line.hpp"
#include "dual/objective.hpp"
#include "dual/several_epochs.hpp"
#include "rows/rows.hpp"

namespace snapml::native {

void bind_dual(nb::module_& m);

namespace {

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

template <class Real>
DualState<Real> dual_state(int64 n_rows, int64 n_cols, const ShardArrays& shard) {
  const auto optional_vector = [&](const auto& array, const char* name) {
    return array ? vector_argument<Real>(*array, name, n_rows) : nullptr;
  };
  return {vector_argument<Real>(shard.labels, "labels", n_rows),
          optional_vector(shard.row_weights, "row_weights"),
          static_cast<Real>(shard.weight),
          shard.row_offsets ? vector_argument<double>(*shard.row_offsets, "row_offsets", n_rows)
                            : nullptr,
          optional_vector(shard.row_norms_sq, "row_norms_sq"),
          vector_argument<Real>(shard.duals, "duals", n_rows),
          vector_argument<Real>(shard.shared, "shared", n_cols + 1),
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

// Returns what runs epochs over a shard. All that is given must outlive it.
template <class View>
EpochRunner<typename View::Real> epoch_runner(const std::string& name, const View& view,
                                              const DualState<typename View::Real>& state,
                                              ThreadPool& pool, Interrupt& interrupt) {
  using Real = typename View::Real;
  return with_loss<Real>(name, [&](auto loss) -> EpochRunner<Real> {
    return [&, loss](Real* replicas, const EpochOptions& options, const RowVisits<Real>& visits) {
      return run_epoch(loss, view, state, replicas, options, visits, pool, interrupt);
    };
  });
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
        const DualState<Real> state = dual_state<Real>(view.n_rows, view.n_cols, shard);
        Real* const copies = replicas_argument(replicas, view, pool);
        RowVisits<Real> visits{nullptr, view.n_rows, nullptr, nullptr};
        if (at_rest) visits.at_rest = vector_argument<uint8>(*at_rest, "at_rest", view.n_rows);
        if (row_gaps) visits.row_gaps = vector_argument<Real>(*row_gaps, "row_gaps", view.n_rows);
        if (picked) {
          check_contiguous_rows(view);
          visits.n_rows = static_cast<int64>(picked->size());
          visits.rows = picked_rows(*picked, view.n_rows);
        }
        const EpochReport report = without_gil([&](Interrupt& interrupt) {
          return epoch_runner(loss, view, state, pool, interrupt)(copies, options, visits);
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
        const DualState<Real> state = dual_state<Real>(view.n_rows, view.n_cols, shard);
        Real* const copies = replicas_argument(replicas, view, pool);
        uint8* const resting = vector_argument<uint8>(at_rest, "at_rest", view.n_rows);
        const EpochReport report = without_gil([&](Interrupt& interrupt) {
          return sweep_moving_rows(epoch_runner(loss, view, state, pool, interrupt), view, state,
                                   copies, options, resting, {enough, most_entries}, interrupt);
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
        DualState<Real> state = dual_state<Real>(view.n_rows, view.n_cols, shard);
        uint8* resting = nullptr;
        if (at_rest) {
          check_contiguous_rows(view);
          resting = vector_argument<uint8>(*at_rest, "at_rest", view.n_rows);
        }
        double* const out = vector_argument<double>(gaps, "gaps", most);
        const int64 count = without_gil([&](Interrupt& interrupt) {
          return several_epochs(epoch_runner(loss, view, state, pool, interrupt), view, state,
                                options, is_free, resting, limits, out, interrupt);
        });
        shard.intercept.offset = state.intercept.offset;
        return count;
      },
      rows.view);
}

// Calls call(loss type in float64, state, number of rows): what needs no row.
template <class Call>
auto with_state(const Rows& rows, const std::string& loss, const ShardArrays& shard, Call call) {
  const int64 n_rows = rows.n_rows(), n_cols = rows.n_cols();
  const auto call_in = [&](auto zero) {
    const auto state = dual_state<decltype(zero)>(n_rows, n_cols, shard);
    return with_loss<double>(loss, [&](auto type) { return call(type, state, n_rows); });
  };
  return std::visit(
      [&](const auto& view) { return call_in(typename std::decay_t<decltype(view)>::Real{}); },
      rows.view);
}

std::tuple<double, double> dual_mass_of(ThreadPool& pool, const Rows& rows, const std::string& loss,
                                        const ShardArrays& shard) {
  return with_state(rows, loss, shard, [&](auto type, const auto& state, int64 n_rows) {
    const ReleasedGil released;
    const DualMass mass = dual_mass(type, state, n_rows, pool);
    return std::make_tuple(mass.positive, mass.negative);
  });
}

double exact_sweep_of(ThreadPool& pool, const Rows& rows, const std::string& loss,
                      const ShardArrays& shard, double positive_scale, double negative_scale,
                      const AnyArray& margins, const AnyArray& adjoints) {
  return std::visit(
      [&](const auto& view) {
        using Real = typename std::decay_t<decltype(view)>::Real;
        const DualState<Real> state = dual_state<Real>(view.n_rows, view.n_cols, shard);
        const DualScales scales{positive_scale, negative_scale};
        double* const margins_out = vector_argument<double>(margins, "margins", view.n_rows);
        double* const adjoints_out =
            vector_argument<double>(adjoints, "adjoints", pool.size() * (view.n_cols + 1));
        return with_loss<double>(loss, [&](auto type) {
          return without_gil([&](Interrupt& interrupt) {
            return exact_sweep(type, view, state, scales, margins_out, adjoints_out, pool,
                               interrupt);
          });
        });
      },
      rows.view);
}

double loss_value_of(ThreadPool& pool, const Rows& rows, const std::string& loss,
                     const ShardArrays& shard, const ReadOnlyArray& margins, double shift) {
  return with_state(rows, loss, shard, [&](auto type, const auto& state, int64 n_rows) {
    const double* z = vector_argument<double>(margins, "margins", n_rows);
    const ReleasedGil released;
    return loss_value(type, state, z, shift, n_rows, pool);
  });
}

std::tuple<double, double> loss_slope_of(ThreadPool& pool, const Rows& rows,
                                         const std::string& loss, const ShardArrays& shard,
                                         const ReadOnlyArray& margins, double shift) {
  return with_state(rows, loss, shard, [&](auto type, const auto& state, int64 n_rows) {
    const double* z = vector_argument<double>(margins, "margins", n_rows);
    const ReleasedGil released;
    const Slope sums = loss_slope(type, state, z, shift, n_rows, pool);
    return std::make_tuple(sums.slope, sums.curvature);
  });
}

double line_slope_of(ThreadPool& pool, const Rows& rows, const std::string& loss,
                     const ShardArrays& shard, const ReadOnlyArray& kept, double step) {
  return with_state(rows, loss, shard, [&](auto type, const auto& state, int64 n_rows) {
    using Real = std::remove_pointer_t<decltype(state.duals)>;
    const Real* states = vector_argument<Real>(kept, "kept", n_rows);
    const ReleasedGil released;
    return line_slope(type, state, states, step, n_rows, pool);
  });
}

void go_to_of(ThreadPool& pool, const Rows& rows, const std::string& loss, const ShardArrays& shard,
              const ReadOnlyArray& kept, double step) {
  with_state(rows, loss, shard, [&](auto type, const auto& state, int64 n_rows) {
    using Real = std::remove_pointer_t<decltype(state.duals)>;
    const Real* states = vector_argument<Real>(kept, "kept", n_rows);
    const ReleasedGil released;
    go_to(type, state, states, step, n_rows, pool);
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

ShardArrays make_shard(ReadOnlyArray labels, std::optional<ReadOnlyArray> row_weights,
                       double weight, std::optional<ReadOnlyArray> row_norms_sq, AnyArray duals,
                       AnyArray shared, double tau, double offset,
                       std::optional<ReadOnlyArray> row_offsets) {
  return {std::move(labels),      std::move(row_weights),  weight,
          std::move(row_offsets), std::move(row_norms_sq), std::move(duals),
          std::move(shared),      Intercept{tau, offset}};
}

}  // namespace

void bind_dual(nb::module_& m) {
  nb::class_<ShardArrays>(m, "Shard")
      .def_static("make", &make_shard, nb::arg("labels"), nb::arg("row_weights").none(),
                  nb::arg("weight"), nb::arg("row_norms_sq").none(), nb::arg("duals"),
                  nb::arg("shared"), nb::arg("tau"), nb::arg("offset"),
                  nb::arg("row_offsets").none() = nb::none())
      .def_prop_rw(
          "offset", [](const ShardArrays& s) { return s.intercept.offset; },
          [](ShardArrays& s, double value) { s.intercept.offset = value; });

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
}

}  // namespace snapml::native
