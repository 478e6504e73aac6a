"""Losses with corners on a working set of rows: those whose corners are near decide the minimum.

Rows far from a corner have the slope of their side, so that a few rows near one, and one sum over
all others, make a problem with the same minimum (Portnoy and Koenker, Statist. Sci. 1997). The
first guess comes from a sample. A duality gap over all rows certifies the answer, whichever rows
were left out; docs/algorithms.md, section 11.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
from scipy.linalg import lstsq
from scipy.sparse import csr_matrix

from snapml.data import Dataset
from snapml.problems import Intercept, Problem
from snapml.solvers.certificate import certified_gap
from snapml.solvers.columns.cpu_columns import CpuColumns
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import Interim
from snapml.solvers.cpu_formulas import loss_corners, penalty_value
from snapml.solvers.dual_ascent.rounding import Rounding, can_lengthen, is_coarse
from snapml.solvers.interior_point.barrier import Boxes, Objective, minimise
from snapml.solvers.interior_point.working_matrix import Scaling, WorkingMatrix, squares
from snapml.solvers.observer import Stage
from snapml.solvers.result import FitResult, overflow_error
from snapml.solvers.rows.cpu_rows import as_array
from snapml.solvers.stopping import Progress, StoppingRule
from snapml.solvers.threads import limit_blas_threads

__all__ = ["MOST_COLUMNS", "Span", "solve"]

# Up to here systems of all columns are solved by factoring.
MOST_COLUMNS = 3000
# Rows for each column, at least, that are worked on at a time.
_ROWS_A_COLUMN = 20
# Gap of the sample's solution as a share of its objective; and of each working set's, of `tol`.
_ROUGH, _FINE = 1e-3, 0.1
# Entries up to which data are small: there the answer is as exact as the number type allows.
_SMALL, _POLISHED = 100_000, 1e-13
# Times that the same rows are solved again, to a smaller gap.
_MOST_REFINED = 3


def solve(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    *,
    n_threads: int | None = None,
    seed: int = 0,
    span: Callable[[], Span] | None = None,
) -> FitResult:
    """Minimise until the certified gap meets the rule.

    Parameters
    ----------
    problem : Problem
        With a loss that has corners; any penalty without bounds, or none.
    dataset : Dataset
        Rows in memory, labels, row weights and offsets.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Tolerance and most reads of the data.
    n_threads : int or None, default=None
        Threads to use; None means all available.
    seed : int, default=0
        Seed of the sample.
    span : callable or None, default=None
        Returns a basis of the rows in memory, once they are known to be finite. The problem is
        solved in it, and the answer certified in all columns; None solves it in these.

    Returns
    -------
    FitResult
        The model with its certificate.

    Raises
    ------
    NonFiniteError
        If the matrix holds NaN or infinity.
    ValueError
        If the sums overflow.
    """
    stage = rule.observer.stage(f"interior point, {dataset.matrix.shape[1]}")
    if stage.result is not None:
        return stage.result
    engine = CpuColumns(problem, dataset, n_threads=n_threads)
    with limit_blas_threads(1), np.errstate(over="ignore", invalid="ignore"):
        engine.adjoint(np.zeros(engine.n_rows))  # refuses rows that are not finite
        fit = _Fit(problem, dataset, engine, communicator, seed)
        if span is None:
            progress = Progress(rule, first_epoch=0, stage=stage)
            fit.start()
            _refine(fit, progress)
        else:
            progress = _refine_in(span(), fit, rule, stage)
    return stage.finish(fit.result(progress))


def _refine_in(span: Span, fit: _Fit, rule: StoppingRule, stage: Stage) -> Progress:
    """Solve in the coordinates of a span; the fit takes what was found there."""
    view = partial(span.in_columns, bias_column=fit.bias)
    own = replace(rule, control=rule.control.through(view))
    progress = Progress(own, first_epoch=0, stage=stage)
    inner = fit.over(span.dataset)
    inner.start()
    _refine(inner, progress)
    is_solved = progress.is_met
    fit.take(inner, view(inner.interim()))
    fit.see()
    progress.see_certificate(fit.gap, fit.value)
    if not progress.is_met and fit.is_coarse:
        fit.lengthen()
        progress.see_certificate(fit.gap, fit.value)
        fit.is_rounded = is_solved and not progress.is_met
    return progress


def _refine(fit: _Fit, progress: Progress) -> None:
    """Solve on more rows, or more exactly, until the gap over all rows meets the rule."""
    rule, n_refined, share = progress.rule, 0, _FINE
    while True:
        fit.see()
        progress.see_epoch(fit.gap)
        progress.see_certificate(fit.gap, fit.value)
        if progress.is_met:
            fit.drop(max(rule.tol * abs(fit.value), rule.floor))
            progress.see_certificate(fit.gap, fit.value)
            return
        if fit.n_reads >= rule.max_iter:
            return
        if rule.control.ends(fit.communicator, fit.interim):
            return
        if fit.has_slopes and not fit.widen():
            n_refined, share = n_refined + 1, 0.1 * share
            if n_refined > _MOST_REFINED:
                return
        goal = min(share * rule.tol, _POLISHED) if fit.is_small else share * rule.tol
        fit.solve(goal * abs(fit.value))


class Span(Protocol):
    """A basis of what the rows span, with as many directions as there are rows at most.

    Attributes
    ----------
    dataset : Dataset
        The same labels and weights over the rows' coordinates.
    """

    dataset: Dataset

    def in_columns(self, model: Interim, bias_column: float) -> Interim:
        """Return a model of the basis as one of the data's columns."""


class _Fit:
    """The working rows, the present point, and what it proves."""

    def __init__(
        self,
        problem: Problem,
        dataset: Dataset,
        engine: CpuColumns,
        communicator: Communicator,
        seed: int,
        *,
        has_one_scale: bool = False,
    ) -> None:
        self.communicator, self._engine, self._problem = communicator, engine, problem
        self._seed, self._is_in_span, self._has_one_scale = seed, False, has_one_scale
        self._array, self._rng = as_array(dataset), np.random.default_rng([seed, communicator.rank])
        self._offsets = 0.0 if dataset.offsets is None else dataset.offsets
        weights = dataset.row_weights
        c = np.full(engine.n_rows, dataset.weight) if weights is None else weights
        self._boxes = _boxes_of(problem, dataset, c)
        self._used = np.flatnonzero(c > 0.0)
        self._n_used = int(communicator.allreduce_sum(np.array([float(len(self._used))]))[0])
        size = engine.n_features + 1
        enough = max(_ROWS_A_COLUMN * size, math.sqrt(size) * self._n_used ** (2.0 / 3.0))
        self._share = min(1.0, enough / max(1.0, float(self._n_used)))
        self._share = self._share if self._share < 0.5 else 1.0
        self.value, self.gap, self._bound, self.n_reads = math.inf, math.inf, 0.0, 0
        self.has_slopes, self._slopes = False, np.zeros_like(self._boxes.low)
        self.is_rounded = False  # whether rounding alone leaves the gap what it is
        own = np.array([float(engine.n_stored)])
        self.is_small = bool(communicator.allreduce_sum(own)[0] <= _SMALL)
        self._free = self._rows_of = self._used[:0]
        self._slopes_of = np.full(size, math.inf)  # of the columns; no room before a bound

    def start(self) -> None:
        """Minimise over a sample; with all rows to work on, take least squares as a start."""
        rows = self._used
        if self._share < 1.0:
            count = math.ceil(self._share * len(rows))
            rows = np.sort(self._rng.choice(rows, count, replace=False))
        values = self._taken(rows)
        self._scaling = self._scaled(values)
        self._l1, self._l2 = self._penalties()
        sample = self._scaling.rows(values, self._engine.n_threads)
        boxes = self._boxes.on(rows)
        times = 1.0 / self._share
        boxes = Boxes(boxes.at, times * boxes.low, times * boxes.high)
        self._point = self._least_squares(sample, boxes)
        if self._share < 1.0:
            none = np.zeros(sample.shape[1])
            objective = Objective(sample, boxes, none, self._l1, self._l2)
            own = float(boxes.values(sample.product(self._point)).sum())
            value = float(self.communicator.allreduce_sum(np.array([own]))[0])
            self._point = minimise(objective, self._point, _ROUGH * value, self.communicator)[0]

    @property
    def bias(self) -> float:
        """The intercept's constant column."""
        return self._problem.bias_column

    def over(self, dataset: Dataset) -> _Fit:
        """Return a fit of the same problem over the directions of a span, which have one scale.

        Those that rounding alone has made would be as long as any in scales of their own.
        """
        engine = CpuColumns(self._problem, dataset, n_threads=self._engine.n_threads)
        own = self._problem, dataset, engine, self.communicator, self._seed
        return _Fit(*own, has_one_scale=True)

    def take(self, other: _Fit, model: Interim) -> None:
        """Take the model and the slopes that another fit of the same rows has found."""
        self._free, values = self._used, self._taken(self._used)
        self._scaling = Scaling(np.zeros(values.shape[1]), np.ones(values.shape[1]), self.bias)
        self._l1, self._l2 = self._penalties()
        self._rows = self._scaling.rows(values, self._engine.n_threads)
        self._point = np.append(model.coef[0], model.intercept[0] / (self.bias or 1.0))
        self._pull, self._is_in_span, self.n_reads = np.zeros(len(self._point)), True, other.n_reads
        self.has_slopes, self._slopes = other.has_slopes, other._slopes

    def see(self) -> None:
        """Read all rows: the model as it is rounded, its margins, and its gap."""
        self._z = self._judge(self._point, math.inf)
        if self.has_slopes:
            self._bound = max(self._bound, self._lower_bound())
        self.gap = certified_gap(self.value, self._bound)

    @property
    def is_coarse(self) -> bool:
        """Whether rounding of the coefficients may outweigh a tolerance."""
        return is_coarse(self._problem.loss, self._engine.dtype)

    def lengthen(self) -> None:
        """Take models a little longer as long as they are better, where that undoes rounding."""
        if not can_lengthen(self._problem.loss, self._engine.dtype):
            return
        for factor in Rounding.FACTORS:
            before = self.value
            self._point = factor * self._point
            self._judge(self._point, math.inf)
            if self.value >= before:
                break
        self.gap = certified_gap(self.value, self._bound)

    def drop(self, allowed: float) -> None:
        """Take zeros for the coefficients that are to be none, if the gap stays what is allowed.

        Of a coefficient and the room that its slope has below l1 one is zero at the minimum, and
        nearly so here.
        """
        size, room = abs(self._point), 1.0 - abs(self._slopes_of) / np.where(self._l1, self._l1, 1)
        is_none = (self._l1 > 0.0) & (size < room * size.max(initial=0.0))
        if is_none.any():
            self._judge(np.where(is_none, 0.0, self._point), allowed)
            self.gap = certified_gap(self.value, self._bound)

    def _judge(self, point: np.ndarray, allowed: float) -> np.ndarray:
        """Take a model if it is better, or has an allowed gap; return its margins.

        The first point, without slopes to bound its gap, is taken as it is.
        """
        coef, intercept = self._scaling.model(point)
        rounded = coef.astype(self._engine.dtype)
        padded = np.zeros(self._engine.n_cols)
        padded[: len(coef)] = rounded
        z = self._engine.product(padded) + intercept  # offsets moved the corners instead
        own = np.array([self._engine.loss_sums(z + self._offsets, 0.0)[0]])
        value = float(self.communicator.allreduce_sum(own)[0]) + self._penalty(rounded, intercept)
        if not math.isfinite(value):
            raise overflow_error(self._engine.dtype)
        self.n_reads += 1
        is_allowed = math.isfinite(allowed) and value - self._bound <= allowed
        if value <= self.value or is_allowed:
            self.value, self._coef, self._intercept = value, rounded, intercept
        return z

    def solve(self, target: float) -> None:
        """Minimise over the working rows, the others being held at the slope of their side."""
        if not self.has_slopes:
            self._free = self._nearest(self._share)
        sides = np.where(self._z > self._boxes.at, self._boxes.high, self._boxes.low)
        self._slopes = sides
        sides[:, self._free] = 0.0
        self._pull = self._sums(sides.sum(axis=0))
        if self._rows_of is not self._free:
            rows = self._taken(self._free)
            self._rows = self._scaling.rows(rows, self._engine.n_threads)
            self._rows_of = self._free
        boxes = self._boxes.on(self._free)
        objective = Objective(self._rows, boxes, self._pull, self._l1, self._l2)
        self._point, slopes = minimise(objective, self._point, target, self.communicator)
        self._slopes[:, self._free] = slopes
        self.has_slopes = True

    def widen(self) -> bool:
        """Free rows that turned out to be on the other side; return whether there were any."""
        lost = self._boxes.values(self._z) - self._slopes * (self._z - self._boxes.at)
        lost[:, self._free] = 0.0
        wrong = np.flatnonzero(lost.sum(axis=0) > 0.0)
        sums = np.array([float(lost.sum()), float(len(wrong))])
        loss, count = self.communicator.allreduce_sum(sums).tolist()
        if not loss > 0.1 * self.gap or not count:
            return False
        if count > 0.1 * self._share * self._n_used:
            self._share = min(1.0, 2.0 * self._share)
        near = self._nearest(self._share)
        self._free = np.union1d(np.union1d(self._free, wrong), near)
        return True

    def interim(self) -> Interim:
        """Return the model for those who look on."""
        coef = self._coef[None].astype(np.float64)
        return Interim(coef, np.array([self._intercept]), self.gap, self.value)

    def result(self, progress: Progress) -> FitResult:
        """Return the best model."""
        where = ", in the span of the rows" if self._is_in_span else ""
        return FitResult(
            coef=self._coef,
            intercept=self._intercept,
            duals=None,
            offset=0.0,
            n_iter=max(0, self.n_reads - 1),
            has_converged=progress.is_met,
            gap=self.gap,
            objective=self.value,
            history=progress.history,
            mean_stiffness=0.0,
            description=f"interior point method, {self._engine.description}{where}",
            is_rounded=self.is_rounded,
        )

    def _taken(self, rows: np.ndarray) -> np.ndarray | csr_matrix:
        return self._array if len(rows) == self._array.shape[0] else self._array[rows]

    def _scaled(self, values: np.ndarray | csr_matrix) -> Scaling:
        """Return the scaling by the moments of these rows."""
        n_features = self._engine.n_features
        own_sums = np.asarray(values.sum(axis=0, dtype=np.float64)).ravel()
        own = np.append(own_sums, float(values.shape[0]))
        sums = self.communicator.allreduce_sum(own)
        count = max(1.0, float(sums[-1]))
        is_free = self._problem.intercept is Intercept.FREE
        mean = sums[:-1] / count if is_free else np.zeros(n_features)
        scale = np.sqrt(self.communicator.allreduce_sum(squares(values, mean)) / count)
        if self._has_one_scale:
            scale = np.full(n_features, math.sqrt(float(np.mean(scale**2))))
        is_constant = ~(scale > 1e-14 * np.abs(mean)) | ~np.isfinite(scale)
        scale = np.where(is_constant, 1.0, scale)
        return Scaling(mean, scale, self._problem.bias_column)

    def _penalties(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the penalties of the scaled columns; without an intercept its column is zero."""
        penalty, scale = self._problem.penalty, self._scaling.scale
        is_penalised = self._problem.intercept is Intercept.PENALISED
        l1 = np.append(penalty.l1 / scale, penalty.l1 if is_penalised else 0.0)
        last = 1.0 if not self._scaling.bias else penalty.l2 if is_penalised else 0.0
        return l1, np.append(penalty.l2 / scale**2, last)

    def _penalty(self, coef: np.ndarray, intercept: float) -> float:
        point = coef.astype(np.float64)
        if self._problem.intercept is Intercept.PENALISED:
            point = np.append(point, intercept / self._scaling.bias)
        return penalty_value(self._problem.penalty, point)

    def _least_squares(self, rows: WorkingMatrix, boxes: Boxes) -> np.ndarray:
        """Return least squares through the corners, at the level that balances the slopes."""
        size = rows.shape[1]
        gram = self.communicator.allreduce_sum(rows.gram(np.ones(rows.shape[0])))
        sums = self.communicator.allreduce_sum(rows.adjoint(boxes.at.mean(axis=0)))
        point = np.asarray(lstsq(gram + np.diag(self._l2), sums, check_finite=False)[0])
        if self._problem.intercept is not Intercept.FREE:
            return point
        left = (boxes.at - rows.product(point)).ravel()
        order = np.argsort(left, kind="stable")
        steps = np.cumsum((boxes.high - boxes.low).ravel()[order])
        level = 0.0
        if size and len(left):
            found = int(np.searchsorted(steps, -float(boxes.low.sum())))
            level = float(left[order[min(found, len(order) - 1)]])
        own = np.array([level * len(left), float(len(left))])
        total, count = self.communicator.allreduce_sum(own).tolist()
        point[-1] += total / max(1.0, count) / self._scaling.bias
        return point

    def _nearest(self, share: float) -> np.ndarray:
        """Return this share of the rows, those nearest to a corner."""
        if share >= 1.0:
            return self._used
        far = abs(self._z - self._boxes.at).min(axis=0)[self._used]
        count = min(len(far), math.ceil(share * len(far)))
        if count == len(far):
            return self._used
        return np.sort(self._used[np.argpartition(far, count)[:count]])

    def _sums(self, vector: np.ndarray) -> np.ndarray:
        """Return all rows' sum of `vector`, in the scaled columns, over all shards."""
        raw = self._engine.adjoint(vector)[: self._engine.n_features]
        own = self._scaling.sums(raw, float(vector.sum()))
        self.n_reads += 1
        return self.communicator.allreduce_sum(own)

    def _lower_bound(self) -> float:
        """Return the dual objective at the slopes, made feasible."""
        slopes = self._slopes[:, self._free]
        own = self._rows.adjoint(slopes.sum(axis=0))
        sums = self.communicator.allreduce_sum(own) + self._pull
        self._slopes_of = sums
        if not np.isfinite(sums).all():  # the steps' systems have overflowed
            return -math.inf
        exact = np.flatnonzero((self._l1 == 0.0) & (self._l2 == 0.0))
        if len(exact):
            slopes, sums = self._balanced(slopes, sums, exact)
        boxes = self._boxes.on(self._free)
        rest = self._slopes * self._boxes.at
        rest[:, self._free] = slopes * boxes.at
        is_within = bool(((slopes >= boxes.low) & (slopes <= boxes.high)).all())
        found = np.array([-float(rest.sum()), float(not is_within)])
        terms, n_outside = self.communicator.allreduce_sum(found).tolist()
        if n_outside:
            return -math.inf
        # What rounding leaves of sums that are to be zero, at about the minimum.
        left = float(abs(sums[exact]) @ abs(self._point[exact]))
        return self._best_scale(np.delete(sums, exact), exact, terms) - left

    def _best_scale(self, sums: np.ndarray, exact: np.ndarray, terms: float) -> float:
        """Return the best dual objective of scaled slopes under the penalty."""
        l1, l2 = np.delete(self._l1, exact), np.delete(self._l2, exact)
        size, scales = abs(sums), {1.0}
        with np.errstate(divide="ignore"):
            fits = np.where(size > l1, l1 / np.where(size > 0.0, size, 1.0), 1.0)
        is_bounded = l2 == 0.0
        most = float(fits[is_bounded].min(initial=1.0))
        scales = {most, min(most, float(fits[l1 > 0.0].min(initial=1.0)))}
        best = -math.inf
        for scale in scales:
            beyond = np.maximum(scale * size - l1, 0.0)[~is_bounded]
            best = max(best, scale * terms - 0.5 * float(np.sum(beyond**2 / l2[~is_bounded])))
        return best

    def _balanced(
        self, slopes: np.ndarray, sums: np.ndarray, exact: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Move slopes, each by its room, until sums over columns without a penalty are zero."""
        boxes, columns = self._boxes.on(self._free), self._rows.columns(exact)
        room = np.minimum(boxes.high - slopes, slopes - boxes.low)
        soft = room.sum(axis=0)
        gram = self.communicator.allreduce_sum((columns * soft[:, None]).T @ columns)
        for _ in range(2):  # the second time for the rounding of the first
            factors = lstsq(gram, sums[exact], check_finite=False)[0]
            moved = room * (columns @ factors)
            slopes = slopes - moved
            sums = sums - self.communicator.allreduce_sum(self._rows.adjoint(moved.sum(axis=0)))
        return slopes, sums


def _boxes_of(problem: Problem, dataset: Dataset, weights: np.ndarray) -> Boxes:
    """Return all rows' corners, times their weights."""
    at, low, high = loss_corners(problem.loss, dataset.labels)
    if dataset.offsets is not None:
        at -= dataset.offsets
    return Boxes(at, low * weights, high * weights)
