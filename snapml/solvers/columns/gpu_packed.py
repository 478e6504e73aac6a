"""Columns on a device, packed out of the rows: products with them, and their Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from snapml.kernels import CompressedRows, DenseRows, Device, RankedRows, Targets
from snapml.kernels.products.rows import margins
from snapml.kernels.products.transposed import transposed_products
from snapml.problems import Problem
from snapml.solvers.rows.device_dataset import BLOCK_ENTRIES, DeviceDataset

__all__ = ["DeviceColumns", "DevicePacker", "device_gram"]


@dataclass(frozen=True)
class DeviceColumns:
    """Some columns of a dataset on a device (protocol `Chunk`).

    Attributes
    ----------
    data : DeviceDataset
        Rows that hold these columns only, for products.
    rows : DenseRows or CompressedRows
        The same rows with the numbers of their columns, to pack others from.
    tau : float
        Value of a constant column behind them; 0 without one.
    """

    data: DeviceDataset
    rows: DenseRows | CompressedRows
    tau: float

    @classmethod
    def make(
        cls, device: Device, rows: DenseRows | CompressedRows, targets: Targets, tau: float
    ) -> DeviceColumns:
        """Return columns of rows that are on a device.

        Parameters
        ----------
        device : Device
            Where the rows are.
        rows : DenseRows or CompressedRows
            Without two entries in one place.
        targets : Targets
            Labels and weights.
        tau : float
            Value of a constant column; 0 without one.

        Returns
        -------
        DeviceColumns
            All columns.
        """
        if isinstance(rows, DenseRows):
            data = DeviceDataset(device, rows, targets, int(rows.values.size), True)
        else:
            ranked = RankedRows.make(device, rows)
            data = DeviceDataset(device, ranked, targets, int(rows.indices.size), True)
        return cls(data, rows, tau)

    @property
    def device(self) -> Device:
        """Where the columns are."""
        return self.data.device

    @property
    def n_own(self) -> int:
        """Number of columns without the constant one."""
        return self.rows.shape[1]

    @property
    def n_cols(self) -> int:
        """Number of columns."""
        return self.n_own + int(self.tau != 0.0)

    def take(self, columns: np.ndarray) -> DeviceColumns:
        """Return a copy of some of the columns, or all of them in place.

        Parameters
        ----------
        columns : ndarray of int64
            Sorted numbers; the constant column's is `n_own`.

        Returns
        -------
        DeviceColumns
            On the same device.
        """
        own = columns[columns < self.n_own]
        tau = self.tau if len(own) < len(columns) else 0.0
        if len(own) == self.n_own:
            return replace(self, tau=tau)
        rows = _columns_of(self.device, self.rows, own)
        return DeviceColumns.make(self.device, rows, self.data.targets, tau)

    def product(self, coef: np.ndarray) -> Any:
        """Return the columns' sum weighted by `coef`, one number per row."""
        point = coef if self.tau else np.append(coef, 0.0)
        point = self.device.to_device(point.reshape(1, -1).astype(np.float64))
        return margins(self.device, self.data.matrix, point, self.tau)[0]

    def adjoint(self, vector: Any) -> np.ndarray:
        """Return the columns' products with a vector of one number per row."""
        vectors = self.device.xp.ascontiguousarray(vector.reshape(1, -1))
        products = transposed_products(self.device, self.data.matrix, vectors, self.tau)
        return self.device.to_host(products)[0, : self.n_cols]

    def squares(self, weights: Any) -> np.ndarray:
        """Return sum_i weights_i x_ij^2 of every column."""
        sums = self.data.weighted_squares(weights.reshape(1, -1))
        own = self.device.to_host(sums)[0]
        return np.append(own, self.tau**2 * float(weights.sum())) if self.tau else own

    def block(self, rows: slice, root: Any, mean: Any) -> Any:
        """Return (x_i - mean) * root_i of some rows, dense and in float64."""
        own = self.data.dense_rows(rows)
        out = self.device.xp.full((own.shape[0], self.n_cols), self.tau, np.float64)
        out[:, : self.n_own] = own
        out -= mean
        out *= root[rows].reshape(-1, 1)
        return out


class DevicePacker:
    """What a Gram matrix's working set asks for (protocol `PackingEngine`).

    It is no part of the engine, which holds the set: device memory then goes when the engine does.

    Parameters
    ----------
    problem : Problem
        Loss and intercept.
    source : DeviceColumns
        Where the columns come from.
    """

    def __init__(self, problem: Problem, source: DeviceColumns) -> None:
        self.problem, self._source = problem, source
        self.dtype, self.n_cols = source.data.matrix.dtype, source.n_cols

    def pack(self, columns: np.ndarray) -> list[DeviceColumns]:
        """Return some columns packed on the device; all of them are used in place."""
        return [self._source.take(columns)]

    def gram(
        self,
        old: list[DeviceColumns],
        new: list[DeviceColumns],
        curvatures: Any,
        means: list[np.ndarray],
    ) -> np.ndarray:
        """Return the weighted, centred products of all columns with the new ones."""
        return device_gram(old, new, curvatures, means)


def device_gram(
    old: list[DeviceColumns], new: list[DeviceColumns], curvatures: Any, means: list[np.ndarray]
) -> np.ndarray:
    """Return the weighted, centred products of all columns with the new ones.

    Parameters
    ----------
    old, new : list of DeviceColumns
        Columns; the result's rows belong to ``old + new``, its columns to ``new``.
    curvatures : array of shape (n_rows,), float64
        h_i, on the device.
    means : list of ndarray
        What to subtract from the columns of each chunk of ``old + new``.

    Returns
    -------
    ndarray of shape (n_old + n_new, n_new), float64
        Multiplied and added in float64, over blocks of rows in a fixed order.
    """
    chunks = old + new
    device = chunks[0].device
    xp, root = device.xp, device.xp.sqrt(curvatures)
    width = sum(chunk.n_cols for chunk in chunks)
    total = xp.zeros((width, sum(chunk.n_cols for chunk in new)), np.float64)
    centres = [device.to_device(mean) for mean in means]
    step = max(1, BLOCK_ENTRIES // width)
    for first in range(0, len(curvatures), step):
        rows = slice(first, min(first + step, len(curvatures)))
        blocks = []
        for chunk, mean in zip(chunks, centres, strict=True):
            blocks.append(chunk.block(rows, root, mean))
        every = xp.concatenate(blocks, 1) if len(blocks) > 1 else blocks[0]
        total += every.T @ every[:, width - total.shape[1] :]
    return device.to_host(total)


def _columns_of(
    device: Device, matrix: DenseRows | CompressedRows, columns: np.ndarray
) -> DenseRows | CompressedRows:
    """Return rows that hold some columns only."""
    xp, where = device.xp, device.to_device(columns)
    if isinstance(matrix, DenseRows):
        return DenseRows(xp.ascontiguousarray(xp.take(matrix.values, where, 1)))
    index = np.dtype(matrix.indptr.dtype)
    position = xp.full(matrix.n_cols, -1, index)
    position[where] = xp.arange(len(columns), dtype=index)
    places = position[matrix.indices]
    kept = xp.flatnonzero(places >= 0)
    return CompressedRows(
        xp.searchsorted(kept, matrix.indptr.astype(np.int64)).astype(index),
        places[kept],
        None if matrix.values is None else matrix.values[kept],
        len(columns),
        matrix.constant,
        matrix.dtype,
    )
