// Long calls let other Python threads run, and end soon after Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <thread>

#include "threads/parallel.hpp"

namespace snapml::native {

namespace nb = nanobind;

// Takes the interpreter's lock by `take`. Where the interpreter ends meanwhile, as it does while a
// daemon thread is in a fit, Python before 3.14 ends the thread inside `take` by an unwinding of
// its stack, which no destructor and no frame of nanobind lets pass: the program would be aborted.
// The thread stays here instead, until the process is gone.
template <class Take>
void take_gil(Take take) {
  try {
    take();
  } catch (...) {  // Python's functions throw nothing else
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}
  ~ReleasedGil() {
    take_gil([this] { PyEval_RestoreThread(state_); });
  }
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* state_;
};

class AcquiredGil {
 public:
  AcquiredGil() {
    take_gil([this] { state_ = PyGILState_Ensure(); });
  }
  ~AcquiredGil() { PyGILState_Release(state_); }
  AcquiredGil(const AcquiredGil&) = delete;
  AcquiredGil& operator=(const AcquiredGil&) = delete;

 private:
  PyGILState_STATE state_;
};

// Worker 0 is the Python thread that called; signals are seen where Python handles them.
inline bool python_has_signal() {
  const AcquiredGil gil;
  return PyErr_CheckSignals() != 0;
}

// Runs a long call without the GIL; a pending KeyboardInterrupt is raised once it has wound down.
template <class Call>
auto without_gil(Call call) {
  Interrupt interrupt(python_has_signal);
  auto result = [&] {
    const ReleasedGil released;
    return call(interrupt);
  }();
  if (interrupt.requested()) throw nb::python_error();
  return result;
}

}  // namespace snapml::native
