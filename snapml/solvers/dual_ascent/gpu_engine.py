"""The GPU's dual engine: a shard in a device's memory, many rows of which step at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.data import Dataset
from snapml.kernels import Device
from snapml.kernels.descent.coordinate_descent import CoordinateDescent, EpochSums, Step
from snapml.kernels.losses.objective import RowSums
from snapml.kernels.matrices.row_checks import RowFacts, inspect_rows
from snapml.kernels.matrices.row_selection import host_copy, take_rows
from snapml.kernels.products.adjoint import ExactProducts
from snapml.kernels.sums.shared_vector import FixedVector, FloatVector, SharedVector
from snapml.problems import Intercept, Problem
from snapml.solvers.communicator import Communicator, SerialCommunicator
from snapml.solvers.concurrency import Concurrency, measure_coupling, rows_in_flight
from snapml.solvers.dual_ascent.intercept_column import intercept_column
from snapml.solvers.dual_ascent.mirrored_vector import MirroredVector
from snapml.solvers.range_checks import NonFiniteError, check_range
from snapml.solvers.rows.gpu_matrix import device_matrix

__all__ = ["SAMPLED_ROWS", "GpuEngine"]

SAMPLED_ROWS = 2000
"""Rows that the power iteration sees."""

# Consecutive rows that are visited together: states of 8 rows fill what a device reads at once.
_BLOCK_ROWS = 8
# Changes of the dual objective below this many roundings of its terms say nothing.
_ROUNDINGS = 8.0
_TINY = float(np.finfo(np.float64).tiny)  # stands for a sum of weights that is zero


class GpuEngine:
    """A shard of rows with its dual variables and the shared vector (protocol `Engine`).

    Parameters
    ----------
    problem : Problem
        Loss and intercept.
    dataset : Dataset
        Rows, labels and row weights; copied to the device.
    device : Device
        Where to work.
    deterministic : bool, default=True
        Whether rows step in rounds, so that equal fits give equal bits. If False, rows update one
        vector without waiting for each other.
    seed : int, default=0
        Seed of the order in which rows are visited.
    duals : ndarray of shape (n_rows,) or None, default=None
        States to start from; None starts at beta = 0.
    offset : float, default=0.0
        Multiplier of an unpenalised intercept to start from; other problems have none.
    rows_in_flight : int or None, default=None
        Most rows that step at once; None chooses by what the rows have in common.

    Raises
    ------
    NonFiniteError
        If the matrix holds NaN or infinity.
    ValueError
        If indices or offsets lead outside the matrix.
    MemoryError
        If the device's memory is full.
    RuntimeError
        If a kernel cannot be compiled or launched.
    """

    free_visits = 0
    several_epochs = None
    """None: the launches of an epoch cost more than its visits of a few rows."""

    relaxation = 0.65
    """Factor on the curvature of a step, as in `CpuEngine`."""

    def __init__(
        self,
        problem: Problem,
        dataset: Dataset,
        device: Device,
        *,
        deterministic: bool = True,
        seed: int = 0,
        duals: np.ndarray | None = None,
        offset: float = 0.0,
        rows_in_flight: int | None = None,
    ) -> None:
        self.problem = problem
        self.device = device
        self.is_deterministic = deterministic
        self.offset = offset if problem.intercept is Intercept.FREE else 0.0
        self.has_warm_start = duals is not None
        self.n_stored = dataset.matrix.n_stored
        self._dataset = dataset
        self._seed = seed
        self._asked_rows = rows_in_flight
        with device.use():
            self._matrix = device_matrix(device, dataset.matrix)
            self._allocate(duals)
        self.agree(SerialCommunicator())

    def _allocate(self, duals: np.ndarray | None) -> None:
        """Copy what belongs to the rows, and make what the engine owns."""
        device, dataset = self.device, self._dataset
        weights = dataset.row_weights
        self._row_weights = None if weights is None else device.to_device(weights)
        self._labels = device.to_device(dataset.labels)
        offsets = dataset.offsets
        self._offsets = None if offsets is None else device.to_device(offsets)
        self._row_sums = RowSums(
            device,
            self.problem.loss.core_name,
            self._labels,
            self._row_weights,
            dataset.weight,
            self._offsets,
        )
        self._duals = self._row_sums.start_states() if duals is None else device.to_device(duals)
        self._kept: Any = None
        self._terms_and_mass: tuple[float, float] | None = None
        self._loss_of_all: tuple[float, float] | None = None  # of several shards, and their weight
        self._margins: Any = None
        self._fixed = FixedVector(device)
        self._float = FloatVector(device, self._matrix.dtype)
        self._vector: SharedVector = self._fixed if self.is_deterministic else self._float
        self._mirror = MirroredVector(device, self._vector, self._matrix.dtype)
        self._load(np.zeros(self._matrix.shape[1] + 1))

    def agree(self, communicator: Communicator) -> None:
        """Choose the columns' centre, the intercept's column and the concurrency.

        Parameters
        ----------
        communicator : Communicator
            Adds up over the shards.
        """
        with self.device.use():
            self._mean = self._agreed_mean(communicator)
            mean = None if self._mean is None else self.device.to_device(self._mean)
            self._matrix = self._matrix.centred(mean)
            facts = self._checked_facts()
            weighted, total = facts.weighted_norm_sq_sum, facts.weight_sum
            n_rows = float(self._matrix.shape[0])
            loss, _, _ = self._row_sums.loss(self._offsets, 0.0)
            sums = communicator.allreduce_sum(np.array([weighted, total, n_rows, loss]))
            check_range(float(sums[0]), self._matrix.dtype)
            mean_norm_sq = float(sums[0]) / max(float(sums[1]), _TINY)
            self.mean_stiffness = float(sums[0]) / max(1.0, float(sums[2]))
            self.tau = intercept_column(self.problem, mean_norm_sq, float(sums[1]))
            self._longest = math.sqrt(float(facts.norms_sq.max()) if n_rows > 0 else 0.0)
            self._products = ExactProducts(self.device, self._matrix)
            self._descent = CoordinateDescent(
                self.device,
                self._matrix,
                self.problem.loss.core_name,
                self._labels,
                facts.norms_sq,
                self._row_weights,
                self._dataset.weight,
                self._offsets,
            )
            self._concurrency = self._first_concurrency()
            if communicator.size > 1:
                self._loss_of_all = float(sums[3]), float(sums[1])
                self._load(self._mirror.host.astype(np.float64))

    @property
    def description(self) -> str:
        """Device, rows in flight, and how they share the vector."""
        mode = "in rounds" if self.is_deterministic else "at once"
        return f"{self.device.description}, {self._concurrency.rows} rows {mode}"

    @property
    def duals(self) -> np.ndarray:
        """A copy of the states."""
        return self.device.to_host(self._duals)

    @duals.setter
    def duals(self, values: np.ndarray) -> None:
        self._duals = self.device.to_device(values.astype(self._matrix.dtype))
        self._terms_and_mass = None

    @property
    def shared(self) -> np.ndarray:
        """The shared vector on the host; what is written into it reaches the device.

        Until the next epoch: then it is another array.
        """
        with self.device.use():
            return self._mirror.host

    @shared.setter
    def shared(self, values: np.ndarray) -> None:
        self.shared[:] = values

    def dual_epoch(self, epoch: int, outer_sigma: float = 1.0) -> float:
        """Visit every row once, in an order fixed by the seed and `epoch`.

        An epoch that lowers the dual objective is undone and repeated with shorter steps.

        Parameters
        ----------
        epoch : int
            Number of the epoch.
        outer_sigma : float, default=1.0
            Safety factor among shards; the shared vector moves by that times the change of
            X^T beta.

        Returns
        -------
        float
            Sum of the rows' gaps as each was visited: an estimate of the duality gap.
        """
        with self.device.use():
            if self._mirror.is_written:
                self._load(self._mirror.host.astype(np.float64))
            order = self._descent.order(self._seed, epoch, _BLOCK_ROWS)
            before = self._level(outer_sigma)
            kept = self._duals.copy(), self._vector.entries.copy(), self._terms_and_mass
            while True:
                sums = self._sweep(order, outer_sigma)
                self._terms_and_mass = None
                after = self._level(outer_sigma)
                # In this order, a level that is not a number has fallen.
                has_fallen = not after.objective >= before.objective - after.rounding
                if not has_fallen or self._concurrency.is_safest:
                    break
                self._concurrency.tighten()
                self._duals[:], self._vector.entries[:], self._terms_and_mass = kept
            self._learn(before, after, sums, outer_sigma)
            self._mirror.device_has_changed()
        return sums.gap

    def keep_states(self) -> None:
        """Remember the states: the line to what they become begins there."""
        with self.device.use():
            self._kept = self._duals.copy()

    def line_slope(self, step: float) -> float:
        """Return how the dual's loss terms, less the multiplier's, rise along the line.

        Parameters
        ----------
        step : float
            Where on the line from the kept states, at 0, to the present ones, at 1.

        Returns
        -------
        float
            The derivative in `step` of ``sum_i (-c_i l*(-beta_i / c_i) - offset beta_i)``.
        """
        with self.device.use():
            return self._row_sums.line_slope(self._kept_states(), self._duals, step, self.offset)

    def go_to(self, step: float) -> None:
        """Move the states along the line from the kept ones; the shared vector stays.

        Parameters
        ----------
        step : float
            As of `line_slope`.
        """
        with self.device.use():
            self._row_sums.go_to(self._kept_states(), self._duals, step)
            self._terms_and_mass = None

    def dual_mass(self) -> tuple[float, float]:
        """Return the sums of the positive and of the negative dual variables.

        Returns
        -------
        positive, negative : float
            Their sum is zero at a feasible point of a problem with an unpenalised intercept.
        """
        with self.device.use():
            _, positive, negative = self._row_sums.dual(self._duals)
        return positive, negative

    def exact_sweep(self, positive_scale: float, negative_scale: float) -> tuple[float, np.ndarray]:
        """Read the matrix in float64; keep the margins.

        Parameters
        ----------
        positive_scale, negative_scale : float
            Factors in [0, 1] for the positive and negative dual variables.

        Returns
        -------
        dual_terms : float
            ``-sum_i (c_i l*(-beta'_i / c_i) + o_i beta'_i)`` of the scaled variables.
        adjoint : ndarray of shape (n_features + 1,), float64
            X^T beta', followed by sum(beta').
        """
        n_rows = self._matrix.shape[0]
        with self.device.use():
            xp = self.device.xp
            if self._margins is None:
                self._margins = xp.empty(n_rows, np.float64)
            beta = xp.empty(n_rows, np.float64)
            scales = positive_scale, negative_scale
            terms, positive, negative = self._row_sums.dual(self._duals, *scales, beta)
            mass = positive * positive_scale + negative * negative_scale
            model = self.device.to_device(self.shared)
            bias = self.tau * float(self.shared[-1])
            reach = (positive - negative) * self._longest
            product = self._products.sweep(model, bias, self._margins, beta, reach)
            if self._offsets is not None:
                self._margins += self._offsets
        return terms, np.append(product, mass)

    def set_shared(self, adjoint: np.ndarray) -> None:
        """Set the shared vector from exact sums.

        Parameters
        ----------
        adjoint : ndarray of shape (n_features + 1,), float64
            X^T beta, followed by sum(beta).
        """
        mass = adjoint[-1]
        product = adjoint[:-1] if self._mean is None else adjoint[:-1] - self._mean * mass
        with self.device.use():
            self._load(np.append(product, self.tau * mass))

    def lengthen(self, factor: float) -> None:
        """Multiply the shared vector.

        Parameters
        ----------
        factor : float
            As near to 1 as the number type allows, or not.
        """
        with self.device.use():
            self._load(np.asarray(self.shared, dtype=np.float64) * factor)

    def loss_value(self, shift: float) -> float:
        """Return the loss on the margins of the last exact sweep.

        Parameters
        ----------
        shift : float
            Added to every margin.

        Returns
        -------
        float
            ``sum_i c_i l(z_i + shift, y_i)``.
        """
        with self.device.use():
            return self._row_sums.loss(self._kept_margins(), shift)[0]

    def loss_slope(self, shift: float) -> tuple[float, float]:
        """Return the first two derivatives of `loss_value` in the shift.

        Parameters
        ----------
        shift : float
            Added to every margin.

        Returns
        -------
        slope, curvature : float
            Derivatives; at a kink the slope is the left one.
        """
        with self.device.use():
            _, slope, curvature = self._row_sums.loss(self._kept_margins(), shift)
        return slope, curvature

    def penalty_value(self, vector: np.ndarray) -> float:
        """Return R(vector), summed in float64."""
        with self.device.use():
            return self._row_sums.penalty(self.device.to_device(vector.astype(np.float64)))[0]

    def penalty_conjugate(self, vector: np.ndarray) -> float:
        """Return R*(vector), summed in float64."""
        with self.device.use():
            return self._row_sums.penalty(self.device.to_device(vector.astype(np.float64)))[1]

    def _agreed_mean(self, communicator: Communicator) -> np.ndarray | None:
        """Return the weighted means of the columns of all shards, where they are subtracted."""
        is_dense = self._matrix.is_dense
        if self.problem.intercept is not Intercept.FREE or not is_dense:
            return None
        n_rows = self._matrix.shape[0]
        weights = self._row_weights
        wide = self.device.xp.full(n_rows, self._dataset.weight) if weights is None else weights
        wide = wide.astype(np.float64)
        sums = ExactProducts(self.device, self._matrix).column_sums(wide)
        both = communicator.allreduce_sum(np.append(sums, self._dataset.total_weight))
        mean: np.ndarray = (both[:-1] / max(both[-1], _TINY)).astype(self._matrix.dtype)
        return mean

    def _checked_facts(self) -> RowFacts:
        facts = inspect_rows(self.device, self._matrix, self._row_weights, self._dataset.weight)
        if not facts.is_finite:
            raise NonFiniteError("expected finite entries, got NaN or infinity")
        check_range(facts.norm_sq_sum, self._matrix.dtype)
        return facts

    def _first_concurrency(self) -> Concurrency:
        n_rows = self._matrix.shape[0]
        if n_rows < 2:
            return Concurrency(1, 1.0)
        sampled = np.random.default_rng(self._seed).integers(n_rows, size=min(n_rows, SAMPLED_ROWS))
        where = self.device.to_device(np.unique(sampled))
        rows = host_copy(self.device, take_rows(self.device, self._matrix.rows, where))
        if self._mean is not None:
            rows = rows - self._mean
        coupling = measure_coupling(rows, self.tau, self._seed)
        bound = self.problem.loss.curvature_bound
        stiffness = self.mean_stiffness * (bound if math.isfinite(bound) else 1.0)
        count = self._asked_rows
        if count is None:
            least, most = self.device.n_multiprocessors, self._capacity()
            count = rows_in_flight(coupling, stiffness, n_rows, least, most)
        return Concurrency(count, coupling)

    def _capacity(self) -> int:
        return self._descent.capacity(at_once=not self.is_deterministic)

    def _sweep(self, order: Any, outer_sigma: float) -> EpochSums:
        stiffness = self.relaxation * self._concurrency.sigma * outer_sigma
        step = Step(self.tau, self.offset, stiffness, outer_sigma)
        rows = self._concurrency.rows
        if self.is_deterministic:
            return self._descent.in_rounds(order, rows, step, self._duals, self._fixed)
        return self._descent.at_once(order, rows, step, self._duals, self._float)

    def _level(self, outer_sigma: float) -> _Level:
        """Return the shard's part of the dual objective, as the steps since the start see it.

        For one shard that is D(beta), with the multiplier's two terms; among several, the local
        problem (8) of docs/algorithms.md, up to a constant.
        """
        if self._terms_and_mass is None:
            terms, positive, negative = self._row_sums.dual(self._duals)
            self._terms_and_mass = terms, positive + negative
        terms, mass = self._terms_and_mass
        pull = self.offset * mass
        conjugate = self._row_sums.penalty(self._vector.wide())[1]
        size = abs(terms) + abs(pull) + conjugate / outer_sigma
        eps = float(np.finfo(self._matrix.dtype).eps)
        objective = terms - pull - conjugate / outer_sigma
        return _Level(objective, _ROUNDINGS * eps * size, 2.0 * conjugate)

    def _learn(self, before: _Level, after: _Level, sums: EpochSums, outer_sigma: float) -> None:
        """Measure which factor the epoch needed, where that is more than rounding."""
        single = outer_sigma**2 * sums.single
        joint = after.norm_sq - before.norm_sq - 2.0 * outer_sigma * sums.slope
        eps = float(np.finfo(self._matrix.dtype).eps)
        if single > 1e3 * eps * (before.norm_sq + after.norm_sq):
            self._concurrency.learn(joint / single)

    def _load(self, values: np.ndarray) -> None:
        """Set the device's shared vector; the states' feasibility bounds what it may become."""
        # D never falls, so ||v||^2 / 2 stays below the loss at w = 0.
        self._vector.load(values, math.sqrt(2.0 * self._loss_at_zero()))
        self._mirror.device_has_changed()

    def _loss_at_zero(self) -> float:
        """Return the loss at w = 0 and the present offset; of several shards, a bound.

        The bound is the same on all of them, so that all round the shared vector alike.
        """
        if self._loss_of_all is None:
            return self._row_sums.loss(None, self.offset)[0]
        loss, weight = self._loss_of_all
        size = abs(self.offset)
        return 2.0 * loss + weight * (size + size * size)

    def _kept_states(self) -> Any:
        if self._kept is None:
            raise RuntimeError("expected kept states before a line from them, got none")
        return self._kept

    def _kept_margins(self) -> Any:
        if self._margins is None:
            raise RuntimeError("expected an exact sweep before sums over its margins, got none")
        return self._margins


@dataclass(frozen=True)
class _Level:
    """The dual objective at one moment, what rounding leaves open, and ||shared||^2."""

    objective: float
    rounding: float
    norm_sq: float
