"""Models along a grid of regularisation strengths, and the choice among them."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array, check_consistent_length, check_scalar

from snapml._validation import (
    as_matrix,
    check_fit_input,
    check_positive,
    check_sample_weight,
    raise_for_routed_params,
    raise_non_finite,
    refuse_device,
)
from snapml.data import Dataset, Matrix
from snapml.estimators.base import all_or_nothing, callers_level
from snapml.estimators.coordinate_regression import (
    ElasticNet,
    check_gram,
    mean_dataset,
    penalty_of,
    solve_path,
    warn_not_converged,
)
from snapml.estimators.offsets import check_offset, targets_without
from snapml.problems import Intercept, Penalty, Problem, Squared
from snapml.searches.search_watch import SearchWatch, has_ended
from snapml.searches.shared.fold_rows import take_rows
from snapml.searches.shared.square_folds import SquareFolds, mean_squared_errors
from snapml.searches.splits import RoutesToSplitter, check_folds
from snapml.solvers.columns.cpu_columns import CpuColumns
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.control import UNBOUNDED, Control
from snapml.solvers.fit_settings import Settings
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.result import FitResult, StartModel
from snapml.solvers.stopping import StoppingRule

__all__ = ["ElasticNetCV", "LassoCV", "enet_path", "lasso_path"]

_SMALLEST_ALPHA = float(np.finfo(np.float64).resolution)


def enet_path(
    X: Any,
    y: Any,
    *,
    l1_ratio: float = 0.5,
    eps: float = 1e-3,
    n_alphas: Any = "deprecated",
    alphas: Any = "warn",
    precompute: Any = "auto",
    Xy: Any = None,
    copy_X: bool = True,
    coef_init: Any = None,
    verbose: int = False,
    return_n_iter: bool = False,
    positive: bool = False,
    check_input: bool = True,
    tol: float = 1e-8,
    max_iter: int = 1000,
    sample_weight: Any = None,
    random_state: Any = None,
    selection: str = "cyclic",
    do_screening: bool = True,
    n_threads: int | None = None,
    **params: Any,
) -> tuple[Any, ...]:
    """Fit elastic nets without intercept along a path of strengths.

    Each fit starts from the one before and keeps its Gram matrix.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Training data.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets; several are fitted one by one.
    l1_ratio : float, default=0.5
        Share of the L1 penalty, between 0 and 1.
    eps : float, default=1e-3
        Least strength of the path relative to the largest.
    n_alphas : int, default='deprecated'
        As in scikit-learn 1.9, where it is deprecated: `alphas` takes the number.
    alphas : array-like or int, default='warn'
        Strengths, or their number; the default means 100 of them.
    precompute : 'auto', bool or array-like, default='auto'
        Has no effect but that a matrix which is not the Gram matrix of X is refused.
    Xy, copy_X, check_input : object
        Have no effect.
    coef_init : ndarray of shape (n_features,), default=None
        Coefficients to start from.
    verbose : int, default=False
        Log progress every `verbose` reads to the logger ``snapml``.
    return_n_iter : bool, default=False
        Whether to return the reads of the data too.
    positive : bool, default=False
        Whether to forbid negative coefficients.
    tol : float, default=1e-8
        Stop each fit once its certified duality gap is at most `tol` times the objective.
    max_iter : int, default=1000
        Most reads of the data for each fit, beyond the first.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows.
    random_state, selection, do_screening : object
        Have no effect.
    n_threads : int or None, default=None
        Threads to use.
    **params : object
        Refused.

    Returns
    -------
    alphas : ndarray of shape (n_alphas,)
        Strengths, from the largest to the least.
    coefs : ndarray of shape (n_features, n_alphas) or (n_targets, n_features, n_alphas)
        Coefficients.
    dual_gaps : ndarray of shape (n_alphas,)
        Certified duality gaps, summed over the targets.
    n_iters : list of int
        Reads of the data beyond the first; only if `return_n_iter`.

    Raises
    ------
    ValueError
        If parameters or data are not as described; the message says what came.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import enet_path
    >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, -1.0]])
    >>> alphas, coefs, gaps = enet_path(X, np.array([1.0, 2.0, 3.0]), alphas=[1.0, 0.1])
    >>> coefs.shape
    (2, 2)
    """
    if params:
        raise ValueError("Unexpected parameters in params", params.keys())
    wish = _number_or_strengths(n_alphas, alphas)
    refuse_device("enet_path", X)
    matrix = as_matrix(check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32]))
    targets = check_array(y, dtype=matrix.dtype, ensure_2d=False)
    check_consistent_length(targets, X)
    weights = check_sample_weight(sample_weight, matrix)
    if weights is None:
        check_gram(precompute, matrix, has_intercept=False)
    columns = targets.reshape(len(targets), -1).T
    if len(columns) > 1 and positive:
        raise ValueError("positive=True is not allowed for multi-output (y.ndim != 1)")
    data = [mean_dataset(matrix, column, weights) for column in columns]
    grid = _grid(wish, data, l1_ratio, eps, False, positive, n_threads)
    penalties = [penalty_of(float(alpha), l1_ratio, positive) for alpha in grid]
    rule = _rule(tol, max_iter, int(verbose), matrix)
    start = None if coef_init is None else StartModel(np.asarray(coef_init), 0.0)
    paths = [
        solve_path(
            dataset,
            penalties,
            rule,
            SerialCommunicator(),
            has_intercept=False,
            settings=Settings(n_threads=n_threads),
            start=start,
        )
        for dataset in data
    ]
    for path in paths:
        for result in path:
            warn_not_converged(result, rule)
    coefs = np.stack([np.column_stack([result.coef for result in path]) for path in paths])
    gaps = np.sum([[result.gap for result in path] for path in paths], axis=0)
    n_iters = [
        sum(results) for results in zip(*([r.n_iter for r in p] for p in paths), strict=True)
    ]
    shaped = coefs[0] if targets.ndim == 1 else coefs
    return (grid, shaped, gaps, n_iters) if return_n_iter else (grid, shaped, gaps)


def lasso_path(X: Any, y: Any, **parameters: Any) -> tuple[Any, ...]:
    """Fit Lasso models without intercept along a path of strengths.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Training data.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets.
    **parameters : object
        As for `enet_path`, without ``l1_ratio``.

    Returns
    -------
    tuple
        As from `enet_path`.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import lasso_path
    >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, -1.0]])
    >>> lasso_path(X, np.array([1.0, 2.0, 3.0]), alphas=[1.0])[1].round(2)
    array([[0.79],
           [0.  ]])
    """
    return enet_path(X, y, l1_ratio=1.0, **parameters)


def _number_or_strengths(n_alphas: Any, alphas: Any) -> Any:
    """Return what the old and the new parameter mean together, and warn as scikit-learn 1.9."""
    wish, messages = 100, []
    if not isinstance(n_alphas, str):
        wish = n_alphas
        messages.append(
            "'n_alphas' was deprecated in 1.9 and will be removed in 1.11 of scikit-learn: give "
            "the number as 'alphas'"
        )
    if alphas is None:
        messages.append(
            "'alphas=None' is deprecated and will be removed in 1.11 of scikit-learn: set "
            "'alphas=100'"
        )
    elif not isinstance(alphas, str):
        wish = alphas
    for message in messages:
        warnings.warn(message, FutureWarning, stacklevel=callers_level())
    return wish


def _rule(tol: float, max_iter: int, verbose: int, matrix: Matrix) -> StoppingRule:
    rule = StoppingRule(check_positive("tol", tol, allow_zero=True), max_iter, verbose)
    return rule.at_resolution_of(matrix.dtype)


def _grid(
    wish: Any,
    data: list[Dataset],
    l1_ratio: float,
    eps: float,
    has_intercept: bool,
    is_positive: bool,
    n_threads: int | None,
) -> np.ndarray:
    """Return the strengths, from the largest to the least."""
    if not isinstance(wish, Integral):
        for at, alpha in enumerate(wish):
            check_scalar(alpha, f"alphas[{at}]", Real, min_val=0.0)
        given = np.sort(np.asarray(wish, dtype=np.float64))[::-1]
        if not np.isfinite(given).all():
            raise ValueError(f"alphas: expected finite numbers >= 0, got {wish!r}")
        return given
    if l1_ratio == 0:
        raise ValueError(
            "Automatic alpha grid generation is not supported for l1_ratio=0. Please supply a grid "
            "by providing your estimator with the appropriate `alphas=` argument."
        )
    slopes = [_slopes_at_zero(dataset, has_intercept, n_threads) for dataset in data]
    if is_positive:
        largest = max(0.0, float(np.max(slopes)))
    else:
        largest = math.sqrt(float(np.max(np.sum(np.square(slopes), axis=0))))
    largest /= l1_ratio
    if largest <= _SMALLEST_ALPHA:
        return np.full(int(wish), _SMALLEST_ALPHA)
    return np.geomspace(largest, largest * eps, num=int(wish))


def _slopes_at_zero(dataset: Dataset, has_intercept: bool, n_threads: int | None) -> np.ndarray:
    """Return X^T (c (y - b)) at w = 0 and its best b: the penalty that leaves w = 0."""
    engine = CpuColumns(Problem(Squared(), Intercept.NONE), dataset, n_threads=n_threads)
    labels = dataset.labels.astype(np.float64)
    shares = dataset.wide_weights
    if has_intercept:
        labels = labels - shares @ labels / shares.sum()
    return engine.adjoint(np.ascontiguousarray(shares * labels))


class _Rows(NamedTuple):
    """The rows of a search, their targets and weights; and sums of products over them."""

    matrix: Matrix
    y: np.ndarray
    weights: np.ndarray | None
    sums: SquareFolds


class ElasticNetCV(RoutesToSplitter, ElasticNet):
    """Elastic net whose strength, and share of L1, cross-validation chooses.

    Parameters
    ----------
    l1_ratio : float or list of float, default=0.5
        Share of the L1 penalty, or those to choose from.
    eps : float, default=1e-3
        Least strength relative to the largest.
    alphas : array-like or int, default=100
        Strengths to choose from, or their number.
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised.
    precompute : 'auto', bool or array-like, default='auto'
        Has no effect: Gram matrices are formed where they save time.
    max_iter : int, default=1000
        Most reads of the data for each fit, beyond the first.
    tol : float, default=1e-8
        Stop each fit once its certified duality gap is at most `tol` times the objective.
    cv : int, splitter or iterable, default=None
        Folds, as in scikit-learn; None means 5.
    copy_X : bool, default=True
        Has no effect: X is never changed.
    verbose : int, default=0
        Log progress every `verbose` reads to the logger ``snapml``.
    n_jobs : int, default=None
        Has no effect: `n_threads` says how many threads each fit uses.
    positive : bool, default=False
        Whether to forbid negative coefficients.
    random_state : int, RandomState instance or None, default=None
        Has no effect: nothing is drawn.
    selection : {'cyclic', 'random'}, default='cyclic'
        Both give the same answer.
    n_threads : int or None, default=None
        Threads to use; None means all that the process may use, fewer on small data.
    deterministic : bool, default=True
        Has no effect: equal fits with equal `n_threads` give equal bits.
    device_ids : list of int or None, default=None
        The GPU to train on, as CUDA counts them; None is the CPU.
    max_time_s : float or None, default=None
        Seconds for the search, parted evenly among the folds, and as many again for the fit of the
        choice to all rows. Strengths that the search has not come to have NaN in ``mse_path_`` and
        are not chosen; a ``ConvergenceWarning`` says how many. None sets no bound.

    Attributes
    ----------
    alpha_ : float
        The strength chosen.
    l1_ratio_ : float
        The share of L1 chosen.
    alphas_ : ndarray of shape (n_alphas,) or (n_l1_ratio, n_alphas)
        Strengths tried.
    mse_path_ : ndarray of shape (n_alphas, n_folds) or (n_l1_ratio, n_alphas, n_folds)
        Mean squared errors on the folds left out.
    coef_ : ndarray of shape (n_features,)
        w, fitted to all rows.
    intercept_ : float
        b.
    dual_gap_, gap_, objective_ : float
        Certified duality gap and objective of that fit.
    n_iter_ : int
        Its reads of the data beyond the first.
    history_ : list of dict
        As of `ElasticNet`.
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
    >>> from sklearn.datasets import load_diabetes
    >>> from snapml import ElasticNetCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ElasticNetCV(l1_ratio=0.9, cv=5).fit(X, y)
    >>> int((model.coef_ == 0).sum())  # columns left out
    0
    """

    def __init__(
        self,
        *,
        l1_ratio: Any = 0.5,
        eps: float = 1e-3,
        alphas: Any = 100,
        fit_intercept: bool = True,
        precompute: Any = "auto",
        max_iter: int = 1000,
        tol: float = 1e-8,
        cv: Any = None,
        copy_X: bool = True,
        verbose: int = 0,
        n_jobs: int | None = None,
        positive: bool = False,
        random_state: Any = None,
        selection: str = "cyclic",
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: list[int] | None = None,
        max_time_s: float | None = None,
    ) -> None:
        self.l1_ratio = l1_ratio
        self.eps = eps
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.precompute = precompute
        self.max_iter = max_iter
        self.tol = tol
        self.cv = cv
        self.copy_X = copy_X
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.positive = positive
        self.random_state = random_state
        self.selection = selection
        self.n_threads = n_threads
        self.deterministic = deterministic
        self.device_ids = device_ids
        self.max_time_s = max_time_s

    warm_start = False

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None, **params: Any
    ) -> Any:
        """Choose by cross-validation, then fit to all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weights of the rows, in fits and in errors.
        offset : float or array-like of shape (n_samples,), default=None
            Added to each row's prediction as it is, with a coefficient of 1, on folds as on all
            rows.
        **params : object
            For the splitter, with scikit-learn's metadata routing only.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If parameters or data are not as described; the message says what came.
        TimeoutError
            If `max_time_s` is over before any strength was judged on all folds.
        RuntimeError
            If a callback has ended the search before that.
        """
        raise_for_routed_params(params, self, "fit")
        ratios = np.atleast_1d(np.asarray(self.l1_ratio, dtype=np.float64))
        self._check_grid(ratios)
        rule = self._stopping_rule(self.max_iter)
        matrix, y = check_fit_input(self, X, y, y_numeric=True)
        weights = check_sample_weight(sample_weight, matrix)
        rule = self._resolved(rule, matrix)
        if weights is None:
            check_gram(self.precompute, matrix, has_intercept=bool(self.fit_intercept))
        folds = self._folds(y, sample_weight, params)
        check_folds(folds, weights)
        offsets = check_offset(offset, matrix, X)
        self.has_offset_ = offsets is not None
        y = targets_without(y, offsets)  # of all that follows: errors are those of residuals
        watch = SearchWatch(self)
        watch.expect_paths(len(ratios) * len(folds))
        try:
            grids = [self._alphas_of(matrix, y, weights, ratio) for ratio in ratios]
            sums = SquareFolds(
                matrix, y, weights, has_intercept=bool(self.fit_intercept), n_threads=self.n_threads
            )
            rows = _Rows(matrix, y, weights, sums)
            errors = [
                [self._fold_errors(rows, fold, ratio, grid, rule, watch) for fold in folds]
                for ratio, grid in zip(ratios, grids, strict=True)
            ]
            self._choose(ratios, grids, errors, watch)
            data = mean_dataset(matrix, y, weights)
            last = replace(rule, control=watch.refit())
            result = self._path(data, [self._penalty_chosen()], last)[0]
        except NonFiniteError:
            raise_non_finite(self, X)
        warn_not_converged(result, last)
        self._store([result], matrix)
        return self

    def _control(self) -> Control:
        return UNBOUNDED  # that of its fits comes from a watch

    def _check_grid(self, ratios: np.ndarray) -> None:
        self._checked_devices()
        for ratio in ratios:
            if not 0.0 <= ratio <= 1.0:
                raise ValueError(f"l1_ratio: expected numbers from 0 to 1, got {self.l1_ratio!r}")
        if isinstance(self.alphas, Integral) and self.alphas < 1:
            raise ValueError(f"alphas: expected at least 1, got {self.alphas!r}")
        check_positive("eps", self.eps)

    def _alphas_of(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, ratio: float
    ) -> np.ndarray:
        data = [mean_dataset(matrix, y, weights)]
        limits = (float(ratio), self.eps, bool(self.fit_intercept), bool(self.positive))
        return _grid(self.alphas, data, *limits, self.n_threads)

    def _path(self, data: Dataset, penalties: list[Penalty], rule: StoppingRule) -> list[FitResult]:
        return solve_path(
            data,
            penalties,
            rule,
            self._communicator(),
            has_intercept=bool(self.fit_intercept),
            settings=self._settings(data.matrix),
        )

    def _fold_errors(
        self,
        rows: _Rows,
        fold: tuple[np.ndarray, np.ndarray],
        ratio: float,
        alphas: np.ndarray,
        rule: StoppingRule,
        watch: SearchWatch,
    ) -> np.ndarray:
        """Return the mean squared errors on the rows left out, of strengths there was time for."""
        control = watch.path()
        if has_ended(control):
            return np.empty(0)
        train, test = fold
        # A choice among strengths needs no more than a few digits of each.
        rule = replace(rule, tol=max(rule.tol, 1e-6), control=control)
        coef, intercept = self._fold_models(rows, train, alphas, float(ratio), rule)
        weights = None if rows.weights is None else rows.weights[test]
        held_out = take_rows(rows.matrix, test)
        near = rows.y[test] - rows.sums.center
        return mean_squared_errors(held_out, near, weights, coef, intercept)

    def _fold_models(
        self, rows: _Rows, train: np.ndarray, alphas: np.ndarray, ratio: float, rule: StoppingRule
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the models of a fold's strengths there was time for.

        Their intercepts are those of targets less `SquareFolds.center`.
        """
        penalties = [penalty_of(float(alpha), ratio, bool(self.positive)) for alpha in alphas]
        if not self.device_ids:
            found = rows.sums.path(train, penalties, rule)
            if found is not None:
                return found
        own = None if rows.weights is None else rows.weights[train]
        data = mean_dataset(take_rows(rows.matrix, train), rows.y[train], own)
        path = self._path(data, penalties, rule)
        if rule.control.reason and not path[-1].has_converged:
            path.pop()
        coef = np.reshape([result.coef for result in path], (len(path), rows.matrix.shape[1]))
        return coef, np.array([result.intercept - rows.sums.center for result in path])

    def _choose(
        self,
        ratios: np.ndarray,
        grids: list[np.ndarray],
        found: list[list[np.ndarray]],
        watch: SearchWatch,
    ) -> None:
        """Keep the errors and the strength that is best on average over the folds."""
        errors = np.full((len(ratios), len(found[0]), len(grids[0])), np.nan)
        is_done = np.zeros(errors.shape, dtype=bool)
        for at in np.ndindex(errors.shape[:2]):
            of_fold = found[at[0]][at[1]]
            errors[at][: len(of_fold)], is_done[at][: len(of_fold)] = of_fold, True
        means = errors.mean(axis=1)
        kept = watch.judged(np.moveaxis(is_done, 1, 0).reshape(is_done.shape[1], -1))
        best = np.unravel_index(kept[means.ravel()[kept].argmin()], means.shape)
        self._chosen_ratio = float(ratios[best[0]])
        self.alpha_ = float(grids[best[0]][best[1]])
        if "l1_ratio" in self.get_params():
            self.l1_ratio_ = self._chosen_ratio
        self.mse_path_ = np.squeeze(np.moveaxis(errors, 2, 1))
        is_shared = len(ratios) == 1 or not isinstance(self.alphas, Integral)
        self.alphas_ = grids[0] if is_shared else np.asarray(grids)

    def _penalty_chosen(self) -> Penalty:
        return penalty_of(self.alpha_, self._chosen_ratio, bool(self.positive))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags


class LassoCV(ElasticNetCV):
    """Lasso whose strength cross-validation chooses: `ElasticNetCV` with ``l1_ratio=1``.

    Parameters
    ----------
    eps, alphas, fit_intercept, precompute, max_iter, tol, copy_X, cv, verbose, n_jobs, positive, \
random_state, selection, n_threads, deterministic, device_ids, max_time_s : object
        As of `ElasticNetCV`.

    Attributes
    ----------
    alpha_ : float
        The strength chosen.
    alphas_ : ndarray of shape (n_alphas,)
        Strengths tried.
    mse_path_ : ndarray of shape (n_alphas, n_folds)
        Mean squared errors on the folds left out.
    coef_ : ndarray of shape (n_features,)
        w, fitted to all rows.
    intercept_ : float
        b.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from snapml import LassoCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LassoCV(cv=5).fit(X, y)
    >>> int((model.coef_ == 0).sum())  # columns left out
    1
    """

    def __init__(
        self,
        *,
        eps: float = 1e-3,
        alphas: Any = 100,
        fit_intercept: bool = True,
        precompute: Any = "auto",
        max_iter: int = 1000,
        tol: float = 1e-8,
        copy_X: bool = True,
        cv: Any = None,
        verbose: int = 0,
        n_jobs: int | None = None,
        positive: bool = False,
        random_state: Any = None,
        selection: str = "cyclic",
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: list[int] | None = None,
        max_time_s: float | None = None,
    ) -> None:
        super().__init__(
            l1_ratio=1.0,
            eps=eps,
            alphas=alphas,
            fit_intercept=fit_intercept,
            precompute=precompute,
            max_iter=max_iter,
            tol=tol,
            cv=cv,
            copy_X=copy_X,
            verbose=verbose,
            n_jobs=n_jobs,
            positive=positive,
            random_state=random_state,
            selection=selection,
            n_threads=n_threads,
            deterministic=deterministic,
            device_ids=device_ids,
            max_time_s=max_time_s,
        )
