"""Rows, labels and weights in a device's memory: copied once, sampled and read there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snapml.data import Dataset
from snapml.kernels import CompressedRows, DenseRows, Device, RankedRows, ResidentMatrix, Targets
from snapml.kernels.matrices.row_selection import entries_of, host_copy, take_compressed
from snapml.kernels.products.ranked_rows import ranked_products
from snapml.problems import Problem
from snapml.solvers.rows.gpu_matrix import upload_rows

__all__ = [
    "BLOCK_ENTRIES",
    "DeviceDataset",
    "DeviceTargets",
    "OwnTargets",
    "Visit",
    "upload_targets",
]

Visit = Callable[[slice, "DeviceDataset"], Any]

BLOCK_ENTRIES = 2**24
"""Entries of a dense copy of some rows: 128 MB in float64, large products and little memory."""


class DeviceTargets:
    """Labels, weights and offsets of all rows on a device, wherever the rows are."""

    device: Device
    targets: Targets

    def weights(self) -> Any:
        """Return c_i, float64, broadcastable to (n_outputs, n_rows)."""
        given = self.targets.row_weights
        if given is not None:
            return given.astype(np.float64)
        n_rows = self.targets.labels.shape[-1]
        return self.device.xp.zeros(n_rows, np.float64) + self.targets.weight

    def targets_of(self, rows: Any, factor: float | np.ndarray = 1.0) -> Targets:
        """Return labels, weights and offsets of some rows.

        Parameters
        ----------
        rows : slice or array of shape (n_taken,), int64
            Row numbers; an array is one of the device.
        factor : float, or ndarray of shape (n_taken,), float64, default=1.0
            For the weights.

        Returns
        -------
        Targets
            In the order asked for; views where they are contiguous and the factor is 1.
        """
        xp, targets = self.device.xp, self.targets
        weights, common = targets.row_weights, targets.weight
        labels = xp.ascontiguousarray(targets.labels[..., rows])
        if weights is not None:
            weights = xp.ascontiguousarray(weights[..., rows])
        if isinstance(factor, np.ndarray):
            own = self.device.to_device(factor.astype(labels.dtype))
            weights = (common if weights is None else weights) * own
        else:
            common *= factor
            if weights is not None and factor != 1.0:
                weights = weights * weights.dtype.type(factor)
        offsets = targets.offsets
        if offsets is not None:
            offsets = xp.ascontiguousarray(offsets[..., rows])
        return Targets(labels, weights, common, targets.n_outputs, offsets)

    def restated(self, factor: float, offsets: Any) -> OwnTargets:
        """Return these with weights times a factor, and with other offsets.

        Parameters
        ----------
        factor : float
            For the weights.
        offsets : array of shape (n_rows,) or (n_outputs, n_rows), float64, or None
            On the device.

        Returns
        -------
        OwnTargets
            Without rows.
        """
        targets, weights = self.targets, self.targets.row_weights
        own = replace(
            targets,
            row_weights=None if weights is None else weights * weights.dtype.type(factor),
            weight=targets.weight * factor,
            offsets=offsets,
        )
        return OwnTargets(self.device, own)


@dataclass(frozen=True)
class OwnTargets(DeviceTargets):
    """Targets of rows that others keep: labels, weights and offsets of another problem.

    Attributes
    ----------
    device : Device
        Where everything is.
    targets : Targets
        Of all rows.
    """

    device: Device
    targets: Targets


@dataclass(frozen=True)
class DeviceDataset(DeviceTargets):
    """One shard of training data on a device.

    Attributes
    ----------
    device : Device
        Where everything is.
    matrix : DenseRows or RankedRows
        The rows.
    targets : Targets
        Labels and weights.
    n_stored : int
        Entries that one sweep reads.
    is_single : bool
        Whether the labels came without an axis for outputs, of which there is one.
    """

    device: Device
    matrix: DenseRows | RankedRows
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
            If the device's memory is full.
        """
        targets = upload_targets(device, problem, dataset)
        rows = upload_rows(device, dataset.matrix)
        matrix: DenseRows | RankedRows
        if isinstance(rows, DenseRows):
            matrix = rows
        else:
            is_ours = not isinstance(dataset.matrix, ResidentMatrix)
            matrix = RankedRows.make(device, rows, may_overwrite=is_ours)
        is_single = targets.n_outputs == 1 and dataset.labels.ndim == 1
        return cls(device, matrix, targets, dataset.matrix.n_stored, is_single)

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are compressed."""
        return isinstance(self.matrix, RankedRows)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.matrix.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the entries."""
        return self.matrix.dtype

    @property
    def description(self) -> str:
        """What is to be said of where the rows are: nothing."""
        return ""

    def summed(self, visit: Visit) -> Any:
        """Return the sum over all parts of the rows of what a function returns: over one part.

        Parameters
        ----------
        visit : callable
            Takes which rows these are, a slice, and the rows as a `DeviceDataset`; returns an array
            of the device, which becomes the sum's. Called again for rows that it has seen where
            memory runs out.

        Returns
        -------
        array
            The sum.
        """
        return visit(slice(None), self)

    def take(self, rows: np.ndarray, factor: float | np.ndarray) -> DeviceDataset:
        """Return a copy of some rows, their weights multiplied; it does not leave the device.

        Parameters
        ----------
        rows : ndarray of shape (n_taken,), int64
            Row numbers, on the host.
        factor : float, or ndarray of shape (n_taken,), float64
            For the weights.

        Returns
        -------
        DeviceDataset
            In the order asked for.
        """
        where = self.device.to_device(rows)
        targets = self.targets_of(where, factor)
        matrix = self._rows_at(where)
        n_stored = matrix.values.size if isinstance(matrix, DenseRows) else matrix.rows.indices.size
        return DeviceDataset(self.device, matrix, targets, int(n_stored), self.is_single)

    def dense_rows(self, rows: Any, columns: Any = None) -> Any:
        """Return rows as a dense array; entries stored twice are added up.

        Parameters
        ----------
        rows : slice or array of int64
            Which; an array is one of the device.
        columns : array of int64 or None, default=None
            Which of their columns, each once, on the device; None means all.

        Returns
        -------
        array of shape (n_taken, n_cols or len(columns))
            A view of dense rows in a slice, else a copy.
        """
        matrix, xp = self.matrix, self.device.xp
        if isinstance(matrix, DenseRows):
            taken = matrix.values[rows]
            return taken if columns is None else taken[:, columns]
        if isinstance(rows, slice):
            rows = xp.arange(*rows.indices(matrix.shape[0]), dtype=np.int64)
        offsets, row_of, entries = entries_of(self.device, matrix.rows, rows)
        places, values = matrix.unranked(self.device, entries)
        n_cols = matrix.shape[1]
        if columns is not None:
            place_of = xp.full(n_cols, -1, np.int64)
            n_cols = len(columns)
            place_of[columns] = xp.arange(n_cols, dtype=np.int64)
            places = place_of[places]
            kept = xp.flatnonzero(places >= 0)
            row_of, values, places = row_of[kept], values[kept], places[kept]
        out = xp.zeros((len(offsets) - 1) * n_cols, matrix.dtype)
        xp.add.at(out, row_of * n_cols + places, values)
        return out.reshape(len(offsets) - 1, n_cols)

    def weighted_squares(self, weights: Any) -> Any:
        """Return sum_i weights_ki x_ij^2. Equal calls give equal bits.

        Parameters
        ----------
        weights : array of shape (n_vectors, n_rows), float64
            On the device.

        Returns
        -------
        array of shape (n_vectors, n_cols), float64
            The sums.
        """
        matrix, device = self.matrix, self.device
        if isinstance(matrix, RankedRows):
            out = device.xp.zeros((len(weights), matrix.shape[1] + 1), np.float64)
            ranked_products(device, matrix, weights, out, is_squared=True)
            return out[:, :-1]
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
        matrix = self.matrix
        if rows is not None:
            matrix = self._rows_at(device.to_device(rows))
        if isinstance(matrix, DenseRows):
            return host_copy(device, matrix)
        columns, values = matrix.unranked(device)
        given = CompressedRows(matrix.rows.indptr, columns, values, matrix.shape[1])
        return host_copy(device, given)

    def _rows_at(self, rows: Any) -> DenseRows | RankedRows:
        matrix = self.matrix
        if isinstance(matrix, DenseRows):
            return DenseRows(self.device.xp.ascontiguousarray(matrix.values[rows]))
        return matrix.with_rows(self.device, take_compressed(self.device, matrix.rows, rows))


def upload_targets(device: Device, problem: Problem, dataset: Dataset) -> Targets:
    """Copy labels and weights to a device.

    Parameters
    ----------
    device : Device
        Where to.
    problem : Problem
        Says how many outputs the labels belong to.
    dataset : Dataset
        Of the host.

    Returns
    -------
    Targets
        The copy.

    Raises
    ------
    ValueError
        If class numbers lie outside the classes.
    """
    n_outputs = problem.n_outputs(dataset.labels.shape)
    labels = dataset.labels
    if problem.loss.is_joint:
        _check_classes(labels, n_outputs)
    else:
        labels = labels.reshape(n_outputs, -1)
    weights, offsets = (
        None if array is None else device.to_device(array)
        for array in (dataset.row_weights, dataset.offsets)
    )
    return Targets(device.to_device(labels), weights, dataset.weight, n_outputs, offsets)


def _check_classes(labels: np.ndarray, n_classes: int) -> None:
    if not ((labels >= 0) & (labels < n_classes)).all():
        raise ValueError(f"labels: expected class numbers below {n_classes}")
