"""What conjugate gradients of many models do with whole tables, beside plain NumPy."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snapml import _native
from snapml.solvers.many.many_arrays import HostArrays


class Tables:
    """Tables of the same shape, and a number for each column."""

    def __init__(self, shape, dtype, n_tables=3):
        rng = np.random.default_rng(shape[0] + shape[1])
        self.tables = [rng.normal(size=shape).astype(dtype) for _ in range(n_tables)]
        self.numbers = rng.normal(size=shape[1])
        self.penalty = rng.uniform(size=(shape[0], 1)).astype(dtype)
        self.bound = 4 * (shape[0] + 4) * float(np.finfo(dtype).eps)

    def close(self, found, expected):
        """Say whether numbers are as near as sums of rounded products are."""
        return np.abs(found - expected).max() <= self.bound * (1.0 + np.abs(expected).max())


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 50), st.integers(1, 17), st.integers(1, 4), st.booleans())
@example(1, 8, 3, True)
@example(40_000, 8, 2, False)  # long enough for threads
def test_tables_are_as_numpy_makes_them(n_rows, n_models, n_threads, is_narrow):
    dtype = np.float32 if is_narrow else np.float64
    made = Tables((n_rows, n_models), dtype)
    arrays = HostArrays(_native.ThreadPool(n_threads))
    first, second, third = made.tables
    wide = [table.astype(np.float64) for table in made.tables]
    rounded = made.numbers.astype(dtype).astype(np.float64)

    assert made.close(arrays.dots(first, second), (wide[0] * wide[1]).sum(axis=0))

    product = second.copy()
    bends = arrays.bends(first, made.penalty, product)
    expected = wide[1] + made.penalty.astype(np.float64) * wide[0]
    assert made.close(product, expected)
    assert made.close(bends, (wide[0] * expected).sum(axis=0))

    residual = third.copy()
    squares = arrays.subtract(residual, made.numbers, second)
    expected = wide[2] - rounded * wide[1]
    assert made.close(residual, expected)
    assert made.close(squares, (expected**2).sum(axis=0))

    target = third.copy()
    arrays.add_scaled(target, made.numbers, second)
    assert made.close(target, wide[2] + rounded * wide[1])

    target = third.copy()
    arrays.scale_and_add(target, made.numbers, second)
    assert made.close(target, rounded * wide[2] + wide[1])


def test_sums_depend_on_the_number_of_threads_alone():
    first, second, _ = Tables((40_000, 8), np.float64).tables
    arrays = HostArrays(_native.ThreadPool(3))
    found = [arrays.dots(first, second).tobytes() for _ in range(5)]
    assert len(set(found)) == 1


def test_tables_of_other_shapes_are_refused():
    pool, table, out = _native.ThreadPool(1), np.ones((5, 8)), np.empty(8)
    with pytest.raises(ValueError, match=r"right: expected .* of 40"):
        _native.many_dots(pool, table, np.ones((4, 8)), out)
    with pytest.raises(ValueError, match=r"out: expected .* of 8"):
        _native.many_dots(pool, table, table, np.empty(7))
    with pytest.raises(ValueError, match="left: expected a table of two dimensions"):
        _native.many_dots(pool, np.ones(40), table, out)
    with pytest.raises(ValueError, match=r"product: expected .* float64"):
        _native.many_bends(pool, table, np.ones(5), np.ones((5, 8), np.float32), out)
    with pytest.raises(ValueError, match=r"steps: expected .* of 8"):
        _native.many_residuals(pool, np.ones(9), table, table.copy(), out)
    with pytest.raises(ValueError, match=r"target: expected .* side by side"):
        _native.many_mixes(pool, np.ones(8), table, np.ones((10, 8))[::2], False)
