// The face of the text parser towards Python: check what comes, release the GIL, call.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "svmlight.hpp"

namespace snapml::native {

namespace nb = nanobind;

void bind_io(nb::module_& m);

namespace {

using Bytes = nb::ndarray<const uint8, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The first `size` elements as an array that keeps the memory alive.
template <class T>
nb::object as_array(std::unique_ptr<T[]> memory, int64 size) {
  T* const data = memory.release();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nb::cast(
      nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {static_cast<std::size_t>(size)}, owner));
}

// A list of pieces (labels, lengths, indices, values, n_lines, smallest, largest), or a tuple
// (lines before the error in its piece and all pieces before, position in the text, expected).
template <class Real, class Index>
nb::object parsed(const Bytes& text, int64 least, int n_threads) {
  ThreadPool pool(n_threads);
  auto pieces = [&] {
    const nb::gil_scoped_release release;
    return parse_svmlight<Real, Index>(reinterpret_cast<const char*>(text.data()),
                                       static_cast<int64>(text.size()), least, pool);
  }();
  int64 n_lines = 0;
  for (const auto& piece : pieces) {
    n_lines += piece.n_lines;
    if (piece.error.position >= 0) {
      return nb::make_tuple(n_lines, piece.error.position, piece.error.expected);
    }
  }
  nb::list out;
  for (auto& piece : pieces) {
    out.append(nb::make_tuple(as_array(std::move(piece.labels), piece.n_rows),
                              as_array(std::move(piece.lengths), piece.n_rows),
                              as_array(std::move(piece.indices), piece.n_stored),
                              as_array(std::move(piece.values), piece.n_stored), piece.n_lines,
                              piece.smallest, piece.largest));
  }
  return out;
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

}  // namespace

void bind_io(nb::module_& m) {
  m.def("svmlight_rows", &svmlight_rows, nb::arg("text"), nb::arg("is_double"), nb::arg("is_wide"),
        nb::arg("least"), nb::arg("n_threads"));
}

}  // namespace snapml::native
