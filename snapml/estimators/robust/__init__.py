"""Regressions whose loss grows as a residual does, not as its square: quantiles, tubes, Huber's."""
