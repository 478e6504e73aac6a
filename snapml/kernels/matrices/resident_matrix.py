"""Rows that are in a GPU's memory before the fit: used where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.kernels.device.device import Device
from snapml.kernels.device.device_arrays import (
    BFLOAT16_HINT,
    adopted,
    cuda_device_of,
    given_back,
    is_device_frame,
)
from snapml.kernels.matrices.device_matrix import DeviceMatrix
from snapml.kernels.matrices.layouts import CompressedRows, DenseRows
from snapml.kernels.matrices.row_checks import has_legal_indices
from snapml.kernels.matrices.row_selection import take_rows, transposed

__all__ = ["ResidentMatrix", "device_number", "resident_matrix"]

_FLOATS = (np.float32, np.float64)


@dataclass(frozen=True)
class ResidentMatrix:
    """Dense or compressed rows over the memory of the caller's arrays, which are never written to.

    Attributes
    ----------
    device : Device
        Where they are.
    device_id : int
        Its number, as CUDA counts the visible devices.
    rows : DenseRows or CompressedRows
        What kernels take; offsets and indices are not checked yet.
    origin : object
        What the caller gave: predictions go back to its library. None means NumPy's.
    """

    device: Device
    device_id: int
    rows: DenseRows | CompressedRows
    origin: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.rows.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the entries: float32 or float64."""
        return np.dtype(self.rows.dtype)

    @property
    def n_stored(self) -> int:
        """Entries that one sweep reads."""
        rows = self.rows
        return int(rows.values.size if isinstance(rows, DenseRows) else rows.indices.size)

    def take(self, rows: np.ndarray) -> ResidentMatrix:
        """Return a copy of some rows, which does not leave the device.

        Parameters
        ----------
        rows : ndarray of shape (n_taken,), int64
            Row numbers, on the host.

        Returns
        -------
        ResidentMatrix
            The rows in the order asked for.
        """
        device = self.device
        with device.use():
            taken = take_rows(device, self.rows, device.to_device(rows))
        return ResidentMatrix(device, self.device_id, taken)

    def host_vector(self, name: str, array: Any) -> Any:
        """Return a copy on the host of labels or weights that are on the same device.

        Parameters
        ----------
        name : str
            What to call them in messages.
        array : object
            What the caller gave; of the host it is returned as it is.

        Returns
        -------
        object
            On the host.

        Raises
        ------
        ValueError
            If they are on another device.
        """
        if is_device_frame(array):
            return array.to_numpy()
        number = cuda_device_of(array)
        if number is None:
            return array
        if number != self.device_id:
            raise ValueError(
                f"X is on CUDA device {self.device_id}, {name} on CUDA device {number}: expected "
                f"{name} on the device of X or on the host"
            )
        return self.device.to_host(adopted(self.device, name, array))

    def predictions(self, array: Any) -> Any:
        """Return an array of the device as the caller gets it.

        Parameters
        ----------
        array : array of the device
            Any shape.

        Returns
        -------
        object
            Of the library that X came from, on the device; a NumPy array without `origin`.
        """
        if self.origin is None:
            return self.device.to_host(array)
        return given_back(self.device, array, self.origin)

    def is_finite(self) -> bool:
        """Return whether all entries are numbers."""
        with self.device.use():
            return bool(self.device.xp.isfinite(self.rows.values).all())

    def has_legal_indices(self) -> bool:
        """Return whether offsets and column indices stay inside the arrays; dense rows' do."""
        with self.device.use():
            return has_legal_indices(self.device, DeviceMatrix(self.rows))

    def has_nan(self) -> bool:
        """Return whether an entry is NaN."""
        with self.device.use():
            return bool(self.device.xp.isnan(self.rows.values).any())


def device_number(X: Any) -> int | None:
    """Return the number of the GPU whose memory holds X, None for the host.

    Parameters
    ----------
    X : object
        What the caller gave, or a `ResidentMatrix`.

    Returns
    -------
    int or None
        As CUDA counts the visible devices.
    """
    return X.device_id if isinstance(X, ResidentMatrix) else cuda_device_of(X)


def resident_matrix(device: Device, device_id: int, X: Any) -> ResidentMatrix:
    """Return rows over the caller's memory, converted on the device where kernels need it.

    Parameters
    ----------
    device : Device
        Where X is.
    device_id : int
        Its number.
    X : object
        A dense array, frame, or CSR or CSC matrix on the device; or a `ResidentMatrix`.

    Returns
    -------
    ResidentMatrix
        C-contiguous float32 and float64 are used in place; other orders, other numbers (as
        float64) and CSC are copied once, on the device.

    Raises
    ------
    ValueError
        If X has not two axes, or holds no real numbers.
    """
    if isinstance(X, ResidentMatrix):
        return X
    with device.use():
        if hasattr(type(X), "tocsr"):
            return ResidentMatrix(device, device_id, _compressed(device, X), X)
        values = adopted(device, "X", X)
        if values.ndim != 2:
            raise ValueError(
                f"Expected 2D array, got {values.ndim}D array instead: shape {values.shape}. "
                "Reshape your data either using X.reshape(-1, 1) if your data has a single feature "
                "or X.reshape(1, -1) if it contains a single sample."
            )
        rows = DenseRows(device.xp.ascontiguousarray(_as_floats(values)))
    return ResidentMatrix(device, device_id, rows, X)


def _compressed(device: Device, X: Any) -> CompressedRows:
    if X.format not in ("csr", "csc") or X.ndim != 2:
        raise ValueError(
            f"X: expected a CSR or CSC matrix, got {X.ndim}D {X.format} on a GPU; use X.tocsr()"
        )
    if X.format == "csc":
        columns = _stored(device, X, X.shape[1], X.shape[0])
        if not has_legal_indices(device, DeviceMatrix(columns)):
            raise ValueError(
                f"X: indptr must rise from 0 to at most {len(X.indices)}, and row indices lie in "
                f"[0, {X.shape[0]}), got others"
            )
        return transposed(device, columns)
    return _stored(device, X, X.shape[0], X.shape[1])


def _stored(device: Device, X: Any, n_major: int, n_minor: int) -> CompressedRows:
    """Return the arrays of a CSR matrix, or of the transpose of a CSC matrix."""
    indptr, indices = (
        device.xp.ascontiguousarray(adopted(device, name, array))
        for name, array in (("indptr", X.indptr), ("indices", X.indices))
    )
    values = device.xp.ascontiguousarray(_as_floats(adopted(device, "X", X.data)))
    if len(indptr) != n_major + 1:
        raise ValueError(f"indptr: expected {n_major + 1} elements, got {len(indptr)}")
    if indptr.dtype != indices.dtype:
        indptr, indices = indptr.astype(np.int64), indices.astype(np.int64)
    n_used = max(0, int(device.to_host(indptr[-1:])[0]))  # entries behind it are of no row
    return CompressedRows(indptr, indices[:n_used], values[:n_used], n_minor)


def _as_floats(values: Any) -> Any:
    """Return float32 and float64 as they are, other numbers as float64."""
    if values.dtype in _FLOATS:
        return values
    if values.dtype.kind not in "biuf":
        expected = BFLOAT16_HINT if "bfloat16" in str(values.dtype) else "expected real numbers"
        raise ValueError(f"X: {expected}; got dtype {values.dtype}")
    return values.astype(np.float64)
