"""A certificate for least squares with w >= 0 and no other penalty.

The dual of ``min ||t - A w||^2 / 2`` over ``w >= 0`` is ``max r.t - ||r||^2 / 2`` over the r with
``A^T r <= 0``. At the optimum r is the residual; at a computed model it misses the constraints of
the columns in use by rounding. Moving r against these columns mends that at next to no cost.
"""

from __future__ import annotations

import numpy as np

from snapml.solvers.least_squares.centered_rows import CenteredRows

__all__ = ["nonnegative_lower_bound"]

_MOST_MOVES = 8
_ROUNDING = 2.0**-50  # of a product of a column with the residual, relative to their norms


def nonnegative_lower_bound(
    rows: CenteredRows, squares: np.ndarray, target: np.ndarray, residual: np.ndarray
) -> float:
    """Return a lower bound on half the least sum of squares over coefficients of at least zero.

    Parameters
    ----------
    rows : CenteredRows
        A.
    squares : ndarray of shape (n_features,)
        Squared norms of its columns.
    target : ndarray of shape (n_rows,)
        t, centred and weighted like the rows.
    residual : ndarray of shape (n_rows,)
        t - A w of a model.

    Returns
    -------
    float
        -inf where no feasible dual point was found.
    """
    norms = np.sqrt(squares)
    scale = np.where(norms > 0.0, norms, 1.0)
    point, is_used = residual, np.zeros(len(norms), dtype=bool)
    for _ in range(_MOST_MOVES):
        slack = -_adjoint(rows, point) / scale
        square = _inner(rows, point, point)
        room = _ROUNDING * float(np.sqrt(square))
        is_short = (slack < room) & (norms > 0.0)
        if not is_short.any():
            return _inner(rows, point, target) - 0.5 * square
        is_used |= is_short
        push = _push(rows, is_used, scale)
        gain = -_adjoint(rows, push) / scale
        if not (gain[is_short] > 0.0).all():
            break
        step = 2.0 * float(np.max((room - slack[is_short]) / gain[is_short]))
        point = point + step * push
    return -np.inf


def _push(rows: CenteredRows, is_used: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return a direction that makes the products with all columns in use about -1 times `scale`."""
    columns = np.flatnonzero(is_used)
    choice = np.zeros((rows.shape[1], len(columns)))
    choice[columns, np.arange(len(columns))] = 1.0 / scale[columns]
    block = rows.dot(choice)
    shares = np.linalg.lstsq(rows.total(block.T @ block), np.ones(len(columns)), rcond=None)[0]
    return -(block @ shares)


def _inner(rows: CenteredRows, one: np.ndarray, other: np.ndarray) -> float:
    return float(rows.total(np.array([one @ other]))[0])


def _adjoint(rows: CenteredRows, vector: np.ndarray) -> np.ndarray:
    return rows.transposed_dot(vector.reshape(-1, 1)).ravel()
