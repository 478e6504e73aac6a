"""Directions that a quadratic model does not see, since its columns depend on each other.

The columns of a one-hot group add up to a constant. What moves along such a direction changes no
margin and only the penalty, whose least value there is a weighted median: coefficients cross zero
on the way. Newton steps have no length along it, and descent crawls.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.linalg.lapack import dpstrf

from snapml.problems import Penalty

__all__ = ["scale_to_unit_diagonal", "slide"]

# Share of a column's square that must be its own, beyond what rounding leaves of none.
_DEPENDENT, _ROUNDINGS = 1e-10, 32.0
_MOST_DIRECTIONS = 256  # beyond, more columns than rows are free: directions are no rare exception
_LEVEL = 1e-6  # slope of the penalty, in multiples of l1, that is taken for none


def slide(
    gram: np.ndarray, support: np.ndarray, penalty: Penalty, found: np.ndarray, gradient: np.ndarray
) -> tuple[np.ndarray, bool]:
    """Move along flat directions to where the penalty is least.

    Each move ends with a coefficient at zero or at a bound, which leaves a direction less.

    Parameters
    ----------
    gram : ndarray of shape (n_columns, n_columns)
        The quadratic's matrix.
    support : ndarray of shape (n_support,)
        Columns whose coefficients are free.
    penalty : Penalty
        R, without l2.
    found, gradient : ndarray of shape (n_columns,)
        Coefficients, and the quadratic's gradient there; both are changed.

    Returns
    -------
    dependent : ndarray
        Columns of the support that others of it make up, to leave out of a factor.
    has_moved : bool
        Whether any coefficient did.
    """
    flat = _flat(gram, support) if len(support) else np.empty((0, 0))
    if not 0 < flat.shape[1] <= _MOST_DIRECTIONS:
        return support[:0], False
    before, coef, every = found[support], found[support], flat
    while flat.shape[1]:
        pull = penalty.l1 * np.sign(coef)
        direction = -flat @ (flat.T @ pull)
        slope = float(pull @ direction)
        if -slope <= len(support) * (_LEVEL * penalty.l1) ** 2:
            break
        place, length, end = _lowest(penalty, support, coef, direction, slope)
        if not np.isfinite(length):
            break
        coef += length * direction
        coef[place] = end
        flat = _without(flat, place)
    move = coef - before
    change = gram[support].T @ move.astype(gram.dtype)  # nothing, but for rounding
    rise = float(move @ (gradient[support] + 0.5 * change[support]))
    rise += penalty.l1 * float(np.abs(coef).sum() - np.abs(before).sum())
    if not rise < 0.0:  # nothing to gain, or the directions are not as flat as they seemed
        return support[_dependent(every)], False
    found[support] = coef
    gradient += change
    return support[_dependent(flat)], True


def scale_to_unit_diagonal(block: np.ndarray) -> np.ndarray:
    """Multiply both sides of a matrix so that its diagonal is one, where it is not zero.

    Parameters
    ----------
    block : ndarray of shape (n, n), float64
        Positive semidefinite; overwritten.

    Returns
    -------
    ndarray of shape (n,)
        What its rows, and its columns, were multiplied by.
    """
    root: np.ndarray = 1.0 / np.sqrt(np.maximum(np.diag(block), np.finfo(np.float64).tiny))
    block *= np.outer(root, root)
    return root


def _flat(gram: np.ndarray, support: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the flat directions."""
    block = gram[np.ix_(support, support)].astype(np.float64)
    root = scale_to_unit_diagonal(block)
    # By pivots: the largest share of a column that those before do not have comes next.
    least = max(_DEPENDENT, _ROUNDINGS * float(np.finfo(gram.dtype).eps))
    factor, pivots, rank, _ = dpstrf(np.asfortranarray(block), tol=least)
    order, n_columns = pivots - 1, len(support)
    flat = np.zeros((n_columns, n_columns - rank))
    if 0 < n_columns - rank <= _MOST_DIRECTIONS:
        flat[order[:rank]] = -solve_triangular(factor[:rank, :rank], factor[:rank, rank:])
        flat[order[rank:]] = np.eye(n_columns - rank)
        flat = np.linalg.qr(root[:, None] * flat)[0]
    return flat


def _dependent(flat: np.ndarray) -> np.ndarray:
    """Return places of columns, one a direction, that those of the others make up."""
    if not flat.shape[1]:
        return np.empty(0, dtype=np.intp)
    _, order = qr(flat.T, mode="r", pivoting=True)
    return np.asarray(order, dtype=np.intp)[: flat.shape[1]]


def _lowest(
    penalty: Penalty, support: np.ndarray, coef: np.ndarray, direction: np.ndarray, slope: float
) -> tuple[int, float, float]:
    """Return which coefficient ends the way down, after how much of it, and where it is then."""
    low, high = np.full(len(coef), -np.inf), np.full(len(coef), np.inf)
    if penalty.bounds is not None:
        bounds = penalty.bounds.on(support)
        low, high = bounds.lower, bounds.upper
    if penalty.is_positive:
        low = np.maximum(low, 0.0)
    moves = np.abs(direction) > np.finfo(np.float64).eps * np.abs(direction).max()
    crossings, ends = np.full(len(coef), np.inf), np.full(len(coef), np.inf)
    np.divide(-coef, direction, out=crossings, where=moves & (coef * direction < 0.0))
    limits = np.where(direction < 0.0, low, high)
    np.divide(limits - coef, direction, out=ends, where=moves)
    order = np.argsort(crossings, kind="stable")
    slopes = slope + np.cumsum(2.0 * penalty.l1 * np.abs(direction[order]))
    place = int(order[min(int(np.searchsorted(slopes, 0.0)), len(order) - 1)])
    first = int(np.argmin(ends))
    if ends[first] <= crossings[place]:
        return first, float(ends[first]), float(limits[first])
    return place, float(crossings[place]), 0.0


def _without(flat: np.ndarray, place: int) -> np.ndarray:
    """Return an orthonormal basis of the directions in which one coefficient stays."""
    row = flat[place]
    mirror = row.copy()  # a reflection that takes the row to its first entry
    mirror[0] += np.copysign(np.linalg.norm(row), row[0])
    mirror /= np.linalg.norm(mirror)
    turned = (flat - 2.0 * np.outer(flat @ mirror, mirror))[:, 1:]
    turned[place] = 0.0
    return np.asarray(turned)
