"""The judge: objective and certificate of every problem, in float64.

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
from scipy import sparse, special

from benchmarks.problems import Problem
from benchmarks.synthetic_data import Matrix

FloatArray = NDArray[np.float64]
_MAX_COPY_BYTES = 3_000_000_000
_CHUNK_VALUES = 4_000_000  # stored values converted to float64 at a time: about 50 MB


@dataclass(frozen=True)
class Loss:
    """A loss l(z, y) as rowwise functions of margins and labels.

    Margins are of shape (n_rows,), or (n_rows, n_classes) for the multinomial loss.

    Parameters
    ----------
    value, slope, curvature : callable
        l, dl/dz and a generalised d2l/dz2; ``slope`` of the hinge is a subgradient, and
        ``curvature`` of the multinomial loss are the probabilities, which determine it.
    conjugate : callable
        l*(u, y), the convex conjugate, for u in its domain.
    is_smooth : bool
        Whether the gradient is continuous.
    """

    value: Callable[[FloatArray, FloatArray], FloatArray]
    slope: Callable[[FloatArray, FloatArray], FloatArray]
    curvature: Callable[[FloatArray, FloatArray], FloatArray]
    conjugate: Callable[[FloatArray, FloatArray], FloatArray]
    is_smooth: bool = True


def _logistic_slope(z: FloatArray, y: FloatArray) -> FloatArray:
    slope: FloatArray = -y * np.exp(-np.logaddexp(0.0, y * z))
    return slope


def _logistic_curvature(z: FloatArray, y: FloatArray) -> FloatArray:
    curvature: FloatArray = np.exp(-np.logaddexp(0.0, z) - np.logaddexp(0.0, -z))
    return curvature


def _logistic_conjugate(u: FloatArray, y: FloatArray) -> FloatArray:
    share = np.clip(-y * u, 0.0, 1.0)
    conjugate: FloatArray = special.xlogy(share, share) + special.xlogy(1.0 - share, 1.0 - share)
    return conjugate


def _multinomial_value(z: FloatArray, y: FloatArray) -> FloatArray:
    of_class = np.take_along_axis(z, y.astype(np.intp)[:, None], axis=1)[:, 0]
    value: FloatArray = special.logsumexp(z, axis=1) - of_class
    return value


def _multinomial_slope(z: FloatArray, y: FloatArray) -> FloatArray:
    slope: FloatArray = special.softmax(z, axis=1)
    slope[np.arange(y.size), y.astype(np.intp)] -= 1.0
    return slope


def _multinomial_conjugate(u: FloatArray, y: FloatArray) -> FloatArray:
    shares = u.copy()
    shares[np.arange(y.size), y.astype(np.intp)] += 1.0
    conjugate: FloatArray = special.xlogy(shares, np.maximum(shares, 0.0)).sum(axis=1)
    return conjugate


LOSSES: dict[str, Loss] = {
    "logistic": Loss(
        lambda z, y: np.logaddexp(0.0, -y * z),
        _logistic_slope,
        _logistic_curvature,
        _logistic_conjugate,
    ),
    "hinge": Loss(
        lambda z, y: np.maximum(1.0 - y * z, 0.0),
        lambda z, y: np.where(y * z < 1.0, -y, 0.0),
        lambda z, y: np.zeros_like(z),
        lambda u, y: y * u,
        is_smooth=False,
    ),
    "squared_hinge": Loss(
        lambda z, y: np.maximum(1.0 - y * z, 0.0) ** 2,
        lambda z, y: -2.0 * y * np.maximum(1.0 - y * z, 0.0),
        lambda z, y: np.where(y * z < 1.0, 2.0, 0.0),
        lambda u, y: y * u + 0.25 * u**2,
    ),
    "squared": Loss(
        lambda z, y: 0.5 * (z - y) ** 2,
        lambda z, y: z - y,
        lambda z, y: np.ones_like(z),
        lambda u, y: y * u + 0.5 * u**2,
    ),
    "multinomial": Loss(
        _multinomial_value,
        _multinomial_slope,
        lambda z, y: special.softmax(z, axis=1),
        _multinomial_conjugate,
    ),
}


def multinomial_objective(model: Any, X: Any, y: FloatArray, C: float) -> float:
    """Return the objective of a multinomial model, by its coefficients.

    Parameters
    ----------
    model : estimator
        With ``coef_``, ``intercept_`` and ``classes_``.
    X, y
        Rows and classes.
    C : float
        Weight of the loss.

    Returns
    -------
    float
        Squared norm's half and C times the loss.
    """
    coef = np.asarray(model.coef_, dtype=np.float64)
    losses = LOSSES["multinomial"].value(
        X @ coef.T + model.intercept_, np.searchsorted(model.classes_, y)
    )
    return C * float(losses.sum()) + 0.5 * float(np.sum(coef**2))


def float64_copy(X: Matrix) -> Matrix | None:
    """Return X in float64, kept until another X is asked for.

    Judging a fit must not cost more than the fit; converting X anew each time would.

    Parameters
    ----------
    X : csr_matrix or ndarray of shape (n_rows, n_features)
        Data of any float type.

    Returns
    -------
    csr_matrix, ndarray or None
        None if the copy would be too large.
    """
    if 8 * (X.nnz if sparse.issparse(X) else X.size) > _MAX_COPY_BYTES:
        return None
    if _kept.original is not X:
        _kept.original, _kept.copy = X, X.astype(np.float64)
    return _kept.copy


class _Kept:
    """The last X and its float64 copy."""

    original: Matrix = None
    copy: Matrix = None


_kept = _Kept()


def iterate_row_chunks(X: Matrix) -> Iterator[tuple[slice, Any]]:
    """Yield row slices of X in float64, of bounded size where a copy of X would be too large.

    Parameters
    ----------
    X : csr_matrix or ndarray of shape (n_rows, n_features)
        Data of any float type.

    Yields
    ------
    rows : slice
        Rows of the chunk.
    chunk : csr_matrix or ndarray
        These rows in float64.
    """
    n_rows = X.shape[0]
    whole = float64_copy(X)
    if whole is not None:
        yield slice(0, n_rows), whole
        return
    n_values = X.nnz if sparse.issparse(X) else X.size
    rows_per_chunk = max(1, int(_CHUNK_VALUES * n_rows / max(n_values, 1)))
    for start in range(0, n_rows, rows_per_chunk):
        rows = slice(start, min(start + rows_per_chunk, n_rows))
        yield rows, X[rows].astype(np.float64)


def penalty(problem: Problem, coef: FloatArray) -> float:
    """R(w) of the module `problems`.

    Parameters
    ----------
    problem : Problem
        Its ``l1_ratio``.
    coef : ndarray of shape `Problem.coef_shape`
        Coefficients w, float64.

    Returns
    -------
    float
        The penalty's value.
    """
    flat = coef.ravel()
    value = 0.5 * (1.0 - problem.l1_ratio) * float(flat @ flat)
    if problem.l1_ratio:
        value += problem.l1_ratio * float(np.abs(flat).sum())
    return value


def primal_objective(problem: Problem, coef: FloatArray, intercept: float = 0.0) -> float:
    """P(w, b) of the module `problems`, accumulated in float64.

    Parameters
    ----------
    problem : Problem
        Data, loss, penalty and C.
    coef : ndarray of shape `Problem.coef_shape`
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
        float(np.sum(loss.value(chunk @ coef.T + intercept, y[rows])))
        for rows, chunk in iterate_row_chunks(problem.X)
    ]
    return problem.C * math.fsum(sums) + penalty(problem, coef)


def duality_gap(problem: Problem, coef: FloatArray) -> float | None:
    """Duality gap certified by a primal point alone.

    With beta_i = -C l'(z_i) and v = X^T beta, an L2 penalty has the gap 1/2 ||w - v||^2, which is
    1/2 ||grad P(w)||^2. With an L1 norm the gap is P - D, after shrinking beta into the dual's
    domain |v_j| <= rho where the penalty is the L1 norm alone. It needs a smooth loss and no
    intercept (an unpenalised intercept constrains sum(beta) to be zero).

    Parameters
    ----------
    problem : Problem
        Data, loss, penalty and C.
    coef : ndarray of shape `Problem.coef_shape`
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
    slopes = []
    image = np.zeros_like(coef)
    for rows, chunk in iterate_row_chunks(problem.X):
        slopes.append(loss.slope(chunk @ coef.T, y[rows]))
        image -= problem.C * (chunk.T @ slopes[-1]).T
    rho = problem.l1_ratio
    if rho == 0.0:
        return 0.5 * float(np.sum((coef - image) ** 2))
    shrink = min(1.0, rho / float(np.abs(image).max())) if rho == 1.0 else 1.0
    conjugates = loss.conjugate(shrink * np.concatenate(slopes), y)
    dual = -problem.C * math.fsum(conjugates)
    if rho < 1.0:
        beyond = np.maximum(np.abs(image) - rho, 0.0)
        dual -= float(np.sum(beyond**2)) / (2.0 * (1.0 - rho))
    return primal_objective(problem, coef) - dual
