// The losses l(z, y) of the objective P(w, b) = sum_i c_i l(x_i.w + b, y_i) + R(w).
//
// Each struct holds one loss: value, slope, curvature and conjugate, and how its dual variable is
// stored. The dual variable of row i is beta_i = c_i * dual(state_i, y_i). For a smooth loss the
// state is the "dual margin" s_i, the margin at which -l'(s_i) equals beta_i / c_i; the hinge has
// no invertible slope and stores alpha_i / c_i itself. docs/algorithms.md derives every formula.
//
// Labels y are -1 or +1 for the classification losses, any real number for Squared; those of
// OffsetLogistic and SmoothedHinge carry a number of the row beside the class.
#pragma once

#include "snapml/math.hpp"

namespace snapml {

// A loss and its slope at one margin: what a pass over the data needs of every row.
template <class Real>
struct Tangent {
  Real value;
  Real gradient;
};

// l = log(1 + exp(-y z)).
template <class T>
struct Logistic {
  using Real = T;

  static SNAPML_HD Real value(Real z, Real y) { return log1p_exp(-y * z); }
  static SNAPML_HD Real gradient(Real z, Real y) { return -y * sigmoid(-y * z); }
  static SNAPML_HD Real curvature(Real z, Real) {
    const Real e = exp_vanishing(-scalar::fabs(z));
    return e / ((Real(1) + e) * (Real(1) + e));
  }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) {
    const Real m = y * z;
    const Real e = exp_nonpositive(-scalar::fabs(m));
    const Real far = (m < Real(0) ? Real(1) : e) / (Real(1) + e);
    return {maximum(-m, Real(0)) + log1p_unit(e), -y * far};
  }
  // l*(u) = a log a + (1 - a) log(1 - a) with a = -u y in [0, 1], +inf outside.
  static SNAPML_HD Real conjugate(Real u, Real y) {
    const Real a = -u * y;
    if (a < Real(0) || a > Real(1)) return infinity<Real>();
    return x_log_x(a) + x_log_x(Real(1) - a);
  }
  static SNAPML_HD Real dual(Real state, Real y) { return y * sigmoid(-y * state); }
  // The state of beta = 0 to working precision; exp(-80) is a normal float32.
  static SNAPML_HD Real start(Real y) { return Real(80) * y; }
};

// l = log(1 + exp(-y (z + o))), o the offset that a row adds to its margin. One label carries both,
// as t = y exp(o), the odds that the row begins with. A state is a margin with its offset, so that
// no rounding of o lies between a step and what is stored of it.
template <class T>
struct OffsetLogistic {
  using Real = T;

  static SNAPML_HD Real sign(Real t) { return t < Real(0) ? Real(-1) : Real(1); }
  static SNAPML_HD Real offset(Real t) { return scalar::log(scalar::fabs(t)); }

  static SNAPML_HD Real value(Real z, Real t) {
    return Logistic<Real>::value(z + offset(t), sign(t));
  }
  static SNAPML_HD Real gradient(Real z, Real t) {
    return Logistic<Real>::gradient(z + offset(t), sign(t));
  }
  static SNAPML_HD Real curvature(Real z, Real t) {
    return Logistic<Real>::curvature(z + offset(t), sign(t));
  }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real t) {
    return Logistic<Real>::tangent(z + offset(t), sign(t));
  }
  // sup over z of u z - l(z + o): the conjugate without an offset, less u o.
  static SNAPML_HD Real conjugate(Real u, Real t) {
    return Logistic<Real>::conjugate(u, sign(t)) - u * offset(t);
  }
  static SNAPML_HD Real dual(Real state, Real t) { return Logistic<Real>::dual(state, sign(t)); }
  static SNAPML_HD Real start(Real t) { return Logistic<Real>::start(sign(t)); }
};

// l = (z - y)^2 / 2.
template <class T>
struct Squared {
  using Real = T;

  static SNAPML_HD Real value(Real z, Real y) { return Real(0.5) * (z - y) * (z - y); }
  static SNAPML_HD Real gradient(Real z, Real y) { return z - y; }
  static SNAPML_HD Real curvature(Real, Real) { return Real(1); }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) {
    const Real residual = z - y;
    return {Real(0.5) * residual * residual, residual};
  }
  static SNAPML_HD Real conjugate(Real u, Real y) { return u * (Real(0.5) * u + y); }
  static SNAPML_HD Real dual(Real state, Real y) { return y - state; }
  static SNAPML_HD Real start(Real y) { return y; }
};

// l = max(0, 1 - y z); the state is alpha / c in [0, 1].
template <class T>
struct Hinge {
  using Real = T;

  static SNAPML_HD Real value(Real z, Real y) { return maximum(Real(0), Real(1) - y * z); }
  static SNAPML_HD Real gradient(Real z, Real y) { return y * z < Real(1) ? -y : Real(0); }
  static SNAPML_HD Real curvature(Real, Real) { return Real(0); }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) { return {value(z, y), gradient(z, y)}; }
  static SNAPML_HD Real conjugate(Real u, Real y) {
    const Real a = -u * y;
    if (a < Real(0) || a > Real(1)) return infinity<Real>();
    return -a;
  }
  static SNAPML_HD Real dual(Real state, Real y) { return y * state; }
  static SNAPML_HD Real start(Real) { return Real(0); }
};

// The hinge with its corner rounded off over a width g around a = a0, the dual variable over c:
// l = max over 0 <= a <= 1 of a (1 - m) - g/2 (a - a0)^2, plus g/2 a0^2, with m = sign(y) z. That
// is 0 for s <= 0, s^2 / (2 g) up to s = g, then s - g / 2, with the slack s = 1 - m + g a0. The
// label carries both: |y| = g + g a0 with g a power of two and a0 in [0, 1).
template <class T>
struct SmoothedHinge {
  using Real = T;

  static SNAPML_HD Real value(Real z, Real y) { return tangent(z, y).value; }
  static SNAPML_HD Real gradient(Real z, Real y) { return tangent(z, y).gradient; }
  static SNAPML_HD Real curvature(Real z, Real y) {
    const Real g = width(y), slack = shifted(y) - sign_of(y) * z;
    return slack > Real(0) && slack < g ? Real(1) / g : Real(0);
  }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) {
    const Real g = width(y), sign = sign_of(y);
    const Real slack = maximum(shifted(y) - sign * z, Real(0));  // in this order NaN stays NaN
    const Real a = minimum(slack / g, Real(1));                  // alpha / c
    return {a * (slack - Real(0.5) * g * a), -sign * a};
  }
  // l*(u) = -a (1 + g a0) + g a^2 / 2 with a = -u sign(y) in [0, 1], +inf outside.
  static SNAPML_HD Real conjugate(Real u, Real y) {
    const Real a = -u * sign_of(y);
    if (a < Real(0) || a > Real(1)) return infinity<Real>();
    return a * (Real(0.5) * width(y) * a - shifted(y));
  }
  static SNAPML_HD Real dual(Real state, Real y) { return -gradient(state, y); }
  static SNAPML_HD Real start(Real y) { return sign_of(y) * shifted(y); }

 private:
  static SNAPML_HD Real sign_of(Real y) { return y < Real(0) ? Real(-1) : Real(1); }
  static SNAPML_HD Real width(Real y) { return power_of_two_of(y); }
  static SNAPML_HD Real shifted(Real y) { return Real(1) + (scalar::fabs(y) - width(y)); }
};

// l = max(0, 1 - y z)^2; the state keeps y s <= 1.
template <class T>
struct SquaredHinge {
  using Real = T;

  static SNAPML_HD Real value(Real z, Real y) {
    const Real slack = maximum(Real(0), Real(1) - y * z);
    return slack * slack;
  }
  static SNAPML_HD Real gradient(Real z, Real y) {
    return Real(-2) * y * maximum(Real(0), Real(1) - y * z);
  }
  static SNAPML_HD Real curvature(Real z, Real y) { return y * z < Real(1) ? Real(2) : Real(0); }
  static SNAPML_HD Tangent<Real> tangent(Real z, Real y) {
    const Real slack = maximum(Real(1) - y * z, Real(0));  // in this order NaN stays NaN
    return {slack * slack, Real(-2) * y * slack};
  }
  static SNAPML_HD Real conjugate(Real u, Real y) {
    const Real a = -u * y;
    if (a < Real(0)) return infinity<Real>();
    return a * (Real(0.25) * a - Real(1));
  }
  static SNAPML_HD Real dual(Real state, Real y) { return -gradient(state, y); }
  static SNAPML_HD Real start(Real y) { return y; }
};

}  // namespace snapml
