// The options of an epoch of dual coordinate ascent, as Python gives them.
#pragma once

#include <limits>
#include <stdexcept>
#include <string>

#include "dual/replicas.hpp"

namespace snapml::native {

inline EpochOptions epoch_options(double sigma, double outer, double relaxation, int64 rounds,
                                  int block_rows, uint64 seed, uint64 epoch) {
  if (rounds < 1 || rounds > std::numeric_limits<int>::max() || !(sigma >= 1) || !(outer >= 1)) {
    throw std::invalid_argument("expected rounds, sigma and outer >= 1, got " +
                                std::to_string(rounds) + ", " + std::to_string(sigma) + ", " +
                                std::to_string(outer));
  }
  if (!(relaxation > 0.5 && relaxation <= 1) || block_rows < 1 || block_rows > kBlockRows) {
    throw std::invalid_argument("expected relaxation in (0.5, 1] and block_rows in [1, " +
                                std::to_string(kBlockRows) + "], got " +
                                std::to_string(relaxation) + " and " + std::to_string(block_rows));
  }
  return {seed, epoch, rounds, sigma, outer, relaxation, block_rows};
}

}  // namespace snapml::native
