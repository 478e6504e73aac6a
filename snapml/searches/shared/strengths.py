"""Fits of one fold that differ in the strength of their penalty: solved and judged together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from snapml.data import CompressedMatrix, DenseMatrix, Matrix
from snapml.searches.shared.fold_margins import margins_of
from snapml.searches.shared.fold_rows import take_rows
from snapml.searches.shared.models import SharedFit, SharedModel
from snapml.solvers.range_checks import NonFiniteError

__all__ = ["FoldSolver", "Found", "solve_by_strength"]

Found = tuple[np.ndarray, Any, int]
"""Coefficients of shape (n_features,) or (n_outputs, n_features), intercepts, reads of the data."""

FoldSolver = Callable[
    [list[Any], np.ndarray, Matrix, np.ndarray, np.ndarray | None], list[Found | None]
]
"""Takes estimators from strong penalties to weak ones, numbers of the fold's rows, all rows, their
targets and weights; returns a model for each, None where one has to be fitted alone."""


def solve_by_strength(
    fits: list[SharedFit],
    solvers: list[FoldSolver],
    folds: list[np.ndarray],
    matrix: DenseMatrix | CompressedMatrix,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
    is_over: Callable[[], bool],
    kept: list[np.ndarray] | None,
    is_quick: list[bool] | None = None,
) -> list[SharedModel | None]:
    """Fit estimators, those of a fold that differ in alpha, or C, together.

    Parameters
    ----------
    fits : list of SharedFit
        What to fit.
    solvers : list of callable
        What solves each of them, together with those like it.
    folds : list of ndarray
        Numbers of the rows of each fold.
    matrix : DenseMatrix or CompressedMatrix
        All rows, finite.
    y : ndarray of shape (n_samples,)
        Their labels, or targets.
    sample_weight : ndarray of shape (n_samples,) or None
        Their weights.
    is_over : callable
        Asked before each group: True ends all that are left.
    kept : list of ndarray or None
        Sorted numbers of the rows whose margins each fold's models keep; None means all.
    is_quick : list of bool or None, default=None
        Which of the fits take milliseconds: they are made without asking, and `is_over` ends them
        afterwards, as if all folds had gone on together from strong penalties to weak ones.

    Returns
    -------
    list of SharedModel or None
        In the order of `fits`; None for those that have to be fitted one by one.
    """
    models: list[SharedModel | None] = [None] * len(fits)
    groups: dict[tuple[int, str], list[int]] = {}
    for at, fit in enumerate(fits):
        others = {k: v for k, v in fit.estimator.get_params().items() if k not in ("alpha", "C")}
        groups.setdefault((fit.fold, f"{type(fit.estimator)}{others}"), []).append(at)
    quick = [at for at in range(len(fits)) if is_quick is not None and is_quick[at]]
    for (fold, _), members in groups.items():
        if members[0] not in quick and is_over():
            break
        members.sort(key=lambda at: _strength(fits[at].estimator), reverse=True)
        estimators = [fits[at].estimator for at in members]
        try:
            found = solvers[members[0]](estimators, folds[fold], matrix, y, sample_weight)
        except (ValueError, NonFiniteError):
            continue  # ordinary fits say what is wrong
        rows = None if kept is None else kept[fold]
        shared = _with_margins(found, matrix, rows, estimators[0].n_threads)
        for at, model in zip(members, shared, strict=True):
            models[at] = model
    quick.sort(key=lambda at: _strength(fits[at].estimator), reverse=True)
    has_ended = False
    for at in quick:
        has_ended = has_ended or is_over()
        models[at] = None if has_ended else models[at]
    return models


def _strength(estimator: Any) -> float:
    """Return a number that rises with the penalty."""
    return float(estimator.alpha if hasattr(estimator, "alpha") else -estimator.C)


def _with_margins(
    found: list[Found | None], matrix: Matrix, rows: np.ndarray | None, n_threads: int | None
) -> list[SharedModel | None]:
    """Return models with their margins on some rows, of one read of these."""
    able = [one for one in found if one is not None]
    if not able:
        return [None] * len(found)
    shape = np.shape(able[0][1])  # one output, or the classes
    coefs = np.vstack([np.atleast_2d(coef) for coef, _, _ in able])
    intercepts = np.ravel([intercept for _, intercept, _ in able])
    judged = matrix if rows is None else take_rows(matrix, rows)
    columns = margins_of(judged, coefs, intercepts, n_threads)
    each = iter(columns.reshape(len(columns), len(able), len(coefs) // len(able)).swapaxes(0, 1))
    return [
        None
        if one is None
        else SharedModel(
            *one[:2], next(each).reshape(len(columns), *shape).copy(), one[2], rows=rows
        )
        for one in found
    ]
