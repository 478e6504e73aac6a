// The core's scalar functions: of the losses for arrays, of all of them one number at a time, so
// that the tests can hold them against NumPy oracles.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/arguments.hpp"
#include "bindings/dispatch.hpp"
#include "snapml/losses.hpp"
#include "snapml/penalties.hpp"
#include "snapml/random.hpp"
#include "snapml/softmax.hpp"
#include "snapml/softmax_step.hpp"

namespace nb = nanobind;

namespace snapml::native {

void bind_core(nb::module_& m);

namespace {

// Calls with a function of a loss, by its name.
template <class Loss, class Call>
void with_quantity(Loss loss, const std::string& quantity, Call call) {
  using Real = typename Loss::Real;
  if (quantity == "value") return call([=](Real z, Real y) { return loss.value(z, y); });
  if (quantity == "gradient") return call([=](Real z, Real y) { return loss.gradient(z, y); });
  if (quantity == "curvature") return call([=](Real z, Real y) { return loss.curvature(z, y); });
  if (quantity == "conjugate") return call([=](Real u, Real y) { return loss.conjugate(u, y); });
  if (quantity == "dual") return call([=](Real state, Real y) { return loss.dual(state, y); });
  if (quantity == "start") return call([=](Real, Real y) { return loss.start(y); });
  if (quantity == "tangent_value") {
    return call([=](Real z, Real y) { return loss.tangent(z, y).value; });
  }
  if (quantity == "tangent_gradient") {
    return call([=](Real z, Real y) { return loss.tangent(z, y).gradient; });
  }
  throw std::invalid_argument("unknown quantity '" + quantity + "'");
}

// The same, for the loss of a name.
template <class Real, class Call>
void with_function(const std::string& loss, const std::string& quantity, Call call) {
  if (loss == "Softmax" && quantity == "conjugate_entry") {
    return call([](Real p, Real) { return Softmax<Real, 1>::conjugate_entry(p); });
  }
  with_primal_loss<Real>(loss, [&](auto type) { with_quantity(type, quantity, call); });
}

template <class Real>
double loss_quantity(const std::string& loss, const std::string& quantity, double x, double y) {
  double found = 0;
  with_function<Real>(loss, quantity, [&](auto function) {
    found = static_cast<double>(function(static_cast<Real>(x), static_cast<Real>(y)));
  });
  return found;
}

template <class Real>
void loss_quantities(const std::string& loss, const std::string& quantity, const ReadOnlyArray& x,
                     const ReadOnlyArray& y, const AnyArray& out) {
  const int64 n = static_cast<int64>(out.size());
  const Real* const xs = vector_argument<Real>(x, "x", n);
  const Real* const ys = vector_argument<Real>(y, "y", n);
  Real* const results = vector_argument<Real>(out, "out", n);
  with_function<Real>(loss, quantity, [&](auto function) {
    for (int64 i = 0; i < n; ++i) results[i] = function(xs[i], ys[i]);
  });
}

// One corner of every row's loss, in float64.
void loss_corners(const std::string& loss, int index, const ReadOnlyArray& labels,
                  const AnyArray& at, const AnyArray& low, const AnyArray& high) {
  const int64 n = static_cast<int64>(labels.size());
  const double* const ys = vector_argument<double>(labels, "labels", n);
  double* const places = vector_argument<double>(at, "at", n);
  double* const lows = vector_argument<double>(low, "low", n);
  double* const highs = vector_argument<double>(high, "high", n);
  with_primal_loss<double>(loss, [&](auto type) {
    constexpr int n_corners = decltype(type)::traits().n_corners;
    if (index < 0 || index >= n_corners) {
      throw std::invalid_argument("index: expected one of " + std::to_string(n_corners) +
                                  " corners, got " + std::to_string(index));
    }
    if constexpr (n_corners > 0) {
      for (int64 i = 0; i < n; ++i) {
        const Corner<double> corner = type.corner(index, ys[i]);
        places[i] = corner.at;
        lows[i] = corner.low;
        highs[i] = corner.high;
      }
    }
  });
}

const char* name_of(Labels labels) {
  switch (labels) {
    case Labels::kSign:
      return "sign";
    case Labels::kReal:
      return "real";
    case Labels::kCount:
      return "count";
    case Labels::kPositive:
      return "positive";
    case Labels::kClass:
      return "class";
  }
  return "";
}

const char* name_of(Link link) {
  switch (link) {
    case Link::kIdentity:
      return "identity";
    case Link::kLog:
      return "log";
    case Link::kLogit:
      return "logit";
    case Link::kProbit:
      return "probit";
    case Link::kCloglog:
      return "cloglog";
  }
  return "";
}

const char* name_of(Kinks kinks) {
  switch (kinks) {
    case Kinks::kNone:
      return "none";
    case Kinks::kInCurvature:
      return "curvature";
    case Kinks::kInGradient:
      return "gradient";
  }
  return "";
}

nb::dict as_dict(const LossTraits& traits) {
  const auto bound = [](double x) {
    return x == LossTraits::kNone ? std::numeric_limits<double>::infinity() : x;
  };
  nb::dict made;
  made["labels"] = name_of(traits.labels);
  made["link"] = name_of(traits.link);
  made["kinks"] = name_of(traits.kinks);
  made["n_corners"] = traits.n_corners;
  made["is_quadratic"] = traits.is_quadratic;
  made["has_quadratic_conjugate"] = traits.has_quadratic_conjugate;
  made["has_dual_step"] = traits.has_dual_step;
  made["has_parameter"] = traits.has_parameter;
  made["curvature_bound"] = bound(traits.curvature_bound);
  made["self_concordance"] = bound(traits.self_concordance);
  return made;
}

// The traits of every loss by its name.
nb::dict loss_traits() {
  nb::dict made;
#define SNAPML_ADD_TRAITS(Loss) made[#Loss] = as_dict(Loss<double>::traits());
  SNAPML_FOR_EACH_LOSS(SNAPML_ADD_TRAITS)
#undef SNAPML_ADD_TRAITS
  made["Softmax"] = as_dict(Softmax<double, 1>::traits());
  return made;
}

template <class Real>
double scalar_function(const std::string& name, double x) {
  const Real a = static_cast<Real>(x);
  if (name == "exp_nonpositive") return static_cast<double>(exp_nonpositive(a));
  if (name == "exp_vanishing") return static_cast<double>(exp_vanishing(a));
  if (name == "exp_wide") return static_cast<double>(exp_wide(a));
  if (name == "exp_beyond_linear") return static_cast<double>(exp_beyond_linear(a));
  if (name == "log_positive") return static_cast<double>(log_positive(a));
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

// One row's step of the multinomial dual: its gap, and the new log p.
std::tuple<double, std::vector<double>> softmax_step_of(const std::vector<double>& z,
                                                        std::vector<double> log_p,
                                                        double stiffness) {
  if (z.empty() || z.size() != log_p.size()) {
    throw std::invalid_argument("expected as many logarithms as margins, at least one");
  }
  std::vector<double> change(z.size()), before(z.size()), p(z.size()), found(z.size());
  const double gap = softmax_step(z.data(), static_cast<int>(z.size()), stiffness, log_p.data(),
                                  change.data(), {before.data(), p.data(), found.data()});
  return {gap, std::move(log_p)};
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
  std::vector<int64> result(static_cast<std::size_t>(size));
  order.fill(0, size, result.data());
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
  m.def("loss_traits", &loss_traits);
  m.def(
      "loss_quantities",
      [](const std::string& loss, const std::string& quantity, const ReadOnlyArray& x,
         const ReadOnlyArray& y, const AnyArray& out) {
        if (out.dtype() == nb::dtype<float>()) {
          loss_quantities<float>(loss, quantity, x, y, out);
        } else {
          loss_quantities<double>(loss, quantity, x, y, out);
        }
      },
      nb::arg("loss"), nb::arg("quantity"), nb::arg("x"), nb::arg("y"), nb::arg("out"));
  m.def("loss_corners", &loss_corners, nb::arg("loss"), nb::arg("index"), nb::arg("labels"),
        nb::arg("at"), nb::arg("low"), nb::arg("high"));
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
  m.def("core_softmax_step", &softmax_step_of, nb::arg("z"), nb::arg("log_p"),
        nb::arg("stiffness"));
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
