// The bins of numbers: a table over the range of a column's ends says which bin a number has at
// least, and as many halvings as its part of the range has ends leave one.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "snapml/config.hpp"
#include "threads/clones.hpp"

namespace snapml::native::trees {

constexpr int kStrip = 256;   // rows of a column that are looked up together
constexpr int kParts = 1024;  // of the range of a column's ends

// Where a number is in the range of the ends. Rounding keeps the order of numbers, so an end of a
// lower part than a number's is below it.
struct EndRange {
  float least = 0, scale = 0;

  int32 part(float x) const {
    const float place = std::max(0.0f, (x - least) * scale);  // 0 for NaN
    return static_cast<int32>(std::min(place, static_cast<float>(kParts - 1)));
  }
};

SNAPML_CLONES inline void find_parts(const float* x, EndRange range, int32* parts) {
  for (int i = 0; i < kStrip; ++i) parts[i] = range.part(x[i]);
}

class BinLookup {
 public:
  // `upper` are the ends of a column's bins in their order.
  explicit BinLookup(const std::vector<float>& upper) : ends_(upper), below_part_(kParts, 0) {
    ends_.resize(upper.size() + 1, kInfinity);
    if (upper.empty()) return;
    // The last end of quantiles is no number that was seen.
    const float least = upper.front(), most = upper[upper.size() - (upper.size() > 1 ? 2 : 1)];
    range_ = {least, static_cast<float>(kParts) / (most - least)};
    std::vector<int> n_ends(kParts, 0);
    for (const float end : upper) ++n_ends[static_cast<std::size_t>(range_.part(end))];
    for (std::size_t k = 1; k < kParts; ++k) below_part_[k] = below_part_[k - 1] + n_ends[k - 1];
    const int most_ends = *std::max_element(n_ends.begin(), n_ends.end());
    while (2 * first_step_ <= most_ends) first_step_ *= 2;
    ends_.resize(upper.size() + 2 * static_cast<std::size_t>(first_step_), kInfinity);
  }

  // Numbers of bins for kStrip numbers; what is above the last end gets that of no bin, and NaN
  // any.
  void find(const float* x, int32* bin) const {
    find_parts(x, range_, bin);
    if (first_step_ == 1) return halve<1>(x, bin);
    if (first_step_ == 2) return halve<2>(x, bin);
    if (first_step_ == 4) return halve<4>(x, bin);
    halve<0>(x, bin);
  }

  // The last number of a bin; infinity for that of no bin.
  float end(int32 bin) const { return ends_[static_cast<std::size_t>(bin)]; }

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  // From parts to bins; the first step is kFirstStep, or known at run time only if that is 0.
  template <int kFirstStep>
  void halve(const float* x, int32* bin) const {
    const float* const ends = ends_.data();
    const int first_step = kFirstStep != 0 ? kFirstStep : first_step_;
    for (int i = 0; i < kStrip; ++i) {
      const float* below = ends + below_part_[static_cast<std::size_t>(bin[i])];
#pragma GCC unroll 8
      for (int step = first_step; step > 0; step /= 2) {
        below += step & -static_cast<int64>(below[step - 1] < x[i]);
      }
      bin[i] = static_cast<int32>(below - ends);
    }
  }

  EndRange range_;
  std::vector<float> ends_;
  std::vector<int32> below_part_;
  int first_step_ = 1;
};

}  // namespace snapml::native::trees
