"""The GPU engine of working-set descent: rows, margins and gradients stay on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.data import Dataset
from snapml.kernels import Device, Targets
from snapml.kernels.losses.objective import RowSums
from snapml.problems import Intercept, Problem
from snapml.solvers.columns.gpu_column_set import ColumnSet
from snapml.solvers.columns.gpu_packed import DeviceColumns, DevicePacker
from snapml.solvers.columns.gram_set import GramSet
from snapml.solvers.engine import WorkingSet
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.rows.gpu_matrix import device_matrix

__all__ = ["GpuColumns"]

# Beyond as many columns, and products of two entries, descent on the columns themselves is
# cheaper than a Gram matrix of them; a matrix that is not sparse is multiplied at once.
_MOST_GRAM_COLUMNS = 6000
_MOST_SPARSE_GRAM, _MOST_PRODUCTS = 1024, 1e12


class GpuColumns:
    """A shard of rows on a device with the working set packed last (protocol `ColumnEngine`).

    What crosses the border is one number a column, Gram matrices, and a few scalars. Calls belong
    inside ``with device.use():``.

    Parameters
    ----------
    problem : Problem
        Loss, intercept and penalty.
    dataset : Dataset
        Rows, labels and row weights; copied to the device.
    device : Device
        Where to work.
    seed : int, default=0
        Seed of the order in which columns are visited.

    Raises
    ------
    ValueError
        If indices or offsets lead outside the matrix.
    MemoryError
        If the device has no room for all that.
    RuntimeError
        If a kernel cannot be compiled or launched.
    """

    def __init__(
        self,
        problem: Problem,
        dataset: Dataset,
        device: Device,
        *,
        seed: int = 0,
    ) -> None:
        self.problem, self.device, self.seed = problem, device, seed
        self.xp: Any = device.xp
        self.dtype = dataset.matrix.dtype
        self.n_rows, self.n_features = dataset.matrix.shape
        self.total_weight = dataset.total_weight
        is_penalised = problem.intercept is Intercept.PENALISED
        self.tau = problem.intercept_scaling if is_penalised else 0.0
        self.n_cols = self.n_features + int(is_penalised)
        rows = device_matrix(device, dataset.matrix).rows
        labels, weights = device.to_device(dataset.labels), dataset.row_weights
        kept = None if weights is None else device.to_device(weights)
        loss_name = problem.loss.core_name
        self.offsets = None if dataset.offsets is None else device.to_device(dataset.offsets)
        self._row_sums = RowSums(device, loss_name, labels, kept, dataset.weight)
        targets = Targets(labels.reshape(1, -1), kept, dataset.weight, 1)
        self.n_stored = dataset.matrix.n_stored
        self._all = DeviceColumns.make(device, rows, targets, self.tau)
        self._packer = DevicePacker(problem, self._all)
        self._kept: WorkingSet | None = None  # by the last fit, and the next may need it too
        self._moments: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def description(self) -> str:
        """Name of the device."""
        return self.device.description

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are compressed."""
        return self._all.data.is_sparse

    def product(self, coef: np.ndarray) -> Any:
        """Return X coef, the constant column included.

        Parameters
        ----------
        coef : ndarray of shape (n_cols,), float64
            One number per column.

        Returns
        -------
        array of shape (n_rows,), float64
            The margins without a free intercept, on the device.
        """
        return self._all.product(coef)

    def adjoint(self, vector: Any) -> np.ndarray:
        """Return X^T vector, the constant column included.

        Parameters
        ----------
        vector : array of shape (n_rows,), float64
            One number per row, on the device.

        Returns
        -------
        ndarray of shape (n_cols,), float64
            One sum per column.

        Raises
        ------
        NonFiniteError
            If the matrix holds NaN or infinity.
        """
        sums = self._all.adjoint(vector)
        if not np.isfinite(sums).all():
            values = self._all.rows.values
            if values is not None and not bool(self.xp.isfinite(values).all()):
                raise NonFiniteError("expected finite entries, got NaN or infinity")
        return sums

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return sum_i c_i x_ij and sum_i c_i x_ij^2 of every column; read once, then kept.

        Returns
        -------
        sums, squares : ndarray of shape (n_cols,), float64
            Weighted by the row weights.
        """
        if self._moments is None:
            weights = self._all.data.weights()
            self._moments = self._all.adjoint(weights), self._all.squares(weights)
        return self._moments

    def row(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns that row i holds, and its entries in float64, on the host.

        Parameters
        ----------
        i : int
            Number of the row.

        Returns
        -------
        columns, entries : ndarray
            Without the constant column.
        """
        row = self._all.data.host_rows(np.array([i]))
        if isinstance(row, np.ndarray):
            return np.arange(self.n_features), row[0].astype(np.float64)
        return row.indices, row.data.astype(np.float64)

    def loss_sums(
        self, margins: Any, shift: float, gradients: Any = None, curvatures: Any = None
    ) -> np.ndarray:
        """Return the loss and its first two derivatives in the shift.

        Parameters
        ----------
        margins : array of shape (n_rows,), float64
            The margins, on the device.
        shift : float
            Added to all of them.
        gradients, curvatures : array of shape (n_rows,), float64, or None
            Filled with c_i l' and c_i l''.

        Returns
        -------
        ndarray of shape (3,), float64
            Sums over the rows of this shard.
        """
        return np.array(self._row_sums.loss(margins, shift, gradients, curvatures))

    def dual_terms(self, gradients: Any, scale: float) -> float:
        """Return the dual's loss terms at beta_i = -scale * gradients_i.

        Parameters
        ----------
        gradients : array of shape (n_rows,), float64
            c_i l'(z_i), on the device.
        scale : float
            At most 1.

        Returns
        -------
        float
            ``-sum_i c_i l*(-beta_i / c_i)``.
        """
        return self._row_sums.gradient_terms(gradients, scale)

    def working_set(self, columns: np.ndarray) -> WorkingSet:
        """Return a set that holds `columns`, and what was packed before where that saves work.

        Parameters
        ----------
        columns : ndarray
            Sorted numbers of columns.

        Returns
        -------
        WorkingSet
            Its ``columns`` say which ones, in which order.
        """
        if self._fits_gram(len(columns)):
            self._kept = GramSet.holding(self._packer, columns, self._kept)
        elif not (isinstance(self._kept, ColumnSet) and self._kept.serves(columns)):
            self._kept = None  # before the next one needs its memory
            self._kept = ColumnSet(self.problem, self._all, columns, self.seed)
        return self._kept

    def _fits_gram(self, n_columns: int) -> bool:
        if not self.is_sparse:
            return n_columns <= _MOST_GRAM_COLUMNS
        n_products = float(n_columns) ** 2 * self.n_rows
        return n_columns <= _MOST_SPARSE_GRAM and n_products <= _MOST_PRODUCTS
