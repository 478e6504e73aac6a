"""One model for each group of the rows: customers, segments, stores, folds, resamples."""

from __future__ import annotations

import copy
import logging
import math
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import _safe_indexing, check_consistent_length

from snapml.estimators.base import callers_level
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.problems import Penalty
from snapml.solvers.newton.small_groups import GroupResults, solve_groups, suits_groups
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.threads import resolve_n_threads

__all__ = ["ManyModels", "fit_many"]

_logger = logging.getLogger("snapml")
_MOST_NAMED = 3  # groups without a model that the warning names


def fit_many(
    estimator: Any,
    X: Any,
    y: Any,
    groups: Any,
    *,
    sample_weight: Any = None,
    n_threads: int | None = None,
    verbose: int = 0,
) -> ManyModels:
    """Fit one model to the rows of each group.

    What a loop over the groups would find, each model with its own certificate. Small groups of
    two classes under `LogisticRegression` are fitted in one call, which saves most of what a loop
    takes (`benchmarks/results/many_fits.csv`); others one after the other, by their own ``fit``.

    Parameters
    ----------
    estimator : estimator
        Is cloned for each group, and stays as it is. Any estimator of snapml or scikit-learn.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows of all groups, in any order, on the host.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Their targets.
    groups : array-like of shape (n_samples,)
        The group of each row: numbers, text, or a pandas categorical, whose categories without
        rows are told as errors.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows.
    n_threads : int, default=None
        Threads, each with a small group at a time; None means the estimator's own number, or all
        available.
    verbose : int, default=0
        Log a line every `verbose` groups to the logger ``snapml``.

    Returns
    -------
    ManyModels
        The models by group.

    Raises
    ------
    ValueError
        If X, y and groups differ in length, a group is missing (NaN), or no group can be fitted:
        the first group's error.

    Warns
    -----
    sklearn.exceptions.FitFailedWarning
        If some groups have no model: of one class, say. `ManyModels.errors` has all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from snapml import LogisticRegression, fit_many
    >>> rng = np.random.default_rng(0)
    >>> X, shop = rng.normal(size=(600, 3)), np.repeat(["north", "south", "west"], 200)
    >>> y = X[:, 0] + rng.logistic(size=600) > 0
    >>> models = fit_many(LogisticRegression(), X, y, shop)
    >>> list(models)
    ['north', 'south', 'west']
    >>> bool((models.gap_ <= 1e-6 * models.objective_).all())
    True
    >>> models["south"].coef_.shape
    (1, 3)
    """
    if verbose != int(verbose) or verbose < 0:
        raise ValueError(f"verbose: expected an integer >= 0, got {verbose!r}")
    resolve_n_threads(n_threads, 0)  # refuses what is no number of threads
    check_consistent_length(X, y, groups)
    if sample_weight is not None:
        check_consistent_length(X, sample_weight)
    rows = _Grouped(groups)
    models = ManyModels(estimator, rows.keys)
    for key in rows.empty:
        models.errors[key] = ValueError("expected rows, got none")
    left = _fit_together(models, rows, X, y, sample_weight, n_threads)
    _fit_apart(models, rows, left, X, y, sample_weight, verbose)
    if len(models.errors) == len(models.keys_) + len(rows.empty):
        raise next(iter(models.errors.values()))
    _warn_of_errors(models)
    return models


class _Grouped:
    """Which rows each group has.

    Attributes
    ----------
    keys : list
        Groups with rows, sorted; of a categorical in the order of its categories.
    empty : list
        Categories without rows.
    order : ndarray of shape (n_rows,), int64
        Rows group by group, those of a group in their own order.
    bounds : ndarray of shape (n_groups + 1,), int64
        Where each begins in it, and the last ends.
    """

    def __init__(self, groups: Any) -> None:
        categories = getattr(getattr(groups, "dtype", None), "categories", None)
        if categories is not None:
            codes = np.asarray(getattr(groups, "cat", groups).codes, dtype=np.int64)
            names = list(categories)
        else:
            names, codes = _distinct(groups)
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            raise ValueError(f"groups: expected a group for each row, got none in row {row}")
        counts = np.bincount(codes, minlength=len(names))
        self.keys = [name for name, count in zip(names, counts, strict=True) if count]
        self.empty = [name for name, count in zip(names, counts, strict=True) if not count]
        self.order = np.argsort(codes, kind="stable")
        self.bounds = np.append(0, np.cumsum(counts[counts > 0])).astype(np.int64)
        self.is_sorted = bool((self.order[1:] > self.order[:-1]).all())

    def rows(self, number: int) -> np.ndarray:
        """Return the rows of a group."""
        return self.order[self.bounds[number] : self.bounds[number + 1]]


def _distinct(groups: Any) -> tuple[list[Any], np.ndarray]:
    """Return the different groups, sorted, and the number of each row's; -1 where it is missing."""
    values = np.asarray(groups)
    if values.ndim != 1:
        raise ValueError(f"groups: expected one group a row, got shape {values.shape}")
    is_missing = np.zeros(len(values), dtype=bool)
    if values.dtype.kind in "fcmMO":
        is_missing = np.array(values != values, dtype=bool)  # NaN and NaT alone are not themselves
    if values.dtype == object:
        is_missing |= np.array([value is None for value in values], dtype=bool)
    known = values[~is_missing]
    try:
        names, codes = np.unique(known, return_inverse=True)
    except TypeError as error:
        raise TypeError("groups: expected numbers or text, got values of several kinds") from error
    found = np.full(len(values), -1, dtype=np.int64)
    found[~is_missing] = codes
    return names.tolist(), found


class ManyModels(Mapping[Any, Any]):
    """Fitted estimators by group, as `fit_many` returns them.

    A mapping: ``models[key]`` is a group's fitted estimator, and ``for key in models`` goes through
    the groups that have one.

    Parameters
    ----------
    estimator : estimator
        What was fitted.
    keys : list
        The groups.

    Attributes
    ----------
    keys_ : list
        All groups with rows, those without a model among them; the order of the arrays below.
    errors : dict
        What a group without a model has raised.
    gap_, objective_ : ndarray of shape (n_groups,), float64
        Each model's certified gap and objective, summed over its targets or classes; NaN without a
        model or certificate.
    coef_ : ndarray of shape (n_groups, ...)
        Each model's coefficients; NaN without a model.
    intercept_ : ndarray of shape (n_groups, ...)
        Likewise.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from snapml import Ridge, fit_many
    >>> X, kind = load_iris(return_X_y=True)
    >>> models = fit_many(Ridge(), X[:, :3], X[:, 3], kind)
    >>> models.coef_.shape, models.predict(X[:, :3], kind).shape
    ((3, 3), (150,))
    """

    def __init__(self, estimator: Any, keys: list[Any]) -> None:
        self.estimator, self.keys_ = estimator, keys
        self.errors: dict[Any, Exception] = {}
        self._models: dict[Any, Any] = {}
        self._together: _Together | None = None

    def __getitem__(self, key: Any) -> Any:
        if key in self._models:
            return self._models[key]
        if key in self.errors:
            raise KeyError(f"group {key!r} has no model: {self.errors[key]}")
        if self._together is None or key not in self._together.numbers:
            raise KeyError(key)
        model = self._models[key] = self._together.model(key)
        return model

    def __contains__(self, key: object) -> bool:
        is_together = self._together is not None and key in self._together.numbers
        return key in self._models or is_together

    def __iter__(self) -> Iterator[Any]:
        return (key for key in self.keys_ if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"ManyModels({self.estimator!r}, {len(self)} of {len(self.keys_)} groups)"

    @property
    def gap_(self) -> np.ndarray:
        """Certified gap of each group's model."""
        return self._numbers("gap_")

    @property
    def objective_(self) -> np.ndarray:
        """Objective of each group's model."""
        return self._numbers("objective_")

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients of each group's model."""
        return self._stacked("coef_")

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts of each group's model."""
        return self._stacked("intercept_")

    def predict(self, X: Any, groups: Any) -> np.ndarray:
        """Predict each row by the model of its group.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        groups : array-like of shape (n_samples,)
            The group of each row.

        Returns
        -------
        ndarray of shape (n_samples,), or as a model's predictions have more
            In the order of the rows.

        Raises
        ------
        ValueError
            If a group has no model.
        """
        return self._predicted("predict", X, groups)

    def predict_proba(self, X: Any, groups: Any) -> np.ndarray:
        """Predict the probabilities of the classes, which all groups must have.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        groups : array-like of shape (n_samples,)
            The group of each row.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of the rows.

        Raises
        ------
        ValueError
            If a group has no model, or other classes than the first.
        """
        return self._predicted("predict_proba", X, groups)

    def _predicted(self, method: str, X: Any, groups: Any) -> np.ndarray:
        check_consistent_length(X, groups)
        rows, found, classes = _Grouped(groups), None, None
        for number, key in enumerate(rows.keys):
            if key not in self:
                reason = self.errors.get(key, "it was not in fit")
                raise ValueError(f"groups: expected groups with a model, got {key!r}: {reason}")
            model, own = self[key], rows.rows(number)
            if method == "predict_proba":
                classes = model.classes_ if classes is None else classes
                if not np.array_equal(classes, model.classes_):
                    raise ValueError(
                        f"groups: expected the same classes in each, got {classes} and, of group "
                        f"{key!r}, {model.classes_}"
                    )
            part = np.asarray(getattr(model, method)(_safe_indexing(X, own)))
            if found is None:
                found = np.empty((len(rows.order), *part.shape[1:]), part.dtype)
            found = found.astype(np.result_type(found, part), copy=False)
            found[own] = part
        return np.empty(0) if found is None else found

    def _numbers(self, name: str) -> np.ndarray:
        together = self._together
        numbers = {} if together is None else together.numbers
        found = np.full(len(self.keys_), np.nan)
        for place, key in enumerate(self.keys_):
            if together is not None and key in numbers:
                found[place] = getattr(together.found, name.rstrip("_"))[numbers[key]]
            elif key in self:
                found[place] = float(np.sum(getattr(self[key], name, math.nan)))
        return found

    def _stacked(self, name: str) -> np.ndarray:
        found = {key: np.asarray(getattr(self[key], name)) for key in self}
        shapes = {each.shape for each in found.values()}
        if len(shapes) > 1:
            raise ValueError(
                f"{name}: expected models of one shape, got {sorted(shapes)}: take them one by one"
            )
        first = next(iter(found.values()))
        none = np.full(first.shape, np.nan, first.dtype)
        return np.stack([found.get(key, none) for key in self.keys_])


class _Together(NamedTuple):
    """Models of small groups that one call has found; estimators are made when asked for."""

    pattern: LogisticRegression  # with what all have in common
    penalty: Penalty
    found: GroupResults
    numbers: dict[Any, int]  # of the groups with a model

    def model(self, key: Any) -> LogisticRegression:
        """Return a group's fitted estimator."""
        description = "quasi-Newton, many groups in one call: the rows stay in the cache"
        model = copy.copy(self.pattern)
        model._store_model(self.found.result(self.numbers[key], description), self.penalty)
        return model


def _fit_together(
    models: ManyModels, rows: _Grouped, X: Any, y: Any, sample_weight: Any, n_threads: int | None
) -> list[int]:
    """Fit what one call can; return the numbers of the other groups."""
    everyone = list(range(len(rows.keys)))
    pattern = clone(models.estimator)
    if type(pattern) is not LogisticRegression or not everyone:
        return everyone
    try:
        posed = pattern._pose_for_groups(X, y, sample_weight)
    except (TypeError, ValueError):
        return everyone  # the fits of the groups concerned say what is wrong
    if posed is None:
        return everyone
    problem, dataset, rule = posed
    if not suits_groups(problem, dataset, rows.bounds):
        return everyone
    if not rows.is_sorted:
        dataset = dataset.take(rows.order, 1.0)
    n_threads = pattern.n_threads if n_threads is None else n_threads
    try:
        found = solve_groups(problem, dataset, rows.bounds, rule, n_threads)
    except NonFiniteError:
        return everyone  # of the others' fits as well: nothing was solved
    lows, highs = (
        extreme.reduceat(dataset.labels, rows.bounds[:-1]) for extreme in (np.minimum, np.maximum)
    )
    is_found = found.has_converged & (lows < highs)  # one class has no model
    numbers = {rows.keys[k]: int(k) for k in np.flatnonzero(is_found)}
    models._together = _Together(pattern, problem.penalty, found, numbers)
    return np.flatnonzero(~is_found).tolist()


def _fit_apart(
    models: ManyModels,
    rows: _Grouped,
    numbers: list[int],
    X: Any,
    y: Any,
    sample_weight: Any,
    verbose: int,
) -> None:
    """Fit groups one after the other; keep what they raise."""
    began_s = time.perf_counter()
    for n_done, number in enumerate(numbers, 1):
        key, own = rows.keys[number], rows.rows(number)
        arguments = {}
        if sample_weight is not None:
            arguments["sample_weight"] = _safe_indexing(sample_weight, own)
        try:
            model = clone(models.estimator)
            model.fit(_safe_indexing(X, own), _safe_indexing(y, own), **arguments)
            if is_classifier(model) and len(np.atleast_1d(model.classes_)) < 2:
                raise ValueError(f"y: expected at least two classes, got {model.classes_}")
            models._models[key] = model
        except Exception as error:  # the others' models do not depend on it
            models.errors[key] = error
        if verbose and n_done % verbose == 0:
            spent_s = time.perf_counter() - began_s
            _logger.info("%d of %d groups, %.2f s", n_done, len(numbers), spent_s)


def _warn_of_errors(models: ManyModels) -> None:
    if not models.errors:
        return
    named = [f"group {key!r}: {error}" for key, error in models.errors.items()]
    more = len(named) - _MOST_NAMED
    listed = "; ".join(named[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
    warnings.warn(
        f"{len(named)} of {len(models.keys_)} groups have no model ({listed}); errors has all",
        FitFailedWarning,
        stacklevel=callers_level(),
    )
