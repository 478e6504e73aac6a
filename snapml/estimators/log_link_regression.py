"""Counts and amounts: Poisson and Gamma regression with log link."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.special

from snapml._validation import alone, check_sample_weight
from snapml.estimators.base import all_or_nothing
from snapml.estimators.coordinate_regression import checked_strength, mean_dataset, penalty_of
from snapml.estimators.linear_regression import LinearRegressor
from snapml.estimators.offsets import check_index, check_offset, offset_vector
from snapml.estimators.placement import fit_input, with_host_predictions
from snapml.problems import Intercept, Poisson, Problem
from snapml.solvers.control import Interim
from snapml.solvers.fit_settings import Start

__all__ = ["GammaRegressor", "PoissonRegressor"]

_SOLVERS = ("auto", "lbfgs", "newton-cholesky", "newton-cd", "newton-cd-gram", "newton-cg")
_OWN_SOLVERS = ("pqn", "sdca")


class LogLinkRegressor(LinearRegressor, ABC):
    """Base of regressors whose predictions are exponentials of margins.

    Their loss is that of Poisson at ``sign * margin``: Gamma's is Poisson's of a count of 1 at
    ``log(y)`` less the margin, since both are ``exp(t) - 1 - t`` of a difference t.
    """

    # Of Poisson's margin to the model's.
    _sign = 1.0

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        l1_ratio: float = 0.0,
        fit_intercept: bool = True,
        solver: str = "lbfgs",
        max_iter: int = 100,
        tol: float = 1e-6,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: Any = None,
        memory_limit: Any = "auto",
        max_time_s: float | None = None,
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_threads = n_threads
        self.deterministic = deterministic
        self.device_ids = device_ids
        self.memory_limit = memory_limit
        self.max_time_s = max_time_s

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        offset: Any = None,
        exposure: Any = None,
    ) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; float32 and float64 are used in place, in any layout. Or a
            `ChunkedDataset`, the path of one, or any other source that `snapml.io.convert` takes.
        y : array-like of shape (n_samples,)
            Targets; None takes those that X brings along, a text or number names their column in a
            source.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weights of the rows; only their proportions matter.
        offset : float or array-like of shape (n_samples,), default=None
            Added to each row's margin as it is, with a coefficient of 1.
        exposure : float or array-like of shape (n_samples,), default=None
            Positive: each row's mean is this times ``exp(x.w + b + offset)``. Years insured, area,
            time at risk.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If parameters or data are not as described; the message says what came.
        """
        penalty = penalty_of(*checked_strength(self.alpha, self.l1_ratio), is_positive=False)
        solver = self._checked_solver()
        rule = self._stopping_rule(self.max_iter)
        matrix, y = fit_input(self, X, y, y_numeric=True)
        self._agree_on_rows(matrix)
        communicator = self._communicator()
        weights = check_sample_weight(sample_weight, matrix, communicator.exchange)
        given = check_offset(_joint_offset(offset, exposure, X), matrix, X)
        self.has_offset_ = given is not None
        dataset = mean_dataset(matrix, y, weights, communicator.exchange)
        self._check_targets(y, communicator.exchange)
        offsets = np.zeros(len(y)) if given is None else given
        c = np.full(len(y), dataset.weight) if dataset.row_weights is None else dataset.row_weights
        # Zero coefficients are then the model without columns, from which steps are short.
        level = 0.0
        if self.fit_intercept:
            level = self._level(y, c, offsets, communicator.exchange)
        self._null_intercept = level  # of models on the way, for callbacks
        labels, moved = self._poisson(y.astype(np.float64), offsets + level)
        dataset = replace(dataset, labels=labels.astype(matrix.dtype), offsets=moved)
        intercept = Intercept.FREE if self.fit_intercept else Intercept.NONE
        problem = Problem(Poisson(), intercept, 1.0, penalty)
        start = self._last_end(matrix.shape[0], 1)
        if start is not None and start.coef is not None:
            coef = self._sign * start.coef
            coef[0, -1] -= self._sign * level
            start = Start(coef=coef)
        result = self._run(X, problem, dataset, rule, start, solver)
        self.coef_ = (self._sign * result.coef + 0.0).astype(matrix.dtype)  # no -0
        self.intercept_ = float(level + self._sign * result.intercept)
        self.n_iter_ = result.n_iter
        self._store_certificate([result])
        self._keep_objective()
        return self

    def predict(self, X: Any, *, offset: Any = None, exposure: Any = None) -> Any:
        """Predict means.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        offset : float or array-like of shape (n_samples,), default=None
            Added to each row's margin; this or `exposure` is required where fit had one (0 leaves
            it out).
        exposure : float or array-like of shape (n_samples,), default=None
            Factor of each row's mean.

        Returns
        -------
        array of shape (n_samples,)
            ``exposure * exp(X @ coef_ + intercept_ + offset)``; of NumPy, or where X is on a GPU of
            X's library there.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before fit.
        ValueError
            If X has another number of features than in fit, or is not finite; if the offset is
            missing, or not as described.
        """
        place, margins = self._decision(X, _joint_offset(offset, exposure, X))
        with place.use():
            return place.give(place.xp.exp(margins[:, 0]))

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        offset: Any = None,
        exposure: Any = None,
    ) -> float:
        """Return D^2, the share of the deviance of the best constant that predictions explain.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        offset, exposure : float or array-like of shape (n_samples,), default=None
            As for `predict`; the constant has them too.

        Returns
        -------
        float
            At most 1: ``1 - deviance / deviance of the model without columns``.
        """
        joint = _joint_offset(offset, exposure, X)
        X, y, sample_weight, joint = with_host_predictions(X, y, sample_weight, joint)
        y = np.asarray(y, dtype=np.float64)
        self._check_targets(y, alone)
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, float)
        fixed = np.zeros(len(y)) if joint is None else offset_vector(joint, len(y))
        means = np.asarray(self.predict(X, offset=joint), dtype=np.float64)
        constant = np.exp(fixed + self._level(y, weights, fixed, alone))
        deviance, whole = (weights @ self._half_deviances(y, m) for m in (means, constant))
        if whole == 0.0:
            return 1.0 if deviance == 0.0 else 0.0
        return float(1.0 - deviance / whole)

    def _checked_solver(self) -> str:
        if self.solver not in (*_SOLVERS, *_OWN_SOLVERS):
            known = (*_SOLVERS, *_OWN_SOLVERS)
            raise ValueError(f"solver: expected one of {known}, got {self.solver!r}")
        return self.solver if self.solver in _OWN_SOLVERS else "auto"

    @abstractmethod
    def _check_targets(self, y: np.ndarray, exchange: Any) -> None:
        """Refuse targets that the family has not."""

    @abstractmethod
    def _poisson(self, y: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the labels and offsets of the Poisson problem that has the same loss."""

    @abstractmethod
    def _level(self, y: Any, c: Any, offsets: np.ndarray, exchange: Any) -> float:
        """Return the intercept of the model without columns."""

    @abstractmethod
    def _half_deviances(self, y: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return half the unit deviance of each row."""

    def _interim_attributes(self, model: Interim) -> dict[str, Any]:
        found = super()._interim_attributes(model)
        found["coef_"] = self._sign * found["coef_"]
        found["intercept_"] = self._sign * found["intercept_"] + self._null_intercept
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        tags.target_tags.positive_only = True
        return tags


class PoissonRegressor(LogLinkRegressor):
    """Poisson regression: counts whose mean is ``exp(x.w + b)``.

    Minimises half the mean deviance plus the penalty,

        ``sum_i s_i (mu_i - y_i log(mu_i) + y_i log(y_i) - y_i) / sum(s)
        + alpha (l1_ratio ||w||_1 + (1 - l1_ratio) / 2 ||w||^2)``,

    ``mu_i = exposure_i exp(x_i.w + b + offset_i)``, with b free: with an L2 penalty and an
    intercept the means then add up to the counts. The distance from the minimum is certified [1]_.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty, at least 0; at 0 ``gap_`` is an estimate.
    l1_ratio : float, default=0.0
        Share of the L1 norm, from 0 to 1.
    fit_intercept : bool, default=True
        Whether to fit b.
    solver : str, default='lbfgs'
        scikit-learn's names, and 'auto', let the data choose; 'pqn' is the quasi-Newton method,
        'sdca' coordinate ascent.
    max_iter : int, default=100
        Most reads of the data beyond the first.
    tol : float, default=1e-6
        Relative duality gap to stop at.
    warm_start : bool, default=False
        Whether to begin at the last fit's model.
    verbose : int, default=0
        1 logs the start and the end, 2 every read.
    random_state : int, RandomState or None, default=None
        Of orders and samples.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, one on small data.
    deterministic : bool, default=True
        Whether equal fits give equal bits.
    device_ids : sequence of int or None, default=None
        GPUs to train on.
    memory_limit : int, 'auto' or None, default='auto'
        Bytes that the rows of a store may take in memory.
    max_time_s : float or None, default=None
        Seconds after which the best model so far is kept.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        w, in the dtype of X.
    intercept_ : float
        b; 0.0 without one.
    n_iter_ : int
        Reads of the data beyond the first.
    gap_ : float
        Certified bound on what ``objective_`` can be above its minimum.
    objective_ : float
        The objective above, evaluated in float64.
    history_ : list of dict
        Time, gap and objective of each read.
    solver_ : str
        What was run, and why.
    has_offset_ : bool
        Whether fit had an offset or exposure, which predictions then need as well.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has string names.

    References
    ----------
    .. [1] docs/algorithms.md, sections 1.5 and 9.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import PoissonRegressor
    >>> X, counts = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([1, 3, 7, 9])
    >>> model = PoissonRegressor(alpha=0, tol=1e-9).fit(X, counts)
    >>> model.predict(np.array([[0.0], [1.0]])).round(4)
    array([2., 8.])
    """

    def _check_targets(self, y: np.ndarray, exchange: Any) -> None:
        least = min(exchange(float(y.min(initial=0.0))))
        if least < 0.0:
            raise ValueError(
                f"y: expected counts, some value(s) of y are out of the valid range: got {least:g}"
            )
        if not sum(exchange(float(y.sum(dtype=np.float64)))) > 0.0:
            raise ValueError(
                "y: expected a count above 0, got zeros only: their mean is the exponential of no "
                "number; some value(s) of y are out of the valid range"
            )

    def _poisson(self, y: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return y, offsets

    def _level(self, y: Any, c: Any, offsets: np.ndarray, exchange: Any) -> float:
        top = max(exchange(float(offsets.max(initial=-np.inf))))
        own = float(np.sum(c * y, dtype=np.float64)), float(np.sum(c * np.exp(offsets - top)))
        counts, means = np.sum(exchange(own), axis=0)
        if not counts > 0.0:
            raise ValueError("y: expected a count above 0 among rows of positive weight, got none")
        return math.log(counts) - math.log(means) - top

    def _half_deviances(self, y: np.ndarray, means: np.ndarray) -> np.ndarray:
        found: np.ndarray = scipy.special.kl_div(y, means)
        return found


class GammaRegressor(LogLinkRegressor):
    """Gamma regression: positive amounts whose mean is ``exp(x.w + b)``.

    Minimises half the mean deviance plus the penalty,

        ``sum_i s_i (y_i / mu_i - log(y_i / mu_i) - 1) / sum(s)
        + alpha (l1_ratio ||w||_1 + (1 - l1_ratio) / 2 ||w||^2)``,

    ``mu_i = exposure_i exp(x_i.w + b + offset_i)``, with b free. The distance from the minimum is
    certified.

    Parameters
    ----------
    alpha, l1_ratio, fit_intercept, solver, max_iter, tol, warm_start, verbose, random_state, \
n_threads, deterministic, device_ids, memory_limit, max_time_s : object
        As for `PoissonRegressor`.

    Attributes
    ----------
    coef_, intercept_, n_iter_, gap_, objective_, history_, solver_, has_offset_, n_features_in_, \
feature_names_in_ : object
        As for `PoissonRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import GammaRegressor
    >>> X, amounts = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([10.0, 30.0, 70.0, 90.0])
    >>> model = GammaRegressor(alpha=0, tol=1e-9).fit(X, amounts)
    >>> model.predict(np.array([[0.0], [1.0]])).round(3)
    array([20., 80.])
    """

    _sign = -1.0

    def _check_targets(self, y: np.ndarray, exchange: Any) -> None:
        least = min(exchange(float(y.min(initial=np.inf))))
        if not least > 0.0:
            raise ValueError(
                "y: expected positive amounts, some value(s) of y are out of the valid range: got "
                f"{least:g}"
            )

    def _poisson(self, y: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.ones_like(y), np.log(y) - offsets

    def _level(self, y: Any, c: Any, offsets: np.ndarray, exchange: Any) -> float:
        logs = np.log(y.astype(np.float64)) - offsets
        top = max(exchange(float(logs.max(initial=-np.inf))))
        own = float(np.sum(c * np.exp(logs - top))), float(np.sum(c, dtype=np.float64))
        amounts, weight = np.sum(exchange(own), axis=0)
        return math.log(amounts) - math.log(weight) + top

    def _half_deviances(self, y: np.ndarray, means: np.ndarray) -> np.ndarray:
        t = (y - means) / means
        return t - np.log1p(t)


def _joint_offset(offset: Any, exposure: Any, X: Any) -> Any:
    """Return the user's offsets with the logarithms of exposures; others check their number."""
    if exposure is None:
        return offset
    check_index(offset, X)
    check_index(exposure, X)
    exposure = with_host_predictions(X, None, None, exposure)[3]
    offset = with_host_predictions(X, None, None, offset)[3]
    try:
        values = np.asarray(exposure, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"exposure: expected positive numbers, got {exposure!r}") from error
    if not (np.isfinite(values).all() and (values > 0.0).all()):
        raise ValueError("exposure: expected positive numbers, got zero, negative ones or NaN")
    if values.ndim and np.ndim(offset) and np.shape(offset) != values.shape:
        raise ValueError(
            f"exposure: expected the shape of offset, {np.shape(offset)}, got {values.shape}"
        )
    return np.log(values) + (0.0 if offset is None else np.asarray(offset))
