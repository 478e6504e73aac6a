"""Ridge regression: linear least squares with L2 penalty, of numbers and of classes."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from snapml._validation import check_finite_in, check_labels, check_sample_weight, distinct
from snapml.data import ChunkedMatrix, Dataset, DenseMatrix, Matrix
from snapml.estimators.base import LinearClassifier, LinearEstimator, all_or_nothing
from snapml.estimators.fit_call import CallbackSupport
from snapml.estimators.linear_regression import (
    LinearRegressor,
    check_nonnegative,
    few_columns_fit,
    least_squares_fit,
)
from snapml.estimators.offsets import check_offset, targets_without
from snapml.estimators.placement import fit_input, host_copy_errors
from snapml.problems import Intercept, Penalty, Problem, Squared
from snapml.solvers.control import Interim, among_outputs
from snapml.solvers.least_squares.least_squares import is_direct
from snapml.solvers.least_squares.result import LeastSquaresResult
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

__all__ = ["Ridge", "RidgeClassifier", "RidgeLabels"]

_logger = logging.getLogger("snapml")
_SOLVERS = ("auto", "sdca", "pqn", "svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga")
_ITERATIVE = ("sdca", "pqn", "sag", "saga")  # of these, those that never solve equations
_DEFAULT_MAX_ITER = 1000
# Iterations do not get closer than the rounding of their running sums.
_LEAST_ITERATIVE_TOL = 1e-12
# Entries up to which forming the normal equations takes no time.
_SMALL = 1_000_000
# Targets of dense rows that one Gram matrix serves sooner than iterations, whose own factors are of
# up to so many columns (solvers/plan/choice.py).
_MANY_TARGETS, _FEW_COLUMNS = 4, 512
# Columns up to which the equations are solved however many the rows are: their products cost less
# than two or three reads. Twice as many where rows have at most so many entries.
_NARROW, _FEW_ENTRIES = 256, 40
# Rows, fewer than columns, and numbers of theirs up to which products of rows are made of a centred
# copy, of up to so many columns a row; squares of their lengths beside alpha from which on epochs
# are many, and rows that show it.
_MOST_ROWS, _MOST_CENTRED, _WIDEST, _LONG, _LOOKED_AT = 4096, 1 << 23, 32, 5.0, 64
# Share of the entries up to which sparse rows are thin, and reads of them (50 products each) within
# which conjugate gradients must get to the minimum where equations would be small.
_THIN, _TRIAL_READS = 0.3, 8


class RidgeModel(CallbackSupport, LinearEstimator):
    """What ridge regression and the ridge classifier share: parameters and fitting."""

    alpha: Any
    fit_intercept: bool
    solver: str
    positive: bool

    def _fit_targets(
        self, X: Any, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None
    ) -> None:
        """Fit one model per target, on checked data."""
        problem = self._make_problem()
        max_iter = _DEFAULT_MAX_ITER if self.max_iter is None else self.max_iter
        rule = self._stopping_rule(max_iter)
        self._seed()  # refuses what is none
        alphas = self._alphas(1 if y.ndim == 1 else y.shape[1])
        for alpha in alphas[alphas > 0]:
            check_finite_in("alpha", alpha, matrix.dtype)
            check_finite_in("1 / alpha", 1.0 / alpha, matrix.dtype)
        is_small = self._is_direct(matrix, alphas)
        if not rule.control.is_active:
            is_small = is_small or self._has_few_rows(matrix, alphas)
        started_s = time.perf_counter()
        may_try = problem.intercept is not Intercept.PENALISED and not rule.control.is_active
        if not is_small and may_try and self._is_narrow(matrix):
            found = few_columns_fit(self, matrix, y, weights, alphas)
            if found is not None:
                self._store_direct(found, started_s, y, alphas)
                return
        if not is_small or self._is_worth_a_trial(matrix, alphas):
            own = replace(rule, max_iter=min(rule.max_iter, _TRIAL_READS)) if is_small else rule
            results = self._iterated(X, matrix, y, weights, alphas, problem, own, is_trial=is_small)
            is_over = rule.control.reason != "" or all(result.has_converged for result in results)
            if is_over or not is_small:
                self._store_iterated(results, y)
                return
        self._fit_directly(X, matrix, y, weights, alphas)

    def _interim_attributes(self, model: Interim) -> dict[str, Any]:
        attributes = super()._interim_attributes(model)
        return attributes | ({"coef_": model.coef[0]} if len(model.coef) == 1 else {})

    def _store_models(self, coef: np.ndarray, intercept: np.ndarray, y: np.ndarray) -> None:
        """Keep one model per target, or the only one in the shape of a single target."""
        self.coef_ = coef[0] if len(coef) == 1 else coef
        self.intercept_ = intercept[0] if y.ndim == 1 else intercept

    def _is_direct(self, matrix: Matrix, alphas: np.ndarray) -> bool:
        """Say whether to solve linear equations: what iterations cannot do, and what is small."""
        devices = self._checked_devices(matrix)
        if self.positive and alphas.min() == 0:
            with host_copy_errors(matrix):
                check_nonnegative(matrix, devices)
        if devices or isinstance(matrix, ChunkedMatrix):
            return False
        if self._communicator().size > 1:
            return bool(alphas.min() == 0)
        if self.positive or alphas.min() == 0 or self.tol < _LEAST_ITERATIVE_TOL:
            return True
        if self.solver in _ITERATIVE or not is_direct(matrix.shape):
            return False
        has_many_targets = len(alphas) >= _MANY_TARGETS and matrix.shape[1] > _FEW_COLUMNS
        is_one_gram = has_many_targets and isinstance(matrix, DenseMatrix)
        return is_one_gram or matrix.n_stored <= _SMALL

    def _has_few_rows(self, matrix: Matrix, alphas: np.ndarray) -> bool:
        """Say whether dense rows are so few and long that their equations are soonest solved.

        Of short rows, for their penalty, coordinate ascent takes few epochs.
        """
        if not isinstance(matrix, DenseMatrix) or self._checked_devices(matrix):
            return False
        if self._communicator().size > 1 or self.solver in _ITERATIVE:
            return False
        n_rows, n_features = matrix.shape
        if not n_rows < n_features <= _WIDEST * n_rows:
            return False
        if n_rows > _MOST_ROWS or matrix.n_stored > _MOST_CENTRED:
            return False
        some = matrix.values[:: max(1, n_rows // _LOOKED_AT)].astype(np.float64)
        return bool(np.einsum("ij,ij->", some, some) > _LONG * alphas.max() * len(some))

    def _is_narrow(self, matrix: Matrix) -> bool:
        """Say whether rows are many, but their equations take less time than two or three reads."""
        if self.positive or self._checked_devices(matrix) or self._communicator().size > 1:
            return False
        if self.solver in _ITERATIVE or isinstance(matrix, ChunkedMatrix):
            return False
        has_few_products = matrix.n_stored <= _FEW_ENTRIES * matrix.shape[0]
        return matrix.shape[1] <= (2 * _NARROW if has_few_products else _NARROW)

    def _is_worth_a_trial(self, matrix: Matrix, alphas: np.ndarray) -> bool:
        """Say whether small rows are so thin that few products with them may be all they need."""
        if self.positive or alphas.min() == 0 or self.tol < _LEAST_ITERATIVE_TOL:
            return False
        if isinstance(matrix, DenseMatrix) or self._communicator().size > 1:
            return False
        n_rows, n_features = matrix.shape
        if n_rows <= n_features:  # equations of the rows have a trial of their own
            return False
        return n_features > _FEW_COLUMNS and matrix.n_stored <= _THIN * n_rows * n_features

    def _fit_directly(
        self,
        X: Any,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        alphas: np.ndarray,
    ) -> None:
        """Solve the normal equations, or decompose the matrix."""
        started_s = time.perf_counter()
        result = least_squares_fit(
            self, X, matrix, y, weights, alphas=alphas, is_positive=self.positive, tol=self.tol
        )
        self._store_direct(result, started_s, y, alphas)

    def _store_direct(
        self, result: LeastSquaresResult, started_s: float, y: np.ndarray, alphas: np.ndarray
    ) -> None:
        """Keep the models that linear equations have."""
        time_s = time.perf_counter() - started_s
        self._store_models(result.coef, result.intercept, y)
        self.n_iter_ = np.ones(len(alphas), dtype=np.int32)
        # Objective (1) is divided by alpha, where there is one.
        divisor = np.where(alphas > 0, alphas, 1.0)
        gaps, objectives = result.gap / divisor, result.objective / divisor
        self.gap_, self.objective_ = float(gaps.sum()), float(objectives.sum())
        self.solver_ = result.description
        histories = [
            [{"epoch": 1, "time_s": time_s, "running_gap": gap, "gap": gap, "objective": objective}]
            for gap, objective in zip(gaps.tolist(), objectives.tolist(), strict=True)
        ]
        self.history_ = histories[0] if len(histories) == 1 else histories
        if self.verbose > 0:
            _logger.info("%s: certified gap %.3g, %.2f s", self.solver_, self.gap_, time_s)

    def _iterated(
        self,
        X: Any,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        alphas: np.ndarray,
        problem: Problem,
        rule: StoppingRule,
        *,
        is_trial: bool,
    ) -> list[FitResult]:
        """Run an iterative solver; targets with one alpha share each read of the data."""
        with np.errstate(over="ignore"):  # refused as not finite
            columns = self._target_columns(matrix, y)
            targets = np.ascontiguousarray(columns.T, dtype=matrix.dtype)
        is_shared = len(targets) > 1 and bool((alphas == alphas[0]).all())
        solver = self.solver if self.solver in ("sdca", "pqn") else "auto"
        results: list[FitResult] = []
        for labels, alpha in zip([targets] if is_shared else targets, alphas, strict=False):
            cost = float(1.0 / alpha) if alpha > 0.0 else 1.0
            if alpha == 0.0:
                problem = replace(problem, penalty=replace(problem.penalty, l2=0.0))
            row_weights = None if weights is None else weights * matrix.dtype.type(cost)
            dataset = Dataset(matrix, labels, row_weights, cost)
            own = rule
            if not is_shared and len(targets) > 1:
                view = rule.control.through(among_outputs(results, len(targets)))
                own = replace(rule, control=view)
            result = self._run(X, problem, dataset, own, solver=solver, is_trial=is_trial)
            results.append(result)
            if is_trial and not result.has_converged and rule.control.reason == "":
                break  # it has failed
        return results

    def _store_iterated(self, results: list[FitResult], y: np.ndarray) -> None:
        """Keep models of one target or several each."""
        coef = np.vstack([result.coef for result in results])
        intercept = np.hstack([result.intercept for result in results]).astype(coef.dtype)
        self._store_models(coef, intercept, y)
        n_iter = np.array([result.n_iter for result in results], dtype=np.int32)
        self.n_iter_ = np.broadcast_to(n_iter, len(coef)).copy()
        self._store_certificate(results)

    def _alphas(self, n_targets: int) -> np.ndarray:
        """Return the regularisation strength of every target."""
        try:
            alphas = np.atleast_1d(np.asarray(self.alpha, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise TypeError(f"alpha: expected a number or numbers, got {self.alpha!r}") from error
        if alphas.ndim != 1:
            raise ValueError(f"alpha: expected a number or a vector, got shape {alphas.shape}")
        if len(alphas) not in (1, n_targets):
            raise ValueError(
                "Number of targets and number of penalties do not correspond: "
                f"{len(alphas)} != {n_targets}"
            )
        if not np.all(np.isfinite(alphas)) or alphas.min() < 0:
            raise ValueError(f"alpha: expected finite numbers >= 0, got {self.alpha!r}")
        return np.broadcast_to(alphas, n_targets)

    def _make_problem(self) -> Problem:
        """Map the parameters to the objective, refusing what cannot be solved yet."""
        self._checked_devices()
        if self.solver not in (*_SOLVERS, "lbfgs"):
            raise ValueError(f"solver: expected one of {_SOLVERS}, got {self.solver!r}")
        if self.solver == "lbfgs" and not self.positive:
            raise ValueError(
                "'lbfgs' solver can be used only when positive=True. Please use another solver."
            )
        if self.positive and self.solver not in ("auto", "lbfgs"):
            raise ValueError(
                f"solver='{self.solver}' does not support positive fitting. Please set the solver "
                "to 'auto' or 'lbfgs', or set `positive=False`"
            )
        intercept = Intercept.FREE if self.fit_intercept else Intercept.NONE
        return Problem(Squared(), intercept, penalty=Penalty(is_positive=bool(self.positive)))


class Ridge(RidgeModel, LinearRegressor):
    """Linear least squares with L2 penalty.

    Minimises ``sum_i sample_weight_i (x_i.w + b - y_i)^2 + alpha ||w||^2``, the objective of
    scikit-learn's class; divided by ``2 alpha`` it is objective (1) of docs/notation.md with
    ``C = 1 / alpha``. Where rows or columns are few, the normal equations are solved in float64 by
    Cholesky factorisation and refined on the residual; thin sparse rows of many columns take
    conjugate gradients; else the solver follows the data, as in `LogisticRegression` [1]_. With a
    certified duality gap in every case.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1.0
        Regularisation strength, at least 0; 0 gives the least-squares model of least norm.
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised.
    copy_X : bool, default=True
        Has no effect: X is never changed.
    max_iter : int or None, default=None
        Most reads of the data of an iterative solver; None means 1000.
    tol : float, default=1e-8
        Stop once the certified duality gap is at most `tol` times the objective.
    solver : str, default='auto'
        'auto' chooses by the data; 'sdca' is dual coordinate ascent, 'pqn' the quasi-Newton method.
        scikit-learn's names are accepted and choose like 'auto', but 'sag' and 'saga' iterate also
        on small data. The answer is the same.
    positive : bool, default=False
        Whether negative coefficients are forbidden; for 'auto' and 'lbfgs'.
    random_state : int, RandomState instance or None, default=None
        Order in which rows are visited, and samples of them. None is a fixed seed: equal fits give
        equal bits.
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
    max_time_s : float or None, default=None
        Seconds after which the fit ends with the best model so far and its certified gap, and with
        a ``ConvergenceWarning``; asked after each read of the data; linear
        equations are solved to their end. None sets no bound.
    verbose : int, default=0
        Log progress every `verbose` reads of the data to the logger ``snapml``.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        w, in the dtype of X (float64 where X is not float32).
    intercept_ : float or ndarray of shape (n_targets,)
        b.
    gap_ : float
        Certified duality gap of objective (1), summed over the targets.
    objective_ : float
        Value of objective (1), summed over the targets, evaluated in float64; times ``2 alpha``
        it is scikit-learn's. With ``alpha=0`` half of scikit-learn's.
    n_iter_ : ndarray of shape (n_targets,), int32
        Reads of the data; one where linear equations were solved.
    history_ : list of dict, or one such list per target
        One entry per read: ``epoch``, ``time_s``, ``running_gap`` (an estimate), and ``gap`` and
        ``objective`` (NaN where no exact pass was made).
    solver_ : str
        What was run.
    has_offset_ : bool
        Whether fit had an offset, which predictions then need as well.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has string names.

    References
    ----------
    .. [1] Shalev-Shwartz and Zhang, "Stochastic dual coordinate ascent methods for regularized
       loss minimization", JMLR 14, 2013; docs/algorithms.md, sections 1, 8, 10 and 14.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import Ridge
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> Ridge(alpha=0.1, fit_intercept=False).fit(X, [0.0, 1.0, 2.0]).coef_.round(3)
    array([0.495, 0.495])
    """

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-8,
        solver: str = "auto",
        positive: bool = False,
        random_state: Any = None,
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: list[int] | None = None,
        memory_limit: Any = "auto",
        verbose: int = 0,
        max_time_s: float | None = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.copy_X = copy_X
        self.max_iter = max_iter
        self.tol = tol
        self.solver = solver
        self.positive = positive
        self.random_state = random_state
        self.n_threads = n_threads
        self.deterministic = deterministic
        self.device_ids = device_ids
        self.memory_limit = memory_limit
        self.verbose = verbose
        self.max_time_s = max_time_s

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, offset: Any = None) -> Ridge:
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
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets; None takes those that X brings along;
            a text or number names their column in a source.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weight k counts as k copies of the row, weight 0 as none.
        offset : float or array-like of shape (n_samples,), default=None
            Added to each row's prediction as it is, with a coefficient of 1.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If parameters or data are not as described; the message says what came.
        """
        matrix, y = fit_input(self, X, y, multi_output=True, y_numeric=True)
        weights = check_sample_weight(sample_weight, matrix, self._communicator().exchange)
        offsets = check_offset(offset, matrix, X)
        self.has_offset_ = offsets is not None
        self._fit_targets(X, matrix, targets_without(y, offsets), weights)
        self._keep_objective()
        return self


class RidgeLabels(LinearClassifier):
    """Base of the ridge classifiers: every class, or label, is a target of -1 and 1."""

    _is_multilabel: bool
    _stored_attributes = ("_is_multilabel",)

    def _binarised(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Matrix, np.ndarray, np.ndarray, np.ndarray | None]:
        """Return the rows, the labels, one column of -1 and 1 per target, and the rows' weights."""
        matrix, y = fit_input(self, X, y, multi_output=True)
        y, is_multilabel = check_labels(y)
        weights = check_sample_weight(sample_weight, matrix)
        if self.class_weight is not None:
            factors = compute_sample_weight(self.class_weight, y)
            weights = check_sample_weight(factors if weights is None else weights * factors, matrix)
        self._is_multilabel = is_multilabel
        # scikit-learn's own way asks of which type the labels are six times.
        classes = np.empty(0) if is_multilabel or y.dtype.kind == "O" else distinct(y)
        if len(classes) < 2:
            binarizer = LabelBinarizer(pos_label=1, neg_label=-1)
            targets = binarizer.fit_transform(y).astype(matrix.dtype)
            self.classes_ = binarizer.classes_
            return matrix, y, targets, weights
        self.classes_ = classes
        shown = classes[1:] if len(classes) == 2 else classes
        targets = np.where(y[:, np.newaxis] == shown, 1.0, -1.0).astype(matrix.dtype)
        return matrix, y, targets, weights

    @property
    def _label_binarizer(self) -> LabelBinarizer:
        """What scikit-learn's ridge classifiers have learned of the labels."""
        labels = np.eye(len(self.classes_), dtype=int) if self._is_multilabel else self.classes_
        return LabelBinarizer(pos_label=1, neg_label=-1).fit(labels)

    def predict(self, X: Any) -> Any:
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_labels)
            Labels as given to fit; of NumPy, or where X is on a GPU of X's library there, unless
            they are no numbers.
        """
        check_is_fitted(self)
        if not self._is_multilabel:
            return super().predict(X)
        place, scores = self._decision(X)
        with place.use():
            return place.give((scores > 0).astype(self.classes_.dtype))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class RidgeClassifier(RidgeLabels, RidgeModel):
    """Ridge regression on labels -1 and 1: the class of the largest prediction wins.

    With two classes one `Ridge` is fitted, with more one per class; `y` may also hold several
    labels, one column each.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1.0
        Regularisation strength, at least 0.
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised.
    copy_X : bool, default=True
        Has no effect: X is never changed.
    max_iter : int or None, default=None
        Most reads of the data of an iterative solver; None means 1000.
    tol : float, default=1e-8
        Stop once the certified duality gap is at most `tol` times the objective.
    class_weight : dict or 'balanced', default=None
        Weights of the classes; 'balanced' gives every class the same total weight of rows, which
        `sample_weight` then multiplies, as in scikit-learn.
    solver : str, default='auto'
        As in `Ridge`.
    positive : bool, default=False
        Whether negative coefficients are forbidden.
    random_state : int, RandomState instance or None, default=None
        Order in which rows are visited, and samples of them. None is a fixed seed: equal fits give
        equal bits.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, fewer on small data.
    deterministic : bool, default=True
        Whether equal fits with equal `n_threads` give equal bits.
    device_ids : list of int or None, default=None
        GPUs to train on, as CUDA counts them; None is the CPU, or the GPU that X is on. X of the
        host is copied there once, a part of its rows to each.
    memory_limit : int, float, str or 'auto', default='auto'
        What rows may take, as bytes or text such as "4GB": in the machine's memory where they
        stream from a store, and on each GPU. 'auto' is what the store was opened with, or half of
        what is available.
    max_time_s : float or None, default=None
        Seconds after which the fit ends with the best model so far and its certified gap, and with
        a ``ConvergenceWarning``; asked after each read of the data; linear
        equations are solved to their end. None sets no bound.
    verbose : int, default=0
        Log progress every `verbose` reads of the data to the logger ``snapml``.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        w, without the first axis for two classes, as in scikit-learn; in the dtype of X (float64
        where X is not float32).
    intercept_ : ndarray of shape (n_targets,)
        b.
    classes_ : ndarray of shape (n_classes,)
        Labels.
    gap_, objective_, n_iter_, history_, solver_
        As in `Ridge`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has string names.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from snapml import RidgeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> round(RidgeClassifier().fit(X, y).score(X, y), 2)
    0.96
    """

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-8,
        class_weight: Any = None,
        solver: str = "auto",
        positive: bool = False,
        random_state: Any = None,
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: list[int] | None = None,
        memory_limit: Any = "auto",
        verbose: int = 0,
        max_time_s: float | None = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.copy_X = copy_X
        self.max_iter = max_iter
        self.tol = tol
        self.class_weight = class_weight
        self.solver = solver
        self.positive = positive
        self.random_state = random_state
        self.n_threads = n_threads
        self.deterministic = deterministic
        self.device_ids = device_ids
        self.memory_limit = memory_limit
        self.verbose = verbose
        self.max_time_s = max_time_s

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> RidgeClassifier:
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
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels; None takes those that X brings along;
            a text or number names their column in a source.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weight k counts as k copies of the row, weight 0 as none.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If parameters or data are not as described; the message says what came.
        """
        matrix, _, targets, weights = self._binarised(X, y, sample_weight)
        self._fit_targets(X, matrix, targets, weights)
        return self
