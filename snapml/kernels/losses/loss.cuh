// The loss that a program is compiled for, with the parameter of its struct where it has one.
//
// Macros: SNAPML_LOSS_PARAMETER, which is empty for losses that have none.
#pragma once

#include "snapml/losses.hpp"

namespace snapml::kernels {

template <class Loss>
__device__ __forceinline__ Loss the_loss() {
  return Loss{SNAPML_LOSS_PARAMETER};
}

}  // namespace snapml::kernels
