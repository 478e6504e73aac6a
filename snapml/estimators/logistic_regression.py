"""Logistic regression."""

from __future__ import annotations

import math
import numbers
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score

from snapml._validation import (
    check_classes,
    check_finite_in,
    check_positive,
    check_sample_weight,
)
from snapml.data import ChunkedMatrix, Dataset, Matrix
from snapml.estimators.base import LinearClassifier, all_or_nothing, binary_dataset, callers_level
from snapml.estimators.coefficient_bounds import bounded, check_bounds
from snapml.estimators.fit_call import CallbackSupport
from snapml.estimators.offsets import (
    check_offset,
    start_within_reach,
)
from snapml.estimators.penalty_parameters import resolve_penalty
from snapml.estimators.placement import fit_input, with_host_predictions
from snapml.problems import Intercept, Logistic, Loss, Penalty, Problem, Softmax
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

__all__ = ["LogisticRegression"]

_SOLVERS = (
    "auto",
    "sdca",
    "pqn",
    "lbfgs",
    "liblinear",
    "newton-cg",
    "newton-cholesky",
    "sag",
    "saga",
)
_MULTI_CLASS = ("auto", "multinomial", "ovr")


class LogisticRegression(CallbackSupport, LinearClassifier):
    """Logistic regression with L2, L1, elastic-net or no penalty, for any number of classes.

    Minimises ``sum_i c_i l(z_i, y_i) + l1_ratio ||w||_1 + (1 - l1_ratio) ||w||^2 / 2`` with
    ``c_i = C * sample_weight_i * class_weight(y_i)``, the objective of scikit-learn's class, and
    certifies how far from the minimum the answer can be. The loss ``l`` is ``log(1 + exp(-y z))``
    of two classes and ``log(sum_k exp(z_k)) - z_y`` of more.

    Parameters
    ----------
    penalty : {'l1', 'l2', 'elasticnet', None}, default='deprecated'
        As in scikit-learn 1.9, where it is deprecated: use `l1_ratio`, or ``C=np.inf``.
    C : float, default=1.0
        Inverse of the regularisation strength, positive; ``np.inf`` is no penalty.
    l1_ratio : float, default=0.0
        Share of the L1 norm in the penalty: 0 is L2, 1 is L1, between is elastic net.
    dual : bool, default=False
        Accepted for scikit-learn's sake; the answer is the same.
    tol : float, default=1e-6
        Stop once the certified duality gap is at most `tol` times the objective.
    fit_intercept : bool, default=True
        Whether to fit b. It is not penalised, except with ``solver='liblinear'``.
    intercept_scaling : float, default=1
        With ``solver='liblinear'``: value of the constant column whose coefficient is penalised.
    class_weight : dict or 'balanced', default=None
        Weights of the classes; 'balanced' gives every class the same total weight, `sample_weight`
        included.
    random_state : int, RandomState instance or None, default=None
        Order in which rows are visited, and samples of them. None is a fixed seed: equal fits give
        equal bits.
    solver : str, default='auto'
        'auto' chooses by the data and says why in ``solver_``; 'sdca' is dual coordinate ascent,
        'pqn' the quasi-Newton method, both for smooth penalties. scikit-learn's names are accepted
        and choose like 'auto': the answer is the same. 'liblinear' poses another problem, in which
        the intercept is penalised, and gets that one.
    max_iter : int, default=100
        Most reads of the data beyond the first, which judges the start; 0 keeps the start.
    max_time_s : float or None, default=None
        Seconds after which the fit ends with the best model so far and its certified gap, and with
        a ``ConvergenceWarning``; asked after each read of the data. None sets no bound.
    verbose : int, default=0
        Log progress every `verbose` reads of the data to the logger ``snapml``.
    warm_start : bool, default=False
        Start from the last fit's coefficients, or its dual variables where that solver is used.
    n_jobs : None
        Has no effect, as in scikit-learn 1.8 and later; see `n_threads`.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, fewer on small data.
    deterministic : bool, default=True
        Whether equal fits with equal `n_threads` give equal bits. If False, threads on sparse data
        update one vector without waiting for each other; the certificate holds all the same.
    device_ids : list of int or None, default=None
        GPUs to train on, as CUDA counts them; None is the CPU, or the GPU that X is on. X of the
        host is copied there once, a part of its rows to each.
    memory_limit : int, float, str or 'auto', default='auto'
        What rows may take, as bytes or text such as "4GB": in the machine's memory where they
        stream from a store, and on each GPU. 'auto' is what the store was opened with, or half of
        what is available.
    multi_class : {'auto', 'multinomial', 'ovr'}, default='auto'
        More than two classes: one softmax model ('auto' and 'multinomial', scikit-learn's), or
        one model for each class against the rest.
    bounds : tuple of (lower, upper) or None, default=None
        Of the coefficients: numbers, or array-likes of shape (n_features,), infinite where there is
        no bound; 0 is between them, as in glmnet. For two classes; on the CPU, in memory, up to
        5,000 columns.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        w, in the dtype of X (float64 where X is not float32).
    intercept_ : ndarray of shape (1,) or (n_classes,)
        b.
    classes_ : ndarray of shape (n_classes,)
        Labels; with two, ``coef_`` points to the second.
    gap_ : float
        Certified: the objective is at most this far above its minimum. Without a penalty a bound
        of second order where ``existence_`` is 'proved' [3]_, else four times the Newton
        decrement's estimate.
    existence_ : {'proved', 'separated', 'unknown'}
        Only without a penalty: whether there is a maximum of the likelihood. Where the classes can
        be separated there is none.
    numerical_error_ : float
        Only without a penalty: no coefficient is farther from its maximum-likelihood value than so
        many of its standard errors; infinite unless ``existence_`` is 'proved'.
    objective_ : float
        Value of the objective above, evaluated in float64; summed over the models of
        ``multi_class='ovr'``, as is ``gap_``.
    n_iter_ : ndarray of shape (1,), int32
        Reads of the data beyond the first.
    history_ : list of dict
        One entry per epoch or iteration: ``epoch``, ``time_s``, ``running_gap`` (an estimate), and
        ``gap`` and ``objective`` (NaN where no exact pass was made).
    solver_ : str
        What was run, and why.
    has_offset_ : bool
        Whether fit had an offset, which predictions then need as well.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has string names.

    References
    ----------
    .. [1] Shalev-Shwartz and Zhang, "Stochastic dual coordinate ascent methods for regularized
       loss minimization", JMLR 14, 2013; equations (3)-(6) of docs/algorithms.md.
    .. [2] Liu and Nocedal, "On the limited memory BFGS method for large scale optimization",
       Mathematical Programming 45, 1989; section 8 of docs/algorithms.md.
    .. [3] Bach, "Self-concordant analysis for logistic regression", Electronic Journal of
       Statistics 4, 2010; section 9 of docs/algorithms.md.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from snapml import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LogisticRegression(max_iter=1000).fit((X - X.mean(0)) / X.std(0), y)
    >>> bool(model.gap_ <= 1e-6 * model.objective_)
    True
    """

    bounds: Any = None  # of searches of this kind, which have no such parameter

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
        solver: str = "auto",
        max_iter: int = 100,
        verbose: int = 0,
        warm_start: bool = False,
        n_jobs: Any = None,
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: list[int] | None = None,
        memory_limit: Any = "auto",
        multi_class: str = "auto",
        max_time_s: float | None = None,
        bounds: Any = None,
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
        self.memory_limit = memory_limit
        self.multi_class = multi_class
        self.max_time_s = max_time_s
        self.bounds = bounds

    @all_or_nothing
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, offset: Any = None
    ) -> LogisticRegression:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; float32 and float64 are used in place, in any layout. On a GPU: a CuPy,
            PyTorch or JAX array, a cuDF frame, a CSR or CSC matrix of ``cupyx.scipy.sparse``, or
            anything else with DLPack or ``__cuda_array_interface__``; trained there. Or a
            `ChunkedDataset`, or the path of one: its rows stream past. Or any other source that
            `snapml.io.convert` takes: a file, a folder of Parquet files, an Arrow stream or an
            iterator of batches, written first to a store in the temporary folder (``TMPDIR``) that
            is gone after the fit.
        y : array-like of shape (n_samples,)
            Labels of at least two classes; None takes those that X brings along;
            a text or number names their column in a source.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight k counts as k copies of the row, weight 0 as none.
        offset : float or array-like of shape (n_samples,), default=None
            Added to each row's log-odds ``x.w + b`` as it is, with a coefficient of 1. Of more than
            two classes of shape (n_samples, n_classes), to the margin of each class.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If parameters or data are not as described; the message says what came.
        """
        problem, dataset, rule = self._posed(X, y, sample_weight, offset)
        n_rows, n_features = dataset.matrix.shape
        n_outputs, offsets = 1 if len(self.classes_) == 2 else len(self.classes_), dataset.offsets
        start = self._last_end(n_rows, n_outputs)
        if offsets is not None and problem.intercept is Intercept.FREE:
            exchange = self._communicator().exchange
            start = start_within_reach(start, offsets.T, n_features, exchange)
        solver = self.solver if self.solver in ("sdca", "pqn") else "auto"
        self._store_model(self._run(X, problem, dataset, rule, start, solver), problem.penalty)
        return self

    def decision_function(self, X: Any, *, offset: Any = None) -> Any:
        """Return the signed margin of each row: positive means the second class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        offset : float or array-like of shape (n_samples,), default=None
            Added to each row's margin; required where fit had one (0 leaves it out).

        Returns
        -------
        array of shape (n_samples,), or (n_samples, n_classes) for more than two classes
            ``X @ coef_.T + intercept_ + offset``; of NumPy, or where X is on a GPU of X's library
            there.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before fit.
        ValueError
            If X has another number of features than in fit, or is not finite; if the offset is
            missing, or not as described.
        """
        return self._signed_margins(*self._decision(X, offset))

    def predict(self, X: Any, *, offset: Any = None) -> Any:
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        offset : float or array-like of shape (n_samples,), default=None
            Added to each row's margin; required where fit had one (0 leaves it out).

        Returns
        -------
        array of shape (n_samples,)
            Labels as given to fit; of NumPy, or where X is on a GPU of X's library there, unless
            they are no numbers.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before fit.
        ValueError
            As of `decision_function`.
        """
        return self._labels_of(*self._decision(X, offset))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Return the accuracy on rows and their labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        offset : float or array-like of shape (n_samples,), default=None
            Added to each row's margin; required where fit had one (0 leaves it out).

        Returns
        -------
        float
            Share of the weights whose rows are predicted right.
        """
        X, y, sample_weight, offset = with_host_predictions(X, y, sample_weight, offset)
        found = self.predict(X, offset=offset)
        return float(accuracy_score(y, found, sample_weight=sample_weight))

    def predict_proba(self, X: Any, *, offset: Any = None) -> Any:
        """Predict the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        offset : float or array-like of shape (n_samples,), default=None
            Added to each row's margin; required where fit had one (0 leaves it out).

        Returns
        -------
        array of shape (n_samples, n_classes)
            Columns in the order of ``classes_``; where it is, and of which library, as in
            `decision_function`.
        """
        place, scores = self._decision(X, offset)
        xp, special = place.xp, place.special
        with place.use():
            if scores.shape[1] == 1:
                both = xp.concatenate([-scores, scores], axis=1)
                return place.give(special.expit(both))
            # Relative to the largest, so that a row far from every class keeps its order.
            shares = special.log_expit(scores) if self.multi_class == "ovr" else scores
            return place.give(special.softmax(shares, axis=1))

    def predict_log_proba(self, X: Any, *, offset: Any = None) -> Any:
        """Predict the logarithm of the probability of each class, finite at any margin.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        offset : float or array-like of shape (n_samples,), default=None
            Added to each row's margin; required where fit had one (0 leaves it out).

        Returns
        -------
        array of shape (n_samples, n_classes)
            Columns in the order of ``classes_``; where it is, and of which library, as in
            `decision_function`.
        """
        place, scores = self._decision(X, offset)
        xp, special = place.xp, place.special
        with place.use():
            if scores.shape[1] == 1:
                both = xp.concatenate([-scores, scores], axis=1)
                return place.give(special.log_expit(both))
            shares = special.log_expit(scores) if self.multi_class == "ovr" else scores
            return place.give(special.log_softmax(shares, axis=1))

    def _store_model(self, result: FitResult, penalty: Penalty) -> None:
        """Keep what a fit has found, on an estimator that knows its classes."""
        n_outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        self.coef_ = result.coef.reshape(n_outputs, -1)
        self.intercept_ = np.array(result.intercept, dtype=self.coef_.dtype).reshape(n_outputs)
        self.n_iter_ = np.array([result.n_iter], dtype=np.int32)
        self._store_certificate([result])
        self._store_proof(penalty, result)
        self._last_result = result if self.warm_start else None
        self._keep_objective()

    def _pose_for_groups(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Problem, Dataset, StoppingRule] | None:
        """Return the problem that groups of the rows share, None where each has its own.

        Checks the data of all, and stores what fits have in common.
        """
        is_plain = self.solver not in ("sdca", "pqn") and self.max_time_s is None
        if not is_plain or self.class_weight is not None or self.warm_start or self.verbose:
            return None
        if self._asked_devices():
            return None
        problem, dataset, rule = self._posed(X, y, sample_weight, None)
        is_other = len(self.classes_) > 2 or isinstance(dataset.matrix, ChunkedMatrix)
        if is_other or rule.control.is_active:
            return None
        return problem, dataset, rule.at_resolution_of(dataset.labels.dtype)

    def _posed(
        self, X: Any, y: Any, sample_weight: Any, offset: Any
    ) -> tuple[Problem, Dataset, StoppingRule]:
        """Check parameters and data, and return what they ask for."""
        self._check_parameters()
        cost, penalty = self._cost_and_penalty()
        rule = self._stopping_rule(self.max_iter)
        matrix, y = fit_input(self, X, y)
        exchange = self._communicator().exchange
        weights = check_sample_weight(sample_weight, matrix, exchange)
        classes = self.classes_ = check_classes(self, y, exchange)
        offsets = check_offset(offset, matrix, X, len(classes))
        self.has_offset_ = offsets is not None
        check_finite_in("C", cost, matrix.dtype)
        penalty = self._within_bounds(penalty, matrix, classes)
        problem, dataset = self._pose(matrix, y, classes, weights, cost, penalty)
        if offsets is not None:
            dataset = replace(dataset, offsets=np.ascontiguousarray(offsets.T))
        return problem, dataset, rule

    def _check_parameters(self) -> None:
        """Refuse parameters that are not as described."""
        self._checked_devices()
        if self.solver not in _SOLVERS:
            raise ValueError(f"solver: expected one of {_SOLVERS}, got {self.solver!r}")
        if self.multi_class not in _MULTI_CLASS:
            raise ValueError(
                f"multi_class: expected one of {_MULTI_CLASS}, got {self.multi_class!r}"
            )
        if self.n_jobs is not None:
            warnings.warn(
                "'n_jobs' has no effect since version 1.8 of scikit-learn, and will be removed in "
                f"1.10. You provided 'n_jobs={self.n_jobs}'; use n_threads",
                FutureWarning,
                stacklevel=callers_level(),
            )

    def _cost_and_penalty(self) -> tuple[float, Penalty]:
        """Return C, or 1 where there is no penalty, and the penalty."""
        C, share = resolve_penalty(self.penalty, self.C, self.l1_ratio)
        cost = check_positive("C", C)
        is_number = isinstance(share, numbers.Real) and not isinstance(share, bool)
        if not (is_number and 0.0 <= float(share) <= 1.0):
            raise ValueError(f"l1_ratio: expected a number from 0 to 1, got {share!r}")
        if math.isinf(cost):
            return 1.0, Penalty(0.0, 0.0)
        return cost, Penalty(float(share), 1.0 - float(share))

    def _within_bounds(self, penalty: Penalty, matrix: Matrix, classes: np.ndarray) -> Penalty:
        """Return the penalty with the user's bounds on coefficients."""
        names = getattr(self, "feature_names_in_", None)
        bounds = check_bounds(self.bounds, matrix.shape[1], matrix.dtype, names)
        if bounds is not None and len(classes) > 2:
            raise ValueError(f"bounds: expected two classes, got {len(classes)}")
        has_column = self.solver == "liblinear" and bool(self.fit_intercept)
        return bounded(penalty, bounds, n_more=int(has_column))

    def _pose(
        self,
        matrix: Matrix,
        y: np.ndarray,
        classes: np.ndarray,
        weights: np.ndarray | None,
        cost: float,
        penalty: Penalty,
    ) -> tuple[Problem, Dataset]:
        """Return the problem that the parameters and the classes mean, whatever `C` is."""
        factors = self._class_factors(y, classes, weights)
        row_weights = self._row_weights(cost, y, factors, weights, matrix.dtype)
        if len(classes) == 2:
            dataset = binary_dataset(matrix, y == classes[1], row_weights, cost)
            return self._problem(penalty), dataset
        if self.multi_class == "ovr":
            labels = np.where(y == classes[:, None], 1.0, -1.0).astype(matrix.dtype)
            dataset = Dataset(matrix, labels, row_weights, cost)
            return self._problem(penalty), dataset
        if self.solver == "liblinear":
            raise ValueError(
                "Only binary classification is supported. The 'liblinear' solver does not support "
                f"multiclass classification since scikit-learn 1.8, got {len(classes)} classes: "
                "use another solver, or multi_class='ovr' for one model per class"
            )
        numbers_of = np.searchsorted(classes, y).astype(matrix.dtype)
        dataset = Dataset(matrix, numbers_of, row_weights, cost)
        return self._problem(penalty, Softmax(len(classes))), dataset

    def _problem(self, penalty: Penalty, loss: Loss | None = None) -> Problem:
        """Return the problem of a loss, by default that of one class against another."""
        intercept = Intercept.FREE if self.fit_intercept else Intercept.NONE
        scaling = 1.0
        if self.fit_intercept and self.solver == "liblinear":
            intercept, scaling = Intercept.PENALISED, self._checked_scaling()
        return Problem(Logistic() if loss is None else loss, intercept, scaling, penalty)

    def _bias_value(self) -> float:
        is_penalised = self.solver == "liblinear" and self.fit_intercept
        return float(self.intercept_scaling) if is_penalised else 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.solver != "liblinear" or self.multi_class == "ovr"
        return tags
