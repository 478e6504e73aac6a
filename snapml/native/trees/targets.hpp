// What a row brings to a histogram, and what the sums of a bin are.
//
// All sums are integers: counts, or numbers in fixed point, scaled by a power of two so that the
// sum over all rows stays below 2^61. Integers add up to the same in any order, so neither threads
// nor the way a histogram was made (added up, or a parent's less a sibling's) change a tree.
#pragma once

#include <cmath>
#include <stdexcept>

#include "snapml/config.hpp"

namespace snapml::native::trees {

// The power of two that brings a sum of magnitudes below 2^61.
inline double fixed_point_scale(double sum) {
  int exponent = 0;
  if (!std::isfinite(sum)) {
    throw std::invalid_argument(
        "y, sample_weight: expected numbers whose sum of products is finite in float64");
  }
  std::frexp(sum, &exponent);
  return std::ldexp(1.0, std::min(61 - exponent, 1000));
}

// Rows' classes or numbers as they came, for sums in float64.
struct RawTargets {
  const int32* classes;
  const double* values;
  const double* weights;
  int64 n_classes;
  double weight(int64 row) const { return weights == nullptr ? 1 : weights[row]; }
};

// Count, weight and weighted target of a side: what criteria of one number look at. Its value is
// the first class's share of two, or the mean target.
struct Moments {
  double n, w, s;
};

// Classes without weights: the cell of a bin counts each class. kClasses is 0 where the number is
// known at run time only.
template <int kClasses>
struct ClassCounts {
  using Sum = uint32;
  using Entry = int32;
  static constexpr bool kIsRegression = false;

  const int32* classes;
  int64 n_classes_given;

  int64 n_classes() const { return kClasses != 0 ? kClasses : n_classes_given; }
  int64 n_sums() const { return n_classes(); }
  Entry entry(int64 row) const { return classes[row]; }
  static void add(Sum* cell, Entry e) { ++cell[e]; }
  static void subtract(Sum* cell, Entry e) { --cell[e]; }
  bool is_same(int64 a, int64 b) const { return classes[a] == classes[b]; }
  double count(const Sum* cell) const {
    int64 n = 0;
    for (int64 k = 0; k < n_classes(); ++k) n += cell[k];
    return static_cast<double>(n);
  }
  double weight(const Sum* cell) const { return count(cell); }
  double weight_scale() const { return 1; }
  double value_scale() const { return 1; }
  double value(Moments side) const { return (side.w - side.s) / side.w; }
  static void add_moments(const Sum* cell, int64* n, int64* w, int64* s) {
    *n += static_cast<int64>(cell[0]) + cell[1];
    *w = *n;
    *s += cell[1];
  }
};

// Weighted classes: the weight of each class, and after them how many rows there are.
struct ClassWeights {
  using Sum = int64;
  struct Entry {
    int64 weight;
    int32 label;
  };
  static constexpr bool kIsRegression = false;

  const int32* classes;
  const double* weights;
  int64 n_classes_given;
  double scale;

  int64 n_classes() const { return n_classes_given; }
  int64 n_sums() const { return n_classes_given + 1; }
  Entry entry(int64 row) const { return {std::llrint(weights[row] * scale), classes[row]}; }
  void add(Sum* cell, Entry e) const {
    cell[e.label] += e.weight;
    ++cell[n_classes_given];
  }
  void subtract(Sum* cell, Entry e) const {
    cell[e.label] -= e.weight;
    --cell[n_classes_given];
  }
  bool is_same(int64 a, int64 b) const { return classes[a] == classes[b]; }
  double count(const Sum* cell) const { return static_cast<double>(cell[n_classes_given]); }
  double weight(const Sum* cell) const {
    int64 w = 0;
    for (int64 k = 0; k < n_classes_given; ++k) w += cell[k];
    return static_cast<double>(w);
  }
  double weight_scale() const { return scale; }
  double value_scale() const { return scale; }
  double value(Moments side) const { return (side.w - side.s) / side.w; }
  static void add_moments(const Sum* cell, int64* n, int64* w, int64* s) {
    *w += cell[0] + cell[1];
    *s += cell[1];
    *n += cell[2];
  }
};

// Numbers: the weighted sum of the targets less a centre, the count, and the weight where there
// are weights.
template <bool kIsWeighted>
struct ValueSums {
  using Sum = int64;
  struct Entry {
    int64 value, weight;
  };
  static constexpr bool kIsRegression = true;

  const double* values;
  const double* weights;
  double centre;
  double value_scale_given;
  double weight_scale_given;

  int64 n_classes() const { return 1; }
  int64 n_sums() const { return kIsWeighted ? 3 : 2; }
  Entry entry(int64 row) const {
    const double w = kIsWeighted ? weights[row] : 1;
    return {std::llrint(w * (values[row] - centre) * value_scale_given),
            kIsWeighted ? std::llrint(w * weight_scale_given) : 1};
  }
  bool is_same(int64 a, int64 b) const { return values[a] == values[b]; }
  static void add(Sum* cell, Entry e) {
    cell[0] += e.value;
    ++cell[1];
    if (kIsWeighted) cell[2] += e.weight;
  }
  static void subtract(Sum* cell, Entry e) {
    cell[0] -= e.value;
    --cell[1];
    if (kIsWeighted) cell[2] -= e.weight;
  }
  double count(const Sum* cell) const { return static_cast<double>(cell[1]); }
  double weight(const Sum* cell) const { return static_cast<double>(cell[kIsWeighted ? 2 : 1]); }
  double weight_scale() const { return kIsWeighted ? weight_scale_given : 1; }
  double value_scale() const { return value_scale_given; }
  double value(Moments side) const {
    const double w = side.w / weight_scale();
    return (side.s / value_scale_given + centre * w) / w;
  }
  static void add_moments(const Sum* cell, int64* n, int64* w, int64* s) {
    *s += cell[0];
    *n += cell[1];
    *w += cell[kIsWeighted ? 2 : 1];
  }
};

}  // namespace snapml::native::trees
