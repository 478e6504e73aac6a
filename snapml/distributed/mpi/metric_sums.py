"""Metrics as sums over the rows of all ranks; scikit-learn's on the rows of all, to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from snapml.distributed.mpi.agreement import check_alike
from snapml.distributed.mpi.ranking import CountedScores, area_under_curve
from snapml.solvers.communicator import Communicator

__all__ = ["accuracy", "hinge", "logistic", "roc_area", "squared_error"]


def accuracy(
    communicator: Communicator, y_true: Any, y_pred: Any, *, normalize: bool, sample_weight: Any
) -> float:
    """Return `accuracy_score` over ranks.

    Parameters
    ----------
    communicator : Communicator
        The ranks; all of them call this.
    y_true, y_pred, normalize, sample_weight : object
        As for `snapml.distributed.mpi.metrics.accuracy_score`.

    Returns
    -------
    float
        The same on all ranks.
    """
    if _n_rows(communicator, y_true, y_pred, sample_weight) == 0:
        return metrics.accuracy_score(y_true, y_pred, normalize=normalize)
    _check_kinds(communicator, y_true)
    weights = _weights(communicator, sample_weight, len(y_true))
    options = {"normalize": False, "sample_weight": weights}
    counts = _counts(weights, len(y_true))
    right = metrics.accuracy_score(y_true, y_pred, **options) if counts else 0.0
    return float(_mean(communicator, right, weights, len(y_true), normalize=normalize))


def logistic(
    communicator: Communicator,
    y_true: Any,
    y_proba: Any,
    *,
    normalize: bool,
    sample_weight: Any,
    labels: Any,
) -> float:
    """Return `log_loss` over ranks.

    Parameters
    ----------
    communicator : Communicator
        The ranks; all of them call this.
    y_true, y_proba, normalize, sample_weight, labels : object
        As for `snapml.distributed.mpi.metrics.log_loss`.

    Returns
    -------
    float
        The same on all ranks.
    """
    if _n_rows(communicator, y_true, y_proba, sample_weight) == 0:
        return metrics.log_loss(y_true, y_proba, labels=labels)
    classes = _classes(communicator, y_true, labels)
    if labels is None and len(classes) < 2:
        return metrics.log_loss(classes, np.full(1, 0.5))  # which says what it expects
    weights = _weights(communicator, sample_weight, len(y_true))
    options = {"labels": classes, "normalize": False, "sample_weight": weights}
    counts = _counts(weights, len(y_true))
    loss = metrics.log_loss(y_true, y_proba, **options) if counts else 0.0
    return float(_mean(communicator, loss, weights, len(y_true), normalize=normalize))


def hinge(
    communicator: Communicator, y_true: Any, pred_decision: Any, *, labels: Any, sample_weight: Any
) -> float:
    """Return `hinge_loss` over ranks.

    Parameters
    ----------
    communicator : Communicator
        The ranks; all of them call this.
    y_true, pred_decision, labels, sample_weight : object
        As for `snapml.distributed.mpi.metrics.hinge_loss`.

    Returns
    -------
    float
        The same on all ranks.
    """
    if _n_rows(communicator, y_true, pred_decision, sample_weight) == 0:
        return metrics.hinge_loss(y_true, pred_decision, labels=labels)
    present = _classes(communicator, y_true, None)
    classes = present if labels is None else _classes(communicator, y_true, labels)
    n_own = len(y_true)
    if n_own == 0:
        margins = np.empty(0)
    elif len(classes) > 2:
        margins = _multiclass_margins(np.asarray(y_true), pred_decision, classes)
    else:
        margins = _binary_margins(column_or_1d(y_true), pred_decision, present)
    losses = np.maximum(1.0 - margins, 0.0)
    weights = _weights(communicator, sample_weight, n_own)
    loss = losses.sum() if weights is None else weights @ losses
    return float(_mean(communicator, loss, weights, n_own, normalize=True))


def squared_error(
    communicator: Communicator, y_true: Any, y_pred: Any, *, sample_weight: Any, multioutput: Any
) -> Any:
    """Return `mean_squared_error` over ranks.

    Parameters
    ----------
    communicator : Communicator
        The ranks; all of them call this.
    y_true, y_pred, sample_weight, multioutput : object
        As for `snapml.distributed.mpi.metrics.mean_squared_error`.

    Returns
    -------
    float or ndarray of shape (n_outputs,)
        The same on all ranks.
    """
    if _n_rows(communicator, y_true, y_pred, sample_weight) == 0:
        return metrics.mean_squared_error(y_true, y_pred)
    n_own = len(y_true)
    options: dict[str, Any] = {"ensure_2d": False, "dtype": np.float64}
    true, predicted = (
        check_array(y, input_name=name, **options).reshape(n_own, -1) if n_own else None
        for name, y in (("y_true", y_true), ("y_pred", y_pred))
    )
    widths = [None if y is None else y.shape[1] for y in (true, predicted)]
    known = [w for own in communicator.exchange(widths) for w in own if w is not None]
    if len(set(known)) > 1:
        raise ValueError(f"y_true and y_pred: expected the same number of outputs, got {known}")
    squares = np.empty((0, known[0])) if true is None else (true - predicted) ** 2
    weights = _weights(communicator, sample_weight, n_own)
    sums = squares.sum(axis=0) if weights is None else weights @ squares
    errors = _mean(communicator, sums, weights, n_own, normalize=True)
    if isinstance(multioutput, str):
        return errors if multioutput == "raw_values" else float(np.average(errors))
    return float(np.average(errors, weights=multioutput))


def roc_area(communicator: Communicator, y_true: Any, y_score: Any, *, sample_weight: Any) -> float:
    """Return `roc_auc_score` over ranks.

    Parameters
    ----------
    communicator : Communicator
        The ranks; all of them call this.
    y_true, y_score, sample_weight : object
        As for `snapml.distributed.mpi.metrics.roc_auc_score`.

    Returns
    -------
    float
        The same on all ranks.
    """
    if _n_rows(communicator, y_true, y_score, sample_weight) == 0:
        return metrics.roc_auc_score(y_true, y_score)
    classes = _classes(communicator, y_true, None)
    if len(classes) == 1:
        return metrics.roc_auc_score(classes, [0.0])  # which says that it is not defined
    if len(classes) > 2:
        raise ValueError(f"y_true: expected two classes, got {len(classes)}: {classes.tolist()}")
    n_own = len(y_true)
    scores = column_or_1d(check_array(y_score, ensure_2d=False)) if n_own else np.empty(0)
    weights = _weights(communicator, sample_weight, n_own)
    is_positive = np.asarray(y_true).reshape(-1) == classes[1]
    positive, negative = (
        CountedScores.of(scores[rows], None if weights is None else weights[rows])
        for rows in (is_positive, ~is_positive)
    )
    return area_under_curve(communicator, positive, negative)


def _n_rows(communicator: Communicator, *arrays: Any) -> int:
    """Check that a rank's arrays have as many rows, and return the number of all ranks'."""
    check_consistent_length(*arrays)
    return int(sum(communicator.exchange(len(arrays[0]))))


def _weights(communicator: Communicator, sample_weight: Any, n_own: int) -> np.ndarray | None:
    """Return this rank's weights; ones where only others have some, None where nobody has."""
    if not any(communicator.exchange(sample_weight is not None)):
        return None
    weights = np.ones(n_own)
    if sample_weight is not None and n_own:
        options: dict[str, Any] = {"ensure_2d": False, "dtype": np.float64}
        weights = column_or_1d(check_array(sample_weight, input_name="sample_weight", **options))
    if not any(communicator.exchange(bool(weights.any()))):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weights


def _counts(weights: np.ndarray | None, n_own: int) -> bool:
    """Return whether this rank has rows to count; scikit-learn refuses to count none."""
    return n_own > 0 and (weights is None or bool(weights.any()))


def _mean(
    communicator: Communicator, own: Any, weights: np.ndarray | None, n_own: int, *, normalize: bool
) -> Any:
    """Return the sum over ranks, by the sum of weights if `normalize`."""
    total_weight = float(n_own) if weights is None else float(weights.sum())
    addend = np.append(np.asarray(own, np.float64), total_weight)
    *sums, weight = communicator.allreduce_sum(addend)
    found = np.array(sums)
    if normalize:
        if weight == 0.0:
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
        found /= weight
    return found if np.ndim(own) else found[0]


def _check_kinds(communicator: Communicator, y_true: Any) -> None:
    """Refuse text on some ranks and numbers on others."""
    kind = "text" if np.asarray(y_true).dtype.kind in "OUS" else "numbers"
    kinds = communicator.exchange(kind if len(y_true) else None)
    known = next(found for found in kinds if found is not None)
    check_alike("y_true", [{"kind of labels": found or known} for found in kinds])


def _classes(communicator: Communicator, y_true: Any, labels: Any) -> np.ndarray:
    """Return the labels given, which must be the same on all ranks, or those of all ranks' rows."""
    given = None if labels is None else np.asarray(labels)
    shown = None if given is None else given.tolist()
    check_alike("labels", [{"labels": repr(own)} for own in communicator.exchange(shown)])
    if given is not None:
        return np.unique(given)
    _check_kinds(communicator, y_true)
    own = np.unique(column_or_1d(y_true)) if len(y_true) else None
    return np.unique(
        np.concatenate([found for found in communicator.exchange(own) if found is not None])
    )


def _binary_margins(y: np.ndarray, pred_decision: Any, present: np.ndarray) -> np.ndarray:
    if len(present) > 2:
        raise ValueError(f"y_true: expected two labels as in labels, got {present.tolist()}")
    decision = column_or_1d(check_array(pred_decision, ensure_2d=False)).astype(np.float64)
    is_positive = (y == present[1]) if len(present) == 2 else np.zeros(len(y), bool)
    return np.where(is_positive, decision, -decision)


def _multiclass_margins(y: np.ndarray, pred_decision: Any, classes: np.ndarray) -> np.ndarray:
    """Return how far the decision for the label is above the best other one."""
    decision = check_array(pred_decision, ensure_2d=False).astype(np.float64)
    if decision.shape != (len(y), len(classes)):
        raise ValueError(
            f"pred_decision: expected shape {(len(y), len(classes))}, a column for each of the "
            f"labels {classes.tolist()}, got {decision.shape}: pass labels that no rank has too"
        )
    numbers = np.searchsorted(classes, y)
    if (numbers == len(classes)).any() or (classes[numbers] != y).any():
        raise ValueError(f"y_true: expected labels among {classes.tolist()}, got others too")
    rows = np.arange(len(y))
    own = decision[rows, numbers].copy()
    decision[rows, numbers] = -np.inf
    return own - decision.max(axis=1)
