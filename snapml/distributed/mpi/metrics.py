"""scikit-learn's metrics over the rows of all ranks: the same number on every rank.

Each rank passes its own rows, which may be none. What travels are sums, labels and, for
`roc_auc_score`, scores; the results are scikit-learn's on the gathered rows, to rounding.
"""

from __future__ import annotations

from typing import Any

from snapml.distributed.mpi import metric_sums
from snapml.distributed.mpi.agreement import together

__all__ = ["accuracy_score", "hinge_loss", "log_loss", "mean_squared_error", "roc_auc_score"]


def accuracy_score(
    y_true: Any,
    y_pred: Any,
    *,
    comm: Any,
    normalize: bool = True,
    sample_weight: Any = None,
) -> float:
    """Return the share of the rows of all ranks whose labels are predicted right.

    Parameters
    ----------
    y_true : array-like of shape (n_own_samples,)
        Labels of this rank's rows.
    y_pred : array-like of shape (n_own_samples,)
        Predicted labels.
    comm : mpi4py.MPI.Intracomm
        The ranks; all of them call this.
    normalize : bool, default=True
        False returns their number, or the sum of their weights.
    sample_weight : array-like of shape (n_own_samples,), default=None
        Weights of this rank's rows; ones where only other ranks have some.

    Returns
    -------
    float
        As `sklearn.metrics.accuracy_score`.

    Raises
    ------
    RankError
        If another rank has failed; it says which, and of what.
    ValueError
        As scikit-learn does.
    """
    with together(comm) as communicator:
        return metric_sums.accuracy(
            communicator, y_true, y_pred, normalize=normalize, sample_weight=sample_weight
        )


def log_loss(
    y_true: Any,
    y_proba: Any,
    *,
    comm: Any,
    normalize: bool = True,
    sample_weight: Any = None,
    labels: Any = None,
) -> float:
    """Return the mean logistic loss, or cross-entropy, over the rows of all ranks.

    Parameters
    ----------
    y_true : array-like of shape (n_own_samples,)
        Labels of this rank's rows, which need not have all classes.
    y_proba : array-like of shape (n_own_samples, n_classes) or (n_own_samples,)
        Probabilities of the classes in sorted order, or of the second one of two.
    comm : mpi4py.MPI.Intracomm
        The ranks; all of them call this.
    normalize : bool, default=True
        False returns the sum.
    sample_weight : array-like of shape (n_own_samples,), default=None
        Weights of this rank's rows; ones where only other ranks have some.
    labels : array-like, default=None
        All classes; None takes those in the rows of all ranks. The same on all ranks.

    Returns
    -------
    float
        As `sklearn.metrics.log_loss`.

    Raises
    ------
    RankError
        If another rank has failed; it says which, and of what.
    ValueError
        As scikit-learn does, also where the rows of all ranks have one class and `labels` is None.
    """
    with together(comm) as communicator:
        return metric_sums.logistic(
            communicator,
            y_true,
            y_proba,
            normalize=normalize,
            sample_weight=sample_weight,
            labels=labels,
        )


def hinge_loss(
    y_true: Any,
    pred_decision: Any,
    *,
    comm: Any,
    labels: Any = None,
    sample_weight: Any = None,
) -> float:
    """Return the mean hinge loss over the rows of all ranks.

    Parameters
    ----------
    y_true : array-like of shape (n_own_samples,)
        Labels of this rank's rows, which need not have all classes.
    pred_decision : array-like of shape (n_own_samples,) or (n_own_samples, n_classes)
        Decisions, as `decision_function` returns them.
    comm : mpi4py.MPI.Intracomm
        The ranks; all of them call this.
    labels : array-like, default=None
        All classes; None takes those in the rows of all ranks. The same on all ranks.
    sample_weight : array-like of shape (n_own_samples,), default=None
        Weights of this rank's rows; ones where only other ranks have some.

    Returns
    -------
    float
        As `sklearn.metrics.hinge_loss`.

    Raises
    ------
    RankError
        If another rank has failed; it says which, and of what.
    ValueError
        If there are more than two classes, and not one column for each.
    """
    with together(comm) as communicator:
        return metric_sums.hinge(
            communicator, y_true, pred_decision, labels=labels, sample_weight=sample_weight
        )


def mean_squared_error(
    y_true: Any,
    y_pred: Any,
    *,
    comm: Any,
    sample_weight: Any = None,
    multioutput: Any = "uniform_average",
) -> Any:
    """Return the mean squared error over the rows of all ranks.

    Parameters
    ----------
    y_true : array-like of shape (n_own_samples,) or (n_own_samples, n_outputs)
        Targets of this rank's rows.
    y_pred : array-like of the same shape
        Predictions.
    comm : mpi4py.MPI.Intracomm
        The ranks; all of them call this.
    sample_weight : array-like of shape (n_own_samples,), default=None
        Weights of this rank's rows; ones where only other ranks have some.
    multioutput : {'raw_values', 'uniform_average'} or array-like, default='uniform_average'
        Whether to return the error of each output, their mean, or their mean with these weights.

    Returns
    -------
    float or ndarray of shape (n_outputs,)
        As `sklearn.metrics.mean_squared_error`.

    Raises
    ------
    RankError
        If another rank has failed; it says which, and of what.
    ValueError
        As scikit-learn does.
    """
    with together(comm) as communicator:
        return metric_sums.squared_error(
            communicator, y_true, y_pred, sample_weight=sample_weight, multioutput=multioutput
        )


def roc_auc_score(
    y_true: Any,
    y_score: Any,
    *,
    comm: Any,
    sample_weight: Any = None,
) -> float:
    """Return the area under the ROC curve of two classes over the rows of all ranks.

    Parameters
    ----------
    y_true : array-like of shape (n_own_samples,)
        Labels of this rank's rows; the larger of the two is positive.
    y_score : array-like of shape (n_own_samples,)
        Scores of the positive class, in any scale. Scores of one class pass by all ranks, 2**20 at
        a time: no rank gathers them, and equal ones travel once.
    comm : mpi4py.MPI.Intracomm
        The ranks; all of them call this.
    sample_weight : array-like of shape (n_own_samples,), default=None
        Weights of this rank's rows; ones where only other ranks have some.

    Returns
    -------
    float
        As `sklearn.metrics.roc_auc_score`: ties count half; NaN, with a warning, where the rows of
        all ranks have one class.

    Raises
    ------
    RankError
        If another rank has failed; it says which, and of what.
    ValueError
        As scikit-learn does, and if there are more than two classes.
    """
    with together(comm) as communicator:
        return metric_sums.roc_area(communicator, y_true, y_score, sample_weight=sample_weight)
