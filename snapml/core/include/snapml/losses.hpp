// The losses l(z, y) of the objective P(w, b) = sum_i c_i l(x_i.w + b, y_i) + R(w).
//
// Each struct holds one loss: its traits, value, slope, curvature and conjugate, and how its dual
// variable is stored. The dual variable of row i is beta_i = c_i * dual(state_i, y_i). For a smooth
// loss the state is the "dual margin" s_i, the margin at which -l'(s_i) equals beta_i / c_i; the
// hinge has no invertible slope and stores alpha_i / c_i itself, others beta_i / c_i.
// docs/algorithms.md derives every formula. A loss with a parameter keeps it as its one member. A
// loss with `has_dual_step` has a `coordinate_step` beside it, and where its state is not linear in
// beta a `dual_between`.
#pragma once

#include "snapml/losses/complementary_log_log.hpp"
#include "snapml/losses/epsilon_insensitive.hpp"
#include "snapml/losses/hinge.hpp"
#include "snapml/losses/huber.hpp"
#include "snapml/losses/logistic.hpp"
#include "snapml/losses/negative_binomial.hpp"
#include "snapml/losses/poisson.hpp"
#include "snapml/losses/probit.hpp"
#include "snapml/losses/quantile.hpp"
#include "snapml/losses/smoothed_hinge.hpp"
#include "snapml/losses/squared.hpp"
#include "snapml/losses/squared_hinge.hpp"
#include "snapml/losses/tweedie.hpp"

// Every loss of one margin, in the order in which tests name them.
#define SNAPML_FOR_EACH_LOSS(CALL) \
  CALL(ComplementaryLogLog)        \
  CALL(EpsilonInsensitive)         \
  CALL(Hinge)                      \
  CALL(Huber)                      \
  CALL(Logistic)                   \
  CALL(NegativeBinomial)           \
  CALL(Poisson)                    \
  CALL(Probit)                     \
  CALL(Quantile)                   \
  CALL(SmoothedHinge)              \
  CALL(Squared)                    \
  CALL(SquaredEpsilonInsensitive)  \
  CALL(SquaredHinge)               \
  CALL(Tweedie)
