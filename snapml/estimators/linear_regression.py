"""Linear regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from snapml._validation import check_finite_in, check_fit_input, check_sample_weight
from snapml.data import Dataset
from snapml.estimators.base import LinearEstimator, all_or_nothing
from snapml.problems import Intercept, Penalty, Problem, Squared

__all__ = ["Ridge"]

_SOLVERS = ("auto", "sdca", "pqn", "svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga")
_DEFAULT_MAX_ITER = 1000


class Ridge(RegressorMixin, LinearEstimator):
    """Linear least squares with L2 penalty.

    Minimises ``sum_i sample_weight_i (x_i.w + b - y_i)^2 + alpha ||w||^2``, the objective of
    scikit-learn's class; divided by ``2 alpha`` it is objective (1) of docs/notation.md with
    ``C = 1 / alpha``. Solved by stochastic dual coordinate ascent [1]_ with a certified duality
    gap.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1.0
        Regularisation strength, positive.
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised.
    copy_X : bool, default=True
        Has no effect: X is never changed.
    max_iter : int or None, default=None
        Most epochs (reads of the data); None means 1000.
    tol : float, default=1e-8
        Stop once the certified duality gap is at most `tol` times the objective.
    solver : str, default='auto'
        scikit-learn's names are accepted and all give the same answer.
    positive : bool, default=False
        Only False in this version.
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
        it is scikit-learn's.
    n_iter_ : ndarray of shape (n_targets,), int32
        Epochs.
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
        NotImplementedError
            For problems this version cannot solve yet: ``alpha=0`` and ``positive=True``.
        """
        self._check_parameters()
        max_iter = _DEFAULT_MAX_ITER if self.max_iter is None else self.max_iter
        rule = self._stopping_rule(max_iter)
        matrix, y = check_fit_input(self, X, y, multi_output=True, y_numeric=True)
        weights = check_sample_weight(sample_weight, matrix)
        targets = y.reshape(matrix.shape[0], -1)
        solver = self.solver if self.solver in ("sdca", "pqn") else "auto"
        with np.errstate(over="ignore"):  # refused as not finite
            targets = np.ascontiguousarray(targets.T, dtype=matrix.dtype)
        alphas = self._alphas(len(targets))
        # Targets with one alpha share each read of the data.
        parts = [targets] if (alphas == alphas[0]).all() else list(targets)
        results = []
        for part, alpha in zip(parts, alphas, strict=False):
            problem, cost = self._pose(alpha, matrix.dtype)
            row_weights = None if weights is None else weights * matrix.dtype.type(cost)
            labels = part[0] if part.shape[0] == 1 and part.ndim == 2 else part
            dataset = Dataset(matrix, labels, row_weights, cost)
            results.append(self._run(X, problem, dataset, rule, solver=solver))
        coef = np.vstack([result.coef for result in results])
        intercept = np.hstack([result.intercept for result in results]).astype(matrix.dtype)
        n_iter = np.array([result.n_iter for result in results], dtype=np.int32)
        self.n_iter_ = np.broadcast_to(n_iter, len(targets)).copy()
        is_single = y.ndim == 1
        self.coef_ = coef[0] if is_single else coef
        self.intercept_ = intercept[0] if is_single else intercept
        self._store_certificate(results)
        return self

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

    def _check_parameters(self) -> None:
        """Refuse parameters that are not as described."""
        self._check_device()
        if self.solver not in (*_SOLVERS, "lbfgs"):
            raise ValueError(f"solver: expected one of {_SOLVERS}, got {self.solver!r}")
        if self.positive or self.solver == "lbfgs":
            raise NotImplementedError(
                f"positive={self.positive!r}, solver={self.solver!r}: this version has no "
                "constraint on signs; scikit-learn's Ridge(positive=True) has"
            )

    def _pose(self, alpha: float, dtype: np.dtype) -> tuple[Problem, float]:
        """Return the problem of one target and its C = 1 / alpha, or C = 1 without a penalty."""
        intercept = Intercept.FREE if self.fit_intercept else Intercept.NONE
        if alpha == 0.0:
            return Problem(Squared(), intercept, penalty=Penalty(0.0, 0.0)), 1.0
        check_finite_in("alpha", alpha, dtype)
        cost = check_finite_in("1 / alpha", 1.0 / alpha, dtype)
        return Problem(Squared(), intercept), cost

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
