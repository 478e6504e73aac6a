"""Seconds until a logistic regression is within 1e-3 and 1e-6 of the least objective."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.gpu.data import Shape, logistic
from benchmarks.gpu.measurement import Measurement, Stopwatch
from benchmarks.gpu.peers import Path, peers_of
from benchmarks.gpu.profiled_device import ProfiledDevice
from snapml.data import Dataset
from snapml.kernels import Device
from snapml.problems import Problem
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton import quasi_newton
from snapml.solvers.result import FitResult
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.rows.device_dataset import DeviceDataset
from snapml.solvers.rows.gpu_primal_engine import GpuPrimalEngine
from snapml.solvers.stopping import StoppingRule

__all__ = ["compare_fits"]

_MOST_READS = 1000
_REPEATS = 3
_LEAST_TOL = 1e-9
# Points of a peer's path that are judged, evenly among all of them.
_MOST_JUDGED = 120


@dataclass(frozen=True)
class _Judge:
    """Objectives in float64, by the GPU's engine; `distance` is relative to the least one."""

    engine: Any
    problem: Problem
    least: float

    def objective(self, coef: np.ndarray) -> float:
        """Return P at a point, the intercept last."""
        return _objective(self.engine, self.problem, coef)

    def distance(self, coef: np.ndarray) -> float:
        """Return how far above the least objective a point is."""
        return (self.objective(coef) - self.least) / self.least


def compare_fits(
    device: Device, shape: Shape, tols: Sequence[float], seed: int, limit_s: float = 8.0
) -> Iterator[Measurement]:
    """Fit one problem by everything that runs here.

    Parameters
    ----------
    device : Device
        For our GPU engine.
    shape : Shape
        Of the data, float32.
    tols : sequence of float
        Distances from the least objective, relative.
    seed : int
        Of the data.
    limit_s : float, default=8.0
        Most seconds of a peer's fit.

    Yields
    ------
    Measurement
        Seconds, infinite where a distance was not reached. Ours are until it is certified, the
        peers' until an evaluated point has it; the reference is our fit with resident data. The
        objective of every fit is judged by the same engine in float64, and that by the CPU's.
    """
    problem, dataset = logistic(shape, seed)
    data = DeviceDataset.upload(device, problem, dataset)
    case = str(shape)
    engine = GpuPrimalEngine(problem, data, device)
    best = _solve(engine, _LEAST_TOL)
    judge = _Judge(engine, problem, best.objective)
    yield _judged(judge, CpuPrimalEngine(problem, dataset), best, case)
    resident_s: dict[float, float] = {}
    for tol in tols:
        seconds, events_s, result = _timed(
            lambda tol=tol: _solve(GpuPrimalEngine(problem, data, device), tol),  # type: ignore[misc]
            device,
        )
        resident_s[tol] = seconds
        name = f"snapml, GPU, data resident, {tol:g}"
        note = f"{events_s:.3g} s between CUDA events, {result.n_iter} reads"
        yield _ours(name, case, seconds, seconds, judge, result, tol, note)
        yield from _profile(device, problem, data, tol, case)
    yield from _from_the_host(device, problem, dataset, tols, resident_s, judge, case)
    for name, peer in peers_of(dataset).items():
        try:
            peer(0.0)  # one evaluation, which may start libraries
            peer_s = _reached(peer(limit_s), judge, tols)
        except Exception as error:  # another library's: the others are still of interest
            note = f"{type(error).__name__}: {error}"
            yield Measurement("fits", name, case, math.nan, "s", note=note)
            continue
        for tol in tols:
            passed_s, note = peer_s[tol]
            what = f"{name}, {tol:g}"
            yield Measurement("fits", what, case, passed_s, "s", resident_s[tol], note=note)


def _from_the_host(
    device: Device,
    problem: Problem,
    dataset: Dataset,
    tols: Sequence[float],
    resident_s: dict[float, float],
    judge: _Judge,
    case: str,
) -> Iterator[Measurement]:
    """Time what begins with data of the host: all of the GPU's fit, and the CPU's."""
    engines: dict[str, tuple[Callable[[], Any], int]] = {
        "snapml, GPU, from the host": (lambda: GpuPrimalEngine(problem, dataset, device), _REPEATS),
        "snapml, CPU": (lambda: CpuPrimalEngine(problem, dataset), 1),
    }
    for name, (make, repeats) in engines.items():
        for tol in tols:
            seconds, _, result = _timed(
                lambda make=make, tol=tol: _solve(make(), tol),  # type: ignore[misc]
                device,
                repeats,
            )
            note = f"{result.n_iter} reads"
            yield _ours(
                f"{name}, {tol:g}", case, seconds, resident_s[tol], judge, result, tol, note
            )


def _judged(judge: _Judge, oracle: CpuPrimalEngine, best: FitResult, case: str) -> Measurement:
    """Compare the judge with the CPU's engine at the best point."""
    point = best.point(oracle.bias_column)
    exact = _objective(oracle, judge.problem, point)
    error = abs(judge.objective(point) - exact) / exact
    note = f"least objective {exact:.10g}, certified to {best.gap / best.objective:.1e}"
    return Measurement("fits", "judge beside the CPU", case, error, "", 1e-9, error <= 1e-9, note)


def _ours(
    name: str,
    case: str,
    seconds: float,
    reference: float,
    judge: _Judge,
    result: FitResult,
    tol: float,
    note: str,
) -> Measurement:
    distance = judge.distance(result.point(judge.engine.bias_column))
    is_good = result.has_converged and distance <= tol * (1 + 1e-6) + 1e-9
    whole = f"{note}; {distance:.1e} above the least objective"
    return Measurement("fits", name, case, seconds, "s", reference, bool(is_good), whole)


def _profile(
    device: Device, problem: Problem, data: DeviceDataset, tol: float, case: str
) -> Iterator[Measurement]:
    """Say how much of a fit are our kernels, and which."""
    profiled = ProfiledDevice(device)
    _solve(GpuPrimalEngine(problem, data, profiled), tol)
    times = profiled.times()
    total_s = sum(seconds for _, seconds in times.values())
    listed = ", ".join(f"{name} {count} x {1e3 * seconds / count:.3g} ms"
                       for name, (count, seconds) in list(times.items())[:5])  # fmt: skip
    yield Measurement("fits", f"kernels of the fit, {tol:g}", case, total_s, "s", note=listed)


def _reached(path: Path, judge: _Judge, tols: Sequence[float]) -> dict[float, tuple[float, str]]:
    """Return when a path first came within each tolerance."""
    step = max(1, -(-len(path.points) // _MOST_JUDGED))
    points = path.points[::step] + path.points[-1:]
    distances = [judge.distance(point[None].astype(np.float64)) for _, point in points]
    reached = {}
    for tol in tols:
        times = [at_s for (at_s, _), distance in zip(points, distances, strict=True)
                 if distance <= tol]  # fmt: skip
        note = f"{len(path.points)} evaluations in {path.points[-1][0]:.3g} s, "
        note += f"the best {min(distances):.1e} above the least objective"
        reached[tol] = (min(times, default=math.inf), note)
    return reached


def _objective(engine: Any, problem: Problem, coef: np.ndarray) -> float:
    weights = coef[:, :-1]
    return float(engine.fused_pass(coef)[0]) + 0.5 * problem.penalty.l2 * float(
        np.vdot(weights, weights)
    )


def _timed(
    fit: Callable[[], FitResult], device: Device, repeats: int = _REPEATS
) -> tuple[float, float, FitResult]:
    """Return wall seconds, seconds between CUDA events, and the model: the fastest of some fits."""
    watch, runs = Stopwatch(device), []
    for _ in range(repeats):
        started_s, first = time.perf_counter(), watch.mark()
        result = fit()
        last = watch.mark()
        events_s = watch.between(first, last)
        runs.append((time.perf_counter() - started_s, events_s))
    wall_s, events_s = min(runs)
    return wall_s, events_s, result


def _solve(engine: Any, tol: float) -> FitResult:
    rule = StoppingRule(tol, _MOST_READS)
    return quasi_newton.solve(engine, SerialCommunicator(), rule)
