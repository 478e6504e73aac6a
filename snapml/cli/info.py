"""``snapml info``: what a store, a model or a file with rows holds."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import snapml
from snapml.cli.exit_codes import FINISHED
from snapml.cli.progress import ProgressLine
from snapml.cli.reading import add_common_options, add_reading_options, reading_options
from snapml.cli.store_summary import classes_text, store_summary
from snapml.cli.table import print_table
from snapml.data import ChunkedDataset
from snapml.data.store.chunk_format import MANIFEST
from snapml.io.encoding import encoding_text
from snapml.io.sources import open_source
from snapml.models.model_file import MAGIC

__all__ = ["add_parser"]

# Distinct labels beyond this number are no classes.
_MOST_CLASSES = 1000


def add_parser(commands: Any) -> None:
    """Add the command.

    Parameters
    ----------
    commands : argparse subparsers
        Of the program.
    """
    parser = commands.add_parser(
        "info",
        help="say what a store, a model or a file holds",
        description="Say what a store, a model or a file with rows holds. Stores and models say it "
        "themselves; other files are read to the end.",
    )
    parser.add_argument("path", metavar="PATH", help="store, model, or any source of convert")
    parser.add_argument(
        "--verify", action="store_true", help="compare every byte of a store with its checksums"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_reading_options(parser)
    add_common_options(parser)
    parser.set_defaults(run=_run, parser=parser)


def _run(args: argparse.Namespace) -> int:
    path = Path(args.path)
    if (path / MANIFEST).exists():
        found = _store(args)
    elif path.is_file() and _begins_with(path, MAGIC):
        found = _model(path)
    else:
        found = _rows(args)
    print_table(found, as_json=args.json)
    return FINISHED


def _begins_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(magic)) == magic


def _store(args: argparse.Namespace) -> dict[str, Any]:
    store = ChunkedDataset.open(args.path)
    found = store_summary(store)
    if args.verify:
        with ProgressLine("verified", args.quiet) as line:
            n_bytes = 0
            for number, _ in store.matrices():
                n_bytes += store.manifest.chunks[number].n_bytes
                line.bytes(n_bytes, store.manifest.n_bytes)
            store.labels()
            store.weights()
        found["checksums"] = "right"
    return found


def _model(path: Path) -> dict[str, Any]:
    """Read the model, and so compare it with its checksums."""
    model = snapml.load(path)
    parameters = model.get_params(deep=False)
    default = type(model)().get_params(deep=False)
    changed = [f"{k}={v!r}" for k, v in parameters.items() if repr(v) != repr(default[k])]
    found: dict[str, Any] = {
        "kind": "model",
        "class": type(model).__name__,
        "parameters": ", ".join(changed) or "defaults",
        "columns": int(model.n_features_in_),
        **_size(model),
    }
    if hasattr(model, "feature_names_in_"):
        found["column names"] = classes_text(model.feature_names_in_.tolist())
    if hasattr(model, "encoding_"):
        found["encoding"] = encoding_text(model.encoding_)
    if hasattr(model, "classes_"):
        # A tree of several outputs has classes of each.
        lists = model.classes_ if isinstance(model.classes_, list) else [model.classes_]
        found["classes"] = "; ".join(classes_text(classes.tolist()) for classes in lists)
    for name in ("objective_", "gap_"):
        if hasattr(model, name):
            found[name.rstrip("_")] = f"{getattr(model, name):.9g}"
    if hasattr(model, "solver_"):
        found["solver"] = model.solver_
    return found | {"bytes": path.stat().st_size, "checksums": "right"}


def _size(model: Any) -> dict[str, Any]:
    """Return how large a tree or a linear model is."""
    if hasattr(model, "tree_"):
        return {"nodes": int(model.tree_.node_count), "depth": int(model.tree_.max_depth)}
    shape = "x".join(map(str, model.coef_.shape))
    return {"coefficients": shape, "dtype": model.coef_.dtype.name}


def _rows(args: argparse.Namespace) -> dict[str, Any]:
    """Read all rows of a source, and count."""
    n_bytes = n_rows = n_columns = n_stored = 0
    dtype, is_sparse, classes, has_weights = "", False, _Classes(), False

    def on_read(n_more: int) -> None:
        nonlocal n_bytes
        n_bytes += n_more

    with ProgressLine("read", args.quiet) as line:
        source = open_source(
            args.path, n_features=args.n_features, on_read=on_read, **reading_options(args)
        )
        for X, y, weights in source.batches:
            n_rows, n_columns = n_rows + X.shape[0], max(n_columns, X.shape[1])
            is_sparse = not isinstance(X, np.ndarray)
            n_stored += int(getattr(X, "n_stored", getattr(X, "nnz", np.size(X))))
            dtype, has_weights = X.dtype.name, weights is not None
            classes.add(y)
            line.bytes(n_bytes, source.n_bytes)
    return {
        "kind": "rows",
        "rows": n_rows,
        "columns": n_columns,
        "layout": "compressed rows" if is_sparse else "dense rows",
        "stored entries": n_stored,
        "dtype": dtype,
        "labels": classes.has_labels,
        "classes": classes_text(classes.found),
        "weights": has_weights,
    }


class _Classes:
    """The distinct labels of all batches, as long as they are few."""

    def __init__(self) -> None:
        self.has_labels = False
        self._seen: set[float] | None = set()

    def add(self, y: np.ndarray | None) -> None:
        if y is None or self._seen is None:
            return
        self.has_labels = True
        self._seen.update(np.unique(y).tolist())
        if len(self._seen) > _MOST_CLASSES:
            self._seen = None

    @property
    def found(self) -> list[float] | None:
        return sorted(self._seen) if self._seen else None
