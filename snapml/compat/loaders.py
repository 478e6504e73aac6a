"""The loaders and writers of IBM Snap ML under the names that its users know.

A *partition*, which its ``load_from_...`` return and its estimators take without labels beside, is
a `ChunkedDataset` here. Labels stay what they are in the file; IBM's partitions turn 0 into -1.
"""

from __future__ import annotations

import weakref
from typing import Any, NoReturn

import numpy as np
from scipy.sparse import csr_matrix

from snapml.data import ChunkedDataset, CompressedMatrix
from snapml.data.store.temporary_store import TemporaryStore
from snapml.io import convert, dump_snap, load_snap, load_svmlight

__all__ = [
    "copy_as_gpu_cmatrix",
    "dump_to_snap_format",
    "load_from_snap_format",
    "load_from_svmlight_format",
    "load_snap_file",
    "load_svmlight_file",
    "read_from_snap_format",
    "write_to_snap_format",
]


def load_from_svmlight_format(
    filename: Any, num_ft: int | None = None, num_chunks: None = None
) -> ChunkedDataset:
    """Load svmlight text as a partition, larger than memory if need be.

    Parameters
    ----------
    filename : str or path-like
        The file.
    num_ft : int or None, default=None
        Number of columns; None takes the largest index.
    num_chunks : None, default=None
        Chunks are cut by their size here, see `snapml.io.convert`.

    Returns
    -------
    ChunkedDataset
        Rows, float32, and labels, as `fit` and `predict` take them, in a store in the temporary
        folder (``TMPDIR``) that goes with the object.

    Raises
    ------
    NotImplementedError
        If `num_chunks` is given.
    ValueError, OSError
        As `snapml.io.convert` does.
    """
    _refuse_chunks(num_chunks)
    return _partition(filename, "svmlight", num_ft)


def load_from_snap_format(filename: Any, num_chunks: None = None) -> ChunkedDataset:
    """Load a binary snap file as a partition, larger than memory if need be.

    Parameters
    ----------
    filename : str or path-like
        The file.
    num_chunks : None, default=None
        Chunks are cut by their size here, see `snapml.io.convert`.

    Returns
    -------
    ChunkedDataset
        As of `load_from_svmlight_format`.

    Raises
    ------
    NotImplementedError
        If `num_chunks` is given.
    ValueError, OSError
        As `snapml.io.convert` does.
    """
    _refuse_chunks(num_chunks)
    return _partition(filename, "snap", None)


def load_svmlight_file(
    filename: Any, num_ft: int | None = None, num_chunks: None = None
) -> tuple[csr_matrix, np.ndarray]:
    """Load svmlight text into memory.

    Parameters
    ----------
    filename : str or path-like
        The file. Indices may begin with 0 or 1.
    num_ft : int or None, default=None
        Number of columns; None takes the largest index.
    num_chunks : None, default=None
        Has no meaning for rows in memory.

    Returns
    -------
    X : scipy.sparse.csr_matrix of shape (n_rows, n_features), float32
        The rows.
    y : ndarray of shape (n_rows,), float64
        Labels.

    Raises
    ------
    NotImplementedError
        If `num_chunks` is given.
    ValueError, OSError
        As `snapml.io.load_svmlight` does.
    """
    _refuse_chunks(num_chunks)
    return load_svmlight(filename, n_features=num_ft, dtype=np.float32)


def load_snap_file(
    filename: Any, num_chunks: None = None
) -> tuple[np.ndarray | csr_matrix, np.ndarray]:
    """Load a binary snap file into memory.

    Parameters
    ----------
    filename : str or path-like
        The file.
    num_chunks : None, default=None
        Has no meaning for rows in memory.

    Returns
    -------
    X : ndarray or scipy.sparse.csr_matrix of shape (n_rows, n_features), float32
        The rows.
    y : ndarray of shape (n_rows,), float32
        Labels.

    Raises
    ------
    NotImplementedError
        If `num_chunks` is given.
    ValueError, OSError
        As `snapml.io.load_snap` does.
    """
    _refuse_chunks(num_chunks)
    return load_snap(filename)


def read_from_snap_format(filename: Any) -> tuple[np.ndarray | csr_matrix, np.ndarray]:
    """Load a binary snap file into memory, as `load_snap_file` does.

    Parameters
    ----------
    filename : str or path-like
        The file.

    Returns
    -------
    X : ndarray or scipy.sparse.csr_matrix of shape (n_rows, n_features), float32
        The rows.
    y : ndarray of shape (n_rows,), float32
        Labels.
    """
    return load_snap(filename)


def dump_to_snap_format(
    X: Any, y: Any, filename: Any, col_major: bool = False, implicit_vals: bool = False
) -> None:
    """Write a binary snap file.

    Parameters
    ----------
    X : array-like or SciPy sparse matrix of shape (n_rows, n_features)
        Rounded to float32.
    y : array-like of shape (n_rows,)
        Labels.
    filename : str or path-like
        The file; one that exists is replaced.
    col_major : bool, default=False
        Whether columns come first.
    implicit_vals : bool, default=False
        Whether to leave out values: all of a sparse row must be equal, and its length 1.

    Raises
    ------
    ValueError
        If the numbers do not fit the format.
    """
    dump_snap(X, y, filename, by_column=col_major, implicit_values=implicit_vals)


def write_to_snap_format(filename: Any, data: Any, with_implicit_vals: bool = False) -> None:
    """Write a partition to a binary snap file; it must fit memory.

    Parameters
    ----------
    filename : str or path-like
        The file; one that exists is replaced.
    data : ChunkedDataset or tuple of (X, y)
        A partition, or rows and labels.
    with_implicit_vals : bool, default=False
        As `implicit_vals` of `dump_to_snap_format`.

    Raises
    ------
    ValueError
        If there are no labels, or the numbers do not fit the format.
    TypeError
        If `data` is something else.
    """
    if isinstance(data, ChunkedDataset):
        data = data.load()
    if not isinstance(data, tuple) or len(data) != 2:
        raise TypeError(
            f"data: expected a ChunkedDataset or a tuple (X, y), got {type(data).__name__}"
        )
    X, y = data
    if y is None:
        raise ValueError("data: expected labels, which every snap file has")
    if isinstance(X, CompressedMatrix):
        values = np.ones(X.n_stored, X.dtype) if X.values is None else X.values
        X = csr_matrix((values, X.indices, X.indptr), shape=X.shape)
    dump_snap(X, y, filename, implicit_values=with_implicit_vals)


def copy_as_gpu_cmatrix(in_cuDF: Any) -> NoReturn:
    """Refuse to copy a frame: estimators take what is on a GPU as it is.

    Parameters
    ----------
    in_cuDF : cudf.DataFrame
        The frame.

    Raises
    ------
    NotImplementedError
        Always.
    """
    raise NotImplementedError(
        f"copy_as_gpu_cmatrix: pass the {type(in_cuDF).__name__} itself to fit and predict, which "
        "take cuDF frames and arrays of CuPy, PyTorch and JAX where they are"
    )


def _partition(filename: Any, format: str, n_features: int | None) -> ChunkedDataset:
    """Return a store that goes with the object that reads it."""
    folder = TemporaryStore()
    try:
        store = convert(filename, folder.path, format=format, n_features=n_features)
    except BaseException:
        folder.remove()
        raise
    weakref.finalize(store, folder.remove)
    return store


def _refuse_chunks(num_chunks: Any) -> None:
    if num_chunks is not None:
        raise NotImplementedError(
            f"num_chunks={num_chunks!r}: expected None: chunks are cut by their size here; use "
            "snapml.io.convert(..., chunk_bytes=...)"
        )
