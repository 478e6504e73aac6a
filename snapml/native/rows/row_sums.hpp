// Sums over rows that primal methods need: derivatives of the loss at given margins, and products
// of the matrix with float64 vectors from either side, one read of the matrix each.
#pragma once

#include <algorithm>
#include <vector>

#include "dual/objective.hpp"
#include "rows/row_operations.hpp"
#include "snapml/views.hpp"
#include "threads/clones.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

// Labels and weights of the rows.
template <class Real>
struct RowLabels {
  const Real* labels;
  const Real* row_weights;  // null where all are `weight`
  double weight;

  double label(int64 i) const { return static_cast<double>(labels[i]); }
  double weight_of(int64 i) const {
    return row_weights == nullptr ? weight : static_cast<double>(row_weights[i]);
  }
};

// The loss and its derivatives, summed over the rows.
struct LossSums {
  double value = 0, slope = 0, curvature = 0;
};

// As many rows as formulas are evaluated of at a time: a compiler turns these loops into vector
// instructions.
inline constexpr int kFormulaRows = 64;

// Labels and weights of some rows; those beyond the last have weight zero.
struct FormulaRows {
  double y[kFormulaRows], c[kFormulaRows];

  template <class Real>
  FormulaRows(const RowLabels<Real>& rows, int64 first, int count) {
    for (int j = 0; j < kFormulaRows; ++j) {
      y[j] = j < count ? rows.label(first + j) : 1.0;
      c[j] = j < count ? rows.weight_of(first + j) : 0.0;
    }
  }
};

// Sums of several numbers of each row, lane by lane.
template <int n>
struct FormulaSums {
  double lanes[n][kFormulaRows] = {};

  double sum(int k) const {
    double total = 0;
    for (int j = 0; j < kFormulaRows; ++j) total += lanes[k][j];
    return total;
  }
};

// Margins z become c l', and curvatures c l''. A row without weight takes no part, whatever its
// margin.
template <class Loss>
SNAPML_FLAT_CLONES void formula_derivatives(Loss loss, const FormulaRows& rows,
                                            double* __restrict__ z, double* __restrict__ curvatures,
                                            FormulaSums<3>* __restrict__ sums) {
  for (int j = 0; j < kFormulaRows; ++j) {
    const double c = rows.c[j];
    const Tangent<double> at = loss.tangent(z[j], rows.y[j]);
    const double curvature = loss.curvature(z[j], rows.y[j]);
    sums->lanes[0][j] += c == 0 ? 0.0 : c * at.value;
    z[j] = c == 0 ? 0.0 : c * at.gradient;
    curvatures[j] = c == 0 ? 0.0 : c * curvature;
    sums->lanes[1][j] += z[j];
    sums->lanes[2][j] += curvatures[j];
  }
}

// Adds c l*(slopes / c).
template <class Loss>
SNAPML_FLAT_CLONES void formula_conjugates(Loss loss, const FormulaRows& rows,
                                           const double* __restrict__ slopes,
                                           FormulaSums<1>* __restrict__ sums) {
  for (int j = 0; j < kFormulaRows; ++j) {
    const double c = rows.c[j];
    const double conjugate = loss.conjugate(slopes[j] / (c == 0 ? 1.0 : c), rows.y[j]);
    sums->lanes[0][j] += c == 0 ? 0.0 : c * conjugate;
  }
}

// Calls visit(first, count, sums) for all rows, some at a time; returns the workers' sums.
template <int n, class Visit>
std::vector<FormulaSums<n>> for_formula_rows(ThreadPool& pool, int64 n_rows, Visit visit) {
  std::vector<FormulaSums<n>> parts(static_cast<std::size_t>(pool.size()));
  pool.run([&](int worker) {
    const Range range = share(n_rows, pool.size(), worker);
    for (int64 first = range.begin; first < range.end; first += kFormulaRows) {
      const int64 count = minimum<int64>(kFormulaRows, range.end - first);
      visit(first, static_cast<int>(count), &parts[static_cast<std::size_t>(worker)]);
    }
  });
  return parts;
}

// The loss at margins + shift. Fills c_i l' and c_i l'' where the arrays are not null.
template <class Loss, class Real>
LossSums loss_derivatives(Loss loss, const RowLabels<Real>& rows, const double* margins,
                          double shift, double* gradients, double* curvatures, int64 n_rows,
                          ThreadPool& pool) {
  const auto parts =
      for_formula_rows<3>(pool, n_rows, [&](int64 first, int count, FormulaSums<3>* sums) {
        const FormulaRows some(rows, first, count);
        double z[kFormulaRows] = {}, bends[kFormulaRows];
        for (int j = 0; j < count; ++j) z[j] = margins[first + j] + shift;
        formula_derivatives(loss, some, z, bends, sums);
        if (gradients != nullptr) std::copy_n(z, count, gradients + first);
        if (curvatures != nullptr) std::copy_n(bends, count, curvatures + first);
      });
  LossSums total;
  for (const FormulaSums<3>& part : parts) {
    total.value += part.sum(0);
    total.slope += part.sum(1);
    total.curvature += part.sum(2);
  }
  return total;
}

// The dual's loss terms -sum_i c_i l*(-beta_i / c_i) at beta_i = -scale * gradients_i.
template <class Loss, class Real>
double dual_terms(Loss loss, const RowLabels<Real>& rows, const double* gradients, double scale,
                  int64 n_rows, ThreadPool& pool) {
  const auto parts =
      for_formula_rows<1>(pool, n_rows, [&](int64 first, int count, FormulaSums<1>* sums) {
        double slopes[kFormulaRows] = {};
        for (int j = 0; j < count; ++j) slopes[j] = scale * gradients[first + j];
        formula_conjugates(loss, FormulaRows(rows, first, count), slopes, sums);
      });
  double total = 0;
  for (const FormulaSums<1>& part : parts) total += part.sum(0);
  return -total;
}

// y += sum over four rows of scale_r * row_r: y is read and written once for all four.
template <class Real>
SNAPML_CLONES void add_four_rows(const Real* x, int64 stride, const double* scale, double* y,
                                 int64 n) {
  const Real *x0 = x, *x1 = x + stride, *x2 = x + 2 * stride, *x3 = x + 3 * stride;
  const double s0 = scale[0], s1 = scale[1], s2 = scale[2], s3 = scale[3];
  for (int64 j = 0; j < n; ++j) {
    y[j] += (s0 * static_cast<double>(x0[j]) + s1 * static_cast<double>(x1[j])) +
            (s2 * static_cast<double>(x2[j]) + s3 * static_cast<double>(x3[j]));
  }
}

// Likewise, and norms += sum of weight_r * row_r^2, sums += sum of weight_r * row_r.
template <class Real>
SNAPML_CLONES void add_row_moments(const Real* x, double weight, double* sums, double* norms,
                                   int64 n) {
  for (int64 j = 0; j < n; ++j) {
    const double entry = static_cast<double>(x[j]), weighted = weight * entry;
    sums[j] += weighted;
    norms[j] += weighted * entry;
  }
}

// out[worker] += X^T vector over the worker's rows.
template <class Real>
void add_rows(const DenseView<Real>& view, Range rows, const double* vector, double* out,
              Interrupt& interrupt) {
  if (view.col_stride != 1 && view.n_cols > 1) {
    for_each_row(view, rows, interrupt,
                 [&](int64 i, const auto& row) { row_add_wide(row, vector[i], out); });
    return;
  }
  int64 i = rows.begin;
  for (; i + 4 <= rows.end; i += 4) {
    if (i % 256 < 4) interrupt.poll();
    if (interrupt.requested()) return;
    add_four_rows(view.values + i * view.row_stride, view.row_stride, vector + i, out, view.n_cols);
  }
  for (; i < rows.end; ++i) {
    dense_axpy<double>(vector[i], view.values + i * view.row_stride, out, view.n_cols);
  }
}

template <class Real, class Index>
void add_rows(const CompressedView<Real, Index>& view, Range rows, const double* vector,
              double* out, Interrupt& interrupt) {
  for_each_row(view, rows, interrupt,
               [&](int64 i, const auto& row) { row_add_wide(row, vector[i], out); });
}

template <class Real>
bool is_by_columns(const DenseView<Real>& view) {
  return view.row_stride == 1 && view.n_rows > 1 && view.col_stride != 1;
}

template <class Real, class Index>
bool is_by_columns(const CompressedView<Real, Index>&) {
  return false;
}

// out (workers x n_cols): X^T vector ends up in the first row of it.
template <class View>
void adjoint_product(const View& view, const double* vector, double* out, ThreadPool& pool,
                     Interrupt& interrupt) {
  if constexpr (std::is_same_v<View, DenseView<typename View::Real>>) {
    if (is_by_columns(view)) {
      pool.run([&](int worker) {
        const Range columns = share(view.n_cols, pool.size(), worker);
        for (int64 j = columns.begin; j < columns.end && !interrupt.requested(); ++j) {
          interrupt.poll();
          out[j] = dense_dot<double>(view.values + j * view.col_stride, vector, view.n_rows);
        }
      });
      return;
    }
  }
  pool.run([&](int worker) {
    double* const mine = out + worker * view.n_cols;
    for (int64 j = 0; j < view.n_cols; ++j) mine[j] = 0;
    add_rows(view, share(view.n_rows, pool.size(), worker), vector, mine, interrupt);
  });
  add_up_rows(out, view.n_cols, pool);
}

// out_i += the columns' products with coef, rows of a column-major block at a time.
template <class Real>
void add_columns(const DenseView<Real>& view, Range rows, const double* coef, double* out,
                 Interrupt& interrupt) {
  constexpr int64 kRows = 2048;
  for (int64 first = rows.begin; first < rows.end; first += kRows) {
    interrupt.poll();
    if (interrupt.requested()) return;
    const int64 count = minimum(kRows, rows.end - first);
    for (int64 i = first; i < first + count; ++i) out[i] = 0;
    for (int64 j = 0; j < view.n_cols; ++j) {
      if (coef[j] == 0) continue;
      dense_axpy<double>(coef[j], view.values + first + j * view.col_stride, out + first, count);
    }
  }
}

// out = X coef, in float64.
template <class View>
void product(const View& view, const double* coef, double* out, ThreadPool& pool,
             Interrupt& interrupt) {
  pool.run([&](int worker) {
    const Range rows = share(view.n_rows, pool.size(), worker);
    if constexpr (std::is_same_v<View, DenseView<typename View::Real>>) {
      if (is_by_columns(view)) {
        add_columns(view, rows, coef, out, interrupt);
        return;
      }
    }
    for_each_row(view, rows, interrupt,
                 [&](int64 i, const auto& row) { out[i] = row_dot_wide(row, coef); });
  });
}

template <class Real>
void add_moments(const DenseRow<Real>& row, double weight, double* sums, double* norms) {
  add_row_moments(row.values, weight, sums, norms, row.n_cols);
}

template <class Real, class Index>
void add_moments(const CompressedRow<Real, Index>& row, double weight, double* sums,
                 double* norms) {
  for (int64 k = 0; k < row.n_stored; ++k) {
    const double entry = static_cast<double>(row.values == nullptr ? row.constant : row.values[k]);
    sums[row.indices[k]] += weight * entry;
    norms[row.indices[k]] += weight * entry * entry;
  }
}

// out (workers x 2 n_cols): sum_i c_i x_ij and sum_i c_i x_ij^2 end up in the first row of it.
template <class View, class Real>
void column_moments(const View& view, const RowLabels<Real>& labels, double* out, ThreadPool& pool,
                    Interrupt& interrupt) {
  const int64 stride = 2 * view.n_cols;
  if constexpr (std::is_same_v<View, DenseView<typename View::Real>>) {
    if (is_by_columns(view)) {
      pool.run([&](int worker) {
        const Range columns = share(view.n_cols, pool.size(), worker);
        for (int64 j = columns.begin; j < columns.end && !interrupt.requested(); ++j) {
          interrupt.poll();
          const auto* column = view.values + j * view.col_stride;
          double sum = 0, norm = 0;
          for (int64 i = 0; i < view.n_rows; ++i) {
            const double entry = static_cast<double>(column[i]);
            sum += labels.weight_of(i) * entry;
            norm += labels.weight_of(i) * entry * entry;
          }
          out[j] = sum;
          out[view.n_cols + j] = norm;
        }
      });
      return;
    }
  }
  pool.run([&](int worker) {
    double* const sums = out + worker * stride;
    for (int64 j = 0; j < stride; ++j) sums[j] = 0;
    for_each_row(view, share(view.n_rows, pool.size(), worker), interrupt,
                 [&](int64 i, const auto& row) {
                   add_moments(row, labels.weight_of(i), sums, sums + view.n_cols);
                 });
  });
  add_up_rows(out, stride, pool);
}

// Four rows, so that the sums are read once for all of them.
template <class Real>
SNAPML_CLONES void add_four_squares(const Real* const* rows, const double* weights, int64 n_cols,
                                    double* sums) {
  const auto square = [](Real entry) {
    return static_cast<double>(entry) * static_cast<double>(entry);
  };
  const Real *const a = rows[0], *const b = rows[1], *const c = rows[2], *const d = rows[3];
  const double wa = weights[0], wb = weights[1], wc = weights[2], wd = weights[3];
  for (int64 j = 0; j < n_cols; ++j) {
    sums[j] += (wa * square(a[j]) + wb * square(b[j])) + (wc * square(c[j]) + wd * square(d[j]));
  }
}

template <class Real>
void add_squares(const DenseView<Real>& view, Range rows, const double* weights, int64 n_outputs,
                 double* sums, Interrupt& interrupt) {
  constexpr int kRows = 4;
  constexpr int64 kColumns = 512;  // of four rows, which stay in the first-level cache
  RowReader<DenseView<Real>> reader(view);
  for_each_block(rows, interrupt, [&](Range block) {
    const int count = static_cast<int>(block.end - block.begin);
    reader.load(block.begin, count);
    for (int first = 0; first < count; first += kRows) {
      for (int64 column = 0; column < view.n_cols; column += kColumns) {
        const Real* some[kRows];
        for (int r = 0; r < kRows; ++r) {
          some[r] = reader.row(std::min(first + r, count - 1)).values + column;
        }
        const int64 n = minimum(kColumns, view.n_cols - column);
        for (int64 k = 0; k < n_outputs; ++k) {
          double own[kRows] = {};
          const double* const from = weights + k * view.n_rows + block.begin + first;
          std::copy_n(from, std::min(kRows, count - first), own);
          add_four_squares(some, own, n, sums + k * view.n_cols + column);
        }
      }
    }
  });
}

template <class Real, class Index>
void add_squares(const CompressedView<Real, Index>& view, Range rows, const double* weights,
                 int64 n_outputs, double* sums, Interrupt& interrupt) {
  for_each_row(view, rows, interrupt, [&](int64 i, const auto& row) {
    for (int64 k = 0; k < n_outputs; ++k) {
      double* const own = sums + k * view.n_cols;
      const double weight = weights[k * view.n_rows + i];
      for (int64 e = 0; e < row.n_stored; ++e) {
        const double entry =
            static_cast<double>(row.values == nullptr ? row.constant : row.values[e]);
        own[row.indices[e]] += weight * entry * entry;
      }
    }
  });
}

// Adds sum_i weights_ki x_ij^2 (weights K x n_rows) to sums (workers x K x n_cols), every worker to
// its own.
template <class View>
void weighted_squares(const View& view, const double* weights, int64 n_outputs, double* sums,
                      ThreadPool& pool, Interrupt& interrupt) {
  pool.run([&](int worker) {
    const Range rows = share(view.n_rows, pool.size(), worker);
    add_squares(view, rows, weights, n_outputs, sums + worker * n_outputs * view.n_cols, interrupt);
  });
}

}  // namespace snapml::native
