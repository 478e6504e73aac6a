"""Linear support vector regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml._validation import check_finite_in, check_positive, check_sample_weight
from snapml.data import Dataset, Matrix
from snapml.estimators.base import all_or_nothing
from snapml.estimators.fit_call import CallbackSupport
from snapml.estimators.linear_regression import LinearRegressor
from snapml.estimators.placement import fit_input
from snapml.problems import EpsilonInsensitive, Intercept, Problem, SquaredEpsilonInsensitive
from snapml.solvers.control import Interim

__all__ = ["LinearSVR"]

_SOLVERS = ("auto", "ipm", "sdca", "pqn")
_LOSSES = {
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
}


class LinearSVR(CallbackSupport, LinearRegressor):
    """Linear support vector regression.

    Minimises ``sum_i C sample_weight_i l(y_i - x_i.w - b) + (||w||^2 + w_b^2) / 2`` with ``b =
    intercept_scaling * w_b``, the objective of scikit-learn's class, where ``l(r)`` is ``max(0,
    |r| - epsilon)`` [1]_ or its square. The solver follows the data: an interior point method or
    dual coordinate ascent [2]_, for the square a quasi-Newton method; always with a certified
    duality gap.

    Parameters
    ----------
    epsilon : float, default=0.0
        Residuals up to here cost nothing; at least 0, in the unit of y.
    tol : float, default=1e-5
        Stop once the certified duality gap is at most `tol` times the objective.
    C : float, default=1.0
        Inverse of the regularisation strength, positive and finite.
    loss : {'epsilon_insensitive', 'squared_epsilon_insensitive'}, default='epsilon_insensitive'
        The loss l.
    fit_intercept : bool, default=True
        Whether to fit b. As in scikit-learn it is penalised.
    intercept_scaling : float, default=1.0
        Value of the intercept's constant column: the larger, the weaker its penalty.
    dual : 'auto' or bool, default='auto'
        Accepted for scikit-learn's sake; the answer is the same.
    verbose : int, default=0
        Log progress every `verbose` reads of the data to the logger ``snapml``.
    random_state : int, RandomState instance or None, default=None
        Order in which rows are visited, and samples of them. None is a fixed seed: equal fits give
        equal bits.
    max_iter : int, default=1000
        Most reads of the data.
    solver : {'auto', 'ipm', 'sdca', 'pqn'}, default='auto'
        'auto' chooses by the data and says why in ``solver_``; 'ipm' is the interior point method
        and 'sdca' dual coordinate ascent, both for the loss with corners; 'pqn' is the
        quasi-Newton method, for its square.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, fewer on small data.
    deterministic : bool, default=True
        Whether equal fits with equal `n_threads` give equal bits. If False, threads on sparse data
        update one vector without waiting for each other; the certificate holds all the same.
    device_ids : list of int or None, default=None
        GPUs to train on, as CUDA counts them; None is the CPU, or the GPU that X is on.
    memory_limit : int, float, str or 'auto', default='auto'
        What rows may take, as bytes or text such as "4GB": in the machine's memory where they
        stream from a store, and on each GPU. 'auto' is what the store was opened with, or half of
        what is available.
    max_time_s : float or None, default=None
        Seconds after which the fit ends with the best model so far and its certified gap, and with
        a ``ConvergenceWarning``. None sets no bound.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        w, in the dtype of X (float64 where X is not float32).
    intercept_ : ndarray of shape (1,)
        b.
    gap_ : float
        Certified duality gap.
    objective_ : float
        Value of the objective, evaluated in float64.
    n_iter_ : int
        Reads of the data.
    history_ : list of dict
        One entry per epoch, iteration or set of rows: ``epoch``, ``time_s``, ``running_gap`` (an
        estimate), and ``gap`` and ``objective`` (NaN where no exact pass was made).
    solver_ : str
        What was run, and why.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has string names.

    References
    ----------
    .. [1] Vapnik, "The nature of statistical learning theory", Springer 1995.
    .. [2] Ho and Lin, "Large-scale linear support vector regression", JMLR 2012;
       docs/algorithms.md, sections 1 and 11.1.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from snapml import LinearSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> LinearSVR(epsilon=10.0, C=10.0).fit(X, y).coef_.shape
    (10,)
    """

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        tol: float = 1e-5,
        C: float = 1.0,
        loss: str = "epsilon_insensitive",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        dual: Any = "auto",
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int = 1000,
        solver: str = "auto",
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: Any = None,
        memory_limit: Any = "auto",
        max_time_s: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.tol = tol
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.dual = dual
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.solver = solver
        self.n_threads = n_threads
        self.deterministic = deterministic
        self.device_ids = device_ids
        self.memory_limit = memory_limit
        self.max_time_s = max_time_s

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearSVR:
        """Fit the model.

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
        NotImplementedError
            For ``solver='ipm'`` on a GPU, on more than 3,000 columns (unless rows are dense, at
            most 2,000, and fewer by a third), or on a store whose rows take more than half of
            `memory_limit`.
        """
        problem = self._make_problem()
        cost = check_positive("C", self.C)
        rule = self._stopping_rule(self.max_iter)
        matrix, y = fit_input(self, X, y, y_numeric=True)
        self._agree_on_rows(matrix)
        weights = check_sample_weight(sample_weight, matrix, self._communicator().exchange)
        check_finite_in("C", cost, matrix.dtype)
        dataset = _weighted(matrix, y, weights, cost)
        result = self._run(X, problem, dataset, rule, solver=self.solver)
        self.coef_ = result.coef.reshape(-1)
        self.intercept_ = np.array(result.intercept, dtype=matrix.dtype).reshape(1)
        self.n_iter_ = result.n_iter
        self._store_certificate([result])
        self._keep_objective()
        return self

    def _interim_attributes(self, model: Interim) -> dict[str, Any]:
        return super()._interim_attributes(model) | {"intercept_": model.intercept}

    def _make_problem(self) -> Problem:
        """Map the parameters to the objective."""
        self._checked_devices()
        if self.solver not in _SOLVERS:
            raise ValueError(f"solver: expected one of {_SOLVERS}, got {self.solver!r}")
        if self.loss not in _LOSSES:
            raise ValueError(f"loss: expected one of {tuple(_LOSSES)}, got {self.loss!r}")
        epsilon = check_positive("epsilon", self.epsilon, allow_zero=True, allow_infinity=False)
        loss = _LOSSES[self.loss](epsilon)
        if not self.fit_intercept:
            return Problem(loss)
        return Problem(loss, Intercept.PENALISED, self._checked_scaling())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags


def _weighted(matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, cost: float) -> Dataset:
    """Return rows and targets in the matrix's dtype, with weights C * sample_weight."""
    with np.errstate(over="ignore"):  # refused as not finite, here or where they are solved with
        labels = np.ascontiguousarray(y, dtype=matrix.dtype)
        row_weights = None if weights is None else (cost * weights).astype(matrix.dtype)
    if row_weights is not None and not np.isfinite(row_weights).all():
        raise ValueError(f"C * sample_weight: expected finite in {matrix.dtype}")
    return Dataset(matrix, labels, row_weights, cost)
