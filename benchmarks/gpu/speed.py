"""What the card can stream, gather and add, and what the kernels make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.gpu.data import Shape, logistic
from benchmarks.gpu.measurement import Measurement, seconds_per_call
from snapml.data import Dataset
from snapml.kernels import DenseRows, Device, fused_pass
from snapml.kernels.losses import MarginLosses
from snapml.kernels.rows import margins
from snapml.kernels.transposed import transposed_products
from snapml.problems import Problem
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.curvature import DenseCurvature
from snapml.solvers.device_dataset import DeviceDataset
from snapml.solvers.gpu_engine import GpuEngine
from snapml.solvers.gpu_primal_engine import GpuPrimalEngine

__all__ = ["measure_ceilings", "time_kernels"]


def measure_ceilings(device: Device, n: int = 2**27) -> Iterator[Measurement]:
    """Measure copy bandwidth, random gathers and random float atomics.

    Parameters
    ----------
    device : Device
        To be measured.
    n : int, default=2**27
        Numbers that are moved; larger than any cache.

    Yields
    ------
    Measurement
        ``copy`` in bytes a second, ``gather`` and ``atomic`` in accesses a second.
    """
    xp = device.xp
    source = xp.zeros(n, np.float32)
    seconds = seconds_per_call(device, source.copy)
    yield Measurement("ceilings", "copy", f"{4 * n:,} bytes", 8 * n / seconds, "B/s")
    rng = np.random.default_rng(0)
    n_columns, n_accesses = min(2**20, n), n // 8
    where = device.to_device(rng.integers(0, n_columns, n_accesses))
    vector = xp.zeros(n_columns, np.float64)
    note = "float64, 64-bit indices, into 8 MB"
    seconds = seconds_per_call(device, lambda: xp.take(vector, where))
    case = f"{n_accesses:,} of {n_columns:,}"
    yield Measurement("ceilings", "gather", case, n_accesses / seconds, "1/s", note=note)
    ones = xp.zeros(n_accesses, np.float64)
    seconds = seconds_per_call(device, lambda: xp.add.at(vector, where, ones))
    yield Measurement("ceilings", "atomic", case, n_accesses / seconds, "1/s", note=note)


def time_kernels(
    device: Device, shape: Shape, ceilings: Mapping[str, float], seed: int
) -> Iterator[Measurement]:
    """Time what a fit consists of, beside the time to read the rows once.

    Parameters
    ----------
    device : Device
        Where to run.
    shape : Shape
        Of the data.
    ceilings : mapping of str to float
        What `measure_ceilings` found.
    seed : int
        Of the data.

    Yields
    ------
    Measurement
        Seconds of one call; the reference is the bytes of the rows over the copy bandwidth.
    """
    problem, dataset = logistic(shape, seed)
    data = DeviceDataset.upload(device, problem, dataset)
    floor_s = _bytes(data) / ceilings["copy"]
    for name, call in _calls(device, problem, dataset, data).items():
        seconds = seconds_per_call(device, call)
        yield Measurement("kernels", name, str(shape), seconds, "s", floor_s)


def _bytes(data: DeviceDataset) -> int:
    """Return the bytes that one read of the rows moves."""
    matrix = data.matrix
    if isinstance(matrix, DenseRows):
        return int(matrix.values.nbytes)
    values = 0 if matrix.values is None else matrix.values.nbytes
    return int(matrix.indices.nbytes + matrix.indptr.nbytes + values)


def _calls(
    device: Device, problem: Problem, dataset: Dataset, data: DeviceDataset
) -> dict[str, Callable[[], Any]]:
    """Return what to time, by name."""
    rng = np.random.default_rng(0)
    name, matrix = problem.loss.core_name, data.matrix
    n_rows, n_cols = matrix.shape
    point = rng.normal(size=(1, n_cols + 1))
    wide = device.to_device(point)
    narrow = device.to_device(point.astype(np.float32))
    z = device.xp.zeros((1, n_rows), np.float64)
    trial = device.xp.zeros((1, n_rows), np.float64)
    losses = MarginLosses(device, name, data.targets, n_rows)
    engine = GpuPrimalEngine(problem, data, device)
    engine.fused_pass(np.zeros((1, n_cols + 1)))
    engine.accept()
    calls: dict[str, Callable[[], Any]] = {
        "margins": lambda: margins(device, matrix, wide, 1.0),
        "line_point": lambda: losses.line_point(z, trial, 0.5),
        "curvatures": lambda: losses.curvatures(z),
        "fused_pass of the engine": lambda: engine.fused_pass(point),
        "hessian_product of the engine": lambda: engine.hessian_product(point),
    }
    for name_of_schedule, is_ordered in (("in rounds", True), ("at once", False)):
        dual = GpuEngine(problem, dataset, device, deterministic=is_ordered)
        calls[f"epoch {name_of_schedule}"] = lambda dual=dual: dual.dual_epoch(0)
    passes = {"float64": wide, "float32": narrow}
    if isinstance(matrix, DenseRows):
        if fused_pass.DensePassShape.fits(device, matrix, 1):
            for sums, w in passes.items():
                calls[f"dense pass, {sums} sums"] = lambda w=w: fused_pass.dense_pass(
                    device, matrix, name, data.targets, w, 1.0, z
                )
        calls["X^T s"] = lambda: transposed_products(device, matrix, z, 1.0)
        sample = engine.sample(20 * n_cols)
        calls[f"curvature of {sample.n_rows:,} rows"] = lambda: DenseCurvature(
            sample, SerialCommunicator()
        )
        return calls
    for kind, columns in (("ordered", data.columns), ("atomic", None)):
        for sums, w in passes.items():
            calls[f"sparse pass, {kind}, {sums} sums"] = lambda w=w, columns=columns: (
                fused_pass.sparse_pass(
                    device, matrix, name, data.targets, w, 1.0, z, columns=columns
                )
            )
    return calls
