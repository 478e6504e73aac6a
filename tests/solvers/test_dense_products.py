"""Products of large dense matrices on several threads."""

import threading
import warnings

import numpy as np
import pytest
import threadpoolctl
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snapml.solvers import dense_products
from snapml.solvers.dense_products import add_blocks, add_gram, add_grams, matmul


@pytest.fixture(autouse=True)
def _every_product_is_worth_threads(monkeypatch):
    monkeypatch.setattr(dense_products, "_LEAST_OPERATIONS", 1.0)


def matrix(shape, dtype, order, seed):
    """Return normal numbers."""
    values = np.random.default_rng(seed).normal(size=shape).astype(dtype)
    return np.asarray(values, order=order)


shapes = st.integers(1, 40)


@settings(max_examples=60, deadline=None)
@given(shapes, shapes, shapes, st.integers(1, 5), st.sampled_from("CF"), st.booleans())
@example(1, 1, 1, 3, "C", False)
@example(40, 3, 2, 2, "F", True)
@example(3, 40, 2, 4, "C", True)
def test_product_is_numpys(m, k, n, n_threads, order, is_narrow):
    dtype = np.float32 if is_narrow else np.float64
    a, b = matrix((m, k), dtype, order, 0), matrix((k, n), dtype, "C", 1)
    out = np.full((m, n), np.nan, dtype)
    for found in (matmul(a, b, n_threads), matmul(a, b, n_threads, out=out), out):
        assert found.dtype == dtype
        scale = np.abs(a).astype(float) @ np.abs(b)
        error = np.abs(found - a.astype(float) @ b)
        assert (error <= 4 * k * np.finfo(dtype).eps * scale).all()
    again = matmul(a, b, n_threads)
    assert again.tobytes() == out.tobytes()


@settings(max_examples=60, deadline=None)
@given(shapes, shapes, st.integers(1, 5), st.sampled_from("CF"), st.booleans())
@example(40, 3, 3, "C", True)  # parts of the rows
@example(3, 40, 3, "F", False)  # tiles
@example(1, 1, 5, "C", False)
def test_gram_is_added(n_rows, size, n_threads, order, is_narrow):
    rows = matrix((n_rows, size), np.float32 if is_narrow else np.float64, order, 0)
    before = matrix((size, size), np.float64, "C", 1)
    before += before.T
    gram = before.copy()
    add_gram(rows, gram, n_threads)
    exact = before + rows.T.astype(float) @ rows
    scale = np.abs(before) + np.abs(rows).T.astype(float) @ np.abs(rows)
    assert (np.abs(gram - exact) <= 4 * n_rows * np.finfo(rows.dtype).eps * scale).all()
    assert np.array_equal(gram, gram.T)
    again = before.copy()
    add_gram(rows, again, n_threads)
    assert again.tobytes() == gram.tobytes()


@settings(max_examples=60, deadline=None)
@given(shapes, st.integers(1, 9), st.integers(1, 5), st.booleans())
@example(40, 3, 3, True)  # shared by threads
@example(5, 9, 4, False)
@example(40, 2, 1, False)
def test_grams_of_parts_are_added(n_parts, size, n_threads, is_wide):
    n_rows = 3 * n_parts
    rows = matrix((n_rows, size), np.float64, "C", 0)
    parts = [slice(3 * k, 3 * k + 3) for k in range(n_parts)]
    before = np.ones((size, size))

    def rows_of(part, room):
        assert room.shape == (3, size)
        np.copyto(room, rows[part])
        return room

    def added():
        gram = before.copy()
        most = 0 if is_wide else dense_products.MOST_SHARED_COLUMNS
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dense_products, "MOST_SHARED_COLUMNS", most)
            add_grams(parts, rows_of, np.empty((3, size)), gram, n_threads)
        return gram

    scale = before + np.abs(rows).T @ np.abs(rows)
    error = np.abs(added() - before - rows.T @ rows)
    assert (error <= 4 * n_rows * np.finfo(np.float64).eps * scale).all()
    assert added().tobytes() == added().tobytes()


def test_parts_are_shared_by_threads_with_room_of_their_own():
    rooms = []

    def rows_of(part, room):
        rooms.append((threading.get_ident(), room.ctypes.data))
        return room[: part.stop - part.start]

    parts = [slice(k, k + 1) for k in range(8)]
    add_grams(parts, rows_of, np.zeros((1, 4)), np.zeros((4, 4)), 2)
    assert len(rooms) == len(parts)
    assert threading.get_ident() not in {thread for thread, _ in rooms}
    add_grams(parts, rows_of, np.zeros((1, 4)), np.zeros((4, 4)), 1)
    assert len({room for _, room in rooms[len(parts) :]}) == 1


@pytest.mark.parametrize("n_threads", [1, 3, 8])
def test_blocks_are_added_once_each(n_threads):
    blocks = [slice(k, k + 1) for k in range(5)]

    def add(block, out):
        out[block] += 1.0

    out = np.full(6, 10.0)
    assert add_blocks(add, blocks, out, 1e9, n_threads) is out
    assert out.tolist() == [11.0] * 5 + [10.0]


@pytest.mark.parametrize("n_threads", [1, 4])
def test_error_of_any_thread_reaches_the_caller_and_no_thread_is_left(n_threads):
    before, done = threading.active_count(), []

    def fail(block, out):
        if block.start == 3:
            raise ValueError("of block 3")
        done.append(block.start)

    with pytest.raises(ValueError, match="of block 3"):
        add_blocks(fail, [slice(k, k + 1) for k in range(8)], np.zeros(1), 1e9, n_threads)
    assert 3 not in done
    assert threading.active_count() == before


def test_warnings_of_the_caller_hold_in_every_thread():
    rows = np.full((64, 4), 1e200)
    gram = np.zeros((4, 4))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        add_gram(rows, gram, 4)
    assert np.isinf(gram).all()


def test_blas_has_one_thread_inside_and_its_own_number_again_after():
    def of_blas():
        libraries = threadpoolctl.ThreadpoolController().select(user_api="blas").info()
        return [each["num_threads"] for each in libraries]

    before, inside = of_blas(), []
    add_blocks(lambda *_: inside.append(of_blas()), [slice(0, 1)] * 4, np.zeros(1), 1e9, 2)
    assert inside == [[1] * len(before)] * 4
    assert of_blas() == before
