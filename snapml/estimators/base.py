"""What all linear estimators share: fit, certificate, predict."""

from __future__ import annotations

import functools
import inspect
import logging
import math
import numbers
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, check_scalar, compute_class_weight
from sklearn.utils.validation import check_is_fitted

from snapml._validation import (
    check_device_ids,
    check_positive,
    check_weighted_classes,
    raise_non_finite,
    refuse_rows_elsewhere,
)
from snapml.data import Dataset, Matrix
from snapml.data.store.temporary_store import removing_temporary_stores
from snapml.estimators.fit_call import control_of, in_fit_call
from snapml.estimators.near_data import near_data
from snapml.estimators.offsets import added_offset
from snapml.estimators.placement import (
    Place,
    byte_limit,
    host_copy_errors,
    margins_where_rows_are,
    with_host_predictions,
)
from snapml.kernels import ResidentMatrix
from snapml.kernels.matrices.resident_matrix import device_number
from snapml.models.linear_exports import ExportedLinearModel
from snapml.models.objective_parameters import objective_parameters
from snapml.problems import Intercept, Penalty, Problem
from snapml.solvers.communicator import Communicator, SerialCommunicator
from snapml.solvers.control import Control, Interim
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.plan import choice, device_choice
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.result import FitResult, overflow_error
from snapml.solvers.stopping import StoppingRule

__all__ = [
    "LinearClassifier",
    "LinearEstimator",
    "all_or_nothing",
    "binary_dataset",
    "callers_level",
    "warn_of_early_end",
]

_logger = logging.getLogger("snapml")


class LinearEstimator(ExportedLinearModel):
    """Base of all estimators with ``coef_`` and ``intercept_``."""

    tol: float
    max_iter: Any
    random_state: Any
    n_threads: int | None
    deterministic: bool
    device_ids: Any
    memory_limit: Any = "auto"
    intercept_scaling: Any = 1.0
    verbose: Any = 0
    max_time_s: Any = None
    coef_: Any
    intercept_: Any
    least_rows = 1
    """Rows that X must have; a shard of a larger whole may have none."""
    # What predictions need beside parameters and public attributes: model files hold it too.
    _stored_attributes: tuple[str, ...] = ()

    def _communicator(self) -> Communicator:
        """Return who adds up; distributed estimators have another."""
        return SerialCommunicator()

    def _agree_on_rows(self, matrix: Matrix) -> None:
        """Refuse shards that do not fit each other; this one is the only one."""

    def _target_columns(self, matrix: Matrix, y: np.ndarray) -> np.ndarray:
        """Return the targets, a column each; refuse shards that have other numbers of them."""
        columns = y if y.ndim == 2 else y.reshape(matrix.shape[0], 1)
        counts = self._communicator().exchange(columns.shape[1])
        if len(set(counts)) > 1:
            raise ValueError(f"y: expected as many targets on all ranks, got {counts}")
        return columns

    def _stopping_rule(self, max_iter: int) -> StoppingRule:
        """Check tol, max_iter, max_time_s and verbose, and return the bounds of the fit."""
        tol = check_positive("tol", self.tol, allow_zero=True)
        check_scalar(max_iter, "max_iter", numbers.Integral, min_val=0)
        verbose: Any = self.verbose
        if not isinstance(verbose, numbers.Integral) or verbose < 0:
            raise ValueError(f"verbose: expected an integer >= 0, got {verbose!r}")
        if self.verbose > 0:
            _show_log_lines()
        return StoppingRule(tol, int(max_iter), int(self.verbose), control=self._control())

    def _control(self) -> Control:
        """Return what may end the fit early; a search has one for each of its fits."""
        return control_of(self)

    def _checked_devices(self, matrix: Matrix | None = None) -> tuple[int, ...]:
        """Return the numbers of the GPUs to train on, none for the CPU; rows on one decide."""
        asked = self._asked_devices()
        return (matrix.device_id,) if isinstance(matrix, ResidentMatrix) else asked

    def _asked_devices(self) -> tuple[int, ...]:
        """Return the numbers of the GPUs that ``device_ids`` means, none for the CPU."""
        return check_device_ids(self.device_ids)

    def _checked_scaling(self) -> float:
        """Return the value of a penalised intercept's column."""
        scaling = self.intercept_scaling
        return check_positive("intercept_scaling", scaling, allow_infinity=False)

    def _seed(self) -> int:
        """Return the seed of the row order: the same one in every fit where none is asked for."""
        if self.random_state is None:
            return 0
        own = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return int(self._communicator().exchange(own)[0])

    def _run(
        self,
        X: Any,
        problem: Problem,
        dataset: Dataset,
        rule: StoppingRule,
        start: Start | None = None,
        solver: str = "auto",
        *,
        is_trial: bool = False,
    ) -> FitResult:
        """Solve one problem, starting from where another fit ended where given.

        A trial does not warn unless somebody has ended it.
        """
        if not np.isfinite(dataset.labels).all():
            raise ValueError(f"y: expected numbers that are finite in {dataset.labels.dtype}")
        rule = rule.at_resolution_of(dataset.labels.dtype)
        settings = self._settings_of(dataset.matrix, solver)
        try:
            with host_copy_errors(dataset.matrix):
                result = self._solve_near(problem, dataset, rule, settings, start)
        except NonFiniteError:
            is_resident = isinstance(dataset.matrix, ResidentMatrix)
            raise_non_finite(self, dataset.matrix if is_resident else X)
        if not math.isfinite(result.objective):
            raise overflow_error(dataset.labels.dtype)
        if not result.has_converged and not (is_trial and rule.control.reason == ""):
            _warn_not_converged(result, rule)
        return result

    def _settings_of(self, matrix: Matrix, solver: str) -> Settings:
        """Return how fits on these rows run."""
        devices, limit = self._checked_devices(matrix), byte_limit(self)
        return Settings(solver, self.n_threads, self.deterministic, self._seed(), devices, limit)

    def _solve_near(
        self,
        problem: Problem,
        dataset: Dataset,
        rule: StoppingRule,
        settings: Settings,
        start: Start | None,
    ) -> FitResult:
        """Solve one problem; least squares of numbers far from zero in centred ones."""
        shards, near = self._communicator(), None
        is_free = problem.intercept is Intercept.FREE and dataset.labels.ndim == 1
        if problem.loss.is_quadratic and is_free and start is None:
            near = near_data(dataset, shards)
        if near is None:
            return choice.fit(problem, dataset, shards, rule, settings, start)
        found = choice.fit(problem, near.dataset, shards, near.rule(rule), settings)
        stored = near.stored(found, problem.penalty)
        is_met = found.has_converged and near.is_met(stored, rule)
        return replace(stored, has_converged=is_met)

    def _last_end(self, n_rows: int, n_outputs: int) -> Start | None:
        """Return where the last fit ended, as far as that fits the data; None without one."""
        if not getattr(self, "warm_start", False) or not hasattr(self, "coef_"):
            return None
        coef = self.coef_.toarray() if issparse(self.coef_) else np.atleast_2d(self.coef_)
        if coef.shape != (n_outputs, self.n_features_in_):
            return None
        bias = np.broadcast_to(self.intercept_, n_outputs) / self._bias_value()
        joint = np.column_stack([coef, bias]).astype(np.float64)
        last: FitResult | None = getattr(self, "_last_result", None)
        # On all shards alike.
        if last is None or last.duals is None or last.duals.ndim == 2:
            return Start(coef=joint)
        if not all(self._communicator().exchange(len(last.duals) == n_rows)):
            return Start(coef=joint)
        return Start(coef=joint, duals=last.duals, offset=last.offset)

    def _bias_value(self) -> float:
        """Return the value of the intercept's column."""
        return 1.0

    def _keep_objective(self) -> None:
        """Keep the parameters that this fit has used, which may be changed for the next one."""
        self._fitted_with = objective_parameters(self)

    def _interim_attributes(self, model: Interim) -> dict[str, Any]:
        """Return what predictions by a model on the way need, as fit would store it."""
        return {
            "coef_": model.coef,
            "intercept_": model.intercept,
            "gap_": model.gap,
            "objective_": model.objective,
        }

    def _store_certificate(self, results: list[FitResult]) -> None:
        """Keep what is certain about the model: gap and objective of the sum of its problems."""
        self.gap_ = sum(result.gap for result in results)
        self.objective_ = sum(result.objective for result in results)
        self.solver_ = results[0].description
        self.history_ = results[0].history if len(results) == 1 else [r.history for r in results]

    def _store_proof(self, penalty: Penalty, result: FitResult, scale: float = 1.0) -> None:
        """Keep what is proved where no penalty makes sure that there is a minimiser.

        Standard errors are those of a dispersion of 1; `scale` is how many of them are one of the
        Hessian of the objective as it was solved.
        """
        for name in ("existence_", "numerical_error_"):
            if hasattr(self, name):  # of a fit with another penalty
                delattr(self, name)
        if not penalty.is_none:
            return
        if result.distance is None:
            self.existence_ = "unknown" if result.has_minimum else "separated"
            self.numerical_error_ = math.inf
        else:
            self.existence_ = "proved"
            self.numerical_error_ = scale * result.distance

    def _joint_offset(self, offset: Any, exposure: Any, X: Any) -> Any:
        """Return the offset that stands for both; models of counts and amounts have exposures."""
        if exposure is not None:
            raise TypeError(f"exposure: expected none, {type(self).__name__} has no exposure")
        return offset

    def _decision(self, X: Any, offset: Any = None) -> tuple[Place, Any]:
        """Return margins, one column per row of ``coef_``, and where they and X are."""
        check_is_fitted(self)
        coef = self.coef_.toarray() if issparse(self.coef_) else np.atleast_2d(self.coef_)
        intercept = np.broadcast_to(self.intercept_, len(coef))
        place, found = margins_where_rows_are(self, X, coef, intercept)
        with place.use():
            found = added_offset(self, place, found, offset, X)
            return place, found.astype(np.result_type(place.dtype, coef.dtype))

    def _predicted_targets(self, X: Any, offset: Any = None) -> Any:
        """Return a regressor's predictions, one column per target unless there is one."""
        place, scores = self._decision(X, offset)
        with place.use():
            return place.give(scores if self.coef_.ndim == 2 else scores[:, 0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearClassifier(ClassifierMixin, LinearEstimator):
    """Base of the classifiers: labels, class weights, decision function."""

    class_weight: Any
    intercept_scaling: Any

    def decision_function(self, X: Any) -> Any:
        """Return the signed margin of each row: positive means the second class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of shape (n_samples,), or (n_samples, n_classes) for more than two classes
            ``X @ coef_.T + intercept_``; of NumPy, or where X is on a GPU of X's library there.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before fit.
        ValueError
            If X has another number of features than in fit, or is not finite.
        """
        return self._signed_margins(*self._decision(X))

    def _signed_margins(self, place: Place, scores: Any) -> Any:
        """Return margins as the user gets them."""
        with place.use():
            return place.give(scores.ravel() if scores.shape[1] == 1 else scores)

    def predict(self, X: Any) -> Any:
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

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
            If X has another number of features than in fit, or is not finite.
        """
        return self._labels_of(*self._decision(X))

    def _labels_of(self, place: Place, scores: Any) -> Any:
        """Return the labels that margins mean, as the user gets them."""
        with place.use():
            is_one = scores.shape[1] == 1
            chosen = (scores[:, 0] > 0).astype(np.intp) if is_one else scores.argmax(axis=1)
            return place.labels(self.classes_, chosen)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on rows and their labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
            Share of the weights whose rows are predicted right.
        """
        return float(super().score(*with_host_predictions(X, y, sample_weight)))

    def sparsify(self) -> LinearClassifier:
        """Turn ``coef_`` into a SciPy CSR matrix, smaller where most coefficients are zero.

        Returns
        -------
        self
            The fitted estimator.
        """
        check_is_fitted(self)
        self.coef_ = csr_matrix(self.coef_)
        return self

    def densify(self) -> LinearClassifier:
        """Turn ``coef_`` back into an ndarray.

        Returns
        -------
        self
            The fitted estimator.
        """
        check_is_fitted(self)
        if issparse(self.coef_):
            self.coef_ = self.coef_.toarray()
        return self

    def _row_weights(
        self,
        cost: float,
        y: np.ndarray,
        factors: dict[Any, float] | None,
        sample_weight: np.ndarray | None,
        dtype: np.dtype,
    ) -> np.ndarray | None:
        """Return c_i = C * sample_weight * class_weight, None where all of them are C."""
        if sample_weight is None and factors is None:
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            weights = np.full(len(y), cost, dtype=dtype)
            if sample_weight is not None:
                weights *= sample_weight
            for label, factor in (factors or {}).items():
                weights[y == label] *= dtype.type(factor)
        if not np.isfinite(weights).all():
            raise ValueError(f"C * sample_weight * class_weight: expected finite in {dtype}")
        check_weighted_classes(self, y, weights, self._communicator().exchange)
        return weights

    def _class_factors(
        self, y: np.ndarray, classes: np.ndarray, sample_weight: np.ndarray | None
    ) -> dict[Any, float] | None:
        """Return the checked weight of every class, None where all are one."""
        if self.class_weight is None:
            return None
        numbers_of = np.searchsorted(classes, y)
        own = np.bincount(numbers_of, weights=sample_weight, minlength=len(classes))
        totals = self._communicator().allreduce_sum(own.astype(np.float64))
        try:
            with np.errstate(divide="ignore"):  # a class without weight: refused or irrelevant
                factors = compute_class_weight(
                    self.class_weight, classes=classes, y=classes, sample_weight=totals
                )
        except (TypeError, ValueError) as error:
            raise ValueError(f"class_weight: {error}; got {self.class_weight!r}") from error
        for label, factor, total in zip(classes, factors, totals, strict=True):
            if total > 0 and not (math.isfinite(factor) and factor >= 0):
                raise ValueError(
                    f"class_weight: expected finite numbers >= 0, got {factor!r} for {label!r}"
                )
        finite = np.where(np.isfinite(factors), factors, 0.0)
        return dict(zip(classes.tolist(), finite.tolist(), strict=True))


def binary_dataset(
    matrix: Matrix, is_positive: np.ndarray, row_weights: np.ndarray | None, cost: float
) -> Dataset:
    """Return a dataset with labels -1 and +1.

    Parameters
    ----------
    matrix : Matrix
        The rows.
    is_positive : ndarray of shape (n_rows,), bool
        Rows of the positive class.
    row_weights : ndarray of shape (n_rows,) or None
        c_i; None means `cost` for every row.
    cost : float
        C.

    Returns
    -------
    Dataset
        In the matrix's dtype.
    """
    one = matrix.dtype.type(1)
    return Dataset(matrix, np.where(is_positive, one, -one), row_weights, cost)


def _warn_not_converged(result: FitResult, rule: StoppingRule) -> None:
    """Say how far the fit got, and one thing that would help."""
    if warn_of_early_end(result, rule):
        return
    relative = result.gap / abs(result.objective) if result.objective else np.inf
    if not result.has_minimum:
        warnings.warn(
            "the classes are separable, and without a penalty the coefficients would grow for "
            f"ever: stopped after {result.n_iter} reads of the data at a loss of "
            f"{result.objective:.2e}; use a finite C, or alpha > 0",
            ConvergenceWarning,
            stacklevel=callers_level(),
        )
        return
    if result.is_rounded:
        hint = f"rounding the coefficients to {result.coef.dtype} leaves that: pass rows of float64"
    elif result.mean_stiffness > 50.0:
        hint = (
            f"the rows are long for this regularisation (mean of c_i ||x_i||^2 is "
            f"{result.mean_stiffness:.2g}): scale the features, or regularise more"
        )
    else:
        hint = "raise max_iter or tol"
    warnings.warn(
        f"relative duality gap {relative:.2e} after {result.n_iter} reads of the data, "
        f"tol={rule.tol:g} was not reached; {hint}",
        ConvergenceWarning,
        stacklevel=callers_level(),
    )


def warn_of_early_end(result: FitResult, rule: StoppingRule) -> bool:
    """Say that a fit was ended before its tolerance was met, where it was.

    Parameters
    ----------
    result : FitResult
        The fit.
    rule : StoppingRule
        Whose control may have ended it.

    Returns
    -------
    bool
        Whether it was: by its time, which warns, or by a callback, which leaves a line in the log.
        Of a fit that is part of a search, the search says so.
    """
    control = rule.control
    if not control.reason or control.is_part:
        return bool(control.reason)
    relative = result.gap / abs(result.objective) if result.objective else math.inf
    told = (
        f"{control.reason} and {result.n_iter} reads of the data: the certified gap is "
        f"{result.gap:.2e}, {relative:.2e} of the objective; tol={rule.tol:g} was not reached"
    )
    if control.is_out_of_time:
        warnings.warn(told, ConvergenceWarning, stacklevel=callers_level())
    else:
        _logger.info("%s", told)
    return True


def callers_level() -> int:
    """Return the stacklevel, for the function that asks, of the first frame outside the package.

    Returns
    -------
    int
        For `warnings.warn`.
    """
    level, frame = 1, sys._getframe(1)
    inside = ("snapml", "sklearn.callback")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(inside):
        level, frame = level + 1, frame.f_back
    return level


def all_or_nothing(fit: Any) -> Any:
    """Decorate fit: where it fails, the estimator is what it was before.

    Parameters
    ----------
    fit : callable
        Method that stores attributes on its estimator.

    Returns
    -------
    callable
        The method, which restores all attributes if it raises.
    """
    call = in_fit_call(fit)
    needs_labels = inspect.signature(fit).parameters["y"].default is inspect.Parameter.empty

    @functools.wraps(fit)
    def fit_or_restore(self: Any, *args: Any, **kwargs: Any) -> Any:
        if needs_labels and len(args) < 2 and "y" not in kwargs:
            # Rows that bring labels along are no oversight, but what this class cannot take.
            refuse_rows_elsewhere(self, kwargs.get("X", args[0] if args else None))
        before = dict(vars(self))
        try:
            with removing_temporary_stores():
                return call(self, *args, **kwargs)
        except BaseException as error:
            vars(self).clear()
            vars(self).update(before)
            if device_number(kwargs.get("X", args[0] if args else None)) is not None:
                device_choice.forget_locals(error)  # a copy of X in another order, on its device
            raise

    return fit_or_restore


def _show_log_lines() -> None:
    """Make INFO lines visible where the application has not set up logging itself."""
    if not _logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        _logger.addHandler(handler)
    if _logger.getEffectiveLevel() > logging.INFO:
        _logger.setLevel(logging.INFO)
