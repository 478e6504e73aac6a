"""Fits of several ranks that signals, kills and errors end, and that go on from checkpoints."""

import json
import shutil
import time

import numpy as np
import pytest

from .launching import results_of, run_job

CASES = ("logistic", "multinomial", "ascent", "classes apart", "ridge")
ON = {2: CASES[:4], 3: CASES}


def results(n_ranks, folder, **asked):
    """Return what ranks found in one job, by what they did and the case."""
    items = [f"{how}/{case}" for how, cases in asked.items() for case in cases]
    for how in asked:
        (folder / how).mkdir(exist_ok=True)
    found = results_of(run_job("restarts.py", n_ranks, folder, *items, timeout_s=300))
    assert [one["case"] for one in found] == items
    return {tuple(one["case"].split("/")): one["ranks"] for one in found}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Fits to the end, and fits that a signal has ended; their checkpoints are in `folder`."""
    folder = tmp_path_factory.mktemp("checkpoints")
    return folder, results(3, folder, whole=CASES, terminated=CASES)


@pytest.fixture(scope="module")
def whole(first):
    return {case: ranks[0] for (how, case), ranks in first[1].items() if how == "whole"}


@pytest.fixture(scope="module")
def again(first, tmp_path_factory):
    """What jobs of 2 and 3 ranks find where the checkpoints are."""

    def found(n_ranks, **asked):
        folder = tmp_path_factory.mktemp(f"on{n_ranks}")
        for how, cases in asked.items():
            (folder / how).mkdir()
            for case in cases if how in ("on", "hidden", "refused") else ():
                shutil.copy(first[0] / "terminated" / case, folder / how / case)
        return folder, results(n_ranks, folder, **asked)

    two = dict(noted=["logistic", "ascent"], hidden=["ascent"], reported=["logistic"])
    return {2: found(2, on=ON[2], **two), 3: found(3, on=ON[3], refused=["logistic"])}


@pytest.mark.parametrize("case", CASES)
def test_one_rank_s_sigterm_ends_the_fit_on_all(first, case):
    for rank in first[1]["terminated", case]:
        assert rank["error"] == "FitInterrupted"
        assert rank["code"] == 143
        assert "SIGTERM after pass" in rank["message"]
        assert rank["is_restored"]
        assert rank["is_left"]


@pytest.mark.parametrize("n_ranks", ON)
def test_any_number_of_ranks_goes_on_to_the_same_answer(again, whole, n_ranks):
    for case in ON[n_ranks]:
        ranks = again[n_ranks][1]["on", case]
        for rank in ranks:
            assert rank["resumed_from"] > 0
            distance = abs(rank["objective"] - whole[case]["objective"])
            assert distance <= max(rank["gap"], whole[case]["gap"])
            assert rank["coef"] == ranks[0]["coef"]
            assert not ranks[0]["is_left"]
            if n_ranks == 3 and case != "ascent":
                assert rank["n_iter"] == whole[case]["n_iter"]
                np.testing.assert_array_equal(rank["coef"], whole[case]["coef"])


@pytest.mark.parametrize("case", ["logistic", "ascent"])
def test_sigusr1_of_one_rank_writes_once_and_the_fit_goes_on(again, whole, case):
    for rank in again[2][1]["noted", case]:
        assert rank["n_written"] == 1
        assert rank["resumed_from"] is None
        distance = abs(rank["objective"] - whole[case]["objective"])
        assert distance <= max(rank["gap"], whole[case]["gap"])


def test_all_ranks_refuse_what_they_cannot_go_on_from(again):
    ranks = again[3][1]["refused", "logistic"]
    expected = {
        "data": "ValueError: checkpoint: .* is of other data: expected the same rows with labels",
        "parameters": "ValueError: .* is of another fit: expected C 0.1, got 0.2; remove it",
        "damaged": "ValueError: .*: this checkpoint is damaged: its checksum is wrong; remove it",
        "short": "ValueError: .*: this checkpoint is damaged",
        "foreign": "ValueError: .*: expected a checkpoint of snapml, got another kind of file",
        "folder": "FileNotFoundError: checkpoint: there is no folder .*none",
    }
    for rank in ranks:
        assert list(rank) == list(expected)
        for case, message in expected.items():
            with pytest.raises(AssertionError, match=message):
                raise AssertionError(rank[case])


def test_only_rank_0_needs_to_see_the_file(again, whole):
    ranks = again[2][1]["hidden", "ascent"]
    assert ranks[0]["resumed_from"] > 0
    assert ranks[1]["coef"] == ranks[0]["coef"]
    distance = abs(ranks[0]["objective"] - whole["ascent"]["objective"])
    assert distance <= max(ranks[0]["gap"], whole["ascent"]["gap"])


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """Jobs that lose a rank, by how, and what two ranks then find."""
    folder, jobs = tmp_path_factory.mktemp("broken"), {}
    for how in ("killed", "raises"):
        (folder / how).mkdir()
        job = run_job("restarts.py", 3, folder, f"{how}/logistic", timeout_s=300)
        jobs[how] = job, time.time() - float((folder / how / "time").read_text())
    after = results(2, folder, **{"on=killed": ["logistic"], "on=raises": ["logistic"]})
    return jobs, {how: after[f"on={how}", "logistic"] for how in jobs}


@pytest.mark.parametrize("how", ["killed", "raises"])
def test_what_ends_one_rank_ends_the_job_and_the_next_goes_on(broken, whole, how):
    (job, seconds_to_end), ranks = broken[0][how], broken[1][how]
    assert seconds_to_end < 10.0
    assert job.returncode != 0
    if how == "raises":
        assert job.stderr.count("Traceback (most recent call last)") == 1
        assert "OwnError: what the user's own code raised" in job.stderr
    assert ranks[0]["resumed_from"] >= 2
    distance = abs(ranks[0]["objective"] - whole["logistic"]["objective"])
    assert distance <= max(ranks[0]["gap"], whole["logistic"]["gap"])


def test_the_report_says_what_the_fit_took_and_rank_0_alone_logs(again):
    folder, found = again[2]
    ranks = found["reported", "logistic"]
    report = ranks[0]["report"]
    assert report == ranks[1]["report"] == json.loads((folder / "reported" / "report").read_text())
    assert (report["ranks"], report["n_rows"], report["n_features"]) == (2, 600, 12)
    assert report["n_stored"] == 7200
    assert list(report["hosts"].values()) == [2]
    assert report["has_converged"]
    assert report["checkpoints"]["n_written"] >= report["passes"] - 1 > 0
    assert report["checkpoints"]["n_failed"] == 0
    assert report["rate"]["rows_per_s"] * 12 == pytest.approx(report["rate"]["entries_per_s"])
    phases = report["phases_s"]
    for name in ("prepare", "compute", "certificate", "sums", "checkpoint"):
        assert phases[name]["min"] > 0.0, name
    total = sum(phase["mean"] for phase in phases.values())
    assert total == pytest.approx(report["wall_s"]["mean"], rel=1e-2)
    # Gradients of 13 numbers fit into the letters; Hessians of 13 x 13 do not, once a pass.
    assert report["sums"]["bytes_sent"]["min"] > 0
    assert any("2 ranks: 2 on " in line for line in ranks[0]["lines"])
    assert any("certified gap" in line for line in ranks[0]["lines"])
    assert ranks[1]["lines"] == []
    assert ranks[0]["saved"]
    assert ranks[0]["copy"]
    assert ranks[1]["copy"]


def test_an_uncaught_sigterm_ends_the_job_with_its_status(tmp_path):
    (tmp_path / "ends").mkdir()
    job = run_job("restarts.py", 2, tmp_path, "ends/logistic")
    assert job.returncode == 143
    assert "SIGTERM: the fit ends" in job.stderr
    assert "Traceback" not in job.stderr
    assert (tmp_path / "ends" / "logistic").exists()
