"""What is solved on rows that stream from a store, and how; what is not is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from snapml.data import ChunkedMatrix, Dataset
from snapml.problems import Problem
from snapml.solvers.columns.streamed_columns import StreamedColumns
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import among_outputs
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.result import FitResult, StartModel, overflow_error, stack_outputs
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.working_sets import streamed_descent

__all__ = ["fit", "fit_sequence", "spread_rows"]


def fit(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
) -> FitResult:
    """Solve with an L1 penalty or positive coefficients, one output after the other.

    Parameters
    ----------
    problem : Problem
        What to solve.
    dataset : Dataset
        With a `ChunkedMatrix`; labels and weights are in memory.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Tolerance and most reads of the data.
    settings : Settings
        How.
    start : Start
        Where to begin.

    Returns
    -------
    FitResult
        The model with its certificate.
    """
    if dataset.labels.ndim == 1:
        engine = StreamedColumns(problem, dataset, n_threads=settings.n_threads)
        begin = start.model(problem.intercept_scaling)
        result = streamed_descent.solve(engine, communicator, rule, begin)
        return replace(result, description=f"{result.description}: few reads of a store")
    results: list[FitResult] = []
    for k, one in enumerate(dataset.outputs()):
        begin_one = Start() if start.coef is None else Start(coef=start.coef[k : k + 1])
        view = rule.control.through(among_outputs(results, len(dataset.labels)))
        own = replace(rule, control=view)
        results.append(fit(problem, one, communicator, own, settings, begin_one))
    return stack_outputs(results)


def fit_sequence(
    problems: list[Problem],
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: FitResult | StartModel | None,
) -> list[FitResult]:
    """Solve problems that differ in the penalty on the rows of a store, each from the last's model.

    Parameters
    ----------
    problems : list of Problem
        L1, or positive coefficients.
    dataset : Dataset
        With a `ChunkedMatrix`.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Bounds of each fit.
    settings : Settings
        How.
    start : FitResult, StartModel or None
        Where to begin.

    Returns
    -------
    list of FitResult
        One per problem.
    """
    results = []
    for problem in problems:
        engine = StreamedColumns(problem, dataset, n_threads=settings.n_threads)
        start = streamed_descent.solve(engine, communicator, rule, start)
        if not math.isfinite(start.objective):
            raise overflow_error(engine.dtype)
        results.append(start)
    return results


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
