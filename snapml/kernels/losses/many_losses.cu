// The losses of many models at margins (n_rows x n_models).
//
// A lane takes a model, its team a row; a block takes a panel of models and rows with the stride of
// the grid's teams. Models share columns of the tables of labels and weights. The losses are left
// in `parts`, n_models numbers for each block of the first dimension.
#include "device/types.cuh"
#include "losses/loss.cuh"

namespace snapml::kernels {

using Loss = SNAPML_LOSS<double>;

constexpr int kPanel = 16;

// At margins + steps * moves, or at the margins where `moves` is null. Slopes and curvatures, each
// times its weight, are filled in where not null; a row without weight takes no part.
extern "C" __global__ void many_losses(const Real* __restrict__ labels, int64 n_label_columns,
                                       const Real* __restrict__ weights, int64 n_weight_columns,
                                       const int32* __restrict__ label_columns,
                                       const int32* __restrict__ weight_columns,
                                       const Real* __restrict__ factors, int64 n_rows,
                                       int64 n_models, const Real* __restrict__ margins,
                                       const Real* __restrict__ moves,
                                       const Real* __restrict__ steps, Real* __restrict__ slopes,
                                       Real* __restrict__ curvatures, double* __restrict__ parts) {
  extern __shared__ double sums[];
  const int lane = static_cast<int>(threadIdx.x) % kPanel;
  const int team = static_cast<int>(threadIdx.x) / kPanel;
  const int n_teams = static_cast<int>(blockDim.x) / kPanel;
  const int64 model = static_cast<int64>(blockIdx.y) * kPanel + lane;
  const double factor = static_cast<double>(factors[model]);
  const double step = moves == nullptr ? 0.0 : static_cast<double>(steps[model]);
  const Loss loss = the_loss<Loss>();
  double sum = 0;
  for (int64 i = static_cast<int64>(blockIdx.x) * n_teams + team; i < n_rows;
       i += static_cast<int64>(gridDim.x) * n_teams) {
    const int64 at = i * n_models + model;
    const double y = static_cast<double>(labels[i * n_label_columns + label_columns[model]]);
    const double c =
        factor * static_cast<double>(weights[i * n_weight_columns + weight_columns[model]]);
    double z = static_cast<double>(margins[at]);
    if (moves != nullptr) z += step * static_cast<double>(moves[at]);
    const Tangent<double> tangent = loss.tangent(z, y);
    sum += c == 0 ? 0.0 : c * tangent.value;
    if (slopes != nullptr) slopes[at] = static_cast<Real>(c == 0 ? 0.0 : c * tangent.gradient);
    if (curvatures != nullptr) {
      curvatures[at] = static_cast<Real>(c == 0 ? 0.0 : c * loss.curvature(z, y));
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (team != 0) return;
  double total = 0;
  for (int other = 0; other < n_teams; ++other) total += sums[other * kPanel + lane];
  parts[static_cast<int64>(blockIdx.x) * n_models + model] = total;
}

}  // namespace snapml::kernels
