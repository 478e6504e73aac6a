// One read of the matrix for everything a primal method needs at a point: margins, loss, gradient.
//
// The losses of a block of rows are evaluated side by side.
#pragma once

#include <vector>

#include "primal/block_pass.hpp"
#include "snapml/losses.hpp"
#include "snapml/softmax.hpp"

namespace snapml::native {

// The shard of a primal problem with K outputs that share the rows. Labels, weights, offsets and
// margins hold one output after the other.
template <class T>
struct PrimalTargets {
  using Real = T;
  const T* labels;       // K x n_rows; for the softmax n_rows class numbers
  const T* row_weights;  // null: every row has `weight`; else one vector, or one per output
  double weight;
  bool weights_differ;        // between outputs
  const double* row_offsets;  // o_i, added to the margins; null: none; else as the weights
  bool offsets_differ;
  int n_outputs;
  int64 n_rows;
  double bias_column;  // value of the intercept's column, 0 without an intercept

  const double* offsets_of(int output) const {
    return row_offsets + (offsets_differ ? output * n_rows : 0);
  }
  OutputShape shape(int64 n_cols) const { return {n_outputs, n_cols, bias_column}; }
  double weight_of(int64 i, int output) const {
    if (row_weights == nullptr) return weight;
    return static_cast<double>(row_weights[weights_differ ? output * n_rows + i : i]);
  }
};

// Slopes of the losses of a block in place of the margins z; adds the values to `sums`. Rows beyond
// the block have weight zero.
template <class Loss>
SNAPML_FLAT_CLONES void block_tangents(Loss loss, double* __restrict__ z,
                                       const double* __restrict__ y, const double* __restrict__ c,
                                       double* __restrict__ sums) {
  for (int j = 0; j < kBlockRows; ++j) {
    const Tangent<double> at = loss.tangent(z[j], y[j]);
    sums[j] += c[j] == 0 ? 0.0 : c[j] * at.value;
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

// Directions u of a block's margins z times the losses' curvatures there.
template <class Loss>
SNAPML_FLAT_CLONES void block_curvatures(Loss loss, const double* __restrict__ z,
                                         const double* __restrict__ y, const double* __restrict__ c,
                                         double* __restrict__ u) {
  for (int j = 0; j < kBlockRows; ++j) u[j] *= c[j] == 0 ? 0.0 : c[j] * loss.curvature(z[j], y[j]);
}

// The losses of K outputs, a block (K x kBlockRows numbers) at a time. One call a block finds them
// at run time: what reads the rows is compiled for each layout of them, not for each loss as well.
template <class Real>
class OutputLosses {
 public:
  virtual ~OutputLosses() = default;

  // Margins z become slopes; adds the values to `sums`.
  virtual void tangents(const PrimalTargets<Real>& targets, int64 first, int count, double* z,
                        Lanes& sums) const = 0;
  // Directions u become their products with the curvatures at the margins z, which are scratch.
  virtual void curvature_products(const PrimalTargets<Real>& targets, int64 first, int count,
                                  double* z, double* u) const = 0;
};

// One loss for each output apart.
template <class Loss, class Real>
class SeparateOutputs final : public OutputLosses<Real> {
 public:
  explicit SeparateOutputs(Loss loss) : loss_(loss) {}

  void tangents(const PrimalTargets<Real>& targets, int64 first, int count, double* z,
                Lanes& sums) const override {
    double y[kBlockRows], c[kBlockRows];
    for (int k = 0; k < targets.n_outputs; ++k) {
      load_targets(targets, k, first, count, y, c);
      block_tangents(loss_, z + k * kBlockRows, y, c, sums.lane);
    }
  }
  void curvature_products(const PrimalTargets<Real>& targets, int64 first, int count, double* z,
                          double* u) const override {
    double y[kBlockRows], c[kBlockRows];
    for (int k = 0; k < targets.n_outputs; ++k) {
      load_targets(targets, k, first, count, y, c);
      block_curvatures(loss_, z + k * kBlockRows, y, c, u + k * kBlockRows);
    }
  }

 private:
  Loss loss_;
};

SNAPML_CLONES inline void block_softmax(double* z, int n_classes, double* log_sum) {
  Softmax<double, kBlockRows>::probabilities(z, n_classes, log_sum);
}

SNAPML_CLONES inline void block_softmax_curvatures(const double* p, int n_classes, double* u) {
  Softmax<double, kBlockRows>::curvature_product(p, n_classes, u);
}

// The softmax loss: one label for all outputs.
template <class Real>
class SoftmaxOutputs final : public OutputLosses<Real> {
 public:
  void tangents(const PrimalTargets<Real>& targets, int64 first, int count, double* z,
                Lanes& sums) const override {
    double chosen[kBlockRows] = {}, log_sum[kBlockRows];
    for (int j = 0; j < count; ++j) {
      chosen[j] = z[static_cast<int64>(targets.labels[first + j]) * kBlockRows + j];
    }
    block_softmax(z, targets.n_outputs, log_sum);
    for (int j = 0; j < kBlockRows; ++j) {
      const double c = j < count ? targets.weight_of(first + j, 0) : 0.0;
      if (j < count) z[static_cast<int64>(targets.labels[first + j]) * kBlockRows + j] -= 1;
      for (int k = 0; k < targets.n_outputs; ++k) z[k * kBlockRows + j] *= c;
      if (c != 0) sums.lane[j] += c * (log_sum[j] - chosen[j]);
    }
  }
  void curvature_products(const PrimalTargets<Real>& targets, int64 first, int count, double* z,
                          double* u) const override {
    double log_sum[kBlockRows];
    block_softmax(z, targets.n_outputs, log_sum);
    block_softmax_curvatures(z, targets.n_outputs, u);
    for (int j = 0; j < kBlockRows; ++j) {
      const double c = j < count ? targets.weight_of(first + j, 0) : 0.0;
      for (int k = 0; k < targets.n_outputs; ++k) u[k * kBlockRows + j] *= c;
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

// What a fused pass does with the margins of a block: keeps them, and makes them slopes.
template <class View>
struct LossTangents {
  const OutputLosses<typename View::Real>* losses;
  const PrimalTargets<typename View::Real>* targets;
  bool wants_stiffness;
  double* margins;
  Lanes loss;
  double stiffness = 0;

  void operator()(const RowReader<View>& reader, int64 first, int count, double* z) {
    for (int k = 0; k < targets->n_outputs; ++k) {
      if (targets->row_offsets != nullptr) {
        const double* const offsets = targets->offsets_of(k) + first;
        for (int j = 0; j < count; ++j) z[k * kBlockRows + j] += offsets[j];
      }
      double* const kept = margins + k * targets->n_rows + first;
      for (int j = 0; j < count; ++j) kept[j] = z[k * kBlockRows + j];
    }
    losses->tangents(*targets, first, count, z, loss);
    if (wants_stiffness) stiffness += block_stiffness(*targets, reader, first, count);
  }
};

// Fills margins (K x n_rows) and the gradient of the loss (K x (n_cols + 1) per worker, as
// block_pass leaves them), and returns the sums.
template <class View>
PassSums fused_pass(const OutputLosses<typename View::Real>& losses, const View& view,
                    const PrimalTargets<typename View::Real>& targets, const double* coef,
                    bool wants_stiffness, double* margins, double* gradients, bool is_part,
                    ThreadPool& pool, Interrupt& interrupt) {
  using Transform = LossTangents<View>;
  std::vector<Transform> parts(static_cast<std::size_t>(pool.size()),
                               Transform{&losses, &targets, wants_stiffness, margins, {}});
  block_pass(view, targets.shape(view.n_cols), coef, parts, gradients, is_part, pool, interrupt);
  PassSums total;
  for (const Transform& part : parts) total += PassSums{part.loss.sum(), part.stiffness};
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

template <class Real>
LinePoint line_point(const OutputLosses<Real>& losses, const PrimalTargets<Real>& targets,
                     const double* margins, const double* trial, double step, ThreadPool& pool) {
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
      losses.tangents(targets, first, count, z.data(), loss);
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
template <class Real>
void curvatures(const OutputLosses<Real>& losses, const PrimalTargets<Real>& targets,
                const double* margins, double* out, ThreadPool& pool) {
  const auto size = static_cast<std::size_t>(targets.n_outputs * kBlockRows);
  pool.run([&](int worker) {
    const Range range = share(targets.n_rows, pool.size(), worker);
    std::vector<double> z(size), u(size);
    for (int64 first = range.begin; first < range.end; first += kBlockRows) {
      const int count = static_cast<int>(minimum<int64>(kBlockRows, range.end - first));
      for (int k = 0; k < targets.n_outputs; ++k) {
        std::copy_n(margins + k * targets.n_rows + first, count, z.data() + k * kBlockRows);
      }
      std::fill(u.begin(), u.end(), 1.0);
      losses.curvature_products(targets, first, count, z.data(), u.data());
      for (int k = 0; k < targets.n_outputs; ++k) {
        std::copy_n(u.data() + k * kBlockRows, count, out + k * targets.n_rows + first);
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
