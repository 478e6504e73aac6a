"""What the card can do at most: small kernels of our own, each checked against NumPy.

A library's ``take`` or ``add.at`` is no ceiling: it makes copies and checks bounds on the way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.measurement import Measurement, seconds_per_call
from snapml.kernels import Device, Kernel, Program

__all__ = ["CEILING_NAMES", "Ceilings", "ceiling_programs", "measure_ceilings"]

_THREADS = 256
_SHARED_NUMBERS = 4096  # kSharedNumbers of ceilings.cu
_TYPES = {"float32": "float", "float64": "double", "int64": "unsigned long long"}
_HOST_TYPES = {"float32": np.float32, "float64": np.float64, "int64": np.uint64}

CEILING_NAMES = (
    "read",
    "copy",
    "gather float32",
    "gather float64",
    "atomic float32, L2",
    "atomic float64, L2",
    "atomic int64, L2",
    "atomic float32, shared",
    "atomic float64, shared",
    "atomic int64, shared",
)
"""Bytes a second of the first two, accesses a second of the others."""


@dataclass(frozen=True)
class BenchmarkProgram(Program):
    """A ``.cu`` file of this folder."""

    @property
    def path(self) -> Path:
        """Where the text is."""
        return Path(__file__).with_name(f"{self.file}.cu")

    @property
    def digest(self) -> str:
        """Of the library's sources, and of this text."""
        own = hashlib.sha256(self.path.read_bytes()).hexdigest()
        return hashlib.sha256((super().digest + own).encode()).hexdigest()


@dataclass(frozen=True)
class Ceilings:
    """Rates of a card, by `CEILING_NAMES`.

    Attributes
    ----------
    rates : dict of str to float
        Per second.
    """

    rates: dict[str, float]

    def floor_s(
        self, n_bytes: float, gathers: float = 0.0, atomics: float = 0.0, kind: str = "float64"
    ) -> float:
        """Return the time below which no kernel can be, if all units worked beside each other.

        Parameters
        ----------
        n_bytes : float
            Read and written, in order.
        gathers, atomics : float
            Accesses at random, to numbers of type `kind`.
        kind : str, default="float64"
            "float32", "float64" or (atomics only) "int64".

        Returns
        -------
        float
            Seconds.
        """
        reads = "float32" if kind == "float32" else "float64"
        return max(
            n_bytes / self.rates["read"],
            gathers / self.rates[f"gather {reads}"],
            atomics / self.rates[f"atomic {kind}, L2"],
        )


def ceiling_programs() -> Iterator[BenchmarkProgram]:
    """Yield the programs that are measured."""
    for name in _TYPES:
        yield _program(name)


def measure_ceilings(device: Device, n: int = 2**28) -> Iterator[Measurement]:
    """Measure what `CEILING_NAMES` says, the cost of a launch, and whether the sums are right.

    Parameters
    ----------
    device : Device
        To be measured.
    n : int, default=2**28
        Float32 numbers that are streamed; an eighth as many accesses at random, to 2**20 columns.

    Yields
    ------
    Measurement
        Bytes, accesses or launches a second; the number is good where the results are NumPy's.
    """
    yield from _streams(device, n)
    n_columns = min(2**20, n)
    rng = np.random.default_rng(0)
    uniform = rng.integers(0, n_columns, n // 8).astype(np.int32)
    skewed = (n_columns ** rng.random(n // 8)).astype(np.int32) - 1
    for case, indices in (("uniform", uniform), ("power law", skewed)):
        where = device.to_device(indices)
        label = f"{n // 8:,} of {n_columns:,}, {case}"
        for name in ("float32", "float64"):
            yield _gather(device, name, where, indices, n_columns, label)
        for place in ("L2", "shared"):
            for name in _TYPES:
                yield _atomics(device, name, place, where, indices, n_columns, label)
    kernel = Kernel(_program("float32"), "nothing")
    seconds = seconds_per_call(device, lambda: device.launch(kernel, (1,), (32,), (np.int64(0),)))
    yield Measurement("ceilings", "launch", "an empty kernel", seconds, "s")


def _program(name: str) -> BenchmarkProgram:
    return BenchmarkProgram("ceilings", (("SNAPML_NUMBER", _TYPES[name]),))


def _grid(device: Device, kernel: Kernel, n: int) -> tuple[int]:
    blocks = device.resident_blocks(kernel, _THREADS, 0) * device.n_multiprocessors
    return (max(1, min(blocks, -(-n // _THREADS))),)


def _streams(device: Device, n: int) -> Iterator[Measurement]:
    values = np.random.default_rng(1).random(n, dtype=np.float32)
    source, n_quads = device.to_device(values), n // 4
    case, program = f"{4 * n:,} bytes", _program("float32")
    kernel = Kernel(program, "read_all")
    grid = _grid(device, kernel, n_quads)
    out = device.xp.empty(grid[0] * _THREADS, np.float32)
    args: tuple[Any, ...] = (source, np.int64(n_quads), out)
    seconds = seconds_per_call(device, lambda: device.launch(kernel, grid, (_THREADS,), args))
    total = float(device.to_host(out).sum(dtype=np.float64))
    is_good = bool(np.isclose(total, values.sum(dtype=np.float64), rtol=1e-4))
    yield Measurement("ceilings", "read", case, 4 * n / seconds, "B/s", None, is_good)
    kernel_of_copy = Kernel(program, "copy_all")
    to = device.xp.empty(n, np.float32)
    copied: tuple[Any, ...] = (source, np.int64(n_quads), to)
    grid = _grid(device, kernel_of_copy, n_quads)
    seconds = seconds_per_call(
        device, lambda: device.launch(kernel_of_copy, grid, (_THREADS,), copied)
    )
    is_good = bool((device.to_host(to) == values).all())
    note = "bytes read and written"
    yield Measurement("ceilings", "copy", case, 8 * n / seconds, "B/s", None, is_good, note)


def _gather(
    device: Device, name: str, where: Any, indices: np.ndarray, n_columns: int, case: str
) -> Measurement:
    kernel = Kernel(_program(name), "gather")
    values = np.random.default_rng(2).random(n_columns).astype(_HOST_TYPES[name])
    grid = _grid(device, kernel, len(indices))
    out = device.xp.empty(grid[0] * _THREADS, values.dtype)
    args = (where, np.int64(len(indices)), device.to_device(values), out)
    seconds = seconds_per_call(device, lambda: device.launch(kernel, grid, (_THREADS,), args))
    total = float(device.to_host(out).sum(dtype=np.float64))
    is_good = bool(np.isclose(total, values[indices].sum(dtype=np.float64), rtol=1e-4))
    rate = len(indices) / seconds
    return Measurement("ceilings", f"gather {name}", case, rate, "1/s", None, is_good)


def _atomics(
    device: Device,
    name: str,
    place: str,
    where: Any,
    indices: np.ndarray,
    n_columns: int,
    case: str,
) -> Measurement:
    is_shared = place == "shared"
    kernel = Kernel(_program(name), "add_to_shared" if is_shared else "add_to_memory")
    grid = _grid(device, kernel, len(indices))
    counts = np.zeros(max(n_columns, _SHARED_NUMBERS), _HOST_TYPES[name])

    def launch(to: Any) -> None:
        device.launch(kernel, grid, (_THREADS,), (where, np.int64(len(indices)), to))

    once = device.to_device(counts)
    launch(once)
    exact = np.bincount(indices % _SHARED_NUMBERS if is_shared else indices, minlength=len(counts))
    is_good = relative_difference(device.to_host(once), exact) < 1e-6
    seconds = seconds_per_call(device, lambda: launch(once))
    rate = len(indices) / seconds
    return Measurement("ceilings", f"atomic {name}, {place}", case, rate, "1/s", None, is_good)


def relative_difference(found: np.ndarray, exact: np.ndarray) -> float:
    """Return the largest difference over the largest entry."""
    return float(np.abs(found.astype(np.float64) - exact).max() / max(1.0, float(exact.max())))
