"""Dense rows as compressed ones: the same numbers, whatever the strides."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml import _native
from snapml.data import DenseMatrix
from snapml.data.sparse_form import share_of_numbers, sparse_form


def rows(shape, dtype, share=0.1, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape).astype(dtype)
    values[rng.random(shape) > share] = 0.0
    return values


LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "backwards": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "every other": lambda a: np.repeat(np.repeat(a, 2, axis=0), 2, axis=1)[::2, ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(50, 30), (1, 40), (40, 1), (0, 3), (3, 0)])
def test_entries_are_those_of_scipy(layout, shape, dtype):
    values = LAYOUTS[layout](rows(shape, dtype))
    form, expected = sparse_form(values, 1.0), csr_matrix(values)
    assert form is not None
    np.testing.assert_array_equal(form.indptr, expected.indptr)
    np.testing.assert_array_equal(form.indices, expected.indices)
    np.testing.assert_array_equal(form.values, expected.data)
    assert form.shape == shape
    assert form.dtype == dtype


@pytest.mark.parametrize("layout", LAYOUTS)
def test_more_entries_than_allowed_are_none(layout):
    values = LAYOUTS[layout](rows((60, 50), np.float64))
    n_stored = np.count_nonzero(values)
    assert sparse_form(values, (n_stored + 0.5) / values.size) is not None
    assert sparse_form(values, (n_stored - 0.5) / values.size) is None


def test_what_is_no_number_is_an_entry():
    values = np.zeros((5, 4))
    values[1, 2], values[3, 0], values[4, 3] = np.nan, np.inf, -0.0
    form = sparse_form(values, 1.0)
    np.testing.assert_array_equal(form.indices, [2, 0])


def test_the_share_is_that_of_a_sample():
    values = rows((4000, 50), np.float32, share=0.2)
    assert share_of_numbers(values) == pytest.approx(0.2, abs=0.02)
    assert share_of_numbers(np.empty((0, 3))) == 1.0


def test_the_form_is_made_once():
    matrix = DenseMatrix(rows((300, 200), np.float64))
    assert matrix.sparse_form is matrix.sparse_form


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="most"):
        _native.sparse_form(np.zeros((2, 2)), None, -1)
    with pytest.raises(ValueError, match="dtype"):
        _native.sparse_form(np.zeros((2, 2), dtype=np.int32), None, 1)
