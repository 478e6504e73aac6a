"""Predictions of rows that do not fit memory: batch by batch, or into a file."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from snapml._validation import check_names
from snapml.data import ChunkedDataset, CompressedMatrix
from snapml.io.readers.array_files import check_array_path, write_arrays
from snapml.io.readers.batch import Batch
from snapml.io.sources import is_source, open_source

__all__ = ["METHODS", "batches_with", "column_names", "predict_batches", "write_predictions"]

METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")
"""What rows can be asked for."""

# What a batch may take: its rows, where they are sliced, and margins and copies of them.
_WORK_BYTES = 64 * 2**20


def predict_batches(
    model: Any,
    source: Any,
    method: str = "predict",
    *,
    batch_rows: int | None = None,
    **options: Any,
) -> Iterator[Any]:
    """Predict rows batch by batch, in bounded memory.

    Parameters
    ----------
    model : fitted estimator
        As `load` gives it, or after fit.
    source : ChunkedDataset, path, Arrow stream, iterator of batches, array or frame
        The rows: a store or its folder, a file or folder of any format that `snapml.io.convert`
        reads, batches as it takes them, or rows in memory. Where the model and a file have names
        for their columns these decide, else the order does.
    method : {'predict', 'predict_proba', 'predict_log_proba', 'decision_function'}, \
default='predict'
        The method of the model.
    batch_rows : int or None, default=None
        Most rows of a batch; None takes as many as need about 64 MiB. Batches may be smaller, as
        those of the source are.
    **options : object
        How to read a file, as for `snapml.io.convert`: ``format``, ``label`` and ``weight``
        (columns that are no features), ``encoder``, ...

    Yields
    ------
    array of shape (n_rows,) or (n_rows, n_columns)
        What the method returns for the next rows, in the order of the rows.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        Before fit.
    ValueError
        If the model lacks the method, or the source is not as described, has other columns, or is
        damaged.
    """
    found = batches_with(model, source, (method,), batch_rows=batch_rows, **options)
    return (results[0] for _, results in found)


def write_predictions(
    model: Any,
    source: Any,
    path: Any,
    method: str = "predict",
    *,
    batch_rows: int | None = None,
    **options: Any,
) -> int:
    """Predict rows into a file, in bounded memory.

    Parameters
    ----------
    model, source, method, batch_rows, **options
        As for `predict_batches`.
    path : str or path-like
        The file, whose suffix is the format: ``.npy``; ``.csv`` with a line of names; ``.txt``
        without, separated by blanks; ``.parquet`` or ``.pq``. Probabilities are named by their
        classes. It appears once it is complete, and replaces one that exists.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    sklearn.exceptions.NotFittedError, ValueError
        As `predict_batches` does; or if the suffix names no format.
    ImportError
        If pyarrow is missing, which Parquet needs.
    OSError
        If the file cannot be written.
    """
    check_array_path(path)
    found = predict_batches(model, source, method, batch_rows=batch_rows, **options)
    return write_arrays(path, found, column_names(model, method))


def batches_with(
    model: Any,
    source: Any,
    methods: Sequence[str],
    *,
    batch_rows: int | None = None,
    **options: Any,
) -> Iterator[tuple[Batch, list[Any]]]:
    """Return batches of rows, each with what several methods of a model return for it.

    Parameters
    ----------
    model, source, batch_rows, **options
        As for `predict_batches`.
    methods : sequence of str
        Of `METHODS`.

    Returns
    -------
    iterator of (Batch, list of array)
        Rows with labels and weights where the source has them, valid until the next step, and the
        results in the order of `methods`. Parameters are checked at once.
    """
    check_is_fitted(model)
    if getattr(model, "has_offset_", False):
        raise ValueError(
            f"model: expected one without an offset, which rows in batches do not bring, got a "
            f"{type(model).__name__} fitted with one: call its own methods with offset="
        )
    for method in methods:
        _check_method(model, method)
    if batch_rows is not None and (not isinstance(batch_rows, int) or batch_rows < 1):
        raise ValueError(f"batch_rows: expected an integer >= 1, got {batch_rows!r}")
    if isinstance(source, ChunkedDataset) or is_source(source):
        model, batches = _opened(model, source, options)
    elif options:
        raise TypeError(
            f"options of files for rows in memory: expected none, got {sorted(options)}"
        )
    else:
        rows: Any = source if hasattr(source, "shape") else np.asarray(source)
        batches = iter([Batch(rows.tocsr() if issparse(rows) else rows)])
    return _predicted(model, batches, methods, batch_rows)


def column_names(model: Any, method: str) -> list[str]:
    """Return what to call the columns of predictions.

    Parameters
    ----------
    model : fitted estimator
        Of a classifier, the classes give the names.
    method : str
        Of `METHODS`.

    Returns
    -------
    list of str
        One name a column.

    Raises
    ------
    ValueError
        If the model lacks the method.
    """
    _check_method(model, method)
    n_outputs = _n_outputs(model)
    is_of_labels = getattr(model, "_is_multilabel", False)
    if method == "predict":
        chooses = is_classifier(model) and not (is_of_labels or hasattr(model, "tree_"))
        is_one = chooses or n_outputs == 1
        return ["prediction"] if is_one else [f"prediction_{k}" for k in range(n_outputs)]
    if method == "decision_function" and n_outputs == 1:
        return ["decision"]
    if is_of_labels:
        return [f"decision_{k}" for k in range(n_outputs)]
    return [str(label) for label in model.classes_.tolist()]


def _check_method(model: Any, method: str) -> None:
    """Refuse a method that the model lacks, or whose results are no one array."""
    if method not in METHODS or not hasattr(model, method):
        has = [name for name in METHODS if hasattr(model, name)]
        raise ValueError(f"method: expected one of {has} of {type(model).__name__}, got {method!r}")
    if method != "predict" and getattr(model, "n_outputs_", 1) > 1:
        raise ValueError(
            f"method: expected 'predict' of a {type(model).__name__} of {model.n_outputs_} "
            f"outputs, got {method!r}, which has an array for each of them"
        )


def _opened(model: Any, source: Any, options: dict[str, Any]) -> tuple[Any, Iterator[Batch]]:
    """Return the model to ask, and the batches of a source with columns as the model knows them."""
    names = getattr(model, "feature_names_in_", None)
    known = None if names is None else names.tolist()
    opened = open_source(
        source,
        n_features=model.n_features_in_,
        known_features=known,
        known_encoding=getattr(model, "encoding_", None),
        **options,
    )
    check_names(model, opened.feature_names)
    if names is None:
        return model, opened.batches
    # Batches have no names, of which the model itself would warn each time.
    nameless = copy.copy(model)
    del nameless.feature_names_in_
    return nameless, opened.batches


def _predicted(
    model: Any, batches: Iterator[Batch], methods: Sequence[str], batch_rows: int | None
) -> Iterator[tuple[Batch, list[Any]]]:
    for batch in batches:
        n_rows = batch.X.shape[0]
        step = batch_rows or _suitable_rows(model, batch.X)
        for begin in range(0, n_rows, step):
            part = batch if n_rows <= step else _part(batch, begin, min(begin + step, n_rows))
            yield part, [getattr(model, method)(part.X) for method in methods]


def _suitable_rows(model: Any, X: Any) -> int:
    n_rows, n_columns = X.shape
    stored = getattr(X, "n_stored", getattr(X, "nnz", None))
    each = 8 * n_columns if stored is None else 16 * (stored // max(1, n_rows) + 1)
    return max(1, _WORK_BYTES // (each + 32 * _n_outputs(model)))


def _n_outputs(model: Any) -> int:
    """Return how many numbers a linear model's margin has, or a tree's prediction."""
    if hasattr(model, "n_outputs_"):
        return int(model.n_outputs_)
    return 1 if model.coef_.ndim == 1 else int(model.coef_.shape[0])


def _part(batch: Batch, begin: int, end: int) -> Batch:
    rows = slice(begin, end)
    y, weights = (None if v is None else v[rows] for v in (batch.y, batch.sample_weight))
    return Batch(_rows_of(batch.X, rows), y, weights)


def _rows_of(X: Any, rows: slice) -> Any:
    """Return neighbouring rows of whatever predictions take."""
    if isinstance(X, CompressedMatrix):
        return X.take(np.arange(rows.start, rows.stop))
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame[rows].to_native() if isinstance(frame, nw.DataFrame) else X[rows]
