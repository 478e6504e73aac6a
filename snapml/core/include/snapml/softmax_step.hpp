// The coordinate step of the multinomial loss: the dual variables of one row's K classes at once.
//
// They are beta_j = c ([j = y] - p_j) with p on the simplex. With the row's margins z at the
// present shared vectors and the stiffness k = c ||x||^2, the dual objective over c changes with p
// by
//
//     H(p) - H(q) + (p - q).z - k/2 ||p - q||^2,    H(p) = -sum_j p_j log p_j,  q the present p,
//
// which is greatest where log p_j + k p_j = z_j + k q_j - lambda and sum_j p_j = 1
// (docs/algorithms.md, section 1.7). Newton's method finds the K logarithms and lambda together.
#pragma once

#include "snapml/math.hpp"

namespace snapml {

// Rooms for K numbers each.
template <class Real>
struct SoftmaxStepRooms {
  Real* before;  // q
  Real* p;
  Real* log_p;
};

// Replaces log(softmax(z)) - share or the present logarithm of p, whichever is more, by the roots'
// logarithms; not normalised.
template <class Real>
SNAPML_HD void solve_softmax_step(const Real* z, int n_classes, Real stiffness,
                                  const SoftmaxStepRooms<Real>& rooms) {
  constexpr int kMostSteps = 30;
  constexpr Real kEnough = machine_epsilon<Real>() * Real(1 << 22);
  Real *const s = rooms.log_p, *const p = rooms.p;
  for (int step = 0; step < kMostSteps; ++step) {
    Real sum = 0, slopes = 0, excess = 0;
    for (int j = 0; j < n_classes; ++j) {
      p[j] = exp_nonpositive(s[j]);
      const Real slope = p[j] / (Real(1) + stiffness * p[j]);
      sum += p[j];
      slopes += slope;
      excess += slope * (z[j] - s[j] + stiffness * (rooms.before[j] - p[j]));
    }
    const Real lambda = (excess - (Real(1) - sum)) / slopes;
    Real worst = scalar::fabs(Real(1) - sum);
    for (int j = 0; j < n_classes; ++j) {
      const Real residual = z[j] - s[j] + stiffness * (rooms.before[j] - p[j]) - lambda;
      const Real move = residual / (Real(1) + stiffness * p[j]);
      worst = maximum(worst, scalar::fabs(move) * p[j]);
      s[j] = minimum(s[j] + move, Real(0));  // no probability is above 1
    }
    if (!(worst > kEnough)) break;
  }
}

// Moves one row's log p to the maximum; `change` becomes the change of p, zeros where rounding is
// all that is left of it. Returns the row's duality gap, over c, before the step.
template <class Real>
SNAPML_HD Real softmax_step(const Real* z, int n_classes, Real stiffness, Real* log_p, Real* change,
                            const SoftmaxStepRooms<Real>& rooms) {
  Real top = z[0], sum = 0;
  for (int j = 1; j < n_classes; ++j) top = maximum(top, z[j]);
  for (int j = 0; j < n_classes; ++j) sum += exp_nonpositive(z[j] - top);
  const Real log_sum = top + scalar::log(sum);
  Real gap = log_sum;
  for (int j = 0; j < n_classes; ++j) {
    rooms.before[j] = exp_vanishing(log_p[j]);
    gap += rooms.before[j] * (log_p[j] - z[j]);
  }
  // Close to the roots: a short row's p is the softmax of its margins, a long one's stays.
  const Real share = scalar::log1p(stiffness), stays = scalar::log(stiffness) - share;
  for (int j = 0; j < n_classes; ++j) {
    rooms.log_p[j] = minimum(maximum(z[j] - log_sum - share, log_p[j] + stays), Real(0));
  }
  solve_softmax_step(z, n_classes, stiffness, rooms);
  sum = 0;
  for (int j = 0; j < n_classes; ++j) sum += exp_nonpositive(rooms.log_p[j]);
  const Real log_total = scalar::log(sum);
  Real gained = 0;
  for (int j = 0; j < n_classes; ++j) {
    rooms.log_p[j] -= log_total;
    const Real p = exp_vanishing(rooms.log_p[j]), q = rooms.before[j];
    change[j] = p - q;
    gained +=
        q * log_p[j] - p * rooms.log_p[j] + change[j] * (z[j] - Real(0.5) * stiffness * change[j]);
  }
  const bool is_better = gained > Real(0);
  for (int j = 0; j < n_classes; ++j) {
    change[j] = is_better ? change[j] : Real(0);
    log_p[j] = is_better ? rooms.log_p[j] : log_p[j];
  }
  return gap;
}

}  // namespace snapml
