"""The engine of dual coordinate ascent on the host: for rows in memory, or for those of a store."""

from __future__ import annotations

from snapml.data import ChunkedMatrix, Dataset
from snapml.problems import Problem
from snapml.solvers.dual_ascent.cpu_engine import CpuEngine
from snapml.solvers.dual_ascent.streamed_dual_engine import StreamedDualEngine
from snapml.solvers.fit_settings import Settings, Start

__all__ = ["dual_engine"]


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
