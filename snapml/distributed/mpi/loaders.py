"""Files to memory: each rank reads its part of what the ranks name together."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse, vstack

from snapml.distributed.mpi.agreement import check_alike, together
from snapml.distributed.mpi.file_sets import Indices, agreed_terms, is_file_set, own_pieces
from snapml.io import load_snap as load_local_snap
from snapml.io.division import Piece
from snapml.io.readers.batch import Batch
from snapml.io.readers.svmlight import parsed_svmlight
from snapml.solvers.communicator import Communicator

__all__ = ["load_parquet", "load_snap", "load_svmlight"]


def load_svmlight(
    path: Any,
    *,
    comm: Any,
    n_features: int | None = None,
    n_threads: int | None = None,
    dtype: Any = np.float64,
    zero_based: bool | str = "auto",
) -> tuple[csr_matrix, np.ndarray]:
    """Load this rank's rows of svmlight text; those of all ranks, in their order, are the whole.

    Ranks that name the same files divide them by bytes, each reading the lines that begin in its
    part; other files are each rank's own. Compressed files cannot be cut: each goes to one rank.

    Parameters
    ----------
    path : str, path-like or list of them
        Plain text, or compressed by gzip, bzip2, xz or zstd; several files are one behind the
        other. The list of a rank may be empty.
    comm : mpi4py.MPI.Intracomm
        The ranks; all of them call this.
    n_features : int or None, default=None
        Number of columns; None takes the largest index of all ranks for the last one.
    n_threads : int or None, default=None
        Threads of this rank that parse; None means all cores that it may use.
    dtype : numpy dtype, default=numpy.float64
        Type of the values, float32 or float64.
    zero_based : bool or 'auto', default='auto'
        Whether indices begin at 0; 'auto' takes them for one-based where no rank finds a 0.

    Returns
    -------
    X : scipy.sparse.csr_matrix of shape (n_own_rows, n_features)
        This rank's rows; there may be none.
    y : ndarray of shape (n_own_rows,), float64
        Their labels.

    Raises
    ------
    RankError
        If another rank has failed; it says which, and of what.
    FileNotFoundError
        If a file is missing.
    ValueError
        If files are malformed or cannot be divided, or parameters differ between ranks.
    """
    with together(comm) as communicator:
        options = {"dtype": str(np.dtype(dtype)), "zero_based": repr(zero_based)}
        check_alike(
            "load_svmlight",
            communicator.exchange({**options, "n_features": repr(n_features)}),
        )
        pieces = _pieces(communicator, path, "svmlight")
        return svmlight_rows(
            communicator,
            pieces,
            n_features,
            n_threads=n_threads,
            dtype=dtype,
            zero_based=zero_based,
        )


def svmlight_rows(
    communicator: Communicator, pieces: list[Piece], n_features: int | None, **options: Any
) -> tuple[csr_matrix, np.ndarray]:
    """Parse pieces of text, with the columns that all ranks have.

    Parameters
    ----------
    communicator : Communicator
        The ranks; all of them call this.
    pieces : list of Piece
        This rank's.
    n_features : int or None
        As for `load_svmlight`.
    **options : object
        ``n_threads``, ``dtype`` and ``zero_based`` as for `load_svmlight`.

    Returns
    -------
    X, y
        As `load_svmlight` does.
    """
    parsed = [parsed_svmlight(piece.path, **options, **piece.options) for piece in pieces]
    found = communicator.exchange([(rows.smallest, rows.largest) for rows in parsed])
    indices = Indices.of_all([Indices(*pair) for own in found for pair in own])
    is_one_based = indices.is_one_based(options["zero_based"])
    least = max(0, indices.largest + (0 if is_one_based else 1))
    if n_features is not None and n_features < least:
        raise ValueError(
            f"n_features={n_features}, but the largest index is {indices.largest}, "
            f"{'one' if is_one_based else 'zero'}-based: expected at least {least}"
        )
    n_columns = least if n_features is None else n_features
    parts = [rows.matrix(n_columns, is_one_based) for rows in parsed]
    X = _stacked([rows for rows, _ in parts], csr_matrix((0, n_columns), dtype=options["dtype"]))
    return X, np.concatenate([np.empty(0), *(labels for _, labels in parts)])


def load_snap(path: Any, *, comm: Any) -> tuple[np.ndarray | csr_matrix, np.ndarray]:
    """Load this rank's rows of IBM Snap ML's binary files; those of all ranks are the whole.

    Ranks that name the same files divide them by rows; other files are each rank's own. Files by
    columns cannot be cut: each goes to one rank.

    Parameters
    ----------
    path : str, path-like or list of them
        Files that are all dense, or all sparse. The list of a rank may be empty.
    comm : mpi4py.MPI.Intracomm
        The ranks; all of them call this.

    Returns
    -------
    X : ndarray or scipy.sparse.csr_matrix of shape (n_own_rows, n_features), float32
        This rank's rows; there may be none. Sparse ones have the columns of the widest file.
    y : ndarray of shape (n_own_rows,), float32
        Their labels.

    Raises
    ------
    RankError
        If another rank has failed; it says which, and of what.
    FileNotFoundError
        If a file is missing.
    ValueError
        If files are damaged, unlike each other, or cannot be divided.
    """
    with together(comm) as communicator:
        return snap_rows(communicator, _pieces(communicator, path, "snap"))


def snap_rows(
    communicator: Communicator, pieces: list[Piece]
) -> tuple[np.ndarray | csr_matrix, np.ndarray]:
    """Load pieces of snap files, with the columns that all ranks have.

    Parameters
    ----------
    communicator : Communicator
        The ranks; all of them call this.
    pieces : list of Piece
        This rank's.

    Returns
    -------
    X, y
        As `load_snap` does.
    """
    parts = [load_local_snap(piece.path, **piece.options) for piece in pieces]
    found = communicator.exchange([(bool(issparse(X)), int(X.shape[1])) for X, _ in parts])
    kinds = sorted({kind for own in found for kind in own})
    if not kinds:
        raise ValueError("expected at least one file, got none on any rank")
    is_sparse, n_columns = kinds[-1]
    if any(kind[0] != is_sparse or (kind != kinds[0] and not is_sparse) for kind in kinds):
        shown = [f"{'sparse' if kind[0] else 'dense'} with {kind[1]} columns" for kind in kinds]
        raise ValueError(f"expected files that are alike, got {', '.join(shown)}")
    for X, _ in parts:
        if is_sparse:
            X.resize(X.shape[0], n_columns)
    none = np.empty((0, n_columns), np.float32)
    y = np.concatenate([np.empty(0, np.float32), *(labels for _, labels in parts)])
    return _stacked([X for X, _ in parts], csr_matrix(none) if is_sparse else none), y


def load_parquet(
    path: Any,
    *,
    comm: Any,
    label: str | None = None,
    weight: str | None = None,
    columns: list[str] | None = None,
    dtype: Any = None,
) -> Batch:
    """Load this rank's rows of Parquet files; those of all ranks, in their order, are the whole.

    Ranks that name the same files divide them by rows, between row groups where these are small;
    both ranks read a group that a cut divides. Other files are each rank's own.

    Parameters
    ----------
    path : str, path-like or list of them
        Files or folders of them, with columns of the same names. The list of a rank may be empty.
    comm : mpi4py.MPI.Intracomm
        The ranks; all of them call this.
    label, weight : str or None, default=None
        Columns of labels and of weights.
    columns : list of str or None, default=None
        Features; None means all other columns.
    dtype : numpy dtype or None, default=None
        float32 or float64; None takes float32 where it holds all features as they are.

    Returns
    -------
    Batch
        ``(X, y, sample_weight)`` of this rank: the features, dense, and labels and weights or None.

    Raises
    ------
    RankError
        If another rank has failed; it says which, and of what.
    FileNotFoundError
        If a file is missing.
    ValueError, TypeError
        If files are damaged or unlike each other, or columns are missing or no numbers.
    """
    roles = {"label": label, "weight": weight, "columns": columns}
    with together(comm) as communicator:
        wanted = {name: repr(value) for name, value in {**roles, "dtype": dtype}.items()}
        check_alike("load_parquet", communicator.exchange(wanted))
        given = {name: value for name, value in roles.items() if value is not None}
        return parquet_rows(communicator, _pieces(communicator, path, "parquet"), dtype, **given)


def parquet_rows(
    communicator: Communicator, pieces: list[Piece], dtype: Any, **roles: Any
) -> Batch:
    """Load pieces of Parquet files, in the types that all ranks have.

    Parameters
    ----------
    communicator : Communicator
        The ranks; all of them call this.
    pieces : list of Piece
        This rank's.
    dtype : numpy dtype or None
        As for `load_parquet`.
    **roles : object
        ``label``, ``weight`` and ``columns`` as for `load_parquet`.

    Returns
    -------
    Batch
        As `load_parquet` does.
    """
    terms = agreed_terms(communicator, pieces, dtype=dtype, **roles)
    parts = [batch for piece in pieces for batch in terms.source(piece, **roles).batches]
    X, y, sample_weight = (_joined(communicator, [part[k] for part in parts]) for k in range(3))
    if X is None:
        X = np.empty((0, len(terms.names or ())), terms.dtype)
    return Batch(X, y, sample_weight)


def _joined(communicator: Communicator, found: list[Any]) -> np.ndarray | None:
    """Return a rank's arrays end to end, in the type of all ranks' and perhaps without a row."""
    arrays = [array for array in found if array is not None]
    own = (arrays[0].shape[1:], np.result_type(*arrays)) if arrays else None
    kinds = [kind for kind in communicator.exchange(own) if kind is not None]
    if not kinds:
        return None
    none = np.empty((0, *kinds[0][0]), np.result_type(*(dtype for _, dtype in kinds)))
    return np.concatenate([none, *arrays])


def _pieces(communicator: Communicator, path: Any, format: str) -> list[Piece]:
    if not is_file_set(path):
        raise TypeError(f"path: expected a path or a list of paths, got {type(path).__name__}")
    files = own_pieces(communicator, path, format)
    return [] if files is None else files.pieces


def _stacked(parts: list[Any], none: Any) -> Any:
    """Return rows one below the other; `none` says what they are where there are none."""
    if not parts:
        return none
    if len(parts) == 1:
        return parts[0]
    return vstack(parts, format="csr") if issparse(none) else np.concatenate(parts)
