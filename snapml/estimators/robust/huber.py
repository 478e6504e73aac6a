"""Huber's robust regression."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from snapml._validation import check_positive, check_sample_weight, raise_non_finite
from snapml.data import ChunkedMatrix, CompressedMatrix, Dataset, DenseMatrix, Matrix
from snapml.estimators.base import all_or_nothing, callers_level, warn_of_early_end
from snapml.estimators.fit_call import CallbackSupport
from snapml.estimators.linear_regression import LinearRegressor
from snapml.estimators.placement import (
    fit_input,
    margins_where_rows_are,
    with_host_predictions,
)
from snapml.estimators.robust.concomitant_scale import Rows, Value, lower_bound, scale_of
from snapml.estimators.robust.joint_newton import JointFit, JointProblem, solve_jointly
from snapml.estimators.robust.least_absolute import (
    FINE,
    absolute_dataset,
    absolute_problem,
    bound_of_any_scale,
    solve_without_scale,
)
from snapml.kernels import ResidentMatrix
from snapml.problems import Huber, Intercept, Penalty, Problem
from snapml.solvers.control import Interim
from snapml.solvers.fit_settings import Start
from snapml.solvers.interior_point.working_rows import MOST_COLUMNS
from snapml.solvers.least_squares.interpolation import MOST_ROWS, interpolate
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.result import FitResult, overflow_error
from snapml.solvers.rows.cpu_rows import array_of, check_rows
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.threads import limit_blas_threads, resolve_n_threads

__all__ = ["HuberRegressor"]

_SOLVERS = ("auto", "sdca", "pqn")
# Share of a scale that the next one is at least, for a start to be of use to it; and fits that may
# end short of their tolerance.
_MOST_FALL, _MOST_FAILED = 0.03, 3
# Models until the scale stays; and times that scales are tried on both sides of it.
_MOST_SCALES, _MOST_BRACKETS = 50, 4
# Gap of a model with its scale fixed, as a share of `tol`; and before the scale is nearly known.
_FINE, _ROUGH = 0.01, 1e-3
# Scales beside the best one, as shares of it, in roots of `tol`.
_BESIDE = 0.5
# Entries up to which data are small, and what the scale may then miss, as a share of it: rounding
# alone separates fits of equivalent data.
_SMALL, _POLISHED = 100_000, 1e-10
# Share of `tol` within which no other scale matters: where it falls to none, it may go on falling.
_SETTLED = 1e-2
# A sample of at least so many rows, and so many a column, that is at most this share of all, finds
# the first model and scale; what the scale may miss there is less than the sample's own error.
_SAMPLE_ROWS, _ROWS_A_COLUMN, _MOST_SHARE, _ROUGH_MISS = 5000, 50, 0.125, 0.02
# Dense entries up to which model and scale are found together, where there are as many rows as
# columns at least; and steps that it takes where rows near a model suffice to find the next.
_FEW_ENTRIES, _MOST_STEPS = 2**21, 60
# Times as many columns as let the best scale fall to none, from which on that is tried first.
_SURELY = 1.25
# Least scale, as a share of the targets' size: rows that lie on a plane have none.
_LEAST = 1e-9


@dataclass(frozen=True)
class _Task:
    """What does not change from scale to scale; sums are over all shards.

    Targets are those less their mean, the centre, where there is an intercept: far from it all rows
    would be where the loss has no curvature.
    """

    X: Any
    matrix: Matrix
    y: np.ndarray
    centre: float
    weights: np.ndarray
    is_uniform: bool
    total: float
    least: float
    alpha: float
    rule: StoppingRule
    is_sample: bool = False

    @property
    def least_of_none(self) -> float:
        """Scale where none is the best, which no solver meets: what the targets' rounding is."""
        return self.least / _LEAST * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class _Model:
    """The best model for one scale, as it is rounded, and the best scale for its residuals."""

    result: FitResult
    coef: np.ndarray
    intercept: float
    residuals: np.ndarray
    value: Value
    next_scale: float


class HuberRegressor(CallbackSupport, LinearRegressor):
    """Linear regression that outliers do not lead astray.

    Minimises ``sum_i s_i (sigma + sigma H((y_i - x_i.w - b) / sigma)) + alpha ||w||^2`` over w, b
    and the scale sigma, with ``H(r) = r^2`` where ``|r| < epsilon`` and ``2 epsilon |r| -
    epsilon^2`` elsewhere: the objective of scikit-learn's class [1]_. Of few dense rows Newton's
    method finds model and scale together. Of others the scale is fixed, which leaves a problem of
    the Huber loss for the solver that suits the data; scales on both sides of the best one bound
    all others. Either way the gap is certified for model and scale together.

    Parameters
    ----------
    epsilon : float, default=1.35
        From how many scales on a residual counts linearly; at least 1.
    max_iter : int, default=100
        Most reads of the data, for each scale.
    alpha : float, default=0.0001
        Strength of the penalty, at least 0.
    warm_start : bool, default=False
        Start from the last fit's model and scale.
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised.
    tol : float, default=1e-5
        Stop once the certified gap is at most `tol` times the objective.
    solver : {'auto', 'sdca', 'pqn'}, default='auto'
        'auto' chooses by the data and says why in ``solver_``; 'sdca' is dual coordinate ascent,
        'pqn' the quasi-Newton method.
    verbose : int, default=0
        Log progress every `verbose` reads of the data to the logger ``snapml``.
    random_state : int, RandomState instance or None, default=None
        Order in which rows are visited, and samples of them. None is a fixed seed: equal fits give
        equal bits.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, fewer on small data.
    deterministic : bool, default=True
        Whether equal fits with equal `n_threads` give equal bits.
    device_ids : list of int or None, default=None
        GPUs to train on, as CUDA counts them; None is the CPU, or the GPU that X is on.
    memory_limit : int, float, str or 'auto', default='auto'
        What rows may take, as bytes or text such as "4GB", where they stream from a store.
    max_time_s : float or None, default=None
        Seconds after which the fit ends with the best model so far, and with a
        ``ConvergenceWarning``. None sets no bound.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        w, in the dtype of X (float64 where X is not float32).
    intercept_ : float
        b.
    scale_ : float
        sigma, in the unit of y; next to 0 where the model meets so many targets that none is best.
    outliers_ : ndarray of shape (n_samples,), bool
        Rows whose residuals are beyond ``epsilon * scale_``; on several ranks a rank's own.
    gap_ : float
        Certified: what ``objective_`` can be above its minimum. Without a penalty (``alpha=0``) an
        estimate.
    objective_ : float
        Value of the objective, evaluated in float64.
    n_iter_ : int
        Reads of the data, for the scale that took most.
    history_ : list of dict
        Of the last model: one entry per iteration with ``epoch``, ``time_s``, ``running_gap``,
        ``gap`` and ``objective``; with the scale fixed in the scaled unit in which it was solved.
    solver_ : str
        What was run, and why.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has string names.

    References
    ----------
    .. [1] Huber and Ronchetti, "Robust statistics", Wiley 2009, section 7.7; docs/algorithms.md,
       section 11.2.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import HuberRegressor
    >>> X = np.arange(20.0).reshape(-1, 1)
    >>> y = 2 * X[:, 0] + np.tile([0.1, -0.1], 10)
    >>> y[3] = 1000.0
    >>> HuberRegressor().fit(X, y).coef_.round(2)
    array([2.])
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.35,
        max_iter: int = 100,
        alpha: float = 0.0001,
        warm_start: bool = False,
        fit_intercept: bool = True,
        tol: float = 1e-5,
        solver: str = "auto",
        verbose: int = 0,
        random_state: Any = None,
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: Any = None,
        memory_limit: Any = "auto",
        max_time_s: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.max_iter = max_iter
        self.alpha = alpha
        self.warm_start = warm_start
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.solver = solver
        self.verbose = verbose
        self.random_state = random_state
        self.n_threads = n_threads
        self.deterministic = deterministic
        self.device_ids = device_ids
        self.memory_limit = memory_limit
        self.max_time_s = max_time_s

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> HuberRegressor:
        """Fit the model and its scale.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; float32 and float64 are used in place, in any layout, on the host or on
            a GPU. Or a `ChunkedDataset`, the path of one, or any other source that
            `snapml.io.convert` takes.
        y : array-like of shape (n_samples,)
            Targets; None takes those that X brings along, a text or number names their column in a
            source.
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
        alpha = self._checked_alpha()
        rule = self._stopping_rule(self.max_iter)
        matrix, y = fit_input(self, X, y, y_numeric=True)
        self._agree_on_rows(matrix)
        weights = check_sample_weight(sample_weight, matrix, self._communicator().exchange)
        with np.errstate(over="ignore"):  # refused as not finite
            is_finite = np.isfinite(np.asarray(y, dtype=matrix.dtype)).all()
        if not is_finite:
            raise ValueError(f"y: expected numbers that are finite in {matrix.dtype}")
        y = np.asarray(y, dtype=np.float64)
        is_uniform = weights is None
        weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
        with np.errstate(over="ignore"):  # refused below
            own = [weights.sum(), weights @ y**2, weights @ y]
        total, squares, level = self._sum(own).tolist()
        if not math.isfinite(squares):
            raise overflow_error(matrix.dtype)
        # In units of it, targets and penalty are numbers of the rows' type.
        least = max(_LEAST * math.sqrt(squares / total), math.sqrt(np.finfo(matrix.dtype).tiny))
        centre = level / total if self.fit_intercept else 0.0
        task = _Task(X, matrix, y - centre, centre, weights, is_uniform, total, least, alpha, rule)
        found = self._interpolating(task) or self._of_few_rows(task) or self._of_equal(task)
        if found is not None:
            self._keep(task, found, found.value.lower)
            return self
        models = self._models(task)
        best = min(models, key=lambda model: model.value.upper)
        self._keep(task, best, best.value.upper - self._gap(task, models))
        self.n_iter_ = max(model.result.n_iter for model in models)
        self.solver_ = f"{best.result.description}; {len(models)} scales"
        return self

    def _checked_alpha(self) -> float:
        """Check the parameters that this class alone has; return the penalty's strength."""
        self._checked_devices()
        epsilon: Any = self.epsilon
        if isinstance(epsilon, bool) or not isinstance(epsilon, Real) or not float(epsilon) >= 1.0:
            raise ValueError(f"epsilon: expected a number of at least 1, got {epsilon!r}")
        if math.isinf(epsilon):
            raise ValueError(f"epsilon: expected a finite number, got {epsilon!r}")
        alpha = check_positive("alpha", self.alpha, allow_zero=True, allow_infinity=False)
        if self.solver not in _SOLVERS:
            raise ValueError(f"solver: expected one of {_SOLVERS}, got {self.solver!r}")
        return alpha

    def _sum(self, own: Any) -> np.ndarray:
        """Return the sum over all shards."""
        return np.sum(self._communicator().exchange(np.asarray(own, dtype=np.float64)), axis=0)

    def _interpolating(self, task: _Task) -> _Model | None:
        """Return the model that meets every target, where none is better: it has a scale of none.

        Of residuals r scale and losses cost at least u.r for all u with ``sum_i u_i^2 / (4 s_i) <=
        sum_i s_i`` and ``|u_i| <= 2 epsilon s_i``: multipliers among them are a dual point.
        """
        matrix, used = task.matrix, np.flatnonzero(task.weights > 0.0)
        if not isinstance(matrix, DenseMatrix | CompressedMatrix) or self._is_asked_elsewhere():
            return None
        if not 0 < len(used) <= min(matrix.shape[1], MOST_ROWS):
            return None
        y, weights = task.y[used], task.weights[used]
        try:
            if len(used) < len(task.y):  # of weight zero there is no target to meet
                check_rows(matrix, self.n_threads)
                matrix = matrix.take(used)
            found = interpolate(matrix, y, bool(self.fit_intercept), self.n_threads)
        except NonFiniteError:
            raise_non_finite(self, task.X)
        if found is None:
            return None
        duals, epsilon = 2.0 * task.alpha * found.duals, float(self.epsilon)
        if np.any(abs(duals) > 2.0 * epsilon * weights):
            return None
        if not duals**2 @ (0.25 / weights) <= task.total:
            return None
        bound = float(duals @ y) - task.alpha * float(found.coef @ found.coef)
        words = "normal equations of the rows (Cholesky), refined: a model meets every target"
        least = task.least_of_none
        return self._bounded(task, JointFit(found.coef, found.intercept, bound, []), least, words)

    def _is_asked_elsewhere(self) -> bool:
        """Return whether a parameter or other shards ask for another way than that of few rows."""
        is_asked = self.solver != "auto" or self.device_ids is not None
        return is_asked or self._communicator().size > 1

    def _bounded(self, task: _Task, found: JointFit, least: float, words: str) -> _Model:
        """Return a model in the rows' dtype, and the best scale of at least `least` for it."""
        coef, level = found.coef.astype(task.matrix.dtype), found.intercept + task.centre
        residuals = self._residuals(task, coef, level)
        best = scale_of(residuals, task.weights, float(self.epsilon), self._sum)
        scale = max(best, least)
        upper = self._objective(task, coef, residuals, scale)
        lower = min(upper, found.bound)
        gap, n_iter, history = upper - lower, max(1, len(found.history)), found.history
        is_met = gap <= task.rule.tol * upper
        result = FitResult(coef, level, None, 0.0, n_iter, is_met, gap, upper, history, 0.0, words)
        return _Model(result, coef, level, residuals, Value(scale, lower, upper), best)

    def _are_few(self, task: _Task) -> bool:
        """Return whether model and scale are found together: the same on all shards."""
        matrix = task.matrix
        if task.rule.verbose > 0 or self._is_asked_elsewhere():
            return False
        if not isinstance(matrix, DenseMatrix) or task.alpha == 0.0:
            return False
        n_rows, n_columns = matrix.shape
        return n_columns <= n_rows and matrix.n_stored <= _FEW_ENTRIES

    def _of_few_rows(self, task: _Task) -> _Model | None:
        """Return the best model and scale of dense rows that are few, where steps find them."""
        if not self._are_few(task):
            return None
        try:
            check_rows(task.matrix, self.n_threads)
        except NonFiniteError:
            raise_non_finite(self, task.X)
        rows = JointProblem(*self._asked(task))
        if self._may_meet_many(task):
            return self._without_scale(task, rows) or self._jointly(task, rows)
        return self._jointly(task, rows) or self._without_scale(task, rows)

    def _asked(self, task: _Task) -> tuple[Any, np.ndarray, np.ndarray, float, float, bool]:
        """Return what `Rows` are made of."""
        epsilon, has_intercept = float(self.epsilon), bool(self.fit_intercept)
        return array_of(task.matrix), task.y, task.weights, epsilon, task.alpha, has_intercept

    def _jointly(self, task: _Task, rows: JointProblem) -> _Model | None:
        """Return the best model and scale, where Newton's method ends with one."""
        control = task.rule.control

        def ends(joint: np.ndarray, gap: float, objective: float) -> bool:
            coef, level = rows.model(joint)
            model = Interim(coef[None], np.array([level + task.centre]), gap, objective)
            return control.ends(self._communicator(), lambda: model)

        start, last = np.zeros(len(rows.ridge)), self._last_end(len(task.y), 1)
        if last is not None and last.coef is not None:
            point = np.array(last.coef, dtype=np.float64)[0]
            start = rows.joint(point[:-1], point[-1] - task.centre)
        with limit_blas_threads(resolve_n_threads(self.n_threads, task.matrix.n_stored)):
            found = solve_jointly(rows, start, min(self.max_iter, _MOST_STEPS), ends)
        if found is None:
            return None
        words = "Newton's method in model and scale together: the rows are few"
        model = self._bounded(task, found, task.least, words)
        if model.result.has_converged and model.next_scale > task.least:
            return model
        if not control.reason:
            return None
        warn_of_early_end(model.result, task.rule)
        return model

    def _may_meet_many(self, task: _Task) -> bool:
        """Return whether a model meets so many targets as a rule that the best scale is none.

        One of least absolute residuals meets one a column; rows beyond them have the scale rise
        while they are less than so many times those.
        """
        n_rows, n_columns = task.matrix.shape
        square = float(self.epsilon) ** 2
        return n_columns * square > _SURELY * n_rows * (square - 1.0)

    def _without_scale(self, task: _Task, rows: JointProblem) -> _Model | None:
        """Return the model of least absolute residuals, where its scale of none is the best."""
        found = solve_without_scale(rows, task.rule)
        words = "interior point method in one call: no scale is better than none"
        return None if found is None else self._proven(task, found, words)

    def _proven(self, task: _Task, found: JointFit, words: str) -> _Model | None:
        """Return a model without a scale, where its bound meets the tolerance."""
        model = self._bounded(task, found, task.least_of_none, words)
        return model if model.result.has_converged else None

    def _of_equal(self, task: _Task) -> _Model | None:
        """Return the model without a scale of rows of which most have the same target, if proven.

        Where a constant meets so many that its scale is none, a better model meets about as many.
        """
        matrix = task.matrix
        is_plain = isinstance(matrix, DenseMatrix | CompressedMatrix) and task.alpha > 0.0
        is_watched = task.rule.verbose > 0 or task.rule.control.is_active
        if not is_plain or is_watched or self._is_asked_elsewhere():
            return None
        rows = Rows(*self._asked(task))
        square, middle = rows.epsilon**2, float(np.median(rows.y)) if rows.has_intercept else 0.0
        met = float(rows.weights @ (rows.y == middle))
        if met * square < rows.total * (square - 1.0) or matrix.shape[1] > MOST_COLUMNS:
            return None
        dataset = absolute_dataset(matrix, rows)
        rule = replace(task.rule, tol=FINE * task.rule.tol)
        result = self._run(task.X, absolute_problem(rows), dataset, rule, is_trial=True)
        coef = np.asarray(result.coef, dtype=np.float64)
        residuals = self._residuals(task, result.coef, result.intercept + task.centre)
        with limit_blas_threads(resolve_n_threads(self.n_threads, matrix.n_stored)):
            bound = bound_of_any_scale(rows, residuals, coef)
        found = JointFit(coef, result.intercept, bound, result.history)
        return self._proven(task, found, f"{result.description}: no scale is better than none")

    def _models(self, task: _Task) -> list[_Model]:
        """Return models for scales that come close to the best, and for two beside it."""
        scale, begin = self._first_scale(task)
        start: _Model | Start | None = begin
        sample = self._sample(task) if start is None else None
        if sample is not None:
            start = self._approach(sample, scale, None, _ROUGH_MISS)[-1]
            scale = max(task.least, start.next_scale)
        step = _BESIDE * math.sqrt(max(task.rule.tol, 4.0 * np.finfo(task.matrix.dtype).eps))
        is_small = float(self._sum(task.matrix.n_stored)) <= _SMALL
        models = self._approach(task, scale, start, _POLISHED if is_small else 0.25 * step)
        best = models[-1]
        for _ in range(_MOST_BRACKETS):
            for factor in (1.0 - step, 1.0 + step):
                scale = best.value.scale * factor
                models.append(self._model_at(task, scale, best, is_fine=True))
            if self._gap(task, models) <= task.rule.tol * models[-1].value.upper:
                break
            if not (models[-1].result.has_converged and models[-2].result.has_converged):
                break
            step *= 2.0
        return models

    def _approach(
        self, task: _Task, scale: float, start: _Model | Start | None, allowed: float
    ) -> list[_Model]:
        """Return models for one scale after the other, until one misses no more than allowed."""
        models: list[_Model] = []
        n_failed = 0  # fits: of more, none shows where the scale should be
        is_fine = isinstance(start, _Model)
        for _ in range(_MOST_SCALES):
            last = self._model_at(task, scale, start, is_fine=is_fine and not task.is_sample)
            models.append(last)
            start, found = last, max(task.least, last.next_scale, _MOST_FALL * scale)
            miss, gap = abs(found - scale) / scale, self._gap(task, models) / last.value.upper
            is_near = miss <= allowed or gap <= _SETTLED * task.rule.tol
            n_failed += not last.result.has_converged
            if n_failed > _MOST_FAILED or (is_near and (is_fine or task.is_sample)):
                break
            is_fine = miss <= 0.1 or gap <= task.rule.tol
            scale = max(_accelerated(models, found), _MOST_FALL * scale)
        return models

    def _sample(self, task: _Task) -> _Task | None:
        """Return the problem of some rows, where these are few beside all; on all shards alike."""
        n_rows, n_features = task.matrix.shape
        total = float(self._sum(n_rows))
        share = max(_SAMPLE_ROWS, _ROWS_A_COLUMN * n_features) / max(1.0, total)
        is_here = not isinstance(task.matrix, ChunkedMatrix | ResidentMatrix)
        if not all(self._communicator().exchange(is_here and share <= _MOST_SHARE)):
            return None
        rng = np.random.default_rng([self._seed(), self._communicator().rank])
        rows = np.sort(rng.choice(n_rows, math.ceil(share * n_rows), replace=False))
        weights = task.weights[rows]
        total_weight = float(self._sum(weights.sum()))
        if not total_weight > 0.0:
            return None
        return replace(
            task,
            matrix=task.matrix.take(rows),
            y=task.y[rows],
            weights=weights,
            total=total_weight,
            alpha=task.alpha * total_weight / task.total,
            is_sample=True,
        )

    def _first_scale(self, task: _Task) -> tuple[float, Start | None]:
        """Return the scale to begin with, and coefficients; of the last fit where wanted."""
        last = self._last_end(len(task.y), 1)
        if last is not None and last.coef is not None and hasattr(self, "scale_"):
            return max(task.least, float(self.scale_)), last
        found = scale_of(task.y, task.weights, float(self.epsilon), self._sum)
        return max(task.least, found), None

    def _model_at(
        self, task: _Task, scale: float, start: _Model | Start | None, *, is_fine: bool
    ) -> _Model:
        """Return the best model with a fixed scale."""
        epsilon, alpha = float(self.epsilon), task.alpha
        unit, dtype = epsilon * scale, task.matrix.dtype
        strength = alpha * scale  # beside losses of width 1 of targets in `unit`
        dataset = _scaled(task, unit, strength or 1.0)
        penalty = Penalty() if alpha else Penalty(0.0, 0.0)
        intercept = Intercept.FREE if self.fit_intercept else Intercept.NONE
        times = 2.0 * epsilon**2 * scale * (strength or 1.0)
        tol = _FINE * task.rule.tol if is_fine else max(_ROUGH, _FINE * task.rule.tol)
        # The scale itself is a part of the objective, beside which gaps are judged.
        view = task.rule.control.through(partial(_in_units, unit=unit, centre=task.centre))
        floor = tol * task.total * scale / times
        rule = replace(task.rule, tol=tol, floor=floor, control=view)
        if isinstance(start, _Model):
            joint = np.append(start.coef.astype(np.float64), start.intercept - task.centre)
            start = Start(coef=joint[None] / unit)
        elif start is not None:
            joint = np.array(start.coef)
            joint[:, -1] -= task.centre
            start = Start(coef=joint / unit)
        result = self._run(
            task.X,
            Problem(Huber(), intercept, 1.0, penalty),
            dataset,
            rule,
            start,
            self.solver,
            is_trial=True,
        )
        coef = (result.coef.reshape(-1).astype(np.float64) * unit).astype(dtype)
        level = task.centre + float(np.ravel(result.intercept)[0]) * unit
        residuals = self._residuals(task, coef, level)
        lower = times * (result.objective - result.gap - self._rounded(task, dataset, unit, result))
        lower += task.total * scale
        upper = self._objective(task, coef, residuals, scale)
        best = scale_of(residuals, task.weights, epsilon, self._sum)
        return _Model(result, coef, level, residuals, Value(scale, min(lower, upper), upper), best)

    def _rounded(self, task: _Task, dataset: Dataset, unit: float, result: FitResult) -> float:
        """Return by how much rounded targets and weights change any model's losses at most.

        To first order in the weights' rounding; the loss has slopes of at most 1.
        """
        misses = abs(dataset.labels.astype(np.float64) - task.y / unit)
        if dataset.row_weights is None:
            return dataset.weight * float(self._sum(misses.sum()))
        eps = float(np.finfo(dataset.labels.dtype).eps)
        return float(self._sum(dataset.row_weights @ misses)) + eps * result.objective

    def _residuals(self, task: _Task, coef: np.ndarray, intercept: float) -> np.ndarray:
        """Return what the model leaves of this shard's targets."""
        if not len(task.y):
            return task.y
        if task.is_sample:
            margins = array_of(task.matrix) @ coef.astype(np.float64) + intercept
            return np.asarray((task.y + task.centre) - margins)
        (X,) = with_host_predictions(task.X)
        _, margins = margins_where_rows_are(self, X, coef[None], np.array([intercept]))
        return (task.y + task.centre) - np.asarray(margins, dtype=np.float64)[:, 0]

    def _objective(
        self, task: _Task, coef: np.ndarray, residuals: np.ndarray, scale: float
    ) -> float:
        """Return scikit-learn's objective."""
        size, epsilon = abs(residuals) / scale, float(self.epsilon)
        losses = np.where(size < epsilon, size * size, 2.0 * epsilon * size - epsilon**2)
        wide = coef.astype(np.float64)
        total = task.total * scale + scale * float(self._sum(task.weights @ losses))
        return total + task.alpha * float(wide @ wide)

    def _gap(self, task: _Task, models: list[_Model]) -> float:
        values = [model.value for model in models]
        bound = lower_bound(values, task.total, float(self.epsilon))
        return max(0.0, min(value.upper for value in values) - bound)

    def _keep(self, task: _Task, best: _Model, bound: float) -> None:
        """Store the best model, with the best scale for it, and what no model has less than."""
        scale, objective = best.value.scale, best.value.upper
        if best.next_scale > 0.0:
            better = self._objective(task, best.coef, best.residuals, best.next_scale)
            if better <= objective:
                scale, objective = best.next_scale, better
        self.coef_, self.intercept_, self.scale_ = best.coef, best.intercept, scale
        self.outliers_ = abs(best.residuals) > scale * float(self.epsilon)
        self.n_iter_ = best.result.n_iter
        self._store_certificate([best.result])
        self.gap_, self.objective_ = max(0.0, objective - bound), objective
        self._keep_objective()
        # Of rows on a plane the minimum is next to nothing, at a scale of none.
        is_far = self.gap_ > task.rule.tol * objective + 4.0 * task.total * task.least
        if is_far and not task.rule.control.reason:
            warnings.warn(
                f"relative gap {self.gap_ / objective:.2e}: tol={task.rule.tol:g} was not reached; "
                "raise max_iter or tol, or pass float64",
                ConvergenceWarning,
                stacklevel=callers_level(),
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags


def _in_units(model: Interim, *, unit: float, centre: float) -> Interim:
    """Return a model of targets in `unit`, less their centre, as one of the targets themselves.

    Nothing is certain of it while its scale is one of several.
    """
    return Interim(model.coef * unit, centre + model.intercept * unit)


def _scaled(task: _Task, unit: float, strength: float) -> Dataset:
    """Return rows with targets in `unit`, and weights beside a penalty of strength 1."""
    labels = (task.y / unit).astype(task.matrix.dtype)
    if task.is_uniform:
        return Dataset(task.matrix, labels, None, 1.0 / strength)
    return Dataset(task.matrix, labels, (task.weights / strength).astype(labels.dtype), 1.0)


def _accelerated(models: list[_Model], found: float) -> float:
    """Return the next scale: where a line through the last two misses is zero, if that is near."""
    if len(models) < 2:
        return found
    first, now = models[-2], models[-1].value.scale
    before, misses = first.value.scale, (first.next_scale - first.value.scale, found - now)
    if misses[0] == misses[1]:
        return found
    guess = now - misses[1] * (now - before) / (misses[1] - misses[0])
    return guess if 0.5 * found < guess < 2.0 * found else found
