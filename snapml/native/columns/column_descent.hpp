// Coordinate descent on columns: the quadratic model of the loss, one number per row in memory.
//
// The model at the present margins is sum_i g_i u_i + h_i u_i^2 / 2 with u = X x, the change of the
// margins. The rows keep h_i u_i, so that a coordinate's slope is one product with its column.
#pragma once

#include "dual/sweep_schedule.hpp"
#include "rows/row_operations.hpp"
#include "snapml/penalties.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

// Columns of a sparse matrix. Where `values` is null every stored entry equals `constant`.
template <class T, class I>
struct SparseColumns {
  using Real = T;
  using Index = I;
  const int64* indptr;
  const I* indices;
  const T* values;
  T constant;

  template <class Visit>
  [[gnu::always_inline]] void for_each(int64 j, Visit visit) const {
    const int64 first = indptr[j], last = indptr[j + 1];
    if (values == nullptr) {
      for (int64 k = first; k < last; ++k) visit(static_cast<int64>(indices[k]), constant);
    } else {
      for (int64 k = first; k < last; ++k) visit(static_cast<int64>(indices[k]), values[k]);
    }
  }

  // Sum over the column's entries of term(row, entry); four accumulators hide its latency.
  template <class Term>
  [[gnu::always_inline]] double sum(int64 j, Term term) const {
    const int64 first = indptr[j], n = indptr[j + 1] - first;
    const I* rows = indices + first;
    if (values == nullptr) {
      return gathered_sum<PlainAccess, double>(
          n, rows, [=](int64 k, const I* r) { return term(static_cast<int64>(r[k]), constant); });
    }
    const T* entries = values + first;
    return gathered_sum<PlainAccess, double>(
        n, rows, [=](int64 k, const I* r) { return term(static_cast<int64>(r[k]), entries[k]); });
  }
};

// Columns of a column-major matrix, side by side.
template <class T>
struct DenseColumns {
  using Real = T;
  const T* values;
  int64 n_rows;

  template <class Visit>
  [[gnu::always_inline]] void for_each(int64 j, Visit visit) const {
    const T* column = values + j * n_rows;
    for (int64 i = 0; i < n_rows; ++i) visit(i, column[i]);
  }

  template <class Term>
  [[gnu::always_inline]] double sum(int64 j, Term term) const {
    const T* column = values + j * n_rows;
    return lanes_sum<double>(n_rows, [=](int64 i) { return term(i, column[i]); });
  }
};

// The rows of the model: curvature h_i and state h_i u_i side by side, for one cache line serves
// both.
template <class Real>
struct WeightedRows {
  struct Row {
    Real curvature, state;
  };
  Row* rows;

  double state(int64 i) const { return static_cast<double>(rows[i].state); }
  double curvature(int64 i) const { return static_cast<double>(rows[i].curvature); }
  void add(int64 i, Real change) const { rows[i].state += rows[i].curvature * change; }
};

// All curvatures equal: the rows keep u_i alone.
template <class Real>
struct EqualRows {
  Real* states;
  double weight;

  double state(int64 i) const { return weight * static_cast<double>(states[i]); }
  double curvature(int64) const { return weight; }
  void add(int64 i, Real change) const { states[i] += change; }
};

// sum_i h_i x_ij and sum_i h_i x_ij^2.
template <class Columns, class Rows>
void column_curvatures(const Columns& columns, int64 count, const Rows& rows, double* sums,
                       double* squares, Interrupt& interrupt) {
  for (int64 j = 0; j < count && !interrupt.requested(); ++j) {
    if (j % 16 == 0) interrupt.poll();
    sums[j] = columns.sum(
        j, [&](int64 i, auto entry) { return rows.curvature(i) * static_cast<double>(entry); });
    squares[j] = columns.sum(j, [&](int64 i, auto entry) {
      return rows.curvature(i) * static_cast<double>(entry) * static_cast<double>(entry);
    });
  }
}

// out_j = column_j.vector, in float64.
template <class Columns>
void columns_adjoint(const Columns& columns, int64 count, const double* vector, double* out,
                     ThreadPool& pool, Interrupt& interrupt) {
  pool.run([&](int worker) {
    const Range mine = share(count, pool.size(), worker);
    for (int64 j = mine.begin; j < mine.end && !interrupt.requested(); ++j) {
      if (j % 16 == 0) interrupt.poll();
      out[j] = columns.sum(
          j, [&](int64 i, auto entry) { return static_cast<double>(entry) * vector[i]; });
    }
  });
}

// out += sum_j coef_j column_j, in float64 and on one thread: every column may touch every row.
template <class Columns>
void columns_product(const Columns& columns, int64 count, const double* coef, double* out,
                     Interrupt& interrupt) {
  for (int64 j = 0; j < count && !interrupt.requested(); ++j) {
    if (j % 16 == 0) interrupt.poll();
    const double scale = coef[j];
    if (scale == 0) continue;
    columns.for_each(j, [&](int64 i, auto entry) { out[i] += scale * static_cast<double>(entry); });
  }
}

// What one call of `column_descent` starts from and leaves behind.
struct ColumnModel {
  const double* slopes;      // of the loss at x = 0, one per column
  const double* curvatures;  // of the model, one per column; less the intercept's share
  const double* sums;        // sum_i h_i x_ij where a free intercept follows every step, else null
  double total;              // sum_i h_i
  double* coef;
};

// Minimises the model plus R(coef + x) over x, on the columns in `visits`. A free intercept is
// always at its minimiser: the step of a column moves it by -sums_j / total.
template <class Columns, class Rows>
SweepReport column_descent(const Columns& columns, Visits visits, const Rows& rows,
                           const ColumnModel& model, const ElasticNet<double>& penalty,
                           SweepLimits limits, Interrupt& interrupt) {
  using Real = typename Columns::Real;
  double mass = 0;  // sum_i h_i u_i before the intercept takes its share
  const auto visit = [&](int64 j) {
    double slope = model.slopes[j] + columns.sum(j, [&](int64 i, Real entry) {
      return static_cast<double>(entry) * rows.state(i);
    });
    if (model.sums != nullptr) slope -= mass / model.total * model.sums[j];
    const double next = penalty.minimiser(model.coef[j], slope, model.curvatures[j]);
    const double step = next - model.coef[j];
    if (step == 0) return Visited{};
    model.coef[j] = next;
    const Real change = static_cast<Real>(step);
    columns.for_each(j, [&](int64 i, Real entry) { rows.add(i, change * entry); });
    if (model.sums != nullptr) mass += step * model.sums[j];
    const double pull = (model.curvatures[j] + penalty.l2) * step;
    return Visited{0.5 * pull * step, scalar::fabs(pull)};
  };
  return run_sweeps(visits, model.coef, penalty, limits, interrupt, visit);
}

}  // namespace snapml::native
