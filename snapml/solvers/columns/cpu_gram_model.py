"""The quadratic model minimised on a Gram matrix of its columns."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from snapml import _native
from snapml.problems import Penalty
from snapml.solvers.cpu_formulas import penalty_terms, penalty_value
from snapml.solvers.flat_directions import scale_to_unit_diagonal, slide
from snapml.solvers.quadratic_model import Model, model_gap
from snapml.solvers.result import overflow_error

__all__ = ["descend_on_gram", "factor_semidefinite", "minimise_on_gram"]

_MOST_SWEEPS = 1000
_SWEEPS_PER_NEWTON = 12
# A gap that is so small a share of R and has not halved for as many rounds is what rounding leaves.
_ROUNDING, _PATIENCE = 1e-12, 3
_FEW_COLUMNS = 150  # whose system costs next to nothing to solve
# Newton steps in a row, as long as each ends before so much of its way.
_MOST_STEPS, _MOST_OF_WAY = 20, 0.5
_NONE = np.empty(0, dtype=np.intp)


def minimise_on_gram(
    gram: np.ndarray,
    model: Model,
    coef: np.ndarray,
    target: float,
    *,
    most_settled: int = _FEW_COLUMNS,
) -> np.ndarray:
    """Alternate coordinate descent with Newton steps on the support until the model's gap is met.

    Descent finds the support; on a fixed one it crawls where columns are nearly collinear, and
    there one Cholesky factor solves the rest.
    """
    if not np.isfinite(gram.diagonal()).all():
        raise overflow_error(gram.dtype)
    penalty = model.penalty
    found, gradient = coef.copy(), model.slopes.copy()
    residual_sq, halved, n_since = model.residual_sq, math.inf, 0
    may_slide = penalty.l2 == 0.0  # else no direction is flat
    for _ in range(_MOST_SWEEPS // _SWEEPS_PER_NEWTON):
        _sweep(gram, penalty, found, gradient, 0.3 * target)
        gap = model_gap(model, residual_sq, coef, found, gradient)
        halved, n_since = (gap, 0) if gap < 0.5 * halved else (halved, n_since + 1)
        is_rounding = n_since > _PATIENCE and gap <= _ROUNDING * penalty_value(penalty, found)
        if gap <= target or is_rounding:
            break
        dependent = _NONE
        if may_slide and n_since > 0:  # which costs as much as a Newton step
            dependent, has_slid = slide(gram, _free(penalty, found), penalty, found, gradient)
            may_slide = has_slid or len(dependent) > 0
        _newton_steps(gram, penalty, found, gradient, dependent)
    if 0 < len(_free(penalty, found)) <= most_settled:
        _settle(gram, penalty, found, gradient)
    return model.agreed(found)


def descend_on_gram(
    gram: np.ndarray,
    penalty: Penalty,
    found: np.ndarray,
    gradient: np.ndarray,
    enough: float,
    n_rounds: int,
) -> None:
    """Move `found` and `gradient` towards the minimum by rounds of descent and Newton steps.

    Parameters
    ----------
    gram : ndarray of shape (n_columns, n_columns)
        The quadratic's matrix.
    penalty : Penalty
        R.
    found, gradient : ndarray of shape (n_columns,)
        Coefficients, and the quadratic's gradient there; both are changed.
    enough : float
        Gap that may be left.
    n_rounds : int
        Most rounds.
    """
    for _ in range(n_rounds):
        is_done = _sweep(gram, penalty, found, gradient, enough)
        if is_done or not _newton_steps(gram, penalty, found, gradient):
            return


def _sweep(
    gram: np.ndarray, penalty: Penalty, found: np.ndarray, gradient: np.ndarray, enough: float
) -> bool:
    """Descend on the coordinates; return whether the gap seems to be less than `enough`."""
    ridge, limits = np.zeros(len(found)), (_SWEEPS_PER_NEWTON, enough)
    parts = penalty_terms(penalty)
    return bool(_native.gram_descent(gram, ridge, *parts, found, gradient, *limits)[1])


def _newton_steps(
    gram: np.ndarray,
    penalty: Penalty,
    found: np.ndarray,
    gradient: np.ndarray,
    dependent: np.ndarray = _NONE,
) -> bool:
    """Take Newton steps until one goes most of its way; return whether any moved.

    Where all columns have much in common, a coefficient that rests at zero ends the step of the
    others too: their directions added up to what that one had of it. Those left take a new step
    together, since descent, one column after the other, does not get on there.
    """
    has_moved = False
    for _ in range(_MOST_STEPS):
        share = _newton_step(gram, penalty, found, gradient, dependent)
        has_moved |= share > 0.0
        if share == 0.0 or share >= _MOST_OF_WAY:
            break
        dependent = _NONE
    return has_moved


def _newton_step(
    gram: np.ndarray,
    penalty: Penalty,
    found: np.ndarray,
    gradient: np.ndarray,
    dependent: np.ndarray,
) -> float:
    """Minimise over most of the support with its signs kept; return the share of the way gone."""
    support = np.setdiff1d(_free(penalty, found), dependent)
    if len(support) == 0:
        return 0.0
    slope = _slope(penalty, found[support], gradient[support])
    direction = _newton_direction(gram, support, penalty, slope)
    return _follow(gram, support, direction, penalty, found, gradient)


def _settle(gram: np.ndarray, penalty: Penalty, found: np.ndarray, gradient: np.ndarray) -> None:
    """Solve for the support's coefficients, whose last digits no gain of the model shows."""
    support = _free(penalty, found)
    low, high = _intervals(penalty, support, found[support])
    slope = _slope(penalty, found[support], gradient[support])
    step = _newton_direction(gram, support, penalty, slope)
    trial = found[support] + step
    if not np.all((low < trial) & (trial < high)):
        return
    change = np.asarray(gram[np.ix_(support, support)] @ step.astype(gram.dtype), np.float64)
    left = _slope(penalty, trial, gradient[support] + change)
    if np.abs(left).max() < np.abs(slope).max():
        found[support] = trial


def _free(penalty: Penalty, found: np.ndarray) -> np.ndarray:
    """Return the coefficients that are neither zero nor at a bound."""
    is_free = found != 0.0
    if penalty.bounds is not None:
        is_free &= (found != penalty.bounds.lower) & (found != penalty.bounds.upper)
    return np.flatnonzero(is_free)


def _intervals(
    penalty: Penalty, support: np.ndarray, coef: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return where coefficients of a support keep their sign and their bounds."""
    low, high = np.where(coef > 0.0, 0.0, -np.inf), np.where(coef > 0.0, np.inf, 0.0)
    if penalty.bounds is None:
        return low, high
    bounds = penalty.bounds.on(support)
    return np.maximum(low, bounds.lower), np.minimum(high, bounds.upper)


def _slope(penalty: Penalty, coef: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return the penalised model's slopes along coefficients that are not zero."""
    return gradient + penalty.l2 * coef + penalty.l1 * np.sign(coef)


def _newton_direction(
    gram: np.ndarray, support: np.ndarray, penalty: Penalty, slope: np.ndarray
) -> np.ndarray:
    """Return the step on the support that takes the slopes to zero."""
    block = gram[np.ix_(support, support)].astype(np.float64)
    block[np.diag_indices_from(block)] += penalty.l2
    factor, root = factor_semidefinite(block)
    return np.asarray(-root * cho_solve(factor, root * slope, check_finite=False))


def _follow(
    gram: np.ndarray,
    support: np.ndarray,
    direction: np.ndarray,
    penalty: Penalty,
    found: np.ndarray,
    gradient: np.ndarray,
) -> float:
    """Move the support along a Newton direction to the first minimum; return the share gone.

    A coefficient that would change sign or leave its bounds rests at the end of its interval while
    the others go on; between one such end and the next the model is a parabola. Descent takes up
    again what should not rest.
    """
    ends, lengths = _ends(penalty, support, direction, found[support])
    moving, pull = np.zeros(len(found)), np.zeros(len(found))
    moving[support] = direction
    pull[support] = penalty.l1 * np.sign(found[support])
    change = _product(gram, support, direction)  # G times `moving`
    went = 0.0
    for place in np.argsort(lengths, kind="stable"):
        slope = float(moving @ (gradient + penalty.l2 * found + pull))
        if not slope < 0.0:
            break
        curvature = float(moving @ (change + penalty.l2 * moving))
        # Never beyond the step that was solved for: on a flat model nothing else might end it.
        bottom = min(1.0, went - slope / curvature) if curvature > 0.0 else 1.0
        goes_to = min(bottom, lengths[place])
        found += (goes_to - went) * moving
        gradient += (goes_to - went) * change
        went = goes_to
        if bottom <= lengths[place]:
            break
        column = support[place]
        found[column] = ends[place]
        change -= moving[column] * gram[column]
        moving[column] = 0.0
    return went


def _ends(
    penalty: Penalty, support: np.ndarray, direction: np.ndarray, coef: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return where each coefficient comes to rest, and after how much of a step; never is inf."""
    low, high = _intervals(penalty, support, coef)
    ends = np.where(direction < 0.0, low, high)
    lengths = np.full(len(coef), np.inf)
    np.divide(ends - coef, direction, out=lengths, where=direction != 0.0)
    return ends, lengths


def _product(gram: np.ndarray, support: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Return the matrix times a vector that is zero but on the support."""
    if 3 * len(support) < len(gram):  # a copy of so few rows is read faster than all of them
        out = coef.astype(gram.dtype) @ gram[support]
    else:
        full = np.zeros(len(gram), dtype=gram.dtype)
        full[support] = coef
        out = gram @ full
    return np.asarray(out, dtype=np.float64)


def factor_semidefinite(block: np.ndarray) -> tuple[tuple[np.ndarray, bool], np.ndarray]:
    """Factor a positive semidefinite matrix, scaled to a unit diagonal.

    Parameters
    ----------
    block : ndarray of shape (n, n), float64
        The matrix; overwritten.

    Returns
    -------
    factor : tuple
        For `scipy.linalg.cho_solve`.
    root : ndarray of shape (n,)
        What both sides of the matrix were multiplied by.
    """
    root = scale_to_unit_diagonal(block)
    jitter = 1e-14
    while True:
        block[np.diag_indices_from(block)] += jitter
        try:
            return cho_factor(block.T, check_finite=False), root  # LAPACK's own order
        except LinAlgError:
            jitter *= 100.0
