"""Gram matrices of a few columns of compressed rows against NumPy's."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snapml import _native
from snapml.data import CompressedMatrix
from snapml.solvers.rows.cpu_rows import native_rows, sparse_gram

MOST_OF_ONE_CACHE = 512  # columns: kMostOwnGram


def make_rows(rng, n_rows, n_cols, kind):
    """Return compressed rows, some of them empty, and their dense array."""
    lengths = rng.integers(0, min(9, n_cols) + 1, n_rows)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    picked = [rng.choice(n_cols, n, replace=kind == "repeated") for n in lengths]
    rising = kind not in ("unsorted", "repeated")
    indices = [np.sort(each) if rising else each for each in picked]
    indices = np.concatenate([*indices, np.empty(0)]).astype(np.int32)
    has_values = kind == "values"
    values = rng.integers(1, 9, len(indices)) / 4.0 if has_values else None
    constant = 0.5 if kind == "another constant" else 1.0
    stored = np.full(len(indices), constant) if values is None else values
    X = np.zeros((n_rows, n_cols))
    np.add.at(X, (np.repeat(np.arange(n_rows), lengths), indices), stored)
    if kind == "another constant":
        values = stored
    return CompressedMatrix(indptr, indices, n_cols, values), X


kinds = st.sampled_from(["ones", "values", "another constant", "unsorted", "repeated"])


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(0, 60),
    st.integers(1, 30),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    kinds,
)
@example(0, 60, 30, 3, True, True, "ones")
@example(1, 60, 30, 3, True, True, "repeated")
@example(2, 60, 30, 2, True, False, "another constant")
@example(3, 60, 30, 1, False, True, "values")
@example(4, 0, 1, 3, False, True, "unsorted")
def test_gram_of_kept_columns_is_numpys(
    seed, n_rows, n_kept, n_threads, is_wide, has_constant, kind
):
    rng = np.random.default_rng(seed)
    n_cols = n_kept + 7 + (MOST_OF_ONE_CACHE if is_wide else 0)
    matrix, X = make_rows(rng, n_rows, n_cols, kind)
    is_kept = np.zeros(n_cols, dtype=bool)
    is_kept[rng.choice(n_cols, n_cols - 7, replace=False)] = True
    kept = np.flatnonzero(is_kept)
    positions = np.full(n_cols, -1)
    positions[kept] = np.arange(len(kept))
    weights = rng.integers(0, 4, n_rows) / 2.0
    A, size, constant_at = X[:, kept], len(kept), -1
    if has_constant:
        A = np.column_stack([A, np.full(n_rows, 0.25)])
        size, constant_at = size + 1, size
    before = rng.integers(0, 3, (size, size)).astype(float)
    gram, pool = before.copy(), _native.ThreadPool(n_threads)
    _native.sparse_gram(
        pool, native_rows(matrix, pool), positions, size, constant_at, 0.25, weights, gram
    )
    # All numbers are multiples of 1/64 and far from 2^53 of them: sums in any order are exact.
    expected = before + np.tril((A * weights[:, None]).T @ A)
    np.testing.assert_array_equal(gram, expected)


@pytest.mark.parametrize("n_cols", [40, MOST_OF_ONE_CACHE + 90])
def test_more_entries_than_are_sorted_at_a_time_and_both_halves(n_cols):
    rng = np.random.default_rng(5)
    matrix, X = make_rows(rng, 12_000, n_cols, "ones")
    weights = rng.integers(0, 4, len(X)) / 2.0
    A = np.column_stack([X, np.ones(len(X))])
    expected = (A * weights[:, None]).T @ A
    for n_threads in (1, 2, 5):
        np.testing.assert_array_equal(sparse_gram(matrix, weights, n_threads), expected)
