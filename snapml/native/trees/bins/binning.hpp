// From numbers to bins: cut points of every column, and one or two bytes for each entry.
//
// A column of at most max_bins different values gets a bin for each of them; any other one gets
// bins of about equal weight. NaN has the bin after the last. Entries count as float32, as they do
// in scikit-learn's trees.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "snapml/random.hpp"
#include "snapml/views.hpp"
#include "threads/clones.hpp"
#include "threads/large_array.hpp"
#include "threads/parallel.hpp"
#include "trees/bins/bin_lookup.hpp"
#include "trees/bins/number_sort.hpp"

namespace snapml::native::trees {

constexpr int kMaxBins = 65535;
// Rows that quantiles are taken from: with 255 bins each one's share of the rows is then within
// some 6 % of what it would be with all of them. Many bins take more of them.
inline int64 most_sampled(int max_bins) { return std::max<int64>(65536, 8 * int64{max_bins}); }

// Bin b holds what is above upper[b - 1] and at most upper[b]. A row of bin b is at least lower[b],
// or above it where bins are no single values.
struct ColumnBins {
  std::vector<float> upper;
  std::vector<float> lower;
  bool is_listed = false;  // a bin for each value
  int size() const { return static_cast<int>(upper.size()); }

  // Where rows of bin `a` part from those of bin b > a, if none are between.
  double threshold(int a, int b) const {
    return static_cast<double>(upper[static_cast<std::size_t>(a)]) / 2 +
           static_cast<double>(lower[static_cast<std::size_t>(b)]) / 2;
  }
};

// The bins of the column that has most.
inline int widest(const std::vector<ColumnBins>& columns) {
  int most = 0;
  for (const ColumnBins& bins : columns) most = std::max(most, bins.size());
  return most;
}

// What bins mean; those of all columns are numbered through.
struct BinTable {
  int64 n_rows = 0, n_cols = 0;
  std::vector<ColumnBins> columns;
  std::vector<int64> first_bin;  // of each column (NaN has one in each), and the number of all
  bool is_finite = true;

  int n_bins(int64 column) const { return columns[static_cast<std::size_t>(column)].size(); }
  int64 all_bins() const { return first_bin.back(); }
  int most_bins() const { return widest(columns); }
  void number_bins() {
    first_bin.assign(1, 0);
    for (const ColumnBins& bins : columns) {
      first_bin.push_back(first_bin.back() + bins.size() + 1);
    }
  }
};

// Rows of bins, one after the other.
template <class BinType>
struct RowsOfBins : BinTable {
  using Bin = BinType;
  static constexpr int kMostBins = std::numeric_limits<Bin>::max();

  LargeArray<Bin> bins;

  const Bin* row(int64 i) const { return bins.get() + i * n_cols; }
};
using BinnedRows = RowsOfBins<uint8>;
using WideRows = RowsOfBins<uint16>;

inline void sort_floats(std::vector<float>& values) {
  std::vector<float> spare(values.size());
  sort_by_number(values.data(), spare.data(), static_cast<int64>(values.size()),
                 [](float x) { return x; });
}

inline ColumnBins listed_bins(std::vector<float> values) { return {values, values, true}; }

// The different numbers of a column, sorted, and how often each is there.
struct ValueCounts {
  std::vector<float> values;
  std::vector<int64> counts;

  void add(float x, int64 count) {
    const auto place = std::lower_bound(values.begin(), values.end(), x);
    const auto at = place - values.begin();
    if (place == values.end() || *place != x) {
      values.insert(place, x);
      counts.insert(counts.begin() + at, 0);
    }
    counts[static_cast<std::size_t>(at)] += count;
  }
};

inline ValueCounts count_values(const std::vector<float>& sorted) {
  ValueCounts found;
  for (const float x : sorted) {
    if (found.values.empty() || x != found.values.back()) {
      found.values.push_back(x);
      found.counts.push_back(0);
    }
    ++found.counts.back();
  }
  return found;
}

// Bins for numbers. Values of more than a bin's share get a bin of their own, and what is left is
// dealt out again.
inline ColumnBins quantile_bins(const ValueCounts& numbers, int max_bins) {
  const std::vector<float>& distinct = numbers.values;
  const std::vector<int64>& counts = numbers.counts;
  if (static_cast<int>(distinct.size()) <= max_bins) return listed_bins(distinct);
  ColumnBins bins;
  int64 left = std::accumulate(counts.begin(), counts.end(), int64{0}), held = 0;
  float below = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i + 1 < distinct.size() && bins.size() + 1 < max_bins; ++i) {
    held += counts[i];
    const int64 share = left / (max_bins - bins.size());
    // The next value alone would fill a bin: this one ends before it.
    if (held < share && counts[i + 1] < share) continue;
    const float middle = distinct[i] / 2 + distinct[i + 1] / 2;
    bins.upper.push_back(middle < distinct[i + 1] ? middle : distinct[i]);
    bins.lower.push_back(below);
    below = bins.upper.back();
    left -= held;
    held = 0;
  }
  bins.upper.push_back(std::numeric_limits<float>::max());
  bins.lower.push_back(below);
  return bins;
}

// The rows that take part: all of a view, or those that `kept` names.
template <class Real>
struct KeptRows {
  DenseView<Real> view;
  const int64* kept;
  int64 n_rows;

  const Real* row(int64 i) const {
    return view.values + (kept == nullptr ? i : kept[i]) * view.row_stride;
  }
  // Zeros have one sign.
  float at(int64 i, int64 column) const {
    return static_cast<float>(row(i)[column * view.col_stride]) + 0.0f;
  }
};

// One row of each of many parts, the same ones whenever there are as many rows.
inline std::vector<int64> sample_rows(int64 n_rows, int max_bins) {
  const int64 size = std::min(n_rows, most_sampled(max_bins));
  std::vector<int64> rows(static_cast<std::size_t>(size));
  for (int64 k = 0; k < size; ++k) {
    const Range part = share(n_rows, static_cast<int>(size), static_cast<int>(k));
    const uint32 word = philox(0, 0, static_cast<uint64>(k)).word[0];
    rows[static_cast<std::size_t>(k)] =
        part.begin + static_cast<int64>(word % static_cast<uint64>(part.end - part.begin));
  }
  return rows;
}

// The numbers at(0), at(1), ... that are not missing, sorted.
template <class At>
std::vector<float> sorted_numbers(int64 count, At at) {
  std::vector<float> numbers;
  numbers.reserve(static_cast<std::size_t>(count));
  for (int64 k = 0; k < count; ++k) {
    const float x = at(k);
    if (!std::isnan(x)) numbers.push_back(x);
  }
  sort_floats(numbers);
  return numbers;
}

// The different numbers of a column, or more than max_bins of them, sorted.
template <class Real>
std::vector<float> distinct_numbers(const KeptRows<Real>& rows, int64 column, int max_bins) {
  std::vector<float> found;
  for (int64 i = 0; i < rows.n_rows && static_cast<int>(found.size()) <= max_bins; ++i) {
    const float x = rows.at(i, column);
    if (std::isnan(x)) continue;
    const auto place = std::lower_bound(found.begin(), found.end(), x);
    if (place == found.end() || *place != x) found.insert(place, x);
  }
  return found;
}

// Columns whose lookups are in memory at a time.
constexpr int64 kLookups = 1024;

// What a worker found in its rows of one column.
struct ColumnReport {
  bool is_finite = true, is_listed = true;
};

// Writes the bins of a strip of rows of one column, side by side; NaN has bin n_bins.
template <class Bin>
SNAPML_CLONES void finish_bins(const float* x, const int32* bin, int n_bins, Bin* bins,
                               bool& has_infinity) {
  int32 n_infinite = 0;
  for (int i = 0; i < kStrip; ++i) {
    bins[i] = static_cast<Bin>(x[i] != x[i] ? n_bins : bin[i]);
    n_infinite += std::abs(x[i]) > std::numeric_limits<float>::max();
  }
  has_infinity = n_infinite > 0;
}

// Writes the bins of a range of rows of one column.
template <class Real, class Bin>
void bin_strip(const KeptRows<Real>& rows, Range range, int64 column, const ColumnBins& bins,
               const BinLookup& lookup, RowsOfBins<Bin>& out, ColumnReport& report) {
  float x[kStrip] = {};
  int32 bin[kStrip];
  Bin narrow[kStrip];
  const int count = static_cast<int>(range.end - range.begin);
  for (int i = 0; i < count; ++i) x[i] = rows.at(range.begin + i, column);
  lookup.find(x, bin);
  bool has_infinity = false;
  finish_bins(x, bin, bins.size(), narrow, has_infinity);
  report.is_finite &= !has_infinity;
  for (int i = 0; i < count && bins.is_listed && report.is_listed; ++i) {
    report.is_listed = std::isnan(x[i]) || lookup.end(bin[i]) == x[i];
  }
  Bin* to = out.bins.get() + range.begin * out.n_cols + column;
  for (int i = 0; i < count; ++i) to[i * out.n_cols] = narrow[i];
}

// Writes the bins of columns first .. last-1; true for those that have values beside their list.
template <class Real, class Bin>
std::vector<ColumnReport> fill_bins(const KeptRows<Real>& rows, Range columns, RowsOfBins<Bin>& out,
                                    ThreadPool& pool, Interrupt& interrupt) {
  const auto n_cols = static_cast<std::size_t>(columns.end - columns.begin);
  std::vector<BinLookup> lookups;
  for (int64 j = columns.begin; j < columns.end; ++j) {
    lookups.emplace_back(out.columns[static_cast<std::size_t>(j)].upper);
  }
  std::vector<std::vector<ColumnReport>> reports(static_cast<std::size_t>(pool.size()),
                                                 std::vector<ColumnReport>(n_cols));
  run_parts(pool, rows.n_rows, 16 * kStrip, [&](int worker, Range part) {
    auto& own = reports[static_cast<std::size_t>(worker)];
    for (int64 i = part.begin; i < part.end && !interrupt.requested(); i += kStrip) {
      interrupt.poll();
      const Range strip = {i, std::min(i + kStrip, part.end)};
      for (std::size_t j = 0; j < n_cols; ++j) {
        const int64 column = columns.begin + static_cast<int64>(j);
        bin_strip(rows, strip, column, out.columns[static_cast<std::size_t>(column)], lookups[j],
                  out, own[j]);
      }
    }
  });
  for (std::size_t worker = 1; worker < reports.size(); ++worker) {
    for (std::size_t j = 0; j < n_cols; ++j) {
      reports[0][j].is_finite &= reports[worker][j].is_finite;
      reports[0][j].is_listed &= reports[worker][j].is_listed;
    }
  }
  return reports[0];
}

// Sampled entries that are in memory at a time: of 65,536 rows, a line of float32 each.
constexpr int64 kGathered = 1 << 20;

// Writes some of the sampled rows' entries of some columns, one column after the other: a line of
// memory holds neighbours in a row or in a column.
template <class Real>
void gather(const KeptRows<Real>& rows, const std::vector<int64>& sample, Range some, Range columns,
            float* out) {
  const auto size = static_cast<int64>(sample.size());
  const auto take = [&](int64 k, int64 j) {
    out[(j - columns.begin) * size + k] = rows.at(sample[static_cast<std::size_t>(k)], j);
  };
  if (rows.view.col_stride == 1) {
    for (int64 k = some.begin; k < some.end; ++k) {
      for (int64 j = columns.begin; j < columns.end; ++j) take(k, j);
    }
  } else {
    for (int64 j = columns.begin; j < columns.end; ++j) {
      for (int64 k = some.begin; k < some.end; ++k) take(k, j);
    }
  }
}

template <class Real>
std::vector<ColumnBins> find_columns(const KeptRows<Real>& rows, int max_bins, ThreadPool& pool,
                                     Interrupt& interrupt) {
  const std::vector<int64> sample = sample_rows(rows.n_rows, max_bins);
  const auto size = static_cast<int64>(sample.size());
  const int64 n_cols = rows.view.n_cols;
  const int64 block = std::min(std::max<int64>(kGathered / size, pool.size()), n_cols);
  const std::unique_ptr<float[]> gathered(new float[static_cast<std::size_t>(block * size)]);
  std::vector<ColumnBins> columns(static_cast<std::size_t>(n_cols));
  for (int64 first = 0; first < n_cols && !interrupt.requested(); first += block) {
    const Range own = {first, std::min(first + block, n_cols)};
    pool.run([&](int worker) {
      gather(rows, sample, share(size, pool.size(), worker), own, gathered.get());
    });
    std::atomic<int64> next{own.begin};
    pool.run([&](int) {
      for (int64 j = next++; j < own.end && !interrupt.requested(); j = next++) {
        interrupt.poll();
        const float* const numbers = gathered.get() + (j - first) * size;
        columns[static_cast<std::size_t>(j)] = quantile_bins(
            count_values(sorted_numbers(size, [&](int64 k) { return numbers[k]; })), max_bins);
      }
    });
  }
  return columns;
}

// The bins of a column that looks like a list in the sample and is none.
template <class Real>
ColumnBins bins_beside_list(const KeptRows<Real>& rows, int64 column, int max_bins) {
  std::vector<float> distinct = distinct_numbers(rows, column, max_bins);
  if (static_cast<int>(distinct.size()) <= max_bins) return listed_bins(std::move(distinct));
  const std::vector<int64> sample = sample_rows(rows.n_rows, max_bins);
  auto numbers = sorted_numbers(static_cast<int64>(sample.size()), [&](int64 k) {
    return rows.at(sample[static_cast<std::size_t>(k)], column);
  });
  numbers.insert(numbers.end(), distinct.begin(), distinct.end());
  sort_floats(numbers);
  return quantile_bins(count_values(numbers), max_bins);
}

// Bins of all rows. Columns whose bins turn out to be too many for the type have wrong ones.
template <class Bin, class Real>
RowsOfBins<Bin> bin_rows_as(const KeptRows<Real>& rows, int max_bins,
                            std::vector<ColumnBins> columns, ThreadPool& pool,
                            Interrupt& interrupt) {
  RowsOfBins<Bin> out;
  out.n_rows = rows.n_rows;
  out.n_cols = rows.view.n_cols;
  out.columns = std::move(columns);
  out.bins = large_array<Bin>(static_cast<std::size_t>(out.n_rows * out.n_cols), pool);
  std::vector<ColumnReport> reports;
  for (int64 first = 0; first < out.n_cols; first += kLookups) {
    const auto some =
        fill_bins(rows, {first, std::min(first + kLookups, out.n_cols)}, out, pool, interrupt);
    reports.insert(reports.end(), some.begin(), some.end());
  }
  for (int64 j = 0; j < out.n_cols && !interrupt.requested(); ++j) {
    const ColumnReport& report = reports[static_cast<std::size_t>(j)];
    out.is_finite &= report.is_finite;
    ColumnBins& bins = out.columns[static_cast<std::size_t>(j)];
    if (!bins.is_listed || report.is_listed || !report.is_finite) continue;
    bins = bins_beside_list(rows, j, max_bins);
    if (bins.size() <= out.kMostBins) fill_bins(rows, {j, j + 1}, out, pool, interrupt);
  }
  out.number_bins();
  return out;
}

// Bins of all rows, as bytes where no column has more than 255.
template <class Real>
std::variant<BinnedRows, WideRows> bin_rows(const KeptRows<Real>& rows, int max_bins,
                                            ThreadPool& pool, Interrupt& interrupt) {
  std::vector<ColumnBins> columns = find_columns(rows, max_bins, pool, interrupt);
  if (widest(columns) <= BinnedRows::kMostBins) {
    BinnedRows narrow = bin_rows_as<uint8>(rows, max_bins, std::move(columns), pool, interrupt);
    if (narrow.most_bins() <= BinnedRows::kMostBins) return narrow;
    columns = std::move(narrow.columns);
  }
  return bin_rows_as<uint16>(rows, max_bins, std::move(columns), pool, interrupt);
}

}  // namespace snapml::native::trees
