// The face of the text parsers towards Python: check what comes, release the GIL, call.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/owned_array.hpp"
#include "bindings/without_gil.hpp"
#include "rows/widen.hpp"
#include "text/click_rows.hpp"
#include "text/svmlight.hpp"

namespace snapml::native {

namespace nb = nanobind;

void bind_io(nb::module_& m);

namespace {

using Bytes = nb::ndarray<const uint8, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A list of what `arrays` makes of the pieces that `parse` finds with a pool, or a tuple (lines
// before the error in its piece and all pieces before, position in the text, expected).
template <class Parse, class Arrays>
nb::object pieces_or_error(const Bytes& text, int n_threads, const Parse& parse,
                           const Arrays& arrays) {
  ThreadPool pool(n_threads);
  auto pieces = [&] {
    const ReleasedGil released;
    return parse(reinterpret_cast<const char*>(text.data()), static_cast<int64>(text.size()), pool);
  }();
  int64 n_lines = 0;
  for (const auto& piece : pieces) {
    n_lines += piece.n_lines;
    if (piece.error.position >= 0) {
      return nb::make_tuple(n_lines, piece.error.position, piece.error.expected);
    }
  }
  nb::list out;
  for (auto& piece : pieces) out.append(arrays(piece));
  return out;
}

// Pieces (labels, lengths, indices, values, n_lines, smallest, largest), or an error.
template <class Real, class Index>
nb::object parsed(const Bytes& text, int64 least, int n_threads) {
  return pieces_or_error(
      text, n_threads,
      [&](const char* begin, int64 size, ThreadPool& pool) {
        return parse_svmlight<Real, Index>(begin, size, least, pool);
      },
      [](auto& piece) {
        return nb::make_tuple(as_array(std::move(piece.labels), piece.n_rows),
                              as_array(std::move(piece.lengths), piece.n_rows),
                              as_array(std::move(piece.indices), piece.n_stored),
                              as_array(std::move(piece.values), piece.n_stored), piece.n_lines,
                              piece.smallest, piece.largest);
      });
}

nb::object svmlight_rows(const Bytes& text, bool is_double, bool is_wide, int64 least,
                         int n_threads) {
  if (n_threads < 1) {
    throw std::invalid_argument("n_threads: expected at least 1, got " + std::to_string(n_threads));
  }
  if (is_double) {
    return is_wide ? parsed<double, int64>(text, least, n_threads)
                   : parsed<double, int32>(text, least, n_threads);
  }
  return is_wide ? parsed<float, int64>(text, least, n_threads)
                 : parsed<float, int32>(text, least, n_threads);
}

void check_threads_and_columns(int n_threads, int64 n_features) {
  if (n_threads < 1 || n_features < 1) {
    throw std::invalid_argument("expected at least 1 thread and 1 column, got " +
                                std::to_string(n_threads) + " and " + std::to_string(n_features));
  }
}

// Pieces (labels, lengths, indices, n_lines), or an error.
template <class Index>
nb::object clicks_of(const Bytes& text, const ClickFormat& format, const clicks::Hash& hash,
                     int n_threads) {
  return pieces_or_error(
      text, n_threads,
      [&](const char* begin, int64 size, ThreadPool& pool) {
        return parse_clicks<Index>(begin, size, format, hash, pool);
      },
      [](auto& piece) {
        return nb::make_tuple(as_array(std::move(piece.labels)), as_array(std::move(piece.lengths)),
                              as_array(std::move(piece.indices)), piece.n_lines);
      });
}

nb::object click_rows(const Bytes& text, bool has_label, int64 n_numbers, int64 n_categories,
                      int64 n_features, uint64 seed, int n_threads) {
  check_threads_and_columns(n_threads, n_features);
  if (n_numbers < 0 || n_categories < 0) {
    throw std::invalid_argument("expected numbers of fields >= 0, got " +
                                std::to_string(n_numbers) + " and " + std::to_string(n_categories));
  }
  const ClickFormat format{has_label, n_numbers, n_categories};
  const clicks::Hash hash(seed, n_features);
  if (n_features - 1 <= std::numeric_limits<int32>::max()) {
    return clicks_of<int32>(text, format, hash, n_threads);
  }
  return clicks_of<int64>(text, format, hash, n_threads);
}

// Columns of one numeric field's contents; NaN is missing.
nb::object click_numbers(const nb::ndarray<const double, nb::ndim<1>, nb::c_contig>& values,
                         int64 field, int64 n_features, uint64 seed) {
  check_threads_and_columns(1, n_features);
  const clicks::Hash hash(seed, n_features);
  std::vector<int64> out(values.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double value = values.data()[i];
    out[i] = value == value ? hash.number(field, value) : hash.missing(field);
  }
  return as_array(std::move(out));
}

// Columns of one categorical field's contents: bytes offsets[i] to offsets[i + 1] - 1 of the text
// each; no bytes are missing.
nb::object click_categories(const Bytes& text,
                            const nb::ndarray<const int64, nb::ndim<1>, nb::c_contig>& offsets,
                            int64 field, int64 n_features, uint64 seed) {
  check_threads_and_columns(1, n_features);
  const auto n_offsets = static_cast<int64>(offsets.size());
  const int64* const begins = offsets.data();
  if (n_offsets < 1 || begins[0] < 0) {
    throw std::invalid_argument("offsets: expected at least one, not below 0");
  }
  for (int64 i = 1; i < n_offsets; ++i) {
    if (begins[i] < begins[i - 1]) throw std::invalid_argument("offsets: expected no decrease");
  }
  if (begins[n_offsets - 1] > static_cast<int64>(text.size())) {
    throw std::invalid_argument("offsets: expected at most " + std::to_string(text.size()) +
                                ", the length of the text, got " +
                                std::to_string(begins[n_offsets - 1]));
  }
  const clicks::Hash hash(seed, n_features);
  std::vector<int64> out(static_cast<std::size_t>(n_offsets - 1));
  const char* const bytes = reinterpret_cast<const char*>(text.data());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int64 size = begins[i + 1] - begins[i];
    out[i] = size == 0 ? hash.missing(field) : hash.category(field, bytes + begins[i], size);
  }
  return as_array(std::move(out));
}

template <class T>
using TableOf = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Columns = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class Narrow>
void check_same_shape(const TableOf<const Narrow>& narrow, const TableOf<float>& out) {
  if (narrow.shape(0) != out.shape(0) || narrow.shape(1) != out.shape(1)) {
    throw std::invalid_argument("out: expected the shape of the narrow rows");
  }
}

void widen_bfloat16_into(const TableOf<const uint16>& narrow, const TableOf<float>& out) {
  check_same_shape(narrow, out);
  const ReleasedGil released;
  widen(narrow.data(), static_cast<int64>(narrow.size()), out.data());
}

void widen_uint8_into(const TableOf<const uint8>& narrow, const Columns& scales,
                      const Columns& offsets, const TableOf<float>& out) {
  check_same_shape(narrow, out);
  if (scales.size() != narrow.shape(1) || offsets.size() != narrow.shape(1)) {
    throw std::invalid_argument("expected a scale and an offset for every column");
  }
  const ReleasedGil released;
  widen(narrow.data(), static_cast<int64>(narrow.shape(0)), static_cast<int64>(narrow.shape(1)),
        scales.data(), offsets.data(), out.data());
}

}  // namespace

void bind_io(nb::module_& m) {
  m.def("widen_bfloat16", &widen_bfloat16_into, nb::arg("narrow"), nb::arg("out"));
  m.def("widen_uint8", &widen_uint8_into, nb::arg("narrow"), nb::arg("scales"), nb::arg("offsets"),
        nb::arg("out"));
  m.def("svmlight_rows", &svmlight_rows, nb::arg("text"), nb::arg("is_double"), nb::arg("is_wide"),
        nb::arg("least"), nb::arg("n_threads"));
  m.def("click_rows", &click_rows, nb::arg("text"), nb::arg("has_label"), nb::arg("n_numbers"),
        nb::arg("n_categories"), nb::arg("n_features"), nb::arg("seed"), nb::arg("n_threads"));
  m.def("click_numbers", &click_numbers, nb::arg("values"), nb::arg("field"), nb::arg("n_features"),
        nb::arg("seed"));
  m.def("click_categories", &click_categories, nb::arg("text"), nb::arg("offsets"),
        nb::arg("field"), nb::arg("n_features"), nb::arg("seed"));
}

}  // namespace snapml::native
