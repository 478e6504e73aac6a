// Dense rows as compressed ones.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "bindings/arguments.hpp"
#include "bindings/owned_array.hpp"
#include "rows/sparse_form.hpp"
#include "snapml/config.hpp"

namespace snapml::native {

namespace nb = nanobind;

void bind_sparse_form(nb::module_& m);

namespace {

using Index = std::int32_t;
using Table = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;

template <class Real>
nb::object sparse_form_of(const Table& values, const std::optional<ReadOnlyArray>& common,
                          int64 most) {
  const DenseView<Real> view{static_cast<const Real*>(values.data()),
                             nullptr,
                             static_cast<int64>(values.shape(0)),
                             static_cast<int64>(values.shape(1)),
                             values.stride(0),
                             values.stride(1)};
  const Real* const numbers =
      common ? vector_argument<Real>(*common, "common", view.n_cols) : nullptr;
  const auto at = [](int64 n) { return static_cast<std::size_t>(n); };
  // Room that is not used is not touched.
  std::unique_ptr<Index[]> indptr(new Index[at(view.n_rows + 1)]), indices(new Index[at(most)]);
  std::unique_ptr<Real[]> entries(new Real[at(most)]);
  int64 n_stored = 0;
  {
    const nb::gil_scoped_release released;
    n_stored = fill_entries(
        view, numbers, EntryArrays<Real, Index>{indptr.get(), indices.get(), entries.get(), most});
  }
  if (n_stored > most) return nb::none();
  return nb::make_tuple(as_array(std::move(indptr), view.n_rows + 1),
                        as_array(std::move(indices), n_stored),
                        as_array(std::move(entries), n_stored));
}

// Offsets, indices and entries of what is not zero, or not its column's number in `common`; None
// where there are more entries than `most`.
nb::object sparse_form(const Table& values, const std::optional<ReadOnlyArray>& common,
                       int64 most) {
  if (most < 0) throw std::invalid_argument("most: expected at least 0");
  constexpr std::size_t kMost = std::size_t{1} << 31;
  if (values.shape(0) >= kMost || values.shape(1) >= kMost || values.size() >= kMost) {
    throw std::invalid_argument("values: expected fewer than 2^31 numbers");
  }
  if (values.dtype() == nb::dtype<float>()) return sparse_form_of<float>(values, common, most);
  if (values.dtype() == nb::dtype<double>()) return sparse_form_of<double>(values, common, most);
  throw std::invalid_argument("values: expected dtype float32 or float64, got another dtype");
}

}  // namespace

void bind_sparse_form(nb::module_& m) {
  m.def("sparse_form", &sparse_form, nb::arg("values"), nb::arg("common").none(), nb::arg("most"));
}

}  // namespace snapml::native
