"""A device that times every launch: where the time of a fit goes, kernel by kernel."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from benchmarks.gpu.measurement import Stopwatch
from snapml.kernels import Argument, Device, Kernel

__all__ = ["ProfiledDevice"]


class ProfiledDevice:
    """A device with marks around its launches (protocol `Device`).

    Work that does not come through `launch`, such as CuPy's own kernels, copies and cuBLAS, is not
    seen: what remains of a fit's time is that, and waiting for the host.

    Parameters
    ----------
    device : Device
        Does the work.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._watch = Stopwatch(device)
        self._marks: list[tuple[str, Any, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def launch(
        self,
        kernel: Kernel,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: tuple[Argument, ...],
        shared_bytes: int = 0,
    ) -> None:
        """Queue a kernel between two marks; see `Device.launch`."""
        first = self._watch.mark()
        self._device.launch(kernel, grid, block, args, shared_bytes)
        self._marks.append((kernel.name, first, self._watch.mark()))

    def times(self) -> dict[str, tuple[int, float]]:
        """Return launches and seconds of every kernel since the last call, the slowest first."""
        self._device.synchronize()
        counts: dict[str, int] = defaultdict(int)
        seconds: dict[str, float] = defaultdict(float)
        for name, first, last in self._marks:
            counts[name] += 1
            seconds[name] += self._watch.between(first, last)
        self._marks.clear()
        slowest = sorted(seconds, key=lambda name: -seconds[name])
        return {name: (counts[name], seconds[name]) for name in slowest}
