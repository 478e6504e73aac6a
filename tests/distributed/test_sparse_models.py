"""L1 penalties, positive coefficients and least squares over ranks: the model of all rows."""

import numpy as np
import pytest

from .launching import results_of, run_job


@pytest.fixture(scope="module", params=[2, 3])
def results(request):
    """Return what a job of so many ranks found; the last of three has no rows."""
    return results_of(run_job("sparse_models.py", request.param, timeout_s=300))


def test_every_case_ran(results):
    assert len(results) == 17 * 4 - 2


def test_all_ranks_have_the_same_bits(results):
    assert all(found["is_same_on_all"] for found in results)


def test_objective_is_within_the_certified_gaps(results):
    for found in results:
        distance = abs(found["objective"] - found["whole_objective"])
        noise = found["whole_objective"] * (1e-6 if found["dtype"] == "float32" else 1e-13)
        assert distance <= max(found["gap"], found["whole_gap"]) + noise, found
        if found["dtype"] == "float64" or found["case"] not in ("collinear",):
            assert found["gap"] <= max(1e-7 * found["objective"], 2.0 * found["whole_gap"]), found


def test_the_same_coefficients_are_zero(results):
    """The fits end far below their tolerance, where the support is certain."""
    for found in results:
        assert found["n_nonzero"] == found["whole_n_nonzero"], found
        assert found["distance"] <= (1e-3 if found["dtype"] == "float32" else 1e-6), found


def test_ranks_need_as_many_reads_as_one(results):
    for found in results:
        assert found["n_iter"] <= found["whole_n_iter"] + 1, found


def test_collinear_columns_are_counted(results):
    for found in results:
        if found["case"] in ("least squares", "collinear") and not found["is_sparse"]:
            assert found["rank"] == (11 if found["case"] == "collinear" else 12)


def test_objective_is_not_that_of_one_rank(results):
    assert np.ptp([found["objective"] for found in results]) > 1.0
