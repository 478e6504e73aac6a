// Rows of narrow entries as float32.
#pragma once

#include "rows/row_operations.hpp"
#include "snapml/narrow.hpp"

namespace snapml::native {

SNAPML_CLONES inline void widen(const uint16* from, int64 count, float* to) {
  for (int64 k = 0; k < count; ++k) to[k] = widen_bfloat16(from[k]);
}

// scales and offsets: one of each for every column.
SNAPML_CLONES inline void widen(const uint8* from, int64 n_rows, int64 n_cols, const float* scales,
                                const float* offsets, float* to) {
  for (int64 i = 0; i < n_rows; ++i, from += n_cols, to += n_cols) {
    for (int64 j = 0; j < n_cols; ++j) to[j] = widen_uint8(from[j], scales[j], offsets[j]);
  }
}

}  // namespace snapml::native
