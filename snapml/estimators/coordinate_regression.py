"""Least squares with an L1 or elastic net penalty."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning

from snapml._validation import (
    Exchange,
    alone,
    check_positive,
    check_sample_weight,
    raise_non_finite,
)
from snapml.data import Dataset, DenseMatrix, Matrix
from snapml.estimators.base import all_or_nothing, callers_level, warn_of_early_end
from snapml.estimators.coefficient_bounds import bounded, check_bounds
from snapml.estimators.fit_call import CallbackSupport
from snapml.estimators.linear_regression import LinearRegressor, check_nonnegative
from snapml.estimators.near_data import near_data
from snapml.estimators.offsets import check_offset, targets_without
from snapml.estimators.placement import byte_limit, fit_input
from snapml.problems import Intercept, Penalty, Problem, Squared
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import among_outputs
from snapml.solvers.fit_settings import Settings
from snapml.solvers.least_squares.least_squares import solve_least_squares
from snapml.solvers.plan import choice
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.result import FitResult, StartModel, overflow_error
from snapml.solvers.stopping import StoppingRule

__all__ = [
    "ElasticNet",
    "Lasso",
    "check_gram",
    "mean_dataset",
    "penalty_of",
    "solve_path",
    "warn_not_converged",
]


def penalty_of(alpha: float, l1_ratio: float, is_positive: bool) -> Penalty:
    """Return R(w) = alpha l1_ratio ||w||_1 + alpha (1 - l1_ratio) ||w||^2 / 2.

    Parameters
    ----------
    alpha, l1_ratio : float
        scikit-learn's parameters.
    is_positive : bool
        Whether negative coefficients are forbidden.

    Returns
    -------
    Penalty
        The penalty.
    """
    return Penalty(alpha * l1_ratio, alpha * (1.0 - l1_ratio), is_positive)


def checked_strength(alpha: Any, l1_ratio: Any) -> tuple[float, float]:
    """Return the parameters of an elastic net, checked.

    Parameters
    ----------
    alpha, l1_ratio : object
        The user's.

    Returns
    -------
    alpha, l1_ratio : float
        Finite and at least 0; the latter at most 1.

    Raises
    ------
    ValueError
        If they are not.
    """
    strength = check_positive("alpha", alpha, allow_zero=True, allow_infinity=False)
    share = check_positive("l1_ratio", l1_ratio, allow_zero=True)
    if share > 1.0:
        raise ValueError(f"l1_ratio: expected a number from 0 to 1, got {l1_ratio!r}")
    return strength, share


def mean_dataset(
    matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, exchange: Exchange = alone
) -> Dataset:
    """Return a dataset whose row weights add up to 1 over all shards: the loss is then a mean.

    Parameters
    ----------
    matrix : Matrix
        Rows.
    y : ndarray of shape (n_rows,)
        Targets.
    weights : ndarray of shape (n_rows,) or None
        Sample weights.
    exchange : callable, default=alone
        Returns what each shard has laid down.

    Returns
    -------
    Dataset
        In the matrix's dtype.
    """
    with np.errstate(over="ignore"):  # refused as not finite
        labels = np.ascontiguousarray(y, dtype=matrix.dtype)
    if not np.isfinite(labels).all():
        raise ValueError(f"y: expected numbers that are finite in {matrix.dtype}")
    if weights is None:
        return Dataset(matrix, labels, None, 1.0 / sum(exchange(matrix.shape[0])))
    shares = weights / sum(exchange(weights.sum(dtype=np.float64)))
    return Dataset(matrix, labels, shares.astype(matrix.dtype), 1.0)


def check_gram(precompute: Any, matrix: Matrix, *, has_intercept: bool) -> None:
    """Refuse a user's Gram matrix that cannot be that of the rows.

    None is ever used, but a wrong one means that the rows are not what the user thinks they are.
    As in scikit-learn one entry is compared.

    Parameters
    ----------
    precompute : 'auto', bool or array-like
        The user's parameter.
    matrix : Matrix
        Rows.
    has_intercept : bool
        Whether b is fitted: the Gram matrix should then be that of centred columns.

    Raises
    ------
    ValueError
        If the shape, or the entry, is another.
    """
    if isinstance(precompute, str):
        if precompute != "auto":
            raise ValueError(f"precompute: expected 'auto', a bool or a matrix, got {precompute!r}")
        return
    if not np.ndim(precompute) or not isinstance(matrix, DenseMatrix):
        return
    n_features = matrix.shape[1]
    gram = np.asarray(precompute)
    if gram.shape != (n_features, n_features):
        raise ValueError(f"precompute: expected shape {(n_features, n_features)}, got {gram.shape}")
    values = matrix.values
    if has_intercept and not np.allclose(values.mean(axis=0), 0.0):
        warnings.warn(
            "Gram matrix was provided but X was centered to fit intercept: recomputing Gram "
            "matrix.",
            UserWarning,
            stacklevel=callers_level(),
        )
        return
    i = n_features // 2
    k = min(i + 1, n_features - 1)
    first, second = values[:, i].astype(np.float64), values[:, k].astype(np.float64)
    expected, actual = float(first @ second), float(gram[i, k])
    is_single = np.float32 in (gram.dtype, values.dtype)
    if not np.isclose(expected, actual, rtol=1e-4 if is_single else 1e-7, atol=1e-5):
        raise ValueError(
            "Gram matrix passed in via 'precompute' parameter did not pass validation when a "
            f"single element was checked: for element ({i}, {k}) we computed {expected}, the "
            f"user's value is {actual}"
        )


def solve_path(
    dataset: Dataset,
    penalties: list[Penalty],
    rule: StoppingRule,
    communicator: Communicator,
    *,
    has_intercept: bool,
    settings: Settings,
    start: FitResult | StartModel | None = None,
) -> list[FitResult]:
    """Solve one problem after the other, each from the last one's model.

    Parameters
    ----------
    dataset : Dataset
        Rows, targets and weights.
    penalties : list of Penalty
        From strong to weak, for speed.
    rule : StoppingRule
        Bounds of each fit.
    communicator : Communicator
        Adds up over the shards.
    has_intercept : bool
        Whether b is fitted.
    settings : Settings
        Which threads or GPU.
    start : FitResult, StartModel or None, default=None
        Model to start from.

    Returns
    -------
    list of FitResult
        One per penalty, up to the one whose fit the rule's control has ended.

    Raises
    ------
    NonFiniteError
        If the matrix holds NaN or infinity.
    ValueError
        If a number overflows.
    """
    near = near_data(dataset, communicator) if has_intercept else None
    if near is None:
        results = _solve_near(
            dataset, penalties, rule, communicator, has_intercept, settings, start
        )
        weight = sum(communicator.exchange(dataset.total_weight)) if has_intercept else 0.0
        return [_with_rounded_intercept(result, weight) for result in results]
    results = _solve_near(
        near.dataset,
        penalties,
        near.rule(rule),
        communicator,
        has_intercept,
        settings,
        near.start(start),
    )
    judged = []
    for found, penalty in zip(results, penalties, strict=False):
        result = near.stored(found, penalty)
        is_met = found.has_converged and near.is_met(result, rule)
        judged.append(replace(result, has_converged=is_met))
    return judged


def _with_rounded_intercept(result: FitResult, weight: float) -> FitResult:
    """Return a result with the intercept in the type of its coefficients, and what that costs."""
    intercept = float(np.asarray(result.intercept).astype(result.coef.dtype))
    beside = abs(intercept - result.intercept)
    # The best one is known to few digits more than that.
    cost = 0.5 * weight * (beside + (_INEXACT * abs(intercept) if beside else 0.0)) ** 2
    return replace(
        result,
        intercept=intercept,
        gap=result.gap + cost,
        objective=result.objective + cost,
    )


def _solve_near(
    dataset: Dataset,
    penalties: list[Penalty],
    rule: StoppingRule,
    communicator: Communicator,
    has_intercept: bool,
    settings: Settings,
    start: FitResult | StartModel | None,
) -> list[FitResult]:
    """Solve one problem after the other for targets as they are."""
    intercept = Intercept.FREE if has_intercept else Intercept.NONE
    problem = Problem(Squared(), intercept)
    if all(penalty == _NONNEGATIVE for penalty in penalties):
        check_nonnegative(dataset.matrix, settings.device_ids)
        result = _solve_nonnegative(dataset, rule, communicator, has_intercept, settings)
        return [result] * len(penalties)
    if all(penalty.is_smooth for penalty in penalties):
        return _solve_smooth(problem, dataset, penalties, rule, communicator, settings)
    return choice.fit_sequence(problem, penalties, dataset, communicator, rule, settings, start)


def _solve_smooth(
    problem: Problem,
    dataset: Dataset,
    penalties: list[Penalty],
    rule: StoppingRule,
    communicator: Communicator,
    settings: Settings,
) -> list[FitResult]:
    """Solve least squares with an L2 penalty or none, as `Ridge` does."""
    results: list[FitResult] = []
    for penalty in penalties:
        one = replace(problem, penalty=penalty)
        results.append(choice.fit(one, dataset, communicator, rule, settings))
        if rule.control.reason:
            break
    return results


# Relative error of the best intercept, beside a rounding to float32.
_INEXACT = 2.0**-28
_NONNEGATIVE = Penalty(0.0, 0.0, is_positive=True)


def _solve_nonnegative(
    dataset: Dataset,
    rule: StoppingRule,
    communicator: Communicator,
    has_intercept: bool,
    settings: Settings,
) -> FitResult:
    """Solve least squares with w >= 0 and no penalty, as `LinearRegression` does."""
    weights = dataset.row_weights
    if weights is None:
        weights = np.full(dataset.matrix.shape[0], dataset.weight, dtype=dataset.matrix.dtype)
    began = time.perf_counter()
    result = solve_least_squares(
        dataset.matrix,
        dataset.labels.reshape(-1, 1),
        weights,
        has_intercept,
        is_positive=True,
        n_threads=settings.n_threads,
        communicator=communicator,
    )
    gap, objective = float(result.gap[0]), float(result.objective[0])
    if not (np.isfinite(result.coef).all() and math.isfinite(objective)):
        raise overflow_error(dataset.labels.dtype)
    entry = {"epoch": 1, "running_gap": gap, "gap": gap, "objective": objective}
    squares = float(communicator.allreduce_sum(np.array([_squares(dataset, weights)]))[0])
    is_met = rule.is_met(gap, objective) or gap <= rule.resolution * squares
    return FitResult(
        coef=result.coef[0],
        intercept=float(result.intercept[0]),
        duals=None,
        offset=0.0,
        n_iter=1,
        has_converged=is_met,
        gap=gap,
        objective=objective,
        history=[{**entry, "time_s": time.perf_counter() - began}],
        mean_stiffness=0.0,
        description=result.description,
    )


def _squares(dataset: Dataset, weights: np.ndarray) -> float:
    """Return the objective without coefficients, of whose rounding no gap is free."""
    return 0.5 * float(weights.astype(np.float64) @ dataset.labels.astype(np.float64) ** 2)


class ElasticNet(CallbackSupport, LinearRegressor):
    """Linear least squares with an L1 and an L2 penalty.

    Minimises, with weights s_i = sample_weight_i / sum(sample_weight), ::

        1/2 sum_i s_i (x_i.w + b - y_i)^2
        + alpha l1_ratio ||w||_1 + alpha (1 - l1_ratio) / 2 ||w||^2

    which is scikit-learn's objective and objective (1) of docs/notation.md with ``c_i = s_i``.
    Solved by Newton steps on working sets of columns with a certified duality gap.

    Parameters
    ----------
    alpha : float, default=1.0
        Regularisation strength; 0 is least squares.
    l1_ratio : float, default=0.5
        Share of the L1 penalty, between 0 and 1.
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised.
    precompute : bool or array-like, default=False
        Gram matrices are formed where they save time; one that is not that of X is refused.
    max_iter : int, default=1000
        Most reads of the data beyond the first, which judges the start.
    copy_X : bool, default=True
        Has no effect: X is never changed.
    tol : float, default=1e-8
        Stop once the certified duality gap is at most `tol` times the objective.
    warm_start : bool, default=False
        Whether to start from the last fit's coefficients.
    positive : bool, default=False
        Whether to forbid negative coefficients.
    random_state : int, RandomState instance or None, default=None
        Has no effect: nothing is drawn.
    selection : {'cyclic', 'random'}, default='cyclic'
        Both give the same answer.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, fewer on small data.
    deterministic : bool, default=True
        Whether equal fits give equal bits; on the CPU, with equal `n_threads`, they always do.
    device_ids : list of int or None, default=None
        The GPU to train on, as CUDA counts them; None is the CPU.
    memory_limit : int, float, str or 'auto', default='auto'
        What rows may take, as bytes or text such as "4GB": in the machine's memory where they
        stream from a store, and on each GPU. 'auto' is what the store was opened with, or half of
        what is available.
    max_time_s : float or None, default=None
        Seconds after which the fit ends with the best model so far and its certified gap, and with
        a ``ConvergenceWarning``; asked after each read of the data. None sets no bound.
    verbose : int, default=0
        Log progress every `verbose` reads to the logger ``snapml``.
    bounds : tuple of (lower, upper) or None, default=None
        Of the coefficients: numbers, or array-likes of shape (n_features,), infinite where there is
        no bound; 0 is between them, as in glmnet. On the CPU, in memory, up to 5,000 columns.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        w, in the dtype of X (float64 where X is not float32).
    sparse_coef_ : csr_matrix of shape (1, n_features) or (n_targets, n_features)
        The same, without its zeros.
    intercept_ : float or ndarray of shape (n_targets,)
        b.
    dual_gap_ : float or ndarray of shape (n_targets,)
        Certified duality gap of each target.
    gap_, objective_ : float
        Certified duality gap and objective, summed over the targets.
    n_iter_ : int or list of int
        Reads of the data beyond the first; 0 where the start was the answer.
    history_ : list of dict, or one such list per target
        One entry per read: ``epoch``, ``time_s``, ``running_gap``, ``gap`` and ``objective``.
    solver_ : str
        What was run.
    has_offset_ : bool
        Whether fit had an offset, which predictions then need as well.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has string names.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import ElasticNet
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> ElasticNet(alpha=0.1).fit(X, [0.0, 1.0, 2.0]).coef_.round(3)
    array([0.446, 0.446])
    """

    bounds: Any = None  # of models pickled before there was this parameter

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        precompute: Any = False,
        max_iter: int = 1000,
        copy_X: bool = True,
        tol: float = 1e-8,
        warm_start: bool = False,
        positive: bool = False,
        random_state: Any = None,
        selection: str = "cyclic",
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: list[int] | None = None,
        memory_limit: Any = "auto",
        verbose: int = 0,
        max_time_s: float | None = None,
        bounds: Any = None,
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.precompute = precompute
        self.max_iter = max_iter
        self.copy_X = copy_X
        self.tol = tol
        self.warm_start = warm_start
        self.positive = positive
        self.random_state = random_state
        self.selection = selection
        self.n_threads = n_threads
        self.deterministic = deterministic
        self.device_ids = device_ids
        self.memory_limit = memory_limit
        self.verbose = verbose
        self.max_time_s = max_time_s
        self.bounds = bounds

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        check_input: bool = True,
        *,
        offset: Any = None,
    ) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; float32 and float64 are used in place, in any layout. Or a
            `ChunkedDataset`, or the path of one: its rows stream past. Or any other source that
            `snapml.io.convert` takes: a file, a folder of Parquet files, an Arrow stream or an
            iterator of batches, written first to a store in the temporary folder (``TMPDIR``) that
            is gone after the fit.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets; several are fitted one by one. None takes those that X brings along; a text or
            number names their column in a source.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weights of the rows; only their proportions matter.
        check_input : bool, default=True
            Has no effect: input is always checked.
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
        penalty = self._penalty()
        rule = self._stopping_rule(self.max_iter)
        checks = dict(multi_output=True, y_numeric=True)
        matrix, y = fit_input(self, X, y, **checks)
        names = getattr(self, "feature_names_in_", None)
        bounds = check_bounds(self.bounds, matrix.shape[1], matrix.dtype, names)
        penalty = bounded(penalty, bounds)
        exchange = self._communicator().exchange
        weights = check_sample_weight(sample_weight, matrix, exchange)
        if weights is None:
            check_gram(self.precompute, matrix, has_intercept=bool(self.fit_intercept))
        offsets = check_offset(offset, matrix, X)
        self.has_offset_ = offsets is not None
        targets = self._target_columns(matrix, targets_without(y, offsets)).T
        results: list[FitResult] = []
        for k, target in enumerate(targets):
            dataset = mean_dataset(matrix, target, weights, exchange)
            start = self._last_fit(k, len(targets))
            own = replace(rule, control=rule.control.through(among_outputs(results, len(targets))))
            try:
                results += solve_path(
                    dataset,
                    [penalty],
                    self._resolved(own, matrix),
                    self._communicator(),
                    has_intercept=bool(self.fit_intercept),
                    settings=self._settings(matrix),
                    start=start,
                )
            except NonFiniteError:
                raise_non_finite(self, X)
            warn_not_converged(results[-1], rule)
        self._store(results, matrix)
        return self

    @property
    def sparse_coef_(self) -> Any:
        """Coefficients without the zeros."""
        return csr_matrix(self.coef_)

    def _penalty(self) -> Penalty:
        """Check the parameters of the objective and return the penalty."""
        self._checked_devices()
        alpha, l1_ratio = checked_strength(self.alpha, self.l1_ratio)
        if self.selection not in ("cyclic", "random"):
            raise ValueError(f"selection: expected 'cyclic' or 'random', got {self.selection!r}")
        if alpha == 0.0:
            warnings.warn(
                "alpha=0 is least squares without a penalty; LinearRegression is meant for it",
                UserWarning,
                stacklevel=callers_level(),
            )
        return penalty_of(alpha, l1_ratio, bool(self.positive))

    def _settings(self, matrix: Matrix) -> Settings:
        return Settings(
            n_threads=self.n_threads,
            deterministic=bool(self.deterministic),
            device_ids=self._checked_devices(matrix),
            memory_limit=byte_limit(self),
        )

    def _resolved(self, rule: StoppingRule, matrix: Matrix) -> StoppingRule:
        return rule.at_resolution_of(matrix.dtype)

    def _last_fit(self, target: int, n_targets: int) -> StartModel | None:
        """Return the model of the last fit as a start, None where there is none."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        coef = np.atleast_2d(np.asarray(self.coef_, dtype=np.float64))
        if coef.shape != (n_targets, self.n_features_in_) or not np.isfinite(coef).all():
            return None
        intercept = float(np.atleast_1d(self.intercept_)[target]) if self.fit_intercept else 0.0
        return StartModel(coef[target], intercept)

    def _store(self, results: list[FitResult], matrix: Matrix) -> None:
        """Keep the model and what is certain about it."""
        coef = np.vstack([result.coef for result in results])
        intercept = np.array([result.intercept for result in results], dtype=matrix.dtype)
        gaps = np.array([result.gap for result in results])
        is_single = len(results) == 1
        self.coef_ = coef[0] if is_single else coef
        self.intercept_ = intercept[0] if is_single else intercept
        self.dual_gap_ = gaps[0] if is_single else gaps
        n_iter = [result.n_iter for result in results]
        self.n_iter_ = n_iter[0] if is_single else n_iter
        self._store_certificate(results)


class Lasso(ElasticNet):
    """Linear least squares with an L1 penalty: `ElasticNet` with ``l1_ratio=1``.

    Minimises, with weights s_i = sample_weight_i / sum(sample_weight), ::

        1/2 sum_i s_i (x_i.w + b - y_i)^2 + alpha ||w||_1

    which is scikit-learn's objective and objective (1) of docs/notation.md with ``c_i = s_i``.

    Parameters
    ----------
    alpha : float, default=1.0
        Regularisation strength; 0 is least squares.
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised.
    precompute : bool or array-like, default=False
        Gram matrices are formed where they save time; one that is not that of X is refused.
    copy_X : bool, default=True
        Has no effect: X is never changed.
    max_iter : int, default=1000
        Most reads of the data beyond the first, which judges the start.
    tol : float, default=1e-8
        Stop once the certified duality gap is at most `tol` times the objective.
    warm_start : bool, default=False
        Whether to start from the last fit's coefficients.
    positive : bool, default=False
        Whether to forbid negative coefficients.
    random_state : int, RandomState instance or None, default=None
        Has no effect: nothing is drawn.
    selection : {'cyclic', 'random'}, default='cyclic'
        Both give the same answer.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, fewer on small data.
    deterministic : bool, default=True
        Whether equal fits give equal bits; on the CPU, with equal `n_threads`, they always do.
    device_ids : list of int or None, default=None
        The GPU to train on, as CUDA counts them; None is the CPU.
    memory_limit : int, float, str or 'auto', default='auto'
        What rows may take, as bytes or text such as "4GB": in the machine's memory where they
        stream from a store, and on each GPU. 'auto' is what the store was opened with, or half of
        what is available.
    max_time_s : float or None, default=None
        Seconds after which the fit ends with the best model so far and its certified gap, and with
        a ``ConvergenceWarning``; asked after each read of the data. None sets no bound.
    verbose : int, default=0
        Log progress every `verbose` reads to the logger ``snapml``.
    bounds : tuple of (lower, upper) or None, default=None
        Of the coefficients: numbers, or array-likes of shape (n_features,), infinite where there is
        no bound; 0 is between them, as in glmnet. On the CPU, in memory, up to 5,000 columns.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        w, in the dtype of X (float64 where X is not float32).
    sparse_coef_ : csr_matrix of shape (1, n_features) or (n_targets, n_features)
        The same, without its zeros.
    intercept_ : float or ndarray of shape (n_targets,)
        b.
    dual_gap_ : float or ndarray of shape (n_targets,)
        Certified duality gap of each target.
    gap_, objective_ : float
        Certified duality gap and objective, summed over the targets.
    n_iter_ : int or list of int
        Reads of the data beyond the first; 0 where the start was the answer.
    history_ : list of dict, or one such list per target
        One entry per read: ``epoch``, ``time_s``, ``running_gap``, ``gap`` and ``objective``.
    solver_ : str
        What was run.
    has_offset_ : bool
        Whether fit had an offset, which predictions then need as well.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has string names.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import Lasso
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> Lasso(alpha=0.1).fit(X, [0.0, 1.0, 2.0]).coef_.round(3)
    array([0.85, 0.  ])
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        precompute: Any = False,
        copy_X: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-8,
        warm_start: bool = False,
        positive: bool = False,
        random_state: Any = None,
        selection: str = "cyclic",
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: list[int] | None = None,
        memory_limit: Any = "auto",
        verbose: int = 0,
        max_time_s: float | None = None,
        bounds: Any = None,
    ) -> None:
        super().__init__(
            alpha,
            l1_ratio=1.0,
            fit_intercept=fit_intercept,
            precompute=precompute,
            max_iter=max_iter,
            copy_X=copy_X,
            tol=tol,
            warm_start=warm_start,
            positive=positive,
            random_state=random_state,
            selection=selection,
            n_threads=n_threads,
            deterministic=deterministic,
            device_ids=device_ids,
            memory_limit=memory_limit,
            verbose=verbose,
            max_time_s=max_time_s,
            bounds=bounds,
        )


def warn_not_converged(result: FitResult, rule: StoppingRule) -> None:
    """Warn where a fit has not met its tolerance.

    Parameters
    ----------
    result : FitResult
        The fit.
    rule : StoppingRule
        What it was to meet.
    """
    if result.has_converged or warn_of_early_end(result, rule):
        return
    relative = result.gap / abs(result.objective) if result.objective else math.inf
    warnings.warn(
        f"relative duality gap {relative:.2e} after {result.n_iter} reads of the data, "
        f"tol={rule.tol:g} was not reached. Objective did not converge. You might want to "
        "increase the number of iterations.",
        ConvergenceWarning,
        stacklevel=callers_level(),
    )
