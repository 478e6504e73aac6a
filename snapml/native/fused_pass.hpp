// One read of the matrix for everything a primal method needs at a point: margins, loss, gradient.
//
// A block of rows is multiplied with the coefficients, its losses are evaluated side by side, and
// the block, still in cache, is added up into the gradient. Sums are float64 throughout, in an
// order fixed by the number of workers.
#pragma once

#include <vector>

#include "block_products.hpp"
#include "objective.hpp"
#include "parallel.hpp"
#include "snapml/losses.hpp"
#include "snapml/softmax.hpp"

namespace snapml::native {

// The shard of a primal problem with K outputs that share the rows. Labels, weights and margins
// hold one output after the other.
template <class T>
struct PrimalTargets {
  using Real = T;
  const T* labels;       // K x n_rows; for the softmax n_rows class numbers
  const T* row_weights;  // null: every row has `weight`; else one vector, or one per output
  double weight;
  bool weights_differ;  // between outputs
  int n_outputs;
  int64 n_rows;
  double bias_column;  // value of the intercept's column, 0 without an intercept

  double weight_of(int64 i, int output) const {
    if (row_weights == nullptr) return weight;
    return static_cast<double>(row_weights[weights_differ ? output * n_rows + i : i]);
  }
};

// A number for every row of a block. Sums over blocks are kept lane by lane as well: adding up the
// lanes of every block would be a chain of dependent additions.
struct Lanes {
  double lane[kBlockRows] = {};

  double sum() const {
    double part[kBlockRows];
    for (int j = 0; j < kBlockRows; ++j) part[j] = lane[j];
    for (int width = kBlockRows / 2; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) part[j] += part[j + width];
    }
    return part[0];
  }
};

// Slopes of the losses of a block in place of the margins z; adds the values to `loss`. Rows beyond
// the block have weight zero.
template <class Loss>
SNAPML_CLONES void block_tangents(double* __restrict__ z, const double* __restrict__ y,
                                  const double* __restrict__ c, double* __restrict__ loss) {
  for (int j = 0; j < kBlockRows; ++j) {
    const Tangent<double> at = Loss::tangent(z[j], y[j]);
    loss[j] += c[j] == 0 ? 0.0 : c[j] * at.value;
    z[j] = c[j] * at.gradient;
  }
}

// Labels and weights of a block in float64, padded with rows of weight zero.
template <class Real>
SNAPML_CLONES void load_targets(const PrimalTargets<Real>& targets, int output, int64 first,
                                int count, double* __restrict__ y, double* __restrict__ c) {
  const int64 n = targets.n_rows;
  const Real* labels = targets.labels + output * n + first;
  const Real* weights =
      targets.row_weights == nullptr
          ? nullptr
          : targets.row_weights + (targets.weights_differ ? output * n : 0) + first;
  for (int j = count; j < kBlockRows; ++j) {
    y[j] = 1.0;
    c[j] = 0.0;
  }
  for (int j = 0; j < count; ++j) y[j] = static_cast<double>(labels[j]);
  if (weights == nullptr) {
    for (int j = 0; j < count; ++j) c[j] = targets.weight;
  } else {
    for (int j = 0; j < count; ++j) c[j] = static_cast<double>(weights[j]);
  }
}

// Losses of separate outputs: z (K x kBlockRows) becomes the slopes.
template <class Loss>
struct SeparateOutputs {
  template <class Real>
  static void tangents(const PrimalTargets<Real>& targets, int64 first, int count, double* z,
                       Lanes& loss) {
    double y[kBlockRows], c[kBlockRows];
    for (int k = 0; k < targets.n_outputs; ++k) {
      load_targets(targets, k, first, count, y, c);
      block_tangents<Loss>(z + k * kBlockRows, y, c, loss.lane);
    }
  }
};

SNAPML_CLONES inline void block_softmax(double* z, int n_classes, double* log_sum) {
  Softmax<double, kBlockRows>::probabilities(z, n_classes, log_sum);
}

// The softmax loss: one label for all outputs.
struct SoftmaxOutputs {
  template <class Real>
  static void tangents(const PrimalTargets<Real>& targets, int64 first, int count, double* z,
                       Lanes& loss) {
    double chosen[kBlockRows] = {}, log_sum[kBlockRows];
    for (int j = 0; j < count; ++j) {
      chosen[j] = z[static_cast<int64>(targets.labels[first + j]) * kBlockRows + j];
    }
    block_softmax(z, targets.n_outputs, log_sum);
    for (int j = 0; j < kBlockRows; ++j) {
      const double c = j < count ? targets.weight_of(first + j, 0) : 0.0;
      if (j < count) z[static_cast<int64>(targets.labels[first + j]) * kBlockRows + j] -= 1;
      for (int k = 0; k < targets.n_outputs; ++k) z[k * kBlockRows + j] *= c;
      if (c != 0) loss.lane[j] += c * (log_sum[j] - chosen[j]);
    }
  }
};

// What a pass adds up besides the gradient.
struct PassSums {
  double loss = 0;
  double stiffness = 0;  // sum_i c_i ||x_i||^2 over all outputs, 0 where it is not asked for
  PassSums& operator+=(const PassSums& other) {
    loss += other.loss;
    stiffness += other.stiffness;
    return *this;
  }
};

template <class View>
double block_stiffness(const PrimalTargets<typename View::Real>& targets,
                       const RowReader<View>& reader, int64 first, int count) {
  double sum = 0;
  for (int j = 0; j < count; ++j) {
    double weight = 0;
    for (int k = 0; k < targets.n_outputs; ++k) weight += targets.weight_of(first + j, k);
    sum += weight * row_norm_sq(reader.row(j));
  }
  return sum;
}

// Fills margins (K x n_rows) and one gradient of the loss (K x (n_cols + 1)) per worker, adds these
// up into the first, and returns the sums.
template <class Outputs, class View>
PassSums fused_pass(const View& view, const PrimalTargets<typename View::Real>& targets,
                    const double* coef, bool wants_stiffness, double* margins, double* gradients,
                    ThreadPool& pool, Interrupt& interrupt) {
  const int64 stride = view.n_cols + 1;
  const int n_outputs = targets.n_outputs;
  std::vector<PassSums> parts(static_cast<std::size_t>(pool.size()));
  pool.run([&](int worker) {
    double* const gradient = gradients + worker * n_outputs * stride;
    for (int64 j = 0; j < n_outputs * stride; ++j) gradient[j] = 0;
    std::vector<double> block(static_cast<std::size_t>(n_outputs * kBlockRows));
    RowReader<View> reader(view);
    const Range rows = share(view.n_rows, pool.size(), worker);
    PassSums sums;
    Lanes loss;
    std::vector<Lanes> bias_slopes(static_cast<std::size_t>(n_outputs));
    for (int64 first = rows.begin; first < rows.end; first += kBlockRows) {
      if (first / kBlockRows % 16 == 0) interrupt.poll(worker);
      if (interrupt.requested()) return;
      const int count = static_cast<int>(minimum<int64>(kBlockRows, rows.end - first));
      reader.load(first, count);
      for (int k = 0; k < n_outputs; ++k) {
        double* const z = block.data() + k * kBlockRows;
        const double bias = targets.bias_column * coef[k * stride + view.n_cols];
        for (int j = 0; j < kBlockRows; ++j) z[j] = bias;
        block_dots(reader, count, view.n_cols, coef + k * stride, z);
        for (int j = 0; j < count; ++j) margins[k * view.n_rows + first + j] = z[j];
      }
      Outputs::tangents(targets, first, count, block.data(), loss);
      if (wants_stiffness) sums.stiffness += block_stiffness(targets, reader, first, count);
      for (int k = 0; k < n_outputs; ++k) {
        double* const r = block.data() + k * kBlockRows;
        block_add(reader, count, view.n_cols, r, gradient + k * stride);
        Lanes& slopes = bias_slopes[static_cast<std::size_t>(k)];
        for (int j = 0; j < kBlockRows; ++j) slopes.lane[j] += r[j];
      }
    }
    sums.loss = loss.sum();
    for (int k = 0; k < n_outputs; ++k) {
      gradient[k * stride + view.n_cols] =
          targets.bias_column * bias_slopes[static_cast<std::size_t>(k)].sum();
    }
    parts[static_cast<std::size_t>(worker)] = sums;
  });
  add_up_rows(gradients, n_outputs * stride, pool);
  PassSums total;
  for (const PassSums& part : parts) total += part;
  return total;
}

// The loss and its slope in `step` on margins + step * change, without the matrix.
struct LinePoint {
  double value = 0;
  double slope = 0;
  LinePoint& operator+=(const LinePoint& other) {
    value += other.value;
    slope += other.slope;
    return *this;
  }
};

template <class Outputs, class Real>
LinePoint line_point(const PrimalTargets<Real>& targets, const double* margins, const double* trial,
                     double step, ThreadPool& pool) {
  const int64 n = targets.n_rows, blocks = (n + kBlockRows - 1) / kBlockRows;
  std::vector<LinePoint> parts(static_cast<std::size_t>(pool.size()));
  pool.run([&](int worker) {
    const Range range = share(blocks, pool.size(), worker);
    std::vector<double> z(static_cast<std::size_t>(targets.n_outputs * kBlockRows));
    LinePoint sum;
    Lanes loss;
    for (int64 b = range.begin; b < range.end; ++b) {
      const int64 first = b * kBlockRows;
      const int count = static_cast<int>(minimum<int64>(kBlockRows, n - first));
      for (int k = 0; k < targets.n_outputs; ++k) {
        for (int j = 0; j < count; ++j) {
          const int64 at = k * n + first + j;
          z[static_cast<std::size_t>(k * kBlockRows + j)] =
              margins[at] + step * (trial[at] - margins[at]);
        }
      }
      Outputs::tangents(targets, first, count, z.data(), loss);
      for (int k = 0; k < targets.n_outputs; ++k) {
        for (int j = 0; j < count; ++j) {
          const int64 at = k * n + first + j;
          sum.slope += z[static_cast<std::size_t>(k * kBlockRows + j)] * (trial[at] - margins[at]);
        }
      }
    }
    sum.value = loss.sum();
    parts[static_cast<std::size_t>(worker)] = sum;
  });
  LinePoint total;
  for (const LinePoint& part : parts) total += part;
  return total;
}

// Curvatures c_i l''(z_i) of separate outputs (K x n_rows).
template <class Loss, class Real>
void curvatures(const PrimalTargets<Real>& targets, const double* margins, double* out,
                ThreadPool& pool) {
  pool.run([&](int worker) {
    const Range range = share(targets.n_rows, pool.size(), worker);
    for (int k = 0; k < targets.n_outputs; ++k) {
      for (int64 i = range.begin; i < range.end; ++i) {
        const int64 at = k * targets.n_rows + i;
        out[at] = targets.weight_of(i, k) *
                  Loss::curvature(margins[at], static_cast<double>(targets.labels[at]));
      }
    }
  });
}

// Probabilities p of the softmax (K x n_rows), from which its curvature c_i (diag(p) - p p^T) is
// made.
template <class Real>
void softmax_probabilities(const PrimalTargets<Real>& targets, const double* margins, double* out,
                           ThreadPool& pool) {
  pool.run([&](int worker) {
    const Range range = share(targets.n_rows, pool.size(), worker);
    std::vector<double> z(static_cast<std::size_t>(targets.n_outputs));
    for (int64 i = range.begin; i < range.end; ++i) {
      double log_sum;
      for (int k = 0; k < targets.n_outputs; ++k) {
        z[static_cast<std::size_t>(k)] = margins[k * targets.n_rows + i];
      }
      Softmax<double, 1>::probabilities(z.data(), targets.n_outputs, &log_sum);
      for (int k = 0; k < targets.n_outputs; ++k) {
        out[k * targets.n_rows + i] = z[static_cast<std::size_t>(k)];
      }
    }
  });
}

}  // namespace snapml::native
