// The face of decision trees towards Python: bins here, growth and predictions in their own files.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/variant.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "tree_arguments.hpp"
#include "trees/binning.hpp"
#include "trees/sparse_binning.hpp"
#include "without_gil.hpp"

namespace snapml::native {

namespace nb = nanobind;

void bind_trees(nb::module_& m);
void bind_byte_trees(nb::module_& m);    // byte_tree_bindings.cpp
void bind_wide_trees(nb::module_& m);    // wide_tree_bindings.cpp
void bind_sparse_trees(nb::module_& m);  // sparse_tree_bindings.cpp
void bind_leaves(nb::module_& m);        // leaf_bindings.cpp

namespace {

using trees::BinnedColumns;
using trees::BinnedRows;
using trees::WideRows;

void check_max_bins(int max_bins) {
  if (max_bins < 2 || max_bins > trees::kMaxBins) {
    throw std::invalid_argument("max_bins: expected 2 to 65535, got " + std::to_string(max_bins));
  }
}

std::variant<BinnedRows, WideRows> bin_rows_of(ThreadPool& pool, const Rows& rows, int max_bins,
                                               const std::optional<ReadOnlyArray>& kept) {
  check_max_bins(max_bins);
  const int64* kept_rows = kept_argument(kept, rows.n_rows());
  const int64 n_rows = kept ? static_cast<int64>(kept->size()) : rows.n_rows();
  check_size(n_rows, rows.n_cols());
  return with_dense(rows, [&](const auto& view) {
    using Real = typename std::decay_t<decltype(view)>::Real;
    const trees::KeptRows<Real> taken{view, kept_rows, n_rows};
    return without_gil(
        [&](Interrupt& interrupt) { return trees::bin_rows(taken, max_bins, pool, interrupt); });
  });
}

// The bins of compressed columns.
BinnedColumns bin_columns_of(ThreadPool& pool, const Rows& columns, int max_bins) {
  check_max_bins(max_bins);
  check_size(columns.n_cols(), columns.n_rows());
  return with_compressed(columns, [&](const auto& view) {
    return without_gil(
        [&](Interrupt& interrupt) { return trees::bin_columns(view, max_bins, pool, interrupt); });
  });
}

}  // namespace

void bind_trees(nb::module_& m) {
  nb::class_<trees::BinTable>(m, "BinTable")
      .def_prop_ro("n_rows", [](const trees::BinTable& b) { return b.n_rows; })
      .def_prop_ro("is_finite", [](const trees::BinTable& b) { return b.is_finite; })
      .def_prop_ro("n_bins", [](const trees::BinTable& b) { return b.all_bins(); });
  nb::class_<BinnedRows, trees::BinTable>(m, "BinnedRows");
  nb::class_<WideRows, trees::BinTable>(m, "WideRows");
  nb::class_<BinnedColumns, trees::BinTable>(m, "BinnedColumns");
  m.def("bin_rows", &bin_rows_of, nb::arg("pool"), nb::arg("rows"), nb::arg("max_bins"),
        nb::arg("kept").none());
  m.def("bin_columns", &bin_columns_of, nb::arg("pool"), nb::arg("columns"), nb::arg("max_bins"));
  bind_byte_trees(m);
  bind_wide_trees(m);
  bind_sparse_trees(m);
  bind_leaves(m);
}

}  // namespace snapml::native
