"""Stores on several ranks: no row counts twice, whether they share one or have their own."""

import pytest

from .launching import results_of, run_job


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    (result,) = results_of(run_job("stores.py", 3, tmp_path_factory.mktemp("stores")))
    return result


@pytest.mark.parametrize("case", ["shared", "targets beside", "own"])
def test_every_row_counts_once(found, case):
    for fits, _ in found["ranks"]:
        assert fits[case] == pytest.approx(found["whole"], rel=1e-8)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("few chunks", "the store has 1 chunks: expected at least 3, one for each reader"),
        ("L1", "L1 penalty .* on rows of several ranks"),
    ],
)
def test_all_ranks_are_told_what_does_not_work(found, case, message):
    for _, errors in found["ranks"]:
        with pytest.raises(ValueError, match=message):
            raise ValueError(errors[case])
