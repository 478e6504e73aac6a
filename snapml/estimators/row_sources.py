"""Rows that come from files and streams: written to a temporary store for a fit, or read once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from snapml._validation import check_exists, check_names, check_predict_batch
from snapml.data import ChunkedDataset, ChunkWriter, Matrix
from snapml.data.store.chunk_format import MANIFEST
from snapml.data.store.temporary_store import temporary_store_path
from snapml.io.convert import write_source
from snapml.io.sources import Source, is_source, open_source

__all__ = ["is_row_source", "opened", "rows_of_source", "stored_source", "written_source"]

_LARGEST_CHUNK, _SMALLEST_CHUNK = 64 * 2**20, 2**18
# Chunks in a limit: three pass, the others may stay.
_CHUNKS = 8


def opened(X: Any) -> Any:
    """Return the store of a path, and everything else as it is.

    Parameters
    ----------
    X : object
        What a user passes as rows.

    Returns
    -------
    object
        X, or a `ChunkedDataset`.

    Raises
    ------
    ValueError
        If there is no file or folder of this name.
    """
    if isinstance(X, str | os.PathLike):
        check_exists(X)
        if (Path(X) / MANIFEST).exists():
            return ChunkedDataset.open(X)
    return X


def is_row_source(X: Any) -> bool:
    """Return whether X is a path, an Arrow stream or an iterator of batches.

    Parameters
    ----------
    X : object
        What a user passes as rows.

    Returns
    -------
    bool
        False for rows in memory and for an open store.
    """
    return not isinstance(X, ChunkedDataset) and is_source(X)


def stored_source(
    X: Any, y: Any, limit: int | None
) -> tuple[ChunkedDataset, Any, tuple[str, ...] | None]:
    """Write a source to a temporary store, which goes with the fit.

    Parameters
    ----------
    X : str, path-like, Arrow stream or iterator
        As for `snapml.io.convert`.
    y : str, int, array-like or None
        The column of labels by name or number; labels beside X; or None for those that come along.
    limit : int or None
        Bytes that the rows may take in memory.

    Returns
    -------
    store : ChunkedDataset
        The rows.
    y : array-like or None
        Labels beside X.
    feature_names : tuple of str or None
        Where the columns have names.

    Raises
    ------
    ValueError, TypeError, OSError
        As `snapml.io.convert` does, and if there is too little room in ``TMPDIR``.
    """
    is_column = isinstance(y, str | int) and not isinstance(y, bool)
    source = open_source(X, label=y if is_column else None)
    first = next(source.batches, None)
    if y is None and first is not None and first.y is None:
        raise ValueError(
            f"{source.name}: y: expected targets, since these rows come without: pass the name of "
            "their column, or labels beside X"
        )
    source = replace(source, batches=chain([] if first is None else [first], source.batches))
    return written_source(source, limit), None if is_column else y, source.feature_names


def written_source(source: Source, limit: int | None) -> ChunkedDataset:
    """Write all rows of a source to a temporary store.

    Parameters
    ----------
    source : Source
        The rows.
    limit : int or None
        Bytes that they may take in memory.

    Returns
    -------
    ChunkedDataset
        The rows.

    Raises
    ------
    ValueError, TypeError, OSError
        As `stored_source` does.
    """
    is_known = source.n_rows is not None and source.row_bytes is not None
    path = temporary_store_path(
        (source.n_rows or 0) * (source.row_bytes or 0) if is_known else None
    )
    chunk_bytes = _LARGEST_CHUNK
    if limit is not None:
        chunk_bytes = min(max(limit // _CHUNKS, _SMALLEST_CHUNK), _LARGEST_CHUNK)
    with ChunkWriter(path, chunk_bytes=chunk_bytes) as writer:
        write_source(source, writer)
    return ChunkedDataset.open(path)


def rows_of_source(estimator: Any, X: Any) -> Iterator[Matrix]:
    """Read rows to predict on, batch by batch and once.

    Parameters
    ----------
    estimator : fitted estimator
        Says how many features, and which, were seen in fit.
    X : str, path-like, Arrow stream or iterator
        As for `snapml.io.convert`; columns that fit did not see by name are left out.

    Yields
    ------
    Matrix
        The rows of a batch.

    Raises
    ------
    ValueError
        If a batch has another number of features than in fit, is not finite, or there are no rows.
    """
    names = getattr(estimator, "feature_names_in_", None)
    source = open_source(
        X,
        n_features=estimator.n_features_in_,
        known_features=None if names is None else names.tolist(),
        known_encoding=getattr(estimator, "encoding_", None),
    )
    check_names(estimator, source.feature_names)
    batches = (batch for batch in source.batches if batch.X.shape[0] > 0)
    first = next(batches, None)
    if first is None:
        raise ValueError(f"{source.name}: expected at least one row, got none")
    for number, batch in enumerate(chain([first], batches)):
        try:
            rows = check_predict_batch(estimator, batch.X)
        except ValueError as error:
            raise ValueError(f"{source.name}, batch {number}: {error}") from error
        yield rows
