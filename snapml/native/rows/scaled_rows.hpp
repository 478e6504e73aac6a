// Dense rows in centred and scaled columns, times the square roots of their weights: what Hessians
// are products of.
#pragma once

#include <cmath>
#include <vector>

#include "rows/row_reader.hpp"
#include "snapml/views.hpp"
#include "threads/clones.hpp"

namespace snapml::native {

// What a column's entries become: (x - mean) * inverse.
struct ColumnScales {
  const double* means;
  const double* inverses;
};

template <class Real, class Out>
SNAPML_CLONES void scale_row(const Real* x, ColumnScales columns, double root, int64 n_cols,
                             Out* out) {
  for (int64 j = 0; j < n_cols; ++j) {
    const double centred = static_cast<double>(x[j]) - columns.means[j];
    out[j] = static_cast<Out>(centred * columns.inverses[j] * root);
  }
}

// Writes sqrt(weight) (x - mean) / scale of each row, and sqrt(weight) bias behind it, to `out`
// (n_rows x (n_cols + 1)). `weights` null: all are one.
template <class Real, class Out>
void scale_rows(const DenseView<Real>& view, const double* means, const double* scales,
                const double* weights, double bias, Out* out) {
  std::vector<double> inverses(scales, scales + view.n_cols);
  for (double& scale : inverses) scale = 1 / scale;
  const ColumnScales columns{means, inverses.data()};
  RowReader<DenseView<Real>> reader(view);
  for (int64 first = 0; first < view.n_rows; first += kBlockRows) {
    const int count = static_cast<int>(minimum<int64>(kBlockRows, view.n_rows - first));
    reader.load(first, count);
    for (int k = 0; k < count; ++k, out += view.n_cols + 1) {
      const double root = weights == nullptr ? 1.0 : std::sqrt(weights[first + k]);
      scale_row(reader.row(k).values, columns, root, view.n_cols, out);
      out[view.n_cols] = static_cast<Out>(bias * root);
    }
  }
}

}  // namespace snapml::native
