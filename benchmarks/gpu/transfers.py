"""The way between host and device: rates of copies, and what a launch costs the host."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu.ceilings import ceiling_programs
from benchmarks.gpu.measurement import Measurement
from snapml.kernels import Device, Kernel
from snapml.kernels.sums import reduce

__all__ = ["measure_transfers", "wall_s"]

_ROUNDS = 5


def measure_transfers(
    device: Device, n: int = 2**27, n_launches: int = 2000
) -> Iterator[Measurement]:
    """Copy arrays there and back, and queue launches.

    Parameters
    ----------
    device : Device
        Where to.
    n : int, default=2**27
        Float32 numbers of a large copy.
    n_launches : int, default=2000
        Launches that are queued without a wait.

    Yields
    ------
    Measurement
        Bytes a second from both kinds of the host's memory; seconds for small copies and launches.
    """
    pageable = np.ones(n, np.float32)
    pinned = device.pinned_empty((n,), np.dtype(np.float32))
    pinned[:] = 1
    case = f"{4 * n:,} bytes"
    for kind, array in (("pageable", pageable), ("pinned", pinned)):
        seconds = wall_s(device, partial(device.to_device, array))
        yield Measurement("transfers", f"to the device, {kind}", case, 4 * n / seconds, "B/s")
    there = device.to_device(pageable)
    seconds = wall_s(device, lambda: device.to_host(there))
    yield Measurement("transfers", "to the host, pageable", case, 4 * n / seconds, "B/s")
    small = there[:29].copy()
    seconds = wall_s(device, lambda: device.to_host(small))
    yield Measurement("transfers", "to the host", "29 numbers", seconds, "s", note="one wait")
    few = np.ones(29)
    seconds = wall_s(device, lambda: device.to_device(few))
    yield Measurement("transfers", "to the device", "29 numbers", seconds, "s")
    parts, out = device.xp.zeros((4, 29), np.float64), device.xp.zeros(29, np.float64)

    def queue() -> None:
        for _ in range(n_launches):
            reduce.parts_sum(device, parts, out)

    queue()
    device.synchronize()
    started_s = time.perf_counter()
    queue()
    queued_s = (time.perf_counter() - started_s) / n_launches
    device.synchronize()
    done_s = (time.perf_counter() - started_s) / n_launches
    yield Measurement("transfers", "launch, cost on the host", "parts_sum", queued_s, "s")
    yield Measurement("transfers", "launch, until done", "parts_sum", done_s, "s")
    kernel = Kernel(next(ceiling_programs()), "nothing")
    device.launch(kernel, (1,), (32,), (np.int64(0),))
    started_s = time.perf_counter()
    for _ in range(n_launches):
        device.launch(kernel, (1,), (32,), (np.int64(0),))
    queued_s = (time.perf_counter() - started_s) / n_launches
    device.synchronize()
    case = "an empty kernel"
    yield Measurement("transfers", "Device.launch, cost on the host", case, queued_s, "s")


def wall_s(device: Device, call: Callable[[], Any]) -> float:
    """Return the seconds of one call until the device is done: the median of a few.

    Parameters
    ----------
    device : Device
        Does the work.
    call : callable
        What to time; runs once untimed.

    Returns
    -------
    float
        By the host's clock.
    """
    call()
    times = []
    for _ in range(_ROUNDS):
        device.synchronize()
        started_s = time.perf_counter()
        call()
        device.synchronize()
        times.append(time.perf_counter() - started_s)
    return statistics.median(times)
