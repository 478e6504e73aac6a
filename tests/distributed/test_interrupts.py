"""Ctrl-C on one rank: it ends the fit of all, between sums, and nothing hangs."""

import os
import signal
import sys
import threading
import time

import pytest

from snapml.distributed.interrupts import HeldInterrupts

from .launching import results_of, run_job

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="SIGINT cannot be sent to one process on Windows"
)

DURING = (
    "while it computes",
    "before a letter",
    "behind a letter",
    "in a long sum",
    "behind a long sum",
    "in an exchange",
)


@pytest.fixture(scope="module")
def found():
    """Return what the ranks saw, by the moment of the interrupt."""
    results = results_of(run_job("interrupts.py", 3))
    return {result["moment"]: result for result in results}


@pytest.mark.parametrize("moment", DURING)
def test_others_hear_of_the_interrupt_and_no_model_is_left(found, moment):
    first, second, third = found[moment]["seen"]
    assert second == "KeyboardInterrupt: "
    for other in (first, third):
        assert other == "RankError: rank 1: KeyboardInterrupt: "
    assert found[moment]["is_unfitted"] == [True, True, True]


@pytest.mark.parametrize("moment", ["at the end", "behind the end", "as it leaves"])
def test_who_has_ended_is_not_disturbed(found, moment):
    first, second, third = found[moment]["seen"]
    assert second == "KeyboardInterrupt: "
    assert {first, third} <= {None, "RankError: rank 1: KeyboardInterrupt: "}


def test_interrupt_beside_an_error_of_another_rank_hangs_nobody(found):
    first, second, third = found["as another fails"]["seen"]
    assert "NaN" in first
    assert second == "KeyboardInterrupt: "
    assert third.startswith("RankError: rank 0: ValueError")


def test_interrupt_at_the_beginning_ends_the_fit_of_all(found):
    assert found["as it begins"]["seen"][1] == "KeyboardInterrupt: "
    assert found["as it begins"]["is_unfitted"] == [True, True, True]


def test_next_fit_works_after_each(found):
    assert len(found) == 11
    assert all(result["goes_on"] for result in found.values())


def test_sum_that_something_else_cuts_short_is_said_to_be_so():
    began = time.monotonic()
    job = run_job("interrupts.py", 3, "cut short", timeout_s=100)
    assert time.monotonic() - began < 90.0
    assert job.returncode != 0
    assert "of no use any more: a sum has ended half way on this rank (TimeoutError)" in job.stdout
    assert '"fails": true' in job.stdout


def send():
    os.kill(os.getpid(), signal.SIGINT)


def was_interrupted(function):
    """Return whether a function ends with KeyboardInterrupt."""
    try:
        function()
    except KeyboardInterrupt:
        return True
    return False


def test_interrupt_waits_for_the_outermost_end():
    reached = []

    def work():
        with HeldInterrupts():
            with HeldInterrupts():
                send()
                reached.append("inside")
            reached.append("between")

    assert was_interrupted(work)
    assert reached == ["inside", "between"]


def test_let_through_takes_effect_at_once_and_only_inside():
    reached = []

    def work(held, *, sends_before):
        if sends_before:
            send()
            reached.append("held")
        with held.let_through():
            send()
            reached.append("not here")

    with HeldInterrupts() as held:
        assert was_interrupted(lambda: work(held, sends_before=False))
        assert was_interrupted(lambda: work(held, sends_before=True))
    assert reached == ["held"]


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT)
    with HeldInterrupts() as held, held.let_through(), HeldInterrupts():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_have_nothing_to_hold():
    errors = []

    def run():
        try:
            with HeldInterrupts() as held, held.let_through():
                pass
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert errors == []
