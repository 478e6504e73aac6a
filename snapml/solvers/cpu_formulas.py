"""The core's formulas for a few numbers on the host, whatever device holds the rows."""

from __future__ import annotations

import numpy as np

from snapml import _native
from snapml.problems import Loss, Penalty

__all__ = ["loss_corners", "loss_quantity", "penalty_conjugate", "penalty_terms", "penalty_value"]


def loss_corners(loss: Loss, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where the slope of each row's loss jumps, from what, and to what.

    Parameters
    ----------
    loss : Loss
        With corners.
    labels : ndarray of shape (n_rows,)
        Of the rows.

    Returns
    -------
    at, low, high : ndarray of shape (n_corners, n_rows), float64
        The loss is the sum over the corners of ``max(low (z - at), high (z - at))``.
    """
    y = np.ascontiguousarray(labels, dtype=np.float64)
    at, low, high = (np.empty((loss.n_corners, len(y))) for _ in range(3))
    for k in range(loss.n_corners):
        _native.loss_corners(loss.core_name, k, y, at[k], low[k], high[k])
    return at, low, high


def loss_quantity(loss: Loss, quantity: str, x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Evaluate a function of a loss for a few numbers.

    Parameters
    ----------
    loss : Loss
        The loss.
    quantity : str
        Name of its function in ``snapml/core/include/snapml/losses/``.
    x, labels : ndarray of one shape
        Its arguments.

    Returns
    -------
    ndarray
        Of that shape, float64.
    """
    x, y = (np.ascontiguousarray(each, dtype=np.float64) for each in (x, labels))
    found = np.empty(x.shape)
    _native.loss_quantities(loss.core_name, quantity, x, y, found)
    return found


def penalty_value(penalty: Penalty, coef: np.ndarray) -> float:
    """Return R(coef).

    Parameters
    ----------
    penalty : Penalty
        The penalty R.
    coef : ndarray, float64
        Coefficients.

    Returns
    -------
    float
        Infinity where a coefficient is forbidden.
    """
    return float(_native.elastic_net_value(coef, *penalty_terms(penalty)))


def penalty_conjugate(penalty: Penalty, vector: np.ndarray) -> float:
    """Return R*(vector).

    Parameters
    ----------
    penalty : Penalty
        The penalty R.
    vector : ndarray, float64
        X^T beta.

    Returns
    -------
    float
        Infinity where vector is not feasible.
    """
    return float(_native.elastic_net_conjugate(vector, *penalty_terms(penalty)))


def penalty_terms(
    penalty: Penalty,
) -> tuple[float, float, bool, np.ndarray | None, np.ndarray | None]:
    """Return a penalty as the extension takes it.

    Parameters
    ----------
    penalty : Penalty
        Of the columns that it is taken of.

    Returns
    -------
    tuple
        l1, l2, whether coefficients are positive, and both bounds of each column or None.
    """
    bounds = penalty.bounds
    ends = (None, None) if bounds is None else (bounds.lower, bounds.upper)
    return penalty.l1, penalty.l2, penalty.is_positive, *ends
