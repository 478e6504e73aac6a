"""What one rank meets, all ranks hear of; nobody hangs, and the next fit works."""

import re
import time

import pytest

from .launching import results_of, run_job

EVERYWHERE = {
    "one_class": ("ValueError", "contains only one class: np.float64(1.0)"),
    "other_columns": (
        "ValueError",
        "X: expected the same n_features on all ranks, got 5 on rank 0 and 4 on rank 1",
    ),
    "other_type": (
        "ValueError",
        "X: expected the same dtype on all ranks, got float64 on rank 0 and float32 on rank 1",
    ),
    "other_parameters": (
        "ValueError",
        "parameters: expected the same C on all ranks, got 1.0 on rank 0 and 2.0 on rank 1",
    ),
    "other_estimator": (
        "ValueError",
        "expected the same C on all ranks, got 1.0 on rank 0 and nothing on rank 1",
    ),
    "no_communicator": (
        "TypeError",
        "comm: expected a communicator of mpi4py such as MPI.COMM_WORLD, got NoneType",
    ),
    "other_start": (
        "ValueError",
        "parameters: expected the same last model on all ranks",
    ),
    "overflow": ("ValueError", "overflow"),
    "offset": ("ValueError", "offset: expected finite numbers, got NaN or infinity"),
    "offset_of_machine": ("TypeError", "offset: expected none, LinearSVC has no offset"),
    "many_columns": (
        "NotImplementedError",
        "least squares of 4097 columns on several ranks: expected at most 4096",
    ),
    "other_sums": (
        "RuntimeError",
        "expected the same number of entries on all, got [100, 101, 102]",
    ),
}
ON_RANK_1 = {
    "not_a_number": ("ValueError", "contains NaN"),
    "not_a_number_in_lasso": ("ValueError", "contains NaN"),
    "infinite_in_least_squares": ("ValueError", "contains infinity"),
    "no_targets": ("ValueError", "requires y to be passed, but the target y is None"),
}


@pytest.fixture(scope="module", params=["Open MPI", "MPICH"])
def mpi(request):
    return request.param


@pytest.fixture(scope="module")
def found(mpi):
    """Return what each rank of a job saw in each case."""
    job = run_job("faults.py", 3, *EVERYWHERE, *ON_RANK_1, mpi=mpi)
    return {result["case"]: result for result in results_of(job)}


@pytest.mark.parametrize("case", EVERYWHERE)
def test_all_ranks_raise_the_same_error(found, case):
    error, message = EVERYWHERE[case]
    for rank in found[case]["ranks"]:
        assert rank["error"] == error
        assert message in rank["message"]
    assert found[case]["goes_on"]


@pytest.mark.parametrize("case", ON_RANK_1)
def test_the_others_hear_which_rank_failed_and_of_what(found, case):
    error, message = ON_RANK_1[case]
    first, second, third = found[case]["ranks"]
    assert second["error"] == error
    assert message in second["message"]
    for other in (first, third):
        assert other["error"] == "RankError"
        assert f"rank 1: {error}" in other["message"]
    assert found[case]["goes_on"]


@pytest.mark.parametrize(
    ("case", "error"),
    [
        ("killed", None),
        ("uncaught", "ValueError: what the user's own code raised"),
        ("inside", "ValueError: Input X contains NaN"),
    ],
)
def test_death_of_a_rank_ends_the_job(case, error, mpi):
    job = run_job("faults.py", 3, case, mpi=mpi)
    assert time.time() - float(re.search(r"ends at ([\d.]+)", job.stdout)[1]) < 10.0
    assert job.returncode != 0
    if error is not None:  # of the rank that failed; the others print one line at most
        assert error in job.stderr
        chained = job.stderr.count("The above exception") + job.stderr.count("During handling")
        assert job.stderr.count("Traceback (most recent call last)") == 1 + chained
