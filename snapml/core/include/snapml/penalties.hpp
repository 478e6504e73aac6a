// The penalties R(w) of the objective, one coefficient at a time.
#pragma once

#include "snapml/config.hpp"

namespace snapml {

// R(w) = ||w||^2 / 2. Its conjugate has the same form, and w = grad R*(v) = v: for L2 the shared
// vector of the dual method is the coefficient vector itself.
template <class T>
struct L2 {
  using Real = T;

  static SNAPML_HD Real value(Real w) { return Real(0.5) * w * w; }
  static SNAPML_HD Real conjugate(Real v) { return Real(0.5) * v * v; }
};

}  // namespace snapml
