// The sums behind the certificate, in float64: both sides of the duality gap need one read of the
// matrix, the rest works on the margins it leaves behind. solvers/certificate.py composes them.
#pragma once

#include <vector>

#include "dual/dual_state.hpp"
#include "rows/row_operations.hpp"
#include "rows/row_reader.hpp"
#include "snapml/penalties.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

// Calls visit(block) for every block of up to kBlockRows rows, in order, as long as nobody
// interrupts.
template <class Visit>
void for_each_block(Range rows, Interrupt& interrupt, Visit visit) {
  for (int64 first = rows.begin; first < rows.end; first += kBlockRows) {
    if (first / kBlockRows % 16 == 0) interrupt.poll();
    if (interrupt.requested()) return;
    visit(Range{first, minimum<int64>(first + kBlockRows, rows.end)});
  }
}

// Visits every row in storage order and calls visit(i, row).
template <class View, class Visit>
void for_each_row(const View& view, Range rows, Interrupt& interrupt, Visit visit) {
  RowReader<View> reader(view);
  for_each_block(rows, interrupt, [&](Range block) {
    const int count = static_cast<int>(block.end - block.begin);
    reader.load(block.begin, count);
    for (int j = 0; j < count; ++j) visit(block.begin + j, reader.row(j));
  });
}

// Sum over i in [0, count) of term(i), in float64 and in an order fixed by the pool's size.
template <class Sum = double, class Term>
Sum parallel_sum(ThreadPool& pool, int64 count, Term term) {
  std::vector<Sum> parts(static_cast<std::size_t>(pool.size()));
  pool.run([&](int worker) {
    const Range range = share(count, pool.size(), worker);
    Sum sum{};
    for (int64 i = range.begin; i < range.end; ++i) sum += term(i);
    parts[static_cast<std::size_t>(worker)] = sum;
  });
  Sum total{};
  for (const Sum& part : parts) total += part;
  return total;
}

// Adds rows 1 .. size-1 of a (size x stride) array up into row 0, in their order.
inline void add_up_rows(double* rows, int64 stride, ThreadPool& pool) {
  pool.run([&](int worker) {
    const Range range = share(stride, pool.size(), worker);
    for (int k = 1; k < pool.size(); ++k) {
      for (int64 j = range.begin; j < range.end; ++j) rows[j] += rows[k * stride + j];
    }
  });
}

// beta_i in float64 from the stored state.
template <class Loss, class Real>
double beta_of(Loss loss, const DualState<Real>& state, int64 i) {
  return static_cast<double>(state.weight_of(i)) *
         loss.dual(static_cast<double>(state.duals[i]), static_cast<double>(state.labels[i]));
}

// Sums of the positive and of the negative beta_i.
struct DualMass {
  double positive;
  double negative;
};

template <class Loss, class Real>
DualMass dual_mass(Loss loss, const DualState<Real>& state, int64 n_rows, ThreadPool& pool) {
  return {
      parallel_sum(pool, n_rows, [&](int64 i) { return maximum(0.0, beta_of(loss, state, i)); }),
      parallel_sum(pool, n_rows, [&](int64 i) { return minimum(0.0, beta_of(loss, state, i)); })};
}

// The factors that make the dual feasible: beta'_i = beta_i * (beta_i > 0 ? positive : negative).
// Zero lies in every dual domain, so scaling towards it stays inside.
struct DualScales {
  double positive;
  double negative;
};

// One read of the matrix. Fills margins_i = x_i.w + o_i (+ the penalised intercept) and one adjoint
// X^T beta' per worker, of n_cols + 1 numbers, the last being sum_i beta'_i; adds the adjoints up
// into the first. Returns the dual's loss terms -sum_i (c_i l*(-beta'_i / c_i) + o_i beta'_i): what
// is the conjugate of a loss of z + o_i has the second addend.
template <class Loss, class View>
double exact_sweep(Loss loss, const View& view, const DualState<typename View::Real>& state,
                   DualScales scales, double* margins, double* adjoints, ThreadPool& pool,
                   Interrupt& interrupt) {
  const int64 stride = view.n_cols + 1;
  const double bias = state.intercept.tau * static_cast<double>(state.shared[view.n_cols]);
  std::vector<double> parts(static_cast<std::size_t>(pool.size()));
  pool.run([&](int worker) {
    double* const mine = adjoints + worker * stride;
    for (int64 j = 0; j < stride; ++j) mine[j] = 0;
    double terms = 0;
    for_each_row(view, share(view.n_rows, pool.size(), worker), interrupt,
                 [&](int64 i, const auto& row) {
                   margins[i] = row_dot_wide(row, state.shared) + bias + state.offset_of(i);
                   const double c = static_cast<double>(state.weight_of(i));
                   if (c == 0) return;
                   const double plain = beta_of(loss, state, i);
                   const double beta = plain * (plain > 0 ? scales.positive : scales.negative);
                   terms -= c * loss.conjugate(-beta / c, static_cast<double>(state.labels[i]));
                   terms -= beta * state.offset_of(i);
                   row_add_wide(row, beta, mine);
                   mine[view.n_cols] += beta;
                 });
    parts[static_cast<std::size_t>(worker)] = terms;
  });
  add_up_rows(adjoints, stride, pool);
  double total = 0;
  for (double terms : parts) total += terms;
  return total;
}

// sum_i c_i l(margins_i + shift, y_i).
template <class Loss, class Real>
double loss_value(Loss loss, const DualState<Real>& state, const double* margins, double shift,
                  int64 n_rows, ThreadPool& pool) {
  return parallel_sum(pool, n_rows, [&](int64 i) {
    const double c = static_cast<double>(state.weight_of(i));
    const double y = static_cast<double>(state.labels[i]);
    return c == 0 ? 0.0 : c * loss.value(margins[i] + shift, y);
  });
}

// The first two derivatives of loss_value in the shift.
struct Slope {
  double slope = 0;
  double curvature = 0;
  Slope& operator+=(const Slope& other) {
    slope += other.slope;
    curvature += other.curvature;
    return *this;
  }
};

template <class Loss, class Real>
Slope loss_slope(Loss loss, const DualState<Real>& state, const double* margins, double shift,
                 int64 n_rows, ThreadPool& pool) {
  return parallel_sum<Slope>(pool, n_rows, [&](int64 i) {
    const double c = static_cast<double>(state.weight_of(i));
    const double y = static_cast<double>(state.labels[i]), z = margins[i] + shift;
    return c == 0 ? Slope{} : Slope{c * loss.gradient(z, y), c * loss.curvature(z, y)};
  });
}

// The penalty of the dual method.
inline constexpr ElasticNet<double> kUnitPenalty{0.0, 1.0, false};

// R(w) and R*(v), in float64.
template <class Real>
double penalty_value(const Real* w, int64 n, ThreadPool& pool) {
  return parallel_sum(pool, n,
                      [&](int64 j) { return kUnitPenalty.value(static_cast<double>(w[j])); });
}

template <class Real>
double penalty_conjugate(const Real* v, int64 n, ThreadPool& pool) {
  return parallel_sum(pool, n,
                      [&](int64 j) { return kUnitPenalty.conjugate(static_cast<double>(v[j])); });
}

// out_i = x_i.coef + intercept, in float64.
template <class View>
void margins_of(const View& view, const typename View::Real* coef, double intercept, double* out,
                ThreadPool& pool, Interrupt& interrupt) {
  pool.run([&](int worker) {
    for_each_row(view, share(view.n_rows, pool.size(), worker), interrupt,
                 [&](int64 i, const auto& row) { out[i] = row_dot_wide(row, coef) + intercept; });
  });
}

}  // namespace snapml::native
