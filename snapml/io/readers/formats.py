"""Which format a file or folder has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from snapml.data import ChunkedDataset
from snapml.data.store.chunk_format import MANIFEST

__all__ = ["FORMATS", "delimiter_of", "format_of"]

FORMATS = ("svmlight", "snap", "parquet", "arrow", "csv", "npy", "clicklog", "store")
"""Formats of files and folders."""

_SUFFIXES = {
    ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight", ".txt": "svmlight",
    ".snap": "snap", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow",
    ".arrows": "arrow", ".feather": "arrow", ".ipc": "arrow", ".csv": "csv", ".tsv": "csv",
    ".npy": "npy",
}  # fmt: skip
_COMPRESSED = (".gz", ".xz", ".bz2", ".zst")


def delimiter_of(path: Path) -> str:
    """Return what stands between the fields of CSV text of such a name.

    Parameters
    ----------
    path : pathlib.Path
        The file.

    Returns
    -------
    str
        A tab where the name says so, else a comma.
    """
    return "\t" if _plain_suffix(path) == ".tsv" else ","


def _plain_suffix(path: Path) -> str:
    """Return the suffix of a name, without that of compression."""
    name = path.name.lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return Path(name).suffix


def format_of(source: Any, format: str) -> tuple[str, Path]:
    """Decide how to read a source.

    Parameters
    ----------
    source : object
        As for `open_source`.
    format : str
        As for `open_source`.

    Returns
    -------
    kind : str
        One of `FORMATS`, 'stream' or 'iterator'.
    path : pathlib.Path
        Of the file or folder.

    Raises
    ------
    FileNotFoundError, ValueError, TypeError
        As `open_source` does.
    """
    if format not in ("auto", *FORMATS):
        raise ValueError(f"format: expected 'auto' or one of {FORMATS}, got {format!r}")
    if isinstance(source, ChunkedDataset):
        return "store", Path()
    if not isinstance(source, str | os.PathLike):
        if format != "auto":
            raise TypeError(
                f"format={format!r}: expected a path, got {type(source).__name__}: use 'auto'"
            )
        if hasattr(source, "__arrow_c_stream__"):
            return "stream", Path()
        if isinstance(source, Iterator) and not hasattr(source, "readinto"):
            return "iterator", Path()
        raise TypeError(
            "expected a path, a store, an Arrow stream or an iterator of batches, got "
            f"{type(source).__name__}"
        )
    path = Path(os.fspath(source))
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a file or folder with rows, found none")
    if format != "auto":
        return format, path
    if path.is_dir():
        return ("store" if (path / MANIFEST).exists() else _format_of_folder(path)), path
    found = _SUFFIXES.get(_plain_suffix(path))
    if found is None:
        raise ValueError(
            f"{path}: expected a name that ends in {', '.join(_SUFFIXES)}, or format=... (one of "
            f"{', '.join(FORMATS)})"
        )
    return found, path


def _format_of_folder(path: Path) -> str:
    if next(path.rglob("*.parquet"), None) is not None:
        return "parquet"
    raise ValueError(
        f"{path}: expected the folder of a store, with its {MANIFEST}, or one of Parquet files; a "
        "store without a manifest was never finished"
    )
