// One coordinate of dual ascent: the exact 1-D maximiser of the dual in one row's variable.
//
// Given the stored state of beta_old, the row's margin z at the current shared vector, and
// stiffness k = sigma * c * ||x||^2 >= 0, the new state solves
//
//     s = z + k * (dual(s) - dual(s_old)),
//
// whose root lies between s_old and z (docs/algorithms.md, equation 4). Each loss has an overload,
// which returns the new state, the change of beta / c, and the row's duality gap G / c before the
// step.
#pragma once

#include "snapml/math.hpp"

namespace snapml {

template <class Real>
struct CoordinateStep {
  Real state;
  Real change;
  Real gap;
};

}  // namespace snapml
