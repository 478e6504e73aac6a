"""Searches over rows in a store: a fold is a weight of each row, and nothing is copied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_array

from snapml._validation import check_sample_weight, refuse_store
from snapml.data import ChunkedMatrix
from snapml.estimators.base import LinearEstimator
from snapml.estimators.placement import byte_limit
from snapml.estimators.row_sources import is_row_source, stored_source
from snapml.searches.fold_scores import check_stored_scoring
from snapml.searches.shared.fold_rows import fold_labels, fold_weights
from snapml.searches.stand_in import SharedSearch

__all__ = ["StoredRows", "StoredSearch", "check_stored_search", "stored_rows"]


@dataclass(frozen=True)
class StoredRows:
    """What a search over a store is about.

    Attributes
    ----------
    matrix : ChunkedMatrix
        The rows, as many of them in memory as the estimator allows.
    y : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Targets.
    weights : ndarray of shape (n_samples,) or None
        Weights that were passed, or the store's.
    feature_names : tuple of str or None
        Where the columns of a file have names.
    encoding : mapping or None
        How fields became hashed columns, where they did.
    """

    matrix: ChunkedMatrix
    y: np.ndarray
    weights: np.ndarray | None
    feature_names: tuple[str, ...] | None
    encoding: Mapping[str, Any] | None


def check_stored_search(estimator: Any, scoring: Any, params: dict[str, Any]) -> None:
    """Refuse what a search cannot do with rows in a store.

    Parameters
    ----------
    estimator : estimator
        That of the search.
    scoring : str, callable, list, tuple, dict or None
        Its scoring.
    params : dict
        Those of its fit.

    Raises
    ------
    NotImplementedError
        If the estimator trains on rows in memory only.
    TypeError
        If there are an estimator, a scorer or parameters that need rows in memory.
    """
    if not isinstance(estimator, LinearEstimator):
        raise TypeError(
            "X is a store: expected a linear model of snapml as the estimator, got "
            f"{type(estimator).__name__}; pass what X.load() returns"
        )
    if "memory_limit" not in estimator.get_params(deep=False):
        refuse_store(estimator)
    check_stored_scoring(scoring)
    others = sorted(set(params) - {"sample_weight", "groups"})
    if others:
        raise TypeError(f"X is a store: expected sample_weight or groups, got {', '.join(others)}")


def stored_rows(estimator: Any, X: Any, y: Any, sample_weight: Any) -> StoredRows:
    """Return the rows of a store; those of a file or stream are written to a temporary one.

    Inside of ``with removing_temporary_stores()``.

    Parameters
    ----------
    estimator : estimator
        Its ``memory_limit`` bounds the rows in memory.
    X : ChunkedDataset, path, Arrow stream or iterator
        As for the estimator's fit.
    y : array-like, str, int or None
        As for the estimator's fit.
    sample_weight : array-like of shape (n_samples,) or None
        None takes the store's.

    Returns
    -------
    StoredRows
        Checked.

    Raises
    ------
    ValueError, TypeError, OSError
        As the estimator's fit does.
    """
    limit = byte_limit(estimator)
    if is_row_source(X):
        X, y, _ = stored_source(X, y, limit)
    y = X.labels() if y is None else y
    if y is None:
        raise ValueError("y: expected targets, since the store was written without labels")
    y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    if len(y) != X.shape[0]:
        raise ValueError(f"y has {len(y)} rows, X has {X.shape[0]}")
    matrix = ChunkedMatrix(X, limit)
    return StoredRows(
        matrix, y, check_sample_weight(sample_weight, matrix), X.feature_names, X.manifest.encoding
    )


@dataclass
class StoredSearch(SharedSearch):
    """A search whose rows stay in a store.

    Attributes
    ----------
    y : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Targets of all rows.
    weights : ndarray of shape (n_samples,) or None
        Weights of all rows.
    """

    y: Any = None
    weights: np.ndarray | None = None

    def fit_alone(self, estimator: Any, rows: np.ndarray, y: Any, params: dict[str, Any]) -> None:
        """Fit an estimator: to the store, on which the weights of rows outside a fold are zero."""
        weights, targets = self.weights, self.y
        if self.is_searching:
            targets = fold_labels(rows, targets) if is_classifier(estimator) else targets
            weights = fold_weights(rows, len(self.y), weights, self.X.dtype)
        estimator.fit(self.X, targets, sample_weight=weights)

    def predictions(
        self, estimator: Any, name: str, rows: np.ndarray, *others: Any, **params: Any
    ) -> Any:
        """Return what a method says about some rows: the store is read once for all of them."""
        if name != "score":
            return getattr(estimator, name)(self.X, *others, **params)[rows]
        given = others[1] if len(others) > 1 else params.get("sample_weight")
        weights = np.zeros(len(self.y))
        np.add.at(weights, rows, 1.0 if given is None else given)
        return estimator.score(self.X, self.y, sample_weight=weights)
