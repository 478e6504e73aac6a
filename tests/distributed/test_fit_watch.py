"""Signals and the clock of a fit, in one process without MPI."""

import os
import signal
import sys
import threading
import time

import pytest

from snapml.distributed.mpi.run_report import write_report
from snapml.distributed.mpi.uncaught import let_the_failed_rank_speak
from snapml.distributed.phase_clock import MeasuredCommunicator, PhaseClock
from snapml.distributed.ranks import RankError
from snapml.distributed.signals import FitInterrupted, SignalWatch
from snapml.solvers.communicator import SerialCommunicator


@pytest.fixture
def heard():
    """Return the signals that a handler outside of the watch gets."""
    found = []
    numbers = (signal.SIGTERM, signal.SIGUSR1)
    before = [signal.signal(number, lambda n, frame: found.append(n)) for number in numbers]
    yield found
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_sigusr1_is_taken_once(heard):
    with SignalWatch() as watch:
        assert watch.taken() == (False, False)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert watch.taken() == (True, False)
        assert watch.taken() == (False, False)
    assert heard == []


def test_handlers_are_restored(heard):
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)]
    with pytest.raises(KeyError), SignalWatch():
        raise KeyError
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGUSR1)] == handlers


def test_a_sigterm_that_came_too_late_is_passed_on(heard):
    with SignalWatch():
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == []
    assert heard == [signal.SIGTERM]


def test_a_sigterm_that_ended_the_fit_is_not_passed_on(heard):
    def fit():
        with SignalWatch() as watch:
            os.kill(os.getpid(), signal.SIGTERM)
            assert watch.taken() == (False, True)
            raise FitInterrupted("the state")

    with pytest.raises(FitInterrupted, match="the state") as caught:
        fit()
    assert caught.value.code == 143
    assert heard == []


def test_a_second_sigterm_does_not_wait(heard):
    with SignalWatch():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    assert heard == [signal.SIGTERM]


def test_other_threads_have_no_handlers(heard):
    handlers = []

    def fit():
        with SignalWatch():
            handlers.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=fit)
    thread.start()
    thread.join()
    assert handlers == [before]


def test_each_moment_counts_once():
    clock = PhaseClock()
    communicator = MeasuredCommunicator(SerialCommunicator(), clock)
    clock.turn_to("compute")
    with clock.phase("certificate"):
        time.sleep(0.02)
        communicator.allreduce_sum(3.0)
        assert communicator.exchange("a") == ["a"]
    time.sleep(0.01)
    clock.turn_to("prepare")
    assert clock.seconds["certificate"] >= 0.02
    assert clock.seconds["compute"] >= 0.01
    assert clock.seconds["sums"] > 0.0
    assert 0.03 <= sum(clock.seconds.values()) <= clock.elapsed_s
    assert (communicator.n_sums, communicator.n_exchanges) == (1, 1)
    assert (communicator.rank, communicator.size) == (0, 1)


def test_a_phase_ends_where_its_work_raises():
    clock = PhaseClock()
    clock.turn_to("compute")
    with pytest.raises(KeyError), clock.phase("sums"):
        raise KeyError
    assert clock.turn_to("prepare") == "compute"


def test_a_report_is_written_whole(tmp_path):
    write_report({"a": [1, 2]}, tmp_path / "report")
    assert (tmp_path / "report").read_text() == '{\n "a": [\n  1,\n  2\n ]\n}\n'
    with pytest.raises(TypeError):
        write_report({"a": object()}, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_an_uncaught_rank_error_prints_one_line(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(sys, "excepthook", lambda *error: seen.append(error))
    monkeypatch.setattr("snapml.distributed.mpi.uncaught._PATIENCE_S", 0.0)
    let_the_failed_rank_speak()
    hook = sys.excepthook
    let_the_failed_rank_speak()
    assert sys.excepthook is hook
    hook(RankError, RankError("rank 1: KeyError"), None)
    assert seen == []
    assert capsys.readouterr().err.endswith("RankError: rank 1: KeyError\n")
    hook(KeyError, KeyError("own"), None)
    assert len(seen) == 1
