// A loss that is found at run time, one call for many rows: what solves a small problem is compiled
// once, not for every loss.
#pragma once

#include "snapml/losses.hpp"
#include "threads/wide.hpp"

namespace snapml::native::small {

class RowLosses {
 public:
  virtual ~RowLosses() = default;

  const LossTraits traits;

  // Slopes c l' of `n` rows, a multiple of eight, from their margins; adds c l to the lanes of
  // `sum`. Rows of weight 0 count for nothing whatever their loss.
  virtual void tangents(const double* z, const double* y, const double* c, int64 n, double* slopes,
                        double* sum) const = 0;
  // Curvatures c l'' of `n` rows from their margins.
  virtual void curvatures(const double* z, const double* y, const double* c, int64 n,
                          double* out) const = 0;
  // Of a single row, without its weight.
  virtual double curvature(double z, double y) const = 0;
  virtual double conjugate(double slope, double y) const = 0;

 protected:
  explicit RowLosses(const LossTraits& of) : traits(of) {}
};

template <class Loss>
SNAPML_FLAT_CLONES void row_tangents(Loss loss, const double* z, const double* y, const double* c,
                                     int64 n, double* slopes, double* sum) {
  for (int64 i = 0; i < n; i += kEight) {
    for (int r = 0; r < kEight; ++r) {
      const Tangent<double> at = loss.tangent(z[i + r], y[i + r]);
      const double weight = c[i + r];
      slopes[i + r] = weight == 0 ? 0 : weight * at.gradient;
      sum[r] += weight == 0 ? 0 : weight * at.value;
    }
  }
}

template <class Loss>
SNAPML_FLAT_CLONES void row_curvatures(Loss loss, const double* z, const double* y, const double* c,
                                       int64 n, double* out) {
  for (int64 i = 0; i < n; ++i) {
    const double curvature = loss.curvature(z[i], y[i]);
    out[i] = c[i] == 0 ? 0 : c[i] * curvature;
  }
}

template <class Loss>
class RowLossesOf final : public RowLosses {
 public:
  explicit RowLossesOf(const Loss& loss) : RowLosses(Loss::traits()), loss_(loss) {}

  void tangents(const double* z, const double* y, const double* c, int64 n, double* slopes,
                double* sum) const override {
    row_tangents(loss_, z, y, c, n, slopes, sum);
  }
  void curvatures(const double* z, const double* y, const double* c, int64 n,
                  double* out) const override {
    row_curvatures(loss_, z, y, c, n, out);
  }
  double curvature(double z, double y) const override { return loss_.curvature(z, y); }
  double conjugate(double slope, double y) const override { return loss_.conjugate(slope, y); }

 private:
  const Loss loss_;
};

}  // namespace snapml::native::small
