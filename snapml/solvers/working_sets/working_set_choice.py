"""Which columns a working set takes: those that the certificate of all columns promises most of."""

from __future__ import annotations

import numpy as np

from snapml.solvers.working_sets.working_set_state import State

__all__ = ["chosen_columns"]

_FIRST_COLUMNS = 100
_GROWTH = 2.0
_ALL_COLUMNS = 400  # so few are taken all at once
_SHARE_OF_ALL = 0.2  # of sparse columns: beyond it all are packed, once


def chosen_columns(state: State) -> np.ndarray:
    """Return the columns to work on: the support and those whose slopes promise most.

    Parameters
    ----------
    state : State
        After a read of the data.

    Returns
    -------
    ndarray
        Their numbers, in rising order.
    """
    engine, penalty, n = state.engine, state.problem.penalty, state.engine.n_cols
    support = np.flatnonzero(state.coef)
    if engine.is_sparse:
        return _choose_sparse(state, support)
    count = int(max(_FIRST_COLUMNS, _GROWTH * len(support)))
    if count >= n or (2 * count >= n and n <= _ALL_COLUMNS):
        return np.arange(n)
    excess = _sizes(state) - penalty.l1
    with np.errstate(divide="ignore", invalid="ignore"):
        score = excess / np.sqrt(state.column_squares())
    score[~np.isfinite(score)] = -np.inf
    score[support] = np.inf
    n_violators = int((excess > 0.0).sum())
    count = min(count, len(support) + max(2 * n_violators, 10), n)
    top = np.argpartition(-score, count - 1)[:count]
    return np.sort(np.union1d(top, support))


def _sizes(state: State) -> np.ndarray:
    """Return how steep the loss falls along each column, 0 or less where it may not go."""
    penalty, point = state.problem.penalty, -state.slopes
    if penalty.bounds is not None:
        ends = np.where(point > 0.0, penalty.bounds.upper, penalty.bounds.lower)
        return np.where(state.coef == ends, 0.0, np.abs(point))
    return point if penalty.is_positive else np.abs(point)


def _choose_sparse(state: State, support: np.ndarray) -> np.ndarray:
    """Return the support and all columns that violate optimality: a sweep costs about a read."""
    penalty, n = state.problem.penalty, state.engine.n_cols
    columns = np.union1d(support, np.flatnonzero(_sizes(state) > penalty.l1))
    is_most = len(columns) > _SHARE_OF_ALL * n or n <= _ALL_COLUMNS
    return np.arange(n) if is_most else columns
