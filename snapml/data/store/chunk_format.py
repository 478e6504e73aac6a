"""The files of a chunk store: what the manifest says, and how arrays lie in a chunk.

A store is a folder. Every ``chunk-N`` holds some rows: its arrays one behind the other, little
endian, each from a multiple of 4096 bytes on. ``manifest.json`` is written last and in one step,
so that a folder without one is a store that was never finished. Chunks that a manifest lists are
never written to again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

__all__ = [
    "ALIGNMENT",
    "MANIFEST",
    "Chunk",
    "Manifest",
    "Schema",
    "array_types",
    "lay_out",
    "memory_bytes",
    "read_manifest",
]

MANIFEST = "manifest.json"
ALIGNMENT = 4096
"""Bytes between the possible beginnings of arrays: pages, and what direct reads ask for."""

_FORMAT = "snapml chunk store"
_VERSION = 3  # 1 had no narrow storage, 2 no names of labels
_NARROW_TYPES = {"bfloat16": "uint16", "uint8": "uint8"}


@dataclass(frozen=True)
class Schema:
    """What all chunks of a store have in common.

    Attributes
    ----------
    is_sparse : bool
        Whether rows are compressed.
    dtype : str
        Type of the entries, 'float32' or 'float64'.
    index_dtype : str
        Type of column indices, 'int32' or 'int64'; of compressed rows only.
    has_values : bool
        Whether entries are stored; compressed rows without values have ones.
    has_labels, has_weights : bool
        Whether rows have labels (float64) and weights (of `dtype`).
    storage : {'plain', 'bfloat16', 'uint8'}, default='plain'
        How entries of dense rows lie in the files. What is not plain was rounded when it was
        written, and is read as float32.
    """

    is_sparse: bool
    dtype: str
    index_dtype: str
    has_values: bool
    has_labels: bool
    has_weights: bool
    storage: str = "plain"


@dataclass(frozen=True)
class Chunk:
    """One file of a store.

    Attributes
    ----------
    file : str
        Its name.
    n_rows, n_stored : int
        Rows, and entries that one sweep reads.
    n_bytes : int
        Its size.
    crc32 : dict of str to int
        Checksum of each array's bytes.
    """

    file: str
    n_rows: int
    n_stored: int
    n_bytes: int
    crc32: dict[str, int]


@dataclass(frozen=True)
class Manifest:
    """What a store holds.

    Attributes
    ----------
    schema : Schema
        Types.
    n_features : int
        Columns.
    chunks : tuple of Chunk
        In the order of the rows.
    classes : tuple of float or None
        The distinct labels, sorted; None where there are many, as in regression, or no labels.
    label_names : tuple of str or bool, or None
        What labels 0, 1, ... stand for, where they were text or true and false; None where they
        are numbers.
    feature_names : tuple of str or None
        Names of the columns, where the source had them.
    encoding : mapping or None
        How raw fields became hashed columns, where they did.
    """

    schema: Schema
    n_features: int
    chunks: tuple[Chunk, ...]
    classes: tuple[float, ...] | None
    label_names: tuple[str | bool, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    encoding: Mapping[str, Any] | None = None

    @property
    def n_rows(self) -> int:
        """Rows of all chunks."""
        return sum(chunk.n_rows for chunk in self.chunks)

    @property
    def n_stored(self) -> int:
        """Stored entries of all chunks."""
        return sum(chunk.n_stored for chunk in self.chunks)

    @property
    def n_bytes(self) -> int:
        """Size of all chunks."""
        return sum(chunk.n_bytes for chunk in self.chunks)

    def to_json(self) -> str:
        """Return the text of the manifest, with its own checksum."""
        # Who does not know of names would take the numbers for the labels.
        version = _VERSION if self.label_names is not None else _VERSION - 1
        content = {"format": _FORMAT, "version": version, **asdict(self)}
        for name in ("label_names", "feature_names", "encoding"):
            if content[name] is None:
                del content[name]
        return json.dumps({**content, "crc32": _checksum(content)}, indent=1)


def array_types(schema: Schema) -> dict[str, np.dtype]:
    """Return the arrays of a chunk in their order, with their types.

    Parameters
    ----------
    schema : Schema
        Of the store.

    Returns
    -------
    dict of str to numpy.dtype
        Offsets ``indptr`` count from the chunk's first entry.
    """
    types: dict[str, str] = {}
    if schema.is_sparse:
        types |= {"indptr": schema.index_dtype, "indices": schema.index_dtype}
    if schema.storage == "uint8":  # of every column of the chunk, before what needs them
        types |= {"scales": "float32", "offsets": "float32"}
    if schema.has_values:
        types["values"] = _NARROW_TYPES.get(schema.storage, schema.dtype)
    if schema.has_labels:
        types["labels"] = "float64"
    if schema.has_weights:
        types["weights"] = schema.dtype
    return {name: np.dtype(dtype).newbyteorder("<") for name, dtype in types.items()}


def lay_out(schema: Schema, n_rows: int, n_stored: int) -> tuple[dict[str, tuple[int, int]], int]:
    """Return where the arrays of a chunk lie.

    Parameters
    ----------
    schema : Schema
        Of the store.
    n_rows, n_stored : int
        Of the chunk.

    Returns
    -------
    places : dict of str to (int, int)
        First byte and number of elements.
    n_bytes : int
        Size of the file.
    """
    n_columns = n_stored // max(1, n_rows)  # of dense rows
    counts = {
        "scales": n_columns,
        "offsets": n_columns,
        "indptr": n_rows + 1,
        "indices": n_stored,
        "values": n_stored,
        "labels": n_rows,
        "weights": n_rows,
    }
    places, end = {}, 0
    for name, dtype in array_types(schema).items():
        begin = -(-end // ALIGNMENT) * ALIGNMENT
        places[name] = begin, counts[name]
        end = begin + counts[name] * dtype.itemsize
    return places, end


def memory_bytes(schema: Schema, chunk: Chunk) -> int:
    """Return the bytes that a chunk takes in memory: its file's, or of narrow rows the wide ones'.

    Parameters
    ----------
    schema : Schema
        Of the store.
    chunk : Chunk
        Which.

    Returns
    -------
    int
        Bytes.
    """
    if schema.storage == "plain":
        return chunk.n_bytes
    return chunk.n_stored * np.dtype(schema.dtype).itemsize


def read_manifest(folder: Path) -> Manifest:
    """Read and check a manifest, and the sizes of the files it lists.

    Parameters
    ----------
    folder : pathlib.Path
        The store.

    Returns
    -------
    Manifest
        What the store holds.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        If it is not a finished store, of a newer version, damaged, or lacks chunks.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: expected the folder of a chunk store, found none")
    path = folder / MANIFEST
    if not path.exists():
        raise ValueError(
            f"{folder}: expected a chunk store, but there is no {MANIFEST}: the store was never "
            "finished, or this is another folder"
        )
    try:
        content = json.loads(path.read_bytes())
        is_ours = content["format"] == _FORMAT
        version = int(content["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: expected the manifest of a chunk store: {error!r}") from error
    if not is_ours:
        raise ValueError(f"{path}: expected format {_FORMAT!r}, got {content['format']!r}")
    if version > _VERSION:
        raise ValueError(
            f"{path}: expected at most version {_VERSION}, got {version}: a newer snapml wrote it"
        )
    if content.pop("crc32", None) != _checksum(content):
        raise ValueError(f"{path}: the checksum is wrong: the manifest is damaged")
    manifest = Manifest(
        Schema(**_known(Schema, content["schema"])),
        int(content["n_features"]),
        tuple(Chunk(**_known(Chunk, chunk)) for chunk in content["chunks"]),
        None if content["classes"] is None else tuple(content["classes"]),
        None if content.get("label_names") is None else tuple(content["label_names"]),
        None if content.get("feature_names") is None else tuple(content["feature_names"]),
        content.get("encoding"),
    )
    for chunk in manifest.chunks:
        _check_size(folder / chunk.file, chunk, manifest.schema)
    return manifest


def _check_size(path: Path, chunk: Chunk, schema: Schema) -> None:
    _, expected = lay_out(schema, chunk.n_rows, chunk.n_stored)
    if not path.exists():
        raise ValueError(f"{path}: the manifest lists this chunk, but there is no such file")
    size = path.stat().st_size
    if not size == chunk.n_bytes == expected:
        raise ValueError(f"{path}: expected {expected} bytes, got {size}: the chunk is damaged")


def _known(cls: Any, content: dict[str, Any]) -> dict[str, Any]:
    names = [field.name for field in fields(cls)]
    return {name: content[name] for name in names if name in content}


def _checksum(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
