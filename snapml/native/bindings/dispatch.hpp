// A name from Python becomes a type of losses.hpp here and nowhere else.
#pragma once

#include <stdexcept>
#include <string>

#include "snapml/losses.hpp"

namespace snapml::native {

// Returns the names of all losses, or of those with a coordinate step, for an error.
inline std::string loss_names(bool has_dual_step) {
  std::string names;
#define SNAPML_ADD_NAME(Loss)                                   \
  if (Loss<double>::traits().has_dual_step || !has_dual_step) { \
    names += names.empty() ? #Loss : ", " #Loss;                \
  }
  SNAPML_FOR_EACH_LOSS(SNAPML_ADD_NAME)
#undef SNAPML_ADD_NAME
  return names;
}

// Calls with the loss of a name, which must have a coordinate step.
template <class Real, class Call>
auto with_loss(const std::string& name, Call call) {
#define SNAPML_CALL_WITH(Loss)                        \
  if constexpr (Loss<Real>::traits().has_dual_step) { \
    if (name == #Loss) return call(Loss<Real>{});     \
  }
  SNAPML_FOR_EACH_LOSS(SNAPML_CALL_WITH)
#undef SNAPML_CALL_WITH
  throw std::invalid_argument("expected a loss with a coordinate step (" + loss_names(true) +
                              "), got '" + name + "'");
}

// Calls with the loss of a name.
template <class Real, class Call>
auto with_primal_loss(const std::string& name, Call call) {
#define SNAPML_CALL_WITH(Loss) \
  if (name == #Loss) return call(Loss<Real>{});
  SNAPML_FOR_EACH_LOSS(SNAPML_CALL_WITH)
#undef SNAPML_CALL_WITH
  throw std::invalid_argument("expected a loss (" + loss_names(false) + "), got '" + name + "'");
}

}  // namespace snapml::native
