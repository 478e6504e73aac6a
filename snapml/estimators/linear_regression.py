"""Linear regression, plain and with L2 penalty."""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import RegressorMixin

from snapml._validation import (
    check_finite_in,
    check_fit_input,
    check_positive,
    check_sample_weight,
    raise_non_finite,
)
from snapml.data import CompressedMatrix, Dataset, Matrix
from snapml.estimators.base import LinearEstimator, all_or_nothing
from snapml.problems import Intercept, Problem, Squared
from snapml.solvers.cpu_engine import NonFiniteError
from snapml.solvers.least_squares import LeastSquaresResult, is_direct, solve_least_squares
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

__all__ = ["LinearRegression", "LinearRegressor", "Ridge", "least_squares_fit"]

_SOLVERS = ("auto", "svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga")
_logger = logging.getLogger("snapml")
_DEFAULT_MAX_ITER = 1000
# Coordinate ascent does not get closer than the rounding of its running sums.
_LEAST_ASCENT_TOL = 1e-12


class LinearRegressor(RegressorMixin, LinearEstimator):
    """Base of the regressors: any number of targets, predict."""

    def predict(self, X: Any) -> np.ndarray:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
            ``X @ coef_.T + intercept_``.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before fit.
        ValueError
            If X has another number of features than in fit, or is not finite.
        """
        scores = self._decision(X)
        return scores if self.coef_.ndim == 2 else scores[:, 0]

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
        Singular values below `tol` times the largest count as zero where the normal equations are
        ill conditioned; tolerance of LSQR on sparse data too large for anything else.
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
        What ``objective_`` can be above its minimum; infinite where that is not known.
    objective_ : float
        Half the sum above, summed over the targets, evaluated in float64.
    solver_ : str
        What was run.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
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
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearRegression:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; sparse X only without `positive`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weight k counts as k copies of the row, weight 0 as none.

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
        weights = check_sample_weight(sample_weight, matrix)
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
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self.positive
        return tags


class Ridge(LinearRegressor):
    """Linear least squares with L2 penalty.

    Minimises ``sum_i sample_weight_i (x_i.w + b - y_i)^2 + alpha ||w||^2``, the objective of
    scikit-learn's class; divided by ``2 alpha`` it is objective (1) of docs/notation.md with
    ``C = 1 / alpha``. Where rows or columns are few, the normal equations are solved in float64 by
    Cholesky factorisation and refined on the residual; else by stochastic dual coordinate ascent
    [1]_. Both with a certified duality gap.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1.0
        Regularisation strength, at least 0; 0 gives the least-squares model of least norm.
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised.
    copy_X : bool, default=True
        Has no effect: X is never changed.
    max_iter : int or None, default=None
        Most epochs (reads of the data); None means 1000.
    tol : float, default=1e-8
        Stop once the certified duality gap is at most `tol` times the objective.
    solver : str, default='auto'
        scikit-learn's names are accepted and all give the same answer; 'sag' and 'saga' ask for
        coordinate ascent also on small data.
    positive : bool, default=False
        Whether negative coefficients are forbidden; for 'auto' and 'lbfgs'.
    random_state : int, RandomState instance or None, default=None
        Order in which rows are visited. None is a fixed order: equal fits give equal bits.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, fewer on small data.
    deterministic : bool, default=True
        Whether equal fits with equal `n_threads` give equal bits. If False, threads on sparse data
        update one vector without waiting for each other; the certificate holds all the same.
    device_ids : None
        GPUs are not supported in this version.
    verbose : int, default=0
        Log progress every `verbose` epochs to the logger ``snapml``.

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
        Epochs; one where linear equations were solved.
    history_ : list of dict, or one such list per target
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
        device_ids: None = None,
        verbose: int = 0,
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
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Ridge:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; float32 and float64 are used in place, in any layout.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
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
        problem = self._make_problem()
        max_iter = _DEFAULT_MAX_ITER if self.max_iter is None else self.max_iter
        rule = self._stopping_rule(max_iter)
        self._seed()  # refuses what is none
        matrix, y = check_fit_input(self, X, y, multi_output=True, y_numeric=True)
        weights = check_sample_weight(sample_weight, matrix)
        alphas = self._alphas(1 if y.ndim == 1 else y.shape[1])
        for alpha in alphas[alphas > 0]:
            check_finite_in("alpha", alpha, matrix.dtype)
            check_finite_in("1 / alpha", 1.0 / alpha, matrix.dtype)
        if self._is_direct(matrix.shape, alphas):
            self._fit_directly(X, matrix, y, weights, alphas)
        else:
            self._fit_by_ascent(X, matrix, y, weights, alphas, problem, rule)
        return self

    def _store_models(self, coef: np.ndarray, intercept: np.ndarray, y: np.ndarray) -> None:
        """Keep one model per target; scikit-learn's class flattens the coefficients of one."""
        super()._store_models(coef, intercept, y)
        if len(coef) == 1:
            self.coef_ = coef[0]

    def _is_direct(self, shape: tuple[int, int], alphas: np.ndarray) -> bool:
        """Say whether to solve linear equations: what ascent cannot do, and what is small."""
        if self.positive or alphas.min() == 0 or self.tol < _LEAST_ASCENT_TOL:
            return True
        return is_direct(shape) and self.solver not in ("sag", "saga")

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
            self, X, matrix, y, weights, alphas=alphas, is_positive=self.positive, tol=0.0
        )
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

    def _fit_by_ascent(
        self,
        X: Any,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        alphas: np.ndarray,
        problem: Problem,
        rule: StoppingRule,
    ) -> None:
        """Run dual coordinate ascent, target by target."""
        results: list[FitResult] = []
        for target, alpha in zip(y.reshape(matrix.shape[0], -1).T, alphas, strict=True):
            cost = float(1.0 / alpha)
            row_weights = None if weights is None else weights * matrix.dtype.type(cost)
            with np.errstate(over="ignore"):  # refused as not finite
                labels = np.ascontiguousarray(target, dtype=matrix.dtype)
            results.append(self._run(X, problem, Dataset(matrix, labels, row_weights, cost), rule))
        coef = np.vstack([result.coef for result in results])
        intercept = np.array([result.intercept for result in results], dtype=matrix.dtype)
        self._store_models(coef, intercept, y)
        self.n_iter_ = np.array([result.n_iter for result in results], dtype=np.int32)
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
        self._check_device()
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
        return Problem(Squared(), Intercept.FREE if self.fit_intercept else Intercept.NONE)


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
        Of `snapml.solvers.least_squares.solve_least_squares`.

    Returns
    -------
    LeastSquaresResult
        Finite.

    Raises
    ------
    ValueError
        If X is not finite, or the fit overflows.
    """
    targets = y.reshape(matrix.shape[0], -1)
    with np.errstate(over="ignore"):  # refused as not finite
        targets = targets.astype(matrix.dtype, copy=False)
    if not np.isfinite(targets).all():
        raise ValueError(f"y: expected numbers that are finite in {matrix.dtype}")
    try:
        result = solve_least_squares(
            matrix,
            targets,
            weights,
            bool(estimator.fit_intercept),
            n_threads=estimator.n_threads,
            **options,
        )
    except NonFiniteError:
        raise_non_finite(estimator, X)
    if not (np.isfinite(result.coef).all() and np.isfinite(result.objective).all()):
        raise ValueError(
            f"the fit overflowed {matrix.dtype}: scale the features, or regularise more"
        )
    return result
