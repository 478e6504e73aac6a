// The multinomial loss l(z, k) = log(sum_j exp(z_j)) - z_k of K margins and a class k.
//
// Works on kLanes rows side by side, z[j * kLanes + row]: loops over the rows become vector
// instructions. Its slope in z_j is p_j - [j = k] with p = softmax(z), its curvature
// diag(p) - p p^T.
#pragma once

#include "snapml/math.hpp"
#include "snapml/traits.hpp"

namespace snapml {

template <class T, int kLanes>
struct Softmax {
  using Real = T;

  static SNAPML_HD constexpr LossTraits traits() {
    LossTraits traits;
    traits.labels = Labels::kClass;
    traits.link = Link::kLogit;
    traits.curvature_bound = 0.5;
    traits.self_concordance = 1.0;
    return traits;
  }

  // Replaces the margins by the probabilities p and returns log(sum_j exp(z_j)) of every row.
  static SNAPML_HD void probabilities(Real* z, int n_classes, Real* log_sum) {
    Real top[kLanes], sum[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      top[i] = z[i];
      sum[i] = Real(0);
    }
    for (int j = 1; j < n_classes; ++j) {
      for (int i = 0; i < kLanes; ++i) top[i] = maximum(top[i], z[j * kLanes + i]);
    }
    for (int j = 0; j < n_classes; ++j) {
      for (int i = 0; i < kLanes; ++i) {
        z[j * kLanes + i] = exp_nonpositive(z[j * kLanes + i] - top[i]);
        sum[i] += z[j * kLanes + i];
      }
    }
    for (int i = 0; i < kLanes; ++i) {
      log_sum[i] = top[i] + scalar::log(sum[i]);
      sum[i] = Real(1) / sum[i];
    }
    for (int j = 0; j < n_classes; ++j) {
      for (int i = 0; i < kLanes; ++i) z[j * kLanes + i] *= sum[i];
    }
  }

  // Replaces directions u by the curvature's products p_j (u_j - p.u).
  static SNAPML_HD void curvature_product(const Real* p, int n_classes, Real* u) {
    Real mean[kLanes] = {};
    for (int j = 0; j < n_classes; ++j) {
      for (int i = 0; i < kLanes; ++i) mean[i] += p[j * kLanes + i] * u[j * kLanes + i];
    }
    for (int j = 0; j < n_classes; ++j) {
      for (int i = 0; i < kLanes; ++i) {
        u[j * kLanes + i] = p[j * kLanes + i] * (u[j * kLanes + i] - mean[i]);
      }
    }
  }

  // The same of rows with a weight c, of which q = c p is kept: q_j (u_j - q.u / c), where c is
  // the sum of q. A weight of 0 leaves zeros.
  static SNAPML_HD void weighted_curvature_product(const Real* q, int n_classes, Real* u) {
    Real total[kLanes] = {}, mean[kLanes] = {};
    for (int j = 0; j < n_classes; ++j) {
      for (int i = 0; i < kLanes; ++i) {
        total[i] += q[j * kLanes + i];
        mean[i] += q[j * kLanes + i] * u[j * kLanes + i];
      }
    }
    // Divides in every lane: GCC 12 gave wrong sums where lanes of weight zero were left out.
    for (int i = 0; i < kLanes; ++i) mean[i] /= total[i] > Real(0) ? total[i] : Real(1);
    for (int j = 0; j < n_classes; ++j) {
      for (int i = 0; i < kLanes; ++i) {
        u[j * kLanes + i] = q[j * kLanes + i] * (u[j * kLanes + i] - mean[i]);
      }
    }
  }

  // l*(u) = sum_j q_j log q_j with q = u + e_k on the simplex, one entry of q at a time; +inf below
  // 0.
  static SNAPML_HD Real conjugate_entry(Real q) {
    return q < Real(0) ? infinity<Real>() : x_log_x(q);
  }
};

}  // namespace snapml
