// Entries in one or two bytes, as stores keep them and wires carry them, and the float32 they mean.
#pragma once

#include "snapml/config.hpp"

namespace snapml {

// The upper half of a float32's bits.
SNAPML_HD float widen_bfloat16(uint16 bits) {
  return scalar::float_of(static_cast<uint32>(bits) << 16);
}

// offset + scale * number, rounded once to double and once to float32: the product is exact in
// double, so that contraction into one operation changes nothing, and no step overflows.
SNAPML_HD float widen_uint8(uint8 number, float scale, float offset) {
  return static_cast<float>(static_cast<double>(offset) +
                            static_cast<double>(scale) * static_cast<double>(number));
}

}  // namespace snapml
