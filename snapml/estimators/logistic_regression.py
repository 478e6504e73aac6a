"""Logistic regression."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

import numpy as np
from scipy.special import expit, log_expit
from sklearn.utils.multiclass import type_of_target

from snapml._validation import (
    check_classes,
    check_finite_in,
    check_fit_input,
    check_positive,
    check_sample_weight,
)
from snapml.estimators.base import LinearClassifier, all_or_nothing, binary_dataset, callers_level
from snapml.estimators.penalty_parameters import resolve_penalty
from snapml.problems import Intercept, Logistic, Problem
from snapml.solvers.result import FitResult

__all__ = ["LogisticRegression"]

_SOLVERS = ("lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga")


class LogisticRegression(LinearClassifier):
    """Logistic regression with L2 penalty, for two classes.

    Minimises ``sum_i c_i log(1 + exp(-y_i (x_i.w + b))) + ||w||^2 / 2`` with
    ``c_i = C * sample_weight_i * class_weight(y_i)``, the objective of scikit-learn's class, and
    certifies how far from the minimum the answer can be. Solved by stochastic dual coordinate
    ascent [1]_ on all cores.

    Parameters
    ----------
    penalty : {'l2'}, default='deprecated'
        As in scikit-learn 1.9, where it is deprecated: leave it out.
    C : float, default=1.0
        Inverse of the regularisation strength, positive and finite.
    l1_ratio : float, default=0.0
        Only 0 (L2) in this version.
    dual : bool, default=False
        Accepted for scikit-learn's sake; the answer is the same.
    tol : float, default=1e-6
        Stop once the certified duality gap is at most `tol` times the objective.
    fit_intercept : bool, default=True
        Whether to fit b. It is not penalised, except with ``solver='liblinear'``.
    intercept_scaling : float, default=1
        With ``solver='liblinear'``: value of the constant column whose coefficient is penalised.
    class_weight : dict or 'balanced', default=None
        Weights of the classes; 'balanced' gives every class the same total weight.
    random_state : int, RandomState instance or None, default=None
        Order in which rows are visited. None is a fixed order: equal fits give equal bits.
    solver : str, default='lbfgs'
        scikit-learn's names are accepted and all give the same exact answer; 'liblinear' poses
        another problem, in which the intercept is penalised, and gets that one.
    max_iter : int, default=100
        Most epochs (reads of the data).
    verbose : int, default=0
        Log progress every `verbose` epochs to the logger ``snapml``.
    warm_start : bool, default=False
        Start from the dual variables of the last fit, where the number of rows is the same.
    n_jobs : None
        Has no effect, as in scikit-learn 1.8 and later; see `n_threads`.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, fewer on small data.
    deterministic : bool, default=True
        Whether equal fits with equal `n_threads` give equal bits. If False, threads on sparse data
        update one vector without waiting for each other; the certificate holds all the same.
    device_ids : None
        GPUs are not supported in this version.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        w, in the dtype of X (float64 where X is not float32).
    intercept_ : ndarray of shape (1,)
        b.
    classes_ : ndarray of shape (2,)
        Labels; ``coef_`` points to the second.
    gap_ : float
        Certified duality gap: the objective is at most this far above its minimum.
    objective_ : float
        Value of the objective above, evaluated in float64.
    n_iter_ : ndarray of shape (1,), int32
        Epochs.
    history_ : list of dict
        One entry per epoch: ``epoch``, ``time_s``, ``running_gap`` (an estimate), and ``gap`` and
        ``objective`` (NaN where no exact pass was made).
    solver_ : str
        What was run.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where X has string names.

    References
    ----------
    .. [1] Shalev-Shwartz and Zhang, "Stochastic dual coordinate ascent methods for regularized
       loss minimization", JMLR 14, 2013; equations (3)-(6) of docs/algorithms.md.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from snapml import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LogisticRegression(max_iter=1000).fit((X - X.mean(0)) / X.std(0), y)
    >>> bool(model.gap_ <= 1e-6 * model.objective_)
    True
    """

    def __init__(
        self,
        penalty: Any = "deprecated",
        *,
        C: Any = 1.0,
        l1_ratio: float = 0.0,
        dual: bool = False,
        tol: float = 1e-6,
        fit_intercept: bool = True,
        intercept_scaling: float = 1,
        class_weight: Any = None,
        random_state: Any = None,
        solver: str = "lbfgs",
        max_iter: int = 100,
        verbose: int = 0,
        warm_start: bool = False,
        n_jobs: Any = None,
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: None = None,
    ) -> None:
        self.penalty = penalty
        self.C = C
        self.l1_ratio = l1_ratio
        self.dual = dual
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.random_state = random_state
        self.solver = solver
        self.max_iter = max_iter
        self.verbose = verbose
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.n_threads = n_threads
        self.deterministic = deterministic
        self.device_ids = device_ids

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticRegression:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; float32 and float64 are used in place, in any layout.
        y : array-like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight k counts as k copies of the row, weight 0 as none.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If parameters or data are not as described; the message says what came.
        NotImplementedError
            For problems this version cannot solve yet: ``C=np.inf``, L1, more than two classes.
        """
        problem = self._make_problem()
        cost = check_positive("C", self.C)
        rule = self._stopping_rule(self.max_iter)
        matrix, y = check_fit_input(self, X, y)
        weights = check_sample_weight(sample_weight, matrix)
        classes = check_classes(self, y)
        if len(classes) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(y)} ({len(classes)} classes). For one model per class wrap the "
                "estimator in sklearn.multiclass.OneVsRestClassifier."
            )
        check_finite_in("C", cost, matrix.dtype)
        factors = self._class_factors(y, classes, weights)
        row_weights = self._row_weights(cost, y, factors, weights, matrix.dtype)
        dataset = binary_dataset(matrix, y == classes[1], row_weights, cost)
        result = self._run(X, problem, dataset, rule, self._start_from(matrix.shape[0]))
        self.classes_ = classes
        self.coef_ = result.coef.reshape(1, -1)
        self.intercept_ = np.array([result.intercept], dtype=matrix.dtype)
        self.n_iter_ = np.array([result.n_iter], dtype=np.int32)
        self._store_certificate([result])
        self._last_result = result if self.warm_start else None
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Columns in the order of ``classes_``.
        """
        scores = self.decision_function(X)
        return np.column_stack([expit(-scores), expit(scores)])

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Predict the logarithm of the probability of each class, finite at any margin.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Columns in the order of ``classes_``.
        """
        scores = self.decision_function(X)
        return np.column_stack([log_expit(-scores), log_expit(scores)])

    def _make_problem(self) -> Problem:
        """Map the parameters to the objective, refusing what cannot be solved yet."""
        self._check_device()
        if self.solver not in _SOLVERS:
            raise ValueError(f"solver: expected one of {_SOLVERS}, got {self.solver!r}")
        self._check_penalty()
        if self.n_jobs is not None:
            warnings.warn(
                "'n_jobs' has no effect since version 1.8 of scikit-learn, and will be removed in "
                f"1.10. You provided 'n_jobs={self.n_jobs}'; use n_threads",
                FutureWarning,
                stacklevel=callers_level(),
            )
        if not self.fit_intercept:
            return Problem(Logistic())
        if self.solver == "liblinear":
            return self._penalised_intercept(Logistic())
        return Problem(Logistic(), Intercept.FREE)

    def _check_penalty(self) -> None:
        C, l1_ratio = resolve_penalty(self.penalty, self.C, self.l1_ratio)
        if isinstance(C, numbers.Real) and math.isinf(C):
            raise NotImplementedError(
                "no penalty (C=np.inf): dual coordinate ascent needs one; a finite C such as 1e3 "
                "comes close, and scikit-learn's LogisticRegression(C=np.inf) solves it exactly"
            )
        if l1_ratio != 0:
            raise NotImplementedError(
                f"penalty={self.penalty!r}, l1_ratio={self.l1_ratio!r}: this version solves L2 "
                "(l1_ratio=0) only; scikit-learn's solver='saga' solves the others"
            )

    def _start_from(self, n_rows: int) -> FitResult | None:
        """Return the last fit's result where its dual states fit the data."""
        last: FitResult | None = getattr(self, "_last_result", None) if self.warm_start else None
        return last if last is not None and len(last.duals) == n_rows else None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
