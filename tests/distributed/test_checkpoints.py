"""Fits of several ranks that signals, kills and errors end, and that go on from checkpoints."""

import json
import shutil
import time

import numpy as np
import pytest

from .launching import results_of, run_job

CASES = ("logistic", "multinomial", "ascent", "classes apart", "ridge")
ON = {2: CASES[:4], 3: CASES}


def results(how, n_ranks, folder, *cases):
    job = run_job("restarts.py", n_ranks, how, folder, *cases, timeout_s=300)
    found = {one["case"]: one["ranks"] for one in results_of(job)}
    assert list(found) == list(cases)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def whole(folder):
    return {case: ranks[0] for case, ranks in results("whole", 3, folder, *CASES).items()}


@pytest.fixture(scope="module")
def terminated(folder):
    return results("terminated", 3, folder, *CASES)


@pytest.mark.parametrize("case", CASES)
def test_one_rank_s_sigterm_ends_the_fit_on_all(terminated, case):
    for rank in terminated[case]:
        assert rank["error"] == "FitInterrupted"
        assert rank["code"] == 143
        assert "SIGTERM after pass" in rank["message"]
        assert rank["is_restored"]
        assert rank["is_left"]


@pytest.mark.parametrize("n_ranks", ON)
def test_any_number_of_ranks_goes_on_to_the_same_answer(
    terminated, whole, folder, tmp_path, n_ranks
):
    for case in ON[n_ranks]:
        shutil.copy(folder / case, tmp_path / case)
    for case, ranks in results("on", n_ranks, tmp_path, *ON[n_ranks]).items():
        for rank in ranks:
            assert rank["resumed_from"] > 0
            distance = abs(rank["objective"] - whole[case]["objective"])
            assert distance <= max(rank["gap"], whole[case]["gap"])
            assert rank["coef"] == ranks[0]["coef"]
            assert not ranks[0]["is_left"]
            if n_ranks == 3 and case != "ascent":
                assert rank["n_iter"] == whole[case]["n_iter"]
                np.testing.assert_array_equal(rank["coef"], whole[case]["coef"])


def test_sigusr1_of_one_rank_writes_once_and_the_fit_goes_on(whole, tmp_path):
    for case, ranks in results("noted", 2, tmp_path, "logistic", "ascent").items():
        for rank in ranks:
            assert rank["n_written"] == 1
            assert rank["resumed_from"] is None
            distance = abs(rank["objective"] - whole[case]["objective"])
            assert distance <= max(rank["gap"], whole[case]["gap"])


def test_all_ranks_refuse_what_they_cannot_go_on_from(terminated, folder, tmp_path):
    shutil.copy(folder / "logistic", tmp_path / "logistic")
    (ranks,) = results("refused", 3, tmp_path, "logistic").values()
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


def test_only_rank_0_needs_to_see_the_file(terminated, whole, folder, tmp_path):
    shutil.copy(folder / "ascent", tmp_path / "ascent")
    (ranks,) = results("hidden", 2, tmp_path, "ascent").values()
    assert ranks[0]["resumed_from"] > 0
    assert ranks[1]["coef"] == ranks[0]["coef"]
    distance = abs(ranks[0]["objective"] - whole["ascent"]["objective"])
    assert distance <= max(ranks[0]["gap"], whole["ascent"]["gap"])


@pytest.mark.parametrize("how", ["killed", "raises"])
def test_what_ends_one_rank_ends_the_job_and_the_next_goes_on(whole, tmp_path, how):
    job = run_job("restarts.py", 3, how, tmp_path, "logistic", timeout_s=300)
    assert time.time() - float((tmp_path / "time").read_text()) < 10.0
    assert job.returncode != 0
    if how == "raises":
        assert job.stderr.count("Traceback (most recent call last)") == 1
        assert "OwnError: what the user's own code raised" in job.stderr
    (ranks,) = results("on", 2, tmp_path, "logistic").values()
    assert ranks[0]["resumed_from"] >= 2
    distance = abs(ranks[0]["objective"] - whole["logistic"]["objective"])
    assert distance <= max(ranks[0]["gap"], whole["logistic"]["gap"])


def test_the_report_says_what_the_fit_took_and_rank_0_alone_logs(tmp_path):
    (ranks,) = results("reported", 2, tmp_path, "logistic").values()
    report = ranks[0]["report"]
    assert report == ranks[1]["report"] == json.loads((tmp_path / "report").read_text())
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
    job = run_job("restarts.py", 2, "ends", tmp_path, "logistic")
    assert job.returncode == 143
    assert "SIGTERM: the fit ends" in job.stderr
    assert "Traceback" not in job.stderr
    assert (tmp_path / "logistic").exists()
