// From compressed columns to bins. Zeros are not stored: rows that a column's list leaves out are
// in its bin of zero, and so are those of its entries that fall into that bin.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "trees/bins/binning.hpp"

namespace snapml::native::trees {

// Bins in lists, one for each column. Growing a tree changes the lists' order.
struct BinnedColumns : BinTable {
  std::vector<int> zero_bin;         // -1 where all is missing
  std::vector<int64> begins, sizes;  // of the lists
  std::unique_ptr<uint32[]> rows;    // ascending in each list
  std::unique_ptr<uint16[]> bins;
};

// The sample of rows that dense columns take, as marks.
struct SampledRows {
  std::vector<uint8> is_in;  // empty: all rows are
  int64 size;

  SampledRows(int64 n_rows, int max_bins) : size(std::min(n_rows, most_sampled(max_bins))) {
    if (size == n_rows) return;
    is_in.assign(static_cast<std::size_t>(n_rows), 0);
    for (const int64 row : sample_rows(n_rows, max_bins)) is_in[static_cast<std::size_t>(row)] = 1;
  }
  bool has(int64 row) const { return is_in.empty() || is_in[static_cast<std::size_t>(row)] != 0; }
};

// A compressed column as lists of rows and float32; zeros have one sign.
struct SparseColumn {
  std::vector<uint32> rows;
  std::vector<float> values;
  int64 n_rows = 0;

  std::size_t size() const { return rows.size(); }
  bool has_zeros() const { return static_cast<int64>(size()) < n_rows; }

  template <class View>
  void read(const View& columns, int64 column) {
    const auto stored = columns.row(column);
    n_rows = columns.n_cols;
    rows.resize(static_cast<std::size_t>(stored.n_stored));
    values.resize(rows.size());
    for (std::size_t k = 0; k < size(); ++k) {
      rows[k] = static_cast<uint32>(stored.indices[k]);
      values[k] =
          static_cast<float>(stored.values == nullptr ? stored.constant : stored.values[k]) + 0.0f;
      if (k > 0 && rows[k] <= rows[k - 1]) {
        throw std::invalid_argument("columns: expected ascending rows, got " +
                                    std::to_string(rows[k]) + " after " +
                                    std::to_string(rows[k - 1]));
      }
    }
  }
};

inline ValueCounts sampled_numbers(const SparseColumn& column, const SampledRows& sample) {
  std::vector<float> numbers;
  int64 n_zeros = sample.size;
  for (std::size_t k = 0; k < column.size(); ++k) {
    if (!sample.has(column.rows[k])) continue;
    --n_zeros;
    if (!std::isnan(column.values[k])) numbers.push_back(column.values[k]);
  }
  sort_floats(numbers);
  ValueCounts found = count_values(numbers);
  if (n_zeros > 0) found.add(0, n_zeros);
  return found;
}

// As for dense columns, in the order of the rows: the first zero that is not stored counts where
// it is.
inline std::vector<float> distinct_numbers(const SparseColumn& column, int max_bins) {
  ValueCounts found;
  const auto is_full = [&] { return static_cast<int>(found.values.size()) > max_bins; };
  bool has_zero = false;
  for (std::size_t k = 0; k <= column.size() && !is_full(); ++k) {
    const int64 row = k < column.size() ? column.rows[k] : column.n_rows;
    if (!has_zero && row > static_cast<int64>(k)) {
      has_zero = true;
      found.add(0, 1);
      if (is_full()) break;
    }
    if (k < column.size() && !std::isnan(column.values[k])) found.add(column.values[k], 1);
  }
  return found.values;
}

inline int bin_of(const ColumnBins& bins, float x) {
  if (std::isnan(x)) return bins.size();
  const auto place = std::lower_bound(bins.upper.begin(), bins.upper.end(), x);
  return std::min(static_cast<int>(place - bins.upper.begin()), bins.size() - 1);
}

inline bool is_list_of(const ColumnBins& bins, const SparseColumn& column) {
  const auto has = [&](float x) {
    return std::isnan(x) || std::binary_search(bins.upper.begin(), bins.upper.end(), x);
  };
  return (!column.has_zeros() || has(0)) &&
         std::all_of(column.values.begin(), column.values.end(), has);
}

// The bins that the column would have as a dense one.
inline ColumnBins column_bins(const SparseColumn& column, const SampledRows& sample, int max_bins) {
  ValueCounts numbers = sampled_numbers(column, sample);
  ColumnBins bins = quantile_bins(numbers, max_bins);
  if (!bins.is_listed || sample.size == column.n_rows || is_list_of(bins, column)) return bins;
  std::vector<float> distinct = distinct_numbers(column, max_bins);
  if (static_cast<int>(distinct.size()) <= max_bins) return listed_bins(std::move(distinct));
  for (const float x : distinct) numbers.add(x, 1);
  return quantile_bins(numbers, max_bins);
}

// Writes a column's list to where its stored entries begin; false if it holds an infinity.
inline bool fill_list(const SparseColumn& column, int64 j, BinnedColumns& out) {
  const auto at = static_cast<std::size_t>(j);
  const ColumnBins& bins = out.columns[at];
  uint32* rows = out.rows.get() + out.begins[at];
  uint16* to = out.bins.get() + out.begins[at];
  int64 size = 0;
  bool is_finite = true;
  for (std::size_t k = 0; k < column.size(); ++k) {
    is_finite &= !std::isinf(column.values[k]);
    const int bin = bin_of(bins, column.values[k]);
    if (bin == out.zero_bin[at]) continue;
    rows[size] = column.rows[k];
    to[size++] = static_cast<uint16>(bin);
  }
  out.sizes[at] = size;
  return is_finite;
}

// Bins of compressed columns, whose rows ascend.
template <class View>
BinnedColumns bin_columns(const View& view, int max_bins, ThreadPool& pool, Interrupt& interrupt) {
  BinnedColumns out;
  out.n_rows = view.n_cols;
  out.n_cols = view.n_rows;
  const auto n_cols = static_cast<std::size_t>(out.n_cols);
  out.columns.resize(n_cols);
  out.zero_bin.resize(n_cols);
  out.sizes.resize(n_cols);
  const auto first = static_cast<int64>(view.indptr[0]);
  for (std::size_t j = 0; j < n_cols; ++j) {
    out.begins.push_back(static_cast<int64>(view.indptr[j]) - first);
  }
  const auto n_stored = static_cast<std::size_t>(static_cast<int64>(view.indptr[n_cols]) - first);
  out.rows.reset(new uint32[n_stored]);
  out.bins.reset(new uint16[n_stored]);
  const SampledRows sample(out.n_rows, max_bins);
  std::atomic<int64> next{0};
  std::atomic<bool> is_finite{true};
  pool.run([&](int) {
    SparseColumn column;
    for (int64 j = next++; j < out.n_cols && !interrupt.requested(); j = next++) {
      interrupt.poll();
      column.read(view, j);
      ColumnBins& bins = out.columns[static_cast<std::size_t>(j)];
      bins = column_bins(column, sample, max_bins);
      out.zero_bin[static_cast<std::size_t>(j)] = bin_of(bins, 0);
      if (!fill_list(column, j, out)) is_finite = false;
    }
  });
  out.is_finite = is_finite;
  out.number_bins();
  return out;
}

}  // namespace snapml::native::trees
