"""The GPU's engine of the primal methods: rows and margins stay on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snapml.data import Dataset
from snapml.kernels import DenseRows, Device, fused_pass
from snapml.kernels.losses import MarginLosses
from snapml.kernels.rows import margins, row_norms_sq
from snapml.kernels.transposed import transposed_products
from snapml.problems import Problem
from snapml.solvers.cpu_formulas import loss_quantity
from snapml.solvers.device_dataset import BLOCK_ENTRIES, DeviceDataset
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.row_sample import sampled_rows

__all__ = ["GpuPrimalEngine"]


class GpuPrimalEngine:
    """A shard of rows on a device with the margins of two points (protocol `PrimalEngine`).

    What crosses the border are coefficients and gradients (outputs x columns), a few scalars, and
    the few rows that a certificate looks at. Calls belong inside ``with device.use():``.

    Parameters
    ----------
    problem : Problem
        Loss, intercept and penalty.
    dataset : Dataset or DeviceDataset
        Rows, labels and row weights; those of the host are copied to the device.
    device : Device
        Where to work.
    n_threads : int, default=1
        Threads of the host for what remains there.
    deterministic : bool, default=True
        Whether equal passes give equal bits. Compressed rows are then stored by columns too;
        otherwise their gradient is added up by atomics, in whatever order they come.
    seed : int, default=0
        Seed of the samples.
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

    def __init__(
        self,
        problem: Problem,
        dataset: Dataset | DeviceDataset,
        device: Device,
        *,
        n_threads: int = 1,
        deterministic: bool = True,
        seed: int = 0,
        wide: np.dtype | None = None,
    ) -> None:
        self.problem = problem
        self.device = device
        self.xp: Any = device.xp
        self.n_threads = n_threads
        self.seed = seed
        self.rows_per_row = 1.0
        if isinstance(dataset, Dataset):
            dataset = DeviceDataset.upload(device, problem, dataset)
        self._data = dataset
        self._is_deterministic = deterministic
        self.dtype, self.n_stored = dataset.matrix.dtype, dataset.n_stored
        self._wide = np.dtype(np.float64 if wide is None else wide)
        self.n_rows, self.n_features = dataset.matrix.shape
        self.n_outputs, self.is_single = dataset.targets.n_outputs, dataset.is_single
        self.bias_column = problem.bias_column
        self._total_weight: float | None = None
        self._losses = MarginLosses(device, self._loss_name, dataset.targets, self.n_rows)
        self._margins = self.xp.zeros((self.n_outputs, self.n_rows), np.float64)
        self._trial = self.xp.empty((self.n_outputs, self.n_rows), np.float64)

    @property
    def description(self) -> str:
        """Name of the device."""
        return self.device.description

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are compressed."""
        return self._data.is_sparse

    def fused_pass(
        self, coef: np.ndarray, *, wants_stiffness: bool = False
    ) -> tuple[float, np.ndarray, float]:
        """Read the matrix once: margins, loss and gradient; the margins are kept for `accept`.

        Dense rows too long for a block's shared memory are read twice, and compressed ones by
        rows and by columns where equal passes give equal bits.

        Parameters
        ----------
        coef : ndarray of shape (n_outputs, n_features + 1), float64
            The point.
        wants_stiffness : bool, default=False
            Whether to add up ``c_i ||x_i||^2`` as well, by one more read.

        Returns
        -------
        loss : float
            ``sum_i c_i l(z_i, y_i)``, summed over the outputs.
        gradient : ndarray of shape (n_outputs, n_features + 1), float64
            Of the loss.
        stiffness : float
            ``sum_i c_i ||x_i||^2``, or 0.
        """
        point = self._on_device(coef)
        matrix, targets = self._data.matrix, self._data.targets
        args = (self._loss_name, targets, point, self.bias_column, self._trial)
        if not isinstance(matrix, DenseRows):
            columns = self._data.columns if self._is_deterministic else None
            sums = fused_pass.sparse_pass(self.device, matrix, *args, columns=columns)
        elif fused_pass.DensePassShape.fits(self.device, matrix, self.n_outputs):
            sums = fused_pass.dense_pass(self.device, matrix, *args)
        else:
            sums = self._two_reads(point)
        found = self.to_host(sums)
        gradient = found[:-1].reshape(self.n_outputs, self.n_features + 1)
        return float(found[-1]), gradient, self._stiffness() if wants_stiffness else 0.0

    def accept(self) -> None:
        """Make the margins of the last pass those of the present point."""
        self._margins, self._trial = self._trial, self._margins

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

    def hessian_product(self, direction: np.ndarray) -> np.ndarray:
        """Return the loss's Hessian at the present point times a direction, by two reads.

        Parameters
        ----------
        direction : ndarray of shape (n_outputs, n_features + 1), float64
            In the coefficients.

        Returns
        -------
        ndarray of shape (n_outputs, n_features + 1), float64
            ``sum_i c_i X_i^T l''(z_i) X_i direction``, without the penalty.
        """
        matrix = self._data.matrix
        products = margins(self.device, matrix, self._on_device(direction), self.bias_column)
        self._losses.multiply_by_curvature(self._margins, products)
        return self.to_host(self._transposed(products))

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
        where = self.device.to_device(rows)
        targets = self._data.targets_of(where)
        losses = MarginLosses(self.device, self._loss_name, targets, len(rows))
        return self.to_host(losses.curvatures(self.xp.ascontiguousarray(self._margins[:, where])))

    def gradients(self, rows: np.ndarray) -> np.ndarray:
        """Return l'(z_i) of separate outputs at the present point, for a few rows."""
        z = self.to_host(self._margins[:, self.device.to_device(rows)])
        return loss_quantity(self.problem.loss, "gradient", z, self.labels(rows))

    def labels(self, rows: np.ndarray) -> np.ndarray:
        """Return y_i of a few rows; the last axis is theirs."""
        return self.to_host(self._data.targets.labels[..., self.device.to_device(rows)])

    @property
    def total_weight(self) -> float:
        """Sum of the rows' weights."""
        if self._total_weight is None:
            given = self._data.targets.row_weights
            if given is None:
                self._total_weight = self._data.targets.weight * self.n_rows
            else:
                self._total_weight = float(given.sum(dtype=np.float64))
        return self._total_weight

    def row_weights(self, rows: np.ndarray | None = None) -> Any:
        """Return c_i of a few rows on the host, or of all on the device, float64."""
        if rows is None:
            return self._data.weights()
        given = self._data.targets.row_weights
        if given is None:
            return np.full(len(rows), self._data.targets.weight)
        return self.to_host(given[..., self.device.to_device(rows)]).astype(np.float64)

    def weighted_rows(self, rows: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return the sums of a few rows times factors.

        Parameters
        ----------
        rows : ndarray of shape (n_taken,), int64
            Row numbers.
        factors : ndarray of shape (n_outputs, n_taken), float64
            One factor for each row and output.

        Returns
        -------
        ndarray of shape (n_outputs, n_features), float64
            The sums.
        """
        if self.is_sparse:  # few entries, of columns so many that they are not laid out in full
            taken = self._data.host_rows(rows).astype(np.float64)
            return np.asarray((taken.T @ factors.T).T)
        taken = self._data.dense_rows(self.device.to_device(rows)).astype(np.float64)
        return self.to_host(self.device.to_device(factors) @ taken)

    def dense_rows(self, rows: Any) -> Any:
        """Return the rows of a slice or of an index array of the device as a dense array."""
        return self._data.dense_rows(rows)

    def host_rows(self) -> np.ndarray | csr_matrix:
        """Return a copy of all rows on the host."""
        return self._data.host_rows()

    def to_rows(self, array: np.ndarray) -> Any:
        """Return a copy of an array on the device."""
        return self.device.to_device(array)

    def to_host(self, array: Any) -> np.ndarray:
        """Return a copy of an array on the host."""
        return self.device.to_host(array)

    def weighted_squares(self, weights: Any) -> np.ndarray:
        """Return sum_i weights_ki x_ij^2, shape (n_outputs, n_features), float64."""
        sums = self._data.weighted_squares(weights, is_ordered=self._is_deterministic)
        return self.to_host(sums)

    def sample(self, n_rows: int) -> GpuPrimalEngine:
        """Return an engine on a copy of randomly chosen rows that stand for all.

        Parameters
        ----------
        n_rows : int
            How many.

        Returns
        -------
        GpuPrimalEngine
            On the same device; the rows are those that the CPU would take.
        """
        rows = sampled_rows(self.n_rows, n_rows, self.seed)
        rows_per_row = self.n_rows / max(1, len(rows))
        sampled = GpuPrimalEngine(
            self.problem,
            self._data.take(rows, rows_per_row),
            self.device,
            n_threads=self.n_threads,
            deterministic=self._is_deterministic,
            seed=self.seed,
            wide=self._wide,
        )
        sampled.rows_per_row = rows_per_row
        return sampled

    def check_finite(self) -> None:
        """Raise `NonFiniteError` if the matrix holds NaN or infinity."""
        values = self._data.matrix.values
        if values is not None and not bool(self.xp.isfinite(values).all()):
            raise NonFiniteError("expected finite entries, got NaN or infinity")

    @property
    def _loss_name(self) -> str:
        return self.problem.loss.core_name

    def _on_device(self, coef: np.ndarray) -> Any:
        return self.device.to_device(np.ascontiguousarray(coef, dtype=self._wide))

    def _two_reads(self, point: Any) -> Any:
        """Return what `dense_pass` does, for rows of any length."""
        self._trial = margins(self.device, self._data.matrix, point, self.bias_column)
        slopes, loss = self._losses.slopes(self._trial)
        return self.xp.concatenate((self._transposed(slopes).ravel(), loss))

    def _transposed(self, vectors: Any) -> Any:
        needs_columns = self.is_sparse and self._is_deterministic
        columns = self._data.columns if needs_columns else None
        matrix = self._data.matrix
        return transposed_products(self.device, matrix, vectors, self.bias_column, columns=columns)

    def _stiffness(self) -> float:
        norms_sq = row_norms_sq(self.device, self._data.matrix)
        weights = self._data.weights()
        if weights.ndim == 2:
            return float((weights @ norms_sq).sum())
        return self.n_outputs * float(self.xp.dot(weights, norms_sq))
