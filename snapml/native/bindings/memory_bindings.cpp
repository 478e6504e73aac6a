// Memory of several files in one range of addresses, without a copy.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "snapml/config.hpp"

namespace snapml::native {

namespace nb = nanobind;

void bind_memory(nb::module_& m);

namespace {

[[noreturn]] void raise_system_error() {
  PyErr_SetFromErrno(PyExc_OSError);
  throw nb::python_error();
}

// A range of addresses that nobody else gets.
class Range {
 public:
  explicit Range(std::size_t size)
      : data_(mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0)), size_(size) {
    if (data_ == MAP_FAILED) raise_system_error();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  ~Range() { munmap(data_, size_); }

  std::uint8_t* data() const { return static_cast<std::uint8_t*>(data_); }

  // Memory of a file, or new memory where there is none, from `first` on.
  void fill(std::size_t first, std::size_t size, int file) {
    if (size == 0) return;
    const int flags = MAP_FIXED | (file < 0 ? MAP_PRIVATE | MAP_ANON : MAP_SHARED);
    void* const found = mmap(data() + first, size, PROT_READ | PROT_WRITE, flags, file, 0);
    if (found == MAP_FAILED) raise_system_error();
  }

 private:
  void* data_;
  std::size_t size_;
};

// A page beyond a file's end would end the process.
std::size_t checked_size(int file, int64 size, bool is_last) {
  struct stat facts{};
  if (fstat(file, &facts) != 0) raise_system_error();
  const auto page = static_cast<int64>(sysconf(_SC_PAGESIZE));
  const auto end = static_cast<int64>(facts.st_size);
  // Of a page that the file ends in, the rest is there as well.
  const bool is_whole = size % page == 0 || (is_last && size == end);
  if (size < 0 || !is_whole || size > end) {
    throw std::invalid_argument("parts: expected whole pages of files, got " +
                                std::to_string(size) + " of " + std::to_string(end) + " bytes");
  }
  return static_cast<std::size_t>(size);
}

nb::object joined_memory(const std::vector<std::pair<int, int64>>& parts, int64 n_more) {
  if (n_more < 0) {
    throw std::invalid_argument("n_more: expected at least 0, got " + std::to_string(n_more));
  }
  std::size_t size = static_cast<std::size_t>(n_more);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const bool is_last = n_more == 0 && k + 1 == parts.size();
    size += checked_size(parts[k].first, parts[k].second, is_last);
  }
  if (size == 0) throw std::invalid_argument("parts: expected at least one byte, got none");
  auto range = std::make_unique<Range>(size);
  std::size_t first = 0;
  for (const auto& [file, n_bytes] : parts) {
    range->fill(first, static_cast<std::size_t>(n_bytes), file);
    first += static_cast<std::size_t>(n_bytes);
  }
  range->fill(first, static_cast<std::size_t>(n_more), -1);
  std::uint8_t* const data = range->data();
  nb::capsule owner(range.release(), [](void* p) noexcept { delete static_cast<Range*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(data, {size}, owner));
}

}  // namespace

void bind_memory(nb::module_& m) {
  m.def("joined_memory", &joined_memory, nb::arg("parts"), nb::arg("n_more"));
}

}  // namespace snapml::native
