"""What a Spark job is asked to fit, and what it answers: plain values that travel as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

__all__ = ["FamilyName", "FitOutcome", "FitRequest"]


class FamilyName(NamedTuple):
    """A family of targets in Spark's words.

    Attributes
    ----------
    name : str
        'gaussian', 'binomial', 'poisson', 'gamma' or 'tweedie'.
    link : str
        'identity', 'log', 'logit', 'probit' or 'cloglog': one that the family is fitted with.
    power : float
        Of the mean, that a 'tweedie' variance is proportional to: from 1 to 2.
    """

    name: str
    link: str
    power: float = 0.0


_GAUSSIAN = FamilyName("gaussian", "identity")


@dataclass(frozen=True)
class FitRequest:
    """One fit in Spark's terms: the mean loss plus ``regParam`` times the penalty.

    Attributes
    ----------
    model : str
        'binomial' or 'multinomial' (logistic loss), 'logistic' (the one that the number of classes
        asks for), 'linear' (squared loss), 'svm' (hinge loss) or 'glm' (half the deviance of a
        family).
    features_col : str or tuple of str
        A column of vectors or arrays, or columns of numbers.
    label_col : str
        Of numbers; classes are 0, 1, ..., n_classes - 1.
    weight_col : str or None
        Of weights; None weighs all rows alike.
    offset_col : str or None
        Of numbers that are added to margins; the squared loss takes them from the labels.
    family : FamilyName
        Of a 'glm'.
    reg_params, elastic_net_params : tuple of float
        One pair a model; all share one read of the DataFrame.
    fit_intercept : bool
        Whether the model has an intercept, which is not penalised.
    standardization : bool
        Whether coefficients are penalised in units of their columns' standard deviations.
    deviations : str
        Deviations of columns and labels: 'sample' (over n - 1), or 'normal equations' (over n) and
        'auto' (which of them by the number of columns), as Spark's LinearRegression has them.
    max_iter : int
        Most reads of the data.
    tol : float
        Relative duality gap at which a fit ends.
    n_workers : int or None
        Tasks; None takes all slots of the cluster.
    solver : str
        'auto', 'pqn' or 'sdca'.
    memory_limit : str or int or None
        Of each task; more rows than that stream from its disk.
    n_threads : int or None
        Of each task; None takes the cores that Spark gives a task.
    float32 : bool
        Whether features are kept in float32 instead of float64.
    use_gpu : bool
        Whether tasks train on GPUs.
    device_ids : tuple of int or None
        Numbers of the GPUs of each host, one a task there; None takes those that Spark gives.
    checkpoint_dir : str or None
        Folder that the driver and all tasks see, for the state of the fit; None keeps none.
    checkpoint_interval : float
        Seconds between two writes of that state; 0 writes it after every read of the data.
    timeout : float
        Most seconds that a task waits for another.
    """

    model: str
    features_col: str | tuple[str, ...]
    label_col: str
    weight_col: str | None = None
    offset_col: str | None = None
    family: FamilyName = _GAUSSIAN
    reg_params: tuple[float, ...] = (0.0,)
    elastic_net_params: tuple[float, ...] = (0.0,)
    fit_intercept: bool = True
    standardization: bool = True
    deviations: str = "sample"
    max_iter: int = 100
    tol: float = 1e-6
    n_workers: int | None = None
    solver: str = "auto"
    memory_limit: str | int | None = None
    n_threads: int | None = None
    float32: bool = False
    use_gpu: bool = False
    device_ids: tuple[int, ...] | None = None
    checkpoint_dir: str | None = None
    checkpoint_interval: float = 600.0
    timeout: float = 1800.0


@dataclass(frozen=True)
class FitOutcome:
    """One fitted model, in the units of the DataFrame's columns.

    Attributes
    ----------
    coef : ndarray of shape (n_rows, n_features), float64
        One row for two classes, the hinge and the squared loss; else one a class.
    intercept : ndarray of shape (n_rows,), float64
        Zeros where none is fitted.
    n_classes : int
        Of the labels; 0 where they are numbers.
    objective : float
        Mean loss plus penalty at the model.
    gap : float
        Certified bound of its distance from the least one.
    n_iter : int
        Reads of the data.
    has_converged : bool
        Whether the gap met the tolerance.
    solver : str
        What was run, and why.
    objective_history : list of float
        Objectives that were certified on the way, the model's last.
    weight_sum : float
        Of all rows.
    n_samples : int
        Rows of all tasks.
    mean_curvature : float
        What the strength of the penalty was multiplied by, of a 'glm'; 1 of others.
    """

    coef: np.ndarray
    intercept: np.ndarray
    n_classes: int
    objective: float
    gap: float
    n_iter: int
    has_converged: bool
    solver: str
    objective_history: list[float]
    weight_sum: float
    n_samples: int
    mean_curvature: float = 1.0
