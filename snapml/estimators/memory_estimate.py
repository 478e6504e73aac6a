"""What a fit will need, told before it begins."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_classifier

from snapml._registry import entry_of
from snapml._validation import check_device_ids
from snapml.data import ChunkedDataset, ChunkedMatrix, CompressedMatrix, Dataset, DenseMatrix
from snapml.data.memory_limit import available_bytes
from snapml.data.store.chunk_format import MANIFEST
from snapml.estimators.deviance.deviance_regressor import DevianceRegressor
from snapml.estimators.linear_regression import LinearRegressor
from snapml.estimators.logistic_regression import LogisticRegression
from snapml.estimators.placement import byte_limit
from snapml.estimators.support_vector_machine import LinearSVC
from snapml.kernels.matrices.resident_matrix import device_number
from snapml.problems import Intercept, Logistic, Penalty, Problem, Softmax, Squared, SquaredHinge
from snapml.solvers.plan import device_choice, device_room
from snapml.solvers.plan.host_room import RowSizes, working_bytes
from snapml.solvers.threads import resolve_n_threads

__all__ = ["Estimate", "estimate"]

_OF_COUNTS = 16  # bytes a row: targets and offsets in float64


@dataclass(frozen=True)
class Estimate:
    """What a fit will need; all sizes in bytes.

    Attributes
    ----------
    n_rows, n_features, n_stored : int
        Counts; a pass over the data reads `n_stored` entries.
    data_bytes : int
        All rows.
    given_bytes : int
        Rows that are in memory already, and are used there.
    resident_bytes : int
        Rows in memory during the fit: all, a converted copy with them, or the chunks of a store
        that stay.
    buffer_bytes : int
        What the chunks that do not stay pass through.
    working_bytes : int
        Labels, margins, samples, curvature, vectors.
    n_chunks, n_resident_chunks : int
        Of a store; 0 for rows in memory.
    streamed_bytes : int
        What each pass reads from files.
    host_available : int
        What the process can still take, by the system's and its container's account.
    device_bytes : int
        What each GPU needs; 0 without any.
    device_available : int or None
        What the fullest GPU has free.
    """

    n_rows: int
    n_features: int
    n_stored: int
    data_bytes: int
    given_bytes: int
    resident_bytes: int
    buffer_bytes: int
    working_bytes: int
    n_chunks: int
    n_resident_chunks: int
    streamed_bytes: int
    host_available: int
    device_bytes: int = 0
    device_available: int | None = None

    @property
    def host_bytes(self) -> int:
        """All that the fit has in the machine's memory at its peak."""
        return self.resident_bytes + self.buffer_bytes + self.working_bytes

    @property
    def new_bytes(self) -> int:
        """What of that is not there yet."""
        return self.host_bytes - self.given_bytes

    @property
    def fits(self) -> bool:
        """Whether what is available suffices, on the host and on each GPU."""
        is_room = self.device_available is None or self.device_bytes <= self.device_available
        return self.new_bytes <= self.host_available and is_room

    def __str__(self) -> str:
        lines = [
            f"{self.n_rows:,} rows x {self.n_features:,} columns, {self.n_stored:,} entries, "
            f"{_text(self.data_bytes)}",
            f"memory   {_text(self.host_bytes)}: {_text(self.resident_bytes)} of rows, "
            f"{_text(self.buffer_bytes)} of buffers, {_text(self.working_bytes)} to work in",
            f"         {_text(self.new_bytes)} of it new, {_text(self.host_available)} available",
        ]
        if self.n_chunks:
            lines.append(
                f"a pass   {_text(self.streamed_bytes)} from files; {self.n_resident_chunks} of "
                f"{self.n_chunks} chunks stay in memory"
            )
        if self.device_available is not None:
            lines.append(
                f"a GPU    {_text(self.device_bytes)}, {_text(self.device_available)} available"
            )
        return "\n".join([*lines, "fits" if self.fits else "does not fit"])


@dataclass(frozen=True)
class _Rows:
    """Rows as a fit will have them."""

    shape: tuple[int, int]
    n_stored: int
    is_sparse: bool
    itemsize: int
    data_bytes: int
    given_bytes: int
    copied_bytes: int = 0
    has_weights: bool = False
    store: ChunkedDataset | None = None


def estimate(
    X: Any, model: Any = None, *, y: Any = None, device_bytes: int | None = None
) -> Estimate:
    """Say what a fit will need, before anything is read, allocated or copied.

    Parameters
    ----------
    X : array, sparse matrix, frame, ChunkedDataset or path of a store
        The rows.
    model : estimator, default=None
        LogisticRegression, LinearSVC, Ridge, RidgeClassifier, or a regressor of counts or amounts
        (Poisson, Gamma, Tweedie, negative binomial, GeneralizedLinearRegressor): its
        ``memory_limit``, ``device_ids`` and problem count. None is ``LogisticRegression()``.
    y : array-like or None, default=None
        Targets, which say how many classes or targets there are; None takes what a store says, or
        else two classes or one target.
    device_bytes : int or None, default=None
        What each GPU has free, to plan for GPUs that are not here; None asks those of
        ``device_ids``.

    Returns
    -------
    Estimate
        Its text is for people; ``fits`` says whether there is room.

    Raises
    ------
    ValueError
        If X is none of these.
    NotImplementedError
        For other models, the hinge, L1 penalties, ``solver='sdca'``, and stores on GPUs: this
        version does not foresee their needs.
    RuntimeError
        If a GPU of ``device_ids`` is not there, and `device_bytes` is None.

    Examples
    --------
    >>> import numpy as np
    >>> import snapml
    >>> snapml.estimate(np.zeros((1000, 10), np.float32)).fits
    True
    """
    model = LogisticRegression() if model is None else model
    rows = _rows_of(X)
    n_classes = _n_classes(model, rows, y)
    problem, n_outputs = _problem(model, n_classes, y)
    store, data_bytes = rows.store, rows.data_bytes
    resident, buffers, n_kept, chunk_stored = data_bytes + rows.copied_bytes, 0, 0, 0
    if store is not None:
        resident, buffers, n_kept = _kept(store, byte_limit(model))
        chunk_stored = max((chunk.n_stored for chunk in store.manifest.chunks), default=0)
    sizes = RowSizes(
        problem,
        *rows.shape,
        rows.n_stored,
        n_outputs,
        rows.is_sparse,
        rows.has_weights or getattr(model, "class_weight", None) is not None,
        rows.itemsize,
        data_bytes,
        chunk_stored,
        _OF_COUNTS if isinstance(model, DevianceRegressor) else 0,
    )
    needed, free = _on_devices(X, model, sizes, store, device_bytes)
    return Estimate(
        *rows.shape,
        rows.n_stored,
        data_bytes=data_bytes,
        given_bytes=rows.given_bytes,
        resident_bytes=resident,
        buffer_bytes=buffers,
        working_bytes=working_bytes(sizes, resolve_n_threads(model.n_threads, rows.n_stored)),
        n_chunks=0 if store is None else store.n_chunks,
        n_resident_chunks=n_kept,
        streamed_bytes=data_bytes - resident if buffers else 0,
        host_available=available_bytes(),
        device_bytes=needed,
        device_available=free,
    )


def _rows_of(X: Any) -> _Rows:
    """Return the sizes of rows, and what of them a fit will copy."""
    if isinstance(X, str | os.PathLike) and (Path(X) / MANIFEST).exists():
        X = ChunkedDataset.open(X)
    if isinstance(X, ChunkedDataset):
        schema = X.manifest.schema
        kinds = (schema.is_sparse, X.dtype.itemsize, X.manifest.n_bytes, 0)
        return _Rows(X.shape, X.n_stored, *kinds, has_weights=schema.has_weights, store=X)
    if device_number(X) is not None:
        raise NotImplementedError("X is on a GPU: expected rows of the host or a store to estimate")
    if not hasattr(X, "shape") and not isinstance(X, str | os.PathLike):
        X = np.asarray(X)
    if len(getattr(X, "shape", ())) != 2:
        raise ValueError(f"X: expected rows in memory, a store or its path, got {type(X).__name__}")
    shape = (int(X.shape[0]), int(X.shape[1]))
    if isinstance(X, CompressedMatrix) or issparse(X):
        return _compressed(X, shape)
    dtype = getattr(X, "dtype", None)  # frames have none, and are converted
    is_taken = dtype in (np.float32, np.float64)
    itemsize = np.dtype(dtype).itemsize if is_taken else 8
    n_bytes = math.prod(shape) * itemsize
    given = n_bytes if is_taken else 0
    return _Rows(shape, math.prod(shape), False, itemsize, n_bytes, given)


def _compressed(X: Any, shape: tuple[int, int]) -> _Rows:
    if isinstance(X, CompressedMatrix):
        arrays = [X.indptr, X.indices, X.values]
        n_bytes = sum(array.nbytes for array in arrays if array is not None)
        return _Rows(shape, X.n_stored, True, X.dtype.itemsize, n_bytes, n_bytes)
    is_taken = X.dtype in (np.float32, np.float64)
    itemsize = X.dtype.itemsize if is_taken else 8
    index_size = X.indices.dtype.itemsize if hasattr(X, "indices") else 4
    n_bytes = (itemsize + index_size) * int(X.nnz) + index_size * (shape[0] + 1)
    given = n_bytes if X.format == "csr" and is_taken else 0
    return _Rows(shape, int(X.nnz), True, itemsize, n_bytes, given)


def _kept(store: ChunkedDataset, limit: int | None) -> tuple[int, int, int]:
    """Return the bytes of chunks that stay, of buffers, and how many chunks stay."""
    n_kept = ChunkedMatrix(store, limit).n_resident
    sizes = sorted(store.chunk_bytes, reverse=True)
    n_passing = min(3, len(sizes) - n_kept)
    return sum(sizes[:n_kept]), n_passing * store.largest_chunk, n_kept


def _n_classes(model: Any, rows: _Rows, y: Any) -> int:
    if not is_classifier(model):
        return 1
    if y is not None:
        return max(2, len(np.unique(y)) if np.ndim(y) == 1 else np.shape(y)[1])
    known = None if rows.store is None else rows.store.manifest.classes
    return 2 if known is None else max(2, len(known))


def _problem(model: Any, n_classes: int, y: Any) -> tuple[Problem, int]:
    """Return the problem that a fit will solve, and how many outputs it has."""
    entry = entry_of(type(model))
    is_known = entry is not None and entry.has_estimate
    if is_known and isinstance(model, DevianceRegressor) and not getattr(model, "l1_ratio", 0.0):
        intercept = Intercept.FREE if model.fit_intercept else Intercept.NONE
        penalty = Penalty() if model._strength() else Penalty(0.0, 0.0)
        return Problem(model._family().loss, intercept, 1.0, penalty), 1
    is_l1 = getattr(model, "l1_ratio", 0.0) > 0.0 or getattr(model, "penalty", None) == "l1"
    is_other = getattr(model, "loss", None) == "hinge" or getattr(model, "positive", False)
    if not is_known or is_l1 or is_other or model.solver == "sdca":
        raise NotImplementedError(
            "expected LogisticRegression, LinearSVC(loss='squared_hinge'), Ridge, RidgeClassifier "
            "or a regressor of counts or amounts, with an L2 penalty or none and without 'sdca', "
            f"got {model!r}: this version cannot tell what others need"
        )
    n_outputs = 1 if n_classes == 2 else n_classes
    if isinstance(model, LinearRegressor):
        n_outputs = 1 if y is None or np.ndim(y) == 1 else np.shape(y)[1]
    penalty = Penalty(0.0, 0.0) if math.isinf(getattr(model, "C", 1.0)) else Penalty()
    if isinstance(model, LinearSVC):
        return Problem(SquaredHinge(), Intercept.PENALISED, 1.0, penalty), n_outputs
    if not isinstance(model, LogisticRegression):
        return Problem(Squared(), Intercept.FREE, 1.0, penalty), n_outputs
    is_joint = n_outputs > 1 and model.multi_class != "ovr"
    loss = Softmax(n_classes) if is_joint else Logistic()
    return Problem(loss, Intercept.FREE, 1.0, penalty), n_outputs


def _on_devices(
    X: Any, model: Any, sizes: RowSizes, store: Any, device_bytes: int | None
) -> tuple[int, int | None]:
    """Return what each GPU needs, and what the fullest one has; 0 and None without any."""
    numbers = list(check_device_ids(getattr(model, "device_ids", None)))
    if not numbers and device_bytes is None:
        return 0, None
    if store is not None:
        raise NotImplementedError("a store with device_ids: this version estimates fits on the CPU")
    devices: list[Any] = [_Planned()] if device_bytes is not None else []
    if device_bytes is None:
        devices = [device_choice.make_device(number) for number in numbers]
    n_shards = max(1, len(numbers))
    dataset = _without_rows(X, sizes)
    needed = max(
        device_room.primal_bytes(device, sizes.problem, dataset, n_shards) for device in devices
    )
    own = {number: numbers.count(number) for number in numbers}
    if device_bytes is not None:
        return needed, device_bytes // max(own.values(), default=1)
    return needed, min(
        device.free_bytes() // own[number] for number, device in zip(numbers, devices, strict=True)
    )


class _Planned:
    """Stands for a GPU that is not here: the least that any has of what sizes depend on."""

    shared_bytes_per_block = 0


def _without_rows(X: Any, sizes: RowSizes) -> Dataset:
    """Return a dataset of the sizes that matter; its arrays are views of one number."""
    dtype = np.dtype(f"f{sizes.itemsize}")

    def array(shape: Any, kind: Any = dtype) -> np.ndarray:
        return np.broadcast_to(np.zeros((), kind), shape)

    is_joint = sizes.problem.loss.is_joint or sizes.n_outputs == 1
    labels = array(sizes.n_rows if is_joint else (sizes.n_outputs, sizes.n_rows))
    weights = array(sizes.n_rows) if sizes.has_weights else None
    matrix: Any = DenseMatrix(array((sizes.n_rows, sizes.n_features)))
    if sizes.is_sparse:
        matrix = X if isinstance(X, CompressedMatrix) else _csr_without_rows(X, sizes, array)
    return Dataset(matrix, labels, weights, 1.0)


def _csr_without_rows(X: Any, sizes: RowSizes, array: Any) -> Any:
    index = X.indices.dtype if hasattr(X, "indices") else np.dtype(np.int32)
    indptr, indices = array(sizes.n_rows + 1, index), array(sizes.n_stored, index)
    return _Compressed(
        (sizes.n_rows, sizes.n_features),
        sizes.n_stored,
        indptr,
        indices,
        array(sizes.n_stored),
        np.dtype(f"f{sizes.itemsize}"),
    )


@dataclass(frozen=True)
class _Compressed:
    """What is asked of compressed rows whose sizes matter alone."""

    shape: tuple[int, int]
    n_stored: int
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    dtype: np.dtype


def _text(n_bytes: int) -> str:
    size, unit = float(n_bytes), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if size < 999.5:
            break
        size, unit = size / 1000.0, larger
    return f"{size:.3g} {unit}"
