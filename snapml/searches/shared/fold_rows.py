"""Rows of folds: copies of those in memory or on a GPU, weights of those in a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snapml._validation import as_matrix
from snapml.data import ChunkedMatrix, CompressedMatrix, DenseMatrix, Matrix
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.estimators.placement import margins_where_rows_are
from snapml.kernels import ResidentMatrix
from snapml.searches.shared.models import SharedModel

__all__ = [
    "FoldRows",
    "Judge",
    "StoredFoldRows",
    "fold_labels",
    "fold_rows",
    "fold_weights",
    "rows_of",
    "take_rows",
]

Judge = Callable[[LogisticRegression, SharedModel | None], tuple[Any, Any]]
"""Takes a model of a fold, and what it was found as where it was shared.

Returns what a scorer gets: a model, and the rows that the fold leaves out as that model knows them.
"""


class FoldRows:
    """Rows in memory or on a GPU, of which each fold copies its own.

    Parameters
    ----------
    matrix : Matrix
        All rows.
    y : ndarray of shape (n_samples,)
        Their labels.
    weights : ndarray of shape (n_samples,) or None
        Their weights.
    offset : ndarray of shape (n_samples,) or None
        Theirs.
    """

    def __init__(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, offset: np.ndarray | None
    ) -> None:
        self.whole = _selectable(matrix)
        self._y, self._weights, self._offset = y, weights, offset

    @property
    def shown(self) -> Any:
        """What splitters see of the rows."""
        is_elsewhere = isinstance(self.whole, ResidentMatrix | ChunkedMatrix)
        return np.empty((len(self._y), 0)) if is_elsewhere else self.whole

    def fit(self, model: LogisticRegression, train: np.ndarray) -> None:
        """Fit a model to some rows.

        Parameters
        ----------
        model : LogisticRegression
            With its parameters.
        train : ndarray of shape (n_train,), int
            Row numbers.
        """
        weights = None if self._weights is None else self._weights[train]
        offset = None if self._offset is None else self._offset[train]
        model.fit(self._taken(train), self._y[train], weights, offset=offset)

    def judge_of(self, test: np.ndarray) -> Judge:
        """Return what hands models and some rows to a scorer.

        Parameters
        ----------
        test : ndarray of shape (n_test,), int
            Row numbers.

        Returns
        -------
        callable
            Here, all models get the same copy of the rows.
        """
        rows = self._taken(test)
        return lambda model, _: (model, rows)

    def _taken(self, chosen: np.ndarray) -> Any:
        """Return a copy of the chosen rows, where they are."""
        is_resident = isinstance(self.whole, ResidentMatrix)
        return self.whole.take(chosen) if is_resident else self.whole[chosen]


class StoredFoldRows(FoldRows):
    """Rows that stay in a store: a fold is a weight of each, and models are judged by margins."""

    def fit(self, model: LogisticRegression, train: np.ndarray) -> None:
        """Fit a model to some rows: to the store, where the others weigh nothing."""
        weights = fold_weights(train, len(self._y), self._weights, self.whole.dtype)
        model.fit(self.whole, fold_labels(train, self._y), weights, offset=self._offset)

    def judge_of(self, test: np.ndarray) -> Judge:
        """Return what hands models and some rows to a scorer.

        The rows are those of the model's margins, as shared fits have them or one read of the store
        finds them, and the model one that takes them for the margins that they are.
        """

        def judge(model: LogisticRegression, shared: SharedModel | None) -> tuple[Any, Any]:
            margins = None if shared is None else shared.margins_of(test)
            if margins is None:
                coef, intercept = model.coef_, np.broadcast_to(model.intercept_, len(model.coef_))
                margins = margins_where_rows_are(model, self.whole, coef, intercept)[1][test]
            columns = margins.reshape(len(test), -1).astype(self.whole.dtype)
            return _of_margins(model), columns

        return judge


def fold_rows(
    matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, offset: np.ndarray | None = None
) -> FoldRows:
    """Return the rows of a search, to take folds of.

    Parameters
    ----------
    matrix : Matrix
        All rows, wherever they are.
    y : ndarray of shape (n_samples,)
        Their labels.
    weights : ndarray of shape (n_samples,) or None
        Their weights.
    offset : ndarray of shape (n_samples,), default=None
        Theirs.

    Returns
    -------
    FoldRows
        A `StoredFoldRows` for those of a store.
    """
    kind = StoredFoldRows if isinstance(matrix, ChunkedMatrix) else FoldRows
    return kind(matrix, y, weights, offset)


def fold_labels(train: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return labels of all rows, of which those that a fold leaves out are among the fold's.

    A class without rows in the fold would have no intercept that is best.

    Parameters
    ----------
    train : ndarray of shape (n_train,), int
        Row numbers of the fold, at least one.
    y : ndarray of shape (n_rows,)
        Labels of all rows.

    Returns
    -------
    ndarray of shape (n_rows,)
        As `y` where the fold has the row.
    """
    is_in = np.zeros(len(y), dtype=bool)
    is_in[train] = True
    return np.where(is_in, y, y[train[0]])


def fold_weights(
    train: np.ndarray, n_rows: int, weights: np.ndarray | None, dtype: np.dtype
) -> np.ndarray:
    """Return a fold as weights of all rows.

    Parameters
    ----------
    train : ndarray of shape (n_train,), int
        Row numbers; one that comes twice counts twice.
    n_rows : int
        How many there are.
    weights : ndarray of shape (n_rows,) or None
        Of all rows; None is one each.
    dtype : numpy dtype
        Of the rows.

    Returns
    -------
    ndarray of shape (n_rows,), dtype
        Zero where the fold leaves a row out.
    """
    counts = np.bincount(train, minlength=n_rows).astype(dtype)
    return counts if weights is None else counts * weights


def _of_margins(model: LogisticRegression) -> LogisticRegression:
    """Return a model that says of margins what another says of the rows they come from."""
    n_outputs = len(model.coef_)
    judge = LogisticRegression(**model.get_params())
    judge.classes_, judge.n_features_in_ = model.classes_, n_outputs
    judge.coef_ = np.eye(n_outputs, dtype=model.coef_.dtype)
    judge.intercept_ = np.zeros(n_outputs, dtype=model.coef_.dtype)
    return judge


def _selectable(matrix: Matrix) -> Any:
    """Return checked rows as what fancy indices select from; a store's stay as they are."""
    if isinstance(matrix, ChunkedMatrix):
        return matrix
    if isinstance(matrix, ResidentMatrix):
        return ResidentMatrix(matrix.device, matrix.device_id, matrix.rows)
    if isinstance(matrix, DenseMatrix):
        return matrix.values
    assert isinstance(matrix, CompressedMatrix)  # the only other container
    values = matrix.values
    if values is None:
        values = np.ones(matrix.n_stored, dtype=matrix.dtype)
    return csr_matrix((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def rows_of(value: Any, chosen: np.ndarray, n_rows: int) -> Any:
    """Return the chosen rows of what has as many as the data, anything else as it is.

    Parameters
    ----------
    value : object
        Given to fit or to a scorer.
    chosen : ndarray
        Row numbers, or a mask.
    n_rows : int
        How many the data has.

    Returns
    -------
    object
        An ndarray where it was cut.
    """
    array = np.asarray(value)
    return array[chosen] if array.shape[:1] == (n_rows,) else value


def take_rows(matrix: Matrix, rows: np.ndarray) -> Matrix:
    """Return a copy of some rows, in memory or on the GPU that they are on.

    Parameters
    ----------
    matrix : Matrix
        All rows.
    rows : ndarray
        Their numbers, or on the host a mask.

    Returns
    -------
    Matrix
        Of the original's kind.
    """
    if isinstance(matrix, ResidentMatrix):
        return matrix.take(rows)
    if not isinstance(matrix, CompressedMatrix):
        return as_matrix(matrix.values[rows])  # type: ignore[attr-defined]
    values = matrix.values
    stored = np.ones(matrix.n_stored, matrix.dtype) if values is None else values
    parts = (stored, matrix.indices, matrix.indptr)
    return as_matrix(csr_matrix(parts, shape=matrix.shape)[rows])
