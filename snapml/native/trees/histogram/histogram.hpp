// Sums per bin of every column of a node: cells of n_sums integers, side by side.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "snapml/config.hpp"
#include "threads/parallel.hpp"

namespace snapml::native::trees {

// Adds to a histogram, or takes from it, rows i = rows.begin .. rows.end-1, whose bins are at
// bins_of(i) and which bring entry(i).
template <bool kSubtract, class Targets, class Bins, class Entry>
void add_rows(const Targets& targets, const std::vector<int64>& first_bin, Range columns,
              Range rows, Bins bins_of, Entry entry, typename Targets::Sum* histogram) {
  constexpr int64 kAhead = 12;
  const int64 n_sums = targets.n_sums();
  for (int64 i = rows.begin; i < rows.end; ++i) {
    if (i + kAhead < rows.end) __builtin_prefetch(bins_of(i + kAhead) + columns.begin);
    const auto* bins = bins_of(i);
    const auto e = entry(i);
    for (int64 j = columns.begin; j < columns.end; ++j) {
      typename Targets::Sum* cell =
          histogram + (first_bin[static_cast<std::size_t>(j)] + bins[j]) * n_sums;
      if constexpr (kSubtract) {
        targets.subtract(cell, e);
      } else {
        targets.add(cell, e);
      }
    }
  }
}

// Histograms that are taken and given back, so that few are ever allocated.
template <class Sum>
class HistogramStore {
 public:
  using Histogram = std::unique_ptr<Sum[]>;

  explicit HistogramStore(int64 size) : size_(static_cast<std::size_t>(size)) {}

  Histogram take() {
    if (free_.empty()) return Histogram(new Sum[size_]);
    Histogram histogram = std::move(free_.back());
    free_.pop_back();
    return histogram;
  }
  Histogram take_zeros() {
    Histogram histogram = take();
    std::fill_n(histogram.get(), size_, Sum{0});
    return histogram;
  }
  void give_back(Histogram histogram) {
    if (histogram) free_.push_back(std::move(histogram));
  }
  int64 bytes() const { return static_cast<int64>(size_ * sizeof(Sum)); }
  int64 size() const { return static_cast<int64>(size_); }

 private:
  std::size_t size_;
  std::vector<Histogram> free_;
};

// parent -= child
template <class Sum>
void subtract_histogram(const Sum* child, int64 size, Sum* parent) {
  for (int64 k = 0; k < size; ++k) parent[k] -= child[k];
}

}  // namespace snapml::native::trees
