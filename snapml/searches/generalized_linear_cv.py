"""Generalized linear models that choose their penalty by cross-validation."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from snapml._validation import (
    alone,
    check_positive,
    raise_for_routed_params,
    raise_non_finite,
)
from snapml.data import ChunkedMatrix, Matrix
from snapml.estimators.base import all_or_nothing
from snapml.estimators.coordinate_regression import checked_strength, mean_dataset, penalty_of
from snapml.estimators.deviance.deviance_regressor import Task
from snapml.estimators.deviance.families import Family
from snapml.estimators.deviance.family_rows import FamilyRows
from snapml.estimators.deviance.generalized_linear import GeneralizedLinearRegressor
from snapml.kernels import ResidentMatrix
from snapml.searches.search_watch import SearchWatch, has_ended
from snapml.searches.shared.family_paths import follow_penalties
from snapml.searches.shared.fold_margins import adjoint_of, margins_of, models_at_a_time
from snapml.searches.shared.fold_rows import fold_weights, take_rows
from snapml.searches.splits import RoutesToSplitter, check_folds
from snapml.solvers.control import UNBOUNDED, Control
from snapml.solvers.cpu_formulas import loss_quantity
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.rows.cpu_rows import check_rows

__all__ = ["GeneralizedLinearRegressorCV"]

# glum's: the share of L1 that an automatic grid has at least, its largest strength where no column
# matters, and how far down it goes with more rows than columns, and with fewer.
_LEAST_SHARE, _ANY_STRENGTH = 1e-3, 10.0
_DOWN_TO, _DOWN_TO_WIDE = 1e-6, 1e-2

Fold = tuple[np.ndarray, np.ndarray]


class _FoldPath(NamedTuple):
    """Models of one fold along strengths, as far as the search came."""

    coef: np.ndarray  # (n_done, n_features)
    intercept: np.ndarray  # (n_done,)
    deviances: np.ndarray  # (n_done,), mean ones on the rows left out


class GeneralizedLinearRegressorCV(RoutesToSplitter, GeneralizedLinearRegressor):
    """Regression of a family of targets whose penalty cross-validation chooses, by glum's names.

    In each fold every strength starts from the one before, and is judged by the mean deviance of
    the rows left out; the one with the least average is then fitted to all rows, and certified.

    Parameters
    ----------
    family, link : str
        As for `GeneralizedLinearRegressor`.
    l1_ratio : float or list of float, default=0.0
        Share of the L1 norm, from 0 to 1, or those to choose from.
    n_alphas : int, default=100
        How many strengths to try.
    alphas : array-like or None, default=None
        Strengths to try, at least 0. None is a geometric grid of `n_alphas`: from the least
        strength at which the L1 norm leaves no column (that of ``l1_ratio=0.001`` for less) down
        to `min_alpha`.
    min_alpha_ratio : float or None, default=None
        The least strength of that grid as a share of the largest. None is 1e-6, or 1e-2 where
        columns are more than rows.
    min_alpha : float or None, default=None
        The least strength itself, in place of its share.
    fit_intercept : bool, default=True
        Whether to fit b.
    solver : str, default='auto'
        As for `PoissonRegressor`.
    max_iter : int, default=100
        Most reads of the data beyond the first, of each fit.
    tol : float, default=1e-6
        Relative duality gap to stop each fit at.
    cv : int, splitter, iterable or None, default=None
        Folds, as in scikit-learn; None means 5.
    n_jobs : int or None, default=None
        Has no effect: `n_threads` says how many threads each fit uses.
    verbose, random_state, n_threads, deterministic, device_ids, memory_limit : object
        As for `PoissonRegressor`.
    max_time_s : float or None, default=None
        Seconds for the search, parted evenly among the folds, and as many again for the fit of the
        choice to all rows. Strengths that the search has not come to have NaN in
        ``deviance_path_`` and are not chosen; a ``ConvergenceWarning`` says how many. None sets no
        bound.

    Attributes
    ----------
    alpha_ : float
        The strength chosen.
    l1_ratio_ : float
        The share of L1 chosen.
    alphas_ : ndarray of shape (n_alphas,) or (n_l1_ratios, n_alphas)
        Strengths tried, from the largest to the least.
    deviance_path_ : ndarray of shape (n_folds, n_l1_ratios, n_alphas)
        Mean deviances of the rows left out.
    coef_path_ : ndarray of shape (n_folds, n_l1_ratios, n_alphas, n_features)
        Coefficients of all models of all folds.
    intercept_path_ : ndarray of shape (n_folds, n_l1_ratios, n_alphas, 1)
        Their intercepts.
    coef_, intercept_, n_iter_, gap_, existence_, numerical_error_, objective_, history_, \
solver_, has_offset_, n_features_in_, feature_names_in_ : object
        As for `PoissonRegressor`, of the choice fitted to all rows.

    References
    ----------
    .. [1] docs/algorithms.md, section 18.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import GeneralizedLinearRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3))
    >>> counts = rng.poisson(np.exp(X @ [0.5, -0.5, 0.0]))
    >>> model = GeneralizedLinearRegressorCV(family="poisson", alphas=[0.01, 0.1, 1.0])
    >>> model.fit(X, counts).alpha_
    0.01
    """

    warm_start = False

    def __init__(
        self,
        *,
        family: str = "normal",
        link: str = "auto",
        l1_ratio: Any = 0.0,
        n_alphas: Any = 100,
        alphas: Any = None,
        min_alpha_ratio: float | None = None,
        min_alpha: float | None = None,
        fit_intercept: bool = True,
        solver: str = "auto",
        max_iter: int = 100,
        tol: float = 1e-6,
        cv: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
        n_threads: int | None = None,
        deterministic: bool = True,
        device_ids: Any = None,
        memory_limit: Any = "auto",
        max_time_s: float | None = None,
    ) -> None:
        self.family = family
        self.link = link
        self.l1_ratio = l1_ratio
        self.n_alphas = n_alphas
        self.alphas = alphas
        self.min_alpha_ratio = min_alpha_ratio
        self.min_alpha = min_alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.cv = cv
        self.n_jobs = n_jobs
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
        **params: Any,
    ) -> Any:
        """Choose by cross-validation, then fit to all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data, wherever `GeneralizedLinearRegressor` takes them from: in memory, on a
            GPU, or in a store, a file or a stream, of whose rows a fold is a weight of each.
        y : array-like of shape (n_samples,)
            Targets; None takes those that X brings along, a text or number names their column in a
            source.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weights of the rows, in fits and in deviances.
        offset, exposure : float or array-like of shape (n_samples,), default=None
            As for `GeneralizedLinearRegressor`, on folds as on all rows.
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
        ratios = self._checked_ratios()
        task = self._task(X, y, sample_weight, offset, exposure)
        folds = self._folds(task.y, sample_weight, params)
        check_folds(folds, task.dataset.row_weights)
        watch = SearchWatch(self)
        watch.expect_paths(len(ratios) * len(folds))
        try:
            _check_entries(task.dataset.matrix, self.n_threads)
            grids = [self._strengths(task, ratio) for ratio in ratios]
            paths = [
                self._follow(task, number, fold, ratios, grids, watch)
                for number, fold in enumerate(folds)
            ]
        except NonFiniteError:
            is_resident = isinstance(task.dataset.matrix, ResidentMatrix)
            raise_non_finite(self, task.dataset.matrix if is_resident else X)
        self._choose(ratios, grids, paths, watch)
        penalty = penalty_of(self.alpha_, self.l1_ratio_, is_positive=False)
        last = replace(task, rule=replace(task.rule, control=watch.refit()))
        self._fit_family(self._family(), last, penalty, None)
        self._keep_objective()
        return self

    def _control(self) -> Control:
        return UNBOUNDED  # that of its fits comes from a watch

    def _checked_ratios(self) -> list[float]:
        """Check what the strengths are made of, and return the shares of L1."""
        shares = [checked_strength(1.0, one)[1] for one in np.ravel(self.l1_ratio)]
        if not shares:
            raise ValueError("l1_ratio: expected at least one number, got none")
        if not isinstance(self.n_alphas, Integral) or self.n_alphas < 1:
            raise ValueError(f"n_alphas: expected an integer of at least 1, got {self.n_alphas!r}")
        for name in ("min_alpha_ratio", "min_alpha"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name), allow_infinity=False)
        if self.min_alpha_ratio is not None and self.min_alpha_ratio > 1.0:
            raise ValueError(f"min_alpha_ratio: expected at most 1, got {self.min_alpha_ratio!r}")
        if self.alphas is not None and not np.size(self.alphas):
            raise ValueError("alphas: expected at least one number, got none")
        return shares

    def _strengths(self, task: Task, ratio: float) -> np.ndarray:
        """Return the strengths to try, from the largest to the least."""
        if self.alphas is not None:
            given = [checked_strength(alpha, 0.0)[0] for alpha in np.ravel(self.alphas)]
            return np.sort(given)[::-1]
        rows = self._rows(task, task.dataset.matrix, None)
        data, loss = rows.dataset, rows.family.loss
        assert data.offsets is not None  # families have some
        labels = data.labels.astype(np.float64)
        slopes = loss_quantity(loss, "gradient", data.offsets, labels) * task.dataset.wide_weights
        found = adjoint_of(data.matrix, slopes, self.n_threads)
        largest = float(np.abs(found).max(initial=0.0)) / max(ratio, _LEAST_SHARE)
        largest = largest if largest > 0.0 else _ANY_STRENGTH
        n_rows, n_features = data.matrix.shape
        down_to = _DOWN_TO if n_rows >= n_features else _DOWN_TO_WIDE
        least = largest * (down_to if self.min_alpha_ratio is None else self.min_alpha_ratio)
        if self.min_alpha is not None:
            least = float(self.min_alpha)
            if not least < largest:
                raise ValueError(
                    f"min_alpha: expected less than {largest:g}, at which no column is left, got "
                    f"{self.min_alpha!r}"
                )
        return np.geomspace(largest, least, num=int(self.n_alphas))

    def _rows(self, task: Task, matrix: Matrix, chosen: np.ndarray | None) -> FamilyRows:
        """Return rows with what the family's loss needs: the chosen ones, or a store's weighted."""
        y, offsets, weights = task.y, task.offsets, task.dataset.row_weights
        if chosen is not None and isinstance(matrix, ChunkedMatrix):
            weights = fold_weights(chosen, len(y), weights, matrix.dtype)
        elif chosen is not None:
            y, offsets = y[chosen], offsets[chosen]
            weights = None if weights is None else weights[chosen]
        return FamilyRows.of(
            self._family(),
            mean_dataset(matrix, y, weights),
            y,
            offsets,
            alone,
            has_intercept=bool(self.fit_intercept),
        )

    def _follow(
        self,
        task: Task,
        number: int,
        fold: Fold,
        ratios: list[float],
        grids: list[np.ndarray],
        watch: SearchWatch,
    ) -> list[_FoldPath]:
        """Fit all strengths to a fold's rows, each from the one before, and judge them."""
        matrix = task.dataset.matrix
        train, test = (_numbers(rows) for rows in fold)
        is_stored = isinstance(matrix, ChunkedMatrix)
        try:
            own = self._rows(task, matrix if is_stored else take_rows(matrix, train), train)
        except ValueError as error:
            raise ValueError(f"cv: fold {number}: {error}") from error
        left_out = matrix if is_stored else take_rows(matrix, test)
        settings = self._settings_of(own.dataset.matrix, task.solver)
        rule = task.rule.at_resolution_of(matrix.dtype)
        paths = []
        for ratio, alphas in zip(ratios, grids, strict=True):
            control, found = watch.path(), []
            penalties = [penalty_of(float(alpha), ratio, is_positive=False) for alpha in alphas]
            if not has_ended(control):
                found = follow_penalties(own, penalties, replace(rule, control=control), settings)
            if control.reason and found:  # it has ended the last of them
                found.pop()
            models = [own.model(result) for result in found]
            coef = np.reshape([w for w, _ in models], (len(models), matrix.shape[1]))
            coef, intercept = coef.astype(matrix.dtype), np.array([b for _, b in models])
            deviances = self._deviances(task, left_out, test, coef, intercept)
            paths.append(_FoldPath(coef, intercept, deviances))
        return paths

    def _deviances(
        self, task: Task, rows: Matrix, test: np.ndarray, coef: np.ndarray, intercept: np.ndarray
    ) -> np.ndarray:
        """Return the mean deviance of the rows left out, or of those of a store, in each model."""
        family, weights = self._family(), task.dataset.wide_weights[test]
        deviances: list[float] = []
        step = models_at_a_time(rows.shape[0])
        for first in range(0, len(coef), step):
            some = slice(first, first + step)
            margins = margins_of(rows, coef[some], intercept[some], self.n_threads)
            for own in (margins[test] if isinstance(rows, ChunkedMatrix) else margins).T:
                z = own + task.offsets[test]
                deviances.append(_mean_deviance(family, task.y[test], z, weights))
        return np.array(deviances)

    def _choose(
        self,
        ratios: list[float],
        grids: list[np.ndarray],
        paths: list[list[_FoldPath]],
        watch: SearchWatch,
    ) -> None:
        """Keep the paths, and the strength of the least mean deviance on average over the folds."""
        shape = (len(paths), len(ratios), len(grids[0]))
        n_features, dtype = paths[0][0].coef.shape[1], paths[0][0].coef.dtype
        deviances, is_done = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
        coefs = np.full((*shape, n_features), np.nan, dtype)
        intercepts = np.full((*shape, 1), np.nan)
        for at in np.ndindex(shape[:2]):
            path = paths[at[0]][at[1]]
            n_done = len(path.deviances)
            deviances[at][:n_done], is_done[at][:n_done] = path.deviances, True
            coefs[at][:n_done], intercepts[at][:n_done, 0] = path.coef, path.intercept
        kept = watch.judged(is_done.reshape(shape[0], -1))
        means = deviances.mean(axis=0).ravel()[kept]
        best = kept[np.where(np.isnan(means), np.inf, means).argmin()]
        ratio_at, alpha_at = np.unravel_index(best, shape[1:])
        self.alpha_, self.l1_ratio_ = float(grids[ratio_at][alpha_at]), ratios[int(ratio_at)]
        self.alphas_ = grids[0] if len(grids) == 1 else np.asarray(grids)
        self.deviance_path_, self.coef_path_ = deviances, coefs
        self.intercept_path_ = intercepts


def _numbers(rows: Any) -> np.ndarray:
    """Return numbers of rows, of which there may be a mask."""
    chosen = np.asarray(rows)
    return np.flatnonzero(chosen) if chosen.dtype == bool else chosen


def _check_entries(matrix: Matrix, n_threads: int | None) -> None:
    """Refuse what no model can be fitted to; those who wrote a store have seen to its entries."""
    if isinstance(matrix, ResidentMatrix):
        if not matrix.is_finite():
            raise NonFiniteError
    elif not isinstance(matrix, ChunkedMatrix):
        check_rows(matrix, n_threads)


def _mean_deviance(
    family: Family, y: np.ndarray, margins: np.ndarray, weights: np.ndarray
) -> float:
    """Return the weighted mean of unit deviances; infinite where a mean leaves its type."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        halves = family.half_deviances(y, family.means(margins))
        found = 2.0 * float(weights @ halves) / float(weights.sum())
    return found if np.isfinite(found) else np.inf
