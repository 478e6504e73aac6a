"""What is solved on rows that stream from a store, and how; what is not is refused."""

from __future__ import annotations

import math
from dataclasses import replace

from snapml.data import ChunkedMatrix, Dataset
from snapml.problems import Problem, Softmax
from snapml.solvers import device_choice, quasi_newton, streamed_descent
from snapml.solvers.communicator import Communicator
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.result import FitResult, StartModel, beside_each_other, overflow_error
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.streamed_columns import StreamedColumns
from snapml.solvers.streaming_engine import StreamingEngine
from snapml.solvers.working_set_descent import check_solver

__all__ = ["fit", "fit_sequence", "is_streamed"]


def is_streamed(dataset: Dataset) -> bool:
    """Return whether the rows come from a store."""
    return isinstance(dataset.matrix, ChunkedMatrix)


def fit(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
) -> FitResult:
    """Solve one problem on the rows of a store.

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
        How; 'auto' is 'pqn'.
    start : Start
        Where to begin.

    Returns
    -------
    FitResult
        The model with its certificate.

    Raises
    ------
    NotImplementedError
        If this version has no way to solve the problem on a store.
    """
    _check_solvable(problem, settings)
    if settings.device_ids:
        return device_choice.fit(problem, dataset, communicator, rule, settings, start)
    if not problem.penalty.is_smooth:
        return _by_columns(problem, dataset, communicator, rule, settings, start)
    engine = StreamingEngine(problem, dataset, n_threads=settings.n_threads, seed=settings.seed)
    result = quasi_newton.solve(engine, communicator, rule, start=start.coef)
    is_only = settings.solver == "auto"
    reason = "few reads of a store" if is_only else "as asked for"
    return replace(result, description=f"{result.description}: {reason}")


def _by_columns(
    problem: Problem,
    dataset: Dataset,
    communicator: Communicator,
    rule: StoppingRule,
    settings: Settings,
    start: Start,
) -> FitResult:
    """Solve with an L1 penalty or positive coefficients, one output after the other."""
    if dataset.labels.ndim == 1:
        engine = StreamedColumns(problem, dataset, n_threads=settings.n_threads)
        begin = start.model(problem.intercept_scaling)
        result = streamed_descent.solve(engine, communicator, rule, begin)
        return replace(result, description=f"{result.description}: few reads of a store")
    results = []
    for k, one in enumerate(dataset.outputs()):
        begin_one = Start() if start.coef is None else Start(coef=start.coef[k : k + 1])
        results.append(_by_columns(problem, one, communicator, rule, settings, begin_one))
    return beside_each_other(results)


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

    Raises
    ------
    NotImplementedError
        If this version has no way to solve them on a store.
    """
    results = []
    for problem in problems:
        _check_solvable(problem, settings)
        engine = StreamedColumns(problem, dataset, n_threads=settings.n_threads)
        start = streamed_descent.solve(engine, communicator, rule, start)
        if not math.isfinite(start.objective):
            raise overflow_error(engine.dtype)
        results.append(start)
    return results


def _check_solvable(problem: Problem, settings: Settings) -> None:
    load = "use ChunkedDataset.load() if the rows fit memory"
    is_smooth = problem.penalty.is_smooth and problem.loss.is_smooth
    if settings.device_ids and not (is_smooth and settings.solver != "sdca"):
        raise NotImplementedError(
            f"device_ids={list(settings.device_ids)!r} on a store with an L1 penalty, positive "
            "coefficients or coordinate ascent (the hinge, or solver='sdca'): this version streams "
            f"those to the CPU only; use device_ids=None, or {load}"
        )
    if not problem.penalty.is_smooth:
        check_solver(settings.solver)
        if isinstance(problem.loss, Softmax):
            raise NotImplementedError(
                "an L1 penalty on the multinomial loss on a store: this version has it with "
                f"multi_class='ovr', or the L2 penalty, out of core; use one of these, or {load}"
            )
    if not problem.loss.is_smooth or settings.solver == "sdca":
        raise NotImplementedError(
            "coordinate ascent on a store (the hinge, or solver='sdca'): this version has smooth "
            f"losses out of core; use loss='squared_hinge' and solver='auto', or {load}"
        )
