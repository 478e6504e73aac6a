"""Quantile regression."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from snapml._validation import check_sample_weight
from snapml.estimators.base import all_or_nothing
from snapml.estimators.coordinate_regression import checked_strength, mean_dataset, penalty_of
from snapml.estimators.fit_call import CallbackSupport
from snapml.estimators.linear_regression import LinearRegressor
from snapml.estimators.placement import fit_input
from snapml.problems import Intercept, Problem, Quantile
from snapml.solvers.control import Interim, among_outputs
from snapml.solvers.result import FitResult

__all__ = ["QuantileRegressor"]

# Names of scikit-learn's solvers of linear programs, which all have the same answer.
_SOLVERS = ("highs", "highs-ds", "highs-ipm")
_OWN_SOLVERS = ("auto", "ipm", "sdca")


class QuantileRegressor(CallbackSupport, LinearRegressor):
    """Linear regression for a quantile of the target, or for several at once.

    Minimises ``sum_i s_i l(y_i - x_i.w - b) / sum_i s_i + alpha * (l1_ratio * ||w||_1
    + (1 - l1_ratio) * ||w||^2 / 2)`` with ``l(r) = max(q r, (q - 1) r)`` [1]_, with `l1_ratio` 1
    the objective of scikit-learn's class. An interior point method works on the rows near their
    quantile [2]_; the gap is certified over all rows.

    Parameters
    ----------
    quantile : float or sequence of float, default=0.5
        q, between 0 and 1, both excluded. Of several, each has a model of its own.
    alpha : float, default=1.0
        Strength of the penalty, at least 0.
    l1_ratio : float, default=1.0
        Share of the L1 norm, from 0 (L2) to 1.
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised.
    solver : str, default='auto'
        'auto', 'ipm' for the interior point method, or 'sdca' for dual coordinate ascent, which
        needs ``l1_ratio=0``. scikit-learn's names mean 'auto'.
    solver_options : dict or None, default=None
        Accepted for scikit-learn's sake, and not used.
    tol : float, default=1e-6
        Stop once the certified duality gap is at most `tol` times the objective.
    max_iter : int, default=1000
        Most reads of the data.
    verbose : int, default=0
        Log progress every `verbose` reads of the data to the logger ``snapml``.
    random_state : int, RandomState instance or None, default=None
        Sample of the rows that the first guess is made from. None is a fixed seed: equal fits give
        equal bits.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, fewer on small data.
    deterministic : bool, default=True
        Whether equal fits with equal `n_threads` give equal bits.
    device_ids : list of int or None, default=None
        GPUs to train on, as CUDA counts them, with ``l1_ratio=0``; None is the CPU.
    memory_limit : int, float, str or 'auto', default='auto'
        What rows may take, as bytes or text such as "4GB", where they stream from a store.
    max_time_s : float or None, default=None
        Seconds after which the fit ends with the best model so far and its certified gap, and with
        a ``ConvergenceWarning``. None sets no bound.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_quantiles, n_features)
        w, in the dtype of X (float64 where X is not float32).
    intercept_ : float, or ndarray of shape (n_quantiles,)
        b.
    gap_ : float
        Certified duality gap, summed over the models.
    objective_ : float
        Value of the objective, summed over the models, evaluated in float64.
    n_iter_ : int
        Reads of the data, of the model that took most.
    history_ : list of dict
        One entry per set of rows: ``epoch``, ``time_s``, ``running_gap``, ``gap`` and
        ``objective``.
    solver_ : str
        What was run, and why.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has string names.

    References
    ----------
    .. [1] Koenker and Bassett, "Regression quantiles", Econometrica 1978.
    .. [2] Portnoy and Koenker, "The Gaussian hare and the Laplacian tortoise", Statist. Sci. 1997;
       docs/algorithms.md, section 11.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from snapml import QuantileRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> QuantileRegressor(quantile=[0.1, 0.5, 0.9], alpha=0).fit(X, y).predict(X).shape
    (442, 3)
    """

    def __init__(
        self,
        *,
        quantile: Any = 0.5,
        alpha: float = 1.0,
        l1_ratio: float = 1.0,
        fit_intercept: bool = True,
        solver: str = "auto",
        solver_options: Any = None,
        tol: float = 1e-6,
        max_iter: int = 1000,
        verbose: int = 0,
        random_state: Any = None,
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: Any = None,
        memory_limit: Any = "auto",
        max_time_s: float | None = None,
    ) -> None:
        self.quantile = quantile
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.solver_options = solver_options
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
        self.random_state = random_state
        self.n_threads = n_threads
        self.deterministic = deterministic
        self.device_ids = device_ids
        self.memory_limit = memory_limit
        self.max_time_s = max_time_s

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> QuantileRegressor:
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

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If parameters or data are not as described; the message says what came.
        NotImplementedError
            For an L1 penalty, or none, on a GPU, on more than 3,000 columns, or on a store whose
            rows take more than half of `memory_limit`.
        """
        quantiles = self._checked_quantiles()
        penalty = penalty_of(*checked_strength(self.alpha, self.l1_ratio), is_positive=False)
        if self.solver not in (*_SOLVERS, *_OWN_SOLVERS):
            known = (*_SOLVERS, *_OWN_SOLVERS)
            raise ValueError(f"solver: expected one of {known}, got {self.solver!r}")
        solver = self.solver if self.solver in _OWN_SOLVERS else "auto"
        rule = self._stopping_rule(self.max_iter)
        matrix, y = fit_input(self, X, y, y_numeric=True)
        self._agree_on_rows(matrix)
        exchange = self._communicator().exchange
        weights = check_sample_weight(sample_weight, matrix, exchange)
        dataset = mean_dataset(matrix, y, weights, exchange)
        intercept = Intercept.FREE if self.fit_intercept else Intercept.NONE
        results: list[FitResult] = []
        for quantile in quantiles:
            problem = Problem(Quantile(quantile), intercept, 1.0, penalty)
            view = rule.control.through(among_outputs(results, len(quantiles)))
            own = replace(rule, control=view)
            results.append(self._run(X, problem, dataset, own, None, solver))
        coef = np.array([result.coef for result in results], dtype=matrix.dtype) + 0.0  # no -0
        levels = np.array([result.intercept for result in results])
        is_one = np.ndim(self.quantile) == 0
        self.coef_ = coef[0] if is_one else coef
        self.intercept_ = float(levels[0]) if is_one else levels.astype(matrix.dtype)
        self.n_iter_ = max(result.n_iter for result in results)
        self._store_certificate(results)
        self._keep_objective()
        return self

    def _interim_attributes(self, model: Interim) -> dict[str, Any]:
        attributes = super()._interim_attributes(model)
        if np.ndim(self.quantile) > 0:  # of one in a list, too
            attributes |= {"coef_": model.coef, "intercept_": model.intercept}
        return attributes

    def _checked_quantiles(self) -> list[float]:
        """Return the quantiles as numbers, one at least."""
        try:
            values = np.atleast_1d(np.asarray(self.quantile, dtype=np.float64))
        except (TypeError, ValueError):
            values = np.array([math.nan])
        if values.ndim != 1 or not len(values) or not ((values > 0.0) & (values < 1.0)).all():
            raise ValueError(
                f"quantile: expected numbers between 0 and 1, both excluded, got {self.quantile!r}"
            )
        return [float(value) for value in values]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags
