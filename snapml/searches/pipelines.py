"""Searches over pipelines: transformers are fitted once a fold; last steps share what these made.

A fold's transformed rows are its own, so fits share their reads within a fold: values of C and
class weights are columns of one solve there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _check_feature_names

from snapml._validation import check_fit_input, check_sample_weight
from snapml.searches.shared.fits import can_share, solve_shared
from snapml.searches.shared.models import SharedFit, fitted
from snapml.searches.stand_in import SharedSearch, last_step, parameters_of
from snapml.solvers.rows.cpu_rows import check_rows

__all__ = ["is_shareable", "solve_pipelines"]


def is_shareable(estimator: Any) -> bool:
    """Return whether an estimator is a pipeline whose fits may share its transformers' rows."""
    return (
        type(estimator) is Pipeline
        and len(estimator.steps) > 1
        and estimator.transform_input is None
        and not estimator.verbose
    )


def solve_pipelines(
    candidates: list[Any],
    search: SharedSearch,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
    tol: float,
) -> None:
    """Fit the pipelines that can share, and put their models into the search.

    Parameters
    ----------
    candidates : list of Pipeline
        Not fitted.
    search : SharedSearch
        Rows and folds; gets the models.
    y : ndarray of shape (n_samples,)
        Labels, or targets.
    sample_weight : ndarray of shape (n_samples,) or None
        For the last steps; not checked yet.
    tol : float
        As of `many_models.solve`.
    """
    groups: dict[str, list[Any]] = {}
    for one in candidates:
        groups.setdefault(parameters_of(one[:-1]), []).append(one)
    for members in groups.values():
        for fold in range(len(search.folds)):
            if search.is_over():
                return
            _solve_fold(members, search, fold, y, sample_weight, tol)


def _solve_fold(
    members: list[Any],
    search: SharedSearch,
    fold: int,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
    tol: float,
) -> None:
    """Fit pipelines of equal transformers on one fold."""
    train, test = search.folds[fold]
    transformers = clone(members[0][:-1])
    try:
        rows = transformers.fit_transform(search.rows(train), y[train])
        matrix, labels = check_fit_input(clone(last_step(members[0])), rows, y[train])
        check_rows(matrix, last_step(members[0]).n_threads)
        own = None if sample_weight is None else sample_weight[train]
        own = check_sample_weight(own, matrix)
        others = transformers.transform(search.rows(test))
    except Exception:  # of any transformer: the ordinary fits meet it again, and say so
        return
    able = [
        one for one in members if can_share(last_step(one), matrix, search.classes, with_paths=True)
    ]
    fits = [SharedFit(last_step(one), 0) for one in able]
    everything = [np.arange(len(train))]
    models = solve_shared(fits, everything, matrix, labels, own, tol, search.is_over)
    for one, model in zip(able, models, strict=True):
        if model is None:
            continue
        # Of rows in neither part there are none: no scorer asks for them.
        margins = np.full((len(y), *model.margins.shape[1:]), np.nan, dtype=model.margins.dtype)
        margins[train] = model.margins
        judge = fitted(last_step(one), model, search.classes)
        _check_feature_names(judge, rows, reset=True)
        found = judge._decision(others)[1]
        margins[test] = found if margins.ndim == 2 else found[:, 0]
        search.models[parameters_of(one), fold] = replace(
            model, margins=margins, transformers=transformers
        )
