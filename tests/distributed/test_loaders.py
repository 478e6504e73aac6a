"""Rows that ranks load are, end to end, those that one machine loads; metrics are those of all."""

from functools import cache

import pytest

from .launching import results_of, run_job

FAILURES = {
    "one compressed file": r"part 0.svm.bz2: .*\(compressed text\) .* at least 3 files, .* got 1",
    "too few columns": "n_features=4, but the largest index is 5, one-based: expected at least 5",
    "other parameters": "same zero_based on all ranks, got False on rank 0 and True on rank 1",
    "other loads": "files that are alike, got dense with 4 columns, sparse with 4 columns",
    "no path": "path: expected a path or a list of paths, got int",
    "no column": "parts: label='z': expected the name or number of a column",
}
ON_RANK_1 = {
    "missing on one": "FileNotFoundError: .*x: expected a file or folder with rows, found none",
    "text that is none": "ValueError: .*dense.snap, line 1: expected a finite label",
    "NaN on one": "ValueError: Input.* contains NaN",
    "other lengths on one": r"ValueError: .*inconsistent numbers of samples: \[2, 1\]",
}


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Return what runs the job on so many ranks, each number once."""

    @cache
    def run(n_ranks):
        return results_of(run_job("loaders.py", n_ranks, tmp_path_factory.mktemp("files")))

    return run


@pytest.fixture(params=[1, 3])
def results(job, request):
    return job(request.param)


def test_rows_of_all_ranks_are_the_whole_to_the_bit(results):
    loads = [found for found in results if "case" in found]
    assert len(loads) == 25
    for found in loads:
        assert found["is_the_whole"], found


def test_metrics_are_scikit_learns_on_all_rows_and_the_same_bits_on_all_ranks(results):
    reduced = [found for found in results if "metric" in found]
    assert len(reduced) == 5
    for found in reduced:
        assert len(set(found["found"])) == 1
        assert found["found"][0] == pytest.approx(found["expected"], rel=1e-13)


def test_rows_are_divided_about_evenly(job):
    found = {result["case"]: result["n_rows"] for result in job(3) if "case" in result}
    for case in ("plain", "CRLF", "files", "dense snap", "snap files", "parquet folder"):
        assert max(found[case]) <= 1.3 * sum(found[case]) / 3, case


@pytest.fixture(scope="module")
def failures(job):
    return {result["failure"]: result["ranks"] for result in job(3) if "failure" in result}


@pytest.mark.parametrize("case", FAILURES)
def test_all_ranks_are_told_what_does_not_work(failures, case):
    for rank in failures[case]:
        assert rank["error"] in ("ValueError", "TypeError")
        with pytest.raises(ValueError, match=FAILURES[case]):
            raise ValueError(rank["message"])


@pytest.mark.parametrize("case", ON_RANK_1)
def test_the_others_hear_which_rank_failed_and_of_what(failures, case):
    first, second, third = failures[case]
    with pytest.raises(ValueError, match=ON_RANK_1[case]):
        raise ValueError(f"{second['error']}: {second['message']}")
    for other in (first, third):
        assert other["error"] == "RankError"
        with pytest.raises(ValueError, match=f"rank 1: {ON_RANK_1[case]}"):
            raise ValueError(other["message"])
