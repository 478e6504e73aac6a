// The smaller and the larger of two numbers, and the limits of their types.
#pragma once

#include "snapml/config.hpp"

namespace snapml {

template <class Real>
SNAPML_HD Real minimum(Real a, Real b) {
  return b < a ? b : a;
}

template <class Real>
SNAPML_HD Real maximum(Real a, Real b) {
  return a < b ? b : a;
}

template <class Real>
SNAPML_HD Real clamp(Real x, Real low, Real high) {
  return minimum(maximum(x, low), high);
}

template <class Real>
SNAPML_HD Real infinity() {
  return static_cast<Real>(scalar::float_of(0x7f800000u));
}

// Distance from 1 to the next number.
template <class Real>
SNAPML_HD constexpr Real machine_epsilon() {
  return sizeof(Real) == 4 ? Real(1.1920929e-07) : Real(2.220446049250313e-16);
}

}  // namespace snapml
