"""Snap ML's metrics: scikit-learn's, of labels or of a partition that has some."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import metrics

from snapml.data import ChunkedDataset

__all__ = [
    "accuracy_score",
    "hinge_loss",
    "labels_of",
    "log_loss",
    "mean_squared_error",
    "r2_score",
    "targets_of",
]


def accuracy_score(data: Any, pred: Any) -> float:
    """Return the share of rows whose label was predicted.

    Parameters
    ----------
    data : ChunkedDataset or array-like of shape (n_rows,)
        A partition, or labels.
    pred : array-like of shape (n_rows,)
        Predicted labels.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If the partition has no labels, or lengths differ.
    """
    return float(metrics.accuracy_score(labels_of(data), pred))


def log_loss(data: Any, proba: Any) -> float:
    """Return the mean negative logarithm of the probability of the true label.

    Parameters
    ----------
    data : ChunkedDataset or array-like of shape (n_rows,)
        A partition, or labels.
    proba : array-like of shape (n_rows,) or (n_rows, n_classes)
        Probabilities of the second class, or of all in the order of their labels.

    Returns
    -------
    float
        At least 0.

    Raises
    ------
    ValueError
        If the partition has no labels, or shapes differ.
    """
    return float(metrics.log_loss(labels_of(data), proba))


def hinge_loss(data: Any, pred_decision: Any) -> float:
    """Return the mean hinge loss of margins.

    Parameters
    ----------
    data : ChunkedDataset or array-like of shape (n_rows,)
        A partition, or labels.
    pred_decision : array-like of shape (n_rows,) or (n_rows, n_classes)
        What ``decision_function`` returned.

    Returns
    -------
    float
        At least 0.

    Raises
    ------
    ValueError
        If the partition has no labels, or shapes differ.
    """
    return float(metrics.hinge_loss(labels_of(data), pred_decision))


def mean_squared_error(data: Any, pred: Any) -> float:
    """Return the mean square of the errors.

    Parameters
    ----------
    data : ChunkedDataset or array-like of shape (n_rows,)
        A partition, or targets.
    pred : array-like of shape (n_rows,)
        Predictions.

    Returns
    -------
    float
        At least 0.

    Raises
    ------
    ValueError
        If the partition has no labels, or lengths differ.
    """
    return float(metrics.mean_squared_error(labels_of(data), pred))


def r2_score(data: Any, pred: Any) -> float:
    """Return the share of the variance that was predicted.

    Parameters
    ----------
    data : ChunkedDataset or array-like of shape (n_rows,)
        A partition, or targets.
    pred : array-like of shape (n_rows,)
        Predictions.

    Returns
    -------
    float
        At most 1.

    Raises
    ------
    ValueError
        If the partition has no labels, or lengths differ.
    """
    return float(metrics.r2_score(labels_of(data), pred))


def labels_of(data: Any) -> np.ndarray:
    """Return the labels of a partition, or what are labels already.

    Parameters
    ----------
    data : ChunkedDataset or array-like
        A partition, or labels.

    Returns
    -------
    ndarray of shape (n_rows,)
        Labels.

    Raises
    ------
    ValueError
        If the partition has none.
    """
    if not isinstance(data, ChunkedDataset):
        return np.asarray(data)
    labels = data.labels()
    if labels is None:
        raise ValueError("data: expected a partition with labels, got one without")
    return labels


def targets_of(X: Any, y: Any) -> Any:
    """Return the targets to score against: those of the partition X where none are given.

    Parameters
    ----------
    X : object
        Rows, or a partition.
    y : array-like of shape (n_rows,) or None
        Targets.

    Returns
    -------
    array-like of shape (n_rows,) or None
        `y`, or the partition's.
    """
    return labels_of(X) if y is None and isinstance(X, ChunkedDataset) else y
