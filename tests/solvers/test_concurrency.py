"""How many rows step at once, and how far."""

import numpy as np
import pytest
from reference.data import make_rows
from scipy.sparse import csr_matrix

from snapml.solvers.concurrency import Concurrency, measure_coupling, rows_in_flight


def exact_coupling(X, column):
    X = np.hstack([X, np.full((len(X), 1), column)])
    norms = np.linalg.norm(X, axis=1)
    X = X[norms > 0] / norms[norms > 0, None]
    return (np.linalg.norm(X @ X.T, 2) - 1) / (len(X) - 1)


@pytest.mark.parametrize("offset", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("column", [0.0, 1.0])
def test_coupling_is_the_largest_eigenvalue_of_rows_of_unit_length(offset, is_sparse, column):
    X = make_rows(80, 6, density=0.4 if is_sparse else 1.0)
    X[X != 0] += offset
    found = measure_coupling(csr_matrix(X) if is_sparse else X, column)
    exact = exact_coupling(X, column)
    assert 0.6 * exact <= found <= exact * (1 + 1e-9)


def test_coupling_of_parallel_rows_is_one_and_of_separate_ones_zero():
    assert measure_coupling(np.outer(np.arange(1.0, 9.0), [1.0, 2.0]), 0.0) == pytest.approx(1.0)
    assert measure_coupling(csr_matrix(np.eye(8)), 0.0) == pytest.approx(0.0, abs=1e-12)


def test_rows_in_flight_shrink_with_overlap_and_stiffness():
    options = dict(n_rows=10**6, least=16, most=10**5)
    by_overlap = [rows_in_flight(r, 1.0, **options) for r in (0.0, 0.01, 0.1, 1.0)]
    assert by_overlap == sorted(by_overlap, reverse=True)
    assert by_overlap[0] == 4096
    assert by_overlap[-1] == 16
    by_stiffness = [rows_in_flight(0.1, k, **options) for k in (1e-4, 1e-2, 1.0, 100.0)]
    assert by_stiffness == sorted(by_stiffness, reverse=True)
    assert by_stiffness[0] > by_stiffness[-1]


def test_rows_in_flight_leave_an_epoch_some_rounds():
    assert rows_in_flight(0.0, 1.0, n_rows=80, least=132, most=8192) == 10
    assert rows_in_flight(0.0, 1.0, n_rows=3, least=132, most=8192) == 1


def test_concurrency_rises_at_once_and_falls_slowly():
    concurrency = Concurrency(100, 0.1)
    assert concurrency.sigma == pytest.approx(10.9)
    concurrency.learn(20.0)
    assert concurrency.sigma == pytest.approx(22.0)
    concurrency.learn(1.0)
    assert 1.1 < concurrency.sigma < 22.0
    concurrency.learn(1e9)
    assert concurrency.sigma == 100.0


def test_concurrency_that_is_tightened_ends_at_one_row_at_a_time():
    concurrency = Concurrency(8, 0.0)
    seen = []
    while not concurrency.is_safest:
        seen.append((concurrency.rows, concurrency.sigma))
        concurrency.tighten()
    assert seen == [(8, 1.0), (8, 2.0), (8, 4.0), (8, 8.0), (4, 4.0), (2, 2.0)]
