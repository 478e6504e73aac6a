// Which bins of a column the rows of a small node have: a bit for each, and for many bins another
// one for each word of bits.
#pragma once

#include <algorithm>

#include "snapml/config.hpp"

namespace snapml::native::trees {

template <class Bin>
class UsedBins {
 public:
  void mark(Bin bin) {
    words_[bin >> 6] |= uint64{1} << (bin & 63);
    if constexpr (kIsWide) groups_[bin >> 12] |= uint64{1} << ((bin >> 6) & 63);
  }

  // Writes the marked bins up to `last` in their order and forgets them; how many there are.
  int take(int last, Bin* order) {
    int size = 0;
    if constexpr (kIsWide) {
      for (int group = 0; group <= last >> 12; ++group) {
        for (uint64 bits = groups_[group]; bits != 0; bits &= bits - 1) {
          size = take_word(64 * group + __builtin_ctzll(bits), order, size);
        }
        groups_[group] = 0;
      }
    } else {
      for (int word = 0; word <= last >> 6; ++word) size = take_word(word, order, size);
    }
    return size;
  }

 private:
  static constexpr bool kIsWide = sizeof(Bin) > 1;
  static constexpr int kWords = 1 << (8 * sizeof(Bin) - 6);

  int take_word(int word, Bin* order, int size) {
    for (uint64 bits = words_[word]; bits != 0; bits &= bits - 1) {
      order[size++] = static_cast<Bin>(64 * word + __builtin_ctzll(bits));
    }
    words_[word] = 0;
    return size;
  }

  uint64 words_[kWords] = {};
  uint64 groups_[std::max(kWords / 64, 1)] = {};
};

}  // namespace snapml::native::trees
