"""The engines on the host: one kind for rows in memory, one for rows of a store."""

from __future__ import annotations

from snapml.data import ChunkedMatrix, Dataset
from snapml.problems import Problem
from snapml.solvers.cpu_engine import CpuEngine
from snapml.solvers.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.streamed_dual_engine import StreamedDualEngine
from snapml.solvers.streaming_engine import StreamingEngine

__all__ = ["HostPrimalEngine", "dual_engine", "primal_engine"]

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


def dual_engine(
    problem: Problem, dataset: Dataset, settings: Settings, start: Start
) -> CpuEngine | StreamedDualEngine:
    """Return the engine of coordinate ascent for the place where the rows are.

    Parameters
    ----------
    problem : Problem
        Loss and intercept.
    dataset : Dataset
        Rows in memory, or a `ChunkedMatrix`, which is read once.
    settings : Settings
        Threads and seed.
    start : Start
        Dual states to begin from, if it has any.

    Returns
    -------
    CpuEngine or StreamedDualEngine
        Ready for its first epoch.
    """
    is_streamed = isinstance(dataset.matrix, ChunkedMatrix)
    make = StreamedDualEngine if is_streamed else CpuEngine
    return make(
        problem,
        dataset,
        n_threads=settings.n_threads,
        deterministic=settings.deterministic,
        seed=settings.seed,
        duals=None if start.duals is None else start.duals.astype(dataset.labels.dtype),
        offset=start.offset,
    )
