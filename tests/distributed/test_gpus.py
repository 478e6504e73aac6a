"""Ranks on emulated GPUs: the model of all rows on one CPU; placement, and what is refused."""

import pytest

from .launching import results_of, run_job


@pytest.fixture(scope="module")
def results():
    """Return what jobs of 1 to 4 ranks found, all in one."""
    return results_of(run_job("gpus.py", 4, timeout_s=600))


@pytest.fixture(scope="module")
def fits(results):
    return [found for found in results if "case" in found]


@pytest.fixture(scope="module")
def placements(results):
    return {found["placement"]: found["ranks"] for found in results if "placement" in found}


def test_every_case_ran(fits):
    assert len(fits) == 4 + 3 * 10 + 12


def test_all_ranks_have_the_same_bits(fits):
    assert [found for found in fits if not found["is_same_on_all"]] == []


def test_models_are_certified_and_that_of_all_rows(fits):
    for found in fits:
        assert 0 <= found["gap"] <= found["tol"] * found["objective"], found
        noise = 1e-12 * found["objective"]
        assert found["objective"] - found["gap"] <= found["whole_objective"] + noise, found
        assert found["whole_objective"] - found["whole_gap"] <= found["objective"] + noise, found


@pytest.mark.parametrize(
    ("note", "says"),
    [
        ("pinned", "through pinned host memory (rank 0 has no NCCL)"),
        ("nccl", "sums of 4 ranks by NCCL"),
        ("nodes, nccl", "sums of 4 ranks by NCCL"),
        ("switched off", "through pinned host memory (SNAPML_NCCL=0 on rank 1)"),
        ("two devices", "rows in rounds, sums of 4 ranks through pinned host memory"),
        ("two with nccl", "emulated device, emulated device, sums of 4 ranks by NCCL"),
    ],
)
def test_solver_says_which_way_sums_went(fits, note, says):
    solvers = [found["solver"] for found in fits if found["note"] == note]
    assert says in solvers[-1]


def test_one_rank_says_nothing_of_sums(fits):
    assert not any("sums of" in found["solver"] for found in fits if found["n_ranks"] == 1)


@pytest.mark.parametrize(
    ("case", "numbers"),
    [
        ("all see all", [0, 1, 2, 3]),
        ("each sees its own", [0, 0, 0, 0]),
        ("some of both", [1, 0, 1, 0]),
        ("two nodes", [0, 1, 0, 1]),
    ],
)
def test_each_rank_takes_a_gpu_of_its_own(placements, case, numbers):
    assert placements[case] == [[[number], None] for number in numbers]


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("too few", "has 4 ranks of this job (rank 3 among them) and 3 visible GPUs"),
        ("too few on one node", "has 4 ranks of this job (rank 3 among them) and 3 visible GPUs"),
        ("none", "has 4 ranks of this job (rank 0 among them) and 0 visible GPUs"),
    ],
)
def test_more_ranks_than_gpus_are_refused_on_all(placements, case, says):
    for used, refusal in placements[case]:
        assert used == []
        assert refusal.startswith("ValueError: device_ids='local_rank': host ")
        assert says in refusal
        assert "CUDA_VISIBLE_DEVICES not set" in refusal
    assert len({refusal for _, refusal in placements[case]}) == 1


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (
            "mixed",
            "ValueError: X: expected the same kind of device on all ranks, got GPU on rank 0 and "
            "CPU on rank 2",
        ),
        (
            "other model",
            "NotImplementedError: device_ids: expected devices of one model, got rank 0: emulated "
            "device: emulated device; rank 1: emulated device: other model",
        ),
        (
            "no such name",
            "ValueError: device_ids='auto': expected None, a list of integers >= 0 or 'local_rank'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_on_all(placements, case, says):
    for refusal in placements[case]:
        assert refusal.startswith(says)


def test_next_fit_works_after_refusals(placements):
    assert placements["goes on"] == [None] * 4
