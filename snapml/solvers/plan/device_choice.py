"""What is solved on a GPU, and how; what is not is refused, and never moved to the CPU."""

from __future__ import annotations

import contextlib
import functools
import traceback
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from snapml.data import Dataset
from snapml.kernels import CudaDevice, Device
from snapml.kernels.device import cuda_device
from snapml.problems import Problem
from snapml.solvers.columns.gpu_columns import GpuColumns
from snapml.solvers.communicator import Communicator
from snapml.solvers.dual_ascent import dual_coordinate_ascent
from snapml.solvers.dual_ascent.gpu_engine import GpuEngine
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.newton import quasi_newton, smoothed_hinge
from snapml.solvers.plan.device_room import (
    check_limit,
    check_room,
    column_bytes,
    dual_bytes,
    primal_bytes,
    room_for_rows,
)
from snapml.solvers.plan.support import is_by_ascent, is_cornered, is_streamed
from snapml.solvers.plan.thread_shards import dealt_rows, row_shards, rows_of, solve_together
from snapml.solvers.result import FitResult, StartModel
from snapml.solvers.rows.gpu_primal_engine import GpuPrimalEngine
from snapml.solvers.rows.streamed_dataset import StreamedDataset, least_room
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.threads import resolve_n_threads
from snapml.solvers.working_sets import working_set_descent

__all__ = [
    "clean_errors",
    "fit",
    "fit_sequence",
    "forget_locals",
    "is_joint",
    "make_device",
    "visible_devices",
]


@functools.cache
def make_device(device_id: int) -> Device:
    """Return the device with a number, the same one each time: it keeps its kernels loaded.

    Parameters
    ----------
    device_id : int
        As CUDA counts the visible devices.

    Returns
    -------
    Device
        Ready for launches.

    Raises
    ------
    RuntimeError
        If CuPy is not installed, or no such device is visible.
    """
    return CudaDevice(device_id)


def visible_devices() -> list[str]:
    """Return which devices this process sees, in the order of their numbers.

    Returns
    -------
    list of str
        The `Device.uuid` of each.

    Raises
    ------
    RuntimeError
        If CuPy is not installed, or the driver fails.
    """
    return cuda_device.visible_devices()


def is_joint(problem: Problem, dataset: Dataset, settings: Settings) -> bool:
    """Return whether several outputs are solved together: smooth losses by quasi-Newton steps."""
    return problem.loss.is_smooth and _is_quasi_newton(problem, dataset, settings)


def _is_quasi_newton(problem: Problem, dataset: Dataset, settings: Settings) -> bool:
    """Return whether quasi-Newton steps are made, of a loss itself or of what it is smoothed to."""
    return problem.penalty.is_smooth and not is_by_ascent(problem, dataset, settings)


def fit(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
) -> FitResult:
    """Solve one problem on one GPU or several.

    Parameters
    ----------
    problem : Problem
        What to solve.
    dataset : Dataset
        Rows, labels and weights, on the host.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Tolerance and most reads of the data.
    settings : Settings
        Which devices and solver, and how; 'auto' is 'pqn', and 'sdca' where `is_by_ascent` says
        so.
    start : Start
        Where to begin.

    Returns
    -------
    FitResult
        The model with its certificate.

    Raises
    ------
    NotImplementedError
        If the devices differ.
    RuntimeError
        If there is no such device.
    MemoryError
        If the rows do not fit.
    """
    devices = [make_device(device_id) for device_id in settings.device_ids]
    try:
        result = _fit_on_devices(devices, problem, dataset, communicator, rule, settings, start)
    except BaseException as error:
        _leave_nothing(devices, error)
        raise
    reason = _reason(problem, dataset, settings)
    return replace(result, description=f"{result.description}: {reason}")


def _reason(problem: Problem, dataset: Dataset, settings: Settings) -> str:
    """Return why this solver ran."""
    if settings.solver != "auto":
        return "as asked for"
    if problem.loss.is_smooth or is_cornered(problem) or is_streamed(dataset):
        return "all that solves this on a GPU in this version"
    if is_by_ascent(problem, dataset, settings):
        return "products with such rows are many there"
    return "reads of dense rows are quick there, and epochs are not"


def fit_sequence(
    problems: list[Problem],
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: FitResult | StartModel | None,
) -> list[FitResult]:
    """Solve problems that differ in the penalty on one GPU, each from the last one's model.

    Parameters
    ----------
    problems : list of Problem
        With L1 penalties, or positive coefficients.
    dataset : Dataset
        Rows, labels and weights, on the host; copied once.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Bounds of each fit.
    settings : Settings
        Which device.
    start : FitResult, StartModel or None
        Model to start from.

    Returns
    -------
    list of FitResult
        One per problem.

    Raises
    ------
    NotImplementedError, RuntimeError, MemoryError
        As of `fit`.
    """
    check_limit(dataset, 1, settings)
    device = make_device(settings.device_ids[0])
    check_room([device], [column_bytes(dataset)])
    with clean_errors(device):
        return _descend(problems, dataset, device, settings, communicator, rule, start)


def _fit_on_devices(
    devices: list[Device],
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
) -> FitResult:
    count = len(devices)
    is_quasi_newton = _is_quasi_newton(problem, dataset, settings)
    room = None
    if not problem.penalty.is_smooth:
        check_limit(dataset, 1, settings)
        needed = column_bytes(dataset)
    elif is_by_ascent(problem, dataset, settings):
        check_limit(dataset, count, settings)
        needed = dual_bytes(dataset, count)
    else:
        needed = primal_bytes(devices[0], problem, dataset, count)
        rest = primal_bytes(devices[0], problem, dataset, count, streams=True)
        room = room_for_rows(devices, dataset, needed, rest, settings)
        needed = needed if room is None else rest + least_room()
    check_room(devices, [needed] * min(count, dataset.matrix.shape[0]))
    if is_quasi_newton:
        _check_alike(devices, communicator)
    ranks = communicator.with_device(devices[0])
    if max(ranks.exchange(count)) == 1:
        result = _solve(problem, dataset, devices[0], settings, rule, start, room, ranks)
    else:
        args = (problem, dataset, devices, settings, rule, start, room, ranks)
        result = _solve_together(*args)
    if ranks.size == 1:
        return result
    return replace(result, description=f"{result.description}, {ranks.description}")


def _solve_together(
    problem: Problem,
    dataset: Dataset,
    devices: list[Device],
    settings: Settings,
    rule: StoppingRule,
    start: Start,
    room: int | None,
    ranks: Communicator,
) -> FitResult:
    """Solve on several devices of this process, together with those of others."""
    if is_by_ascent(problem, dataset, settings):
        return _ascend_together(problem, dataset, devices, settings, rule, start, ranks)
    shards = row_shards(dataset, len(devices))
    starts = _starts_of(shards, start)
    solves = [
        partial(_solve, problem, shard, device, settings, rule, begin, room)
        for shard, begin, device in zip(shards, starts, devices, strict=False)
    ]
    results = solve_together(solves, devices, ranks)
    whole = _described(results, devices)
    own = [result.duals for result in results if result.duals is not None]
    return replace(whole, duals=np.concatenate(own)) if own else whole


def _starts_of(shards: list[Dataset], start: Start) -> list[Start]:
    """Return where each of neighbouring shards begins: with its rows' dual variables."""
    if start.duals is None:
        return [start] * len(shards)
    ends = np.cumsum([shard.matrix.shape[0] for shard in shards])[:-1]
    return [replace(start, duals=own) for own in np.split(start.duals, ends)]


def _ascend_together(
    problem: Problem,
    dataset: Dataset,
    devices: list[Device],
    settings: Settings,
    rule: StoppingRule,
    start: Start,
    ranks: Communicator,
) -> FitResult:
    """Run coordinate ascent on shards of dealt rows; their states come back in the rows' order."""
    shards = dealt_rows(dataset, len(devices))

    def solve(place: int, communicator: Communicator) -> FitResult:
        rows = shards[place]
        begin = start if start.duals is None else replace(start, duals=start.duals[rows])
        shard = rows_of(dataset, rows)
        return _solve(problem, shard, devices[place], settings, rule, begin, None, communicator)

    solves = [partial(solve, place) for place in range(len(shards))]
    results = solve_together(solves, others=ranks)
    duals = np.empty(dataset.matrix.shape[0], dataset.labels.dtype)
    for rows, result in zip(shards, results, strict=True):
        duals[rows] = result.duals
    return replace(_described(results, devices), duals=duals)


def _described(results: list[FitResult], devices: list[Device]) -> FitResult:
    """Return the first of the shards' results, which all have one model; it names all devices."""
    names = ", ".join(device.description for device in devices[1 : len(results)])
    description = f"{results[0].description}, {names}" if names else results[0].description
    return replace(results[0], description=description)


def _solve(
    problem: Problem,
    dataset: Dataset,
    device: Device,
    settings: Settings,
    rule: StoppingRule,
    start: Start,
    room: int | None,
    communicator: Communicator,
) -> FitResult:
    """Solve on one device, whose errors say what to do about them.

    Rows stream there where `room` is what they may take of it.
    """
    with _explained(device):
        return _solve_on_device(problem, dataset, device, settings, rule, start, room, communicator)


def _solve_on_device(
    problem: Problem,
    dataset: Dataset,
    device: Device,
    settings: Settings,
    rule: StoppingRule,
    start: Start,
    room: int | None,
    communicator: Communicator,
) -> FitResult:
    if not problem.penalty.is_smooth:
        begin = start.model(problem.intercept_scaling)
        return _descend([problem], dataset, device, settings, communicator, rule, begin)[0]
    if is_by_ascent(problem, dataset, settings):
        dual_engine = GpuEngine(
            problem,
            dataset,
            device,
            deterministic=settings.deterministic,
            seed=settings.seed,
            duals=None if start.duals is None else start.duals.astype(dataset.labels.dtype),
            offset=start.offset,
        )
        with device.use():
            return dual_coordinate_ascent.solve(dual_engine, communicator, rule)
    with device.use():
        engine = GpuPrimalEngine(
            problem,
            dataset if room is None else StreamedDataset(device, problem, dataset, room),
            device,
            n_threads=resolve_n_threads(settings.n_threads, dataset.matrix.n_stored),
            seed=settings.seed,
        )
        if not problem.loss.is_smooth:
            return smoothed_hinge.solve(
                engine, communicator, rule, start=start.coef, centre=start.duals
            )
        return quasi_newton.solve(engine, communicator, rule, start=start.coef)


def _check_alike(devices: list[Device], communicator: Communicator) -> None:
    """Refuse devices on which equal arithmetic may give other bits: their shards would part."""
    own = [(f"{device.description}: {device.model}", device.model) for device in devices]
    found = communicator.exchange(own)
    if len({model for names in found for _, model in names}) == 1:
        return
    ranks = [", ".join(name for name, _ in names) for names in found]
    names = "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(ranks))
    raise NotImplementedError(
        f"device_ids: expected devices of one model, got {ranks[0] if len(ranks) == 1 else names}"
    )


@contextlib.contextmanager
def clean_errors(device: Device) -> Iterator[None]:
    """Let errors of work on a device leave nothing there, and say what to do about them.

    Parameters
    ----------
    device : Device
        Where the work inside ``with`` is done.
    """
    try:
        with _explained(device):
            yield
    except BaseException as error:
        _leave_nothing([device], error)
        raise


@contextlib.contextmanager
def _explained(device: Device) -> Iterator[None]:
    """Let the device's errors say what to do about them."""
    try:
        yield
    except Exception as error:
        explained = device.explained(error)
        if explained is None:
            raise
        raise explained from error


def _leave_nothing(devices: list[Device], error: BaseException) -> None:
    """Free what an error keeps alive, and after a lack of memory what the pools hold unused.

    Whoever keeps the error, as an interactive shell does, keeps the frames that it passed, and with
    them the arrays that these call their own.
    """
    forget_locals(error)
    if isinstance(error, MemoryError):
        for device in devices:
            device.free_unused()


def _descend(
    problems: list[Problem],
    dataset: Dataset,
    device: Device,
    settings: Settings,
    communicator: Communicator,
    rule: StoppingRule,
    start: FitResult | StartModel | None,
) -> list[FitResult]:
    """Run working-set descent on problems that differ in the penalty."""
    with device.use():
        engine = GpuColumns(problems[0], dataset, device, seed=settings.seed)
        return working_set_descent.solve_sequence(engine, problems, communicator, rule, start)


def forget_locals(error: BaseException) -> None:
    """Clear the local variables of all frames that an error and its causes have passed.

    Parameters
    ----------
    error : BaseException
        What was raised.

    Notes
    -----
    What a nested function has of the function around it stays: those that a fit on a device runs
    must not close over what owns arrays there.
    """
    left, seen = [error], set()
    while left:
        one = left.pop()
        seen.add(id(one))
        traceback.clear_frames(one.__traceback__)
        causes = (one.__cause__, one.__context__)
        left += [cause for cause in causes if cause is not None and id(cause) not in seen]
