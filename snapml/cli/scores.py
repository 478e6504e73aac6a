"""How good predictions are, added up batch by batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from snapml.io.readers.batch import Batch

__all__ = ["RunningScore"]


class RunningScore:
    """Accuracy and log loss of a classifier, R^2 of a regressor, weighted where rows have weights.

    Parameters
    ----------
    model : fitted estimator
        Of one target.
    """

    def __init__(self, model: Any) -> None:
        self._is_classifier = is_classifier(model)
        self._classes: Any = getattr(model, "classes_", None)
        self.methods = ["predict"]
        """What the model is to be asked for."""
        if hasattr(model, "predict_log_proba"):
            self.methods.append("predict_log_proba")
        self._weight = self._right = self._loss = 0.0
        self._mean = self._spread = self._squares = 0.0

    def add(self, batch: Batch, results: list[Any]) -> None:
        """Add the rows of a batch.

        Parameters
        ----------
        batch : Batch
            With labels.
        results : list of array
            Of `methods`.

        Raises
        ------
        ValueError
            If the batch has no labels, or one that the model does not know.
        """
        if batch.y is None:
            raise ValueError(
                "--score: expected rows with labels, got some without: --label names their column"
            )
        y, weights = batch.y, batch.sample_weight
        weights = np.ones(len(y)) if weights is None else weights.astype(np.float64)
        if self._is_classifier:
            numbers = self._numbers(y)
            self._right += float(weights @ (results[0] == y))
            if len(results) > 1:
                self._loss -= float(weights @ results[1][np.arange(len(y)), numbers])
            self._weight += float(weights.sum())
        else:
            self._squares += float(weights @ (y - results[0]) ** 2)
            self._add_targets(y, weights)

    def values(self) -> dict[str, str]:
        """Return the names and values of the scores."""
        if not self._is_classifier:
            share = self._squares / self._spread if self._spread else math.nan
            return {"R2": f"{1.0 - share:.9g}"}
        found = {"accuracy": f"{self._right / self._weight:.9g}"}
        if len(self.methods) > 1:
            found["log loss"] = f"{self._loss / self._weight:.9g}"
        return found

    def _numbers(self, y: np.ndarray) -> np.ndarray:
        numbers = np.searchsorted(self._classes, y).clip(max=len(self._classes) - 1)
        unknown = self._classes[numbers] != y
        if unknown.any():
            raise ValueError(
                f"--score: expected labels of {self._classes.tolist()}, got {y[unknown][0]!r}"
            )
        return numbers

    def _add_targets(self, y: np.ndarray, weights: np.ndarray) -> None:
        """Add to the spread around the mean, which moves (Chan, Golub and LeVeque, 1983)."""
        weight = float(weights.sum())
        if weight == 0.0:
            return
        mean = float(weights @ y) / weight
        total = self._weight + weight
        apart = mean - self._mean
        self._spread += float(weights @ (y - mean) ** 2) + apart**2 * self._weight * weight / total
        self._mean += apart * weight / total
        self._weight = total
