"""Every container of the same numbers gives the same model, and none of them is changed."""

import copy
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from snapml import LinearSVC, LogisticRegression, Ridge
from snapml.data import CompressedMatrix

from .conftest import (
    ESTIMATORS,
    example,
    margins_of,
    relative_error,
    run_python,
    unconverged,
)

pl = pytest.importorskip("polars", reason="polars is not installed")

TIGHT = {"tol": 1e-13, "max_iter": 100_000}
MODELS = {
    "logistic": partial(LogisticRegression, **TIGHT),
    "hinge": partial(LinearSVC, loss="hinge", solver="sdca", **TIGHT),
    "ridge": partial(Ridge, **TIGHT),
}


def whole_numbers():
    """Return a matrix whose entries every dtype can hold, a good part of them zero."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(90, 6)) * (rng.random((90, 6)) < 0.6)
    X[7] = 0
    X[:, 4] = 0
    y = (X[:, 0] - X[:, 1] + rng.normal(size=90) > 0).astype(np.int64)
    return X, y


def same_model(model, expected, *, rtol=3e-6):
    assert relative_error(model.coef_, expected.coef_) <= rtol
    np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=10 * rtol)


# --- dense -----------------------------------------------------------------------------------


def memmap(X, tmp_path):
    path = tmp_path / "X.bin"
    X.tofile(path)
    return np.memmap(path, dtype=X.dtype, mode="r", shape=X.shape)


def unaligned(X):
    raw = np.zeros(X.nbytes + 1, dtype=np.uint8)
    view = raw[1:].view(X.dtype).reshape(X.shape)
    view[:] = X
    assert not view.flags.aligned
    return view


def spread(X):
    wide = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan, dtype=X.dtype)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def field_of_a_record(X):
    """Return a column whose stride is no multiple of its item size."""
    kind = np.dtype([("tag", np.int8), ("X", X.dtype, X.shape[1:])])
    records = np.zeros(len(X), dtype=kind)
    records["X"] = X
    return records["X"]


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


DENSE = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "strided": spread,
    "rows backwards": lambda X: np.ascontiguousarray(X[::-1])[::-1],
    "columns backwards": lambda X: np.ascontiguousarray(X[:, ::-1])[:, ::-1],
    "all backwards, Fortran order": lambda X: np.asfortranarray(X[::-1, ::-1])[::-1, ::-1],
    "transposed view": lambda X: np.ascontiguousarray(X.T).T,
    "read-only": read_only,
    "unaligned": unaligned,
    "field of a record": field_of_a_record,
    "big-endian": lambda X: X.astype(X.dtype.newbyteorder(">")),
    "list of lists": lambda X: X.tolist(),
    "object": lambda X: X.astype(object),
    "masked without mask": np.ma.asarray,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", DENSE)
@pytest.mark.parametrize("name", MODELS)
def test_dense_layout_does_not_matter(name, kind, dtype):
    X, y = example(90)
    X = X.astype(dtype)
    given = DENSE[kind](X)
    before = copy.deepcopy(given)
    model_of = partial(MODELS[name], tol=1e-13 if dtype is np.float64 else 1e-6)
    expected = model_of().fit(X, y)
    model = model_of().fit(given, y)
    same_model(model, expected, rtol=3e-6 if dtype is np.float64 else 2e-3)
    np.testing.assert_allclose(model.predict(given), model.predict(X), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(np.asarray(given), np.asarray(before))
    keeps_dtype = kind not in ("list of lists", "object", "big-endian")
    assert model.coef_.dtype == (dtype if keeps_dtype else np.float64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_read_only_memmap_gives_the_bits_of_an_array(name, dtype, tmp_path):
    X, y = example(90)
    X = X.astype(dtype)
    given = memmap(X, tmp_path)
    with unconverged():
        expected = MODELS[name](max_iter=50).fit(X, y)
        model = MODELS[name](max_iter=50).fit(given, y)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.predict(given), expected.predict(X))
    assert isinstance(model.coef_, np.ndarray)
    assert not isinstance(model.coef_, np.memmap)


@pytest.mark.parametrize(
    "dtype", [bool, np.int8, np.uint8, np.int32, np.uint64, np.int64, np.float16, np.longdouble]
)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("name", MODELS)
def test_other_number_types_become_float64(name, container, dtype):
    if container is sparse.csr_matrix and dtype is np.float16:
        pytest.skip("SciPy has no sparse float16")
    X, y = whole_numbers()
    if dtype is bool:
        X = X > 0
    expected = MODELS[name]().fit(container(X.astype(np.float64)), y)
    model = MODELS[name]().fit(container(X.astype(dtype)), y)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.coef_.dtype == model.intercept_.dtype == np.float64


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_float32_stays_float32_and_float64_stays_float64(estimator, container):
    X, y = example()
    for dtype in (np.float32, np.float64):
        model = ESTIMATORS[estimator]().fit(container(X.astype(dtype)), y)
        assert model.coef_.dtype == dtype
        assert model.intercept_.dtype == dtype
        assert isinstance(model.gap_, float)
        assert isinstance(model.objective_, float)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_one_row_or_one_column_predicts_like_any_other(estimator):
    X, y = example()
    model = ESTIMATORS[estimator]().fit(X, y)
    np.testing.assert_allclose(model.predict(X[3:4]), model.predict(X)[3:4])
    narrow = ESTIMATORS[estimator]().fit(X[:, :1], y)
    assert narrow.predict(X[:, :1]).shape == y.shape


# --- sparse ----------------------------------------------------------------------------------


def with_int64(X, kind=sparse.csr_matrix):
    X = kind(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def unsorted(X):
    """Store every row's entries from the last column to the first."""
    X = sparse.csr_matrix(X)
    for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        X.indices[begin:end] = X.indices[begin:end][::-1].copy()
        X.data[begin:end] = X.data[begin:end][::-1].copy()
    X.has_sorted_indices = False
    return X


def duplicated(X):
    """Store every entry as two halves, apart from each other."""
    X = sparse.csr_matrix(X)
    halves = sparse.csr_matrix(X.shape, dtype=X.dtype)
    rows = [np.tile(np.arange(b, e), 2) for b, e in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
    order = np.concatenate(rows).astype(np.int64)
    halves.data, halves.indices, halves.indptr = X.data[order] / 2, X.indices[order], 2 * X.indptr
    assert halves.nnz == 2 * X.nnz
    return halves


def explicit_zeros(X):
    full = sparse.csr_matrix(np.ones_like(X))
    full.data = X.ravel().copy()
    assert full.nnz == X.size
    return full


def duplicated_coo(X):
    X = sparse.coo_matrix(X)
    twice = [np.concatenate([a, a]) for a in (X.row, X.col)]
    return sparse.coo_matrix((np.concatenate([X.data / 2] * 2), twice), shape=X.shape)


def spare_capacity(X):
    """Store more indices and values than indptr uses, as matrices grown in place do."""
    X = sparse.csr_matrix(X)
    X.data = np.concatenate([X.data, np.full(9, 1e9, X.dtype)])
    X.indices = np.concatenate([X.indices, np.full(9, 10**6, X.indices.dtype)])
    return X


def strided_parts(X):
    X = sparse.csr_matrix(X)
    X.data, X.indices, X.indptr = (
        np.repeat(part, 2)[::2] for part in (X.data, X.indices, X.indptr)
    )
    return X


SPARSE = {
    "csr_matrix": sparse.csr_matrix,
    "csr_array": sparse.csr_array,
    "csc_matrix": sparse.csc_matrix,
    "csc_array": sparse.csc_array,
    "coo_matrix": sparse.coo_matrix,
    "coo_array": sparse.coo_array,
    "bsr_matrix": partial(sparse.bsr_matrix, blocksize=(3, 2)),
    "dia_matrix": sparse.dia_matrix,
    "lil_matrix": sparse.lil_matrix,
    "dok_matrix": sparse.dok_matrix,
    "int64 csr_matrix": with_int64,
    "int64 csr_array": partial(with_int64, kind=sparse.csr_array),
    "int64 csc_matrix": partial(with_int64, kind=sparse.csc_matrix),
    "unsorted": unsorted,
    "duplicated": duplicated,
    "duplicated coo_matrix": duplicated_coo,
    "explicit zeros": explicit_zeros,
    "spare capacity": spare_capacity,
    "strided parts": strided_parts,
}


def parts_of(X):
    """Return copies of what a sparse matrix is made of."""
    if X.format == "dok":
        return {"items": [repr(item) for item in X.items()]}
    names = {"coo": ["data", "row", "col"], "dia": ["data", "offsets"], "lil": ["data", "rows"]}
    return {
        name: copy.deepcopy(getattr(X, name))
        for name in names.get(X.format, ["data", "indices", "indptr"])
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("name", MODELS)
def test_sparse_format_does_not_matter(name, kind, dtype):
    X, y = whole_numbers()  # row 7 and column 4 are empty
    X = X.astype(dtype)
    given = SPARSE[kind](X)
    before = parts_of(given)
    model_of = partial(MODELS[name], tol=1e-13 if dtype is np.float64 else 1e-6)
    expected = model_of().fit(X, y)
    model = model_of().fit(given, y)
    same_model(model, expected, rtol=3e-6 if dtype is np.float64 else 2e-3)
    assert model.coef_.dtype == dtype
    np.testing.assert_allclose(model.predict(given), model.predict(X), rtol=1e-6)
    for part, content in parts_of(given).items():
        np.testing.assert_array_equal(content, before[part])


@pytest.mark.parametrize("name", MODELS)
def test_int64_indices_give_the_bits_of_int32(name):
    X, y = whole_numbers()
    X = X.astype(np.float64)
    one, other = (MODELS[name]().fit(Z, y) for Z in (sparse.csr_matrix(X), with_int64(X)))
    np.testing.assert_array_equal(one.coef_, other.coef_)


@pytest.mark.parametrize("name", MODELS)
def test_duplicates_equal_the_summed_matrix_at_predict(name):
    X, y = whole_numbers()
    X = X.astype(np.float64)
    model = MODELS[name]().fit(X, y)
    twice = duplicated(X)
    expected = margins_of(X, model.coef_, model.intercept_)[:, 0]
    got = model.predict(twice) if name == "ridge" else model.decision_function(twice)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_column_never_seen_has_coefficient_zero(estimator, container):
    X, y = whole_numbers()
    model = ESTIMATORS[estimator]().fit(container(X.astype(np.float64)), y)
    assert np.ravel(model.coef_)[4] == 0.0


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_matrix_without_entries_gives_the_constant_model(estimator):
    y = np.arange(40) % 4 == 0
    model = ESTIMATORS[estimator]().fit(sparse.csr_matrix((40, 5)), y.astype(int))
    dense = ESTIMATORS[estimator]().fit(np.zeros((40, 5)), y.astype(int))
    assert not np.any(model.coef_)
    np.testing.assert_allclose(model.intercept_, dense.intercept_, rtol=1e-6)
    assert len(set(model.predict(sparse.csr_matrix((40, 5))).tolist())) == 1


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_million_columns_of_which_few_are_used_cost_nothing_special(estimator):
    X, y = example(200, 5)
    columns = np.array([0, 17, 99_999, 500_000, 999_999])
    wide = sparse.coo_matrix(
        (X.ravel(), (np.repeat(np.arange(200), 5), np.tile(columns, 200))), shape=(200, 10**6)
    ).tocsr()
    model = ESTIMATORS[estimator]().fit(wide, y)
    narrow = ESTIMATORS[estimator]().fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(np.ravel(model.coef_)[columns], np.ravel(narrow.coef_), rtol=1e-2)
    assert np.count_nonzero(model.coef_) == 5


# --- frames ----------------------------------------------------------------------------------

NAMES = ["height", "weight", "age", "income", "shoe size"]


def to_arrow(X, names):
    import pyarrow

    return pyarrow.table({name: X[:, j] for j, name in enumerate(names)})


FRAMES = {
    "pandas": lambda X, names: pd.DataFrame(X, columns=names),
    "polars": lambda X, names: pl.DataFrame({name: X[:, j] for j, name in enumerate(names)}),
    "pyarrow": to_arrow,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_frame_gives_the_array_model_and_keeps_the_names(estimator, library, dtype):
    X, y = example()
    X = X.astype(dtype)
    frame = FRAMES[library](X, NAMES)
    model = ESTIMATORS[estimator]().fit(frame, y)
    expected = ESTIMATORS[estimator]().fit(np.asfortranarray(X), y)
    rtol = 1e-6 if dtype is np.float64 else 2e-3
    assert relative_error(model.coef_, expected.coef_) <= rtol
    assert model.coef_.dtype == dtype
    assert model.feature_names_in_.tolist() == NAMES
    assert model.n_features_in_ == 5
    np.testing.assert_allclose(model.predict(frame), expected.predict(X), rtol=10 * rtol)


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_frame_with_other_names_at_predict_raises(estimator, library):
    X, y = example()
    model = ESTIMATORS[estimator]().fit(FRAMES[library](X, NAMES), y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(FRAMES[library](X, [*NAMES[:-1], "other"]))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(FRAMES[library](X[:, ::-1].copy(), NAMES[::-1]))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_frames_of_different_libraries_can_be_mixed(estimator):
    X, y = example()
    model = ESTIMATORS[estimator]().fit(FRAMES["polars"](X, NAMES), y)
    expected = model.predict(FRAMES["polars"](X, NAMES))
    for library in FRAMES:
        np.testing.assert_array_equal(model.predict(FRAMES[library](X, NAMES)), expected)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_array_at_predict_after_a_frame_at_fit_warns(estimator):
    X, y = example()
    model = ESTIMATORS[estimator]().fit(FRAMES["pandas"](X, NAMES), y)
    with pytest.warns(UserWarning, match="feature names"):
        model.predict(X)


def series_of(library, values):
    if library == "pyarrow":
        import pyarrow

        return pyarrow.array(values)
    return {"pandas": pd.Series, "polars": pl.Series}[library](values)


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_targets_and_weights_may_be_series(estimator, library):
    X, y = example()
    weights = np.random.default_rng(3).random(len(y))
    model = ESTIMATORS[estimator]().fit(X, series_of(library, y), series_of(library, weights))
    expected = ESTIMATORS[estimator]().fit(X, y, weights)
    np.testing.assert_array_equal(model.coef_, expected.coef_)


def test_mixed_integer_and_float_columns_of_a_frame_are_numbers():
    X, y = example()
    frame = pd.DataFrame(X, columns=NAMES).assign(age=np.arange(60) // 20, income=X[:, 3] > 0)
    model = LogisticRegression().fit(frame, y)
    expected = LogisticRegression().fit(frame.to_numpy(dtype=np.float64), y)
    assert relative_error(model.coef_, expected.coef_) <= 1e-6


def test_pandas_sparse_columns_are_read():
    X, y = whole_numbers()
    frame = pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(X.astype(np.float64)))
    model = LogisticRegression().fit(frame, y)
    expected = LogisticRegression().fit(X.astype(np.float64), y)
    assert relative_error(model.coef_, expected.coef_) <= 1e-3


# --- CompressedMatrix ------------------------------------------------------------------------


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_compressed_matrix_gives_the_bits_of_scipys(estimator, dtype, index):
    X, y = whole_numbers()
    X = sparse.csr_matrix(X.astype(dtype))
    compressed = CompressedMatrix(X.indptr.astype(index), X.indices.astype(index), 6, X.data)
    model = ESTIMATORS[estimator]().fit(compressed, y)
    expected = ESTIMATORS[estimator]().fit(X, y)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.predict(compressed), expected.predict(X))
    assert model.n_features_in_ == 6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_compressed_matrix_without_values_is_one_of_ones(estimator, dtype):
    X, y = whole_numbers()
    X = sparse.csr_matrix((X > 0).astype(dtype))
    compressed = CompressedMatrix(X.indptr, X.indices, 6, dtype=dtype)
    model = ESTIMATORS[estimator]().fit(compressed, y)
    expected = ESTIMATORS[estimator]().fit(X, y)
    assert relative_error(model.coef_, expected.coef_) <= 1e-3
    assert model.coef_.dtype == dtype
    np.testing.assert_allclose(model.predict(compressed), model.predict(X), rtol=1e-6)


def test_compressed_matrix_without_values_sums_duplicates():
    indptr, indices = np.array([0, 3, 4, 6, 7]), np.array([2, 0, 2, 1, 0, 0, 2])
    twice = CompressedMatrix(indptr, indices, 3, dtype=np.float64)
    dense = np.array([[1.0, 0, 2], [0, 1, 0], [2, 0, 0], [0, 0, 1]])
    y = [0, 1, 0, 1]
    model = Ridge().fit(twice, y)
    np.testing.assert_allclose(model.coef_, Ridge().fit(dense, y).coef_, rtol=1e-6)
    np.testing.assert_allclose(model.predict(twice), model.predict(dense), rtol=1e-12)


# --- memory ----------------------------------------------------------------------------------


def float32_examples(n_rows, n_features):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    return X, (X[:, 0] + rng.standard_normal(n_rows, dtype=np.float32) > 0).astype(np.int64)


@pytest.mark.parametrize("layout", ["C order", "Fortran order", "CSR"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_fit_and_predict_copy_no_float32_matrix(estimator, layout):
    X, y = float32_examples(20_000, 60)
    n_bytes = X.nbytes
    if layout == "Fortran order":
        X = np.asfortranarray(X)
    elif layout == "CSR":
        X = sparse.csr_matrix(X)
        n_bytes += X.indices.nbytes
    model = ESTIMATORS[estimator](max_iter=2, tol=0)
    with unconverged():
        model.fit(X[:100], y[:100])  # imports and caches are not the fit's
        tracemalloc.start()
        model.fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
        model.predict(X)
        _, peak_with_predict = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    # X holds 60 numbers a row; fit and predict owe a few vectors of one number a row.
    assert peak < 0.5 * n_bytes
    assert peak_with_predict < 0.5 * n_bytes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "layout"), [*((name, "dense") for name in ESTIMATORS), ("LinearSVC", "csr")]
)
def test_peak_memory_of_a_fit_is_at_most_a_fifth_of_X(estimator, layout):
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("no /proc/self/clear_refs on this platform: peak memory cannot be reset")
    out = run_python(
        f"""
        import resource, warnings
        import numpy as np
        from scipy.sparse import csr_matrix
        from sklearn.exceptions import ConvergenceWarning
        from snapml import {estimator}

        warnings.simplefilter("ignore", ConvergenceWarning)
        n_rows, n_features = 250_000, 100
        rng = np.random.default_rng(0)
        X = np.empty((n_rows, n_features), dtype=np.float32)
        for begin in range(0, n_rows, 10_000):
            X[begin : begin + 10_000] = rng.standard_normal((10_000, n_features), np.float32)
        y = (X[:, 0] > 0).astype(np.int64)
        n_bytes = X.nbytes
        if {layout!r} == "csr":
            indptr = np.arange(0, X.size + 1, n_features, dtype=np.int32)
            indices = np.tile(np.arange(n_features, dtype=np.int32), n_rows)
            X = csr_matrix((X.ravel(), indices, indptr), shape=X.shape, copy=False)
            n_bytes += indices.nbytes
        small = slice(0, 1000)
        {estimator}(max_iter=1).fit(X[small], y[small])
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")  # resets the high-water mark
        def status(key):
            lines = open("/proc/self/status").read().splitlines()
            return 1024 * int(next(l for l in lines if l.startswith(key)).split()[1])
        before = status("VmRSS")
        {estimator}(max_iter=3, tol=0).fit(X, y)
        print(status("VmHWM") - before, n_bytes)
        """,
        timeout_s=120,
    )
    # Mostly the margins of two points, float64, and the sampled rows of the curvature.
    extra, n_bytes = map(int, out.split())
    assert 0 < extra <= n_bytes / (6 if layout == "dense" else 5)


@pytest.mark.parametrize("layout", ["array", "csr_matrix", "csr_array", "float32"])
def test_rows_without_names_take_those_of_an_earlier_fit_away(layout):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, len(NAMES))), rng.normal(size=30)
    model = Ridge().fit(pd.DataFrame(X, columns=NAMES), y)
    assert model.feature_names_in_.tolist() == NAMES
    make = {
        "array": np.asarray,
        "csr_matrix": sparse.csr_matrix,
        "csr_array": sparse.csr_array,
        "float32": lambda X: X.astype(np.float32),
    }[layout]
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(make(X))
    model.fit(make(X[:, :-1]), y)
    assert model.n_features_in_ == len(NAMES) - 1
    assert not hasattr(model, "feature_names_in_")
    with pytest.raises(ValueError, match=f"expecting {len(NAMES) - 1} features"):
        model.predict(make(X))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(make(X), y[:-1])
