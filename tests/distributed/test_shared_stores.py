"""Stores on several ranks: no row counts twice, whether they share one or have their own."""

import pytest

from .launching import results_of, run_job


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    (result,) = results_of(run_job("stores.py", 3, tmp_path_factory.mktemp("stores")))
    return result


@pytest.mark.parametrize("case", ["shared", "targets beside", "own"])
def test_every_row_counts_once(found, case):
    for fits, *_ in found["ranks"]:
        assert fits[case] == pytest.approx(found["whole"], rel=1e-8)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("few chunks", "the store has 1 chunks: expected at least 3, one for each reader"),
        ("a store on one rank", "a store on rank 1 and rows in memory on rank 0"),
        ("numbers of targets", r"y: expected as many targets on all ranks, got \[1, 2, 3\]"),
        ("a Gram matrix", r"precompute: .* got a matrix of shape \(6, 6\)"),
    ],
)
def test_all_ranks_are_told_what_does_not_work(found, case, message):
    for _, errors, _ in found["ranks"]:
        with pytest.raises(ValueError, match=message):
            raise ValueError(errors[case])


@pytest.mark.parametrize("way", [0, 1], ids=["packed columns", "Gram matrices"])
def test_lasso_on_a_shared_store_is_that_of_one_process(found, way):
    models = [sparse[way] for *_, sparse in found["ranks"]]
    alone = found["lasso"]
    for model in models:
        assert model == models[0]
        assert model["objective"] == pytest.approx(alone["objective"], rel=1e-8)
        assert [c != 0.0 for c in model["coef"]] == [c != 0.0 for c in alone["coef"]]
        assert 0.0 <= model["gap"] <= 1e-8 * model["objective"]
        assert model["reads"] <= alone["reads"] + 1
