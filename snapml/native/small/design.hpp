// The rows of a small problem in float64, each in whole registers, with the intercept's column.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "snapml/views.hpp"
#include "threads/wide.hpp"

namespace snapml::native::small {

// The next multiple of eight.
inline int64 whole(int64 n) { return (n + kEight - 1) / kEight * kEight; }

struct DotEight {
  template <int parts>
  [[gnu::always_inline]] static void run(const double* rows, const double* w, int64 stride,
                                         double* z) {
    for (int r = 0; r < kEight; ++r) {
      const double* const x = rows + r * stride;
      WideEight<parts> sum{};
      for (int64 j = 0; j < stride; j += kEight) {
        sum.add(WideEight<parts>::load(x + j), WideEight<parts>::load(w + j));
      }
      z[r] = sum_of_lanes(sum);
    }
  }
};

struct AddEight {
  template <int parts>
  [[gnu::always_inline]] static void run(const double* rows, const double* s, int64 stride,
                                         double* g) {
    for (int64 j = 0; j < stride; j += kEight) {
      auto sum = WideEight<parts>::load(g + j);
      for (int r = 0; r < kEight; ++r) {
        sum.add(s[r], WideEight<parts>::load(rows + r * stride + j));
      }
      sum.store(g + j);
    }
  }
};

// Rows that a Gram matrix takes at a time, as many as stay in the first-level cache.
inline constexpr int64 kGramRows = 32;

// Of at most kGramRows rows, four rows of h at a time, so that a load serves four products, and as
// many columns of it as leave no register idle.
struct AddGram {
  static constexpr int kFour = 4;

  template <int parts>
  [[gnu::always_inline]] static void run(const double* rows, const double* k, int64 n_rows,
                                         int64 n_cols, int64 stride, double* h, int64 h_stride) {
    for (int64 i = 0; i < n_cols; i += kFour) {
      double scaled[kGramRows][kFour];
      for (int64 r = 0; r < n_rows; ++r) {
        for (int q = 0; q < kFour; ++q) scaled[r][q] = k[r] * rows[r * stride + i + q];
      }
      double* const to = h + i * h_stride;
      int64 j = i / kEight * kEight;
      if constexpr (parts == 1) {  // of 32 wide registers the products of one load would use four
        for (; j + 2 * kEight <= stride; j += 2 * kEight) {
          add_tile<parts, 2>(rows + j, scaled, n_rows, stride, to + j, h_stride);
        }
      }
      for (; j < stride; j += kEight) {
        add_tile<parts, 1>(rows + j, scaled, n_rows, stride, to + j, h_stride);
      }
    }
  }

  template <int parts, int width>
  [[gnu::always_inline]] static void add_tile(const double* rows, const double (*scaled)[kFour],
                                              int64 n_rows, int64 stride, double* h,
                                              int64 h_stride) {
    WideEight<parts> sums[kFour][width];
    for (int q = 0; q < kFour; ++q) {
      for (int w = 0; w < width; ++w) {
        sums[q][w] = WideEight<parts>::load(h + q * h_stride + w * kEight);
      }
    }
    for (int64 r = 0; r < n_rows; ++r) {
      for (int w = 0; w < width; ++w) {
        const auto v = WideEight<parts>::load(rows + r * stride + w * kEight);
        for (int q = 0; q < kFour; ++q) sums[q][w].add(scaled[r][q], v);
      }
    }
    for (int q = 0; q < kFour; ++q) {
      for (int w = 0; w < width; ++w) sums[q][w].store(h + q * h_stride + w * kEight);
    }
  }
};

// z[r] = x_r.w for eight rows of `stride` numbers, a multiple of eight.
inline void dot8(const double* rows, const double* w, int64 stride, double* z) {
  run_wide<DotEight>(rows, w, stride, z);
}

// g += sum_r s[r] x_r over eight rows.
inline void add8(const double* rows, const double* s, int64 stride, double* g) {
  run_wide<AddEight>(rows, s, stride, g);
}

// The upper half of h += sum_r k[r] x_r x_r^T; the blocks of eight on the diagonal are filled
// whole. Rows of h have `h_stride` numbers, and there are n_cols of them, up to a multiple of four.
inline void add_gram(const double* rows, const double* k, int64 n_rows, int64 n_cols, int64 stride,
                     double* h, int64 h_stride) {
  for (int64 first = 0; first < n_rows; first += kGramRows) {
    const int64 count = std::min(kGramRows, n_rows - first);
    run_wide<AddGram>(rows + first * stride, k + first, count, n_cols, stride, h, h_stride);
  }
}

// y -= factor x.
template <class Real>
SNAPML_CLONES void subtract(Real factor, const Real* x, int64 size, Real* y) {
  for (int64 j = 0; j < size; ++j) y[j] -= factor * x[j];
}

// What is kept of a row that has few entries.
struct Entries {
  const double* values;
  const int64* columns;
  int64 count;
};

// Work on an entry of few, beside that of one of a register's eight.
inline constexpr int64 kSparser = 5;

// Rows are followed by rows of zeros up to a multiple of eight. Of compressed rows with few entries
// those are kept, sorted, one for each column; of others whole rows, with zeros to whole registers.
class Design {
 public:
  template <class View>
  Design(const View& view, double bias_column)
      : n_rows(view.n_rows),
        n_features(view.n_cols),
        n_cols(view.n_cols + (bias_column != 0 ? 1 : 0)),
        stride(whole(n_cols + n_cols % 2)),
        n_padded(whole(view.n_rows)),
        bias_column(bias_column) {
    if (keeps_entries(view, bias_column)) return;
    values_.assign(static_cast<std::size_t>(n_padded * stride), 0.0);
    fill(view);
    if (bias_column == 0) return;
    for (int64 i = 0; i < n_rows; ++i) values_[at(i, n_features)] = bias_column;
  }

  // Whether rows are kept whole.
  bool keeps_rows() const { return starts_.empty(); }
  const double* row(int64 i) const { return values_.data() + i * stride; }
  // Of one that is not, the intercept's column among them.
  Entries entries(int64 i) const {
    const std::size_t first = start(i);
    return {values_.data() + first, columns_.data() + first,
            static_cast<int64>(start(i + 1) - first)};
  }

  // z[r] = x_r.w for eight rows from `first` on.
  void dot8(int64 first, const double* w, double* z) const {
    if (keeps_rows()) return small::dot8(row(first), w, stride, z);
    for (int64 i = first; i < first + kEight; ++i) {
      double sum = 0;
      for (std::size_t e = start(i); e < start(i + 1); ++e) sum += values_[e] * w[columns_[e]];
      z[i - first] = sum;
    }
  }

  // g += sum_r s[r] x_r over eight rows.
  void add8(int64 first, const double* s, double* g) const {
    if (keeps_rows()) return small::add8(row(first), s, stride, g);
    for (int64 i = first; i < first + kEight; ++i) {
      const double factor = s[i - first];
      for (std::size_t e = start(i); e < start(i + 1); ++e) g[columns_[e]] += factor * values_[e];
    }
  }

  // The upper half of h += sum_i k[i] x_i x_i^T over all rows; what else of h changes is of no
  // meaning. Rows that the loss is flat at have no share.
  void add_gram(const double* k, double* h, int64 h_stride) const {
    if (!keeps_rows()) {
      for (int64 i = 0; i < n_rows; ++i) {
        if (k[i] != 0) add_square(i, k[i], h, h_stride);
      }
      return;
    }
    if (std::count(k, k + n_rows, 0.0) * kFewFlat > n_rows) return add_packed(k, h, h_stride);
    small::add_gram(row(0), k, n_rows, n_cols, stride, h, h_stride);
  }

  // Calls with each column and value of a row, without the intercept's.
  template <class Call>
  void each_feature(int64 i, Call call) const {
    if (keeps_rows()) {
      for (int64 j = 0; j < n_features; ++j) call(j, row(i)[j]);
      return;
    }
    for (std::size_t e = start(i); e < start(i + 1); ++e) {
      if (columns_[e] < n_features) call(columns_[e], values_[e]);
    }
  }

  // g += factor x_i, without the intercept's column.
  void add_row(int64 i, double factor, double* g) const {
    each_feature(i, [&](int64 j, double value) { g[j] += factor * value; });
  }

  // sum_i weights_i ||x_i||^2, without the intercept's column.
  double weighted_squares(const double* weights) const {
    double sum = 0;
    for (int64 i = 0; i < n_rows; ++i) {
      double square = 0;
      each_feature(i, [&](int64, double value) { square += value * value; });
      sum += weights[i] * square;
    }
    return sum;
  }

  // What the upper half of the rows' Gram matrix costs, in products of a factor.
  double gram_work() const {
    const double n = static_cast<double>(n_rows), q = static_cast<double>(n_cols);
    return keeps_rows() ? n * q * q / 2 : kGramOfEntries * pairs_;
  }

  // What a read of the rows for one output costs, in the same.
  double pass_work() const {
    const double n = static_cast<double>(n_rows), q = static_cast<double>(n_cols);
    const double entries = static_cast<double>(columns_.size());
    return kPassOfRow * n + (keeps_rows() ? kPassOfNumber * n * q : kPassOfEntry * entries);
  }

  const int64 n_rows, n_features, n_cols, stride, n_padded;
  const double bias_column;  // every number of the intercept's column, 0 where there is none

 private:
  // In products of a factor, which are made eight at a time; those of entries one by one.
  static constexpr double kPassOfRow = 80, kPassOfNumber = 4, kPassOfEntry = 10, kGramOfEntries = 6;

  // One row of so many may be flat before the others are worth a copy.
  static constexpr int64 kFewFlat = 8;

  // h += factor x_i x_i^T of kept entries.
  void add_square(int64 i, double factor, double* h, int64 h_stride) const {
    const std::size_t end = start(i + 1);
    for (std::size_t e = start(i); e < end; ++e) {
      double* const to = h + columns_[e] * h_stride;
      const double scaled = factor * values_[e];
      for (std::size_t f = e; f < end; ++f) to[columns_[f]] += scaled * values_[f];
    }
  }

  // As `add_gram`, of whole rows of which many are flat: the others are put side by side.
  void add_packed(const double* k, double* h, int64 h_stride) const {
    std::vector<double> rows(static_cast<std::size_t>(kGramRows * stride), 0.0);
    double factors[kGramRows];
    int64 n_packed = 0;
    const auto flush = [&] {
      small::add_gram(rows.data(), factors, n_packed, n_cols, stride, h, h_stride);
      n_packed = 0;
    };
    for (int64 i = 0; i < n_rows; ++i) {
      if (k[i] == 0) continue;
      std::copy(row(i), row(i) + stride, rows.data() + n_packed * stride);
      factors[n_packed++] = k[i];
      if (n_packed == kGramRows) flush();
    }
    if (n_packed > 0) flush();
  }

  std::size_t at(int64 i, int64 j) const { return static_cast<std::size_t>(i * stride + j); }
  std::size_t start(int64 i) const { return starts_[static_cast<std::size_t>(i)]; }

  template <class Real>
  void fill(const DenseView<Real>& view) {
    for (int64 i = 0; i < n_rows; ++i) {
      const Real* const x = view.values + i * view.row_stride;
      for (int64 j = 0; j < n_features; ++j) {
        values_[at(i, j)] = static_cast<double>(x[j * view.col_stride]);
      }
    }
  }

  template <class Real, class Index>
  void fill(const CompressedView<Real, Index>& view) {
    for (int64 i = 0; i < n_rows; ++i) {
      const CompressedRow<Real, Index> x = view.row(i);
      for (int64 e = 0; e < x.n_stored; ++e) {  // entries of one column add up
        values_[at(i, static_cast<int64>(x.indices[e]))] += value_of(x, e);
      }
    }
  }

  // Keeps the entries of rows that have few; says whether it does.
  template <class Real>
  bool keeps_entries(const DenseView<Real>&, double) {
    return false;
  }

  template <class Real, class Index>
  bool keeps_entries(const CompressedView<Real, Index>& view, double bias_column) {
    const int64 n_stored = view.indptr[n_rows] - view.indptr[0];
    if (kSparser * (n_stored + n_rows) >= n_rows * stride) return false;
    starts_.reserve(static_cast<std::size_t>(n_padded + 1));
    columns_.resize(static_cast<std::size_t>(n_stored + n_rows));
    values_.resize(columns_.size());
    std::size_t size = 0;
    for (int64 i = 0; i < n_rows; ++i) {
      starts_.push_back(size);
      size = fill_sorted(view.row(i), size);
      if (bias_column != 0) columns_[size] = n_features, values_[size] = bias_column, ++size;
      const double kept = static_cast<double>(size - starts_.back());
      pairs_ += kept * (kept + 1) / 2;
    }
    columns_.resize(size), values_.resize(size);
    starts_.resize(static_cast<std::size_t>(n_padded + 1), size);
    return true;
  }

  // Keeps a row's entries from a place on, by columns, those of one added up; returns their end.
  template <class Real, class Index>
  std::size_t fill_sorted(const CompressedRow<Real, Index>& x, std::size_t first) {
    std::size_t size = first;
    bool is_sorted = true;
    for (int64 e = 0; e < x.n_stored; ++e, ++size) {
      columns_[size] = static_cast<int64>(x.indices[e]), values_[size] = value_of(x, e);
      is_sorted = is_sorted && (e == 0 || columns_[size - 1] < columns_[size]);
    }
    return is_sorted ? size : sort(first, size);
  }

  // Sorts entries [first, last) by columns and adds up those of one; returns their end.
  std::size_t sort(std::size_t first, std::size_t last) {
    std::vector<std::pair<int64, double>> entries;
    for (std::size_t e = first; e < last; ++e) entries.emplace_back(columns_[e], values_[e]);
    std::stable_sort(entries.begin(), entries.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::size_t size = first;
    for (const auto& [column, value] : entries) {
      if (size > first && columns_[size - 1] == column) {
        values_[size - 1] += value;
      } else {
        columns_[size] = column, values_[size] = value, ++size;
      }
    }
    return size;
  }

  template <class Real, class Index>
  static double value_of(const CompressedRow<Real, Index>& x, int64 e) {
    return static_cast<double>(x.values == nullptr ? x.constant : x.values[e]);
  }

  std::vector<std::size_t> starts_;  // empty where whole rows are kept
  std::vector<int64> columns_;
  std::vector<double> values_;
  double pairs_ = 0;  // of entries of one row
};

}  // namespace snapml::native::small
