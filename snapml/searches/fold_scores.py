"""Candidates fitted on folds and scored on the rows left out, until a watch ends it."""

from __future__ import annotations

import warnings
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics._scorer import _BaseScorer
from sklearn.utils import _safe_indexing, indexable

from snapml.estimators.base import callers_level
from snapml.estimators.fit_call import as_part
from snapml.estimators.offsets import WithOffset
from snapml.searches.search_watch import SearchWatch, has_ended
from snapml.searches.shared.fold_rows import rows_of

__all__ = ["check_stored_scoring", "fold_scores", "takes_weights"]


def fold_scores(
    model: Any,
    alphas: np.ndarray,
    X: Any,
    y: Any,
    folds: list[tuple[np.ndarray, np.ndarray]],
    scorer: Any,
    fit_params: dict[str, Any],
    score_params: dict[str, Any],
    watch: SearchWatch,
    offset: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Score one strength on all folds after the other.

    Parameters
    ----------
    model : estimator
        With a parameter `alpha`; stays as it is.
    alphas : ndarray of shape (n_alphas,)
        Strengths.
    X, y : object
        The user's rows and targets.
    folds : list of (train, test)
        Row numbers.
    scorer : callable
        Of estimators, rows and targets.
    fit_params, score_params : dict
        For fits and scorer: what has as many rows as the data is cut to those in question.
    watch : SearchWatch
        May end the search.
    offset : ndarray of shape (n_samples,), default=None
        Of the rows, in fits and predictions.

    Returns
    -------
    scores : ndarray of shape (n_folds, n_alphas)
        NaN where the search has not come to the fit's end.
    is_done : ndarray of shape (n_folds, n_alphas), bool
        Where it has.
    """
    X, y = indexable(X, y)
    scores = np.full((len(folds), len(alphas)), np.nan)
    is_done = np.zeros(scores.shape, dtype=bool)
    control = watch.path()
    for at, alpha in enumerate(alphas):
        for number, (train, test) in enumerate(folds):
            if has_ended(control):
                return scores, is_done
            with as_part(clone(model).set_params(alpha=alpha), control) as one:
                given = {name: rows_of(value, train, len(y)) for name, value in fit_params.items()}
                if offset is not None:
                    given["offset"] = offset[train]
                one.fit(_safe_indexing(X, train), _safe_indexing(y, train), **given)
            if control.reason:
                return scores, is_done
            given = {name: rows_of(value, test, len(y)) for name, value in score_params.items()}
            judged = one if offset is None else WithOffset(one, offset[test])
            scores[number, at] = scorer(
                judged, _safe_indexing(X, test), _safe_indexing(y, test), **given
            )
            is_done[number, at] = True
    return scores, is_done


def check_stored_scoring(scoring: Any) -> None:
    """Refuse scoring that cannot judge models by what they say about rows in a store.

    Parameters
    ----------
    scoring : str, callable, list, tuple, dict or None
        Of a search.

    Raises
    ------
    TypeError
        If it takes an estimator and rows.
    """
    for one in scoring.values() if isinstance(scoring, dict) else [scoring]:
        if callable(one) and not isinstance(one, _BaseScorer):
            raise TypeError(
                "X is a store: expected scoring by name or by sklearn.metrics.make_scorer, got "
                f"{one!r}, which takes rows in memory"
            )


def takes_weights(scorer: Any) -> bool:
    """Return whether a scorer can weigh rows; warn where it cannot, as scikit-learn's searches.

    Parameters
    ----------
    scorer : callable
        The user's, or one of scikit-learn's.

    Returns
    -------
    bool
        Whether it takes ``sample_weight``.
    """
    asked = getattr(scorer, "_accept_sample_weight", None)
    accepts: bool = asked() if asked else "sample_weight" in signature(scorer).parameters
    if not accepts:
        warnings.warn(
            f"The scoring {scorer} does not support sample_weight: candidates are judged without",
            UserWarning,
            stacklevel=callers_level(),
        )
    return accepts
