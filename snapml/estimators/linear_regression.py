"""Linear regression."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score

from snapml._validation import (
    check_fit_input,
    check_positive,
    check_sample_weight,
    raise_non_finite,
)
from snapml.data import ChunkedMatrix, CompressedMatrix, Matrix
from snapml.estimators.base import LinearEstimator, all_or_nothing, callers_level
from snapml.estimators.offsets import check_offset, targets_without
from snapml.estimators.placement import with_host_predictions
from snapml.solvers.control import Interim
from snapml.solvers.least_squares.few_columns import solve_few_columns
from snapml.solvers.least_squares.least_squares import solve_least_squares
from snapml.solvers.least_squares.result import LeastSquaresResult
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.result import overflow_error

__all__ = [
    "LinearRegression",
    "LinearRegressor",
    "check_nonnegative",
    "few_columns_fit",
    "least_squares_fit",
]

# Relative gaps, in units of the data's rounding, that a solution may have; and the least `tol`.
_RESOLUTION, _LEAST_TOL = 8.0, 1e-10
# Share of a target that the float64 sums which predict it may round off; and what that may be at
# most, of the targets' distances from their mean, to count as nothing.
_SUM_ROUNDING, _NOTHING = 2.0**-46, 1e-10


class LinearRegressor(RegressorMixin, LinearEstimator):
    """Base of the regressors: any number of targets, predict."""

    def predict(self, X: Any, *, offset: Any = None) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        offset : float or array-like of shape (n_samples,), default=None
            Added to each row's prediction; required where fit had one (0 leaves it out).

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets)
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
        return self._predicted_targets(X, offset)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Return R^2, the share of the variance of y that predictions explain.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        offset : float or array-like of shape (n_samples,), default=None
            Added to each row's prediction; required where fit had one (0 leaves it out).

        Returns
        -------
        float
            At most 1.
        """
        X, y, sample_weight, offset = with_host_predictions(X, y, sample_weight, offset)
        found = self.predict(X, offset=offset)
        return float(r2_score(y, found, sample_weight=sample_weight))

    def _interim_attributes(self, model: Interim) -> dict[str, Any]:
        attributes = super()._interim_attributes(model)
        if len(model.coef) == 1:
            attributes |= {"coef_": model.coef[0], "intercept_": model.intercept[0]}
        return attributes

    def _store_models(self, coef: np.ndarray, intercept: np.ndarray, y: np.ndarray) -> None:
        """Keep one model per target, or the only one in the shape of a single target."""
        self.coef_ = coef[0] if y.ndim == 1 else coef
        self.intercept_ = intercept[0] if y.ndim == 1 else intercept

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class LinearRegression(LinearRegressor):
    """Ordinary least squares.

    Minimises ``sum_i sample_weight_i (x_i.w + b - y_i)^2``; of several minima, the one with the
    smallest ``||w||``, where ``tol`` says which singular values count as zero. Solved by Cholesky
    factorisation of the normal equations, refined on the residual [1]_, where these are well
    conditioned, and by singular value decomposition where not; in float64 always.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether to fit b.
    copy_X : bool, default=True
        Has no effect: X is never changed.
    tol : float, default=1e-6
        Singular values below `tol` times the largest count as zero where the normal equations of
        the columns are ill conditioned or rows are fewer than columns; tolerance of LSQR on sparse
        data too large for anything else.
    n_jobs : int or None, default=None
        Has no effect; see `n_threads`.
    positive : bool, default=False
        Whether negative coefficients are forbidden; for dense X only.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, one on small data.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        w, in the dtype of X (float64 where X is not float32).
    intercept_ : float or ndarray of shape (n_targets,)
        b; 0.0 without an intercept.
    rank_ : int
        Rank of X, centred if there is an intercept. Only for dense X and any signs.
    singular_ : ndarray of shape (min(n_samples, n_features),)
        Singular values of X, centred if there is an intercept. Only for dense X and any signs.
    gap_ : float
        What ``objective_`` can be above its minimum; all of it where nothing else is known.
    objective_ : float
        Half the sum above, summed over the targets, evaluated in float64.
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
    .. [1] Bjorck, "Numerical methods for least squares problems", SIAM 1996; section 6.6.5 on the
       corrected seminormal equations.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import LinearRegression
    >>> X = np.array([[1.0, 1.0], [1.0, 2.0], [2.0, 2.0], [2.0, 3.0]])
    >>> LinearRegression().fit(X, X @ [1.0, 2.0] + 3.0).coef_.round(6)
    array([1., 2.])
    """

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        tol: float = 1e-6,
        n_jobs: int | None = None,
        positive: bool = False,
        n_threads: int | None = None,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.copy_X = copy_X
        self.tol = tol
        self.n_jobs = n_jobs
        self.positive = positive
        self.n_threads = n_threads

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None
    ) -> LinearRegression:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; sparse X only without `positive`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
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
        TypeError, ValueError
            If parameters or data are not as described; the message says what came.
        """
        tol = check_positive("tol", self.tol, allow_zero=True)
        is_sparse = issparse(X) or isinstance(X, CompressedMatrix)
        if self.positive and is_sparse:
            raise TypeError(
                "positive=True: Sparse data was passed for X, but dense data is required. "
                "Use '.toarray()' to convert to a dense numpy array."
            )
        matrix, y = check_fit_input(self, X, y, multi_output=True, y_numeric=True)
        self._agree_on_rows(matrix)
        weights = check_sample_weight(sample_weight, matrix, self._communicator().exchange)
        offsets = check_offset(offset, matrix, X)
        self.has_offset_ = offsets is not None
        y = targets_without(y, offsets)
        result = least_squares_fit(self, X, matrix, y, weights, is_positive=self.positive, tol=tol)
        self._store_models(result.coef, result.intercept, y)
        for name in ("rank_", "singular_"):
            if hasattr(self, name):
                delattr(self, name)
        if result.rank is not None and not is_sparse:
            self.rank_, self.singular_ = result.rank, result.singular
        self.gap_ = float(result.gap.sum())
        self.objective_ = float(result.objective.sum())
        self.solver_ = result.description
        self._keep_objective()
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self.positive
        return tags


def check_nonnegative(matrix: Matrix, device_ids: Sequence[int]) -> None:
    """Refuse least squares with w >= 0 and no penalty where no bound of theirs is known.

    Parameters
    ----------
    matrix : Matrix
        The rows.
    device_ids : sequence of int
        GPUs to train on; none is the CPU.

    Raises
    ------
    NotImplementedError
        On a store or a GPU.
    """
    if not (device_ids or isinstance(matrix, ChunkedMatrix)):
        return
    place = f"with device_ids={list(device_ids)!r}" if device_ids else "on a store"
    rest = "device_ids=None" if device_ids else "pass what X.load() returns"
    raise NotImplementedError(
        f"positive=True and alpha=0 {place}: this version has alpha > 0 there; use that, or {rest}"
    )


def least_squares_fit(
    estimator: LinearEstimator,
    X: Any,
    matrix: Matrix,
    y: np.ndarray,
    weights: np.ndarray | None,
    **options: Any,
) -> LeastSquaresResult:
    """Solve least squares for checked data, refusing what is not finite.

    Parameters
    ----------
    estimator : estimator
        Has ``fit_intercept`` and ``n_threads``, and is named in messages.
    X : object
        The user's data, to be searched for what is not finite.
    matrix : Matrix
        The same, checked.
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Targets.
    weights : ndarray of shape (n_rows,) or None
        Sample weights.
    **options : object
        Of `snapml.solvers.least_squares.least_squares.solve_least_squares`.

    Returns
    -------
    LeastSquaresResult
        Finite.

    Raises
    ------
    ValueError
        If X is not finite, or the fit overflows.
    """
    targets = _finite_targets(estimator, matrix, y)
    try:
        result = solve_least_squares(
            matrix,
            targets,
            weights,
            bool(estimator.fit_intercept),
            n_threads=estimator.n_threads,
            communicator=estimator._communicator(),
            **options,
        )
    except NonFiniteError:
        raise_non_finite(estimator, X)
    return _checked(estimator, result, targets, weights)


def few_columns_fit(
    estimator: LinearEstimator,
    matrix: Matrix,
    y: np.ndarray,
    weights: np.ndarray | None,
    alphas: np.ndarray,
) -> LeastSquaresResult | None:
    """Solve least squares as `least_squares_fit` does, where one call of the extension is enough.

    Parameters
    ----------
    estimator : estimator
        Has ``fit_intercept`` and ``n_threads``, and is named in messages.
    matrix : Matrix
        The rows, checked but for entries that are not finite.
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Targets.
    weights : ndarray of shape (n_rows,) or None
        Sample weights.
    alphas : ndarray of shape (n_targets,), float64
        Strength of the penalty of each target.

    Returns
    -------
    LeastSquaresResult or None
        Finite; None where one call is not enough.

    Raises
    ------
    ValueError
        If the fit overflows.
    """
    targets = _finite_targets(estimator, matrix, y)
    result = solve_few_columns(
        matrix,
        targets,
        weights,
        bool(estimator.fit_intercept),
        np.asarray(alphas, dtype=np.float64),
        estimator._communicator(),
        estimator.n_threads,
    )
    return None if result is None else _checked(estimator, result, targets, weights)


def _finite_targets(estimator: LinearEstimator, matrix: Matrix, y: np.ndarray) -> np.ndarray:
    """Return the targets in the type of the rows, one column each."""
    targets = estimator._target_columns(matrix, y)
    with np.errstate(over="ignore"):  # refused as not finite
        targets = targets.astype(matrix.dtype, copy=False)
    if not np.isfinite(targets).all():
        raise ValueError(f"y: expected numbers that are finite in {matrix.dtype}")
    return targets


def _checked(
    estimator: LinearEstimator,
    result: LeastSquaresResult,
    targets: np.ndarray,
    weights: np.ndarray | None,
) -> LeastSquaresResult:
    """Refuse models that overflow, and warn of those that are far from the minimum."""
    if not (np.isfinite(result.coef).all() and np.isfinite(result.objective).all()):
        raise overflow_error(targets.dtype)
    _warn_of_gap(estimator, result, targets, weights)
    return result


def _warn_of_gap(
    estimator: LinearEstimator,
    result: LeastSquaresResult,
    targets: np.ndarray,
    weights: np.ndarray | None,
) -> None:
    """Warn where the solution is further from the minimum than `tol` and the type's rounding."""
    eps = float(np.finfo(targets.dtype).eps)
    tol = max(float(getattr(estimator, "tol", 0.0)), _RESOLUTION * eps, _LEAST_TOL)
    if np.all(result.gap <= tol * result.objective):
        return
    weighted = np.ones(len(targets)) if weights is None else weights.astype(np.float64)
    values = targets.astype(np.float64)
    exchange = estimator._communicator().exchange
    raw = 0.5 * sum(exchange(np.einsum("i,ik,ik->k", weighted, values, values)))
    if estimator.fit_intercept:
        total = max(weighted.sum(), np.finfo(np.float64).tiny)
        values = values - np.einsum("i,ik->k", weighted, values) / total
    squares = 0.5 * sum(exchange(np.einsum("i,ik,ik->k", weighted, values, values)))
    # Where the rows are interpolated, all of the objective is rounding.
    of_sums = np.minimum(_SUM_ROUNDING**2 * raw, _NOTHING**2 * squares)
    rounding = np.maximum((_RESOLUTION * eps) ** 2 * squares, of_sums)
    is_far = result.gap > np.maximum(tol * result.objective, rounding)
    is_far &= np.isfinite(result.gap)  # of what has no bound nobody knows
    if is_far.any():
        worst = int(np.argmax(result.gap / np.maximum(result.objective, 1e-300)))
        relative = result.gap[worst] / result.objective[worst]
        cause = (
            f"since numbers of these columns are far from zero beside their spread, or from each "
            f"other, for {targets.dtype}: subtract the columns' means, or pass float64"
        )
        if result.singular is not None and result.rank != len(result.singular):
            cause = (
                f"since columns are nearly collinear: of {len(result.singular)} singular values "
                f"{len(result.singular) - (result.rank or 0)} were taken as zero; a smaller tol "
                f"keeps more of them"
            )
        warnings.warn(
            f"relative duality gap {relative:.2e}: tol={tol:.1e} was not reached, {cause}",
            ConvergenceWarning,
            stacklevel=callers_level(),
        )
