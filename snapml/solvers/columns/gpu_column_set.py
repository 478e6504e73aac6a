"""More columns on a device than a Gram matrix is worth: rounds of steps on them, safely short."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from snapml.kernels import CompressedRows, DenseRows
from snapml.kernels.descent.column_descent import ColumnRounds, Quadratic
from snapml.kernels.matrices.row_selection import transposed
from snapml.kernels.sums.shared_vector import FixedVector
from snapml.problems import Intercept, Problem
from snapml.solvers.columns.column_model import Slopes, minimise_on_columns
from snapml.solvers.columns.gpu_packed import DeviceColumns, device_gram
from snapml.solvers.concurrency import Concurrency, coupling_of, rows_in_flight
from snapml.solvers.cpu_formulas import penalty_value
from snapml.solvers.quadratic_model import Model
from snapml.solvers.result import overflow_error

__all__ = ["ColumnSet"]

_ROUNDING = 2.0**-46  # of the terms of a model's value
_MOST_CENTRING = 2.0**20  # by how much a mean may exceed what is left without it, in fixed point
_TINY = float(np.finfo(np.float64).tiny)


class ColumnSet:
    """Columns of a dataset on a device, by rows and by columns (protocols `WorkingSet`, `Curved`).

    Parameters
    ----------
    problem : Problem
        Loss and intercept.
    source : DeviceColumns
        Where the columns come from.
    columns : ndarray
        Sorted numbers of columns.
    seed : int
        Seed of the order in which they are visited.
    """

    def __init__(
        self, problem: Problem, source: DeviceColumns, columns: np.ndarray, seed: int
    ) -> None:
        self.columns = columns
        self.problem, self._source = problem, source
        self._packed = source.take(columns)
        self.device = source.device
        self._has_all = len(columns) == source.n_cols
        # Neighbours in the user's matrix often belong together, and must not step at once.
        n_own = self._packed.n_own
        own_order = np.random.default_rng(seed).permutation(n_own)
        self.order = np.append(own_order, np.arange(n_own, self._packed.n_cols))
        by_columns: DenseRows | CompressedRows
        if isinstance(self._packed.rows, DenseRows):
            by_columns = _transposed(self._packed, self._packed.rows, own_order)
        else:
            by_columns = _by_columns(self._packed, self._packed.rows, own_order)
        self.rounds = ColumnRounds(self.device, by_columns)
        self._counts = self._in_place(self.rounds.lengths)
        # How many columns may step at once: all of them, and all but the hot ones.
        self.concurrency: dict[bool, Concurrency] = {}

    @property
    def is_most_of_data(self) -> bool:
        """Whether these are all columns."""
        return self._has_all

    def serves(self, columns: np.ndarray) -> bool:
        """Return whether to work on this set although `columns` are all that is asked for."""
        is_smaller = len(columns) <= len(self.columns)
        return is_smaller and bool(np.isin(columns, self.columns).all())

    def product(self, coef: np.ndarray) -> Any:
        """Return the columns' sum weighted by `coef`, one number per row."""
        return self._packed.product(coef)

    def adjoint(self, vector: Any) -> np.ndarray:
        """Return the columns' products with a vector of one number per row."""
        return self._packed.adjoint(vector)

    def squares(self, weights: Any) -> np.ndarray:
        """Return sum_i weights_i x_ij^2 of every column."""
        return self._packed.squares(weights)

    def hessian_product(self, coef: np.ndarray, shift: float, curvatures: Any) -> np.ndarray:
        """Return ``X^T (h * (X coef + shift))``."""
        return self.adjoint(curvatures * (self.product(coef) + shift))

    def counts(self) -> np.ndarray:
        """Return how many entries each column stores."""
        return self._counts

    def gram(self, kept: np.ndarray, model: Model) -> np.ndarray:
        """Return the model's Gram matrix of some of the columns, less a free intercept's share."""
        chunk, curvatures = self._source.take(self.columns[kept]), model.curvatures
        mean = np.zeros(len(kept))
        if self.problem.intercept is Intercept.FREE:
            mean = model.total(chunk.adjoint(curvatures)) / model.curvature_sum
        return model.total(device_gram([], [chunk], curvatures, [mean]))

    def minimise(self, model: Model, coef: np.ndarray, target: float) -> np.ndarray:
        """Return coefficients that minimise the model to within about `target`."""
        return minimise_on_columns(self.problem, self, model, coef, target)

    def descent(self, model: Model) -> _DeviceDescent:
        """Return a descent on the model; refuse curvatures that overflow, and several shards."""
        if model.communicator.size > 1:
            raise NotImplementedError(
                f"an L1 penalty that leaves {len(self.columns)} columns to work on, on GPUs of "
                "several processes: this version has so many there on CPUs only; use "
                "device_ids=None, or regularise more"
            )
        return _DeviceDescent(self, model)

    def _in_place(self, visited: np.ndarray) -> np.ndarray:
        """Return what is given in the order of visits in the order of the columns."""
        out = np.empty_like(visited)
        out[self.order] = visited
        return out


class _DeviceDescent:
    """Sweeps in rounds (protocol `ColumnDescent`).

    Sweeps that raise the model's value are undone and repeated with shorter steps.
    """

    def __init__(self, columns: ColumnSet, model: Model) -> None:
        self._set, self._model = columns, model
        self.sums = columns.adjoint(model.curvatures)
        self.squares = columns.squares(model.curvatures)
        if not np.isfinite(self.squares).all():
            raise overflow_error(columns.rounds.dtype)
        self._change = FixedVector(columns.device)

    def sweep(
        self,
        slopes: Slopes,
        found: np.ndarray,
        gradient: np.ndarray,
        among: np.ndarray | None,
        n_sweeps: int,
        enough: float,
    ) -> tuple[bool, np.ndarray]:
        """Descend on the coordinates, many at a time."""
        concurrency = self._concurrency(slopes, among)
        while True:
            after, seen, single = self._run(slopes, found, gradient, among, n_sweeps, concurrency)
            step = after - found
            image = slopes.hessian_product(step)
            linear, square = float(step @ gradient), float(step @ image)
            before = penalty_value(slopes.penalty, found)
            change = linear + 0.5 * square + penalty_value(slopes.penalty, after) - before
            noise = _ROUNDING * (abs(linear) + abs(square) + before)
            if change <= noise:  # False if it is not a number
                break
            if concurrency.is_safest:
                return False, gradient
            concurrency.tighten()
        if change < -noise and single > 0.0:  # else there is nothing to learn from
            concurrency.learn(2.0 * (linear + 0.5 * square - seen) / single)
        found[:] = after
        return False, gradient + image

    def _run(
        self,
        slopes: Slopes,
        found: np.ndarray,
        gradient: np.ndarray,
        among: np.ndarray | None,
        n_sweeps: int,
        concurrency: Concurrency,
    ) -> tuple[np.ndarray, float, float]:
        """Return the coefficients after some sweeps, and the sums of the steps' slopes, squares."""
        columns, device, penalty = self._set, self._set.device, slopes.penalty
        order = columns.order

        def visited(array: np.ndarray) -> Any:
            return device.to_device(np.ascontiguousarray(array[order]))

        resting = None
        if among is not None:
            is_resting = np.ones(len(found), dtype=np.uint8)
            is_resting[among] = 0
            resting = visited(is_resting)
        model = Quadratic(
            visited(gradient),
            visited(slopes.squares),
            self._model.curvatures,
            visited(self.sums) if slopes.total else None,
            slopes.total,
            penalty.l1,
            penalty.l2,
            penalty.is_positive,
        )
        coef = visited(found)
        self._change.clear(len(self._model.curvatures) + 1, self._reach(slopes))
        slope = single = 0.0
        for _ in range(n_sweeps):
            sums = columns.rounds.sweep(
                model,
                coef,
                self._change,
                columns_at_once=concurrency.rows,
                damping=concurrency.sigma,
                resting=resting,
            )
            slope, single = slope + sums.slope, single + sums.single
        after = np.empty_like(found)
        after[order] = device.to_host(coef)
        return after, slope, single

    def _reach(self, slopes: Slopes) -> float:
        """Return about the largest |h_i u_i| that sweeps come to.

        While the model's value is at most that of its start, r^2 = sum_i g_i^2 / h_i and R bound
        sum_i h_i u_i^2, u less a free intercept's share: by (r + sqrt(r^2 + 2 R))^2. Means of
        columns come on top of that.
        """
        model = self._model
        residual = math.sqrt(model.residual_sq)
        start = max(0.0, slopes.start_penalty)
        bound = residual + math.sqrt(residual**2 + 2.0 * start)
        centring = 1.0
        if slopes.total:
            is_seen = slopes.squares > self.squares / _MOST_CENTRING**2
            ratios = self.squares[is_seen] / slopes.squares[is_seen]
            centring = math.sqrt(float(ratios.max(initial=1.0)))
        return 2.0 * centring * bound * math.sqrt(float(model.curvatures.max()))

    def _concurrency(self, slopes: Slopes, among: np.ndarray | None) -> Concurrency:
        """Return how many columns step at once, as measured at the first need of it."""
        kept = self._set.concurrency.get(among is None)
        if kept is not None:
            return kept
        visits = np.arange(len(self.squares)) if among is None else among
        scale = np.zeros(len(self.squares))
        with np.errstate(divide="ignore"):
            scale[visits] = 1.0 / np.sqrt(slopes.squares[visits])
        scale[~np.isfinite(scale)] = 0.0
        product = partial(_scaled_product, slopes, scale)
        coupling = coupling_of(product, len(scale), int(np.count_nonzero(scale)))
        least, most = self._set.device.n_multiprocessors, self._set.rounds.capacity()
        # Shorter steps always cost sweeps here: there is no other term that bounds a step.
        count = rows_in_flight(coupling, 1.0, max(1, len(visits)), least, most)
        made = Concurrency(count, coupling)
        self._set.concurrency[among is None] = made
        return made


def _scaled_product(slopes: Slopes, scale: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Return the Hessian of columns that are scaled times a vector."""
    return scale * slopes.hessian_product(scale * point)


def _by_columns(packed: DeviceColumns, rows: CompressedRows, order: np.ndarray) -> CompressedRows:
    """Return compressed columns in an order, the constant one behind them."""
    device = packed.device
    xp, index, n_rows = device.xp, np.dtype(rows.indptr.dtype), rows.shape[0]
    rank = np.empty(len(order), index)
    rank[order] = np.arange(len(order))
    columns = transposed(device, replace(rows, indices=device.to_device(rank)[rows.indices]))
    if not packed.tau:
        return columns
    values = columns.values
    if values is None:
        values = xp.full(columns.indices.size, columns.constant, columns.dtype)
    end = xp.full(1, columns.indices.size + n_rows, index)
    return CompressedRows(
        xp.concatenate((columns.indptr, end)),
        xp.concatenate((columns.indices, xp.arange(n_rows, dtype=index))),
        xp.concatenate((values, xp.full(n_rows, packed.tau, columns.dtype))),
        n_rows,
    )


def _transposed(packed: DeviceColumns, rows: DenseRows, order: np.ndarray) -> DenseRows:
    """Return dense columns in an order, the constant one behind them."""
    device, values = packed.device, rows.values
    xp, n_rows = device.xp, values.shape[0]
    out = xp.full((packed.n_cols, n_rows), packed.tau, values.dtype)
    out[: packed.n_own] = xp.take(values.T, device.to_device(order), 0)
    return DenseRows(out)
