"""What is solved on rows that stream from a store, and how; what is not is refused."""

from __future__ import annotations

from dataclasses import replace

from snapml.data import ChunkedMatrix, Dataset
from snapml.problems import Problem
from snapml.solvers import device_choice, quasi_newton
from snapml.solvers.communicator import Communicator
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.streaming_engine import StreamingEngine

__all__ = ["fit", "is_streamed"]


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
    engine = StreamingEngine(problem, dataset, n_threads=settings.n_threads, seed=settings.seed)
    result = quasi_newton.solve(engine, communicator, rule, start=start.coef)
    is_only = settings.solver == "auto"
    reason = "few reads of a store" if is_only else "as asked for"
    return replace(result, description=f"{result.description}: {reason}")


def _check_solvable(problem: Problem, settings: Settings) -> None:
    load = "use ChunkedDataset.load() if the rows fit memory"
    if not problem.penalty.is_smooth:
        raise NotImplementedError(
            "an L1 penalty or positive coefficients on a store: this version has the L2 penalty, "
            f"or none, out of core; use that, or {load}"
        )
    if not problem.loss.is_smooth or settings.solver == "sdca":
        raise NotImplementedError(
            "coordinate ascent on a store (the hinge, or solver='sdca'): this version has smooth "
            f"losses out of core; use loss='squared_hinge' and solver='auto', or {load}"
        )
