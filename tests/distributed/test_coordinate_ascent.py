"""Coordinate ascent on several ranks: one answer, the same bits, and not many more epochs."""

import pytest

from .launching import results_of, run_job


@pytest.fixture(scope="module", params=[2, 4])
def results(request):
    """Return what a job of so many ranks found; the last of four has no rows."""
    return results_of(run_job("coordinate_ascent.py", request.param, timeout_s=300))


def test_every_case_ran(results):
    assert len(results) == 4


def test_all_ranks_and_equal_fits_have_the_same_bits(results):
    assert all(found["is_same"] for found in results)


def test_objective_is_within_the_certified_gaps(results):
    for found in results:
        distance = abs(found["objective"] - found["whole_objective"])
        noise = found["whole_objective"] * (1e-6 if found["is_sparse"] else 1e-13)
        assert distance <= max(found["gap"], found["whole_gap"]) + noise, found
