"""Who looks on while a fit runs: keeps its state for a restart, measures what its parts take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from snapml.data import Dataset
from snapml.solvers.communicator import Communicator
from snapml.solvers.result import FitResult

__all__ = ["SILENT", "Observer", "RowStates", "Stage"]

_Decision = TypeVar("_Decision")


@dataclass(frozen=True)
class RowStates:
    """Part of a solver's state that has one number a row, of this shard's rows.

    Attributes
    ----------
    values : ndarray of shape (n_rows,)
        In the order of the rows.
    """

    values: np.ndarray


class Stage:
    """One run of a solver; this one keeps nothing.

    States are dicts of None, numbers, text, arrays of the host and lists of these, the same on all
    shards but for `RowStates`.
    """

    result: FitResult | None = None
    """What the run has ended with, where it had ended before a restart; without dual states."""

    state: Mapping[str, Any] | None = None
    """Where the run goes on after a restart; None begins."""

    def offer(self, communicator: Communicator, state_of: Callable[[], dict[str, Any]]) -> None:
        """Show the state between two passes over the data; it is asked for only where it is kept.

        All shards come here at the same passes. An observer may end the fit here, on all of them.
        """

    def keep(self, state: dict[str, Any]) -> None:
        """Show the state between two runs of solvers inside this one."""

    def finish(self, result: FitResult) -> FitResult:
        """Return the result of the run, which has ended."""
        return result


class Observer:
    """Looks on while a fit runs; this one does nothing."""

    def recognise(self, dataset: Dataset, communicator: Communicator) -> None:
        """See the data of a problem, before its solver is chosen."""

    def decide(self, choose: Callable[[], _Decision]) -> _Decision:
        """Return a choice: the one before a restart, where there was one."""
        return choose()

    def stage(self, solver: str) -> Stage:
        """Return a stage for a run of a solver that begins.

        Parameters
        ----------
        solver : str
            Its name, and the size of what it keeps: states of others do not fit.
        """
        return Stage()

    def phase(self, name: str) -> AbstractContextManager[Any]:
        """Return a context whose time counts as that of a phase."""
        return nullcontext()


SILENT = Observer()
