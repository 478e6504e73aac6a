"""Odd columns, types and shapes, through every public estimator: right, or said to be not."""

import re

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_matrix

from snapml import enet_path, lasso_path

from .every import EVERY, competitors, fit, objective, time_limit


def rows(n_rows=60, n_features=6):
    """Return numbers of 10 binary places, whose sums are exact in float32, and a target."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(n_rows, n_features)) * 1024) / 1024
    return X, X @ rng.normal(size=n_features) + rng.normal(size=n_rows)


def scaled(**columns):
    X = rows()[0]
    for name, factor in columns.items():
        X[:, int(name[1:])] *= factor
    return X


BASE, TARGET = rows()
# Nothing about these is hard: no warning and no error is excused.
PLAIN = {
    "constant column": np.column_stack([BASE, np.full(60, 3.0)]),
    "zero column": np.column_stack([BASE, np.zeros(60)]),
    "only constant columns": np.full((60, 2), 3.0),
    "only zeros": np.zeros((60, 2)),
    "a sum of columns": np.column_stack([BASE, BASE[:, 0] + BASE[:, 1]]),
    "every column twice": np.column_stack([BASE, 2 * BASE]),
    "one column": BASE[:, :1],
    "int64": np.round(5 * BASE).astype(np.int64),
    "int8": np.round(5 * BASE).astype(np.int8),
    "uint8": np.abs(np.round(5 * BASE)).astype(np.uint8),
    "bool": BASE > 0,
    "float16": BASE.astype(np.float16),
}
HARD = {
    "one column of 1e12": scaled(_4=1e12),
    "one column of 1e-12": scaled(_4=1e-12),
    "columns of 1e-12 and 1e12": scaled(_1=1e-12, _4=1e12),
    "columns of 1e-6 and 1e6": scaled(_1=1e-6, _4=1e6),
    "columns from 1e-12 to 1e12": BASE * np.logspace(-12, 12, 6),
    "denormal column": scaled(_1=1e-310),
    "only denormals": BASE * 1e-310,
    "large constant column": np.column_stack([BASE, np.full(60, 1e8)]),
    "large integers": np.round(BASE * 1e15).astype(np.int64),
}
CONTAINERS = {
    "dense": np.asarray,
    "float32": lambda X: X.astype(np.float32),
    "csr": lambda X: csr_matrix(X.astype(np.float64) if X.dtype == np.float16 else X),
}


def container_of(made, cases, case, names):
    """Return a name: each comes with every estimator and with every case, not with all of both."""
    name = names[(EVERY.index(made) + list(cases).index(case)) % len(names)]
    return "dense" if name == "csr" and made.refuses_sparse else name


OVERFLOW = "under-/overflow|squared norms of the rows"


def target_of(made):
    return (TARGET > 0).astype(np.int64) if made.is_classifier else TARGET


def assert_right(made, model, X, y, slack):
    """Assert that the objective is as reported, and none of the competitors' is lower."""
    coef, intercept = np.ravel(model.coef_).astype(float), float(np.ravel(model.intercept_)[0])
    found = objective(made, model, coef, intercept, X, y)
    level = objective(made, model, np.zeros(X.shape[1]), 0.0, X, y)
    if hasattr(model, "objective_"):
        assert model.objective_ == pytest.approx(found, rel=slack, abs=slack * level)
        assert model.gap_ >= 0
    assert not made.is_positive or np.all(coef >= 0)
    for other, b in competitors(made, model, X, y):
        assert found <= objective(made, model, other, b, X, y) + slack * (level + found)


@pytest.mark.parametrize("case", PLAIN)
@pytest.mark.parametrize("made", EVERY, ids=str)
def test_model_of_odd_columns_is_right_without_a_warning(made, case):
    y = target_of(made)
    name = container_of(made, PLAIN, case, list(CONTAINERS))
    X = CONTAINERS[name](PLAIN[case])
    model, has_warned = fit(made, X, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    assert not has_warned
    dense = (X.toarray() if name == "csr" else X).astype(float)
    assert_right(made, model, dense, y, 2e-5)


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("made", EVERY, ids=str)
def test_model_of_badly_scaled_columns_is_right_or_says_what_it_is_not(made, case):
    y = target_of(made)
    for name in ("float32", container_of(made, HARD, case, ["dense", "csr"])):
        X = CONTAINERS[name](HARD[case])
        try:
            model, has_warned = fit(made, X, y)
        except ValueError as error:
            if not re.search(OVERFLOW, str(error)):
                raise
            continue
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.intercept_).all()
        if not has_warned:
            dense = (X.toarray() if name == "csr" else X).astype(float)
            assert_right(made, model, dense, y, 1e-4)


@pytest.mark.parametrize("made", EVERY, ids=str)
def test_without_columns_or_rows_the_error_says_so(made):
    y = target_of(made)
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        fit(made, np.empty((60, 0)), y)
    if not made.refuses_sparse:
        with pytest.raises(ValueError, match=r"0 feature\(s\)"):
            fit(made, csr_matrix((60, 0)), y)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        fit(made, np.empty((0, 3)), y[:0])


@pytest.mark.parametrize("made", EVERY, ids=str)
def test_one_row_is_met_exactly_or_refused(made):
    X, y = BASE[:1], target_of(made)[:1]
    is_any_class_right = made.name == "RidgeClassifier"  # as in scikit-learn
    if made.name.endswith("CV") or (made.is_classifier and not is_any_class_right):
        with pytest.raises(ValueError, match=r"class|fold|split|sample"):
            fit(made, X, y)
        return
    model, has_warned = fit(made, X, y)
    assert not has_warned
    if made.name == "LinearSVR":  # whose intercept is penalised, as a coefficient is
        return
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-12)
    np.testing.assert_allclose(model.coef_, 0, atol=1e-12)


@pytest.mark.parametrize("path", [lasso_path, enet_path])
@pytest.mark.parametrize("case", [*PLAIN, *HARD])
def test_paths_of_odd_columns_are_finite_or_refused(path, case):
    X = {**PLAIN, **HARD}[case]
    try:
        with time_limit():
            _, coefs, gaps = path(X, TARGET, alphas=5)
    except ValueError as error:
        if case not in ("large integers", "only denormals") or not re.search(OVERFLOW, str(error)):
            raise
        return
    assert np.isfinite(coefs).all()
    assert np.isfinite(gaps).all()


# --- sparse matrices of every form -----------------------------------------------------------


def wide_indices(X):
    X.indptr, X.indices = X.indptr.astype(np.int64), X.indices.astype(np.int64)
    return X


def explicit_zeros(kind):
    X = kind(np.where(SPARSE == 0, 9.0, SPARSE))
    X.data[X.data == 9.0] = 0.0
    return X


def in_parts(kind):
    """Return every entry stored twice, as two parts, and rows in no order."""
    X = kind(SPARSE)
    indices, data = np.repeat(X.indices, 2), np.repeat(X.data, 2)
    data[::2] *= 0.25
    data[1::2] *= 0.75
    split = kind((data, indices, 2 * X.indptr), shape=X.shape)
    return backwards(split)


def backwards(X):
    for first, last in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        for values in (X.indices, X.data):
            values[first:last] = values[first:last][::-1].copy()
    X.has_sorted_indices = False
    return X


SPARSE = np.where(np.abs(BASE) > 0.6, BASE, 0.0)
FORMS = {
    "64-bit indices": lambda kind: wide_indices(kind(SPARSE)),
    "explicit zeros": explicit_zeros,
    "unsorted indices": lambda kind: backwards(kind(SPARSE)),
    "duplicates": in_parts,
    "64-bit duplicates": lambda kind: wide_indices(in_parts(kind)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("made", [m for m in EVERY if not m.refuses_sparse], ids=str)
def test_sparse_matrix_of_any_form_gives_the_model_of_the_dense_one(made, form):
    y = target_of(made)
    kind = (csr_matrix, csc_matrix)[(EVERY.index(made) + list(FORMS).index(form)) % 2]
    given = FORMS[form](kind)
    before = given.indptr.copy(), given.indices.copy(), given.data.copy()
    model, has_warned = fit(made, given, y)
    dense, _ = fit(made, SPARSE, y)
    assert not has_warned
    np.testing.assert_allclose(model.coef_, dense.coef_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(model.intercept_, dense.intercept_, rtol=1e-3, atol=1e-3)
    assert_right(made, model, SPARSE, y, 2e-5)
    for part, was in zip((given.indptr, given.indices, given.data), before, strict=True):
        np.testing.assert_array_equal(part, was)
