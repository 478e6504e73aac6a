"""Dense rows stay where the caller has them."""

import numpy as np
import pytest

from snapml.data import DenseMatrix


@pytest.mark.parametrize("order", ["C", "F"])
def test_dense_matrix_shares_the_caller_s_memory(dtype, order):
    values = np.ones((4, 3), dtype=dtype, order=order)
    matrix = DenseMatrix(values)
    assert matrix.values is values
    assert (matrix.shape, matrix.dtype, matrix.n_stored) == ((4, 3), dtype, 12)
