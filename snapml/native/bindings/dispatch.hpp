// A name from Python becomes a loss of losses.hpp here and nowhere else: "Poisson", "Tweedie(1.5)".
#pragma once

#include <charconv>
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

// The parameter between the brackets of a name.
inline double parameter_of(const std::string& name) {
  const std::size_t open = name.find('(');
  const char* const end = name.data() + name.size();
  const char* const begin = open == std::string::npos ? end : name.data() + open + 1;
  double parameter = 0;
  const std::from_chars_result read = std::from_chars(begin, end, parameter);
  if (read.ec != std::errc{} || std::string(read.ptr, end) != ")") {
    throw std::invalid_argument("expected a loss with its parameter in brackets, got '" + name +
                                "'");
  }
  return parameter;
}

template <class Loss>
Loss make_loss(const std::string& name) {
  if constexpr (Loss::traits().has_parameter) {
    return Loss{parameter_of(name)};
  } else {
    return Loss{};
  }
}

// Calls with the loss of a name, which must have a coordinate step.
template <class Real, class Call>
auto with_loss(const std::string& name, Call call) {
  const std::string bare = name.substr(0, name.find('('));
#define SNAPML_CALL_WITH(Loss)                                   \
  if constexpr (Loss<Real>::traits().has_dual_step) {            \
    if (bare == #Loss) return call(make_loss<Loss<Real>>(name)); \
  }
  SNAPML_FOR_EACH_LOSS(SNAPML_CALL_WITH)
#undef SNAPML_CALL_WITH
  throw std::invalid_argument("expected a loss with a coordinate step (" + loss_names(true) +
                              "), got '" + name + "'");
}

// Calls with the loss of a name.
template <class Real, class Call>
auto with_primal_loss(const std::string& name, Call call) {
  const std::string bare = name.substr(0, name.find('('));
#define SNAPML_CALL_WITH(Loss) \
  if (bare == #Loss) return call(make_loss<Loss<Real>>(name));
  SNAPML_FOR_EACH_LOSS(SNAPML_CALL_WITH)
#undef SNAPML_CALL_WITH
  throw std::invalid_argument("expected a loss (" + loss_names(false) + "), got '" + name + "'");
}

}  // namespace snapml::native
