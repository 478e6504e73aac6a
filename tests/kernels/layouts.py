"""The same small matrix in every form that kernels read, and the numbers it stands for."""

import numpy as np
from reference.data import make_rows
from scipy import sparse

from snapml.kernels import CompressedRows, DenseRows, RankedRows

from .emulator import EmulatedDevice

CONSTANT_ENTRY = 0.5
LAYOUTS = ["dense", "int32", "int64", "constant"]
SHAPES = [(0, 3), (1, 1), (1, 40), (33, 1), (100, 7), (45, 28), (19, 300)]


def make_matrix(layout, dtype, n_rows, n_cols):
    """Return a matrix for kernels and, in float64, for NumPy; some rows and columns are empty."""
    X = make_rows(n_rows, n_cols, density=1.0 if layout == "dense" else 0.3)
    X[::5] = 0.0
    if layout == "constant":
        X = np.where(X != 0, CONSTANT_ENTRY, 0.0)
    if layout == "dense":
        return DenseRows(np.ascontiguousarray(X, dtype=dtype)), X
    rows = compressed(sparse.csr_array(X), layout, dtype)
    return RankedRows.make(EmulatedDevice(), rows), X


def compressed(matrix, layout, dtype):
    """Return a CSR matrix of SciPy's as kernels read it."""
    index = np.int64 if layout == "int64" else np.int32
    values = None if layout == "constant" else matrix.data.astype(dtype)
    arrays = matrix.indptr.astype(index), matrix.indices.astype(index), values
    return CompressedRows(*arrays, matrix.shape[1], CONSTANT_ENTRY, dtype)
