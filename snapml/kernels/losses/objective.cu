// Sums over rows that need states and margins but not the matrix, all in float64. They make up the
// two sides of the duality gap; solvers/certificate.py composes them.
//
// Every block leaves kSums numbers in parts[blockIdx.x]; blocks stride over the rows, so that the
// launch alone decides in which order numbers are added. Macros: SNAPML_REAL, SNAPML_LOSS.
#include "losses/loss.cuh"
#include "snapml/dual_line.hpp"
#include "snapml/penalties.hpp"
#include "sums/reduce.cuh"

namespace snapml::kernels {

using Real = SNAPML_REAL;
using Loss = SNAPML_LOSS<double>;

constexpr int kSums = 3;

// Adds term(i, sums) up over i < count.
template <class Term>
__device__ void sum_over_grid(int64 count, double* __restrict__ parts, Term term) {
  __shared__ double scratch[kWarp];
  const int64 step = static_cast<int64>(gridDim.x) * blockDim.x;
  double sums[kSums] = {};
  for (int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    term(i, sums);
  }
  for (int s = 0; s < kSums; ++s) {
    const double total = block_sum(sums[s], scratch);
    if (threadIdx.x == 0) parts[blockIdx.x * kSums + s] = total;
  }
}

inline __device__ double weight_of(const Real* row_weights, double weight, int64 i) {
  return row_weights == nullptr ? weight : static_cast<double>(row_weights[i]);
}

// The states of beta = 0.
extern "C" __global__ void start_states(const Real* __restrict__ labels, int64 n_rows,
                                        Real* __restrict__ duals) {
  const int64 step = static_cast<int64>(gridDim.x) * blockDim.x;
  for (int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; i < n_rows; i += step) {
    duals[i] = the_loss<SNAPML_LOSS<Real>>().start(labels[i]);
  }
}

__device__ __forceinline__ double offset_of(const double* offsets, int64 i) {
  return offsets == nullptr ? 0.0 : offsets[i];
}

// beta'_i = beta_i times the scale of its sign, where `beta` is not null. Sums: the dual's loss
// terms -c l*(-beta' / c) - o beta', the positive and the negative beta (not scaled).
extern "C" __global__ void dual_sums(const Real* __restrict__ labels,
                                     const Real* __restrict__ row_weights, double weight,
                                     const double* __restrict__ offsets,
                                     const Real* __restrict__ duals, int64 n_rows,
                                     double positive_scale, double negative_scale,
                                     double* __restrict__ beta, double* __restrict__ parts) {
  sum_over_grid(n_rows, parts, [&](int64 i, double* sums) {
    const double c = weight_of(row_weights, weight, i), y = static_cast<double>(labels[i]);
    const double plain = c * the_loss<Loss>().dual(static_cast<double>(duals[i]), y);
    const double scaled = plain * (plain > 0 ? positive_scale : negative_scale);
    if (beta != nullptr) beta[i] = c == 0 ? 0.0 : scaled;
    if (c == 0) return;
    sums[0] -= c * the_loss<Loss>().conjugate(-scaled / c, y);
    sums[0] -= scaled * offset_of(offsets, i);
    sums[1] += maximum(0.0, plain);
    sums[2] += minimum(0.0, plain);
  });
}

// Sums: the derivative in `step` of -c l*(-beta / c) - (o + offset) beta on the line from the kept
// states to the present ones, 0, 0.
extern "C" __global__ void line_slope(const Real* __restrict__ labels,
                                      const Real* __restrict__ row_weights, double weight,
                                      const double* __restrict__ offsets,
                                      const Real* __restrict__ kept, const Real* __restrict__ duals,
                                      double step, double offset, int64 n_rows,
                                      double* __restrict__ parts) {
  sum_over_grid(n_rows, parts, [&](int64 i, double* sums) {
    const double c = weight_of(row_weights, weight, i), y = static_cast<double>(labels[i]);
    const double first = static_cast<double>(kept[i]), last = static_cast<double>(duals[i]);
    if (c == 0 || first == last) return;
    const double change = the_loss<Loss>().dual(last, y) - the_loss<Loss>().dual(first, y);
    const double slope =
        dual_slope(the_loss<Loss>(), dual_between(the_loss<Loss>(), first, last, y, step), y);
    sums[0] += c * change * (slope - offset_of(offsets, i) - offset);
  });
}

// Moves the states to `step` on that line.
extern "C" __global__ void go_to(const Real* __restrict__ labels, const Real* __restrict__ kept,
                                 double step, int64 n_rows, Real* __restrict__ duals) {
  const int64 stride = static_cast<int64>(gridDim.x) * blockDim.x;
  for (int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; i < n_rows;
       i += stride) {
    const double y = static_cast<double>(labels[i]);
    duals[i] = static_cast<Real>(dual_between(the_loss<Loss>(), static_cast<double>(kept[i]),
                                              static_cast<double>(duals[i]), y, step));
  }
}

// Sums: c l(z + shift), and its first two derivatives in the shift, which are the rows' c l' and
// c l'': filled in where not null. `margins` null: z = 0.
extern "C" __global__ void loss_sums(const Real* __restrict__ labels,
                                     const Real* __restrict__ row_weights, double weight,
                                     const double* __restrict__ margins, double shift,
                                     double* __restrict__ gradients,
                                     double* __restrict__ curvatures, int64 n_rows,
                                     double* __restrict__ parts) {
  sum_over_grid(n_rows, parts, [&](int64 i, double* sums) {
    const double c = weight_of(row_weights, weight, i), y = static_cast<double>(labels[i]);
    const double z = (margins == nullptr ? 0.0 : margins[i]) + shift;
    const double gradient = c == 0 ? 0.0 : c * the_loss<Loss>().gradient(z, y);
    const double curvature = c == 0 ? 0.0 : c * the_loss<Loss>().curvature(z, y);
    if (gradients != nullptr) gradients[i] = gradient;
    if (curvatures != nullptr) curvatures[i] = curvature;
    sums[0] += c == 0 ? 0.0 : c * the_loss<Loss>().value(z, y);
    sums[1] += gradient;
    sums[2] += curvature;
  });
}

// Sums: the dual's loss terms -c l*(-beta / c) at beta_i = -scale * gradients_i, 0, 0.
extern "C" __global__ void gradient_terms(const Real* __restrict__ labels,
                                          const Real* __restrict__ row_weights, double weight,
                                          const double* __restrict__ gradients, double scale,
                                          int64 n_rows, double* __restrict__ parts) {
  sum_over_grid(n_rows, parts, [&](int64 i, double* sums) {
    const double c = weight_of(row_weights, weight, i), y = static_cast<double>(labels[i]);
    if (c != 0) sums[0] -= c * the_loss<Loss>().conjugate(scale * gradients[i] / c, y);
  });
}

// Sums: R(w), R*(w), 0.
extern "C" __global__ void penalty_sums(const double* __restrict__ vector, int64 n,
                                        double* __restrict__ parts) {
  const ElasticNet<double> penalty{0, 1, false};
  sum_over_grid(n, parts, [&](int64 j, double* sums) {
    sums[0] += penalty.value(vector[j]);
    sums[1] += penalty.conjugate(vector[j]);
  });
}

}  // namespace snapml::kernels
