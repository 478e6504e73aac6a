"""Fits that share their work: values of C, folds and class weights as columns of one solve.

For L2 penalties: `LogisticRegression`, and `LinearSVC` with the squared hinge. Folds are row
weights, and one class against the rest is a column of labels; X is neither copied nor cut. Strong
penalties go first, and weaker ones start from their coefficients. Regressions share in their own
ways (regressions.py, family_paths.py).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from snapml._validation import check_device_ids, check_flags, distinct
from snapml.data import ChunkedMatrix, CompressedMatrix, DenseMatrix, Matrix
from snapml.estimators.base import LinearClassifier
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.estimators.placement import byte_limit
from snapml.estimators.support_vector_machine import LinearSVC
from snapml.kernels import ResidentMatrix
from snapml.problems import Intercept, Problem
from snapml.searches.shared.columns import FitColumn, FoundModels, side_by_side, stacked
from snapml.searches.shared.family_paths import (
    FAMILIES,
    can_share_family,
    solve_path_of_family,
)
from snapml.searches.shared.models import (
    SharedFit,
    SharedModel,
    must_fit_alone,
    problem_of,
)
from snapml.searches.shared.paths import (
    can_share_path,
    is_path,
    is_small_path,
    solve_path_of_classes,
)
from snapml.searches.shared.regressions import (
    REGRESSIONS,
    can_share_regression,
    regression_solver,
)
from snapml.searches.shared.strengths import FoldSolver, solve_by_strength
from snapml.solvers.many import many_models
from snapml.solvers.many.gpu_many_rows import device_products, most_models
from snapml.solvers.many.many_arrays import ManyProducts
from snapml.solvers.many.many_chunks import many_products
from snapml.solvers.many.many_models import ManyTargets
from snapml.solvers.many.many_paths import ManyPaths
from snapml.solvers.many.many_preconditioners import SharedGram
from snapml.solvers.many.many_rows import HALF_PANEL, PANEL
from snapml.solvers.newton.sample_size import products_of_dense_factor
from snapml.solvers.plan import device_choice
from snapml.solvers.plan.common_numbers import CommonNumbers, common_of
from snapml.solvers.plan.light_rows import entries_of
from snapml.solvers.plan.used_columns import UsedColumns, find_used

__all__ = ["can_share", "solve_shared"]

_logger = logging.getLogger("snapml")

# Rows times models that go side by side where X stays out of memory: four arrays of float32 take
# 1 GB.
_MOST_NUMBERS = 1 << 26
# Products after which a model is given up: as many as take as long as the factors of its Hessian
# that a fit alone is taken to need, from the model of the C before; and numbers of X that products
# may read before that, in a fraction of a second.
_FACTORS_ALONE, _FREE_NUMBERS = 3.0, 2e8
# Predictions of several classes turn on differences of their margins, not on one sign: models as
# near to their minima as those of two classes can score a few thousandths from them.
_SEVERAL_CLASSES = 0.1


def can_share(
    estimator: Any, matrix: Matrix | None, classes: np.ndarray, *, with_paths: bool = False
) -> bool:
    """Return whether a fit can share its reads of X with others.

    Parameters
    ----------
    estimator : estimator
        With its parameters.
    matrix : Matrix or None
        The rows; None where they are to be judged later.
    classes : ndarray
        Labels that occur, of a classifier.
    with_paths : bool, default=False
        Whether fits of one fold that start from one another share too (shared_paths.py).

    Returns
    -------
    bool
        False also where the parameters are not as described: an ordinary fit says what is wrong.
    """
    try:
        check_flags(estimator)
    except ValueError:
        return False
    if type(estimator) in REGRESSIONS:
        return can_share_regression(estimator, matrix)
    if type(estimator) in FAMILIES:
        return can_share_family(estimator, matrix)
    if type(estimator) not in (LogisticRegression, LinearSVC) or len(classes) < 2:
        return False
    if with_paths and can_share_path(estimator, matrix, len(classes)):
        return True
    known = DenseMatrix | CompressedMatrix | ChunkedMatrix | ResidentMatrix | None
    if not isinstance(matrix, known) or not _suits_devices(estimator, matrix):
        return False
    if estimator.solver in ("sdca", "pqn") or must_fit_alone(estimator):
        return False
    if isinstance(estimator, LogisticRegression) and (
        estimator.penalty != "deprecated" or estimator.n_jobs is not None
    ):
        return False  # deprecated parameters, of which each fit warns
    try:
        problem, cost = problem_of(estimator, len(classes))
    except (TypeError, ValueError, NotImplementedError):
        return False
    if problem.loss.is_joint and not _suits_softmax(estimator, matrix, len(classes)):
        return False
    is_plain = problem.penalty.l1 == 0.0 and problem.penalty.l2 == 1.0
    return is_plain and problem.loss.is_smooth and math.isfinite(cost)


def _suits_devices(estimator: Any, matrix: Matrix | None) -> bool:
    """Return whether fits share reads where they are asked to run: the host, or one GPU.

    A GPU has to hold all rows.
    """
    if isinstance(matrix, ResidentMatrix):
        return True
    if estimator.device_ids is None:
        return True
    try:
        is_one = len(check_device_ids(estimator.device_ids)) == 1
        has_limit = byte_limit(estimator) is not None
    except (TypeError, ValueError):
        return False
    return is_one and not has_limit and not isinstance(matrix, ChunkedMatrix)


def _suits_softmax(estimator: Any, matrix: Matrix | None, n_classes: int) -> bool:
    """Return whether multinomial models share: on the host, where one panel takes little memory."""
    if estimator.device_ids is not None or estimator.solver == "liblinear":
        return False
    if matrix is None:
        return True
    if isinstance(matrix, ResidentMatrix):
        return False
    return max(matrix.shape) * n_classes <= _MOST_NUMBERS


def solve_shared(
    fits: list[SharedFit],
    folds: list[np.ndarray],
    matrix: Matrix,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
    tol: float,
    is_over: Callable[[], bool] = bool,
    kept: list[np.ndarray] | None = None,
    *,
    rounding_tol: float | None = None,
) -> list[SharedModel | None]:
    """Fit all, those of one problem side by side.

    Parameters
    ----------
    fits : list of SharedFit
        What to fit.
    folds : list of ndarray
        Numbers of the rows of each fold; a row that comes twice counts twice.
    matrix : DenseMatrix, CompressedMatrix, ChunkedMatrix or ResidentMatrix
        All rows, finite.
    y : ndarray of shape (n_samples,)
        Their labels, or targets.
    sample_weight : ndarray of shape (n_samples,) or None
        Their weights.
    tol : float
        As of `many_models.solve`; a tenth of it where there are more than two classes and rounding
        allows it.
    is_over : callable, default=bool
        Asked before each step: True ends all that have not come to their end.
    kept : list of ndarray, default=None
        Sorted numbers of the rows whose margins each fold's models keep; None means all.
    rounding_tol : float, default=None
        What is enough where rounding keeps a model from `tol`; None means `tol`.

    Returns
    -------
    list of SharedModel or None
        In the order of `fits`; None for those that have to be fitted one by one: because the fold
        lacks a class, or because the method did not come to an end.
    """
    if not any(isinstance(fit.estimator, REGRESSIONS) or _is_on_device(fit) for fit in fits):
        matrix = entries_of(matrix)
    tols = tol, tol if rounding_tol is None else rounding_tol
    common, used = _common_of(fits, matrix, y), find_used(matrix)
    own = matrix
    if common is not None:
        own = common.matrix
    elif used is not None:
        own = used.matrix
    models = _solve_shared(fits, folds, own, y, sample_weight, tols, is_over, kept)
    return [None if model is None else _stored(model, common, used) for model in models]


def _stored(
    model: SharedModel, common: CommonNumbers | None, used: UsedColumns | None
) -> SharedModel:
    """Return a model of what was solved, the rest of the rows or some columns, as one of all."""
    if common is not None:
        return replace(model, intercept=common.free_intercept(model.coef, model.intercept))
    return model if used is None else replace(model, coef=used.spread(model.coef))


def _common_of(fits: list[SharedFit], matrix: Matrix, y: np.ndarray) -> CommonNumbers | None:
    """Return what to take from the rows of logistic regressions whose intercepts are all free."""
    if not isinstance(matrix, DenseMatrix) or any(map(_is_on_device, fits)):
        return None
    if not all(isinstance(fit.estimator, LogisticRegression) for fit in fits):
        return None
    n_classes = len(distinct(y))
    problems = [problem_of(fit.estimator, n_classes)[0] for fit in fits]
    is_free = all(problem.intercept is Intercept.FREE for problem in problems)
    return common_of(matrix) if is_free else None


def _is_on_device(fit: SharedFit) -> bool:
    return fit.estimator.device_ids is not None


def _solve_shared(
    fits: list[SharedFit],
    folds: list[np.ndarray],
    matrix: Matrix,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
    tols: tuple[float, float],
    is_over: Callable[[], bool],
    kept: list[np.ndarray] | None,
) -> list[SharedModel | None]:
    """Fit all on all columns."""
    models: list[SharedModel | None] = [None] * len(fits)
    n_classes = len(distinct(y)) if any(is_classifier(fit.estimator) for fit in fits) else 0
    solvers = [_fold_solver(fit.estimator, matrix, n_classes) for fit in fits]
    in_folds = [at for at, solver in enumerate(solvers) if solver is not None]
    if in_folds:
        assert isinstance(matrix, DenseMatrix | CompressedMatrix)  # `can_share` says so
        chosen = [fits[at] for at in in_folds]
        own = [solver for solver in solvers if solver is not None]
        is_quick = [_is_quick(fit.estimator, matrix, n_classes) for fit in chosen]
        found = solve_by_strength(
            chosen, own, folds, matrix, y, sample_weight, is_over, kept, is_quick
        )
        for at, model in zip(in_folds, found, strict=True):
            models[at] = model
    groups: dict[tuple[Problem, int | None, tuple[int, ...]], list[int]] = {}
    for at, fit in enumerate(fits):
        one = fit.estimator
        if solvers[at] is not None:
            continue
        devices = one._checked_devices(matrix)
        key = (problem_of(one, n_classes)[0], one.n_threads, devices)
        groups.setdefault(key, []).append(at)
    for (problem, n_threads, devices), members in groups.items():
        group = _Group(problem, n_threads, devices, matrix, y)
        group.add([fits[at] for at in members], folds, sample_weight)
        for at, model in zip(members, group.solve(tols, is_over, kept), strict=True):
            models[at] = model
    return models


def _fold_solver(estimator: Any, matrix: Matrix, n_classes: int) -> FoldSolver | None:
    """Return what solves fits of one fold; None for those that are columns over all folds."""
    if type(estimator) in REGRESSIONS:
        return regression_solver(estimator)
    if type(estimator) in FAMILIES:
        return solve_path_of_family
    return solve_path_of_classes if is_path(estimator, matrix, n_classes) else None


def _is_quick(estimator: Any, matrix: Matrix, n_classes: int) -> bool:
    """Return whether a fit takes milliseconds, on rows that stay in a cache."""
    is_another = type(estimator) in (*REGRESSIONS, *FAMILIES)
    return not is_another and is_small_path(estimator, matrix, n_classes)


class _Group:
    """Fits of one problem, which differ in C and in the weights of rows."""

    def __init__(
        self,
        problem: Problem,
        n_threads: int | None,
        device_ids: tuple[int, ...],
        matrix: Matrix,
        y: np.ndarray,
    ) -> None:
        self._problem, self._n_threads, self._device_ids = problem, n_threads, device_ids
        self._matrix, self._y = matrix, y
        self._classes = distinct(y)
        self._is_multinomial = problem.loss.is_joint
        n_classes = len(self._classes)
        self._n_parts = 1 if self._is_multinomial or n_classes == 2 else n_classes
        self._weights: list[np.ndarray] = []
        self._tables: dict[tuple[int, str, int], int | None] = {}
        # Of each fit its columns, none where it has to be fitted alone.
        self._fits: list[list[FitColumn]] = []
        self._folds: list[int] = []  # of the fits

    def add(
        self, fits: list[SharedFit], folds: list[np.ndarray], sample_weight: np.ndarray | None
    ) -> None:
        """Take the fits in."""
        for fit in fits:
            C = problem_of(fit.estimator, len(self._classes))[1]
            tables = [
                self._table(fit, part, folds[fit.fold], sample_weight)
                for part in range(self._n_parts)
            ]
            able = [table for table in tables if table is not None]
            is_able = len(able) == self._n_parts
            self._fits.append([FitColumn(C, able[k], k) for k in range(len(able))] * is_able)
            self._folds.append(fit.fold)

    def _table(
        self, fit: SharedFit, part: int, rows: np.ndarray, sample_weight: np.ndarray | None
    ) -> int | None:
        """Return the column of weights of a fit's class against the rest; None: there is none."""
        # As in liblinear, a class's weight counts where it is the one against the rest.
        is_own = isinstance(fit.estimator, LinearSVC) and self._n_parts > 1
        label = self._classes[part] if is_own and fit.estimator.class_weight is not None else None
        key = (fit.fold, repr(fit.estimator.class_weight), part if label is not None else 0)
        if key not in self._tables:
            self._tables[key] = self._add_weights(fit.estimator, rows, sample_weight, label)
        return self._tables[key]

    def _add_weights(
        self,
        estimator: LinearClassifier,
        rows: np.ndarray,
        sample_weight: np.ndarray | None,
        label: Any,
    ) -> int | None:
        """Add the weights of a fold's rows; return their column, None where it lacks a class.

        With a label, only the weight of that class counts. None also where the class weights are
        not as they should be: an ordinary fit says so.
        """
        counts = np.bincount(rows, minlength=len(self._y))
        weights = counts.astype(self._matrix.dtype)
        if sample_weight is not None:
            weights *= sample_weight
        # As the fit of the fold alone: 'balanced' looks at its rows.
        own = None if sample_weight is None else sample_weight[rows]
        seen = distinct(self._y[rows])
        if len(seen) < len(self._classes):
            return None
        try:
            factors = estimator._class_factors(self._y[rows], seen, own) or {}
        except (TypeError, ValueError):
            return None
        for name, factor in factors.items():
            if label is None or name == label:
                weights[self._y == name] *= weights.dtype.type(factor)
        is_whole = len(distinct(self._y[weights > 0])) == len(self._classes)
        if not np.isfinite(weights).all() or not is_whole:
            return None
        self._weights.append(weights)
        return len(self._weights) - 1

    def solve(
        self,
        tols: tuple[float, float],
        is_over: Callable[[], bool],
        kept: list[np.ndarray] | None,
    ) -> list[SharedModel | None]:
        """Fit in waves, from strong penalties to weak ones, to what is asked for and is enough."""
        if not self._weights:
            return [None] * len(self._fits)
        if not self._device_ids:
            products = many_products(self._matrix, self._n_threads)
            return self._solve_waves(products, self._most_on_host(), tols, is_over, kept)
        matrix = self._matrix
        # `can_share` says so
        assert isinstance(matrix, DenseMatrix | CompressedMatrix | ResidentMatrix)
        if isinstance(matrix, ResidentMatrix):
            device = matrix.device
        else:
            device = device_choice.make_device(self._device_ids[0])
        with device_choice.clean_errors(device), device.use():
            most = min(4 * PANEL, most_models(device, matrix, len(self._weights) + 1))
            if not most:
                _logger.info(
                    "%s has no room for rows and %d models: one is fitted after the other",
                    device.description,
                    PANEL,
                )
                return [None] * len(self._fits)
            products = device_products(device, matrix)
            return self._solve_waves(products, most, tols, is_over, kept)

    def _solve_waves(
        self,
        products: ManyProducts,
        most: int,
        tols: tuple[float, float],
        is_over: Callable[[], bool],
        kept: list[np.ndarray] | None,
    ) -> list[SharedModel | None]:
        """Fit up to `most` models side by side."""
        weights = np.column_stack(self._weights)
        labels = self._labels(weights.dtype)
        n_paths = labels.shape[1] * weights.shape[1]
        n_outputs = len(self._classes) if self._is_multinomial else 1
        paths = ManyPaths((self._matrix.shape[1] + 1) * n_outputs, n_paths, weights.dtype)
        found = FoundModels(self._fits)
        shared = SharedGram()
        for wave in self._waves(most):
            columns = [self._fits[at][part] for at, part in wave]
            label_columns = np.array([column.labels for column in columns])
            weight_columns = np.array([column.weights for column in columns])
            factors = np.array([column.C for column in columns])
            path = label_columns * weights.shape[1] + weight_columns
            result = many_models.solve(
                self._problem,
                products,
                ManyTargets(labels, weights, label_columns, weight_columns, factors),
                tols[0] if len(self._classes) == 2 else _SEVERAL_CLASSES * tols[0],
                rounding_tol=tols[1],
                most_products=self._most_products(),
                start=side_by_side(paths.starts(path, factors), n_outputs),
                shared=shared,
                is_over=is_over,
            )
            paths.add(path, factors, stacked(result.vectors, n_outputs))
            found.add(
                wave, result, [None if kept is None else kept[self._folds[at]] for at, _ in wave]
            )
        return found.models()

    def _labels(self, dtype: np.dtype) -> np.ndarray:
        """Return the columns of labels: -1 and 1, or class numbers."""
        if self._is_multinomial:
            return np.searchsorted(self._classes, self._y).astype(dtype)[:, None]
        chosen = self._classes[1:] if self._n_parts == 1 else self._classes
        return np.where(self._y[:, None] == chosen, 1.0, -1.0).astype(dtype)

    def _most_products(self) -> float:
        """Return the products that take as long as a fit alone, by factors of its Hessians."""
        if self._device_ids or self._is_multinomial or not isinstance(self._matrix, DenseMatrix):
            return math.inf
        n_rows, n_features = self._matrix.shape
        least = _FREE_NUMBERS / max(1, n_rows * n_features)
        return max(least, _FACTORS_ALONE * products_of_dense_factor(n_rows, n_features))

    def _most_on_host(self) -> int:
        """Return how many models go side by side where products are the host's.

        BLAS needs many columns for its speed, and a read of a store serves all of them; half a
        panel of sparse ones in memory costs little more than half, and fewer values of C in a wave
        start nearer to their models.
        """
        if self._is_multinomial:
            size = max(self._matrix.shape) * len(self._classes)
            return max(1, min(4 * PANEL, _MOST_NUMBERS // size))
        if isinstance(self._matrix, CompressedMatrix):
            return HALF_PANEL
        if isinstance(self._matrix, ChunkedMatrix):
            most = min(4 * PANEL, _MOST_NUMBERS // len(self._y) // PANEL * PANEL)
            return max(PANEL, most)
        return 4 * PANEL

    def _waves(self, most: int) -> list[list[tuple[int, int]]]:
        """Return what goes side by side, fits and their parts: C in rising order, whole panels."""
        able = [(at, part) for at, fit in enumerate(self._fits) for part in range(len(fit))]
        able.sort(key=lambda one: self._fits[one[0]][one[1]].C)
        waves: list[list[tuple[int, int]]] = []
        for C in sorted({self._fits[at][part].C for at, part in able}):
            same = [(at, part) for at, part in able if self._fits[at][part].C == C]
            # The classes of one C fill products, and a start at the last one's models saves most.
            if waves and not self._is_multinomial and len(waves[-1]) + len(same) <= most:
                waves[-1] += same
                continue
            # Of many folds, or resamples, no more than there is memory for.
            step = max(most, 1 if self._is_multinomial else PANEL)
            waves += [same[first : first + step] for first in range(0, len(same), step)]
        return waves
