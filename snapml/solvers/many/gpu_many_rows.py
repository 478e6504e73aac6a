"""Products of rows in a GPU's memory with the vectors of many models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from snapml.data import CompressedMatrix, DenseMatrix
from snapml.kernels import CompressedRows, DenseRows, Device, ResidentMatrix
from snapml.kernels.losses.many_losses import ManyMarginLosses
from snapml.kernels.matrices.row_selection import transposed
from snapml.kernels.matrices.scaling import column_sums
from snapml.kernels.products.many_rows import PANEL, ManyRows
from snapml.kernels.products.rows import row_norms_sq
from snapml.problems import Loss
from snapml.solvers.many.many_arrays import DeviceArrays, ManyArrays, ManyLosses, ManyProducts
from snapml.solvers.rows.gpu_matrix import upload_rows

__all__ = ["GpuCompressedProducts", "GpuDenseProducts", "device_products", "most_models"]

_Rows = DenseMatrix | CompressedMatrix | ResidentMatrix

# Dense entries that are multiplied with weights, or squared, at a time.
_BLOCK_ENTRIES = 2**24
# Arrays of numbers of rows that are there at once: margins, slopes, curvatures, a part of these,
# moves, and what products leave. And of vectors: models, gradients, those of conjugate gradients.
_ARRAYS_OF_ROWS, _ARRAYS_OF_VECTORS = 6, 14


class _GpuProducts(ABC):
    """What products on a device have in common (part of the protocol `ManyProducts`).

    Vectors and numbers of rows are on the device too.
    """

    n_threads, fewest = 1, PANEL

    def __init__(self, device: Device, rows: DenseRows | CompressedRows) -> None:
        self._device, self._xp = device, device.xp
        self.shape, self.dtype = rows.shape, np.dtype(rows.dtype)
        self.arrays: ManyArrays = DeviceArrays(device)

    def losses(
        self,
        loss: Loss,
        labels: Any,
        weights: Any,
        label_columns: np.ndarray,
        weight_columns: np.ndarray,
        factors: np.ndarray,
    ) -> ManyLosses:
        """Return the losses of models; `ManyProducts.losses` has the parameters."""
        columns = label_columns, weight_columns
        name = loss.core_name
        return ManyMarginLosses(self._device, name, labels, weights, *columns, factors)

    @abstractmethod
    def margins(self, vectors: Any) -> Any:
        """Return X vectors, shape (n_rows, n_models)."""

    @abstractmethod
    def adjoint(self, scales: Any, *, squares_entries: bool = False) -> Any:
        """Return X^T scales, or (X * X)^T scales; shape (n_features + 1, n_models)."""

    def hessian(self, curvatures: Any, vectors: Any, n_outputs: int = 1) -> Any:
        """Return X^T (curvatures * (X vectors)), shape (n_features + 1, n_models)."""
        if n_outputs > 1:
            raise ValueError(f"n_outputs: expected 1 on a device, got {n_outputs}")
        moved = self.margins(vectors)
        moved *= curvatures
        return self.adjoint(moved)


class GpuCompressedProducts(_GpuProducts):
    """Products with compressed rows and a copy of them by columns (protocol `ManyProducts`).

    Parameters
    ----------
    device : Device
        Where the rows are.
    rows : CompressedRows
        With legal indices.
    """

    is_dense = False

    def __init__(self, device: Device, rows: CompressedRows) -> None:
        super().__init__(device, rows)
        self._rows = ManyRows(device, rows)
        self._columns = ManyRows(device, transposed(device, rows))

    def margins(self, vectors: Any) -> Any:
        """Return X vectors, shape (n_rows, n_models)."""
        found = self._rows.product(vectors[:-1])
        found += vectors[-1]
        return found

    def adjoint(self, scales: Any, *, squares_entries: bool = False) -> Any:
        """Return X^T scales, or (X * X)^T scales; shape (n_features + 1, n_models)."""
        out = self._xp.empty((self.shape[1] + 1, scales.shape[1]), self.dtype)
        out[:-1] = self._columns.product(scales, is_squared=squares_entries)
        out[-1] = column_sums(self._device, scales).astype(self.dtype)
        return out

    def row_squares(self) -> Any:
        """Dense rows alone have them."""
        raise TypeError("expected dense rows, got compressed ones")

    def gram(self, weights: Any) -> np.ndarray:
        """Dense rows alone have one."""
        raise TypeError("expected dense rows, got compressed ones")


class GpuDenseProducts(_GpuProducts):
    """Products with dense rows, by the device's BLAS (protocol `ManyProducts`).

    Parameters
    ----------
    device : Device
        Where the rows are.
    rows : DenseRows
        The rows.
    """

    is_dense = True

    def __init__(self, device: Device, rows: DenseRows) -> None:
        super().__init__(device, rows)
        self._rows = rows

    def margins(self, vectors: Any) -> Any:
        """Return X vectors, shape (n_rows, n_models)."""
        found = self._rows.values @ vectors[:-1]
        found += vectors[-1]
        return found

    def adjoint(self, scales: Any, *, squares_entries: bool = False) -> Any:
        """Return X^T scales, or (X * X)^T scales; shape (n_features + 1, n_models)."""
        out = self._xp.zeros((self.shape[1] + 1, scales.shape[1]), self.dtype)
        out[-1] = column_sums(self._device, scales).astype(self.dtype)
        if not squares_entries:
            out[:-1] = self._rows.values.T @ scales
            return out
        for rows in self._blocks():
            block = self._rows.values[rows]
            out[:-1] += (block * block).T @ scales[rows]
        return out

    def row_squares(self) -> Any:
        """Return the squared lengths of the rows, shape (n_rows,)."""
        return row_norms_sq(self._device, self._rows).astype(self.dtype)

    def gram(self, weights: Any) -> np.ndarray:
        """Return X^T diag(weights) X, the constant column last, on the host."""
        xp, size = self._xp, self.shape[1] + 1
        out = xp.zeros((size, size), self.dtype)
        roots = xp.sqrt(weights)
        for rows in self._blocks():
            own = roots[rows]
            block = self._rows.values[rows] * own[:, None]
            out[:-1, :-1] += block.T @ block
            out[-1, :-1] += own @ block
        out[:-1, -1] = out[-1, :-1]
        out[-1, -1] = weights.sum()
        return self.arrays.to_host(out)

    def _blocks(self) -> list[slice]:
        n_rows, n_features = self.shape
        step = max(64, _BLOCK_ENTRIES // max(1, n_features))
        return [slice(first, first + step) for first in range(0, n_rows, step)]


def device_products(device: Device, matrix: _Rows) -> ManyProducts:
    """Return the products of rows that are on a device, or are copied to it.

    Parameters
    ----------
    device : Device
        Where to.
    matrix : DenseMatrix, CompressedMatrix or ResidentMatrix
        Finite rows.

    Returns
    -------
    ManyProducts
        On the device; inside ``with device.use():``.

    Raises
    ------
    ValueError
        If indices or offsets lead outside the matrix.
    MemoryError
        If the device's memory is full.
    """
    rows = upload_rows(device, matrix)
    if isinstance(rows, DenseRows):
        return GpuDenseProducts(device, rows)
    return GpuCompressedProducts(device, rows)


def most_models(device: Device, matrix: _Rows, n_tables: int) -> int:
    """Return how many models may go side by side, by the device's free memory.

    Parameters
    ----------
    device : Device
        Without the rows that it does not hold yet.
    matrix : DenseMatrix, CompressedMatrix or ResidentMatrix
        The rows.
    n_tables : int
        Columns of labels and weights.

    Returns
    -------
    int
        A multiple of `PANEL`; 0 where the rows leave no room for one.
    """
    n_rows, n_features = matrix.shape
    itemsize = matrix.dtype.itemsize
    source = matrix.rows if isinstance(matrix, ResidentMatrix) else matrix
    if isinstance(source, CompressedMatrix | CompressedRows):
        # By rows and by columns; beside that, what sorting the entries takes.
        index = source.indices.dtype.itemsize
        once = matrix.n_stored * (itemsize + index) + index * (n_rows + 1)
        more = once + 24 * matrix.n_stored + index * (n_features + 1)
    else:
        once = itemsize * matrix.n_stored
        more = 2 * itemsize * min(matrix.n_stored, _BLOCK_ENTRIES)
        more += itemsize * (n_features + 1) ** 2
    rows = more if isinstance(matrix, ResidentMatrix) else once + more
    left = device.free_bytes() - rows - n_tables * n_rows * itemsize
    each = itemsize * (_ARRAYS_OF_ROWS * n_rows + _ARRAYS_OF_VECTORS * (n_features + 1))
    return max(0, left // each // PANEL * PANEL)
