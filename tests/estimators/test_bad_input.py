"""Every bad input ends in a Python exception that says what is wrong, and changes nothing.

The cases are data, so that one and the same list also runs in a loop in another process: an
abort there would show as its exit code.
"""

import copy
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import FitFailedWarning, NotFittedError

from snapml import LinearSVC, LogisticRegression, Ridge
from snapml.data import CompressedMatrix
from snapml.model_selection import GridSearchCV
from tests.estimators.every import CLASSES

from .conftest import (
    ESTIMATORS,
    assert_threads_end_at,
    example,
    fitted_names,
    live_threads,
    run_python,
    unconverged,
)

REFUSED = (ValueError, TypeError)


def readable(value):
    """Return the name of a case: of a class, a partial call of one, or its parameters."""
    if isinstance(value, partial):
        return f"{value.func.__name__}-{value.keywords}"
    return getattr(value, "__name__", None) or str(value)


# --- rows ------------------------------------------------------------------------------------


def with_entry(value, dtype=np.float64, order="C"):
    X = np.array(example()[0], dtype=dtype, order=order)
    X[3, 2] = value
    return X


def csr(kind=sparse.csr_matrix, dtype=np.float64):
    X = example()[0]
    return kind(np.where(np.abs(X) > 0.5, X, 0).astype(dtype))


def broken(part, position, value, kind=sparse.csr_matrix):
    """Return a sparse matrix with one element of one of its arrays overwritten."""
    X = csr(kind)
    getattr(X, part)[position] = value
    return X


def cut(part, n, kind=sparse.csr_matrix):
    """Return a sparse matrix with the last n elements of one of its arrays missing."""
    X = csr(kind)
    setattr(X, part, getattr(X, part)[:-n].copy())
    return X


def stretched(part):
    X = csr()
    values = getattr(X, part)
    setattr(X, part, np.append(values, values[-1]))
    return X


def compressed(**parts):
    X = csr()
    parts = {"indptr": X.indptr, "indices": X.indices, "values": X.data, **parts}
    return CompressedMatrix(parts["indptr"], parts["indices"], 5, parts["values"])


def compressed_with(part, position, value):
    X = csr()
    parts = {"indptr": X.indptr, "indices": X.indices, "values": X.data}
    parts[part][position] = value
    return compressed(**parts)


def memmap_with(value):
    import tempfile

    X = with_entry(value, np.float32)
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        X.tofile(file.name)
        return np.memmap(file.name, dtype=X.dtype, mode="r", shape=X.shape)  # outlives the name


@dataclass(frozen=True)
class Case:
    """Bad rows, and what the message must hold."""

    make: Any
    says: str
    in_fit: bool = True
    in_predict: bool = True


NAN, INFINITE = "contains NaN", "contains infinity|too large"
N_STORED = int(csr().nnz)
ROWS = {
    "NaN": Case(partial(with_entry, np.nan), NAN),
    "NaN, float32": Case(partial(with_entry, np.nan, np.float32), NAN),
    "NaN, Fortran order": Case(partial(with_entry, np.nan, order="F"), NAN),
    "NaN, memmap": Case(partial(memmap_with, np.nan), NAN),
    "NaN, CSR": Case(partial(broken, "data", 7, np.nan), NAN),
    "NaN, CSC": Case(partial(broken, "data", 7, np.nan, sparse.csc_matrix), NAN),
    "NaN, COO": Case(partial(broken, "data", 7, np.nan, sparse.coo_matrix), NAN),
    "NaN, CompressedMatrix": Case(partial(compressed_with, "values", 7, np.nan), NAN),
    "NaN, object": Case(lambda: with_entry(None, object), "NaN"),
    "inf": Case(partial(with_entry, np.inf), INFINITE),
    "-inf": Case(partial(with_entry, -np.inf), INFINITE),
    "inf, float32": Case(partial(with_entry, np.inf, np.float32), INFINITE),
    "inf, memmap": Case(partial(memmap_with, np.inf), INFINITE),
    "inf, CSR": Case(partial(broken, "data", 7, np.inf), INFINITE),
    "inf, CompressedMatrix": Case(partial(compressed_with, "values", 7, -np.inf), INFINITE),
    "1e200": Case(partial(with_entry, 1e200), "1.8e.308.*got.*scale", in_predict=False),
    "1e30, float32": Case(
        partial(with_entry, 1e30, np.float32), r"3.4e.38.*got.*scale", in_predict=False
    ),
    "1e200, CSR": Case(partial(broken, "data", 7, 1e200), "1.8e.308.*got.*scale", in_predict=False),
    "0-D": Case(lambda: np.float64(3.0), "Expected 2D array, got scalar"),
    "1-D": Case(lambda: example()[0][:, 0], "Expected 2D array, got 1D"),
    "1-D, sparse": Case(
        lambda: sparse.coo_array(example()[0][:, 0]), r"(?s)Expected 2D.*got.*1D|got.*\(60,\)"
    ),
    "3-D": Case(lambda: example()[0][:, :, None], "dim 3.*dim <= 2 is required"),
    "no rows": Case(lambda: example()[0][:0], r"0 sample\(s\).*minimum of 1"),
    "no rows, CSR": Case(lambda: sparse.csr_matrix((0, 5)), r"0 sample\(s\).*minimum of 1"),
    "no columns": Case(lambda: example()[0][:, :0], r"0 feature\(s\).*minimum of 1"),
    "no columns, CSR": Case(lambda: sparse.csr_matrix((60, 0)), r"0 feature\(s\).*minimum of 1"),
    "too few rows": Case(lambda: example()[0][:50], r"50.*60|60.*50", in_predict=False),
    "too few rows, CompressedMatrix": Case(
        lambda: CompressedMatrix(np.array([0, 1]), np.array([2]), 5), "60.*1", in_predict=False
    ),
    "too few columns": Case(
        lambda: example()[0][:, :4], "X has 4 features.*expecting 5", in_fit=False
    ),
    "too many columns": Case(
        lambda: np.ones((60, 6)), "X has 6 features.*expecting 5", in_fit=False
    ),
    "too many columns, CSR": Case(
        lambda: sparse.csr_matrix((60, 6)), "X has 6 features.*expecting 5", in_fit=False
    ),
    "too many columns, CompressedMatrix": Case(
        lambda: CompressedMatrix(np.array([0, 1]), np.array([2]), 6),
        "X has 6 features.*expecting 5",
        in_fit=False,
    ),
    "complex": Case(lambda: example()[0].astype(complex), "Complex data not supported"),
    "complex, CSR": Case(lambda: csr(dtype=complex), "Complex data not supported"),
    "strings": Case(lambda: np.full((60, 5), "red"), "convert string to float.*red"),
    "strings, object": Case(
        lambda: np.full((60, 5), "red", dtype=object), "convert string to float.*red"
    ),
    "one string": Case(lambda: "red", "file or folder of them, got 'red'"),
    "None": Case(lambda: None, "Expected 2D array, got"),
    "ragged": Case(lambda: [[1.0, 2.0], [3.0]], "inhomogeneous"),
    "CSR, index = n_features": Case(partial(broken, "indices", 7, 5), r"\[0, 5\).*got 5"),
    "CSR, index huge": Case(partial(broken, "indices", 7, 2**31 - 1), r"\[0, 5\).*got 2147483647"),
    "CSR, index negative": Case(partial(broken, "indices", 7, -1), r"\[0, 5\).*got -1"),
    "CSR, index hugely negative": Case(
        partial(broken, "indices", 7, -(2**31)), r"\[0, 5\).*got -2147483648"
    ),
    "CSR, indptr starts at 1": Case(partial(broken, "indptr", 0, 1), "start with 0, got 1"),
    "CSR, indptr starts at -1": Case(partial(broken, "indptr", 0, -1), "start with 0, got -1"),
    "CSR, indptr decreases": Case(partial(broken, "indptr", 9, 0), r"not decrease, got \d+ then 0"),
    "CSR, indptr negative": Case(partial(broken, "indptr", 9, -7), r"not decrease, got"),
    "CSR, indptr beyond nnz": Case(
        partial(broken, "indptr", -1, 10**6), rf"ends at 1000000.*{N_STORED} indices"
    ),
    "CSR, indptr beyond nnz in between": Case(
        partial(broken, "indptr", 30, 10**6), "not decrease, got 1000000 then"
    ),
    "CSR, data too short": Case(
        partial(cut, "data", 5), rf"expected {N_STORED}.*got {N_STORED - 5}"
    ),
    "CSR, indices too short": Case(
        partial(cut, "indices", 5), rf"ends at {N_STORED}.*{N_STORED - 5} indices"
    ),
    "CSR, indptr too short": Case(partial(cut, "indptr", 5), r"indptr.*6[01].*5[56]"),
    "CSR, indptr too long": Case(partial(stretched, "indptr"), r"indptr.*6[01].*6[12]"),
    "CSC, index = n_rows": Case(
        partial(broken, "indices", 7, 60, sparse.csc_matrix), r"(?i)indices must be.*60"
    ),
    "CSC, index negative": Case(
        partial(broken, "indices", 7, -1, sparse.csc_matrix), r"(?i)indices must be.*0"
    ),
    "CSC, indptr beyond nnz": Case(
        partial(broken, "indptr", 2, 10**6, sparse.csc_matrix), "indptr"
    ),
    "CSC, data too short": Case(
        partial(cut, "data", 5, sparse.csc_matrix), r"(?i)indices and data|size|length"
    ),
    "COO, row = n_rows": Case(
        partial(broken, "row", 7, 60, sparse.coo_matrix), r"\[0, 60\).*got.*60"
    ),
    "COO, row negative": Case(
        partial(broken, "row", 7, -1, sparse.coo_matrix), r"\[0, 60\).*got -1"
    ),
    "COO, column = n_features": Case(
        partial(broken, "col", 7, 5, sparse.coo_matrix), r"\[0, 5\).*got.*5"
    ),
    "COO, column negative": Case(
        partial(broken, "col", 7, -1, sparse.coo_matrix), r"\[0, 5\).*got -1"
    ),
    "COO, data too short": Case(partial(cut, "data", 5, sparse.coo_matrix), "same length"),
    "BSR, block index": Case(
        partial(broken, "indices", 3, 9, partial(sparse.bsr_matrix, blocksize=(2, 5))),
        r"max 9|\b9\b",
    ),
    "CompressedMatrix, index = n_features": Case(
        partial(compressed_with, "indices", 7, 5), r"\[0, 5\).*got 5"
    ),
    "CompressedMatrix, index negative": Case(
        partial(compressed_with, "indices", 7, -3), r"\[0, 5\).*got -3"
    ),
    "CompressedMatrix, indptr starts at 2": Case(
        partial(compressed_with, "indptr", 0, 2), "start with 0, got 2"
    ),
    "CompressedMatrix, indptr beyond nnz": Case(
        partial(compressed_with, "indptr", -1, 10**6), "1000000"
    ),
    "CompressedMatrix, data too short": Case(
        lambda: compressed(values=np.ones(3)), rf"{N_STORED}.*3"
    ),
}
IN_FIT = [name for name, case in ROWS.items() if case.in_fit]
IN_PREDICT = [name for name, case in ROWS.items() if case.in_predict]


def only_parameters(model):
    """Return whether nothing but parameters and the shape of X is stored."""
    extra = set(vars(model)) - set(model.get_params()) - {"n_features_in_", "feature_names_in_"}
    return not extra


@pytest.mark.parametrize("name", IN_FIT)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_bad_rows_raise_in_fit_and_leave_nothing_behind(estimator, name):
    case, (_, y) = ROWS[name], example()
    model, n_threads = ESTIMATORS[estimator](), live_threads()
    bad = case.make()
    with pytest.raises(REFUSED, match=case.says):
        model.fit(bad, y)
    assert fitted_names(model) == set()
    assert only_parameters(model)
    assert_threads_end_at(n_threads)


@pytest.mark.parametrize("name", IN_FIT)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_bad_rows_in_a_second_fit_leave_the_first_model_as_it_was(estimator, name):
    case, (X, y) = ROWS[name], example()
    model = ESTIMATORS[estimator]().fit(X, y)
    before = {key: copy.deepcopy(getattr(model, key)) for key in fitted_names(model)}
    expected = model.predict(X)
    with pytest.raises(REFUSED, match=case.says):
        model.fit(case.make(), y)
    assert fitted_names(model) == set(before)
    for key, value in before.items():
        np.testing.assert_equal(getattr(model, key), value)
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_failed_fit_on_other_columns_leaves_a_model_that_predicts(estimator):
    X, y = example()
    model = ESTIMATORS[estimator]().fit(X, y)
    expected = model.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((60, 7), np.nan), y)
    assert model.n_features_in_ == 5
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize("name", IN_PREDICT)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_bad_rows_raise_in_predict(estimator, name):
    case, (X, y) = ROWS[name], example()
    model, n_threads = ESTIMATORS[estimator]().fit(X, y), live_threads()
    bad = case.make()
    with pytest.raises(REFUSED, match=case.says):
        model.predict(bad)
    if estimator != "Ridge":
        with pytest.raises(REFUSED, match=case.says):
            model.decision_function(bad)
    assert_threads_end_at(n_threads)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", CLASSES)
def test_parameters_that_are_neither_true_nor_false_are_refused(name):
    X, y = np.arange(40.0).reshape(20, 2) % 7, np.arange(20) % 2
    flags = {k for k, v in CLASSES[name]().get_params().items() if isinstance(v, bool)}
    for flag in flags - {"dual", "precompute", "refit"}:  # some of which may be "auto"
        model = CLASSES[name](**{flag: "False"})
        with pytest.raises(ValueError, match=f"{flag}: expected True or False, got 'False'"):
            model.fit(X, y)
        assert not hasattr(model, "coef_")


def test_a_search_fails_for_candidates_that_are_neither_true_nor_false():
    X, y = load_breast_cancer(return_X_y=True)
    search = GridSearchCV(LogisticRegression(), {"fit_intercept": ["no", True]}, cv=2)
    with (
        pytest.warns(FitFailedWarning, match="fit_intercept: expected True or False"),
        pytest.warns(UserWarning, match="non-finite"),
    ):
        search.fit(X / X.std(axis=0), y)
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [True, False]
    assert search.n_shared_ == 2


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_predict_before_fit_raises_not_fitted(estimator):
    X, _ = example()
    model = ESTIMATORS[estimator]()
    methods = ["predict", "decision_function", "predict_proba", "predict_log_proba"]
    for method in filter(partial(hasattr, model), methods):
        with pytest.raises(NotFittedError, match=f"(?i){estimator}.*not fitted"):
            getattr(model, method)(X)
    for method in filter(partial(hasattr, model), ["sparsify", "densify"]):
        with pytest.raises(NotFittedError):
            getattr(model, method)()


@pytest.mark.parametrize(
    ("dtype", "entry"),
    [(np.float64, scale) for scale in (1e-200, 1e5, 1e20, 1e100, 1e150)]
    + [(np.float32, scale) for scale in (1e-30, 1e3, 1e8, 1e16, 1e18)],
)
@pytest.mark.parametrize("scope", ["entry", "column", "all"])
@pytest.mark.parametrize("container", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_numbers_far_from_one_give_a_finite_model_or_an_error(
    estimator, container, scope, entry, dtype
):
    X, y = example()
    cells = {"entry": (3, 2), "column": (slice(None), 2), "all": slice(None)}[scope]
    X[cells] *= entry
    assert_finite_or_refused(ESTIMATORS[estimator](max_iter=20), container(X.astype(dtype)), y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_data_as_they_were_measured_give_a_finite_model(estimator, dtype):
    X, y = load_breast_cancer(return_X_y=True)  # columns from 1e-3 to 4e3, not scaled
    with unconverged():
        model = ESTIMATORS[estimator]().fit(X.astype(dtype), y)
    assert np.all(np.isfinite(model.coef_))
    assert 0 <= model.gap_ <= model.objective_


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (make, {"C": C})
        for make in (LogisticRegression, LinearSVC, partial(LinearSVC, loss="hinge"))
        for C in (1e-300, 1e-40, 1e20, 1e40, 1e300, np.finfo(float).max)
    ]
    + [(Ridge, {"alpha": alpha}) for alpha in (1e-320, 1e-300, 1e-40, 1e20, 1e40, 1e300)]
    + [(LinearSVC, {"intercept_scaling": scaling}) for scaling in (1e-200, 1e30, 1e200)],
    ids=readable,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_parameters_give_a_finite_model_or_an_error(make, given, dtype):
    X, y = example()
    assert_finite_or_refused(make(max_iter=20, **given), X.astype(dtype), y)


def assert_finite_or_refused(model, X, y):
    refusal = ""
    try:
        with unconverged():
            model.fit(X, y)
    except ValueError as error:
        refusal = str(error)
    if refusal:
        assert re.search("scale|finite|too large|expected", refusal)
        assert only_parameters(model)
        return
    for value in (model.coef_, model.intercept_, model.objective_, model.gap_):
        assert np.all(np.isfinite(value))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_rows_huge_but_finite_predict_finite_or_signed_infinite_margins(estimator):
    X, y = example()
    model = ESTIMATORS[estimator]().fit(X, y)
    out = model.predict(X * 1e150)
    assert not np.any(np.isnan(np.asarray(out, dtype=float)))


# --- targets ---------------------------------------------------------------------------------

CLASSIFIERS = ("LogisticRegression", "LinearSVC")
ALL = (*CLASSIFIERS, "Ridge")
REGRESSORS = ("Ridge",)


def target(position, value, dtype=np.float64):
    y = example()[1].astype(dtype)
    y[position] = value
    return y


TARGETS = {
    "None": (ALL, lambda: None, "requires y to be passed, but the target y is None"),
    "NaN": (ALL, partial(target, 3, np.nan), "Input y.*contains NaN"),
    "inf": (ALL, partial(target, 3, np.inf), "Input y.*contains infinity"),
    "too short": (ALL, lambda: example()[1][:50], r"60.*50|50.*60"),
    "empty": (ALL, lambda: np.array([]), r"60|0 sample"),
    "0-D": (ALL, lambda: 1.0, r"(?i)0-?d|scalar|shape \(\)|singleton"),
    "3-D": (ALL, lambda: np.zeros((60, 1, 1)), "(?i)dim 3|1d array|shape"),
    "complex": (ALL, lambda: example()[1] + 1j, "Complex data not supported|[Uu]nknown label"),
    "one class": (CLASSIFIERS, lambda: np.ones(60), "at least 2 classes.*one class: .*1"),
    "one class of text": (CLASSIFIERS, lambda: np.full(60, "spam"), "one class.*spam"),
    "continuous": (CLASSIFIERS, lambda: example()[0][:, 0], "[Uu]nknown label type: continuous"),
    "two columns": (CLASSIFIERS, lambda: np.eye(2)[example()[1]], r"1d array.*\(60, 2\)"),
    "numbers and text": (
        CLASSIFIERS,
        lambda: np.array(["a", 1] * 30, dtype=object),
        "y: expected labels of one type, or numbers, got int and str",
    ),
    "text": (REGRESSORS, lambda: np.full(60, "red"), "convert string to float.*red"),
    "overflowing float32": (REGRESSORS, partial(target, 3, 1e300), "float32"),
}


@pytest.mark.parametrize(
    ("estimator", "name"), [(e, name) for name, (who, *_) in TARGETS.items() for e in who]
)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_bad_targets_raise_and_leave_nothing_behind(estimator, name, container):
    _, make, says = TARGETS[name]
    model = ESTIMATORS[estimator]()
    with pytest.raises(REFUSED, match=says):
        model.fit(container(example()[0].astype(np.float32)), make())
    assert only_parameters(model)


def test_liblinear_refuses_three_classes():
    model = LogisticRegression(solver="liblinear")
    with pytest.raises(ValueError, match=r"Only binary classification is supported.*3 classes"):
        model.fit(example()[0], np.arange(60) % 3)
    assert only_parameters(model)


@pytest.mark.parametrize(
    ("estimator", "name"), [(e, name) for name, (who, *_) in TARGETS.items() for e in who]
)
def test_bad_targets_beside_a_compressed_matrix_raise(estimator, name):
    _, make, says = TARGETS[name]
    X = csr(dtype=np.float32)
    model = ESTIMATORS[estimator]()
    with pytest.raises(REFUSED, match=says):
        model.fit(CompressedMatrix(X.indptr, X.indices, 5, X.data), make())
    assert only_parameters(model)


def test_column_vector_as_target_is_flattened_with_scikit_learns_warning():
    X, y = example()
    with pytest.warns(UserWarning, match="column-vector y"):
        model = LogisticRegression().fit(X, y[:, None])
    np.testing.assert_array_equal(model.coef_, LogisticRegression().fit(X, y).coef_)


# --- CompressedMatrix itself -----------------------------------------------------------------

PARTS = {"indptr": np.array([0, 2, 3]), "indices": np.array([0, 4, 1]), "n_features": 5}
COMPRESSED = {
    "indptr is a list": ({"indptr": [0, 2, 3]}, "indptr: expected an ndarray.*got list"),
    "indptr is float": ({"indptr": np.array([0.0, 2, 3])}, "indptr: expected.*got float64"),
    "indptr is empty": ({"indptr": np.array([], dtype=int)}, "indptr.*0"),
    "indptr has two dimensions": (
        {"indptr": np.array([[0], [2], [3]])},
        r"indptr.*\(3, 1\)|2-?[dD]",
    ),
    "indices are a list": ({"indices": [0, 4, 1]}, "indices: expected an ndarray.*got list"),
    "indices are uint8": ({"indices": np.array([0, 4, 1], np.uint8)}, "indices.*got uint8"),
    "indices are big-endian": ({"indices": np.array([0, 4, 1], ">i4")}, "indices.*got >i4"),
    "indices have two dimensions": (
        {"indices": np.array([[0], [4], [1]])},
        r"indices.*\(3, 1\)|2-?[dD]",
    ),
    "values are a list": ({"values": [1.0, 2.0, 3.0]}, "values: expected an ndarray.*got list"),
    "values are integers": ({"values": np.array([1, 2, 3])}, "float32 or float64, got int64"),
    "values have two dimensions": ({"values": np.ones((3, 1))}, r"values.*\(3, 1\)|2-?[dD]"),
    "values and dtype differ": (
        {"values": np.ones(3), "dtype": np.float32},
        "expected dtype float32, got float64",
    ),
    "dtype is float16": ({"dtype": np.float16}, "float32 or float64, got float16"),
    "n_features is text": ({"n_features": "five"}, "n_features.*five"),
    "n_features is 2.5": ({"n_features": 2.5}, "n_features.*2.5"),
    "n_features is negative": ({"n_features": -1}, "n_features.*-1"),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_bad_parts_of_a_compressed_matrix_raise_where_it_is_made(name):
    parts, says = COMPRESSED[name]
    with pytest.raises(REFUSED, match=says):
        CompressedMatrix(**{**PARTS, **parts})


# --- parameters ------------------------------------------------------------------------------

EVERYWHERE = [
    ({"tol": -1}, "tol.*-1"),
    ({"tol": np.nan}, "tol.*nan"),
    ({"tol": "small"}, "tol.*str"),
    ({"tol": None}, "tol.*None"),
    ({"max_iter": -1}, "max_iter.*-1"),
    ({"max_iter": 1.5}, "max_iter.*float|max_iter.*1.5"),
    ({"max_iter": "many"}, "max_iter.*str"),
    ({"n_threads": 0}, "n_threads: expected.*got 0"),
    ({"n_threads": 1.5}, "n_threads: expected.*got 1.5"),
    ({"n_threads": "all"}, "n_threads: expected.*got 'all'"),
    ({"n_threads": True}, "n_threads: expected.*got True"),
    ({"verbose": "loud"}, "verbose.*loud"),
    ({"verbose": None}, "verbose.*None"),
    ({"verbose": -1}, "verbose.*-1"),
    ({"random_state": "dice"}, "dice"),
]
OF_CLASSIFIERS = [
    ({"C": 0}, "C.*0"),
    ({"C": -1.0}, "C.*-1"),
    ({"C": np.nan}, "C.*nan"),
    ({"C": "a"}, "C.*str"),
    ({"C": None}, "C.*None"),
    ({"C": [1.0]}, "C.*list"),
    ({"C": True}, "C.*True"),
    ({"C": 10**400}, "C: expected a number that float64 can hold"),
    ({"class_weight": "equal"}, "class_weight.*equal"),
    ({"class_weight": [1.0, 2.0]}, "class_weight.*\\[1"),
    ({"class_weight": {7: 2.0}}, "class.*class_weight"),
    ({"class_weight": {0: "heavy", 1: 1.0}}, "class_weight.*heavy"),
    ({"class_weight": {0: -1.0, 1: 1.0}}, "class_weight.*-1"),
    ({"class_weight": {0: np.nan, 1: 1.0}}, "class_weight.*nan"),
    ({"class_weight": {0: np.inf, 1: 1.0}}, "class_weight.*inf"),
]
PENALISED_INTERCEPT = [
    ({"intercept_scaling": 0}, "intercept_scaling.*0"),
    ({"intercept_scaling": -1}, "intercept_scaling.*-1"),
    ({"intercept_scaling": np.nan}, "intercept_scaling.*nan"),
    ({"intercept_scaling": np.inf}, "intercept_scaling.*inf"),
    ({"intercept_scaling": "a"}, "intercept_scaling.*str"),
]
PARAMETERS = [
    *((make, *case) for make in ESTIMATORS.values() for case in EVERYWHERE),
    *((make, *case) for make in (LogisticRegression, LinearSVC) for case in OF_CLASSIFIERS),
    *((LinearSVC, *case) for case in PENALISED_INTERCEPT),
    *(
        (LogisticRegression, {"solver": "liblinear", **given}, says)
        for given, says in PENALISED_INTERCEPT
    ),
    (LogisticRegression, {"solver": "x"}, "solver.*lbfgs.*got 'x'"),
    (LogisticRegression, {"l1_ratio": "a"}, "l1_ratio.*'a'"),
    (LogisticRegression, {"l1_ratio": 2}, "l1_ratio.*2"),
    (LogisticRegression, {"l1_ratio": np.nan}, "l1_ratio.*nan"),
    (LogisticRegression, {"penalty": "x"}, "penalty.*got 'x'"),
    (LinearSVC, {"C": np.inf}, "C.*finite.*inf"),
    (LinearSVC, {"solver": "x"}, "solver.*sdca.*got 'x'"),
    (LinearSVC, {"loss": "x"}, "loss.*hinge.*got 'x'"),
    (LinearSVC, {"penalty": "x"}, "penalty.*got 'x'"),
    (LinearSVC, {"multi_class": "x"}, "multi_class: expected 'ovr', got 'x'"),
    (Ridge, {"solver": "x"}, "solver.*svd.*got 'x'"),
    (Ridge, {"alpha": -1}, "alpha.*>= 0, got -1"),
    (Ridge, {"alpha": np.nan}, "alpha.*got nan"),
    (Ridge, {"alpha": np.inf}, "alpha.*got inf"),
    (Ridge, {"alpha": "a"}, "alpha.*'a'"),
    (Ridge, {"alpha": None}, "alpha.*None"),
    (Ridge, {"alpha": []}, "0 != 1"),
    (Ridge, {"alpha": [1.0, 2.0]}, "2 != 1"),
    (Ridge, {"alpha": np.ones((1, 2))}, r"alpha|penalties"),
    (Ridge, {"alpha": [1.0, -2.0]}, "!= 1|alpha"),
]


@pytest.mark.filterwarnings("ignore:penalty=:FutureWarning")
@pytest.mark.parametrize(
    ("make", "given", "says"),
    PARAMETERS,
    ids=readable,
)
def test_bad_parameters_raise_in_fit_not_before(make, given, says):
    model = make(**given)
    with pytest.raises((*REFUSED, NotImplementedError), match=says):
        model.fit(*example())
    assert only_parameters(model)


@pytest.mark.parametrize(
    ("device_ids", "error"),
    [
        ([], ValueError),
        ([-1], ValueError),
        (0, TypeError),
        ("cuda", TypeError),
        (["0"], TypeError),
        ([0.0], TypeError),
        ([True], TypeError),
        (True, TypeError),
    ],
)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_device_ids_that_are_no_list_of_numbers_are_quoted(estimator, device_ids, error):
    model = ESTIMATORS[estimator](device_ids=device_ids)
    expected = re.escape(f"device_ids={device_ids!r}: expected None or a list")
    with pytest.raises(error, match=expected):
        model.fit(*example())
    assert only_parameters(model)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_device_that_is_not_there_is_named(estimator):
    model = ESTIMATORS[estimator](device_ids=[np.int64(99)])
    with pytest.raises((NotImplementedError, RuntimeError), match=r"device_ids=\[.*99.*\]"):
        model.fit(*example())
    assert only_parameters(model)


@pytest.mark.parametrize("n_threads", [np.int64(2), np.int32(1), -1, -100, 10**9])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_any_integer_but_zero_is_a_number_of_threads(estimator, n_threads):
    assert hasattr(ESTIMATORS[estimator](n_threads=n_threads).fit(*example()), "coef_")


# --- survival --------------------------------------------------------------------------------


def run_every_bad_case():
    """Feed every case of this file to every estimator; return how many raised."""
    raised = 0
    X, y = example()
    for make in ESTIMATORS.values():
        fitted = make().fit(X, y)
        for name, case in ROWS.items():
            bad = case.make()
            for call in (partial(make().fit, bad, y), partial(fitted.predict, bad)):
                try:
                    call()
                except (*REFUSED, RuntimeWarning):
                    raised += 1
            print(make.__name__, name, flush=True)
        for _, make_target, _ in TARGETS.values():
            try:
                make().fit(X, make_target())
            except REFUSED:
                raised += 1
    return raised


def test_interpreter_survives_every_bad_case_twice():
    out = run_python(
        f"""
        import sys, warnings
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from estimators.test_bad_input import run_every_bad_case

        warnings.simplefilter("ignore")
        print("raised", run_every_bad_case(), run_every_bad_case())
        """
    )
    first, second = map(int, out.split()[-2:])
    assert first == second > len(ESTIMATORS) * len(ROWS)


def test_interpreter_survives_a_lil_matrix_whose_lists_differ_in_length():
    out = run_python(
        """
        import numpy as np
        from scipy.sparse import lil_matrix
        from snapml import Ridge

        X = lil_matrix(np.ones((60, 5)))
        X.data[3] = [1.0] * 1000
        try:
            Ridge().fit(X, np.arange(60.0))
        except ValueError as error:
            print("refused:", error)
        """
    )
    assert out.startswith("refused:")
