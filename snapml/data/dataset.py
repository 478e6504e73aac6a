"""Dense rows, and what a solver needs beside the matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from snapml._lazy import cached_property
from snapml.data.compressed import CompressedMatrix
from snapml.data.sparse_form import common_numbers, share_of_numbers, sparse_form

__all__ = ["MOST_NUMBERS", "Dataset", "DenseMatrix", "Matrix"]

MOST_NUMBERS = 0.15
"""Share of numbers that are not zero up to which entries are read faster than whole rows."""


class Matrix(Protocol):
    """Rows of float32 or float64 numbers."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""

    @property
    def dtype(self) -> np.dtype:
        """Type of the entries: float32 or float64."""

    @property
    def n_stored(self) -> int:
        """Entries that one sweep reads."""

    def take(self, rows: np.ndarray) -> Matrix:
        """Return a copy of some rows."""


@dataclass(frozen=True)
class DenseMatrix:
    """A dense matrix in the user's memory: C or Fortran order, strided, read-only or mapped.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features), dtype float32 or float64
        Aligned and of native byte order.
    """

    values: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.values.shape[0], self.values.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """Type of the entries."""
        return self.values.dtype

    @property
    def n_stored(self) -> int:
        """Entries that one sweep reads."""
        return int(self.values.size)

    @cached_property
    def share_of_numbers(self) -> float:
        """About what share of the numbers is not zero."""
        return share_of_numbers(self.values)

    @cached_property
    def sparse_form(self) -> CompressedMatrix | None:
        """The rows without their zeros; None where these are few. Made once."""
        return sparse_form(self.values, MOST_NUMBERS)

    @cached_property
    def common_form(self) -> tuple[CompressedMatrix, np.ndarray] | None:
        """The rows less what most of a column's numbers are, and these; None if most are others."""
        numbers = common_numbers(self.values, MOST_NUMBERS)
        if numbers is None:
            return None
        form = sparse_form(self.values, MOST_NUMBERS, numbers)
        return None if form is None else (form, numbers)

    def take(self, rows: np.ndarray) -> DenseMatrix:
        """Return a copy of some rows.

        Parameters
        ----------
        rows : ndarray of shape (n_taken,), int64
            Row numbers.

        Returns
        -------
        DenseMatrix
            The rows in the order asked for, in C order.
        """
        return DenseMatrix(np.ascontiguousarray(self.values[rows]))


@dataclass(frozen=True)
class Dataset:
    """One shard of training data.

    Attributes
    ----------
    matrix : Matrix
        The rows.
    labels : ndarray of shape (n_rows,) or (n_outputs, n_rows), the matrix's dtype
        -1 and +1 for classification, any real number for regression, class numbers for the
        softmax loss. One row for each of several outputs that share the matrix.
    row_weights : ndarray of shape (n_rows,) or (n_outputs, n_rows), the matrix's dtype, or None
        c_i of the objective; None where all of them are `weight`.
    weight : float
        The common weight where `row_weights` is None.
    offsets : ndarray of shape (n_rows,) or (n_outputs, n_rows), float64, or None, default=None
        o_i, added to the margins as they are; None where there are none.
    """

    matrix: Matrix
    labels: np.ndarray
    row_weights: np.ndarray | None
    weight: float
    offsets: np.ndarray | None = None

    @property
    def wide_weights(self) -> np.ndarray:
        """The weight of each row, float64; of each output where they have their own."""
        if self.row_weights is None:
            return np.full(self.matrix.shape[0], self.weight)
        return self.row_weights.astype(np.float64)

    @cached_property
    def total_weight(self) -> float:
        """Sum of the row weights, over all outputs where they have their own; in float64."""
        if self.row_weights is None:
            return self.weight * self.matrix.shape[0]
        return float(self.row_weights.sum(dtype=np.float64))

    def outputs(self) -> Iterator[Dataset]:
        """Return one dataset for each of several outputs.

        Yields
        ------
        Dataset
            With its own labels, row weights and offsets, and the same matrix.
        """
        for k, labels in enumerate(self.labels):
            weights, offsets = (
                array if array is None or array.ndim == 1 else array[k]
                for array in (self.row_weights, self.offsets)
            )
            yield replace(self, labels=labels, row_weights=weights, offsets=offsets)

    def restated(self, factor: float, offsets: np.ndarray | None) -> Dataset:
        """Return the same rows with their weights times a factor, and with other offsets.

        Parameters
        ----------
        factor : float
            For the weights.
        offsets : ndarray of shape (n_rows,) or (n_outputs, n_rows), float64, or None
            In the place of these.

        Returns
        -------
        Dataset
            With the same matrix and labels.
        """
        weights = self.row_weights
        return replace(
            self,
            row_weights=None if weights is None else weights * weights.dtype.type(factor),
            weight=self.weight * factor,
            offsets=offsets,
        )

    def of_rows(self, matrix: Matrix, rows: slice | np.ndarray) -> Dataset:
        """Return what belongs to some rows, whose matrix is given.

        Parameters
        ----------
        matrix : Matrix
            These rows.
        rows : slice or ndarray of int64
            Which they are; a slice gives views.

        Returns
        -------
        Dataset
            With their labels, weights and offsets.
        """
        weights, offsets = (
            None if array is None else array[..., rows]
            for array in (self.row_weights, self.offsets)
        )
        return Dataset(matrix, self.labels[..., rows], weights, self.weight, offsets)

    def take(self, rows: np.ndarray, factor: float | np.ndarray) -> Dataset:
        """Return a copy of some rows, their weights multiplied.

        Parameters
        ----------
        rows : ndarray of shape (n_taken,), int64
            Row numbers.
        factor : float, or ndarray of shape (n_taken,), float64
            For the weights: with n_rows / n_taken a random sample has the loss of the whole.

        Returns
        -------
        Dataset
            In the order asked for.
        """
        weights, common = None, self.weight
        if self.row_weights is not None:
            weights = np.ascontiguousarray(self.row_weights[..., rows])
            weights *= np.asarray(factor, dtype=weights.dtype)
        elif isinstance(factor, np.ndarray):
            weights = (self.weight * factor).astype(self.matrix.dtype)
        if not isinstance(factor, np.ndarray):
            common *= factor
        labels = np.ascontiguousarray(self.labels[..., rows])
        offsets = None if self.offsets is None else np.ascontiguousarray(self.offsets[..., rows])
        return Dataset(self.matrix.take(rows), labels, weights, common, offsets)
