"""What a solve of many models asks of the rows: where its arrays are, and products with them.

Vectors are columns of an array of shape (n_features + 1, n_models), the last row being that of a
constant column of ones; numbers of rows have shape (n_rows, n_models).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from snapml import _native
from snapml.kernels.matrices.scaling import column_sums
from snapml.problems import Loss

__all__ = ["DeviceArrays", "HostArrays", "ManyArrays", "ManyLosses", "ManyProducts"]


class ManyArrays(Protocol):
    """A place for arrays whose columns are models. What is of one number a model is NumPy's."""

    xp: Any
    """The array module."""

    def given(self, array: np.ndarray) -> Any:
        """Return an array of the host there: itself, or a copy."""

    def to_host(self, array: Any) -> np.ndarray:
        """Return an array on the host: itself, or a copy."""

    def factors(self, numbers: np.ndarray, like: Any) -> Any:
        """Return a number for each model as a factor of arrays of the same type as another."""

    def take(self, array: Any, columns: np.ndarray) -> Any:
        """Return a copy of some models, C-contiguous."""

    def dots(self, left: Any, right: Any) -> np.ndarray:
        """Return the inner products of columns, shape (n_models,), float64."""

    def bends(self, search: Any, penalty: Any, product: Any) -> np.ndarray:
        """Add penalty * search to a product in place, and return the inner products of both."""

    def subtract(self, residual: Any, numbers: np.ndarray, product: Any) -> np.ndarray:
        """Subtract numbers * product from a residual in place; return its squared lengths."""

    def add_scaled(self, target: Any, numbers: np.ndarray, source: Any) -> None:
        """Add numbers * source to an array in place."""

    def scale_and_add(self, target: Any, numbers: np.ndarray, source: Any) -> None:
        """Make an array numbers * itself + source, in place."""

    def totals(self, array: Any) -> np.ndarray:
        """Return the sums of columns, shape (n_models,), float64."""


class HostArrays:
    """Arrays of NumPy (protocol `ManyArrays`).

    Parameters
    ----------
    pool : ThreadPool, default=None
        Threads for large ones; one by default.
    """

    xp: Any = np

    def __init__(self, pool: _native.ThreadPool | None = None) -> None:
        self._pool = _native.ThreadPool(1) if pool is None else pool

    def given(self, array: np.ndarray) -> np.ndarray:
        """Return the array."""
        return array

    def to_host(self, array: np.ndarray) -> np.ndarray:
        """Return the array."""
        return array

    def factors(self, numbers: np.ndarray, like: np.ndarray) -> np.ndarray:
        """Return the numbers in the other array's type."""
        return numbers.astype(like.dtype)

    def take(self, array: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return a copy of some columns."""
        return np.ascontiguousarray(array[:, columns])

    def dots(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the inner products of columns."""
        out = np.empty(left.shape[1])
        _native.many_dots(self._pool, left, right, out)
        return out

    def bends(self, search: np.ndarray, penalty: np.ndarray, product: np.ndarray) -> np.ndarray:
        """Add the penalty's part, and return inner products; see `ManyArrays.bends`."""
        out = np.empty(search.shape[1])
        _native.many_bends(self._pool, search, penalty, product, out)
        return out

    def subtract(
        self, residual: np.ndarray, numbers: np.ndarray, product: np.ndarray
    ) -> np.ndarray:
        """Subtract numbers * product in place; return the squared lengths of what is left."""
        out = np.empty(residual.shape[1])
        _native.many_residuals(self._pool, self.factors(numbers, product), product, residual, out)
        return out

    def add_scaled(self, target: np.ndarray, numbers: np.ndarray, source: np.ndarray) -> None:
        """Add numbers * source in place."""
        _native.many_mixes(self._pool, self.factors(numbers, source), source, target, False)

    def scale_and_add(self, target: np.ndarray, numbers: np.ndarray, source: np.ndarray) -> None:
        """Make an array numbers * itself + source, in place."""
        _native.many_mixes(self._pool, self.factors(numbers, source), source, target, True)

    def totals(self, array: np.ndarray) -> np.ndarray:
        """Return the sums of columns."""
        return array.sum(axis=0, dtype=np.float64)


class DeviceArrays:
    """Arrays of a device (protocol `ManyArrays`).

    Parameters
    ----------
    device : Device
        Whose they are.
    """

    def __init__(self, device: Any) -> None:
        self._device, self.xp = device, device.xp

    def given(self, array: np.ndarray) -> Any:
        """Return a copy on the device."""
        return self._device.to_device(array)

    def to_host(self, array: Any) -> np.ndarray:
        """Return a copy on the host."""
        found: np.ndarray = self._device.to_host(array)
        return found

    def factors(self, numbers: np.ndarray, like: Any) -> Any:
        """Return the numbers on the device, in the other array's type."""
        return self._device.to_device(numbers.astype(like.dtype))

    def take(self, array: Any, columns: np.ndarray) -> Any:
        """Return a copy of some columns."""
        chosen = self._device.to_device(np.asarray(columns, dtype=np.int64))
        return self.xp.ascontiguousarray(array[:, chosen])

    def dots(self, left: Any, right: Any) -> np.ndarray:
        """Return the inner products of columns."""
        return self.totals(left * right)

    def bends(self, search: Any, penalty: Any, product: Any) -> np.ndarray:
        """Add the penalty's part, and return inner products; see `ManyArrays.bends`."""
        product += penalty * search
        return self.dots(search, product)

    def subtract(self, residual: Any, numbers: np.ndarray, product: Any) -> np.ndarray:
        """Subtract numbers * product in place; return the squared lengths of what is left."""
        product *= self.factors(numbers, product)
        residual -= product
        return self.dots(residual, residual)

    def add_scaled(self, target: Any, numbers: np.ndarray, source: Any) -> None:
        """Add numbers * source in place."""
        target += self.factors(numbers, source) * source

    def scale_and_add(self, target: Any, numbers: np.ndarray, source: Any) -> None:
        """Make an array numbers * itself + source, in place."""
        target *= self.factors(numbers, target)
        target += source

    def totals(self, array: Any) -> np.ndarray:
        """Return the sums of columns."""
        return self.to_host(column_sums(self._device, self.xp.ascontiguousarray(array)))


class ManyLosses(Protocol):
    """The losses of many models, at margins of shape (n_rows, n_columns).

    A model has a column, or for the softmax one for each class, side by side.
    """

    def tangents(self, margins: Any) -> tuple[np.ndarray, Any, Any]:
        """Return the models' losses, and each row's slope and curvature times its weight.

        The curvature of the softmax is given by its probabilities.
        """

    def diagonals(self, curvatures: Any) -> Any:
        """Return the diagonals of curvatures: themselves, but for the softmax."""

    def mixing(self, curvatures: Any) -> np.ndarray | None:
        """Return each model's sum of its rows' curvatures between outputs; None of one output.

        Shape (n_models, n_outputs, n_outputs).
        """

    def ahead(self, margins: Any, moves: Any, steps: Any) -> np.ndarray:
        """Return the models' losses at margins + steps * moves."""


class ManyProducts(Protocol):
    """Products of one matrix with the vectors of many models, each of one read."""

    shape: tuple[int, int]
    """Rows and columns."""

    dtype: np.dtype
    """Type of the entries, the vectors and the numbers of rows."""

    n_threads: int
    """Threads of the host that work."""

    is_dense: bool
    """Whether every entry is stored."""

    fewest: int
    """Fewest models that products take; more of them are a multiple of `many_rows.PANEL`."""

    arrays: ManyArrays
    """Where vectors and numbers of rows are."""

    def losses(
        self,
        loss: Loss,
        labels: Any,
        weights: Any,
        label_columns: np.ndarray,
        weight_columns: np.ndarray,
        factors: np.ndarray,
    ) -> ManyLosses:
        """Return the losses of models.

        Parameters
        ----------
        loss : Loss
            Smooth.
        labels, weights : array of shape (n_rows, n_columns)
            Labels and row weights that models share: those of a fold are zero where it leaves rows
            out.
        label_columns, weight_columns : ndarray of shape (n_models,), int32
            Which of these are a model's.
        factors : ndarray of shape (n_models,), the margins' dtype
            Of its weights.
        """

    def margins(self, vectors: Any) -> Any:
        """Return X vectors, shape (n_rows, n_models)."""

    def adjoint(self, scales: Any, *, squares_entries: bool = False) -> Any:
        """Return X^T scales, or (X * X)^T scales; shape (n_features + 1, n_models)."""

    def hessian(self, curvatures: Any, vectors: Any, n_outputs: int = 1) -> Any:
        """Return X^T (curvatures * (X vectors)), shape (n_features + 1, n_models).

        Parameters
        ----------
        curvatures : array of shape (n_rows, n_models)
            Those of the losses.
        vectors : array of shape (n_features + 1, n_models)
            Directions.
        n_outputs : int, default=1
            Above 1, so many columns are one model of the softmax, and what is left over of them
            is zero.
        """

    def row_squares(self) -> Any:
        """Return the squared lengths of dense rows, shape (n_rows,)."""

    def gram(self, weights: Any) -> np.ndarray:
        """Return X^T diag(weights) X of dense rows, the constant column last, on the host."""
