// The corners of a loss that is linear between them: l(z) = sum over them of
// max(low (z - at), high (z - at)), whose conjugate lives on a box.
#pragma once

#include "snapml/math.hpp"

namespace snapml {

// Where the slope jumps from `low` <= 0 to `high` >= 0.
template <class Real>
struct Corner {
  Real at;
  Real low;
  Real high;
};

}  // namespace snapml
