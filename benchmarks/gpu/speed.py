"""What the kernels make of the card: the time of each over its floor, and of whole epochs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.gpu.ceilings import Ceilings
from benchmarks.gpu.data import Shape, logistic
from benchmarks.gpu.measurement import Measurement, seconds_per_call
from benchmarks.gpu.profiled_device import ProfiledDevice
from snapml.data import CompressedMatrix, Dataset
from snapml.kernels import DenseRows, Device
from snapml.kernels.losses import fused_pass
from snapml.kernels.losses.losses import MarginLosses
from snapml.kernels.products.ranked_rows import MOST_HOT, ranked_margins, ranked_products
from snapml.kernels.products.rows import margins
from snapml.kernels.products.transposed import transposed_products
from snapml.problems import Problem
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.dual_ascent.gpu_engine import GpuEngine
from snapml.solvers.newton.curvature import DenseCurvature
from snapml.solvers.rows.device_dataset import DeviceDataset
from snapml.solvers.rows.gpu_primal_engine import GpuPrimalEngine

__all__ = ["time_epochs", "time_kernels"]

_EPOCHS = 3
# None to all that fit: whether a card's own caches do as well as its shared memory.
_HOT_COLUMNS = (0, 2**10, 2**13, MOST_HOT)


@dataclass(frozen=True)
class Work:
    """A call, and what it cannot do without.

    Attributes
    ----------
    call : callable
        To be timed.
    n_bytes : float
        Read or written in order: the rows once for each read that the method is made of.
    gathers, atomics : float
        Accesses to vectors of one number a column, of type `kind`.
    kind : str
        See `Ceilings.floor_s`.
    """

    call: Callable[[], Any]
    n_bytes: float
    gathers: float = 0.0
    atomics: float = 0.0
    kind: str = "float64"


def time_kernels(
    device: Device, shape: Shape, ceilings: Ceilings, seed: int
) -> Iterator[Measurement]:
    """Time what a fit consists of.

    Parameters
    ----------
    device : Device
        Where to run.
    shape : Shape
        Of the data.
    ceilings : Ceilings
        Of this card.
    seed : int
        Of the data.

    Yields
    ------
    Measurement
        Seconds of one call; the reference is its floor.
    """
    problem, dataset = logistic(shape, seed)
    data = DeviceDataset.upload(device, problem, dataset)
    for name, work in _works(device, problem, data).items():
        seconds = seconds_per_call(device, work.call)
        floor_s = ceilings.floor_s(work.n_bytes, work.gathers, work.atomics, work.kind)
        note = f"{work.n_bytes / seconds / 1e12:.2f} TB/s"
        if work.gathers or work.atomics:
            note += f", {(work.gathers + work.atomics) / seconds / 1e9:.0f} G accesses/s"
        yield Measurement("kernels", name, str(shape), seconds, "s", floor_s, None, note)


def time_epochs(
    device: Device, shape: Shape, ceilings: Ceilings, seed: int
) -> Iterator[Measurement]:
    """Time epochs of dual coordinate ascent, as the engine runs them, and kernel by kernel.

    Parameters
    ----------
    device, shape, ceilings, seed
        As for `time_kernels`.

    Yields
    ------
    Measurement
        Wall seconds of an epoch, and of its kernels; the reference is one read of rows and states,
        with a gather and an addition for each entry of sparse rows.
    """
    problem, dataset = logistic(shape, seed)
    entries = dataset.matrix.n_stored if shape.n_entries else 0
    n_bytes = _bytes_of_rows(dataset) + (2 * 4 + 8 + 4 + 4) * shape.n_rows
    for deterministic, kind in ((True, "int64"), (False, "float32")):
        how = "in rounds" if deterministic else "at once"
        profiled = ProfiledDevice(device)
        engine = GpuEngine(problem, dataset, profiled, deterministic=deterministic, seed=seed)
        floor_s = ceilings.floor_s(n_bytes, entries, entries, kind)
        engine.dual_epoch(0)  # compiles, and learns how far rows may step
        device.synchronize()
        profiled.times()
        started_s = time.perf_counter()
        for epoch in range(1, 1 + _EPOCHS):
            engine.dual_epoch(epoch)
        device.synchronize()
        seconds = (time.perf_counter() - started_s) / _EPOCHS
        note = engine.description
        yield Measurement("epochs", f"epoch {how}", str(shape), seconds, "s", floor_s, None, note)
        for name, (count, total_s) in profiled.times().items():
            per_epoch = f"{count / _EPOCHS:.0f} launches an epoch"
            what = f"epoch {how}: {name}"
            yield Measurement("epochs", what, str(shape), total_s / _EPOCHS, "s", note=per_epoch)


def _bytes_of_rows(dataset: Dataset) -> int:
    matrix: Any = dataset.matrix
    values = 0 if matrix.values is None else matrix.values.nbytes
    if isinstance(matrix, CompressedMatrix):
        return int(matrix.indices.nbytes + matrix.indptr.nbytes + values)
    return int(values)


def _bytes(data: DeviceDataset) -> int:
    """Return the bytes that one read of the rows moves."""
    matrix = data.matrix
    if isinstance(matrix, DenseRows):
        return int(matrix.values.nbytes)
    rows = matrix.rows
    values = 0 if rows.values is None else rows.values.nbytes
    return int(rows.indices.nbytes + rows.indptr.nbytes + values)


def _cold_entries(device: Device, data: DeviceDataset, size: int, most_hot: int = MOST_HOT) -> int:
    """Return the entries of columns that shared memory does not hold, at `size` bytes each."""
    matrix: Any = data.matrix
    n_hot = min(most_hot, device.shared_bytes_per_block // size)
    return int(data.n_stored - matrix.counts[:n_hot].sum())


def _works(device: Device, problem: Problem, data: DeviceDataset) -> dict[str, Work]:
    """Return what to time, by name."""
    rng = np.random.default_rng(0)
    matrix = data.matrix
    n_rows, n_cols = matrix.shape
    point = rng.normal(size=(1, n_cols + 1))
    z = device.xp.zeros((1, n_rows), np.float64)
    trial = device.xp.zeros((1, n_rows), np.float64)
    losses = MarginLosses(device, problem.loss.core_name, data.targets, n_rows)
    engine = GpuPrimalEngine(problem, data, device)
    engine.fused_pass(np.zeros((1, n_cols + 1)))
    engine.accept()
    rows, of_a_row = _bytes(data), 8 * n_rows
    ones = device.xp.full((1, n_rows), 1.0, np.float64)  # rows of slope 0 are left out
    is_dense = isinstance(matrix, DenseRows)
    cold = 0 if is_dense else _cold_entries(device, data, 8)
    wide = device.to_device(point)
    works = {
        "margins": Work(lambda: margins(device, matrix, wide, 1.0), rows + of_a_row, gathers=cold),
        "line_point": Work(lambda: losses.line_point(z, trial, 0.5), 2.5 * of_a_row),
        "curvatures": Work(lambda: losses.curvatures(z), 2.5 * of_a_row),
        "X^T s": Work(
            lambda: transposed_products(device, matrix, ones, 1.0),
            rows + of_a_row,
            atomics=cold,
            kind="int64",
        ),
        "fused_pass of the engine": Work(
            lambda: engine.fused_pass(point),
            rows + 1.5 * of_a_row if is_dense else 2 * rows + 5.5 * of_a_row,
            gathers=cold,
            atomics=cold,
            kind="int64",
        ),
        "hessian_product of the engine": Work(
            lambda: engine.hessian_product(point),
            2 * rows + 4.5 * of_a_row,
            gathers=cold,
            atomics=cold,
            kind="int64",
        ),
    }
    if is_dense:
        return works | _dense_works(device, problem, data, engine, point)
    return works | _sparse_works(device, data, point)


def _dense_works(
    device: Device, problem: Problem, data: DeviceDataset, engine: Any, point: np.ndarray
) -> dict[str, Work]:
    matrix: Any = data.matrix
    name, (n_rows, n_cols) = problem.loss.core_name, matrix.shape
    rows, of_a_row = _bytes(data), 8 * n_rows
    z = device.xp.zeros((1, n_rows), np.float64)
    works = {}
    if fused_pass.DensePassShape.fits(device, n_cols, 1, matrix.dtype.itemsize):
        for dtype in (np.float64, np.float32):
            w = device.to_device(point.astype(dtype))
            works[f"dense pass, {np.dtype(dtype)} sums"] = Work(
                lambda w=w: fused_pass.dense_pass(  # type: ignore[misc]
                    device, matrix, name, data.targets, w, 1.0, z
                ),
                rows + 1.5 * of_a_row,
            )
    sample = engine.sample(20 * n_cols)
    works[f"curvature of {sample.n_rows:,} rows"] = Work(
        lambda: DenseCurvature(sample, SerialCommunicator()), 4.0 * sample.n_rows * n_cols
    )
    return works


def _sparse_works(device: Device, data: DeviceDataset, point: np.ndarray) -> dict[str, Work]:
    matrix: Any = data.matrix
    n_rows, n_cols = matrix.shape
    n_bytes = _bytes(data) + 8 * n_rows
    ones = device.xp.full((1, n_rows), 1.0, np.float64)
    out = device.xp.zeros((1, n_cols + 1), np.float64)
    works = {}
    for most_hot in _HOT_COLUMNS:
        how = f"at most {most_hot:,} hot columns"
        for dtype in (np.float64, np.float32):
            w = device.to_device(point.astype(dtype))
            works[f"margins, {np.dtype(dtype)} sums, {how}"] = Work(
                lambda w=w, hot=most_hot: ranked_margins(device, matrix, w, 1.0, most_hot=hot),  # type: ignore[misc]
                n_bytes,
                gathers=_cold_entries(device, data, w.dtype.itemsize, most_hot),
                kind=str(np.dtype(dtype)),
            )
        works[f"X^T s, {how}"] = Work(
            lambda hot=most_hot: ranked_products(device, matrix, ones, out, most_hot=hot),  # type: ignore[misc]
            n_bytes,
            atomics=_cold_entries(device, data, 8, most_hot),
            kind="int64",
        )
    return works
