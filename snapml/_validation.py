"""From what the user passes to clean arrays: the only caller of scikit-learn's validation."""

from __future__ import annotations

import math
import numbers
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite, check_array, check_scalar
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from snapml.data import CompressedMatrix, DenseMatrix, Matrix

__all__ = [
    "check_classes",
    "check_fit_input",
    "check_positive",
    "check_predict_input",
    "check_sample_weight",
    "raise_non_finite",
]

_FLOATS = [np.float64, np.float32]


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
    if isinstance(X, CompressedMatrix):
        if y is None:
            raise ValueError(
                f"{type(estimator).__name__} requires y to be passed, but the target y is None"
            )
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y", estimator=estimator)
        if len(y) != X.shape[0]:
            raise ValueError(f"y has {len(y)} rows, X has {X.shape[0]}")
        if min(X.shape) < 1:
            raise ValueError(f"expected at least 1 row and 1 column, got shape {X.shape}")
        estimator.n_features_in_ = X.n_features
        return X, y
    X, y = validate_data(
        estimator,
        _checked_container(X),
        y,
        accept_sparse="csr",
        accept_large_sparse=True,
        dtype=_FLOATS,
        ensure_all_finite=False,
        **target_checks,
    )
    assert_all_finite(y, input_name="y", estimator_name=type(estimator).__name__)
    return _as_matrix(X), y


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
        return X
    X = validate_data(
        estimator,
        _checked_container(X),
        reset=False,
        accept_sparse="csr",
        accept_large_sparse=True,
        dtype=_FLOATS,
    )
    return _as_matrix(X)


def raise_non_finite(estimator: Any, X: Any) -> None:
    """Raise scikit-learn's error about NaN or infinity in X.

    Parameters
    ----------
    estimator : estimator
        Named in the message.
    X : array-like, sparse matrix, data frame or CompressedMatrix
        Training data known to hold such an entry.

    Raises
    ------
    ValueError
        Always.
    """
    name = type(estimator).__name__
    values: Any = X.values if isinstance(X, CompressedMatrix) else _checked_container(X)
    if issparse(values):
        values = values.data
    assert_all_finite(np.asarray(values), estimator_name=name, input_name="X")
    raise ValueError(f"Input X of {name} contains NaN or infinity")


def check_classes(estimator: Any, y: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray:
    """Return the class labels.

    Parameters
    ----------
    estimator : estimator
        Named in messages.
    y : ndarray of shape (n_rows,)
        Targets.
    sample_weight : ndarray of shape (n_rows,) or None
        Checked weights.

    Returns
    -------
    ndarray of shape (n_classes,)
        Sorted labels.

    Raises
    ------
    ValueError
        If fewer than two classes have weight, or the targets are continuous.
    """
    check_classification_targets(y)
    classes = np.unique(y)
    weighted = classes if sample_weight is None else np.unique(y[sample_weight > 0])
    if len(weighted) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs samples of at least 2 classes in the data, but the "
            f"data contains only one class: {weighted[0]!r}"
        )
    return classes


def check_sample_weight(sample_weight: Any, matrix: Matrix) -> np.ndarray | None:
    """Return sample weights in the matrix's dtype, None where all are one.

    Parameters
    ----------
    sample_weight : array-like of shape (n_rows,), float or None
        The user's weights.
    matrix : Matrix
        The rows they belong to.

    Returns
    -------
    ndarray of shape (n_rows,) or None
        The weights.

    Raises
    ------
    ValueError
        If a weight is negative or not finite, or all are zero.
    """
    if sample_weight is None:
        return None
    # scikit-learn's check looks at an array of the right length, not at the entries of X.
    rows = np.empty((matrix.shape[0], 0))
    weights = _check_sample_weight(
        sample_weight, rows, dtype=matrix.dtype, ensure_non_negative=True
    )
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weights


def check_positive(name: str, value: Any, *, allow_zero: bool = False) -> float:
    """Return a real parameter as float.

    Parameters
    ----------
    name : str
        Of the parameter.
    value : object
        What the user gave.
    allow_zero : bool, default=False
        Whether zero is legal.

    Returns
    -------
    float
        The value; infinity is legal here.

    Raises
    ------
    TypeError, ValueError
        If it is not a real number in range.
    """
    if isinstance(value, bool) or (isinstance(value, numbers.Real) and math.isnan(value)):
        raise ValueError(f"{name}: expected a real number, got {value!r}")
    bounds = "left" if allow_zero else "neither"
    check_scalar(value, name, numbers.Real, min_val=0, include_boundaries=bounds)
    return float(value)


def _checked_container(X: Any) -> Any:
    """Return X in a container that scikit-learn and SciPy may touch safely."""
    if issparse(X):
        return _checked_sparse(X)
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame) and not hasattr(X, "__array__"):
        return frame.to_pandas()
    return X


def _checked_sparse(X: Any) -> Any:
    """Refuse sparse matrices whose conversion to CSR would leave its arrays.

    CSR itself is checked by the engine, in its first read.
    """
    if X.ndim != 2:
        raise ValueError(f"Expected 2D input, got input with shape {X.shape}.")
    if X.format in ("csc", "bsr"):
        X.check_format(full_check=True)
    elif X.format == "coo":
        for axis, index in enumerate(X.coords):
            if len(index) and (index.min() < 0 or index.max() >= X.shape[axis]):
                raise ValueError(
                    f"axis {axis} indices must lie in [0, {X.shape[axis]}), "
                    f"got {index.min()} to {index.max()}"
                )
    return X


def _as_matrix(X: Any) -> Matrix:
    """Return validated data in one of our containers."""
    if issparse(X):
        return CompressedMatrix(X.indptr, X.indices, X.shape[1], X.data)
    itemsize = X.dtype.itemsize
    is_strided_by_items = all(stride % itemsize == 0 for stride in X.strides)
    if not (X.flags.aligned and X.dtype.isnative and is_strided_by_items):
        X = np.ascontiguousarray(X, dtype=X.dtype.newbyteorder("="))
    return DenseMatrix(X)
