"""Rows, labels and weights in a device's memory: copied once, sampled and read there."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snapml.data import Dataset
from snapml.kernels import CompressedRows, DenseRows, Device, Targets
from snapml.kernels.columns import ColumnPieces
from snapml.kernels.transposed import transposed_products
from snapml.problems import Problem, Softmax
from snapml.solvers.gpu_matrix import check_room, upload_rows

__all__ = ["BLOCK_ENTRIES", "DeviceDataset"]

BLOCK_ENTRIES = 2**24
"""Entries of a dense copy of some rows: 128 MB in float64, large products and little memory."""


@dataclass(frozen=True)
class DeviceDataset:
    """One shard of training data on a device.

    Attributes
    ----------
    device : Device
        Where everything is.
    matrix : DenseRows or CompressedRows
        The rows.
    targets : Targets
        Labels and weights.
    n_stored : int
        Entries that one sweep reads.
    is_single : bool
        Whether the labels came without an axis for outputs, of which there is one.
    """

    device: Device
    matrix: DenseRows | CompressedRows
    targets: Targets
    n_stored: int
    is_single: bool

    @classmethod
    def upload(cls, device: Device, problem: Problem, dataset: Dataset) -> DeviceDataset:
        """Copy a dataset of the host, and check what kernels read without asking.

        Parameters
        ----------
        device : Device
            Where to.
        problem : Problem
            Says how many outputs the labels belong to.
        dataset : Dataset
            Rows, labels and weights.

        Returns
        -------
        DeviceDataset
            The copy.

        Raises
        ------
        ValueError
            If indices or offsets lead outside the matrix, or class numbers outside the classes.
        MemoryError
            If the device has no room for rows, labels, weights and margins.
        """
        n_outputs = problem.n_outputs(dataset.labels.shape)
        labels = dataset.labels
        check_room(device, dataset, 2 * n_outputs)  # margins of two points
        if isinstance(problem.loss, Softmax):
            _check_classes(labels, n_outputs)
        else:
            labels = labels.reshape(n_outputs, -1)
        weights = dataset.row_weights
        targets = Targets(
            device.to_device(labels),
            None if weights is None else device.to_device(weights),
            dataset.weight,
            n_outputs,
        )
        matrix = upload_rows(device, dataset.matrix)
        is_single = n_outputs == 1 and dataset.labels.ndim == 1
        return cls(device, matrix, targets, dataset.matrix.n_stored, is_single)

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are compressed."""
        return isinstance(self.matrix, CompressedRows)

    def weights(self) -> Any:
        """Return c_i, float64, broadcastable to (n_outputs, n_rows)."""
        given = self.targets.row_weights
        if given is not None:
            return given.astype(np.float64)
        return self.device.xp.zeros(self.matrix.shape[0], np.float64) + self.targets.weight

    def targets_of(self, rows: Any, factor: float = 1.0) -> Targets:
        """Return labels and weights of the rows with these numbers.

        Parameters
        ----------
        rows : array of shape (n_taken,), int64
            On the device.
        factor : float, default=1.0
            For the weights.

        Returns
        -------
        Targets
            In the order asked for.
        """
        xp, targets = self.device.xp, self.targets
        weights = targets.row_weights
        if weights is not None:
            weights = xp.ascontiguousarray(weights[..., rows])
            weights *= weights.dtype.type(factor)
        labels = xp.ascontiguousarray(targets.labels[..., rows])
        return Targets(labels, weights, targets.weight * factor, targets.n_outputs)

    def take(self, rows: np.ndarray, factor: float) -> DeviceDataset:
        """Return a copy of some rows, their weights multiplied; it does not leave the device.

        Parameters
        ----------
        rows : ndarray of shape (n_taken,), int64
            Row numbers, on the host.
        factor : float
            For the weights.

        Returns
        -------
        DeviceDataset
            In the order asked for.
        """
        where = self.device.to_device(rows)
        targets = self.targets_of(where, factor)
        matrix = self._rows_at(where)
        n_stored = matrix.values.size if isinstance(matrix, DenseRows) else matrix.indices.size
        return DeviceDataset(self.device, matrix, targets, int(n_stored), self.is_single)

    def dense_rows(self, rows: Any) -> Any:
        """Return rows as a dense array; entries stored twice are added up.

        Parameters
        ----------
        rows : slice or array of int64
            Which; an array is one of the device.

        Returns
        -------
        array of shape (n_taken, n_cols)
            A view of dense rows in a slice, else a copy.
        """
        matrix, xp = self.matrix, self.device.xp
        if isinstance(matrix, DenseRows):
            return matrix.values[rows]
        if isinstance(rows, slice):
            rows = xp.arange(*rows.indices(matrix.shape[0]), dtype=np.int64)
        offsets, row_of, entries = self._entries_of(rows)
        if matrix.values is None:
            values = xp.zeros(len(entries), matrix.dtype) + matrix.dtype.type(matrix.constant)
        else:
            values = matrix.values[entries]
        out = xp.zeros((len(offsets) - 1) * matrix.n_cols, matrix.dtype)
        xp.add.at(out, row_of * matrix.n_cols + matrix.indices[entries], values)
        return out.reshape(len(offsets) - 1, matrix.n_cols)

    def weighted_squares(self, weights: Any, *, is_ordered: bool) -> Any:
        """Return sum_i weights_ki x_ij^2.

        Parameters
        ----------
        weights : array of shape (n_vectors, n_rows), float64
            On the device.
        is_ordered : bool
            Whether compressed rows are added up by columns, so that equal calls give equal bits.

        Returns
        -------
        array of shape (n_vectors, n_cols), float64
            The sums.
        """
        matrix, device = self.matrix, self.device
        if isinstance(matrix, CompressedRows):
            pieces = None
            if is_ordered:
                pieces = replace(self.columns, columns=_squared(self.columns.columns))
            squared = _squared(matrix)
            return transposed_products(device, squared, weights, 0.0, columns=pieces)[:, :-1]
        n_rows, n_cols = matrix.shape
        sums = device.xp.zeros((len(weights), n_cols), np.float64)
        step = max(1, BLOCK_ENTRIES // max(1, n_cols))
        for first in range(0, n_rows, step):
            rows = matrix.values[first : first + step].astype(np.float64)
            sums += weights[:, first : first + step] @ (rows * rows)
        return sums

    def host_rows(self, rows: np.ndarray | None = None) -> np.ndarray | csr_matrix:
        """Return a copy of some or all rows on the host.

        Parameters
        ----------
        rows : ndarray of int64 or None, default=None
            Row numbers; None means all.

        Returns
        -------
        ndarray or csr_matrix
            In the order asked for.
        """
        device = self.device
        matrix = self.matrix if rows is None else self._rows_at(device.to_device(rows))
        if isinstance(matrix, DenseRows):
            return device.to_host(matrix.values)
        indptr, indices = device.to_host(matrix.indptr), device.to_host(matrix.indices)
        if matrix.values is None:
            values = np.full(len(indices), matrix.constant, matrix.dtype)
        else:
            values = device.to_host(matrix.values)
        return csr_matrix((values, indices, indptr), shape=matrix.shape)

    @functools.cached_property
    def columns(self) -> ColumnPieces:
        """Compressed rows by columns, made on the device at the first use."""
        xp, matrix = self.device.xp, self.matrix
        if not isinstance(matrix, CompressedRows):
            raise TypeError(f"expected CompressedRows, got {type(matrix).__name__}")
        n_rows, index = matrix.shape[0], matrix.indptr.dtype
        order = xp.argsort(matrix.indices, kind="stable")
        indptr = xp.searchsorted(matrix.indices[order], xp.arange(matrix.n_cols + 1, dtype=index))
        row_of = xp.searchsorted(matrix.indptr, order.astype(index), side="right") - 1
        values = None if matrix.values is None else matrix.values[order]
        columns = CompressedRows(
            indptr.astype(index),
            row_of.astype(index),
            values,
            n_rows,
            matrix.constant,
            matrix.dtype,
        )
        return ColumnPieces.make(self.device, columns)

    def _rows_at(self, rows: Any) -> DenseRows | CompressedRows:
        xp, matrix = self.device.xp, self.matrix
        if isinstance(matrix, DenseRows):
            return DenseRows(xp.ascontiguousarray(matrix.values[rows]))
        offsets, _, entries = self._entries_of(rows)
        values = None if matrix.values is None else matrix.values[entries]
        return CompressedRows(
            offsets.astype(matrix.indptr.dtype),
            matrix.indices[entries],
            values,
            matrix.n_cols,
            matrix.constant,
            matrix.dtype,
        )

    def _entries_of(self, rows: Any) -> tuple[Any, Any, Any]:
        """Return where taken rows begin, and of each entry its place among them and in storage."""
        xp, indptr = self.device.xp, self.matrix.indptr  # type: ignore[union-attr]  # compressed
        begins = indptr[rows].astype(np.int64)
        offsets = xp.zeros(len(rows) + 1, np.int64)
        xp.cumsum(indptr[rows + 1].astype(np.int64) - begins, out=offsets[1:])
        places = xp.arange(int(offsets[-1]), dtype=np.int64)
        row_of = xp.searchsorted(offsets, places, side="right") - 1
        return offsets, row_of, begins[row_of] + places - offsets[row_of]


def _squared(matrix: CompressedRows) -> CompressedRows:
    values = None if matrix.values is None else matrix.values * matrix.values
    return replace(matrix, values=values, constant=matrix.constant**2)


def _check_classes(labels: np.ndarray, n_classes: int) -> None:
    if not ((labels >= 0) & (labels < n_classes)).all():
        raise ValueError(f"labels: expected class numbers below {n_classes}")
