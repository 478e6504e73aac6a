"""What may end a fit before it has met its tolerance: its time, or someone who looks on."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from snapml.solvers.communicator import Communicator
from snapml.solvers.result import FitResult

__all__ = ["UNBOUNDED", "Control", "Interim", "among_outputs"]


@dataclass(frozen=True)
class Interim:
    """A model on the way.

    Attributes
    ----------
    coef : ndarray of shape (n_outputs, n_features)
        w.
    intercept : ndarray of shape (n_outputs,)
        b.
    gap, objective : float
        Certified, NaN where no exact pass was made at this model.
    """

    coef: np.ndarray
    intercept: np.ndarray
    gap: float = math.nan
    objective: float = math.nan

    @staticmethod
    def of_point(
        point: np.ndarray, bias_column: float, gap: float = math.nan, objective: float = math.nan
    ) -> Interim:
        """Return a model from coefficients whose last column is that of the intercept's column."""
        return Interim(point[:, :-1], bias_column * point[:, -1], gap, objective)


@dataclass
class _Ending:
    """Why a fit has ended early; all views of its control know it."""

    reason: str = ""
    by_time: bool = False


class Control:
    """Asked after each pass over the data, by every solver of a fit, whether to go on.

    Shard 0 decides for all: clocks differ, and callbacks are where the caller is.

    Parameters
    ----------
    max_time_s : float, default=inf
        Seconds that the fit may take.
    began_s : float or None, default=None
        When it began, by `time.monotonic`; None is now.
    look : callable or None, default=None
        Gets a function that returns the present model; returns whether the fit should end.
    is_part : bool, default=False
        Whether the fit is part of longer work, which says for all of its fits why they ended.

    Attributes
    ----------
    max_time_s : float
    is_part : bool
        As given.
    is_active : bool
        Whether anything can end the fit.
    """

    def __init__(
        self,
        max_time_s: float = math.inf,
        began_s: float | None = None,
        look: Callable[[Callable[[], Interim]], bool] | None = None,
        is_part: bool = False,
    ) -> None:
        self.max_time_s = max_time_s
        self._began_s = time.monotonic() if began_s is None else began_s
        self._look = look
        self.is_part = is_part
        self.is_active = look is not None or max_time_s < math.inf
        self._change: Callable[[Interim], Interim] | None = None
        self._ending = _Ending()

    @property
    def reason(self) -> str:
        """Why the fit has ended early, the same on all shards; empty where it has not."""
        return self._ending.reason

    @property
    def is_out_of_time(self) -> bool:
        """Whether the fit has ended since its time was over."""
        return self._ending.by_time

    @property
    def left_s(self) -> float:
        """Seconds until the fit is out of time; negative after that."""
        return self.max_time_s - self._elapsed_s()

    def ends(self, communicator: Communicator, model_of: Callable[[], Interim]) -> bool:
        """Return whether the fit should end after this pass; all shards come here together.

        Parameters
        ----------
        communicator : Communicator
            The shards.
        model_of : callable
            Returns the present model; asks no other shard.

        Returns
        -------
        bool
            The same on all shards.
        """
        if not self.is_active:
            return False
        if self.reason:  # another output's fit was ended
            return True
        own = self._asked(model_of) if communicator.rank == 0 else ("", False)
        reason, by_time = communicator.exchange(own)[0]
        if reason:
            self._ending.reason, self._ending.by_time = reason, by_time
        return bool(reason)

    def is_time_over(self, communicator: Communicator) -> bool:
        """Return whether the next answer of `ends` will be yes: to cut a pass's work short."""
        if self.max_time_s == math.inf:
            return False
        return bool(communicator.exchange(self._elapsed_s() >= self.max_time_s)[0])

    def through(self, change: Callable[[Interim], Interim]) -> Control:
        """Return a view for a solver of another problem, whose models mean others of this one.

        Parameters
        ----------
        change : callable
            Returns the model that one of the other problem stands for.

        Returns
        -------
        Control
            Ends together with this one.
        """
        view, outer = copy.copy(self), self._change
        view._change = change if outer is None else lambda model: outer(change(model))
        return view

    def without_look(self) -> Control:
        """Return a view for work inside a pass, which nobody looks at."""
        view = copy.copy(self)
        view._look, view.is_active = None, self.max_time_s < math.inf
        return view

    def _asked(self, model_of: Callable[[], Interim]) -> tuple[str, bool]:
        """Return why the fit should end, and whether time is the reason."""
        change = self._change
        seen = model_of if change is None else lambda: change(model_of())
        if self._look is not None and self._look(seen):
            return f"a callback ended the fit after {self._elapsed_s():.3g} s", False
        elapsed_s = self._elapsed_s()
        if elapsed_s >= self.max_time_s:
            return f"max_time_s={self.max_time_s:g} ended the fit after {elapsed_s:.3g} s", True
        return self._ending.reason, self._ending.by_time

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s


UNBOUNDED = Control()
"""That of a fit which only its tolerance and reads end."""


def among_outputs(done: list[FitResult], n_outputs: int) -> Callable[[Interim], Interim]:
    """Return what makes a model of one output that of all, which are solved in turn.

    Parameters
    ----------
    done : list of FitResult
        Of the outputs before.
    n_outputs : int
        How many there are; those to come are zero.

    Returns
    -------
    callable
        For `Control.through`.
    """
    number = len(done)
    if n_outputs == 1:
        return lambda model: model

    def placed(model: Interim) -> Interim:
        coef = np.zeros((n_outputs, model.coef.shape[1]), model.coef.dtype)
        intercept = np.zeros(n_outputs)
        for k, result in enumerate(done):
            coef[k], intercept[k] = result.coef, result.intercept
        coef[number], intercept[number] = model.coef[0], model.intercept[0]
        return Interim(coef, intercept)

    return placed
