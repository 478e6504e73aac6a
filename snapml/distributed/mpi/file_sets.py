"""Sets of files that ranks name, together or each its own, and what the ranks agree on of them."""

from __future__ import annotations

import hashlib
import os
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from snapml.io.division import Extent, Piece, extent_of, parts_of
from snapml.io.readers.svmlight import parsed_svmlight
from snapml.io.sources import Source, open_source
from snapml.solvers.communicator import Communicator

__all__ = [
    "FileSet",
    "Indices",
    "Terms",
    "agreed_terms",
    "check_same_label",
    "is_file_set",
    "own_pieces",
]

# Blocks of a file that are compared before ranks take it for one file, and their bytes.
_BLOCKS, _BLOCK_BYTES = 16, 4096


class FileSet(NamedTuple):
    """A rank's part of the files that it names.

    Attributes
    ----------
    pieces : list of Piece
        What it reads, in order.
    group : tuple of int
        The ranks that name the same files and divide them; only itself where no other does.
    """

    pieces: list[Piece]
    group: tuple[int, ...]


class Indices(NamedTuple):
    """What is known of the columns of svmlight text.

    Attributes
    ----------
    smallest, largest : int
        As they stand in the text; ``sys.maxsize`` and -1 where there are none.
    """

    smallest: int = sys.maxsize
    largest: int = -1

    @classmethod
    def of_all(cls, parts: Sequence[Indices]) -> Indices:
        """Return the indices of several texts.

        Parameters
        ----------
        parts : sequence of Indices
            Of each.

        Returns
        -------
        Indices
            Of all.
        """
        smallest = min((part.smallest for part in parts), default=sys.maxsize)
        return cls(smallest, max((part.largest for part in parts), default=-1))

    def is_one_based(self, zero_based: Any) -> bool:
        """Return whether index 1 is the first column.

        Parameters
        ----------
        zero_based : bool or 'auto'
            As for `load_svmlight`.

        Returns
        -------
        bool
            As asked for, or as the smallest index shows.
        """
        return self.smallest > 0 if isinstance(zero_based, str) else not zero_based


_NONE = Indices()


@dataclass(frozen=True)
class Terms:
    """What must be known of all files before any is read.

    Attributes
    ----------
    dtype : numpy dtype or None
        Of the entries; None where there are no files.
    names : tuple of str or None
        Columns that have names.
    indices : Indices
        Of svmlight text.
    """

    dtype: np.dtype | None = None
    names: tuple[str, ...] | None = None
    indices: Indices = _NONE

    def source(self, piece: Piece, **options: Any) -> Source:
        """Open a piece such that its rows fit those of all others.

        Parameters
        ----------
        piece : Piece
            What to read.
        **options : object
            For `open_source`.

        Returns
        -------
        Source
            Its rows.
        """
        if piece.format == "svmlight":
            options["zero_based"] = not self.indices.is_one_based("auto")
        elif self.names is not None:
            options["columns"] = list(self.names)
        options |= piece.options
        return open_source(piece.path, format=piece.format, dtype=self.dtype, **options)


def is_file_set(X: Any) -> bool:
    """Return whether X is a path, or a list of paths, which may be empty.

    Parameters
    ----------
    X : object
        What a user passes as rows.

    Returns
    -------
    bool
        True for files, whatever their format.
    """
    paths = X if isinstance(X, list | tuple) else [X]
    return all(isinstance(path, str | os.PathLike) for path in paths)


def own_pieces(communicator: Communicator, X: Any, format: str = "auto") -> FileSet | None:
    """Divide the files that ranks name together; those that only one names are its own.

    Parameters
    ----------
    communicator : Communicator
        The ranks; all of them call this.
    X : str, path-like, list of them, or None
        A set of files of one format; None where this rank names none.
    format : str, default='auto'
        As for `snapml.io.convert`.

    Returns
    -------
    FileSet or None
        This rank's part; None where it names no files.

    Raises
    ------
    FileNotFoundError
        If one is missing.
    ValueError
        If a file is damaged, or they cannot be divided among so many ranks.
    """
    paths = None if X is None else list(X) if isinstance(X, list | tuple) else [X]
    marks = communicator.exchange(None if paths is None else _mark(paths))
    group = tuple(k for k, mark in enumerate(marks) if mark == marks[communicator.rank])
    number = group.index(communicator.rank)
    own = [] if paths is None else paths[number :: len(group)]
    found = communicator.exchange([extent_of(path, format) for path in own])
    if not paths:
        return None if paths is None else FileSet([], (communicator.rank,))
    extents: list[Extent] = [
        found[group[k % len(group)]][k // len(group)] for k in range(len(paths))
    ]
    return FileSet(parts_of(extents, len(group))[number], group)


def agreed_terms(
    communicator: Communicator, pieces: Sequence[Piece], *, dtype: Any = None, **options: Any
) -> Terms:
    """Look at the own files' headers, and at the indices of text, and agree on what they have.

    Parameters
    ----------
    communicator : Communicator
        The ranks; all of them call this.
    pieces : sequence of Piece
        This rank's.
    dtype : numpy dtype or None, default=None
        What is wanted; None takes a type that holds all entries as they are.
    **options : object
        For `open_source`: what the columns are for.

    Returns
    -------
    Terms
        The same on all ranks.

    Raises
    ------
    ValueError
        If the files' columns have different names.
    """
    found = communicator.exchange([_terms_of(piece, options) for piece in pieces])
    terms = [term for own in found for term in own]
    names = [term.names for term in terms]
    if len({None if own is None else tuple(sorted(own)) for own in names}) > 1:
        other = next(own for own in names if own is None or set(own) != set(names[0] or ()))
        raise ValueError(
            "X: expected files whose columns have the same names, got "
            f"{_shown(names[0])} and {_shown(other)}"
        )
    types = [term.dtype for term in terms if term.dtype is not None]
    common = np.dtype(dtype) if dtype is not None else np.result_type(*types) if types else None
    indices = Indices.of_all([term.indices for term in terms])
    return Terms(common, names[0] if names else None, indices)


def check_same_label(communicator: Communicator, group: tuple[int, ...], label: Any) -> None:
    """Refuse ranks that read the same files, but not the same column of labels.

    Parameters
    ----------
    communicator : Communicator
        The ranks; all of them call this.
    group : tuple of int
        Those that name the same files as this one.
    label : str, int or None
        This rank's.
    """
    found = communicator.exchange((group, repr(label)))
    for first, *others in sorted({own for own, _ in found if own}):
        for other in others:
            if found[other][1] != found[first][1]:
                raise ValueError(
                    "y: expected the same column of labels on all ranks that divide files, got "
                    f"{found[first][1]} on rank {first} and {found[other][1]} on rank {other}"
                )


def _terms_of(piece: Piece, options: dict[str, Any]) -> Terms:
    source = open_source(piece.path, format=piece.format, **options, **piece.options)
    indices = _NONE
    if piece.format == "svmlight":
        rows = parsed_svmlight(piece.path, keeps_rows=False, **piece.options)
        indices = Indices(rows.smallest, rows.largest)
    return Terms(source.dtype, source.feature_names, indices)


def _mark(paths: list[Any]) -> str:
    """Return what ranks must have in common to read the same files: names, sizes and a sample.

    Files of the same name on disks of their own differ in it.
    """
    # Without symbolic links resolved: a mount may be at another place on each machine.
    names = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - Path.absolute keeps ".."
    for path, absolute in zip(paths, names, strict=True):
        if not Path(absolute).exists():
            raise FileNotFoundError(f"{path}: expected a file or folder with rows, found none")
    files = [file for absolute in names for file in _files_of(Path(absolute))]
    first = next((name for name, n_bytes in files if n_bytes), None)
    checksum = None if first is None else _checksum(Path(first))
    return hashlib.sha256(repr((names, files, checksum)).encode()).hexdigest()


def _files_of(path: Path) -> list[tuple[str, int]]:
    """Return all files of a folder, or the file itself, with their bytes."""
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [(str(file), file.stat().st_size) for file in found if file.is_file()]


def _checksum(path: Path) -> int:
    """Return the checksum of some blocks of a file."""
    last = max(0, path.stat().st_size - _BLOCK_BYTES)
    checksum = 0
    with path.open("rb") as stream:
        for k in range(_BLOCKS):
            stream.seek(last * k // (_BLOCKS - 1))
            checksum = zlib.crc32(stream.read(_BLOCK_BYTES), checksum)
    return checksum


def _shown(names: tuple[str, ...] | None) -> str:
    return "none" if names is None else str(list(names))
