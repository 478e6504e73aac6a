// Core functions one element at a time, so that the tests can hold them against NumPy oracles.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <vector>

#include "dispatch.hpp"
#include "snapml/coordinate_step.hpp"
#include "snapml/dual_line.hpp"
#include "snapml/penalties.hpp"
#include "snapml/random.hpp"
#include "snapml/softmax.hpp"

namespace nb = nanobind;

namespace snapml::native {

void bind_core(nb::module_& m);

namespace {

template <class Real>
double loss_quantity(const std::string& loss, const std::string& quantity, double x, double y) {
  if (loss == "Softmax" && quantity == "conjugate_entry") {
    return static_cast<double>(Softmax<Real, 1>::conjugate_entry(static_cast<Real>(x)));
  }
  return with_primal_loss<Real>(loss, [&](auto type) -> double {
    using Loss = decltype(type);
    const Real a = static_cast<Real>(x), label = static_cast<Real>(y);
    if (quantity == "value") return static_cast<double>(Loss::value(a, label));
    if (quantity == "gradient") return static_cast<double>(Loss::gradient(a, label));
    if (quantity == "curvature") return static_cast<double>(Loss::curvature(a, label));
    if (quantity == "conjugate") return static_cast<double>(Loss::conjugate(a, label));
    if (quantity == "dual") return static_cast<double>(Loss::dual(a, label));
    if (quantity == "tangent_value") return static_cast<double>(Loss::tangent(a, label).value);
    if (quantity == "tangent_gradient") {
      return static_cast<double>(Loss::tangent(a, label).gradient);
    }
    if (quantity == "start") return static_cast<double>(Loss::start(label));
    throw std::invalid_argument("unknown quantity '" + quantity + "'");
  });
}

template <class Real>
double scalar_function(const std::string& name, double x) {
  const Real a = static_cast<Real>(x);
  if (name == "exp_nonpositive") return static_cast<double>(exp_nonpositive(a));
  if (name == "exp_vanishing") return static_cast<double>(exp_vanishing(a));
  if (name == "log1p_unit") return static_cast<double>(log1p_unit(a));
  throw std::invalid_argument("unknown function '" + name + "'");
}

template <class Real>
std::tuple<double, double, double> step_of(const std::string& loss, double state, double z,
                                           double y, double stiffness) {
  return with_loss<Real>(loss, [&](auto type) {
    const auto step = coordinate_step(type, static_cast<Real>(state), static_cast<Real>(z),
                                      static_cast<Real>(y), static_cast<Real>(stiffness));
    return std::make_tuple(static_cast<double>(step.state), static_cast<double>(step.change),
                           static_cast<double>(step.gap));
  });
}

template <class Real>
std::tuple<double, double> line_of(const std::string& loss, double first, double last, double y,
                                   double step) {
  return with_loss<Real>(loss, [&](auto type) {
    const Real label = static_cast<Real>(y);
    const Real state = dual_between(type, static_cast<Real>(first), static_cast<Real>(last), label,
                                    static_cast<Real>(step));
    return std::make_tuple(static_cast<double>(state),
                           static_cast<double>(dual_slope(type, state, label)));
  });
}

std::vector<int64> permutation_of(uint64 seed, uint64 stream, int64 size) {
  const Permutation order(seed, stream, size);
  std::vector<int64> result;
  for (int64 i = 0; i < size; ++i) result.push_back(order(i));
  return result;
}

std::vector<int> block_order_of(uint64 seed, uint64 stream, int64 block, int count) {
  uint8 order[16];
  if (count < 0 || count > 16) throw std::invalid_argument("expected count in [0, 16]");
  shuffle_block(seed, stream, block, count, order);
  return std::vector<int>(order, order + count);
}

std::vector<uint32> philox_of(uint64 seed, uint64 stream, uint64 counter) {
  const RandomWords words = philox(seed, stream, counter);
  return std::vector<uint32>(words.word, words.word + 4);
}

}  // namespace

void bind_core(nb::module_& m) {
  m.attr("compiler") = __VERSION__;
  m.def(
      "core_loss",
      [](const std::string& loss, const std::string& quantity, double x, double y, bool wide) {
        return wide ? loss_quantity<double>(loss, quantity, x, y)
                    : loss_quantity<float>(loss, quantity, x, y);
      },
      nb::arg("loss"), nb::arg("quantity"), nb::arg("x"), nb::arg("y"), nb::arg("is_float64"));
  m.def(
      "core_scalar",
      [](const std::string& name, double x, bool wide) {
        return wide ? scalar_function<double>(name, x) : scalar_function<float>(name, x);
      },
      nb::arg("name"), nb::arg("x"), nb::arg("is_float64"));
  m.def(
      "core_step",
      [](const std::string& loss, double state, double z, double y, double stiffness, bool wide) {
        return wide ? step_of<double>(loss, state, z, y, stiffness)
                    : step_of<float>(loss, state, z, y, stiffness);
      },
      nb::arg("loss"), nb::arg("state"), nb::arg("z"), nb::arg("y"), nb::arg("stiffness"),
      nb::arg("is_float64"));
  m.def(
      "core_line",
      [](const std::string& loss, double first, double last, double y, double step, bool wide) {
        return wide ? line_of<double>(loss, first, last, y, step)
                    : line_of<float>(loss, first, last, y, step);
      },
      nb::arg("loss"), nb::arg("first"), nb::arg("last"), nb::arg("y"), nb::arg("step"),
      nb::arg("is_float64"));
  m.def("core_permutation", &permutation_of, nb::arg("seed"), nb::arg("stream"), nb::arg("size"));
  m.def("core_block_order", &block_order_of, nb::arg("seed"), nb::arg("stream"), nb::arg("block"),
        nb::arg("count"));
  m.def("core_philox", &philox_of, nb::arg("seed"), nb::arg("stream"), nb::arg("counter"));
}

}  // namespace snapml::native
