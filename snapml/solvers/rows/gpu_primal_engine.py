"""The GPU's engine of the primal methods: margins stay on the device, and rows if they fit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snapml._lazy import cached_property
from snapml.data import Dataset
from snapml.kernels import DenseRows, Device
from snapml.kernels.losses import fused_pass
from snapml.kernels.losses.losses import MarginLosses
from snapml.kernels.matrices import scaling
from snapml.kernels.products.rows import margins, row_norms_sq
from snapml.kernels.products.transposed import transposed_products
from snapml.problems import Problem
from snapml.solvers.communicator import Communicator, SerialCommunicator
from snapml.solvers.cpu_formulas import loss_quantity
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.rows.device_dataset import (
    BLOCK_ENTRIES,
    DeviceDataset,
    DeviceTargets,
    Visit,
)
from snapml.solvers.rows.looked_at_rows import KeptRows, LookedAtRows
from snapml.solvers.rows.row_sample import RowTargets, choose_rows
from snapml.solvers.rows.streamed_dataset import StreamedDataset

__all__ = ["GpuPrimalEngine"]

# Entries of the dense rows of one question of a certificate, up to which the host keeps copies and
# adds up: 0.1 ms, which a device takes to be asked.
_MOST_KEPT_ENTRIES = 2**16
# Coefficients of so many numbers or more live on the device. NumPy adds so many up in 6 us, and a
# launch takes 9 on an H200 (benchmarks/results/gpu_check_h200.csv), whatever the number.
_LEAST_DEVICE_VECTOR = 32_768


class GpuPrimalEngine:
    """A shard of rows on a device with the margins of two points (protocol `PrimalEngine`).

    What crosses the border are a few scalars, the few rows that a certificate looks at, and, where
    `vectors` is NumPy, coefficients and gradients: few numbers. Calls belong inside
    ``with device.use():``.

    Parameters
    ----------
    problem : Problem
        Loss, intercept and penalty.
    dataset : Dataset, DeviceDataset or StreamedDataset
        Rows, labels and row weights; those of a `Dataset` are copied to the device.
    device : Device
        Where to work.
    n_threads : int, default=1
        Threads of the host for what remains there.
    seed : int, default=0
        Seed of the samples.
    targets : DeviceTargets or None, default=None
        Labels, weights and offsets in the place of the dataset's own.
    wide : numpy dtype or None, default=None
        Type of the coefficients, and of products added up within a row; None means float64, so
        that the certificate says of the data what it says on the CPU. What is added over rows is
        float64 in any case.

    Raises
    ------
    ValueError
        If indices or offsets lead outside the matrix, or class numbers outside the classes.
    RuntimeError
        If a kernel cannot be compiled or launched.
    """

    block_entries = BLOCK_ENTRIES
    is_streamed = False  # `ScaledRows` takes no copy from a device

    def __init__(
        self,
        problem: Problem,
        dataset: Dataset | DeviceDataset | StreamedDataset,
        device: Device,
        *,
        n_threads: int = 1,
        seed: int = 0,
        targets: DeviceTargets | None = None,
        wide: np.dtype | None = None,
    ) -> None:
        self.problem = problem
        self.device: Any = device
        self.xp: Any = device.xp
        self.n_threads = n_threads
        self.seed = seed
        self.rows_per_row = 1.0
        if isinstance(dataset, Dataset):
            dataset = DeviceDataset.upload(device, problem, dataset)
        self._data = dataset
        self._own: DeviceTargets = dataset if targets is None else targets
        self.dtype, self.n_stored = dataset.dtype, dataset.n_stored
        self._wide = np.dtype(np.float64 if wide is None else wide)
        self.n_rows, self.n_features = dataset.shape
        self.n_outputs, self.is_single = self._own.targets.n_outputs, dataset.is_single
        self.bias_column = problem.bias_column
        is_long = self.n_outputs * (self.n_features + 1) >= _LEAST_DEVICE_VECTOR
        self.vectors: Any = self.xp if is_long else np
        self._total_weight: float | None = None
        self._losses = MarginLosses(device, self._loss_name, self._own.targets, self.n_rows)
        self._is_few_stale = True

    @property
    def description(self) -> str:
        """Name of the device, and how many of the rows' chunks are sent there each pass."""
        return f"{self.device.description}{self._data.description}"

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are compressed."""
        return self._data.is_sparse

    def fused_pass(self, coef: Any, *, wants_stiffness: bool = False) -> tuple[float, Any, float]:
        """Margins, loss and gradient, by one read of dense rows; the margins are kept for `accept`.

        Compressed rows, and dense ones too long for a block's shared memory, are read twice. Equal
        passes give equal bits.

        Parameters
        ----------
        coef : array of shape (n_outputs, n_features + 1), float64
            The point; one of `vectors`.
        wants_stiffness : bool, default=False
            Whether to add up ``c_i ||x_i||^2`` as well, by one more read.

        Returns
        -------
        loss : float
            ``sum_i c_i l(z_i, y_i)``, summed over the outputs.
        gradient : array of shape (n_outputs, n_features + 1), float64
            Of the loss; one of `vectors`.
        stiffness : float
            ``sum_i c_i ||x_i||^2``, or 0.
        """
        visit = functools.partial(self._pass_over, self._on_device(coef), wants_stiffness)
        found = self.to_vectors(self._summed(visit))
        size = self.n_outputs * (self.n_features + 1)
        gradient = found[:size].reshape(self.n_outputs, self.n_features + 1)
        return float(found[size]), gradient, float(found[size + 1]) if wants_stiffness else 0.0

    @property
    def margins(self) -> Any:
        """Margins of the present point, shape (n_outputs, n_rows), float64, on the device."""
        return self._margins

    def losses_at(self, margins: Any) -> tuple[float, Any]:
        """Return the loss at margins, and c_i l' in their shape, on the device."""
        slopes, loss = self._losses.slopes(margins)
        return float(self.to_host(loss)[0]), slopes

    def restated(self, problem: Problem, factor: float, offsets: Any) -> GpuPrimalEngine:
        """Return an engine of another problem on the same rows: `PrimalEngine.restated`."""
        engine = GpuPrimalEngine(
            problem,
            self._data,
            self.device,
            n_threads=self.n_threads,
            seed=self.seed,
            targets=self._own.restated(factor, offsets),
            wide=self._wide,
        )
        engine.vectors = self.vectors
        return engine

    def accept(self) -> None:
        """Make the margins of the last pass those of the present point."""
        self._margins, self._trial = self._trial, self._margins
        self._is_few_stale = True

    def line_point(self, step: float) -> tuple[float, float]:
        """Return loss and slope between the present point and the last pass's.

        Parameters
        ----------
        step : float
            0 is the present point, 1 the other.

        Returns
        -------
        loss, slope : float
            The loss, and its derivative in the step.
        """
        value, slope = self.to_host(self._losses.line_point(self._margins, self._trial, step))
        return float(value), float(slope)

    def leave_flat_rows(self, share: float) -> None:
        """Do nothing: it would take a copy of rows on the device."""

    def hessian_product(self, direction: Any) -> Any:
        """Return the loss's Hessian at the present point times a direction, by two reads.

        Parameters
        ----------
        direction : array of shape (n_outputs, n_features + 1), float64
            In the coefficients; one of `vectors`.

        Returns
        -------
        array of shape (n_outputs, n_features + 1), float64
            ``sum_i c_i X_i^T l''(z_i) X_i direction``, without the penalty.
        """
        visit = functools.partial(self._hessian_product, self._on_device(direction))
        return self.to_vectors(self._summed(visit))

    def curvatures(self, rows: np.ndarray | None = None) -> Any:
        """Return c_i l''(z_i) at the present point, or the probabilities of the softmax.

        Parameters
        ----------
        rows : ndarray of shape (n_taken,), int64, or None, default=None
            Rows to look at; None means all.

        Returns
        -------
        array of shape (n_outputs, n_rows or n_taken), float64
            Curvatures of separate outputs; probabilities (without c_i) of the softmax. Those of
            all rows stay on the device.
        """
        if rows is None:
            return self._losses.curvatures(self._margins)
        places = self._few.places(rows)
        if places is not None:
            return self._few_at_point.curvatures(places)
        where = self.device.to_device(rows)
        targets = self._own.targets_of(where)
        losses = MarginLosses(self.device, self._loss_name, targets, len(rows))
        return self.to_host(losses.curvatures(self.xp.ascontiguousarray(self._margins[:, where])))

    def gradients(self, rows: np.ndarray) -> np.ndarray:
        """Return l'(z_i) of separate outputs at the present point, for a few rows."""
        places = self._few.places(rows)
        if places is not None:
            return self._few_at_point.gradients(places)
        z = self.to_host(self._margins[:, self.device.to_device(rows)])
        return loss_quantity(self.problem.loss, "gradient", z, self.labels(rows))

    def labels(self, rows: np.ndarray | None = None) -> Any:
        """Return y_i of a few rows on the host, or of all on the device, along the last axis."""
        if rows is None:
            return self._own.targets.labels
        places = self._few.places(rows)
        if places is not None:
            return self._few.dataset.labels[..., places]
        return self.to_host(self._own.targets.labels[..., self.device.to_device(rows)])

    def offsets(self, rows: np.ndarray | None = None) -> Any:
        """Return o_i of a few rows on the host, or of all on the device. None without any."""
        given = self._own.targets.offsets
        if rows is None:
            return given
        places = self._few.places(rows)
        if places is not None:
            own = self._few.dataset.offsets
            return None if own is None else own[..., places]
        return None if given is None else self.to_host(given[..., self.device.to_device(rows)])

    @property
    def total_weight(self) -> float:
        """Sum of the rows' weights."""
        if self._total_weight is None:
            given = self._own.targets.row_weights
            if given is None:
                self._total_weight = self._own.targets.weight * self.n_rows
            else:
                self._total_weight = float(given.sum(dtype=np.float64))
        return self._total_weight

    def row_weights(self, rows: np.ndarray | None = None) -> Any:
        """Return c_i of a few rows on the host, or of all on the device, float64."""
        if rows is None:
            return self._own.weights()
        given = self._own.targets.row_weights
        places = self._few.places(rows)
        if places is not None and given is not None:
            return np.asarray(self._few.dataset.row_weights)[..., places].astype(np.float64)
        if given is None:
            return np.full(len(rows), self._own.targets.weight)
        return self.to_host(given[..., self.device.to_device(rows)]).astype(np.float64)

    def weighted_rows(self, rows: np.ndarray, factors: np.ndarray) -> Any:
        """Return the sums of a few rows times factors.

        Parameters
        ----------
        rows : ndarray of shape (n_taken,), int64
            Row numbers.
        factors : ndarray of shape (n_outputs, n_taken), float64
            One factor for each row and output.

        Returns
        -------
        array of shape (n_outputs, n_features), float64
            The sums; one of `vectors`.
        """
        taken: Any
        places = self._few.places(rows)
        if not self.is_sparse:
            if places is not None and len(rows) * self.n_features <= _MOST_KEPT_ENTRIES:
                return self.to_vectors(factors @ self._kept.take(places))
            taken = self._data.dense_rows(self.device.to_device(rows)).astype(np.float64)
            return self.to_vectors(self.device.to_device(factors) @ taken)
        if places is not None:
            taken = self._kept.take(places)
        else:
            taken = self._data.host_rows(rows).astype(np.float64)
        # Few entries, so of few of the columns: the host adds these up, in a fixed order.
        columns, own = np.unique(taken.indices, return_inverse=True)
        few = csr_matrix((taken.data, own, taken.indptr), shape=(len(rows), len(columns)))
        sums = self.vectors.zeros((self.n_outputs, self.n_features), np.float64)
        sums[:, self.to_vectors(columns)] = self.to_vectors((few.T @ factors.T).T)
        return sums

    def dense_rows(self, rows: Any) -> Any:
        """Return the rows of a slice or of an index array of the device as a dense array."""
        return self._data.dense_rows(rows)

    def column_sums(self, rows: Any, centre: Any = None) -> Any:
        """Return sums of some rows' entries, as `HostArrays.column_sums`; all is on the device."""
        return scaling.column_sums(self.device, self._data.dense_rows(rows), centre)

    def scale_rows(self, rows: Any, mean: Any, scale: Any, weights: Any, out: Any) -> None:
        """Write scaled rows, as `HostArrays.scale_rows`; all is on the device."""
        columns = (mean, scale, weights, self.bias_column)
        scaling.scale_rows(self.device, self._data.dense_rows(rows), *columns, out)

    def host_rows(self) -> np.ndarray | csr_matrix:
        """Return a copy of all rows on the host."""
        return self._data.host_rows()

    def to_rows(self, array: Any) -> Any:
        """Return an array on the device: itself, or a copy of one of the host."""
        return array if isinstance(array, self.xp.ndarray) else self.device.to_device(array)

    def to_vectors(self, array: Any) -> Any:
        """Return an array as one of `vectors`: itself, or a copy."""
        return self.to_host(array) if self.vectors is np else self.to_rows(array)

    def to_host(self, array: Any) -> np.ndarray:
        """Return an array on the host: itself, or a copy of one of the device."""
        return array if isinstance(array, np.ndarray) else self.device.to_host(array)

    def weighted_squares(self, weights: Any) -> Any:
        """Return sum_i weights_ki x_ij^2, shape (n_outputs, n_features), float64, as `vectors`."""
        return self.to_vectors(self._summed(functools.partial(self._weighted_squares, weights)))

    def column_grams(self, columns: Any, weights: Any) -> Any:
        """Return weighted Gram matrices of some columns and the intercept's, one an output.

        Parameters
        ----------
        columns : array of shape (n_taken,), int64
            Column numbers, on the device.
        weights : array of shape (n_outputs, n_rows), float64
            Not negative, on the device.

        Returns
        -------
        array of shape (n_outputs, n_taken + 1, n_taken + 1), float64
            On the device; the intercept's column is the last.
        """
        return self._summed(functools.partial(self._column_grams, columns, weights))

    def add_grams(
        self, parts: Sequence[Any], rows_of: Callable[[Any, Any], Any], room: Any, gram: Any
    ) -> None:
        """Add rows^T rows of all parts to a matrix; float32 factors are rounded to fewer digits."""
        for part in parts:
            rows = rows_of(part, room)
            with self.device.fast_products():
                gram += rows.T @ rows

    def sample(self, n_rows: int, communicator: Communicator | None = None) -> GpuPrimalEngine:
        """Return an engine on a copy of rows that stand for all; see `choose_rows`.

        Parameters
        ----------
        n_rows : int
            How many, of all shards together.
        communicator : Communicator or None, default=None
            The shards; None where there is no other.

        Returns
        -------
        GpuPrimalEngine
            On the same device; the rows are those that the CPU would take.
        """
        labels, weights = self._own.targets.labels, self._own.targets.row_weights
        targets = RowTargets(self.problem.loss, labels, weights, self.n_outputs, self.device)
        shards = SerialCommunicator() if communicator is None else communicator
        chosen = choose_rows(targets, n_rows, self.seed, shards)
        taken = self._data.take(chosen.rows, chosen.factor)
        if self._own is not self._data:
            where = self.device.to_device(chosen.rows)
            taken = replace(taken, targets=self._own.targets_of(where, chosen.factor))
        sampled = GpuPrimalEngine(
            self.problem,
            taken,
            self.device,
            n_threads=self.n_threads,
            seed=self.seed,
            wide=self._wide,
        )
        sampled.rows_per_row, sampled.vectors = chosen.rows_per_row, self.vectors
        return sampled

    def check_finite(self) -> None:
        """Raise `NonFiniteError` if the matrix holds NaN or infinity."""
        if bool(self._summed(self._n_not_finite).any()):
            raise NonFiniteError("expected finite entries, got NaN or infinity")

    @cached_property
    def _margins(self) -> Any:
        """Of the present point; not before the first pass, for engines whose rows are restated."""
        return self.xp.zeros((self.n_outputs, self.n_rows), np.float64)

    @cached_property
    def _trial(self) -> Any:
        """Margins of the last pass's point."""
        return self.xp.empty((self.n_outputs, self.n_rows), np.float64)

    @cached_property
    def _few(self) -> LookedAtRows:
        """What stays of the rows that certificates look at."""
        rows = LookedAtRows.of_engine(self.n_rows)
        targets = self._own.targets_of(rows)
        # One by one: a generator's frame, in an error's traceback, would keep the arrays alive.
        labels = self.to_host(targets.labels)
        weights = None if targets.row_weights is None else self.to_host(targets.row_weights)
        offsets = None if targets.offsets is None else self.to_host(targets.offsets)
        return LookedAtRows(self.problem, self.n_rows, labels, weights, offsets, targets.weight)

    @cached_property
    def _kept(self) -> KeptRows:
        """Those of these rows themselves that were asked for."""
        return KeptRows(self._data, self._few.numbers)

    @property
    def _few_at_point(self) -> LookedAtRows:
        """These rows with the margins of the present point."""
        if self._is_few_stale:
            margins = self._margins[:, self._few.rows]
            self._few.see(self.to_host(self.xp.ascontiguousarray(margins)))
            self._is_few_stale = False
        return self._few

    @property
    def _loss_name(self) -> str:
        return self.problem.loss.core_name

    def _on_device(self, coef: Any) -> Any:
        """Return coefficients for a kernel to read."""
        return self.xp.ascontiguousarray(self.to_rows(coef).astype(self._wide, copy=False))

    def _summed(self, visit: Visit) -> Any:
        """Return the sum over all parts of the rows, each with this engine's targets."""
        own = visit if self._own is self._data else functools.partial(self._visit_restated, visit)
        return self._data.summed(own)

    def _visit_restated(self, visit: Visit, rows: slice, part: DeviceDataset) -> Any:
        return visit(rows, replace(part, targets=self._own.targets_of(rows)))

    def _pass_over(
        self, point: Any, wants_stiffness: bool, rows: slice, part: DeviceDataset
    ) -> Any:
        """Return gradient, loss and, if wanted, stiffness of a part in one vector."""
        trial = self._trial[:, rows]
        is_whole = trial.flags.c_contiguous
        own = trial if is_whole else self.xp.empty(trial.shape, np.float64)
        matrix, targets = part.matrix, part.targets
        sizes = self.n_features, self.n_outputs, self.dtype.itemsize
        fits = fused_pass.DensePassShape.fits(self.device, *sizes)
        if fits and isinstance(matrix, DenseRows):
            args = (self._loss_name, targets, point, self.bias_column, own)
            sums = fused_pass.dense_pass(self.device, matrix, *args)
        else:
            margins(self.device, matrix, point, self.bias_column, own)
            if targets.offsets is not None:
                own += targets.offsets
            slopes, loss = self._losses_of(part).slopes(own)
            sums = self.xp.concatenate((self._transposed(part, slopes).ravel(), loss))
        if not is_whole:
            self._trial[:, rows] = own
        return self.xp.concatenate((sums, self._stiffness(part))) if wants_stiffness else sums

    def _hessian_product(self, direction: Any, rows: slice, part: DeviceDataset) -> Any:
        products = margins(self.device, part.matrix, direction, self.bias_column)
        own = self.xp.ascontiguousarray(self._margins[:, rows])
        self._losses_of(part).multiply_by_curvature(own, products)
        return self._transposed(part, products)

    def _weighted_squares(self, weights: Any, rows: slice, part: DeviceDataset) -> Any:
        return part.weighted_squares(self.xp.ascontiguousarray(weights[:, rows]))

    def _column_grams(self, columns: Any, weights: Any, rows: slice, part: DeviceDataset) -> Any:
        xp, size, weights = self.xp, len(columns) + 1, weights[:, rows]
        grams = xp.zeros((len(weights), size, size), np.float64)
        step = max(1, self.block_entries // size)
        for first in range(0, part.shape[0], step):
            block = slice(first, first + step)
            roots = xp.sqrt(weights[:, block])
            wide = xp.empty((roots.shape[1], size), np.float64)
            wide[:, :-1] = part.dense_rows(block, columns)
            wide[:, -1] = self.bias_column
            for k in range(len(weights)):
                scaled = wide * roots[k][:, None]
                grams[k] += scaled.T @ scaled
        return grams

    def _n_not_finite(self, rows: slice, part: DeviceDataset) -> Any:
        matrix = part.matrix
        values = matrix.values if isinstance(matrix, DenseRows) else matrix.rows.values
        if values is None:
            return self.xp.zeros(1, np.int64)
        return (~self.xp.isfinite(values)).sum().reshape(1)

    def _losses_of(self, part: DeviceDataset) -> MarginLosses:
        return MarginLosses(self.device, self._loss_name, part.targets, part.shape[0])

    def _transposed(self, part: DeviceDataset, vectors: Any) -> Any:
        return transposed_products(self.device, part.matrix, vectors, self.bias_column)

    def _stiffness(self, part: DeviceDataset) -> Any:
        """Return sum_i c_i ||x_i||^2 as an array of one element."""
        matrix, weights = part.matrix, part.weights()
        if not isinstance(matrix, DenseRows):
            squares = part.weighted_squares(weights if weights.ndim == 2 else weights[None, :])
            return (squares.sum() * (self.n_outputs / len(squares))).reshape(1)
        norms_sq = row_norms_sq(self.device, matrix)
        if weights.ndim == 2:
            return (weights @ norms_sq).sum().reshape(1)
        return (self.n_outputs * self.xp.dot(weights, norms_sq)).reshape(1)
