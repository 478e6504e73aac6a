"""The base of regressors that minimise half a mean deviance and a penalty."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from snapml._validation import alone, check_sample_weight
from snapml.data import Dataset
from snapml.estimators.base import all_or_nothing
from snapml.estimators.coordinate_regression import checked_strength, mean_dataset, penalty_of
from snapml.estimators.deviance.families import Family
from snapml.estimators.deviance.family_rows import FamilyRows
from snapml.estimators.fit_call import CallbackSupport
from snapml.estimators.linear_regression import LinearRegressor
from snapml.estimators.offsets import check_index, check_offset, offset_vector
from snapml.estimators.placement import fit_input, with_host_predictions
from snapml.problems import Penalty
from snapml.solvers.control import Interim
from snapml.solvers.stopping import StoppingRule

__all__ = ["DevianceRegressor", "Task"]

_SOLVERS = ("auto", "lbfgs", "newton-cholesky", "newton-cd", "newton-cd-gram", "newton-cg")
_OWN_SOLVERS = ("pqn", "sdca")
# Share of a target that a mean misses by rounding: in double precision, or more in another.
_ROUNDING = 1e-10


@dataclass(frozen=True)
class Task:
    """What one call of fit minimises over, whatever the family.

    Attributes
    ----------
    X : object
        The rows as the user gave them.
    y, offsets : ndarray of shape (n_rows,), float64
        Targets, and offsets of margins.
    dataset : Dataset
        The rows, with weights that add up to 1.
    total_weight : float
        Sum of the weights as they were given, or the number of rows.
    rule : StoppingRule
        When to stop.
    solver : str
        Its name.
    """

    X: Any
    y: np.ndarray
    dataset: Dataset
    offsets: np.ndarray
    total_weight: float
    rule: StoppingRule
    solver: str


class DevianceRegressor(CallbackSupport, LinearRegressor, ABC):
    """Base of regressors of a family: half the mean deviance of targets, and a penalty."""

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
        strength = checked_strength(self._strength(), self.l1_ratio)
        penalty = penalty_of(*strength, is_positive=False)
        task = self._task(X, y, sample_weight, offset, exposure)
        start = self._last_end(task.dataset.matrix.shape[0], 1)
        found = start.coef if start is not None else None
        for family in self._families(task):
            found = self._fit_family(family, task, penalty, found)
        self._keep_objective()
        return self

    def _task(self, X: Any, y: Any, sample_weight: Any, offset: Any, exposure: Any) -> Task:
        """Check data and bounds."""
        family = self._family()
        solver = self._checked_solver()
        rule = self._stopping_rule(self.max_iter)
        matrix, y = fit_input(self, X, y, y_numeric=True)
        self._agree_on_rows(matrix)
        exchange = self._communicator().exchange
        weights = check_sample_weight(sample_weight, matrix, exchange)
        given = check_offset(self._joint_offset(offset, exposure, X), matrix, X)
        self.has_offset_ = given is not None
        y = y.astype(np.float64)
        family.check(y, exchange)
        dataset = mean_dataset(matrix, y, weights, exchange)
        offsets = np.zeros(len(y)) if given is None else given
        total = sum(exchange(float(len(y) if weights is None else weights.sum(dtype=np.float64))))
        return Task(X, y, dataset, offsets, total, rule, solver)

    def _fit_family(
        self, family: Family, task: Task, penalty: Penalty, coef: np.ndarray | None
    ) -> np.ndarray:
        """Fit one family, from coefficients where there are some; return those at the end."""
        rows = FamilyRows.of(
            family,
            task.dataset,
            task.y,
            task.offsets,
            self._communicator().exchange,
            has_intercept=bool(self.fit_intercept),
        )
        self._null_intercept, self._sign = rows.level, family.sign  # of models on the way
        problem = rows.problem(penalty)
        result = self._run(task.X, problem, rows.dataset, task.rule, rows.start(coef), task.solver)
        self.coef_, self.intercept_ = rows.model(result)
        self.n_iter_ = result.n_iter
        self._store_certificate([result])
        self._store_proof(penalty, result, math.sqrt(task.total_weight))
        return np.append(family.sign * result.coef, self.intercept_)[None]

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
            ``exposure * exp(X @ coef_ + intercept_ + offset)``, or by another link; of NumPy, or
            where X is on a GPU of X's library there.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before fit.
        ValueError
            If X has another number of features than in fit, or is not finite; if the offset is
            missing, or not as described.
        """
        check_is_fitted(self)
        family = self._fitted_family()
        place, margins = self._decision(X, self._joint_offset(offset, exposure, X))
        with place.use():
            margins = margins[:, 0]
            return place.give(family.means(margins, place.xp, place.special))

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
        check_is_fitted(self)
        family = self._fitted_family()
        joint = self._joint_offset(offset, exposure, X)
        X, y, sample_weight, joint = with_host_predictions(X, y, sample_weight, joint)
        y = np.asarray(y, dtype=np.float64)
        family.check(y, alone)
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, float)
        fixed = np.zeros(len(y)) if joint is None else offset_vector(joint, len(y))
        predictions = np.asarray(self.predict(X, offset=joint))
        means = predictions.astype(np.float64)
        constant = fixed + family.level(y, weights, fixed, alone)
        constant = family.means(constant)
        if np.allclose(constant, y, rtol=_ROUNDING, atol=0.0):  # nothing is left to explain
            rounding = max(_ROUNDING, 8.0 * float(np.finfo(predictions.dtype).eps))
            return 1.0 if np.allclose(means, y, rtol=rounding, atol=0.0) else 0.0
        deviance, whole = (weights @ family.half_deviances(y, m) for m in (means, constant))
        return float(1.0 - deviance / whole)

    def _checked_solver(self) -> str:
        if self.solver not in (*_SOLVERS, *_OWN_SOLVERS):
            known = (*_SOLVERS, *_OWN_SOLVERS)
            raise ValueError(f"solver: expected one of {known}, got {self.solver!r}")
        return self.solver if self.solver in _OWN_SOLVERS else "auto"

    @abstractmethod
    def _family(self) -> Family:
        """Return the family that the parameters name; refuse those that name none."""

    def _strength(self) -> Any:
        """Return alpha."""
        return self.alpha

    def _fitted_family(self) -> Family:
        """Return the family of the model, where fit has found a parameter of it."""
        return self._family()

    def _families(self, task: Task) -> Iterator[Family]:
        """Yield what to fit, one after another, each from the last one's model."""
        yield self._family()

    def _joint_offset(self, offset: Any, exposure: Any, X: Any) -> Any:
        """Return the user's offsets with the logarithms of exposures; others check their number."""
        if exposure is None:
            return offset
        link = self._family().link
        if link != "log":
            raise ValueError(
                f"exposure: expected none with the {link} link: margins are no logarithms of means"
            )
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

    def _interim_attributes(self, model: Interim) -> dict[str, Any]:
        found = super()._interim_attributes(model)
        found["coef_"] = self._sign * found["coef_"]
        found["intercept_"] = self._sign * found["intercept_"] + self._null_intercept
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        with suppress(TypeError, ValueError):  # which fit will raise
            tags.target_tags.positive_only = not self._family().takes_negative
        return tags
