// What solvers must know of a loss, beside its formulas.
#pragma once

#include "snapml/math.hpp"

namespace snapml {

// What a label is.
enum class Labels {
  kSign,      // -1 or +1
  kReal,      // any number
  kCount,     // a whole number, or any other, from 0 on
  kPositive,  // a number above 0
  kClass,     // the number of a class
};

// What the margin predicts: its mean is the margin itself, an exponential of it, or a probability
// by the logistic, the normal or Gumbel's law.
enum class Link { kIdentity, kLog, kLogit, kProbit, kCloglog };

// What jumps somewhere: nothing, l'' or l'.
enum class Kinks { kNone, kInCurvature, kInGradient };

// The least value of every loss is 0, which the tests hold every loss to.
struct LossTraits {
  static constexpr double kNone = -1.0;

  Labels labels = Labels::kSign;
  Link link = Link::kIdentity;
  Kinks kinks = Kinks::kNone;
  int n_corners = 0;                     // l is linear between so many (corner.hpp), if any
  bool is_quadratic = false;             // l'' is one number
  bool has_quadratic_conjugate = false;  // l* is linear or quadratic where it is finite
  bool has_dual_step = false;            // there is a coordinate_step
  bool has_parameter = false;            // the struct has one member, a double
  double curvature_bound = kNone;        // largest l''
  double self_concordance = kNone;       // least M with |l'''| <= M l''
};

// A loss and its slope at one margin: what a pass over the data needs of every row.
template <class Real>
struct Tangent {
  Real value;
  Real gradient;
};

}  // namespace snapml
