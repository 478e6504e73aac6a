"""What a fit over ranks spends on rows, on sums and on the rest, and the bytes of its sums."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import snapml.solvers.plan.choice as choice
from snapml.distributed import mpi
from snapml.distributed.mpi import MpiCommunicator
from snapml.distributed.mpi import estimators as mpi_estimators

__all__ = ["Spent", "fit"]

# What an engine does with its rows; the rest of a solver works on vectors as long as a gradient.
_ROW_WORK = (
    "fused_pass",
    "hessian_product",
    "curvatures",
    "gradients",
    "weighted_rows",
    "weighted_squares",
    "line_point",
)


@dataclass
class Spent:
    """Seconds of one rank in the solver of one fit, by what they went to, and its bytes."""

    solve_s: float = 0.0
    """Of the clock, in all."""
    solve_cpu_s: float = 0.0
    """Of this rank's threads, in all."""
    rows_s: float = 0.0
    """Of the clock, on rows."""
    rows_cpu_s: float = 0.0
    """Of this rank's threads, on rows."""
    sums_s: float = 0.0
    """Of the clock, in sums; waiting for other ranks included."""
    sums_cpu_s: float = 0.0
    """Of this rank's threads, in sums."""
    small_sums_s: float = 0.0
    """Of the clock, in sums of arrays shorter than a gradient."""
    n_passes: int = 0
    """Fused passes and products with the Hessian."""
    n_vectors: int = 0
    """Sums of arrays as long as a gradient."""
    n_small_sums: int = 0
    """Other sums."""
    n_sent: int = 0
    """Bytes that the communicator says it has sent in sums of arrays."""


def fit(
    name: str, comm: Any, X: Any, y: Any, parameters: dict[str, Any], *, size: int
) -> tuple[Any, Spent]:
    """Fit an estimator over ranks while its solver's engine and its sums are timed.

    Parameters
    ----------
    name : str
        Of the estimator.
    comm : mpi4py.MPI.Intracomm
        The ranks.
    X, y : array
        This rank's rows.
    parameters : dict
        Of the estimator.
    size : int
        Length of a gradient; sums of at least so many numbers count as vectors.

    Returns
    -------
    tuple of (estimator, Spent)
        What was fitted, and what this rank spent.
    """
    spent = Spent()

    is_solving = False

    class TimedCommunicator(MpiCommunicator):
        def allreduce_sum(self, array: Any) -> Any:
            if not is_solving:
                return super().allreduce_sum(array)
            began, cpu, sent = time.perf_counter(), time.process_time(), self.n_sent
            total = super().allreduce_sum(array)
            seconds, is_vector = time.perf_counter() - began, array.size >= size
            spent.sums_s += seconds
            spent.sums_cpu_s += time.process_time() - cpu
            spent.n_sent += self.n_sent - sent
            spent.n_vectors += is_vector
            spent.n_small_sums += not is_vector
            spent.small_sums_s += 0.0 if is_vector else seconds
            return total

    solve = choice.quasi_newton.solve

    def timed_solve(engine: Any, *rest: Any, **more: Any) -> Any:
        nonlocal is_solving
        _time_rows(engine, spent)
        is_solving = True
        began, cpu = time.perf_counter(), time.process_time()
        try:
            return solve(engine, *rest, **more)
        finally:
            is_solving = False
            spent.solve_s += time.perf_counter() - began
            spent.solve_cpu_s += time.process_time() - cpu

    original = mpi_estimators.MpiCommunicator
    mpi_estimators.MpiCommunicator = TimedCommunicator
    choice.quasi_newton.solve = timed_solve
    try:
        model = getattr(mpi, name)(comm=comm, **parameters).fit(X, y)
    finally:
        mpi_estimators.MpiCommunicator = original
        choice.quasi_newton.solve = solve
    return model, spent


def _time_rows(engine: Any, spent: Spent) -> None:
    is_inside = False

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **more: Any) -> Any:
            nonlocal is_inside
            if is_inside:  # one of these may call another
                return work(*arguments, **more)
            is_inside = True
            began, cpu = time.perf_counter(), time.process_time()
            try:
                return work(*arguments, **more)
            finally:
                is_inside = False
                spent.rows_s += time.perf_counter() - began
                spent.rows_cpu_s += time.process_time() - cpu
                spent.n_passes += name in ("fused_pass", "hessian_product")

        return run

    for name in _ROW_WORK:
        setattr(engine, name, timed(name, getattr(engine, name)))
