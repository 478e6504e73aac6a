"""Rows as the kernels of the dual engine take them: any layout, and a mean to subtract."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from snapml.kernels.device.device import Argument
from snapml.kernels.device.program import core_type
from snapml.kernels.matrices.layouts import CompressedRows, DenseRows

__all__ = ["DeviceMatrix", "layout_macros"]


def layout_macros(real: np.dtype, index: np.dtype | None) -> tuple[tuple[str, str], ...]:
    """Return the macros of warp_rows.cuh for a type of entries, and of indices if there are any."""
    entries = core_type(real)
    if index is None:
        view, index = f"snapml::DenseView<{entries}>", np.dtype(np.int32)
    else:
        view = f"snapml::CompressedView<{entries},{core_type(index)}>"
    return (("SNAPML_VIEW", view), ("SNAPML_INDEX", core_type(index)))


@dataclass(frozen=True)
class DeviceMatrix:
    """Dense or compressed rows.

    Attributes
    ----------
    rows : DenseRows or CompressedRows
        In the device's memory.
    mean : array of the device of shape (n_columns,) or None
        What the descent subtracts from dense rows.
    """

    rows: DenseRows | CompressedRows
    mean: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.rows.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the entries, and of the vectors they are multiplied with."""
        return np.dtype(self.rows.dtype)

    @property
    def is_dense(self) -> bool:
        """Whether every entry is stored."""
        return isinstance(self.rows, DenseRows)

    @property
    def index_dtype(self) -> np.dtype | None:
        """Type of the indices, None where rows are dense."""
        return None if isinstance(self.rows, DenseRows) else np.dtype(self.rows.indices.dtype)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The kernels' parameters SNAPML_MATRIX."""
        n_rows, n_columns = self.shape
        sizes = (np.int64(n_rows), np.int64(n_columns))
        if isinstance(self.rows, DenseRows):
            return (None, None, self.rows.values, self.dtype.type(0), self.mean, *sizes)
        rows = self.rows
        constant = self.dtype.type(rows.constant)
        return (rows.indptr, rows.indices, rows.values, constant, None, *sizes)

    def centred(self, mean: Any) -> DeviceMatrix:
        """Return the same rows, from which the descent subtracts `mean`."""
        return replace(self, mean=mean)
