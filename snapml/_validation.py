"""From what the user passes to clean arrays: the only caller of scikit-learn's validation."""

from __future__ import annotations

import copy
import math
import numbers
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite, check_array, check_scalar, check_X_y, column_or_1d
from sklearn.utils.metadata_routing import (
    _raise_for_params,
)
from sklearn.utils.metadata_routing import (
    _routing_enabled as is_routing_enabled,
)
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_n_features, _check_sample_weight, validate_data

from snapml._dates import refuse_dates
from snapml._plain_input import are_plain_rows, are_plain_targets, set_columns
from snapml.data import ChunkedDataset, ChunkedMatrix, CompressedMatrix, DenseMatrix, Matrix
from snapml.kernels import ResidentMatrix
from snapml.kernels.device.device_arrays import host_copy_of, is_device_frame
from snapml.kernels.matrices.resident_matrix import device_number

__all__ = [
    "Exchange",
    "alone",
    "as_matrix",
    "check_classes",
    "check_compressed",
    "check_device_ids",
    "check_exists",
    "check_finite_in",
    "check_fit_input",
    "check_flags",
    "check_labels",
    "check_positive",
    "check_predict_batch",
    "check_predict_input",
    "check_remote_fit_input",
    "check_remote_predict_input",
    "check_sample_weight",
    "check_sparse",
    "check_weighted_classes",
    "distinct",
    "is_routing_enabled",
    "raise_for_routed_params",
    "raise_non_finite",
    "refuse_device",
    "refuse_rows_elsewhere",
    "refuse_source",
    "refuse_store",
]

_FLOATS = [np.float64, np.float32]
# Parameters that are true or false.
_FLAGS = (
    "alpha_per_target",
    "copy_X",
    "deterministic",
    "fit_intercept",
    "positive",
    "store_cv_results",
    "warm_start",
)
Exchange = Callable[[Any], list[Any]]
"""Lays down what this shard has, and returns what each shard has laid down."""


def check_fit_input(
    estimator: Any, X: Any, y: Any, **target_checks: bool
) -> tuple[Matrix, np.ndarray]:
    """Validate training data as scikit-learn does, without copying X where its layout serves.

    Finiteness of X is left to the engine's first read (see `raise_non_finite`).

    Parameters
    ----------
    estimator : estimator
        Gets ``n_features_in_`` and ``feature_names_in_``.
    X : array-like, sparse matrix, data frame or CompressedMatrix
        Training data.
    y : array-like
        Targets.
    **target_checks : bool
        ``multi_output`` and ``y_numeric`` of ``sklearn.utils.check_X_y``.

    Returns
    -------
    matrix : Matrix
        The rows, float32 or float64.
    y : ndarray
        The targets.
    """
    check_flags(estimator)
    refuse_device(type(estimator).__name__, X)
    refuse_rows_elsewhere(estimator, X)
    if isinstance(X, CompressedMatrix):
        if y is None:
            raise ValueError(
                f"{type(estimator).__name__} requires y to be passed, but the target y is None"
            )
        refuse_dates(y, "y")
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y", estimator=estimator)
        if len(y) != X.shape[0]:
            raise ValueError(f"y has {len(y)} rows, X has {X.shape[0]}")
        if X.shape[0] < getattr(estimator, "least_rows", 1) or X.shape[1] < 1:
            raise ValueError(f"expected at least 1 row and 1 column, got shape {X.shape}")
        if y.ndim > 1 and not target_checks.get("multi_output"):
            y = column_or_1d(y, warn=True)
        estimator.n_features_in_ = X.n_features
        return _contiguous(X), y
    if not getattr(estimator, "least_rows", 1) and np.ndim(X) == 2 and np.shape(X)[0] == 0:
        return _empty_shard(estimator, X), np.asarray(y)
    X, y = _validated(estimator, X, y, reset=True, ensure_all_finite=False, **target_checks)
    if y.dtype.kind not in "biuf" or not np.isfinite(y).all():
        assert_all_finite(y, input_name="y", estimator_name=type(estimator).__name__)
    return as_matrix(X), y


def check_predict_input(estimator: Any, X: Any) -> Matrix:
    """Validate data to predict on.

    Parameters
    ----------
    estimator : fitted estimator
        Says how many features, and which, were seen in fit.
    X : array-like, sparse matrix, data frame or CompressedMatrix
        Rows to predict.

    Returns
    -------
    Matrix
        The rows, float32 or float64.
    """
    if isinstance(X, CompressedMatrix):
        if X.n_features != estimator.n_features_in_:
            raise ValueError(
                f"X has {X.n_features} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input"
            )
        if X.values is not None:
            assert_all_finite(X.values, estimator_name=type(estimator).__name__, input_name="X")
        return _contiguous(X)
    X = _validated(estimator, X, reset=False)
    return as_matrix(X)


def check_names(estimator: Any, names: Sequence[str] | None) -> None:
    """Compare the names of a source's columns with those in fit, as scikit-learn does of frames.

    Parameters
    ----------
    estimator : fitted estimator
        Whose ``feature_names_in_`` counts.
    names : sequence of str or None
        Of the source; None where its columns have none.

    Raises
    ------
    ValueError
        If there are others, or in another order.
    """
    known, who = getattr(estimator, "feature_names_in_", None), type(estimator).__name__
    if known is None and names is None:
        return
    if known is None or names is None:
        said = (
            f"X has feature names, but {who} was fitted without feature names"
            if known is None
            else f"X does not have valid feature names, but {who} was fitted with feature names"
        )
        warnings.warn(said, UserWarning, stacklevel=2)
        return
    seen, given = list(map(str, known)), list(map(str, names))
    if seen == given:
        return
    message = "The feature names should match those that were passed during fit.\n"
    new, missing = sorted(set(given) - set(seen)), sorted(set(seen) - set(given))
    for title, those in (
        ("unseen at fit time", new),
        ("seen at fit time, yet now missing", missing),
    ):
        if those:
            lines = [f"- {name}\n" for name in those[:5]] + ["- ...\n"] * (len(those) > 5)
            message += f"Feature names {title}:\n{''.join(lines)}"
    if not (new or missing):
        message += "Feature names must be in the same order as they were in fit.\n"
    raise ValueError(message)


def check_predict_batch(estimator: Any, X: Any) -> Matrix:
    """Validate a batch to predict on; names were compared where its source was opened.

    Parameters
    ----------
    estimator : fitted estimator
        Says how many features were seen in fit.
    X : ndarray, CSR matrix or CompressedMatrix
        float32 or float64.

    Returns
    -------
    Matrix
        The rows.
    """
    name, values = type(estimator).__name__, X
    if X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {name} is expecting {estimator.n_features_in_} "
            "features as input"
        )
    if not isinstance(X, np.ndarray):
        values = X.values if isinstance(X, CompressedMatrix) else X.data
    if values is not None:
        assert_all_finite(values, estimator_name=name, input_name="X")
    return _contiguous(X) if isinstance(X, CompressedMatrix) else as_matrix(X)


def check_remote_fit_input(
    estimator: Any, X: Any, matrix: ResidentMatrix | ChunkedMatrix, y: Any, **target_checks: bool
) -> tuple[Matrix, np.ndarray]:
    """Validate training data on a GPU or in a store as `check_fit_input` does, without its rows.

    Parameters
    ----------
    estimator : estimator
        Gets ``n_features_in_`` and ``feature_names_in_``.
    X : object
        What the user passed: a frame has names.
    matrix : ResidentMatrix
        Its rows.
    y : array-like
        Targets, on the host.
    **target_checks : bool
        As in `check_fit_input`.

    Returns
    -------
    matrix : Matrix
        The rows.
    y : ndarray
        The targets.
    """
    check_flags(estimator)
    checks: dict[str, Any] = {"ensure_all_finite": False, "dtype": _FLOATS, **target_checks}
    if is_device_frame(X):
        validate_data(estimator, X, skip_check_array=True)
        _, y = check_X_y(_stand_in(matrix), y, estimator=estimator, **checks)
    else:
        _, y = validate_data(estimator, _stand_in(matrix), y, **checks)
    assert_all_finite(y, input_name="y", estimator_name=type(estimator).__name__)
    return matrix, y


def check_remote_predict_input(
    estimator: Any, X: Any, matrix: ResidentMatrix | ChunkedMatrix
) -> None:
    """Validate data on a GPU or in a store to predict on; that they are finite, margins show.

    Parameters
    ----------
    estimator : fitted estimator
        Says how many features, and which, were seen in fit.
    X : object
        What the user passed: a frame has names.
    matrix : ResidentMatrix or ChunkedMatrix
        Its rows.
    """
    if isinstance(matrix, ChunkedMatrix):  # whose names were compared where it was opened
        check_array(_stand_in(matrix), estimator=estimator, input_name="X", dtype=_FLOATS)
        _check_n_features(estimator, matrix, reset=False)
    elif is_device_frame(X):
        validate_data(estimator, X, reset=False, skip_check_array=True)
        check_array(_stand_in(matrix), estimator=estimator, input_name="X")
    else:
        validate_data(estimator, _stand_in(matrix), reset=False, dtype=_FLOATS)


def refuse_rows_elsewhere(estimator: Any, X: Any) -> None:
    """Refuse a store or a file where training needs rows in memory.

    Parameters
    ----------
    estimator : estimator
        Named in the message.
    X : object
        What the user passes as rows.

    Raises
    ------
    NotImplementedError
        If it is a store or a file.
    """
    if isinstance(X, ChunkedDataset | ChunkedMatrix):
        refuse_store(estimator)
    if isinstance(X, str | os.PathLike):
        refuse_source(estimator, X)


def refuse_store(estimator: Any) -> NoReturn:
    """Refuse rows in a store where training needs them in memory.

    Parameters
    ----------
    estimator : estimator
        Named in the message.

    Raises
    ------
    NotImplementedError
        Always.
    """
    raise NotImplementedError(
        f"X is a store, and {type(estimator).__name__} trains on rows in memory in this version: "
        "pass what X.load() returns"
    )


def refuse_source(estimator: Any, X: Any) -> NoReturn:
    """Refuse a file or a stream where training needs rows in memory.

    Parameters
    ----------
    estimator : estimator
        Named in the message.
    X : object
        The source.

    Raises
    ------
    NotImplementedError
        Always.
    """
    what = f"a {type(X).__name__}"
    if isinstance(X, str | os.PathLike):
        check_exists(X)
        what = repr(os.fspath(X))
    raise NotImplementedError(
        f"X is {what}, and {type(estimator).__name__} trains on rows in memory in this version: "
        "load them first, e.g. by snapml.io.convert(...).load()"
    )


def check_sparse(X: Any) -> None:
    """Refuse sparse matrices that SciPy would leave its arrays for, or misread.

    What CSR's indices and offsets point to is checked by the engine, in its first read.

    Parameters
    ----------
    X : sparse matrix
        Of any format.

    Raises
    ------
    ValueError
        If X has not two dimensions, or its arrays do not fit each other.
    """
    if X.ndim != 2:
        raise ValueError(f"Expected 2D input, got input with shape {X.shape}.")
    if X.format == "csr" and len(X.indptr) != X.shape[0] + 1:
        raise ValueError(f"indptr: expected {X.shape[0] + 1} elements, got {len(X.indptr)}")
    if X.format in ("csc", "bsr"):
        check_compressed(X)
    elif X.format == "coo":
        for axis, index in enumerate(X.coords):
            _check_index_range(f"axis {axis}", index, X.shape[axis])
    elif X.format == "lil":
        for row, (indices, values) in enumerate(zip(X.rows, X.data, strict=True)):
            if len(indices) != len(values):
                raise ValueError(
                    f"row {row}: expected as many values as indices, {len(indices)}, "
                    f"got {len(values)}"
                )
            _check_index_range(f"row {row}", np.asarray(indices, dtype=np.int64), X.shape[1])


def check_compressed(X: Any) -> None:
    """Refuse compressed rows or columns whose offsets or indices lead outside their arrays.

    Parameters
    ----------
    X : sparse matrix
        CSR, CSC or BSR; it stays as it is.

    Raises
    ------
    ValueError
        If its arrays do not fit each other.
    """
    # SciPy looks at no offsets where the last is 0, and exchanges the arrays of what it looks at.
    if np.any(X.indptr[1:] < X.indptr[:-1]):
        raise ValueError("indptr: expected ascending offsets, got some that descend")
    copy.copy(X).check_format(full_check=True)


def check_exists(X: str | os.PathLike[str]) -> None:
    """Refuse text that names no file, and may not have been meant to.

    Parameters
    ----------
    X : str or path-like
        What the user passed as rows.

    Raises
    ------
    ValueError
        If there is no such file or folder.
    """
    if not Path(X).exists():
        raise ValueError(
            f"X: expected rows, or a file or folder of them, got {os.fspath(X)!r}: there is none"
        )


def refuse_device(name: str, X: Any) -> None:
    """Refuse rows on a GPU where training is on the host: they are not moved in silence.

    Parameters
    ----------
    name : str
        Of what trains.
    X : object
        What the user passed.

    Raises
    ------
    NotImplementedError
        If X is on a GPU; the message says how to copy it.
    """
    number = device_number(X)
    if number is not None:
        raise NotImplementedError(
            f"X is on CUDA device {number}, and {name} takes rows of the host in this version: "
            f"pass {host_copy_of(X)}"
        )


def raise_for_routed_params(params: dict[str, Any], estimator: Any, method: str) -> None:
    """Refuse parameters of a search's fit or score that only metadata routing could hand on.

    Parameters
    ----------
    params : dict
        What came beside the parameters that the method knows.
    estimator : estimator
        Named in the message.
    method : str
        Of the estimator.

    Raises
    ------
    NotImplementedError
        If there is an offset, which those that take one know.
    ValueError
        If there are others, and metadata routing is off.
    """
    if params.get("offset") is not None and not is_routing_enabled():
        raise NotImplementedError(
            f"offset: {type(estimator).__name__}.{method} takes none, since classes of a ridge "
            "classifier have no log-odds; LogisticRegressionCV takes one"
        )
    _raise_for_params(params, estimator, method)


def raise_non_finite(estimator: Any, X: Any) -> NoReturn:
    """Raise scikit-learn's error about NaN or infinity in X.

    Parameters
    ----------
    estimator : estimator
        Named in the message.
    X : array-like, sparse matrix, data frame, CompressedMatrix or ResidentMatrix
        Training data known to hold such an entry.

    Raises
    ------
    ValueError
        Always.
    """
    name = type(estimator).__name__
    if isinstance(X, ResidentMatrix):  # one entry stands for those of the device
        X = np.full((1, 1), np.nan if X.has_nan() else np.inf, X.dtype)
    values: Any = X.values if isinstance(X, CompressedMatrix) else X
    if issparse(values):
        values = values.data
    values = np.asarray(values)
    if values.dtype.kind == "O":  # pd.NA compares as nothing else does
        values = check_array(X, dtype=np.float64, ensure_all_finite=False)
    assert_all_finite(values, estimator_name=name, input_name="X")
    raise ValueError(f"Input X of {name} contains NaN or infinity")


def alone(value: Any) -> list[Any]:
    """Return what the only shard has laid down.

    Parameters
    ----------
    value : object
        Any.

    Returns
    -------
    list of object
        One.
    """
    return [value]


def check_classes(estimator: Any, y: np.ndarray, exchange: Exchange = alone) -> np.ndarray:
    """Return the class labels of all shards.

    Parameters
    ----------
    estimator : estimator
        Named in messages.
    y : ndarray of shape (n_rows,)
        Targets.
    exchange : callable, default=alone
        Returns what each shard has laid down.

    Returns
    -------
    ndarray of shape (n_classes,)
        Sorted labels.

    Raises
    ------
    ValueError
        If there are fewer than two classes or the targets are continuous.
    """
    own = distinct(y)
    if len(y) and not _are_clearly_classes(own, len(y)):  # a shard may be empty
        check_classification_targets(y)
    classes = _union(exchange(own))
    _check_two(estimator, classes)
    return classes


def _are_clearly_classes(values: np.ndarray, n_rows: int) -> bool:
    """Say whether different labels are whole numbers or text, and few: nothing is left to ask."""
    is_whole = values.dtype.kind in "biuUST" or (
        values.dtype.kind == "f"
        and bool((np.isfinite(values) & (values == np.trunc(values))).all())
    )
    return is_whole and 2 * len(values) <= n_rows


def check_labels(y: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return labels, as one column unless every row may hold several.

    Parameters
    ----------
    y : ndarray of shape (n_rows,) or (n_rows, n_labels)
        Targets.

    Returns
    -------
    y : ndarray
        Classes, or zeros and ones for several labels.
    is_multilabel : bool
        Whether there are several labels.

    Raises
    ------
    ValueError
        If the targets are continuous, or classes of several outputs.
    """
    if y.ndim == 1 and y.dtype.kind in "biuf" and _are_clearly_classes(distinct(y), len(y)):
        return y, False
    is_multilabel = type_of_target(y, input_name="y").startswith("multilabel")
    if not is_multilabel:
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
    return y, is_multilabel


def check_weighted_classes(
    estimator: Any, y: np.ndarray, weights: np.ndarray, exchange: Exchange = alone
) -> None:
    """Refuse weights that leave fewer than two classes.

    Parameters
    ----------
    estimator : estimator
        Named in the message.
    y : ndarray of shape (n_rows,)
        Targets.
    weights : ndarray of shape (n_rows,)
        Weights of the rows, class weights included.
    exchange : callable, default=alone
        Returns what each shard has laid down.

    Raises
    ------
    ValueError
        If there is nothing to separate.
    """
    _check_two(estimator, _union(exchange(distinct(y[weights > 0]))))


def distinct(y: np.ndarray) -> np.ndarray:
    """Return the sorted different values of labels.

    NumPy's `unique` does no more, but of numbers it takes longer, and from version 2.3 on a program
    that ends while a daemon thread is in it may abort: its C++ for numbers and text cannot be left
    by the unwinding of a thread that Python ends there.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Labels.

    Returns
    -------
    ndarray of shape (n_values,)
        Of the same type.

    Raises
    ------
    TypeError
        If the labels are objects that have no order.
    """
    if y.dtype.kind not in "biufUSTO" or not len(y):
        return np.unique(y)
    try:
        ordered = np.sort(y)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in y})
        raise TypeError(
            f"y: expected labels of one type, or numbers, got {' and '.join(kinds)}"
        ) from error
    is_new = np.asarray(ordered[1:] != ordered[:-1], dtype=bool)
    return np.asarray(ordered[np.append(True, is_new)])


def _union(labels: list[np.ndarray]) -> np.ndarray:
    """Return the different labels of all shards; those that have none do not say of which type."""
    some = [own for own in labels if len(own)]
    return distinct(np.concatenate(some)) if some else labels[0]


def _check_two(estimator: Any, classes: np.ndarray) -> None:
    if len(classes) < 2:
        only = repr(classes[0]) if len(classes) else "none has a positive weight"
        raise ValueError(
            "This solver needs samples of at least 2 classes in the data, but the data for "
            f"{type(estimator).__name__} contains only one class: {only}"
        )


def check_sample_weight(
    sample_weight: Any, matrix: Matrix, exchange: Exchange = alone
) -> np.ndarray | None:
    """Return sample weights in the matrix's dtype, None where those of all shards are one.

    Parameters
    ----------
    sample_weight : array-like of shape (n_rows,), float or None
        The user's weights, on the host or where the matrix is.
    matrix : Matrix
        The rows they belong to.
    exchange : callable, default=alone
        Returns what each shard has laid down.

    Returns
    -------
    ndarray of shape (n_rows,) or None
        The weights.

    Raises
    ------
    ValueError
        If a weight is negative or not finite in the matrix's dtype, or all are zero.
    """
    if sample_weight is None and isinstance(matrix, ChunkedMatrix):
        sample_weight = matrix.weights()
    if not any(exchange(sample_weight is not None)):
        return None
    if sample_weight is None:
        sample_weight = 1.0
    if isinstance(matrix, ResidentMatrix):
        sample_weight = matrix.host_vector("sample_weight", sample_weight)
    if matrix.shape[0]:
        # scikit-learn's check looks at an array of the right length, not at the entries of X.
        rows = np.empty((matrix.shape[0], 0))
        with np.errstate(over="ignore"):  # what overflows is refused as not finite
            weights = _check_sample_weight(
                sample_weight, rows, dtype=matrix.dtype, ensure_non_negative=True
            )
        assert_all_finite(weights, input_name="sample_weight")
    else:  # of an empty shard
        weights = np.empty(0, matrix.dtype)
    with np.errstate(over="ignore"):
        total = sum(exchange(weights.sum()))
    if not np.isfinite(total):
        raise ValueError(f"sample_weight: expected a sum that is finite in {matrix.dtype}")
    if not any(exchange(bool(weights.any()))):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weights


def check_positive(
    name: str, value: Any, *, allow_zero: bool = False, allow_infinity: bool = True
) -> float:
    """Return a real parameter as float.

    Parameters
    ----------
    name : str
        Of the parameter.
    value : object
        What the user gave.
    allow_zero : bool, default=False
        Whether zero is legal.
    allow_infinity : bool, default=True
        Whether infinity is.

    Returns
    -------
    float
        The value.

    Raises
    ------
    TypeError, ValueError
        If it is not a real number in range.
    """
    try:
        is_nan = isinstance(value, numbers.Real) and math.isnan(value)
    except OverflowError as error:
        raise ValueError(f"{name}: expected a number that float64 can hold") from error
    if isinstance(value, bool) or is_nan:
        raise ValueError(f"{name}: expected a real number, got {value!r}")
    bounds = "left" if allow_zero else "neither"
    check_scalar(value, name, numbers.Real, min_val=0, include_boundaries=bounds)
    if math.isinf(value) and not allow_infinity:
        raise ValueError(f"{name}: expected a finite number, got {value!r}")
    return float(value)


def check_flags(estimator: Any) -> None:
    """Refuse parameters that are neither true nor false: the text "False" would count as true.

    Parameters
    ----------
    estimator : estimator
        With any of the parameters of `_FLAGS`.

    Raises
    ------
    ValueError
        If one is anything else.
    """
    for name in _FLAGS:
        value = getattr(estimator, name, False)
        if not isinstance(value, bool | np.bool):
            raise ValueError(f"{name}: expected True or False, got {value!r}")


def check_device_ids(device_ids: Any) -> tuple[int, ...]:
    """Return the numbers of the GPUs to train on.

    Parameters
    ----------
    device_ids : object
        What the user gave.

    Returns
    -------
    tuple of int
        Empty for the CPU.

    Raises
    ------
    TypeError, ValueError
        If it is neither None nor a list of numbers of devices.
    """
    if device_ids is None:
        return ()
    expected = f"device_ids={device_ids!r}: expected None or a list of integers >= 0"
    if not isinstance(device_ids, (list, tuple)):
        raise TypeError(expected)
    if any(isinstance(i, bool) or not isinstance(i, numbers.Integral) for i in device_ids):
        raise TypeError(expected)
    if not device_ids or min(device_ids) < 0:
        raise ValueError(expected)
    return tuple(int(i) for i in device_ids)


def check_finite_in(name: str, value: float, dtype: np.dtype) -> float:
    """Return a positive number that the dtype can hold.

    Parameters
    ----------
    name : str
        Of the parameter it comes from.
    value : float
        Positive.
    dtype : numpy dtype
        float32 or float64.

    Returns
    -------
    float
        The value.

    Raises
    ------
    ValueError
        If it overflows or vanishes in the dtype.
    """
    info = np.finfo(dtype)
    if not float(info.tiny) <= value <= float(info.max):
        raise ValueError(
            f"{name}: expected a finite number between {info.tiny:.2g} and {info.max:.2g} "
            f"for {dtype} data, got {value:.3g}"
        )
    return value


def _stand_in(matrix: ResidentMatrix | ChunkedMatrix) -> np.ndarray:
    """Return an array of the host of the same shape that takes no memory: all its rows are one."""
    return np.broadcast_to(matrix.dtype.type(0), matrix.shape)


def _validated(estimator: Any, X: Any, *y: Any, reset: bool, **checks: Any) -> Any:
    """Run scikit-learn's checks on X, or X and y; columns' names and number go to the estimator."""
    if are_plain_rows(X) and all(are_plain_targets(targets, X.shape[0]) for targets in y):
        if issparse(X):
            check_sparse(X)
        if set_columns(estimator, X.shape[1], reset=reset):
            if checks.get("ensure_all_finite", True):
                values, name = X.data if issparse(X) else X, type(estimator).__name__
                assert_all_finite(values, estimator_name=name, input_name="X")
            return (X, *y) if y else X
    checks |= {"accept_sparse": "csr", "accept_large_sparse": True, "dtype": _FLOATS}
    if issparse(X):
        check_sparse(X)
    else:
        refuse_dates(X, "X")
    for targets in y:
        refuse_dates(targets, "y")
    is_array = isinstance(X, np.ndarray)  # which need not be asked what frame it is
    frame = X if is_array else nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or frame.implementation.is_pandas():
        return validate_data(estimator, X, *y, reset=reset, **checks)
    # scikit-learn would make float64 of float32 columns of Polars and pyarrow.
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    values = frame.to_numpy()
    if y:
        return check_X_y(values, *y, estimator=estimator, **checks)
    return check_array(values, estimator=estimator, input_name="X", **checks)


def _empty_shard(estimator: Any, X: Any) -> Matrix:
    """Return no rows, which scikit-learn's checks would refuse, of the same kind as X."""
    validate_data(estimator, X, skip_check_array=True)
    dtype = X.dtype if getattr(X, "dtype", None) in _FLOATS else np.dtype(np.float64)
    return as_matrix(X.tocsr().astype(dtype) if issparse(X) else np.empty(np.shape(X), dtype))


def _check_index_range(name: str, index: np.ndarray, size: int) -> None:
    if len(index) and (index.min() < 0 or index.max() >= size):
        raise ValueError(
            f"{name}: indices must lie in [0, {size}), got {index.min()} to {index.max()}"
        )


def _contiguous(X: CompressedMatrix) -> CompressedMatrix:
    """Return compressed rows whose arrays have their elements side by side."""
    arrays = (X.indptr, X.indices, X.values)
    if all(a is None or (a.flags.c_contiguous and a.flags.aligned) for a in arrays):
        return X
    indptr, indices = np.ascontiguousarray(X.indptr), np.ascontiguousarray(X.indices)
    values = None if X.values is None else np.ascontiguousarray(X.values)
    return CompressedMatrix(indptr, indices, X.n_features, values, X.dtype)


def as_matrix(X: Any) -> Matrix:
    """Return validated data in one of our containers.

    Parameters
    ----------
    X : ndarray or CSR matrix
        float32 or float64.

    Returns
    -------
    Matrix
        Over the same memory where its layout serves.
    """
    if issparse(X):
        return _contiguous(CompressedMatrix(X.indptr, X.indices, X.shape[1], X.data))
    itemsize = X.dtype.itemsize
    is_strided_by_items = all(stride % itemsize == 0 for stride in X.strides)
    if not (X.flags.aligned and X.dtype.isnative and is_strided_by_items):
        X = np.array(X, dtype=X.dtype.newbyteorder("="), order="C", copy=True)
    return DenseMatrix(X)
