"""Two ranks over TCP with a device each: sums of vectors there, and a fit, beside those of one.

The ranks are threads of one process, connected through the loopback interface.
"""

from __future__ import annotations

import os
import secrets
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.gpu.data import Shape, logistic
from benchmarks.gpu.measurement import Measurement
from snapml.data import Dataset
from snapml.distributed.device_ranks import DeviceRanks
from snapml.distributed.tcp import Listener, Mesh
from snapml.distributed.tcp.communicator import TcpCommunicator
from snapml.kernels import Device
from snapml.problems import Problem
from snapml.solvers.communicator import Communicator, SerialCommunicator
from snapml.solvers.fit_settings import Settings
from snapml.solvers.plan import choice, device_choice
from snapml.solvers.plan.thread_shards import row_shards
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

__all__ = ["COUNTS", "measure_ranks"]

COUNTS = (1 << 6, 1 << 15, 1 << 20, 1 << 24)
"""Numbers of the vectors that are added up."""

_ROUNDS = 5
_MOST_READS = 1000
_TIMEOUT_S = 60.0


def measure_ranks(
    devices: Sequence[Device], shape: Shape, tol: float, seed: int, counts: Sequence[int] = COUNTS
) -> Iterator[Measurement]:
    """Add up vectors and fit a logistic regression on several ranks.

    Parameters
    ----------
    devices : sequence of Device
        One a rank; on one card or several.
    shape : Shape
        Of the fit's data, which the ranks divide.
    tol : float
        Certified relative gap of the fits.
    seed : int
        Of the random numbers.
    counts : sequence of int
        Numbers of the vectors.

    Yields
    ------
    Measurement
        Seconds; sums pass where all ranks have the bits of an addition in their order, fits where
        the objective is that of one device, to both certified gaps.
    """
    for is_off in (False, True):
        with mock.patch.dict(os.environ, {"SNAPML_NCCL": "0"} if is_off else {}):
            for count in counts:
                yield _sum(devices, count, seed)
            yield _fits(devices, shape, tol, seed)


def _on_ranks(devices: Sequence[Device], work: Callable[[int, TcpCommunicator], Any]) -> list[Any]:
    """Return what each rank returns, in their order."""
    listeners = [Listener("127.0.0.1") for _ in devices]
    addresses = [listener.address for listener in listeners]
    key = secrets.token_bytes(32)

    def run(rank: int) -> Any:
        mesh = Mesh(listeners[rank], addresses, rank, key, _TIMEOUT_S)
        try:
            communicator = TcpCommunicator(mesh)
            with devices[rank].use():
                found = work(rank, communicator)
            communicator.close()
            return found
        finally:
            mesh.close()

    with ThreadPoolExecutor(len(devices)) as pool:
        return list(pool.map(run, range(len(devices))))


def _sum(devices: Sequence[Device], count: int, seed: int) -> Measurement:
    addends = np.random.default_rng(seed).normal(size=(len(devices), count))
    expected = addends[0].copy()
    for addend in addends[1:]:
        expected += addend

    def work(rank: int, communicator: TcpCommunicator) -> tuple[float, bool, str]:
        device = devices[rank]
        ranks: DeviceRanks = communicator.with_device(device)
        addend = device.to_device(addends[rank])
        total = ranks.allreduce_sum(addend)
        seconds = [_timed(device, ranks, addend) for _ in range(_ROUNDS)]
        is_same = np.array_equal(device.to_host(total), expected)
        return statistics.median(seconds), is_same, ranks.description

    found = _on_ranks(devices, work)
    is_good = all(is_same for _, is_same, _ in found)
    seconds = max(passed_s for passed_s, _, _ in found)
    case = f"{count:,} numbers"
    return Measurement("ranks", "sum", case, seconds, "s", None, is_good, found[0][2])


def _timed(device: Device, ranks: Communicator, addend: Any) -> float:
    device.synchronize()
    ranks.exchange(None)  # all begin together
    started_s = time.perf_counter()
    ranks.allreduce_sum(addend)
    device.synchronize()
    return time.perf_counter() - started_s


def _fits(devices: Sequence[Device], shape: Shape, tol: float, seed: int) -> Measurement:
    problem, dataset = logistic(shape, seed)
    shards = row_shards(dataset, len(devices))

    def work(rank: int, communicator: TcpCommunicator) -> tuple[float, FitResult]:
        _fit(problem, shards[rank], communicator, rank, tol)  # which may compile kernels
        started_s = time.perf_counter()
        result = _fit(problem, shards[rank], communicator, rank, tol)
        return time.perf_counter() - started_s, result

    with mock.patch.object(device_choice, "make_device", devices.__getitem__):
        with devices[0].use():
            alone = SerialCommunicator()
            _fit(problem, dataset, alone, 0, tol)
            started_s = time.perf_counter()
            one = _fit(problem, dataset, alone, 0, tol)
            alone_s = time.perf_counter() - started_s
        found = _on_ranks(devices, work)
    seconds, result = found[0]
    is_same = all(np.array_equal(other.coef, result.coef) for _, other in found)
    distance = abs(result.objective - one.objective)
    is_good = is_same and distance <= one.gap + result.gap
    name = f"fit from the host, {tol:g}"
    note = result.description
    return Measurement("ranks", name, str(shape), seconds, "s", alone_s, bool(is_good), note)


def _fit(
    problem: Problem, dataset: Dataset, communicator: Communicator, number: int, tol: float
) -> FitResult:
    rule = StoppingRule(tol=tol, max_iter=_MOST_READS)
    settings = Settings("pqn", device_ids=(number,))
    return choice.fit(problem, dataset, communicator, rule, settings)
