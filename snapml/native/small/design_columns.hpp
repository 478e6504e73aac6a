// The columns of a small design without the intercept's: products, steps and Gram matrices.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "small/design.hpp"

namespace snapml::native::small {

// x.v over a multiple of eight numbers.
struct Dot {
  template <int parts>
  [[gnu::always_inline]] static double run(const double* x, const double* v, int64 n) {
    WideEight<parts> sum{};
    for (int64 i = 0; i < n; i += kEight) {
      sum.add(WideEight<parts>::load(x + i), WideEight<parts>::load(v + i));
    }
    return sum_of_lanes(sum);
  }
};

// s_i += factor k_i x_i.
template <class Real>
SNAPML_CLONES void add_weighted(Real factor, const Real* k, const Real* x, int64 n, Real* s) {
  for (int64 i = 0; i < n; ++i) s[i] += factor * k[i] * x[i];
}

// sum_i k_i x_i and sum_i k_i x_i^2 over a multiple of eight numbers, eight sums of each.
template <class Real>
SNAPML_CLONES void weighted_moments(const Real* k, const Real* x, int64 n, Real* sums,
                                    Real* squares) {
  for (int64 i = 0; i < n; i += kEight) {
    for (int r = 0; r < kEight; ++r) {
      const Real weighted = k[i + r] * x[i + r];
      sums[r] += weighted, squares[r] += weighted * x[i + r];
    }
  }
}

// Vectors over the rows are padded as the design is.
class DesignColumns {
 public:
  explicit DesignColumns(const Design& design)
      : n_rows_(design.n_rows), n_padded_(design.n_padded), is_dense_(design.keeps_rows()) {
    is_dense_ ? fill_dense(design) : fill_sparse(design);
  }

  double product(int64 j, const std::vector<double>& v) const {
    if (is_dense_) return run_wide<Dot>(column(j), v.data(), n_padded_);
    double sum = 0;
    for (const Entry* e = begin(j); e != end(j); ++e) sum += e->value * v[at(e->row)];
    return sum;
  }

  // sum_i k_i x_ij and sum_i k_i x_ij^2.
  struct Moments {
    double sum = 0, square = 0;
  };

  Moments moments(int64 j, const std::vector<double>& k) const {
    Moments found;
    if (is_dense_) {
      double sums[kEight] = {}, squares[kEight] = {};
      weighted_moments(k.data(), column(j), n_padded_, sums, squares);
      for (int r = 0; r < kEight; ++r) found.sum += sums[r], found.square += squares[r];
      return found;
    }
    for (const Entry* e = begin(j); e != end(j); ++e) {
      const double weighted = k[at(e->row)] * e->value;
      found.sum += weighted, found.square += weighted * e->value;
    }
    return found;
  }

  // s_i += factor k_i x_ij.
  void add(int64 j, double factor, const std::vector<double>& k, std::vector<double>& s) const {
    if (is_dense_) return add_weighted(factor, k.data(), column(j), n_padded_, s.data());
    for (const Entry* e = begin(j); e != end(j); ++e) {
      s[at(e->row)] += factor * k[at(e->row)] * e->value;
    }
  }

  // Nanoseconds of a product with a column and of a step along it.
  double visit_work(int64 j) const {
    return is_dense_ ? kDenseVisit * static_cast<double>(n_rows_)
                     : kVisit * static_cast<double>(end(j) - begin(j));
  }

  // Nanoseconds of the Gram matrix of columns that are visited in so many, as if all rows had as
  // many of their entries.
  double gram_work(double n_columns, double visit_work) const {
    const double n = static_cast<double>(n_rows_), entries = visit_work / kVisit;
    return is_dense_ ? kDenseProduct * n * n_columns * n_columns / 2
                     : kProduct * entries * entries / (2 * n);
  }

  // The upper half of sum_i k_i x_i x_i^T of some columns, in rows of `stride` numbers.
  std::vector<double> gram(const std::vector<int64>& some, const std::vector<double>& k,
                           int64 stride) const {
    std::vector<double> h(at(stride * stride));
    is_dense_ ? add_dense_gram(some, k, stride, h) : add_sparse_gram(some, k, stride, h);
    return h;
  }

 private:
  struct Entry {
    double value;
    int32 row;
  };

  static constexpr double kVisit = 3, kProduct = 1.5, kDenseVisit = 0.6, kDenseProduct = 0.2;

  static std::size_t at(int64 j) { return static_cast<std::size_t>(j); }
  const double* column(int64 j) const { return dense_.data() + j * n_padded_; }
  const Entry* begin(int64 j) const { return entries_.data() + starts_[at(j)]; }
  const Entry* end(int64 j) const { return entries_.data() + starts_[at(j + 1)]; }

  void fill_dense(const Design& design) {
    dense_.resize(at(design.n_features * n_padded_));
    for (int64 i = 0; i < n_rows_; ++i) {
      design.each_feature(i, [&](int64 j, double value) { dense_[at(j * n_padded_ + i)] = value; });
    }
  }

  void fill_sparse(const Design& design) {
    starts_.resize(at(design.n_features) + 1);
    for (int64 i = 0; i < n_rows_; ++i) {
      design.each_feature(i, [&](int64 j, double) { ++starts_[at(j + 1)]; });
    }
    std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
    entries_.resize(starts_.back());
    std::vector<std::size_t> next(starts_.begin(), starts_.end() - 1);
    for (int64 i = 0; i < n_rows_; ++i) {
      design.each_feature(i, [&](int64 j, double value) {
        entries_[next[at(j)]++] = {value, static_cast<int32>(i)};
      });
    }
  }

  void add_dense_gram(const std::vector<int64>& some, const std::vector<double>& k, int64 stride,
                      std::vector<double>& h) const {
    const int64 m = static_cast<int64>(some.size());
    std::vector<double> rows(at(kGramRows * stride));
    for (int64 first = 0; first < n_rows_; first += kGramRows) {
      const int64 count = std::min(kGramRows, n_rows_ - first);
      for (std::size_t a = 0; a < some.size(); ++a) {
        const double* const x = column(some[a]) + first;
        for (int64 r = 0; r < count; ++r) rows[at(r * stride) + a] = x[r];
      }
      add_gram(rows.data(), k.data() + first, count, m, stride, h.data(), stride);
    }
  }

  void add_sparse_gram(const std::vector<int64>& some, const std::vector<double>& k, int64 stride,
                       std::vector<double>& h) const {
    std::vector<std::size_t> starts(at(n_rows_) + 1);
    for (const int64 j : some) {
      for (const Entry* e = begin(j); e != end(j); ++e) ++starts[at(e->row) + 1];
    }
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    std::vector<std::size_t> next(starts.begin(), starts.end() - 1);
    std::vector<Entry> entries(starts.back());  // by rows; `row` is the place among `some`
    for (std::size_t a = 0; a < some.size(); ++a) {
      for (const Entry* e = begin(some[a]); e != end(some[a]); ++e) {
        entries[next[at(e->row)]++] = {e->value, static_cast<int32>(a)};
      }
    }
    for (int64 i = 0; i < n_rows_; ++i) {
      if (k[at(i)] == 0) continue;
      for (std::size_t e = starts[at(i)]; e < starts[at(i) + 1]; ++e) {
        double* const to = h.data() + entries[e].row * stride;
        const double factor = k[at(i)] * entries[e].value;
        for (std::size_t f = e; f < starts[at(i) + 1]; ++f) {
          to[entries[f].row] += factor * entries[f].value;
        }
      }
    }
  }

  const int64 n_rows_, n_padded_;
  const bool is_dense_;
  std::vector<double> dense_;  // whole columns, one after the other
  std::vector<std::size_t> starts_;
  std::vector<Entry> entries_;
};

}  // namespace snapml::native::small
