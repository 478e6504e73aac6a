"""The intercept's column, whose length decides how fast coordinate ascent finds the intercept."""

from __future__ import annotations

import math

import numpy as np

from snapml.problems import Intercept, Problem

__all__ = ["intercept_column"]

_TINY = float(np.finfo(np.float64).tiny)  # stands for a sum of weights that is zero


def intercept_column(problem: Problem, mean_norm_sq: float, total_weight: float) -> float:
    """Return the value of the intercept's column; any positive one serves a free intercept.

    A short column makes the multiplier creep, all the more where the rows weigh little in all; a
    long one stands in the way of the others (benchmarks/results/ablation.csv).

    Parameters
    ----------
    problem : Problem
        How it treats the intercept.
    mean_norm_sq : float
        Weighted mean of ||x_i||^2.
    total_weight : float
        Sum of c_i.

    Returns
    -------
    float
        0 without an intercept.
    """
    if problem.intercept is Intercept.NONE:
        return 0.0
    if problem.intercept is Intercept.PENALISED:
        return problem.intercept_scaling
    typical = min(mean_norm_sq, math.sqrt(mean_norm_sq))
    column = math.sqrt(max(0.1 * typical, 100.0 / max(total_weight, _TINY)))
    # A longer column would gain nothing, and sums of its squares could leave float32.
    return min(column, 1e12)
