"""Files on several ranks: each reads its part, and the model is that of all rows."""

from functools import cache

import pytest

from .launching import results_of, run_job

FAILURES = {
    "missing everywhere": "X: expected rows, or a file or folder of them, got '.*missing.svm'",
    "no targets on one": "same column of labels .*, got 'y' on rank 0 and None on rank 1",
    "no targets": "y: expected targets, since the rows of rank 0 come without: pass the name",
    "too few targets": "y: expected 500 numbers beside rows that ranks share, .*, got 499",
    "corrupt": "bad.svm, line . ?(behind byte [0-9]+)?: expected INDEX:VALUE .*, got '2:one'",
    "empty": "X: expected at least one row in the files of all ranks, got none",
    "other columns": "columns have the same names, got .*'column 5'. and .*'other'.",
    "other column of targets": "got 'y' on rank 0 and 'column 0' on rank 2",
    "stream": r"all.arrows: .*an Arrow stream.* at least 3 files, .*, got 1; snapml.io.convert",
    "other count": "same n_features on all ranks, got 6 on rank 0 and 5 on rank 1",
    "two formats": "files of one format, got .*all.svm .svmlight. and .*all.npy .npy.",
}
ON_RANK_1 = {
    "missing": "X: expected rows, or a file or folder of them, got '.*missing.svm'",
    "missing of several": ".*missing.svm: expected a file or folder with rows, found none",
    "corrupt on one": ".*bad.svm, line 2: expected INDEX:VALUE with a finite value, got '2:one'",
}


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Return what runs the job on so many ranks, each number once."""
    return cache(
        lambda n_ranks: results_of(run_job("files.py", n_ranks, tmp_path_factory.mktemp("files")))
    )


@pytest.fixture(params=[1, 3])
def results(job, request):
    return [result for result in job(request.param) if "case" in result]


@pytest.fixture
def failures(job):
    return {result["failure"]: result["ranks"] for result in job(3) if "failure" in result}


def test_every_row_counts_once(results):
    assert len(results) == 17
    for found in results:
        assert found["objective"] == pytest.approx(found["whole"], rel=1e-8), found


def test_all_ranks_have_the_same_bits_and_names(results):
    for found in results:
        assert found["is_same_on_all"], found
        has_names = found["case"].startswith(("parquet", "csv", "arrow", "ridge"))
        assert found["names"] == ([f"column {k}" for k in range(6)] if has_names else [])


@pytest.mark.parametrize("case", FAILURES)
def test_all_ranks_are_told_what_does_not_work(failures, case):
    for rank in failures[case]:
        assert rank["error"] == "ValueError"
        with pytest.raises(ValueError, match=FAILURES[case]):
            raise ValueError(rank["message"])


@pytest.mark.parametrize("case", ON_RANK_1)
def test_the_others_hear_of_a_file_that_one_rank_cannot_read(failures, case):
    first, second, third = failures[case]
    assert second["error"] in ("ValueError", "FileNotFoundError")
    for other in (first, third):
        assert other["error"] == "RankError"
        with pytest.raises(ValueError, match=f"rank 1: {second['error']}: {ON_RANK_1[case]}"):
            raise ValueError(other["message"])
