// The step of one row of dual coordinate ascent, and what an epoch adds up over its steps.
//
// Macros: SNAPML_LOSS, and those of warp_rows.cuh.
#pragma once

#include "losses/loss.cuh"
#include "sums/warp_rows.cuh"

namespace snapml::kernels {

using Loss = SNAPML_LOSS<Real>;

// What a thread adds up over the rows that it visits: with d = change of beta,
struct VisitSums {
  double gap = 0;     // the rows' gaps, each as it was visited
  double slope = 0;   // sum d (z - offset)
  double single = 0;  // sum d^2 ||x||^2

  __device__ void add_to(double* sums, int64 slot, int64 n_slots) const {
    sums[slot] += gap;
    sums[n_slots + slot] += slope;
    sums[2 * n_slots + slot] += single;
  }
};

// The rows' problem and their states. The intercept's column has the value tau and stands last in
// the shared vector.
struct Shard {
  const Real* labels;
  const Real* row_weights;  // null: every row has `weight`
  Real weight;
  const double* row_offsets;  // o_i, added to the margins; null: none
  const Real* norms_sq;       // without the intercept's column
  Real* duals;
  Real tau;
  double offset;
  Real stiffness;  // factor on c ||x||^2
  double outer;    // factor on changes of the shared vector

  __device__ Real weight_of(int64 i) const {
    return row_weights == nullptr ? weight : row_weights[i];
  }

  // Takes the step of row i of weight c from its margin (without offsets); changes its state.
  // Returns the multiple of the row to add to the shared vector.
  __device__ double take_step(int64 i, Real c, Real norm_without_tau, Real label, Real margin,
                              Real* state, VisitSums& sums) const {
    const Real norm_sq = norm_without_tau + tau * tau;
    // Far offsets may cancel each other: in float64.
    const double fixed = offset + (row_offsets == nullptr ? 0.0 : row_offsets[i]);
    const auto step = coordinate_step(the_loss<Loss>(), *state, margin + static_cast<Real>(fixed),
                                      label, stiffness * c * norm_sq);
    *state = step.state;
    const double change = static_cast<double>(c) * static_cast<double>(step.change);
    sums.gap += static_cast<double>(c) * static_cast<double>(step.gap);
    sums.slope += change * static_cast<double>(margin);
    sums.single += change * change * static_cast<double>(norm_sq);
    return outer * change;
  }
};

#define SNAPML_SHARD                                                                   \
  const Real *labels, const Real *row_weights, Real weight, const double *row_offsets, \
      const Real *norms_sq, Real *duals, Real tau, double offset, Real stiffness, double outer

}  // namespace snapml::kernels
