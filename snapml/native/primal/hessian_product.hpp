// The loss's Hessian at margins known from an earlier pass, times a direction: one read.
#pragma once

#include <vector>

#include "primal/fused_pass.hpp"

namespace snapml::native {

// What the product does with a block X d: multiplies it with the losses' curvatures at the margins.
template <class View>
struct LossCurvatures {
  const OutputLosses<typename View::Real>* losses;
  const PrimalTargets<typename View::Real>* targets;
  const double* margins;
  std::vector<double> block;

  void operator()(const RowReader<View>&, int64 first, int count, double* u) {
    for (int k = 0; k < targets->n_outputs; ++k) {
      const double* const kept = margins + k * targets->n_rows + first;
      double* const z = block.data() + k * kBlockRows;
      for (int j = 0; j < count; ++j) z[j] = kept[j];
    }
    losses->curvature_products(*targets, first, count, block.data(), u);
  }
};

// The product of the Hessian at `margins` (K x n_rows) with `direction` (K x (n_cols + 1)), one per
// worker as block_pass leaves them.
template <class View>
void hessian_product(const OutputLosses<typename View::Real>& losses, const View& view,
                     const PrimalTargets<typename View::Real>& targets, const double* margins,
                     const double* direction, double* products, bool is_part, ThreadPool& pool,
                     Interrupt& interrupt) {
  using Transform = LossCurvatures<View>;
  const std::vector<double> block(static_cast<std::size_t>(targets.n_outputs * kBlockRows));
  std::vector<Transform> parts(static_cast<std::size_t>(pool.size()),
                               Transform{&losses, &targets, margins, block});
  block_pass(view, targets.shape(view.n_cols), direction, parts, products, is_part, pool,
             interrupt);
}

}  // namespace snapml::native
