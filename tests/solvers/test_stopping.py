"""When a fit looks, when it stops, and what it remembers."""

import logging
import math

import pytest

from snapml.solvers.stopping import Progress, StoppingRule


def progress(tol=1e-2, verbose=0):
    return Progress(StoppingRule(tol, max_iter=100, verbose=verbose))


@pytest.mark.parametrize(
    ("gap", "objective", "is_met"),
    [(1.0, 100.0, True), (1.1, 100.0, False), (1.0, -100.0, True), (0.0, 0.0, True)],
)
def test_rule_compares_the_gap_with_a_share_of_the_objective(gap, objective, is_met):
    assert StoppingRule(tol=1e-2, max_iter=1).is_met(gap, objective) is is_met


def test_nothing_but_a_gap_of_zero_meets_a_tolerance_of_zero():
    rule = StoppingRule(tol=0.0, max_iter=1)
    assert rule.is_met(0.0, 1.0)
    assert not rule.is_met(1e-300, 1.0)


def test_what_is_not_a_number_never_meets_a_rule():
    assert not StoppingRule(tol=1.0, max_iter=1).is_met(math.nan, 1.0)
    assert not StoppingRule(tol=1.0, max_iter=1).is_met(1.0, math.nan)


def test_first_epoch_asks_for_an_exact_pass_only_if_any_gap_would_do():
    assert not progress(tol=0.9).see_epoch(50.0)
    assert progress(tol=1.0).see_epoch(50.0)


def test_ratio_of_two_running_gaps_predicts_the_next():
    seen = progress(tol=1e-2)
    assert not seen.see_epoch(100.0)  # taken for the objective
    assert not seen.see_epoch(11.0)  # predicts 1.21, more than 1
    seen = progress(tol=1e-2)
    assert not seen.see_epoch(100.0)
    assert seen.see_epoch(9.0)  # predicts 0.81


def test_rising_gap_is_not_extrapolated():
    seen = progress(tol=1e-2)
    seen.see_epoch(100.0)
    seen.see_epoch(0.5)
    assert seen.see_epoch(0.9)
    assert not seen.see_epoch(1.1)


def test_certificate_corrects_the_next_prediction():
    seen = progress(tol=1e-2)
    seen.see_epoch(100.0)
    seen.see_epoch(10.0)  # predicts 1
    seen.see_certificate(gap=5.0, objective=100.0)  # it was 5
    assert not seen.is_met
    assert not seen.see_epoch(2.1)  # 0.441, times 5
    assert seen.see_epoch(0.5)  # 0.119, times 5


@pytest.mark.parametrize(("gap", "correction"), [(1e6, 10.0), (1e-6, 0.1)])
def test_correction_is_bounded(gap, correction):
    seen = progress(tol=1e-2)
    seen.see_epoch(100.0)
    seen.see_epoch(10.0)
    seen.see_certificate(gap=gap, objective=100.0)
    # Equal gaps predict themselves.
    seen.see_epoch(10.0)
    limit = 1.0 / correction
    seen.history[-1]["running_gap"] = limit
    assert seen.see_epoch(limit * 0.999)
    seen.history[-1]["running_gap"] = limit * 1.1
    assert not seen.see_epoch(limit * 1.1)


def test_certificate_belongs_to_the_latest_epoch():
    seen = progress()
    seen.see_epoch(4.0)
    seen.see_epoch(2.0)
    seen.see_certificate(gap=1.0, objective=50.0)
    first, second = seen.history
    assert math.isnan(first["gap"])
    assert math.isnan(first["objective"])
    assert (second["gap"], second["objective"], second["running_gap"]) == (1.0, 50.0, 2.0)
    assert [entry["epoch"] for entry in seen.history] == [1, 2]
    assert 0 <= first["time_s"] <= second["time_s"] <= seen.elapsed_s


def test_rule_is_met_by_a_certificate_only():
    seen = progress(tol=1e-2)
    seen.see_epoch(100.0)
    seen.see_epoch(0.0)
    assert not seen.is_met
    seen.see_certificate(gap=1.0, objective=100.0)
    assert seen.is_met
    seen.see_certificate(gap=1.1, objective=100.0)
    assert not seen.is_met


def test_certificate_before_any_epoch_is_judged():
    seen = progress(tol=1e-2)
    seen.see_certificate(gap=1.0, objective=100.0)
    assert seen.is_met
    assert seen.history == []


def test_running_gap_of_zero_is_no_division_by_zero():
    seen = progress(tol=0.0)
    assert seen.see_epoch(0.0)
    assert seen.see_epoch(0.0)
    assert seen.relative_gap == 0.0
    assert not seen.see_epoch(1.0)
    assert seen.relative_gap == math.inf


def test_relative_gap_is_that_of_the_last_epoch():
    seen = progress()
    seen.see_epoch(100.0)
    seen.see_certificate(gap=50.0, objective=200.0)
    seen.see_epoch(10.0)
    assert seen.relative_gap == pytest.approx(0.05)


def test_lines_are_logged_every_so_many_epochs(caplog):
    with caplog.at_level(logging.INFO, logger="snapml"):
        seen = progress(verbose=2)
        for _ in range(5):
            seen.see_epoch(1.0)
        assert [record.args[0] for record in caplog.records] == [2, 4]
        seen.see_certificate(gap=0.5, objective=2.0)
        assert "certified gap 0.5" in caplog.records[-1].getMessage()
        caplog.clear()
        silent = progress()
        silent.see_epoch(1.0)
        silent.see_certificate(gap=0.5, objective=2.0)
        assert not caplog.records
