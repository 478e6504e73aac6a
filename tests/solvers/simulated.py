"""Several shards in one process: every engine on a Python thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from snapml.solvers.dual_ascent.dual_coordinate_ascent import solve
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

_TIMEOUT_S = 5.0


class _Meeting:
    """Where the shards lay down their addends; one that fails sends all others home."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size, timeout=_TIMEOUT_S)
        self.addends: list[np.ndarray | None] = [None] * size


class SimulatedCommunicator:
    """One shard's end of a meeting (protocol `Communicator`)."""

    def __init__(self, rank: int, meeting: _Meeting) -> None:
        self.rank = rank
        self.size = meeting.barrier.parties
        self._meeting = meeting

    def allreduce_sum(self, array: np.ndarray) -> np.ndarray:
        """Return the sum in the order of ranks, so that every shard gets the same bits."""
        self._meeting.addends[self.rank] = array
        self._meeting.barrier.wait()
        total = sum(self._meeting.addends[1:], self._meeting.addends[0].copy())
        self._meeting.barrier.wait()  # nobody lays down the next addend before all have read
        return total

    def exchange(self, value: Any) -> list[Any]:
        """Return what all shards have laid down, in the order of ranks."""
        self._meeting.addends[self.rank] = value
        self._meeting.barrier.wait()
        found = list(self._meeting.addends)
        self._meeting.barrier.wait()
        return found


def solve_shards(
    make_engines: list[Callable[[], Any]],
    rule: StoppingRule,
    solve: Callable[..., FitResult] = solve,
) -> list[FitResult]:
    """Solve one problem on several shards; return what each of them hands back."""
    return run_ranks(
        len(make_engines),
        lambda communicator: solve(make_engines[communicator.rank](), communicator, rule),
    )


def run_ranks(size: int, job: Callable[[SimulatedCommunicator], FitResult]) -> list[FitResult]:
    """Run a job on several shards; return what each of them hands back."""
    meeting = _Meeting(size)
    results: list[FitResult | BaseException] = [RuntimeError("did not end")] * size

    def run(rank: int) -> None:
        try:
            results[rank] = job(SimulatedCommunicator(rank, meeting))
        except BaseException as error:
            results[rank] = error
            meeting.barrier.abort()

    workers = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    errors = [result for result in results if isinstance(result, BaseException)]
    # A broken barrier is the echo of the error that some other shard met first.
    errors.sort(key=lambda error: isinstance(error, threading.BrokenBarrierError))
    if errors:
        raise errors[0]
    return results
