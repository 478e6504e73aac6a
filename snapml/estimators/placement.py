"""Where X is: there it is trained on, and there predictions are computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

from snapml._validation import (
    check_fit_input,
    check_names,
    check_predict_input,
    check_remote_fit_input,
    check_remote_predict_input,
    raise_non_finite,
    refuse_source,
    refuse_store,
)
from snapml.data import ChunkedDataset, ChunkedMatrix, Matrix
from snapml.data.memory_limit import resolve_memory_limit
from snapml.estimators.row_sources import (
    is_row_source,
    opened,
    rows_of_source,
    stored_source,
)
from snapml.io.encoding import check_encoding
from snapml.kernels import Device, ResidentMatrix
from snapml.kernels.device.device_arrays import host_copy_of
from snapml.kernels.matrices.resident_matrix import device_number, resident_matrix
from snapml.solvers.plan import device_choice
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.rows import cpu_rows
from snapml.solvers.rows.gpu_rows import device_margins

__all__ = [
    "Place",
    "byte_limit",
    "fit_input",
    "host_copy_errors",
    "margins_where_rows_are",
    "with_host_predictions",
]


@dataclass(frozen=True)
class Place:
    """The host, or the GPU that X is on. Calls belong inside ``with place.use():``.

    Attributes
    ----------
    dtype : numpy dtype
        Of the rows.
    matrix : ResidentMatrix or None
        Rows on a GPU; None is the host.
    """

    dtype: np.dtype
    matrix: ResidentMatrix | None = None

    @property
    def xp(self) -> Any:
        """The array module."""
        return np if self.matrix is None else self.matrix.device.xp

    @property
    def special(self) -> Any:
        """``scipy.special``, or what has its functions for arrays of the GPU."""
        return scipy.special if self.matrix is None else self.matrix.device.special

    def use(self) -> AbstractContextManager[Any]:
        """Make the GPU the current one, inside ``with``."""
        return nullcontext() if self.matrix is None else self.matrix.device.use()

    def give(self, array: Any) -> Any:
        """Return an array of this place as the user gets it: of the library of X."""
        return array if self.matrix is None else self.matrix.predictions(array)

    def labels(self, classes: np.ndarray, chosen: Any) -> Any:
        """Return the classes of these numbers, as the user gets them.

        Parameters
        ----------
        classes : ndarray of shape (n_classes,)
            Labels; those that are no numbers stay on the host.
        chosen : array of this place of shape (n_rows,), integer
            Which.

        Returns
        -------
        array of shape (n_rows,)
            Of the library of X, or of NumPy.
        """
        if self.matrix is None:
            return classes[chosen]
        device = self.matrix.device
        if classes.dtype.kind not in "biuf":
            return classes[device.to_host(chosen)]
        return self.give(device.to_device(classes)[chosen])


def byte_limit(estimator: Any) -> int | None:
    """Return what ``memory_limit`` allows rows to take, None where the place decides.

    Parameters
    ----------
    estimator : estimator
        Without the parameter, or with 'auto', the place decides.

    Returns
    -------
    int or None
        Bytes.

    Raises
    ------
    ValueError
        If it is neither a number of bytes, nor such a text, nor 'auto'.
    """
    limit = getattr(estimator, "memory_limit", "auto")
    is_auto = isinstance(limit, str) and limit == "auto"
    return None if is_auto else resolve_memory_limit(limit)


def fit_input(
    estimator: Any, X: Any, y: Any, *, takes_store: bool = True, **target_checks: bool
) -> tuple[Matrix, np.ndarray]:
    """Return checked training data: rows where they are, targets on the host.

    Parameters
    ----------
    estimator : estimator
        Its ``device_ids`` may name the GPU that X is on; otherwise X decides.
    X : object
        Rows on the host or on a GPU; or a `ChunkedMatrix`, whose chunks in memory then serve
        several fits, one after the other.
    y : array-like
        Targets on the host, or beside X; None takes those of a store.
    takes_store : bool, default=True
        Whether the rows may stay in a store.
    **target_checks : bool
        As in `check_fit_input`.

    Returns
    -------
    matrix : Matrix
        The rows; over the user's memory where its layout serves.
    y : ndarray
        The targets.

    Raises
    ------
    ValueError
        If the data are not as described, or on another GPU than the one asked for.
    RuntimeError
        If X is on a GPU and CuPy is missing.
    """
    vars(estimator).pop("encoding_", None)  # of an earlier fit's rows
    matrix, y = _fit_input(estimator, X, y, takes_store=takes_store, **target_checks)
    estimator._agree_on_rows(matrix)
    return matrix, y


def _fit_input(
    estimator: Any, X: Any, y: Any, *, takes_store: bool, **target_checks: bool
) -> tuple[Matrix, np.ndarray]:
    limit, X = byte_limit(estimator), opened(X)
    if is_row_source(X):
        if not takes_store:
            refuse_source(estimator, X)
        return _source_input(estimator, X, y, limit, **target_checks)
    if isinstance(X, ChunkedDataset | ChunkedMatrix) and not takes_store:
        refuse_store(estimator)
    if isinstance(X, ChunkedDataset):
        return _stored_input(estimator, X, y, limit, **target_checks)
    if isinstance(X, ChunkedMatrix):
        X.make_room(0)  # again as many chunks as the limit allows
        return check_remote_fit_input(estimator, X, X, y, **target_checks)
    number = device_number(X)
    if number is None or not hasattr(estimator, "device_ids"):  # which trains on the CPU only
        return check_fit_input(estimator, X, y, **target_checks)
    asked = estimator._asked_devices()
    if asked not in ((), (number,)):
        raise ValueError(
            f"device_ids={estimator.device_ids!r}, but X is on CUDA device {number}: expected "
            f"device_ids=None or [{number}], which train where X is"
        )
    matrix = _resident(number, X)
    return check_remote_fit_input(estimator, X, matrix, matrix.host_vector("y", y), **target_checks)


def margins_where_rows_are(
    estimator: Any, X: Any, coef: np.ndarray, intercept: np.ndarray
) -> tuple[Place, Any]:
    """Return ``X @ coef.T + intercept``, computed where X is.

    Parameters
    ----------
    estimator : fitted estimator
        Says how many features, and which, were seen in fit.
    X : object
        Rows on the host or on a GPU.
    coef : ndarray of shape (n_outputs, n_features)
        Coefficients, cast to the rows' dtype.
    intercept : ndarray of shape (n_outputs,)
        Added to every product.

    Returns
    -------
    place : Place
        Where X is.
    margins : array of that place of shape (n_rows, n_outputs), float64
        The products.

    Raises
    ------
    ValueError
        If X has another number of features than in fit, or is not finite.
    """
    X = opened(X)
    if is_row_source(X):
        return _margins_of_source(estimator, X, coef, intercept)
    if isinstance(X, ChunkedDataset):
        check_names(estimator, X.feature_names)
        check_encoding(str(X.folder), getattr(estimator, "encoding_", None), X.manifest.encoding)
        X = ChunkedMatrix(X, 0)  # which are read once
    if isinstance(X, ChunkedMatrix):
        return _margins_of_store(estimator, X, coef, intercept)
    number = device_number(X)
    if number is None:
        rows = check_predict_input(estimator, X)
        return Place(rows.dtype), _host_margins(estimator, rows, coef, intercept)
    with device_choice.clean_errors(_device(number)):
        return _margins_there(estimator, number, X, coef, intercept)


@contextmanager
def host_copy_errors(matrix: Matrix) -> Iterator[None]:
    """Add to an error that sends the user to the CPU how X gets there.

    Parameters
    ----------
    matrix : Matrix
        The rows of the fit inside ``with``.
    """
    try:
        yield
    except NotImplementedError as error:
        if not isinstance(matrix, ResidentMatrix):
            raise
        copy = host_copy_of(matrix.origin)
        raise NotImplementedError(f"{error} with X on the host, {copy}") from error


def with_host_predictions(X: Any, *vectors: Any) -> tuple[Any, ...]:
    """Return what a score on the host takes: X such that predictions are NumPy's, and vectors.

    Parameters
    ----------
    X : object
        Rows, wherever they are; they stay there.
    *vectors : object
        Targets and weights; copied to the host where they are beside X.

    Returns
    -------
    tuple
        X, or a `ResidentMatrix` over it, and the vectors.
    """
    number = device_number(X)
    if number is None:
        return (X, *vectors)
    matrix = _resident(number, X)
    names = ("y", "sample_weight", "offset")
    on_host = [matrix.host_vector(name, v) for name, v in zip(names, vectors, strict=False)]
    return (ResidentMatrix(matrix.device, matrix.device_id, matrix.rows), *on_host)


def _source_input(
    estimator: Any, X: Any, y: Any, limit: int | None, **target_checks: bool
) -> tuple[Matrix, np.ndarray]:
    """Return the rows of a file or stream as a matrix over a temporary store."""
    store, y, _ = stored_source(X, y, limit)
    return _stored_input(estimator, store, y, limit, **target_checks)


def _stored_input(
    estimator: Any, X: ChunkedDataset, y: Any, limit: int | None, **target_checks: bool
) -> tuple[Matrix, np.ndarray]:
    """Return the rows of a store as a matrix, and checked targets: the store's where y is None."""
    y = X.labels() if y is None else y
    if y is None:
        raise ValueError("y: expected targets, since the store was written without labels")
    names = X.manifest.label_names
    if target_checks.get("y_numeric") and names and isinstance(names[0], str):
        raise ValueError(f"y: expected numbers, got text such as {names[0]!r}")
    matrix = ChunkedMatrix(X, limit)
    checked = check_remote_fit_input(estimator, X, matrix, y, **target_checks)
    if X.feature_names is not None:
        estimator.feature_names_in_ = np.asarray(X.feature_names, dtype=object)
    if X.manifest.encoding is not None:
        estimator.encoding_ = dict(X.manifest.encoding)
    return checked


def _host_margins(
    estimator: Any, rows: Matrix, coef: np.ndarray, intercept: np.ndarray
) -> np.ndarray:
    columns = [
        cpu_rows.margins(rows, w, b, estimator.n_threads)
        for w, b in zip(coef, intercept, strict=True)
    ]
    return np.column_stack(columns)


def _margins_of_store(
    estimator: Any, matrix: ChunkedMatrix, coef: np.ndarray, intercept: np.ndarray
) -> tuple[Place, np.ndarray]:
    check_remote_predict_input(estimator, matrix, matrix)
    out = np.empty((matrix.shape[0], len(coef)))
    for number, rows in matrix.chunks():
        out[matrix.rows_of(number)] = _host_margins(estimator, rows, coef, intercept)
    return Place(matrix.dtype), out


def _margins_of_source(
    estimator: Any, X: Any, coef: np.ndarray, intercept: np.ndarray
) -> tuple[Place, np.ndarray]:
    parts, dtypes = [], set()
    for rows in rows_of_source(estimator, X):
        parts.append(_host_margins(estimator, rows, coef, intercept))
        dtypes.add(rows.dtype)
    return Place(np.result_type(*dtypes)), np.concatenate(parts)


def _margins_there(
    estimator: Any, number: int, X: Any, coef: np.ndarray, intercept: np.ndarray
) -> tuple[Place, Any]:
    matrix = _resident(number, X)
    check_remote_predict_input(estimator, X, matrix)
    try:
        return Place(matrix.dtype, matrix), device_margins(matrix, coef, intercept)
    except NonFiniteError:
        raise_non_finite(estimator, matrix)


def _resident(number: int, X: Any) -> ResidentMatrix:
    """Return rows over the user's memory on the GPU of this number."""
    device = _device(number)
    with device_choice.clean_errors(device):
        return resident_matrix(device, number, X)


def _device(number: int) -> Device:
    try:
        return device_choice.make_device(number)
    except RuntimeError as error:
        raise RuntimeError(f"X is on CUDA device {number}: {error} with X on the host") from error
