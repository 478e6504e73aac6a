"""Every verb of the dual engine, and its fits, against the CPU's in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.gpu.measurement import Measurement
from benchmarks.gpu.parity import make_matrix, random_rows, relative_error, widened
from snapml import _native
from snapml.data import Dataset
from snapml.kernels import Device
from snapml.kernels.descent.coordinate_descent import CoordinateDescent
from snapml.kernels.matrices.device_matrix import DeviceMatrix
from snapml.problems import Hinge, Intercept, Logistic, Loss, Problem, Squared, SquaredHinge
from snapml.solvers.certificate import certify
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.dual_ascent import dual_coordinate_ascent
from snapml.solvers.dual_ascent.cpu_engine import CpuEngine
from snapml.solvers.dual_ascent.gpu_engine import GpuEngine
from snapml.solvers.rows.gpu_matrix import upload_rows
from snapml.solvers.stopping import StoppingRule

__all__ = ["LAYOUTS", "SWEEP_VERBS", "check_dual", "check_order"]

LAYOUTS = (("dense", 28), ("dense", 300), ("sparse", 400), ("int64", 400), ("ones", 400))
KINDS: tuple[tuple[Loss, Intercept], ...] = (
    (Logistic(), Intercept.FREE),
    (Squared(), Intercept.NONE),
    (Hinge(), Intercept.PENALISED),
    (SquaredHinge(), Intercept.FREE),
)
_EPOCHS = 3
_TOL, _ORACLE_TOL, _MOST_EPOCHS = 1e-3, 1e-7, 2000

# Asked of both engines at the same states and the same shared vector. Sums over margins depend on
# the intercept's column too, whose length comes from norms in the type of the entries.
SWEEP_VERBS: dict[str, Callable[[Any], Any]] = {
    "exact_sweep": lambda engine: _joined(engine.exact_sweep(1.0, 1.0)),
    "exact_sweep, scaled": lambda engine: _joined(engine.exact_sweep(0.5, 0.75)),
    "dual_mass": lambda engine: engine.dual_mass(),
    "penalty_value": lambda engine: engine.penalty_value(engine.shared),
    "penalty_conjugate": lambda engine: engine.penalty_conjugate(engine.shared),
    "loss_value": lambda engine: engine.loss_value(0.3),
    "loss_slope": lambda engine: engine.loss_slope(0.3),
}
_OVER_MARGINS = {"loss_value", "loss_slope"}


def check_order(device: Device, seed: int) -> Iterator[Measurement]:
    """Compare the order of the rows with the CPU's, number by number.

    Parameters
    ----------
    device : Device
        Runs the kernel.
    seed : int
        Of the order.

    Yields
    ------
    Measurement
        How many positions differ.
    """
    for n_rows, block_rows in ((1, 16), (45, 16), (1000, 8), (4099, 1)):
        matrix = DeviceMatrix(upload_rows(device, make_matrix(np.ones((n_rows, 1)), "dense")))
        ones = device.xp.zeros(n_rows, np.float64)
        descent = CoordinateDescent(device, matrix, "Logistic", ones, ones, None, 1.0)
        for epoch in (0, 7):
            found = device.to_host(descent.order(seed, epoch, block_rows))
            wrong = float(np.count_nonzero(found != _order(seed, epoch, n_rows, block_rows)))
            case = f"{n_rows} rows in blocks of {block_rows}, epoch {epoch}"
            yield Measurement("dual parity", "order", case, wrong, "", None, wrong == 0)


def check_dual(
    device: Device,
    seed: int,
    n_rows: int = 1000,
    *,
    layouts: Iterable[tuple[str, int]] = LAYOUTS,
    dtypes: Iterable[type] = (np.float32, np.float64),
    has_fits: bool = True,
) -> Iterator[Measurement]:
    """Compare verbs and fits for losses, layouts, types and both schedules.

    Parameters
    ----------
    device : Device
        Runs the kernels.
    seed : int
        Of data and orders.
    n_rows : int, default=1000
        Of the data.
    layouts : iterable of (str, int)
        Which of `LAYOUTS`, or others like them: kind and number of columns.
    dtypes : iterable of type
        Types of the entries.
    has_fits : bool, default=True
        Whether to solve the problems as well.

    Yields
    ------
    Measurement
        Errors beside what is allowed, relative to the largest entry.
    """
    rng = np.random.default_rng(seed)
    for layout, n_cols in layouts:
        X = random_rows(layout, n_rows, n_cols, rng)
        labels = np.sign(X @ rng.normal(size=n_cols) + 0.1 * rng.normal(size=n_rows))
        weights = rng.integers(0, 3, n_rows) / 2
        for dtype in dtypes:
            matrix = make_matrix(X.astype(dtype), layout)
            dataset = Dataset(matrix, labels.astype(dtype), weights.astype(dtype), 1.0)
            for loss, intercept in KINDS:
                problem = Problem(loss, intercept)
                case = f"{layout}, {n_cols} columns, {np.dtype(dtype)}, {loss.core_name}"
                for deterministic in (True, False):
                    how = f"{case}, {'in rounds' if deterministic else 'at once'}"
                    yield from _verbs(device, problem, dataset, deterministic, seed, how)
                if has_fits:
                    yield from _fits(device, problem, dataset, seed, case)


def _verbs(
    device: Device,
    problem: Problem,
    dataset: Dataset,
    deterministic: bool,
    seed: int,
    case: str,
) -> Iterator[Measurement]:
    def measured(name: str, error: float, allowed: float) -> Measurement:
        return Measurement("dual parity", name, case, error, "", allowed, error <= allowed)

    engine = GpuEngine(problem, dataset, device, deterministic=deterministic, seed=seed)
    oracle = CpuEngine(problem, widened(dataset), n_threads=1)
    eps = float(np.finfo(dataset.matrix.dtype).eps)
    yield measured("start", relative_error(engine.duals, oracle.duals), eps)
    bounds = [_dual_objective(engine)]
    for epoch in range(_EPOCHS):
        engine.dual_epoch(epoch)
        bounds.append(_dual_objective(engine))
    if problem.intercept is not Intercept.FREE:  # else the certificate moves the states first
        fall = max(0.0, *-np.diff(bounds)) / abs(bounds[-1])
        yield measured("fall of the dual objective", fall, 100 * eps)
    kept = engine.shared.astype(np.float64)
    engine.set_shared(engine.exact_sweep(1.0, 1.0)[1])
    drift = relative_error(kept, engine.shared)
    # In rounds, every addition is rounded to a unit of 2^-50 of what the vector may reach, and that
    # can be several times its largest entry.
    in_units = _EPOCHS * len(oracle.duals) * 2.0**-48 if deterministic else 0.0
    yield measured("drift of the shared vector", drift, 1e4 * eps + in_units)
    oracle.duals[:] = engine.duals
    oracle.shared[:] = engine.shared
    yield measured("tau", abs(engine.tau - oracle.tau), 100 * eps * max(1.0, oracle.tau))
    for name, verb in SWEEP_VERBS.items():
        allowed = max(1e-10, 100 * eps) if name in _OVER_MARGINS else 1e-10
        yield measured(name, relative_error(verb(engine), verb(oracle)), allowed)


def _fits(
    device: Device, problem: Problem, dataset: Dataset, seed: int, case: str
) -> Iterator[Measurement]:
    """Compare certified fits: the least objective lies between both bounds of both of them."""
    best = _solve(CpuEngine(problem, widened(dataset), n_threads=1), _ORACLE_TOL)
    bits = set()
    for name, deterministic in (("fit", True), ("fit again", True), ("fit, at once", False)):
        engine = GpuEngine(problem, dataset, device, deterministic=deterministic, seed=seed)
        found = _solve(engine, _TOL)
        if deterministic:
            bits.add(found.coef.tobytes())
        rounding = 100 * float(np.finfo(dataset.matrix.dtype).eps) * best.objective
        below = found.objective - found.gap <= best.objective + rounding
        above = best.objective - best.gap <= found.objective + rounding
        is_good = found.has_converged and below and above
        distance = (found.objective - best.objective) / best.objective
        note = f"{found.n_iter} epochs, certified gap {found.gap / found.objective:.1e}"
        yield Measurement("dual parity", name, case, distance, "", _TOL, bool(is_good), note)
    n_fits = float(len(bits))
    yield Measurement(
        "dual parity", "different bits of equal fits", case, n_fits, "", 1, n_fits == 1
    )


def _solve(engine: Any, tol: float) -> Any:
    rule = StoppingRule(tol, _MOST_EPOCHS)
    return dual_coordinate_ascent.solve(engine, SerialCommunicator(), rule)


def _dual_objective(engine: Any) -> float:
    return float(certify(engine, SerialCommunicator()).lower_bound)


def _joined(sweep: tuple[float, np.ndarray]) -> np.ndarray:
    return np.append(sweep[1], sweep[0])


def _order(seed: int, epoch: int, n_rows: int, block_rows: int) -> np.ndarray:
    """Return the order that the core gives, block by block; gaps are -1."""
    order = []
    for block in _native.core_permutation(seed, epoch, -(-n_rows // block_rows)):
        first = block * block_rows
        count = min(block_rows, n_rows - first)
        inside = _native.core_block_order(seed, 2**64 - 1 - epoch, block, count)
        order += [*(first + j for j in inside), *[-1] * (block_rows - count)]
    return np.array(order)
