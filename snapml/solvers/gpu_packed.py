"""Columns on a device, packed out of the rows: products with them, and their Gram matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from snapml.kernels import CompressedRows, DenseRows, Device
from snapml.kernels.rows import margins
from snapml.kernels.transposed import transposed_products
from snapml.problems import Problem
from snapml.solvers.device_dataset import BLOCK_ENTRIES, DeviceDataset

__all__ = ["DeviceColumns", "DevicePacker", "device_gram"]


class DeviceColumns:
    """Some columns of a dataset on a device (protocol `Chunk`).

    Parameters
    ----------
    data : DeviceDataset
        Rows that hold these columns only.
    tau : float
        Value of a constant column behind them; 0 without one.
    is_ordered : bool
        Whether compressed rows are kept by columns too, so that equal products give equal bits.
    """

    def __init__(self, data: DeviceDataset, tau: float, is_ordered: bool) -> None:
        self.data, self.tau = data, tau
        self.device: Device = data.device
        self._is_ordered = is_ordered and data.is_sparse
        self.n_own = data.matrix.shape[1]
        self.n_cols = self.n_own + int(tau != 0.0)

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
        data = self.data
        if len(own) < self.n_own:
            data = replace(data, matrix=_columns_of(self.device, data.matrix, own))
        return DeviceColumns(data, tau, self._is_ordered)

    def product(self, coef: np.ndarray) -> Any:
        """Return the columns' sum weighted by `coef`, one number per row."""
        point = coef if self.tau else np.append(coef, 0.0)
        point = self.device.to_device(point.reshape(1, -1).astype(np.float64))
        return margins(self.device, self.data.matrix, point, self.tau)[0]

    def adjoint(self, vector: Any) -> np.ndarray:
        """Return the columns' products with a vector of one number per row."""
        columns = self.data.columns if self._is_ordered else None
        vectors = vector.reshape(1, -1)
        products = transposed_products(
            self.device, self.data.matrix, vectors, self.tau, columns=columns
        )
        return self.device.to_host(products)[0, : self.n_cols]

    def squares(self, weights: Any) -> np.ndarray:
        """Return sum_i weights_i x_ij^2 of every column."""
        sums = self.data.weighted_squares(weights.reshape(1, -1), is_ordered=self._is_ordered)
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
