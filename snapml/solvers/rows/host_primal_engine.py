"""The engine of the primal methods on the host: for rows in memory, or for those of a store."""

from __future__ import annotations

from snapml.data import ChunkedMatrix, Dataset
from snapml.problems import Problem
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.rows.streaming_engine import StreamingEngine

__all__ = ["HostPrimalEngine", "primal_engine"]

HostPrimalEngine = CpuPrimalEngine | StreamingEngine


def primal_engine(
    problem: Problem, dataset: Dataset, *, n_threads: int | None = None, seed: int = 0
) -> HostPrimalEngine:
    """Return the engine of primal methods for the place where the rows are.

    Parameters
    ----------
    problem : Problem
        Loss, intercept and penalty.
    dataset : Dataset
        Rows in memory, or a `ChunkedMatrix`.
    n_threads : int or None, default=None
        Threads to use; None means all available.
    seed : int, default=0
        Seed of the samples.

    Returns
    -------
    CpuPrimalEngine or StreamingEngine
        Ready for its first pass.
    """
    if isinstance(dataset.matrix, ChunkedMatrix):
        return StreamingEngine(problem, dataset, n_threads=n_threads, seed=seed)
    return CpuPrimalEngine(problem, dataset, n_threads=n_threads, seed=seed)
