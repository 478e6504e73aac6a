// Gram matrices of a few columns of compressed rows, by the pairs of entries in a row.
//
// Pairs row by row go all over the matrix. Where no near cache holds that, some rows at a time are
// sorted by columns: one row of the matrix after the other stays near while its pairs are added up.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "dual/objective.hpp"
#include "snapml/views.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

// Which columns of a matrix are kept, and where: those of position -1 are not.
struct KeptColumns {
  const int64* positions;  // rising with the column
  int64 count;
  int64 constant_at;  // position of the intercept's constant column, or -1
  double constant;    // its value
};

// Every n_parts-th of the kept columns.
struct ColumnShare {
  int64 part, n_parts;
  bool holds(int32 column) const { return n_parts == 1 || column % n_parts == part; }
};

// The kept entries of some rows, each row's by rising columns, with a factor h of each row.
class KeptRows {
 public:
  explicit KeptRows(const KeptColumns& kept) : kept_(kept) {}

  int64 n_entries() const { return static_cast<int64>(columns_.size()); }

  void clear() {
    columns_.clear(), values_.clear(), rows_.clear();
    is_uniform_ = true;
  }

  template <class Real, class Index>
  void see(const CompressedRow<Real, Index>& row, double h) {
    const std::size_t first = columns_.size();
    const auto constant = static_cast<double>(row.constant);
    if (first == 0) uniform_ = constant;
    const bool has_own = kept_.constant_at >= 0 && kept_.constant != constant;
    if (row.values != nullptr || constant != uniform_ || has_own) store_values();
    std::size_t end = append(row, constant);
    bool is_rising = true;
    for (std::size_t k = first + 1; k < end; ++k) is_rising &= columns_[k - 1] < columns_[k];
    if (!is_rising) end = sort_and_merge(first, end);
    columns_.resize(end);
    if (!is_uniform_) values_.resize(end);
    rows_.push_back({first, end, h});
  }

  // Adds h times the products of each column with those before it to its row, row by row.
  void add_by_rows(double* out) const {
    for (const Row& row : rows_) {
      for (std::size_t a = row.first; a < row.end; ++a) {
        add_cell({row.first, a, row.h * value(a)}, out + columns_[a] * kept_.count);
      }
    }
  }

  // The same for some of the columns, one after the other.
  void add_by_columns(ColumnShare share, double* out) {
    sort_by_columns(share);
    std::size_t c = 0;
    for (int64 j = share.part; j < kept_.count; j += share.n_parts) {
      const std::size_t end = ends_[static_cast<std::size_t>(j)];
      for (; c < end; ++c) add_cell(cells_[c], out + j * kept_.count);
    }
  }

 private:
  using Entry = std::pair<int32, double>;  // column and value
  struct Row {
    std::size_t first, end;
    double h;
  };
  // An entry times h, and those of its row up to it.
  struct Cell {
    std::size_t first, last;
    double scale;
  };

  double value(std::size_t k) const { return is_uniform_ ? uniform_ : values_[k]; }

  void add_cell(const Cell& cell, double* target) const {
    const int32* const columns = columns_.data();
    if (is_uniform_) {
      const double product = cell.scale * uniform_;
      for (std::size_t b = cell.first; b <= cell.last; ++b) target[columns[b]] += product;
      return;
    }
    const double* const values = values_.data();
    for (std::size_t b = cell.first; b <= cell.last; ++b) {
      target[columns[b]] += cell.scale * values[b];
    }
  }

  // From here on entries have values of their own.
  void store_values() {
    if (is_uniform_) values_.assign(columns_.size(), uniform_);
    is_uniform_ = false;
  }

  // The kept entries of a row in its order, and where they end.
  template <class Real, class Index>
  std::size_t append(const CompressedRow<Real, Index>& row, double constant) {
    std::size_t end = columns_.size();
    columns_.resize(end + static_cast<std::size_t>(row.n_stored) + 1);
    if (!is_uniform_) values_.resize(columns_.size(), constant);
    for (int64 k = 0; k < row.n_stored; ++k) {
      const int64 p = kept_.positions[row.indices[k]];
      columns_[end] = static_cast<int32>(p);
      if (row.values != nullptr) values_[end] = static_cast<double>(row.values[k]);
      end += p >= 0;  // no branch: it would be guessed wrong too often
    }
    if (kept_.constant_at < 0) return end;
    columns_[end] = static_cast<int32>(kept_.constant_at);
    if (!is_uniform_) values_[end] = kept_.constant;
    return end + 1;
  }

  // Entries of one column are added up: the square of their sum is not that of their squares.
  std::size_t sort_and_merge(std::size_t first, std::size_t end) {
    sorted_.clear();
    for (std::size_t k = first; k < end; ++k) sorted_.emplace_back(columns_[k], value(k));
    std::sort(sorted_.begin(), sorted_.end());
    const auto are_one = [](const Entry& a, const Entry& b) { return a.first == b.first; };
    if (std::adjacent_find(sorted_.begin(), sorted_.end(), are_one) != sorted_.end()) {
      store_values();
    }
    std::size_t n = first;
    for (const auto& [column, entry] : sorted_) {
      if (n > first && columns_[n - 1] == column) {
        values_[n - 1] += entry;
        continue;
      }
      if (!is_uniform_) values_[n] = entry;
      columns_[n++] = column;
    }
    return n;
  }

  void sort_by_columns(ColumnShare share) {
    ends_.assign(static_cast<std::size_t>(kept_.count), 0);
    for (const int32 column : columns_) {
      ends_[static_cast<std::size_t>(column)] += share.holds(column);
    }
    std::size_t n_cells = 0;
    for (std::size_t& end : ends_) {  // where each column's cells begin
      const std::size_t count = end;
      end = n_cells, n_cells += count;
    }
    cells_.resize(n_cells);
    for (const Row& row : rows_) {
      for (std::size_t k = row.first; k < row.end; ++k) {
        if (!share.holds(columns_[k])) continue;
        cells_[ends_[static_cast<std::size_t>(columns_[k])]++] = {row.first, k, row.h * value(k)};
      }
    }
  }

  const KeptColumns kept_;
  std::vector<int32> columns_;
  std::vector<double> values_;  // of the entries, unless all are `uniform_`
  bool is_uniform_ = true;
  double uniform_ = 0;
  std::vector<Entry> sorted_;  // of a row
  std::vector<Row> rows_;
  std::vector<Cell> cells_;
  std::vector<std::size_t> ends_;  // of each column's cells
};

// Columns up to which a Gram matrix, of 2 MB at most, stays in a cache of each worker's own.
constexpr int64 kMostOwnGram = 512;

// Adds the lower triangle of sum_i h_i x_i x_i^T over the kept columns to `out`, row-major.
template <class Real, class Index>
void sparse_gram(const CompressedView<Real, Index>& view, const KeptColumns& kept,
                 const double* curvatures, double* out, ThreadPool& pool, Interrupt& interrupt) {
  // Of rows that stay in a core's cache; many columns have few entries in fewer of them.
  constexpr int64 kEntries = 1 << 9, kEntriesByColumns = 1 << 15, kMostEntries = 1 << 20;
  const bool is_near = kept.count <= kMostOwnGram;
  const int64 size = kept.count * kept.count;
  const int64 enough = is_near ? kEntries : std::clamp(size / 64, kEntriesByColumns, kMostEntries);
  // Few columns: each worker has some of the rows. Many: some of the columns, and reads all rows.
  std::vector<double> others(is_near ? static_cast<std::size_t>(size * (pool.size() - 1)) : 0);
  pool.run([&](int worker) {
    const Range rows = is_near ? share(view.n_rows, pool.size(), worker) : Range{0, view.n_rows};
    double* const mine = is_near && worker > 0 ? others.data() + size * (worker - 1) : out;
    KeptRows some(kept);
    const auto add = [&] {
      is_near ? some.add_by_rows(mine) : some.add_by_columns({worker, pool.size()}, mine);
      some.clear();
    };
    for_each_row(view, rows, interrupt, [&](int64 i, const auto& row) {
      if (curvatures[i] == 0) return;
      some.see(row, curvatures[i]);
      if (some.n_entries() >= enough) add();
    });
    add();
  });
  for (auto other = others.cbegin(); other != others.cend(); other += size) {
    for (int64 k = 0; k < size; ++k) out[k] += other[k];
  }
}

}  // namespace snapml::native
