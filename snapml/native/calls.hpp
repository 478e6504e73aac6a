// How a long call leaves Python and comes back: without the GIL, and not deaf to Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include "parallel.hpp"

namespace snapml::native {

namespace nb = nanobind;

// Worker 0 is the Python thread that called; signals are seen where Python handles them.
inline bool python_has_signal() {
  const nb::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

// Runs a long call without the GIL; a pending KeyboardInterrupt is raised once it has wound down.
template <class Call>
auto without_gil(Call call) {
  Interrupt interrupt(python_has_signal);
  auto result = [&] {
    const nb::gil_scoped_release release;
    return call(interrupt);
  }();
  if (interrupt.requested()) throw nb::python_error();
  return result;
}

}  // namespace snapml::native
