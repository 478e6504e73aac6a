// Sorting by numbers in the order of their bits.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "snapml/config.hpp"

namespace snapml::native::trees {

// Bits whose order is that of the numbers, with NaN after all of them; zeros must have one sign.
inline uint32 order_of(float x) {
  uint32 bits;
  std::memcpy(&bits, &x, sizeof bits);
  if (std::isnan(x)) return ~uint32{0};
  return bits ^ ((bits >> 31) != 0 ? ~uint32{0} : uint32{1} << 31);
}

// Sorts fewer than 2^32 items by number(item), by three passes over 11 bits each where they are
// many. Those of equal numbers stay in their order.
template <class Item, class Number>
void sort_by_number(Item* items, Item* spare, int64 count, Number number) {
  const auto key = [&](const Item& item) { return order_of(number(item)); };
  if (count < 512) {
    const auto is_less = [&](const Item& a, const Item& b) { return key(a) < key(b); };
    return std::stable_sort(items, items + count, is_less);
  }
  constexpr uint32 kBits = 11, kDigits = 1u << kBits;
  std::array<std::array<uint32, kDigits>, 3> places = {};
  for (int64 i = 0; i < count; ++i) {
    uint32 rest = key(items[i]);
    for (auto& of_pass : places) {
      ++of_pass[rest % kDigits];
      rest >>= kBits;
    }
  }
  Item *from = items, *to = spare;
  for (uint32 pass = 0; pass < places.size(); ++pass) {
    uint32 before = 0;
    for (uint32& place : places[pass]) before += std::exchange(place, before);
    for (int64 i = 0; i < count; ++i) {
      to[places[pass][(key(from[i]) >> (pass * kBits)) % kDigits]++] = from[i];
    }
    std::swap(from, to);
  }
  // Three passes end in the other array.
  std::memcpy(items, spare, static_cast<std::size_t>(count) * sizeof(Item));
}

}  // namespace snapml::native::trees
