"""What is solved on rows that stream from a store; what is not is refused."""

from __future__ import annotations

import numpy as np

from snapml.data import ChunkedMatrix, Dataset
from snapml.problems import Problem
from snapml.solvers.fit_settings import Settings

__all__ = ["check_solvable", "is_streamed", "spread_rows"]


def is_streamed(dataset: Dataset) -> bool:
    """Return whether the rows come from a store."""
    return isinstance(dataset.matrix, ChunkedMatrix)


def check_solvable(problem: Problem, settings: Settings) -> None:
    """Refuse what this version cannot solve on a store.

    Parameters
    ----------
    problem : Problem
        What to solve.
    settings : Settings
        How.

    Raises
    ------
    NotImplementedError
        With what would work instead.
    """
    load = "use ChunkedDataset.load() if the rows fit memory"
    if not problem.penalty.is_smooth:
        raise NotImplementedError(
            "an L1 penalty or positive coefficients on a store: this version has the L2 penalty, "
            f"or none, out of core; use that, or {load}"
        )
    if settings.device_ids:
        raise NotImplementedError(
            f"device_ids={list(settings.device_ids)!r} on a store: this version streams to the CPU "
            f"only; use device_ids=None, or {load}"
        )


def spread_rows(matrix: ChunkedMatrix, n_rows: int, n_chunks: int) -> np.ndarray:
    """Return row numbers spread over a few chunks: others need not be read for them.

    Parameters
    ----------
    matrix : ChunkedMatrix
        The rows.
    n_rows, n_chunks : int
        About how many of each.

    Returns
    -------
    ndarray of int64
        Increasing.
    """
    chosen = np.unique(np.linspace(0, matrix.n_chunks - 1, n_chunks).astype(np.int64))
    parts = []
    for number in chosen.tolist():
        part = matrix.rows_of(number)
        step = max(1, (part.stop - part.start) * len(chosen) // n_rows)
        parts.append(np.arange(part.start, part.stop, step))
    return np.concatenate(parts)
