"""Rows that hold most of the gap: which they are, and what more visits to them save."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse

from snapml import LogisticRegression
from snapml.data import CompressedMatrix, Dataset
from snapml.problems import Intercept, Logistic, Problem
from snapml.solvers.dual_ascent import focused_rows
from snapml.solvers.dual_ascent.cpu_engine import CpuEngine
from snapml.solvers.dual_ascent.focused_rows import find_focus


@pytest.mark.parametrize("most_sorted", [0, 4096])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    gaps=arrays.arrays(np.float32, st.integers(1, 300), elements=st.floats(0, 2.0**99, width=32)),
    peaks=st.integers(0, 20),
)
@example(gaps=np.zeros(7, dtype=np.float32), peaks=0)
@example(gaps=np.full(300, 1e-3, dtype=np.float32), peaks=17)
def test_focus_holds_most_of_the_gap_in_few_rows(dtype, most_sorted, gaps, peaks):
    row_gaps = np.append(gaps, np.full(peaks, 2.0**101)).astype(dtype)
    with mock.patch.object(focused_rows, "_SORTED_ROWS", most_sorted):
        found = find_focus(row_gaps)
    if found is None:
        return
    assert len(found) <= 0.3 * len(row_gaps)
    assert row_gaps[found].sum(dtype=np.float64) >= 0.97 * row_gaps.sum(dtype=np.float64)
    rest = np.delete(row_gaps, found)
    assert rest.size == 0 or rest.max() < row_gaps[found].min()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_focus_is_found_where_a_quarter_of_the_rows_holds_the_gap(dtype):
    row_gaps = np.full(200_000, 1e-9, dtype=dtype)
    row_gaps[::4] = np.linspace(1.98, 2, 50_000)
    assert np.array_equal(find_focus(row_gaps), np.arange(0, 200_000, 4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_focus_is_none_where_its_rows_are_too_many(dtype):
    row_gaps = np.full(200_000, 1e-9, dtype=dtype)
    row_gaps[::3] = 1.0
    assert find_focus(row_gaps) is None


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_no_rows_are_picked_of_equal_ones(value):
    assert find_focus(np.full(1000, value)) is None


def rows_of_which_few_are_long():
    """One row in twenty is long: coordinate steps on those undo each other."""
    rng = np.random.default_rng(0)
    X = sparse.random(4000, 100, density=0.05, format="csr", random_state=rng)
    X = sparse.diags(np.where(np.arange(4000) % 20 == 0, 30.0, 1.0)) @ X
    y = np.sign(X @ rng.normal(size=100)) * (rng.random(4000) < 0.9) > 0
    return sparse.csr_matrix(X), y


def test_focus_is_found_where_the_sample_misses_it():
    row_gaps = np.full(20_000, 1e-6)
    rows = 17 * np.arange(10) + 3
    row_gaps[rows] = 1.0
    assert np.array_equal(find_focus(row_gaps), rows)


@pytest.mark.parametrize(
    ("n_threads", "least", "is_deterministic"),
    [(1, 1, True), (2, 1, True), (2, 1, False), (2, 10**9, True)],
)
@pytest.mark.usefixtures("small_data_get_threads")
def test_more_visits_to_few_rows_save_epochs(monkeypatch, n_threads, least, is_deterministic):
    monkeypatch.setattr("snapml.solvers.dual_ascent.host_duals.LEAST_OF_A_THREAD", least)
    X, y = rows_of_which_few_are_long()
    options = dict(
        deterministic=is_deterministic,
        C=0.01,
        tol=1e-12,
        solver="sdca",
        n_threads=n_threads,
        max_iter=500,
    )
    focused = LogisticRegression(**options).fit(X, y)
    monkeypatch.setattr("snapml.solvers.dual_ascent.cpu_engine.find_focus", lambda gaps: None)
    plain = LogisticRegression(**options).fit(X, y)
    assert not is_deterministic or focused.n_iter_ <= 0.9 * plain.n_iter_
    gap = float(focused.gap_ + plain.gap_)
    assert abs(focused.objective_ - plain.objective_) <= gap <= 3e-6 * plain.objective_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gaps_of_rows_add_up_to_that_of_the_epoch(dtype):
    X, y = rows_of_which_few_are_long()
    labels = np.where(y > 0, 1, -1).astype(dtype)
    rows = CompressedMatrix(X.indptr, X.indices, X.shape[1], X.data.astype(dtype))
    problem = Problem(Logistic(), Intercept.FREE)
    engine = CpuEngine(problem, Dataset(rows, labels, None, 0.1))
    engine._row_gaps = np.zeros(len(y), dtype=dtype)
    gap, _ = engine._sweep(0, 1.0, 1.0)
    assert engine._row_gaps.sum(dtype=np.float64) == pytest.approx(gap, rel=1e-5)
