// The list of losses compiled in: a name from Python becomes a type here and nowhere else.
#pragma once

#include <stdexcept>
#include <string>

#include "snapml/losses.hpp"

namespace snapml::native {

template <class Real, class Call>
auto with_loss(const std::string& name, Call call) {
  if (name == "Logistic") return call(Logistic<Real>{});
  if (name == "OffsetLogistic") return call(OffsetLogistic<Real>{});
  if (name == "Squared") return call(Squared<Real>{});
  if (name == "Hinge") return call(Hinge<Real>{});
  if (name == "SquaredHinge") return call(SquaredHinge<Real>{});
  throw std::invalid_argument("unknown loss '" + name +
                              "', expected Logistic, OffsetLogistic, Squared, Hinge or "
                              "SquaredHinge");
}

// The losses of the primal sweeps: those above, and what has no coordinate step.
template <class Real, class Call>
auto with_primal_loss(const std::string& name, Call call) {
  if (name == "SmoothedHinge") return call(SmoothedHinge<Real>{});
  return with_loss<Real>(name, call);
}

}  // namespace snapml::native
