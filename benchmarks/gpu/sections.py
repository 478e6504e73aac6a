"""What the check consists of, the most important first: each part runs in a process of its own."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from benchmarks.gpu import (
    ceilings,
    dual_parity,
    estimator_parity,
    fits,
    hinges,
    parity,
    ranks,
    sanitized,
    searches,
    speed,
    streaming,
    transfers,
)
from benchmarks.gpu.data import Shape
from benchmarks.gpu.measurement import Measurement
from snapml.kernels import CudaDevice, Device
from snapml.kernels.all_programs import all_programs
from snapml.kernels.device.compiler import cached_cubin
from snapml.problems import Loss

__all__ = ["SECTIONS", "Context", "Section", "loss_names"]


@dataclass(frozen=True)
class Context:
    """What a section may use.

    Attributes
    ----------
    make : callable
        Returns a new device on the card.
    device_id : int
        As CUDA counts them.
    seed : int
        Of all random numbers.
    scale : float
        Of the timed data's rows.
    tols : tuple of float
        Distances from the least objective that fits are timed to.
    earlier : callable
        Returns what the sections before have measured.
    limit_s : float
        Seconds that the section has.
    """

    make: Callable[[], Device]
    device_id: int
    seed: int
    scale: float
    tols: tuple[float, ...]
    earlier: Callable[[], list[Measurement]]
    limit_s: float

    @property
    def shapes(self) -> list[Shape]:
        """The timed data's."""
        return [
            dataclasses.replace(shape, n_rows=max(1000, int(shape.n_rows * self.scale)))
            for shape in SHAPES
        ]

    def ceilings(self, device: Device) -> ceilings.Ceilings:
        """Return the card's rates as they were measured before, or measure them."""
        rates: dict[str, float] = {}
        known = [m for m in self.earlier() if m.section == "ceilings"]
        if not set(ceilings.CEILING_NAMES) <= {m.name for m in known}:
            known = list(ceilings.measure_ceilings(device))
        for m in known:  # of several cases the fastest: a floor lies below all of them
            rates[m.name] = max(m.value, rates.get(m.name, 0.0))
        return ceilings.Ceilings(rates)


@dataclass(frozen=True)
class Section:
    """A part of the check.

    Attributes
    ----------
    run : callable
        Yields measurements as they come.
    limit_s : float
        Most seconds that it gets.
    """

    run: Callable[[Context, Device], Iterator[Measurement]]
    limit_s: float


SHAPES = (
    Shape(11_000_000, 28),
    Shape(1_000_000, 784),
    Shape(400_000, 2000),
    Shape(20_000_000, 1_000_000, 39),
)


def loss_names() -> tuple[list[str], list[str]]:
    """Return the core's names of all losses, and of those that have a coordinate step.

    One with a parameter is named with 1.5 for it: the number decides nothing about its kernels.
    """
    losses = Loss.__subclasses__()
    names = [loss.struct + "(1.5)" * loss.has_parameter for loss in losses]
    duals = [name for name, loss in zip(names, losses, strict=True) if loss.has_dual_step]
    return names, duals


def _compile(context: Context, device: Device) -> Iterator[Measurement]:
    """Fill the cache on disk, so that no other section waits for the compiler."""
    if not isinstance(device, CudaDevice):
        return
    programs = [*all_programs(*loss_names()), *ceilings.ceiling_programs()]
    nvrtc = device.xp.cuda.nvrtc
    capability = device.xp.cuda.Device(context.device_id).compute_capability
    started_s = time.perf_counter()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(lambda program: cached_cubin(nvrtc, program, capability), programs))
    seconds = time.perf_counter() - started_s
    case = f"{len(programs)} programs for sm_{capability}, those in the cache left out"
    yield Measurement("compile", "all kernels", case, seconds, "s", is_good=True)


def _dual_parity(context: Context, device: Device) -> Iterator[Measurement]:
    yield from dual_parity.check_order(device, context.seed)
    yield from dual_parity.check_dual(device, context.seed)


def _kernels(context: Context, device: Device) -> Iterator[Measurement]:
    rates = context.ceilings(device)
    for shape in context.shapes:
        yield from speed.time_kernels(device, shape, rates, context.seed)


def _epochs(context: Context, device: Device) -> Iterator[Measurement]:
    rates = context.ceilings(device)
    for shape in context.shapes:
        yield from speed.time_epochs(device, shape, rates, context.seed)


def _fits(context: Context, device: Device) -> Iterator[Measurement]:
    for shape in context.shapes:
        yield from fits.compare_fits(device, shape, context.tols, context.seed)


def _streaming(context: Context, device: Device) -> Iterator[Measurement]:
    yield from streaming.measure_streaming(device, context.shapes[1:4:2], context.seed)


def _searches(context: Context, device: Device) -> Iterator[Measurement]:
    """Take a tenth of the rows: single fits copy their folds on the host."""
    shapes = [
        dataclasses.replace(shape, n_rows=max(1000, shape.n_rows // 10))
        for shape in context.shapes[1:4:2]
    ]
    yield from searches.compare_searches(context.make, shapes, context.seed)


def _hinges(context: Context, device: Device) -> Iterator[Measurement]:
    """Take a tenth of the rows: of all, an epoch takes a third of a second, and ascent hundreds."""
    shapes = [
        dataclasses.replace(shape, n_rows=max(1000, shape.n_rows // 10)) for shape in context.shapes
    ]
    yield from hinges.compare_hinges(context.make, shapes, (0.01, 1.0), context.seed)


def _ranks(context: Context, device: Device) -> Iterator[Measurement]:
    """Give each of two ranks a card of its own where there are two."""
    other: Device
    if isinstance(device, CudaDevice):
        n_cards = device.xp.cuda.runtime.getDeviceCount()
        other = CudaDevice((context.device_id + 1) % n_cards)
    else:
        other = context.make()
    yield from ranks.measure_ranks([device, other], context.shapes[1], 1e-3, context.seed)


SECTIONS: dict[str, Section] = {
    "compile": Section(_compile, 60),
    "parity": Section(lambda c, d: parity.check_verbs(d, c.seed), 60),
    "dual parity": Section(_dual_parity, 60),
    "estimators": Section(lambda c, d: estimator_parity.check_estimators(c.make, c.seed), 45),
    "ceilings": Section(lambda c, d: ceilings.measure_ceilings(d), 20),
    "kernels": Section(_kernels, 45),
    "fits": Section(_fits, 150),
    "epochs": Section(_epochs, 40),
    "hinges": Section(_hinges, 90),
    "transfers": Section(lambda c, d: transfers.measure_transfers(d), 15),
    "streaming": Section(_streaming, 60),
    "searches": Section(_searches, 60),
    "ranks": Section(_ranks, 45),
    "sanitizer": Section(lambda c, d: sanitized.sanitize(c.device_id, c.limit_s), 90),
}
