"""What is solved on a GPU, and how; what is not is refused, and never moved to the CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from snapml.data import Dataset
from snapml.kernels import CudaDevice, Device
from snapml.problems import Problem
from snapml.solvers import quasi_newton
from snapml.solvers.communicator import Communicator
from snapml.solvers.gpu_primal_engine import GpuPrimalEngine
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.threads import resolve_n_threads

__all__ = ["fit", "make_device"]


def make_device(device_id: int) -> Device:
    """Return the device with a number.

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


def fit(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    device_id: int,
    *,
    solver: str,
    n_threads: int | None,
    deterministic: bool,
    seed: int,
    start: np.ndarray | None,
) -> FitResult:
    """Solve one problem on a GPU.

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
    device_id : int
        Number of the device.
    solver : {'auto', 'pqn', 'sdca'}
        'auto' is 'pqn'.
    n_threads : int or None
        Threads of the host for what remains there.
    deterministic : bool
        Whether equal fits give equal bits.
    seed : int
        Of samples.
    start : ndarray of shape (n_outputs, n_features + 1), float64, or None
        Coefficients to start from.

    Returns
    -------
    FitResult
        The model with its certificate.

    Raises
    ------
    NotImplementedError
        If this version has no way to solve the problem on a GPU.
    RuntimeError
        If there is no such device.
    """
    _check_solvable(problem, solver)
    device = make_device(device_id)
    with device.use():
        engine = GpuPrimalEngine(
            problem,
            dataset,
            device,
            n_threads=resolve_n_threads(n_threads, dataset.matrix.n_stored),
            deterministic=deterministic,
            seed=seed,
        )
        result = quasi_newton.solve(engine, communicator, rule, start=start)
    reason = "as asked for" if solver != "auto" else "all that runs on a GPU in this version"
    return replace(result, description=f"{result.description}: {reason}")


def _check_solvable(problem: Problem, solver: str) -> None:
    """Refuse what the quasi-Newton method on one device does not solve."""
    if solver not in ("auto", "pqn"):
        raise NotImplementedError(
            f"solver={solver!r} with device_ids: this version has solver='auto' or 'pqn' on a GPU; "
            "use one of these, or device_ids=None"
        )
    if not problem.penalty.is_smooth:
        raise NotImplementedError(
            "an L1 penalty or positive coefficients with device_ids: this version has the L2 "
            "penalty, or none, on a GPU; use that, or device_ids=None"
        )
    if not problem.loss.is_smooth:
        raise NotImplementedError(
            f"the {problem.loss.core_name.lower()} loss with device_ids: this version has smooth "
            "losses on a GPU; use loss='squared_hinge', or device_ids=None"
        )
