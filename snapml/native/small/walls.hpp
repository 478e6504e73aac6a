// Terms max(low (z - at), high (z - at)) whose slopes an interior point method keeps strictly
// between their walls: the loops over rows of its steps. solvers/interior_point/barrier.py has the
// same for many rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "small/design.hpp"

namespace snapml::native::small {

// Of every term, up to a multiple of eight: a term without width counts for nothing. The slope is
// low + width * down = high - width * up, and z - at is over - under, less what is still wrong.
struct Walls {
  explicit Walls(int64 size) : n(size) {
    const auto count = static_cast<std::size_t>(size);
    for (std::vector<double>* each : {&at, &low, &width, &over, &under, &up, &down, &per_up,
                                      &per_down, &soft, &error, &up_aim, &down_aim, &shift}) {
      each->assign(count, 0.0);
    }
  }

  int64 n;
  double share = 1;  // what slack times room is to be here, beside what it is in other walls
  std::vector<double> at, low, width;
  std::vector<double> over, under, up, down;
  std::vector<double> per_up, per_down;  // 1 / up, 1 / down
  std::vector<double> soft;              // by how much `down` moves when z does
  std::vector<double> error;             // at - z + over - under
  std::vector<double> up_aim, down_aim;  // what the products are to change by, over up and down
  std::vector<double> shift;             // the change of z for which the slope would stay
};

// Changes of slacks and slopes; `up` changes by the opposite of `down`.
struct WallStep {
  explicit WallStep(int64 size)
      : over(static_cast<std::size_t>(size)), under(over.size()), down(over.size()) {}

  std::vector<double> over, under, down;
};

// Puts slopes and slacks where all products over * up and under * down are equal.
template <class Real>
SNAPML_CLONES void centre_walls(const Real* __restrict z, const Real* __restrict at, Real product,
                                int64 n, Real* __restrict over, Real* __restrict under,
                                Real* __restrict up, Real* __restrict down) {
  for (int64 i = 0; i < n; ++i) {
    const Real residual = z[i] - at[i];
    const Real root = std::sqrt(product * product + residual * residual / 4);
    const Real moved = residual / 4 / (product + root);
    // The smaller room without cancellation: up * down is product / 2 / (product + root).
    const Real larger = Real(0.5) + std::fabs(moved);
    const Real smaller = product / 2 / (product + root) / larger;
    up[i] = moved > 0 ? smaller : larger, down[i] = moved > 0 ? larger : smaller;
    over[i] = product / up[i], under[i] = product / down[i];
  }
}

// Fills `soft` and the reciprocals; k_i becomes the softness of row i, width included.
template <class Real>
SNAPML_CLONES void soften_walls(const Real* __restrict over, const Real* __restrict under,
                                const Real* __restrict up, const Real* __restrict down,
                                const Real* __restrict width, int64 n, Real* __restrict per_up,
                                Real* __restrict per_down, Real* __restrict soft,
                                Real* __restrict k) {
  for (int64 i = 0; i < n; ++i) {
    per_up[i] = 1 / up[i], per_down[i] = 1 / down[i];
    soft[i] = 1 / (over[i] * per_up[i] + under[i] * per_down[i]);
    k[i] += width[i] * soft[i];
  }
}

// Aims at equal products; with `corrects`, for a step in the step arrays too. s_i gets what the
// shift would move the slopes by.
template <class Real>
SNAPML_CLONES void aim_walls(const Real* __restrict over, const Real* __restrict under,
                             const Real* __restrict up, const Real* __restrict down,
                             const Real* __restrict per_up, const Real* __restrict per_down,
                             const Real* __restrict soft, const Real* __restrict width,
                             const Real* __restrict error, const Real* __restrict over_step,
                             const Real* __restrict under_step, const Real* __restrict down_step,
                             Real product, Real corrects, int64 n, Real* __restrict up_aim,
                             Real* __restrict down_aim, Real* __restrict shift,
                             Real* __restrict s) {
  for (int64 i = 0; i < n; ++i) {
    const Real above = product - over[i] * up[i] + corrects * over_step[i] * down_step[i];
    const Real below = product - under[i] * down[i] - corrects * under_step[i] * down_step[i];
    up_aim[i] = above * per_up[i], down_aim[i] = below * per_down[i];
    shift[i] = error[i] + up_aim[i] - down_aim[i];
    s[i] += width[i] * soft[i] * shift[i];
  }
}

// The step of slopes and slacks when z moves by dz; the lanes of `slacks` and `rooms` become the
// largest shares of themselves that a step takes from slacks and rooms.
template <class Real>
SNAPML_CLONES void step_walls(const Real* __restrict over, const Real* __restrict under,
                              const Real* __restrict per_up, const Real* __restrict per_down,
                              const Real* __restrict soft, const Real* __restrict width,
                              const Real* __restrict up_aim, const Real* __restrict down_aim,
                              const Real* __restrict shift, const Real* __restrict dz, int64 n,
                              Real* __restrict over_step, Real* __restrict under_step,
                              Real* __restrict down_step, Real* __restrict slacks,
                              Real* __restrict rooms) {
  for (int64 i = 0; i < n; i += kEight) {
    for (int r = 0; r < kEight; ++r) {
      const int64 e = i + r;
      const Real moved = soft[e] * (dz[e] - shift[e]);
      const Real above = up_aim[e] + over[e] * moved * per_up[e];
      const Real below = down_aim[e] - under[e] * moved * per_down[e];
      over_step[e] = above, under_step[e] = below, down_step[e] = moved;
      const Real first = -above / over[e], second = -below / under[e];
      const Real slack = first > second ? first : second;
      const Real third = moved * per_up[e], fourth = -moved * per_down[e];
      const Real room = third > fourth ? third : fourth;
      const bool counts = width[e] > 0;
      const Real own_slack = counts ? slack : 0, own_room = counts ? room : 0;
      slacks[r] = own_slack > slacks[r] ? own_slack : slacks[r];
      rooms[r] = own_room > rooms[r] ? own_room : rooms[r];
    }
  }
}

// Adds the complementarity after a step of these lengths to the lanes of `sum`.
template <class Real>
SNAPML_CLONES void moved_products(const Real* __restrict over, const Real* __restrict under,
                                  const Real* __restrict up, const Real* __restrict down,
                                  const Real* __restrict width, const Real* __restrict over_step,
                                  const Real* __restrict under_step,
                                  const Real* __restrict down_step, Real primal, Real dual, int64 n,
                                  Real* __restrict sum) {
  for (int64 i = 0; i < n; i += kEight) {
    for (int r = 0; r < kEight; ++r) {
      const int64 e = i + r;
      const Real moved = dual * down_step[e];
      sum[r] += width[e] * ((over[e] + primal * over_step[e]) * (up[e] - moved) +
                            (under[e] + primal * under_step[e]) * (down[e] + moved));
    }
  }
}

template <class Real>
SNAPML_CLONES void move_walls(const Real* __restrict over_step, const Real* __restrict under_step,
                              const Real* __restrict down_step, Real primal, Real dual, int64 n,
                              Real* __restrict over, Real* __restrict under, Real* __restrict up,
                              Real* __restrict down) {
  for (int64 i = 0; i < n; ++i) {
    const Real moved = dual * down_step[i];
    over[i] += primal * over_step[i], under[i] += primal * under_step[i];
    up[i] -= moved, down[i] += moved;
  }
}

// What a look at the walls has found, eight sums of each.
struct WallSums {
  double complementarity[kEight] = {}, misfit[kEight] = {}, value[kEight] = {}, dual[kEight] = {};
};

// The slope of every term from its nearer wall is added to v; `error` is what z misses.
template <class Real>
SNAPML_CLONES void see_walls(const Real* __restrict z, const Real* __restrict at,
                             const Real* __restrict low, const Real* __restrict width,
                             const Real* __restrict over, const Real* __restrict under,
                             const Real* __restrict up, const Real* __restrict down, int64 n,
                             Real* __restrict error, Real* __restrict v,
                             Real* __restrict complementarity, Real* __restrict misfit,
                             Real* __restrict value, Real* __restrict dual) {
  for (int64 i = 0; i < n; i += kEight) {
    for (int r = 0; r < kEight; ++r) {
      const int64 e = i + r;
      const Real residual = z[e] - at[e], high = low[e] + width[e];
      const Real slope = up[e] < down[e] ? high - width[e] * up[e] : low[e] + width[e] * down[e];
      const Real wrong = over[e] - under[e] - residual;
      error[e] = wrong;
      v[e] += slope;
      complementarity[r] += width[e] * (over[e] * up[e] + under[e] * down[e]);
      misfit[r] += std::fabs(wrong) * std::fabs(slope);
      const Real first = low[e] * residual, second = high * residual;
      value[r] += first > second ? first : second;
      dual[r] -= slope * at[e];
    }
  }
}

}  // namespace snapml::native::small
