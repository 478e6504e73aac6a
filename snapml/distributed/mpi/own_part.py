"""Which of the rows that `fit` is given are this rank's."""

from __future__ import annotations

import os
import zlib
from typing import Any, NamedTuple

import numpy as np

from snapml.data import ChunkedDataset
from snapml.estimators.row_sources import opened
from snapml.solvers.communicator import Communicator

__all__ = ["OwnPart", "own_part"]


class OwnPart(NamedTuple):
    """What a rank trains on.

    Attributes
    ----------
    X, y, sample_weight : object
        As for `fit`.
    """

    X: Any
    y: Any
    sample_weight: Any


def own_part(communicator: Communicator, X: Any, y: Any, sample_weight: Any) -> OwnPart:
    """Return this rank's part of what all ranks name together, or what is its own as it is.

    Parameters
    ----------
    communicator : Communicator
        The ranks; all of them call this.
    X, y, sample_weight : object
        As for `fit`.

    Returns
    -------
    OwnPart
        This rank's rows.

    Raises
    ------
    ValueError
        If all ranks name a file that cannot be divided.
    """
    X = opened(X)
    mark = None
    if isinstance(X, ChunkedDataset):
        mark = f"store {zlib.crc32(X.manifest.to_json().encode())}"
    elif isinstance(X, str | os.PathLike):
        mark = os.fspath(X)
    marks = communicator.exchange(mark)
    if communicator.size == 1 or mark is None or len(set(marks)) > 1:
        return OwnPart(X, y, sample_weight)
    if isinstance(X, ChunkedDataset):
        part, rows = X.share(communicator.rank, communicator.size)
        return OwnPart(part, _of_rows(rows, y), _of_rows(rows, sample_weight))
    raise ValueError(
        f"X: all ranks name {mark}: expected a chunk store, of which each rank reads its part, "
        "or another file on each rank; snapml.io.convert makes a store"
    )


def _of_rows(rows: slice, vector: Any) -> Any:
    return None if vector is None else np.asarray(vector)[rows]
