"""The harness's own objective, gradient and certificate, in float64.

Nothing here is imported from a library under test, so an error in a library's formula shows as
a suboptimal objective instead of being copied into the judge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems import Problem
from benchmarks.synthetic_data import Matrix

FloatArray = NDArray[np.float64]
_CHUNK_VALUES = 4_000_000  # stored values converted to float64 at a time: about 50 MB


@dataclass(frozen=True)
class Loss:
    """A loss l(z, y) as elementwise functions of margins and labels.

    Parameters
    ----------
    value, slope, curvature : callable
        l, dl/dz and a generalised d2l/dz2; ``slope`` of the hinge is a subgradient.
    is_smooth : bool
        Whether the gradient is continuous, so that 1/2 ||grad P||^2 is a duality gap.
    """

    value: Callable[[FloatArray, FloatArray], FloatArray]
    slope: Callable[[FloatArray, FloatArray], FloatArray]
    curvature: Callable[[FloatArray, FloatArray], FloatArray]
    is_smooth: bool = True


def _logistic_slope(z: FloatArray, y: FloatArray) -> FloatArray:
    slope: FloatArray = -y * np.exp(-np.logaddexp(0.0, y * z))
    return slope


def _logistic_curvature(z: FloatArray, y: FloatArray) -> FloatArray:
    curvature: FloatArray = np.exp(-np.logaddexp(0.0, z) - np.logaddexp(0.0, -z))
    return curvature


LOSSES: dict[str, Loss] = {
    "logistic": Loss(lambda z, y: np.logaddexp(0.0, -y * z), _logistic_slope, _logistic_curvature),
    "hinge": Loss(
        lambda z, y: np.maximum(1.0 - y * z, 0.0),
        lambda z, y: np.where(y * z < 1.0, -y, 0.0),
        lambda z, y: np.zeros_like(z),
        is_smooth=False,
    ),
    "squared_hinge": Loss(
        lambda z, y: np.maximum(1.0 - y * z, 0.0) ** 2,
        lambda z, y: -2.0 * y * np.maximum(1.0 - y * z, 0.0),
        lambda z, y: np.where(y * z < 1.0, 2.0, 0.0),
    ),
    "squared": Loss(
        lambda z, y: 0.5 * (z - y) ** 2,
        lambda z, y: z - y,
        lambda z, y: np.ones_like(z),
    ),
}


def iterate_row_chunks(X: Matrix) -> Iterator[tuple[slice, Any]]:
    """Yield row slices of X and their float64 copies, of bounded size.

    Parameters
    ----------
    X : csr_matrix or ndarray of shape (n_rows, n_features)
        Data of any float type.

    Yields
    ------
    rows : slice
        Rows of the chunk.
    chunk : csr_matrix or ndarray
        float64 copy of these rows.
    """
    n_rows = X.shape[0]
    n_values = X.nnz if hasattr(X, "nnz") else X.size
    rows_per_chunk = max(1, int(_CHUNK_VALUES * n_rows / max(n_values, 1)))
    for start in range(0, n_rows, rows_per_chunk):
        rows = slice(start, min(start + rows_per_chunk, n_rows))
        yield rows, X[rows].astype(np.float64)


def primal_objective(problem: Problem, coef: FloatArray, intercept: float = 0.0) -> float:
    """P(w, b) of the module `problems`, accumulated in float64.

    Parameters
    ----------
    problem : Problem
        Data, loss and C.
    coef : ndarray of shape (n_features,)
        Coefficients w, float64.
    intercept : float, default=0.0
        Intercept b.

    Returns
    -------
    float
        The objective's value.
    """
    loss = LOSSES[problem.loss]
    y = problem.signed_labels
    sums = [
        float(np.sum(loss.value(chunk @ coef + intercept, y[rows])))
        for rows, chunk in iterate_row_chunks(problem.X)
    ]
    return problem.C * math.fsum(sums) + 0.5 * float(coef @ coef)


def gradient_gap(problem: Problem, coef: FloatArray) -> float | None:
    """Duality gap certified by a primal point alone: 1/2 ||grad P(w)||^2.

    With beta_i = -C l'(z_i) the dual value falls short of P(w) by exactly this amount. It needs
    a smooth loss and no intercept (an unpenalised intercept constrains sum(beta) to be zero).

    Parameters
    ----------
    problem : Problem
        Data, loss and C.
    coef : ndarray of shape (n_features,)
        Coefficients w, float64.

    Returns
    -------
    float or None
        Upper bound on P(w) - P*, or None where the formula does not apply.
    """
    loss = LOSSES[problem.loss]
    if not loss.is_smooth or problem.fit_intercept:
        return None
    y = problem.signed_labels
    gradient = coef.copy()
    for rows, chunk in iterate_row_chunks(problem.X):
        gradient += problem.C * (chunk.T @ loss.slope(chunk @ coef, y[rows]))
    return 0.5 * float(gradient @ gradient)
