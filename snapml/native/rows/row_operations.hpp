// Products of one row with a vector, on the CPU: the inner loops of every sweep.
//
// Dense rows have clones, sparse rows do not profit. No -ffast-math: the accumulators below state
// the order of the sum.
#pragma once

#include "snapml/views.hpp"
#include "threads/clones.hpp"

namespace snapml::native {

// How a sweep reads and writes the vector it shares or owns.
struct PlainAccess {
  template <class Real>
  static Real load(const Real* p) {
    return *p;
  }
  template <class Real>
  static void add(Real* p, Real x) {
    *p += x;
  }
};

// For a vector that several threads update at once: no torn values and no undefined behaviour,
// but an update may be lost. The exact pass repairs what was lost.
struct RelaxedAccess {
  template <class Real>
  static Real load(const Real* p) {
    Real x;
    __atomic_load(p, &x, __ATOMIC_RELAXED);
    return x;
  }
  template <class Real>
  static void add(Real* p, Real x) {
    Real sum = load(p) + x;
    __atomic_store(p, &sum, __ATOMIC_RELAXED);
  }
};

// Sum over j < n of entry(j), in partial sums that fill two registers of 64 bytes.
template <class Sum, class Entry>
[[gnu::always_inline]] inline Sum lanes_sum(int64 n, Entry entry) {
  constexpr int kLanes = 128 / static_cast<int>(sizeof(Sum));
  Sum lane[kLanes] = {};
  int64 j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (int k = 0; k < kLanes; ++k) lane[k] += entry(j + k);
  }
  Sum tail = 0;
  for (; j < n; ++j) tail += entry(j);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int k = 0; k < width; ++k) lane[k] += lane[k + width];
  }
  return lane[0] + tail;
}

template <class Sum, class Real, class Entry>
SNAPML_CLONES Sum dense_dot(const Real* a, const Entry* b, int64 n) {
  return lanes_sum<Sum>(n,
                        [=](int64 j) { return static_cast<Sum>(a[j]) * static_cast<Sum>(b[j]); });
}

template <class Real>
SNAPML_CLONES Real centred_dot(const Real* a, const Real* mean, const Real* b, int64 n) {
  return lanes_sum<Real>(n, [=](int64 j) { return (a[j] - mean[j]) * b[j]; });
}

template <class Real>
SNAPML_CLONES double centred_norm_sq(const Real* a, const Real* mean, int64 n) {
  return lanes_sum<double>(n, [=](int64 j) {
    const double entry = static_cast<double>(a[j] - mean[j]);
    return entry * entry;
  });
}

template <class Sum, class Real>
SNAPML_CLONES void dense_axpy(Sum scale, const Real* x, Sum* y, int64 n) {
  for (int64 j = 0; j < n; ++j) y[j] += scale * static_cast<Sum>(x[j]);
}

template <class Real>
SNAPML_CLONES void centred_axpy(Real scale, const Real* x, const Real* mean, Real* y, int64 n) {
  for (int64 j = 0; j < n; ++j) y[j] += scale * (x[j] - mean[j]);
}

// Products for the descent: of the centred row where the view is centred.
template <class Access, class Real>
Real row_dot(const DenseRow<Real>& row, const Real* vector) {
  return row.mean == nullptr ? dense_dot<Real>(row.values, vector, row.n_cols)
                             : centred_dot(row.values, row.mean, vector, row.n_cols);
}

template <class Access, class Real>
void row_add(const DenseRow<Real>& row, Real scale, Real* vector) {
  if (row.mean == nullptr) {
    dense_axpy<Real>(scale, row.values, vector, row.n_cols);
  } else {
    centred_axpy(scale, row.values, row.mean, vector, row.n_cols);
  }
}

// Four accumulators hide the latency of the gathers' additions.
template <class Access, class Sum, class Real, class Entry>
Sum gathered_sum(int64 n, const Real* vector, Entry entry) {
  Sum s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  int64 k = 0;
  for (; k + 4 <= n; k += 4) {
    s0 += entry(k, vector);
    s1 += entry(k + 1, vector);
    s2 += entry(k + 2, vector);
    s3 += entry(k + 3, vector);
  }
  for (; k < n; ++k) s0 += entry(k, vector);
  return (s0 + s1) + (s2 + s3);
}

template <class Access, class Real, class Index>
Real row_dot(const CompressedRow<Real, Index>& row, const Real* vector) {
  const Index* indices = row.indices;
  if (row.values == nullptr) {
    return row.constant * gathered_sum<Access, Real>(
                              row.n_stored, vector,
                              [=](int64 k, const Real* v) { return Access::load(v + indices[k]); });
  }
  const Real* values = row.values;
  return gathered_sum<Access, Real>(row.n_stored, vector, [=](int64 k, const Real* v) {
    return values[k] * Access::load(v + indices[k]);
  });
}

template <class Access, class Real, class Index>
void row_add(const CompressedRow<Real, Index>& row, Real scale, Real* vector) {
  if (row.values == nullptr) {
    const Real step = scale * row.constant;
    for (int64 k = 0; k < row.n_stored; ++k) Access::add(vector + row.indices[k], step);
  } else {
    for (int64 k = 0; k < row.n_stored; ++k) {
      Access::add(vector + row.indices[k], scale * row.values[k]);
    }
  }
}

// The same products with float64 sums, for the exact pass and margins: of the rows as they are.
template <class Real, class Entry>
double row_dot_wide(const DenseRow<Real>& row, const Entry* vector) {
  return dense_dot<double>(row.values, vector, row.n_cols);
}

template <class Real, class Index, class Entry>
double row_dot_wide(const CompressedRow<Real, Index>& row, const Entry* vector) {
  const Index* indices = row.indices;
  if (row.values == nullptr) {
    return static_cast<double>(row.constant) *
           gathered_sum<PlainAccess, double>(row.n_stored, vector, [=](int64 k, const Entry* v) {
             return static_cast<double>(v[indices[k]]);
           });
  }
  const Real* values = row.values;
  return gathered_sum<PlainAccess, double>(row.n_stored, vector, [=](int64 k, const Entry* v) {
    return static_cast<double>(values[k]) * static_cast<double>(v[indices[k]]);
  });
}

template <class Real>
void row_add_wide(const DenseRow<Real>& row, double scale, double* vector) {
  dense_axpy<double>(scale, row.values, vector, row.n_cols);
}

template <class Real, class Index>
void row_add_wide(const CompressedRow<Real, Index>& row, double scale, double* vector) {
  if (row.values == nullptr) {
    const double step = scale * static_cast<double>(row.constant);
    for (int64 k = 0; k < row.n_stored; ++k) vector[row.indices[k]] += step;
  } else {
    for (int64 k = 0; k < row.n_stored; ++k) {
      vector[row.indices[k]] += scale * static_cast<double>(row.values[k]);
    }
  }
}

template <class Real>
double row_norm_sq(const DenseRow<Real>& row) {
  return row.mean == nullptr ? dense_dot<double>(row.values, row.values, row.n_cols)
                             : centred_norm_sq(row.values, row.mean, row.n_cols);
}

template <class Real, class Index>
double row_norm_sq(const CompressedRow<Real, Index>& row) {
  if (row.values == nullptr) {
    const double c = static_cast<double>(row.constant);
    return c * c * static_cast<double>(row.n_stored);
  }
  return dense_dot<double>(row.values, row.values, row.n_stored);
}

}  // namespace snapml::native
