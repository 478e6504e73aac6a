// Losses of the outputs of one row: margins become slopes.
#pragma once

#include "device/types.cuh"
#include "losses/loss.cuh"
#include "snapml/softmax.hpp"

namespace snapml::kernels {

// Labels and weights of K outputs that share the rows; one output after the other.
struct Targets {
  const Real* labels;       // K x n_rows; for the softmax n_rows class numbers
  const Real* row_weights;  // null: every row has `weight`
  int64 weight_stride;      // from one output to the next; 0 where they share the weights
  double weight;
  int64 n_rows;
  int n_outputs;

  __device__ __forceinline__ double weight_of(int64 i, int output) const {
    if (row_weights == nullptr) return weight;
    return static_cast<double>(row_weights[output * weight_stride + i]);
  }
};

// One loss an output. The margins z (K numbers) become c_i l'; returns the sum of c_i l.
template <template <class> class Loss>
struct SeparateOutputs {
  static __device__ __forceinline__ int n_labels(int n_outputs) { return n_outputs; }  // of a row
  static __device__ __forceinline__ double slopes(const Targets& targets, int64 i, double* z) {
    double loss = 0;
#pragma unroll 1
    for (int k = 0; k < targets.n_outputs; ++k) {
      const double y = static_cast<double>(targets.labels[k * targets.n_rows + i]);
      const double c = targets.weight_of(i, k);
      const Tangent<double> at = the_loss<Loss<double>>().tangent(z[k], y);
      z[k] = c * at.gradient;
      loss += c == 0 ? 0.0 : c * at.value;  // a row without weight takes no part
    }
    return loss;
  }
  // The margins become c_i l''.
  static __device__ __forceinline__ void curvatures(const Targets& targets, int64 i, double* z) {
    for (int k = 0; k < targets.n_outputs; ++k) {
      const double y = static_cast<double>(targets.labels[k * targets.n_rows + i]);
      z[k] = targets.weight_of(i, k) * the_loss<Loss<double>>().curvature(z[k], y);
    }
  }
  // Directions u in the margins become c_i l'' u; the margins are lost.
  static __device__ __forceinline__ void curvature_products(const Targets& targets, int64 i,
                                                            double* z, double* u) {
    curvatures(targets, i, z);
    for (int k = 0; k < targets.n_outputs; ++k) u[k] *= z[k];
  }
};

// One loss for all outputs; the label is a class number.
struct SoftmaxOutputs {
  static __device__ __forceinline__ int n_labels(int) { return 1; }
  static __device__ __forceinline__ double slopes(const Targets& targets, int64 i, double* z) {
    const int chosen = static_cast<int>(targets.labels[i]);
    const double c = targets.weight_of(i, 0), at_chosen = z[chosen];
    double log_sum;
    Softmax<double, 1>::probabilities(z, targets.n_outputs, &log_sum);
    z[chosen] -= 1;
    for (int k = 0; k < targets.n_outputs; ++k) z[k] *= c;
    return c == 0 ? 0.0 : c * (log_sum - at_chosen);
  }
  // The margins become the probabilities p, of which the curvature c_i (diag(p) - p p^T) is made.
  static __device__ __forceinline__ void curvatures(const Targets& targets, int64, double* z) {
    double log_sum;
    Softmax<double, 1>::probabilities(z, targets.n_outputs, &log_sum);
  }
  static __device__ __forceinline__ void curvature_products(const Targets& targets, int64 i,
                                                            double* z, double* u) {
    curvatures(targets, i, z);
    Softmax<double, 1>::curvature_product(z, targets.n_outputs, u);
    const double c = targets.weight_of(i, 0);
    for (int k = 0; k < targets.n_outputs; ++k) u[k] *= c;
  }
};

using Outputs = SNAPML_OUTPUTS;

}  // namespace snapml::kernels
