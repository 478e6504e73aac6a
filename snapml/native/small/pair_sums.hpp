// Sums over rows of what pairs of a row's numbers and pairs of its classes make: all blocks of a
// multinomial Hessian at once.
#pragma once

#include <algorithm>
#include <vector>

#include "small/design.hpp"

namespace snapml::native::small {

// h[a][b] += sum_r q[r][a] w[r][b] over kGramRows rows, which lie in groups of four a, and of eight
// b.
struct AddOuter {
  template <int parts>
  [[gnu::always_inline]] static void run(const double* q, const double* w, int64 n_q, int64 n_w,
                                         double* h) {
    constexpr int kFour = 4;
    for (int64 b = 0; b < n_w; b += kEight) {
      const double* const right = w + b * kGramRows;
      for (int64 a = 0; a < n_q; a += kFour) {
        const double* const left = q + a * kGramRows;
        double* const to = h + a * n_w + b;
        auto first = WideEight<parts>::load(to), second = WideEight<parts>::load(to + n_w);
        auto third = WideEight<parts>::load(to + 2 * n_w);
        auto fourth = WideEight<parts>::load(to + 3 * n_w);
        for (int64 r = 0; r < kGramRows; ++r) {
          const auto v = WideEight<parts>::load(right + r * kEight);
          const double* const x = left + r * kFour;
          first.add(x[0], v), second.add(x[1], v), third.add(x[2], v), fourth.add(x[3], v);
        }
        first.store(to), second.store(to + n_w);
        third.store(to + 2 * n_w), fourth.store(to + 3 * n_w);
      }
    }
  }
};

// h[pair] += x_i x_j w for each pair of a row's kept entries.
struct AddOuterOfEntries {
  template <int parts>
  [[gnu::always_inline]] static void run(const double* values, const int64* columns, int64 n,
                                         const double* w, int64 n_w, int64 n_cols, double* h) {
    for (int64 e = 0; e < n; ++e) {
      const int64 i = columns[e], before = i * n_cols - i * (i - 1) / 2 - i;
      for (int64 f = e; f < n; ++f) {
        double* const to = h + (before + columns[f]) * n_w;
        const double x = values[e] * values[f];
        for (int64 b = 0; b < n_w; b += kEight) {
          auto sum = WideEight<parts>::load(to + b);
          sum.add(x, WideEight<parts>::load(w + b));
          sum.store(to + b);
        }
      }
    }
  }
};

class PairSums {
 public:
  PairSums(const Design& design, int64 n_classes)
      : design_(design),
        n_classes_(n_classes),
        n_q_((design.n_cols * (design.n_cols + 1) / 2 + 3) / 4 * 4),
        n_w_(whole(n_classes * (n_classes + 1) / 2)),
        sums_(at(n_q_ * n_w_), 0.0) {}

  // Adds all rows up. `fill(k, l, first, count, step, to)` puts the curvatures of rows from `first`
  // on in the margins of classes k <= l into every step-th number.
  template <class Fill>
  void add(Fill fill) {
    if (design_.keeps_rows()) return add_whole(fill);
    std::vector<double> w(at(n_w_), 0.0);
    for (int64 i = 0; i < design_.n_rows; ++i) {
      each_pair([&](int64 k, int64 l, int64 b) { fill(k, l, i, 1, 1, w.data() + b); });
      const Entries row = design_.entries(i);
      run_wide<AddOuterOfEntries>(row.values, row.columns, row.count, w.data(), n_w_,
                                  design_.n_cols, sums_.data());
    }
  }

  // Calls with classes k <= l, columns i <= j, and their sum.
  template <class Call>
  void each(Call call) const {
    each_pair([&](int64 k, int64 l, int64 b) {
      int64 a = 0;
      for (int64 i = 0; i < design_.n_cols; ++i) {
        for (int64 j = i; j < design_.n_cols; ++j, ++a) call(k, l, i, j, sums_[at(a * n_w_ + b)]);
      }
    });
  }

 private:
  static std::size_t at(int64 i) { return static_cast<std::size_t>(i); }

  template <class Call>
  void each_pair(Call call) const {
    int64 b = 0;
    for (int64 k = 0; k < n_classes_; ++k) {
      for (int64 l = k; l < n_classes_; ++l, ++b) call(k, l, b);
    }
  }

  template <class Fill>
  void add_whole(Fill fill) {
    std::vector<double> q(at(n_q_ * kGramRows), 0.0), w(at(n_w_ * kGramRows), 0.0);
    for (int64 first = 0; first < design_.n_rows; first += kGramRows) {
      const int64 count = std::min(kGramRows, design_.n_rows - first);
      if (count < kGramRows) std::fill(w.begin(), w.end(), 0.0);
      each_pair([&](int64 k, int64 l, int64 b) {
        double* const group = w.data() + b / kEight * kEight * kGramRows;
        fill(k, l, first, count, kEight, group + b % kEight);
      });
      for (int64 r = 0; r < count; ++r) fill_products(first + r, q.data(), r);
      run_wide<AddOuter>(q.data(), w.data(), n_q_, n_w_, sums_.data());
    }
  }

  void fill_products(int64 i, double* q, int64 r) const {
    constexpr int64 kFour = 4;
    const double* const x = design_.row(i);
    int64 a = 0;
    for (int64 j = 0; j < design_.n_cols; ++j) {
      for (int64 m = j; m < design_.n_cols; ++m, ++a) {
        q[a / kFour * kFour * kGramRows + r * kFour + a % kFour] = x[j] * x[m];
      }
    }
  }

  const Design& design_;
  const int64 n_classes_, n_q_, n_w_;
  std::vector<double> sums_;
};

}  // namespace snapml::native::small
