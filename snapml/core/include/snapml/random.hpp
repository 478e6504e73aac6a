// Counter-based random numbers: the same seed and counter give the same numbers on every device,
// whatever the order in which threads ask for them.
#pragma once

#include "snapml/config.hpp"

namespace snapml {

struct RandomWords {
  uint32 word[4];
};

// Philox-4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; 2011).
SNAPML_HD RandomWords philox(uint64 seed, uint64 stream, uint64 counter) {
  uint32 key0 = static_cast<uint32>(seed), key1 = static_cast<uint32>(seed >> 32);
  RandomWords c = {{static_cast<uint32>(counter), static_cast<uint32>(counter >> 32),
                    static_cast<uint32>(stream), static_cast<uint32>(stream >> 32)}};
  for (int round = 0; round < 10; ++round) {
    const uint64 product0 = static_cast<uint64>(0xD2511F53u) * c.word[0];
    const uint64 product1 = static_cast<uint64>(0xCD9E8D57u) * c.word[2];
    c = {{static_cast<uint32>(product1 >> 32) ^ c.word[1] ^ key0, static_cast<uint32>(product1),
          static_cast<uint32>(product0 >> 32) ^ c.word[3] ^ key1, static_cast<uint32>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

// A random permutation of 0 .. size-1 that needs no storage: a keyed Feistel network over the
// bits that hold size, walked until it lands inside (at most two evaluations on average). An odd
// bit makes one half longer. Blocks of rows are visited in this order, on the CPU and on a GPU.
class Permutation {
 public:
  SNAPML_HD Permutation(uint64 seed, uint64 stream, int64 size) : size_(size) {
    int bits = 1;
    while ((int64(1) << bits) < size) ++bits;
    low_bits_ = bits / 2;
    low_mask_ = (uint64(1) << low_bits_) - 1;
    high_mask_ = (uint64(1) << (bits - low_bits_)) - 1;
    for (int pair = 0; pair < kRounds / 4; ++pair) {
      const RandomWords words = philox(seed, stream, static_cast<uint64>(pair));
      for (int j = 0; j < 4; ++j) key_[4 * pair + j] = words.word[j];
    }
  }

  SNAPML_HD int64 operator()(int64 index) const {
    uint64 x = static_cast<uint64>(index);
    do {
      x = encrypt(x);
    } while (x >= static_cast<uint64>(size_));
    return static_cast<int64>(x);
  }

  // Where the `count` indices from `first` on come to: the same, in a third of the time on a CPU,
  // which works on several at once as long as no branch depends on them.
  SNAPML_HD void fill(int64 first, int64 count, int64* out) const {
    for (int64 k = 0; k < count; ++k) {
      out[k] = static_cast<int64>(encrypt(static_cast<uint64>(first + k)));
    }
    for (int64 k = 0; k < count; ++k) {
      if (out[k] >= size_) out[k] = (*this)(out[k]);
    }
  }

 private:
  static constexpr int kRounds = 8;

  SNAPML_HD static uint64 mix(uint64 half, uint64 key) {
    uint64 mixed = (half + key) * 0x9E3779B97F4A7C15ull;
    mixed ^= mixed >> 29;
    return (mixed * 0xBF58476D1CE4E5B9ull) >> 32;
  }

  SNAPML_HD uint64 encrypt(uint64 x) const {
    uint64 high = x >> low_bits_, low = x & low_mask_;
    for (int round = 0; round < kRounds; round += 2) {
      high ^= mix(low, key_[round]) & high_mask_;
      low ^= mix(high, key_[round + 1]) & low_mask_;
    }
    return (high << low_bits_) | low;
  }

  int64 size_;
  int low_bits_;
  uint64 low_mask_, high_mask_;
  uint64 key_[kRounds];
};

// Fresh order of the `count` <= 16 rows of one block (Fisher-Yates on one Philox call). A byte
// chooses each swap; its bias of at most 16/256 in one position is immaterial to the descent.
SNAPML_HD void shuffle_block(uint64 seed, uint64 stream, int64 block, int count, uint8* order) {
  for (int j = 0; j < count; ++j) order[j] = static_cast<uint8>(j);
  if (count <= 1) return;
  const RandomWords words = philox(seed, stream, static_cast<uint64>(block));
  for (int j = count - 1; j > 0; --j) {
    const uint32 byte = (words.word[j / 4] >> (8 * (j % 4))) & 0xFFu;
    const uint32 pick = (byte * static_cast<uint32>(j + 1)) >> 8;
    const uint8 kept = order[j];
    order[j] = order[pick];
    order[pick] = kept;
  }
}

}  // namespace snapml
