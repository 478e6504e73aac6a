"""Which of the rows that `fit` is given are this rank's."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from snapml.data import ChunkedDataset
from snapml.distributed.mpi.file_sets import (
    FileSet,
    Terms,
    agreed_terms,
    check_same_label,
    is_file_set,
    own_pieces,
)
from snapml.estimators.row_sources import opened, written_source
from snapml.io.sources import Source
from snapml.solvers.communicator import Communicator

__all__ = ["OwnPart", "own_part"]


class OwnPart(NamedTuple):
    """What a rank trains on.

    Attributes
    ----------
    X, y, sample_weight, offset : object
        As for `fit` on one machine.
    feature_names : tuple of str or None
        Those that files give their columns.
    """

    X: Any
    y: Any
    sample_weight: Any
    offset: Any = None
    feature_names: tuple[str, ...] | None = None


class _Found(NamedTuple):
    """What a rank has read of its files.

    Attributes
    ----------
    group : tuple of int
        The ranks that divide the same files.
    n_rows, n_features, n_bytes : int
        Of its part, which may be empty.
    is_sparse, has_labels : bool
        What kind of rows they are.
    """

    group: tuple[int, ...]
    n_rows: int = 0
    n_features: int = 0
    n_bytes: int = 0
    is_sparse: bool = False
    has_labels: bool = True


def own_part(
    communicator: Communicator,
    X: Any,
    y: Any,
    sample_weight: Any,
    limit: int | None,
    *,
    offset: Any = None,
) -> OwnPart:
    """Return this rank's part of what ranks name together, or what is its own as it is.

    Files are written to temporary stores; they belong inside ``with removing_temporary_stores()``.

    Parameters
    ----------
    communicator : Communicator
        The ranks; all of them call this.
    X, y, sample_weight : object
        As for `fit`.
    limit : int or None
        Bytes that this rank's rows may take in memory.
    offset : object, default=None
        As for `fit`; 0 where only other ranks have one.

    Returns
    -------
    OwnPart
        This rank's rows.

    Raises
    ------
    ValueError
        If files are missing, damaged or unlike each other, or cannot be divided.
    """
    X = X if isinstance(X, list | tuple) else opened(X)
    kinds = communicator.exchange(_kind(X))
    has_offset = any(communicator.exchange(offset is not None))
    if has_offset and offset is None:
        offset = 0.0
    given = OwnPart(X, y, sample_weight, offset)
    if "store" in kinds:
        given = _own_chunks(communicator, given)
    if "files" not in kinds:
        return given
    files = own_pieces(communicator, X if is_file_set(X) else None)
    return _own_rows(communicator, files, given, limit)


def _kind(X: Any) -> str:
    if isinstance(X, ChunkedDataset):
        return "store"
    return "files" if is_file_set(X) else "rows"


def _own_chunks(communicator: Communicator, given: OwnPart) -> OwnPart:
    """Return this rank's chunks of a store that others have opened too."""
    X = given.X
    is_store = isinstance(X, ChunkedDataset)
    marks = communicator.exchange(zlib.crc32(X.manifest.to_json().encode()) if is_store else None)
    group = [rank for rank, mark in enumerate(marks) if mark == marks[communicator.rank]]
    if not is_store or len(group) == 1:
        return given
    part, rows = X.share(group.index(communicator.rank), len(group))
    return _with_own_numbers(given, rows, X.shape[0])._replace(X=part)


def _own_rows(
    communicator: Communicator, files: FileSet | None, given: OwnPart, limit: int | None
) -> OwnPart:
    """Read this rank's pieces, and agree with the others on what they have found."""
    is_name = isinstance(given.y, str | int) and not isinstance(given.y, bool)
    is_column = is_name and files is not None
    label = given.y if is_column else None
    group = () if files is None else files.group
    check_same_label(communicator, group, label)
    pieces = [] if files is None else files.pieces
    terms = agreed_terms(communicator, pieces, label=label)
    store = None if files is None else _stored(files, terms, label, limit)
    found = communicator.exchange(_summary(group, store, is_known=files is not None))
    _check_rows(found, None if is_column else given.y)
    if files is None:
        return given
    n_features = max(own.n_features for own in found if own is not None)
    # Solvers choose by where rows are, and must choose alike.
    is_loaded = any(own is None or own.n_rows == 0 for own in found)
    if is_loaded:
        _check_memory(found[communicator.rank], limit)
    X, labels = _rows_of(store, found, n_features, terms, is_loaded=is_loaded)
    own = given._replace(y=None) if is_column else given
    if len(group) > 1:
        before = sum(found[rank].n_rows for rank in group if rank < communicator.rank)
        n_rows = sum(found[rank].n_rows for rank in group)
        rows = slice(before, before + found[communicator.rank].n_rows)
        own = _with_own_numbers(own, rows, n_rows)
    y = labels if own.y is None else own.y
    return own._replace(X=X, y=y, feature_names=terms.names)


def _stored(files: FileSet, terms: Terms, label: Any, limit: int | None) -> ChunkedDataset | None:
    """Write this rank's rows to a temporary store; None where there are none."""

    def batches() -> Iterator[Any]:
        for piece in files.pieces:
            yield from terms.source(piece, label=label).batches

    rows = (batch for batch in batches() if batch.X.shape[0])
    first = next(rows, None)
    if first is None:
        return None
    name = files.pieces[0].path
    return written_source(Source(name, chain([first], rows)), limit)


def _summary(
    group: tuple[int, ...], store: ChunkedDataset | None, *, is_known: bool
) -> _Found | None:
    if store is None:
        return _Found(group) if is_known else None
    schema = store.manifest.schema
    n_bytes = sum(store.chunk_bytes)
    return _Found(group, *store.shape, n_bytes, schema.is_sparse, schema.has_labels)


def _check_rows(found: list[_Found | None], y: Any) -> None:
    """Refuse files without rows, of different kinds, or without targets."""
    filled = {rank: own for rank, own in enumerate(found) if own is not None and own.n_rows}
    if not filled and None not in found:
        raise ValueError("X: expected at least one row in the files of all ranks, got none")
    if y is None:
        for rank, own in filled.items():
            if not own.has_labels:
                raise ValueError(
                    f"y: expected targets, since the rows of rank {rank} come without: pass the "
                    "name of their column, or labels beside X"
                )


def _check_memory(own: _Found, limit: int | None) -> None:
    if limit is not None and own.n_bytes > limit:
        raise ValueError(
            f"X: other ranks have no rows of the files, so this one's must fit memory: expected at "
            f"most memory_limit, {limit} bytes, got {own.n_bytes}: start fewer ranks, or divide "
            "the files more evenly"
        )


def _rows_of(
    store: ChunkedDataset | None,
    found: list[_Found | None],
    n_features: int,
    terms: Terms,
    *,
    is_loaded: bool,
) -> tuple[Any, Any]:
    """Return a rank's rows and labels: in a store, or in memory."""
    if store is None:
        none = np.empty((0, n_features), terms.dtype)
        is_sparse = any(own is not None and own.is_sparse for own in found)
        return (csr_matrix(none) if is_sparse else none), np.empty(0)
    if store.manifest.schema.is_sparse:
        store = store.widened(n_features)
    return store.load() if is_loaded else (store, None)


def _with_own_numbers(given: OwnPart, rows: slice, n_rows: int) -> OwnPart:
    """Return a part with this rank's share of the numbers beside rows that ranks share."""
    names = ("y", "sample_weight", "offset")
    own = {name: _of_rows(name, getattr(given, name), rows, n_rows) for name in names}
    return given._replace(**own)


def _of_rows(name: str, vector: Any, rows: slice, n_rows: int) -> Any:
    """Return this rank's part of numbers beside rows that ranks share."""
    if vector is None:
        return None
    found = np.asarray(vector)
    if found.ndim and len(found) != n_rows:
        raise ValueError(
            f"{name}: expected {n_rows} numbers beside rows that ranks share, one for each of "
            f"them, got {len(found)}"
        )
    return found[rows] if found.ndim else vector
