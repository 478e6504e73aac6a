"""What logistic regression and support vector machines under Snap ML's names share."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin

from snapml.compat.base import LinearModel
from snapml.compat.metrics import targets_of

__all__ = ["LinearClassifier"]


class LinearClassifier(ClassifierMixin, LinearModel):
    """What both classifiers share."""

    class_weight: Any

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or ChunkedDataset
            Rows, or a partition.
        y : array-like of shape (n_rows,), default=None
            Labels; None takes those of the partition.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights.

        Returns
        -------
        float
            Share of the rows that are predicted right.
        """
        return float(super().score(X, targets_of(X, y), sample_weight))

    def _learned(self, estimator: Any, seen: Any, n_rows: int) -> dict[str, Any]:
        return {**super()._learned(estimator, seen, n_rows), "classes_": estimator.classes_}
