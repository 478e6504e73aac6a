"""When to stop, and what is remembered on the way."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from snapml.problems import Problem
from snapml.solvers.communicator import Communicator
from snapml.solvers.control import UNBOUNDED, Control, Interim
from snapml.solvers.observer import SILENT, Observer, Stage
from snapml.solvers.result import FitResult

__all__ = ["Limits", "Progress", "StoppingRule", "history_of", "in_one_call"]

_logger = logging.getLogger("snapml")

# The first epochs' gaps tell little about the later ones.
_FIRST_JUDGED = 4


@dataclass(frozen=True)
class StoppingRule:
    """Bounds of one fit.

    Attributes
    ----------
    tol : float
        Stop once the certified gap is at most this share of the objective.
    max_iter : int
        Most reads of the data.
    verbose : int
        Log one line every `verbose` epochs; 0 is silent.
    resolution : float
        Relative gap below which the data's number type may not let it shrink any further: there
        a certified gap that has stopped to shrink counts as met.
    floor : float
        A gap this small is met whatever the objective, which may have the minimum 0.
    observer : Observer
        Who looks on.
    control : Control
        What may end the fit earlier; asked after each pass.
    """

    tol: float
    max_iter: int
    verbose: int = 0
    resolution: float = 0.0
    floor: float = 0.0
    observer: Observer = SILENT
    control: Control = UNBOUNDED

    def at_resolution_of(self, dtype: np.dtype) -> StoppingRule:
        """Return the rule for data of a type.

        Parameters
        ----------
        dtype : dtype
            Of the rows.

        Returns
        -------
        StoppingRule
            With the type's `resolution`.
        """
        return replace(self, resolution=8.0 * float(np.finfo(dtype).eps))

    def is_met(self, gap: float, objective: float) -> bool:
        """Return whether a gap is small enough."""
        return math.isfinite(gap) and gap <= max(self.tol * abs(objective), self.floor)

    def is_nothing(self, objective: float) -> bool:
        """Return whether rounding may be all that an objective is."""
        return self.tol * abs(objective) < self.floor

    def is_met_rounded(self, gap: float, gap_before: float, objective: float) -> bool:
        """Return whether rounding has left a model's gap small enough, or where it was."""
        allowed = max(self.tol, self.resolution) * abs(objective)
        return gap <= max(gap_before, allowed, self.floor)


@dataclass
class Progress:
    """What a fit has seen so far, and a guess at when an exact pass will pay.

    The gap seen during an epoch is stale at its end. The ratio of the last two predicts what is
    left; each exact pass corrects the prediction.
    """

    rule: StoppingRule
    first_epoch: int = 1  # 0 where the first entry is about the start, before any step
    history: list[dict[str, float]] = field(default_factory=list)
    stage: Stage = field(default_factory=Stage)
    _start: float = field(default_factory=time.perf_counter)
    _objective: float = math.nan
    _correction: float = 1.0
    _predicted: float = math.inf
    _is_met: bool = False
    _halved_gap: float = math.inf
    _halved_at: int = 0

    def see_epoch(self, gap: float) -> bool:
        """Record the running gap of an epoch.

        Parameters
        ----------
        gap : float
            Sum of the rows' gaps as each was visited.

        Returns
        -------
        bool
            Whether an exact pass is likely to confirm that the rule is met.
        """
        if not self.history:
            if math.isnan(self._objective):
                self._objective = gap  # from beta = 0 the gaps add up to the loss as it was met
            self._predicted = gap
        else:
            before = self.history[-1]["running_gap"]
            self._predicted = gap * min(1.0, gap / before) if before > 0.0 else gap
        epoch = self.first_epoch + len(self.history)
        self.history.append(
            {
                "epoch": epoch,
                "time_s": time.perf_counter() - self._start,
                "running_gap": gap,
                "gap": math.nan,
                "objective": math.nan,
            }
        )
        if self.rule.verbose > 0 and epoch > 0 and epoch % self.rule.verbose == 0:
            _logger.info("epoch %d: gap about %.3g, %.2f s", epoch, gap, self.elapsed_s)
        return self.rule.is_met(self._correction * self._predicted, self._objective)

    def next_goal(self, floor: float | None = None) -> tuple[float, float, float]:
        """Return what tells an engine that runs several epochs in one call where to end.

        Parameters
        ----------
        floor : float or None, default=None
            Share of the objective that a running gap is to be, instead of meeting the rule.

        Returns
        -------
        before : float
            Running gap of the last epoch; NaN where gaps are judged as they are.
        factor : float
            The prediction's correction.
        most : float
            The gap that is small enough.
        """
        objective = abs(self._objective)
        if floor is not None:
            return math.nan, 1.0, floor * objective
        most = max(self.rule.tol * objective, self.rule.floor)
        return self.history[-1]["running_gap"], self._correction, most

    def see_certificate(self, gap: float, objective: float) -> None:
        """Record an exact pass after the latest epoch.

        Parameters
        ----------
        gap, objective : float
            Certified values.
        """
        self._objective = objective
        if 0.0 < self._predicted < math.inf:
            # Bounded, so that one unlucky prediction does not put the next pass off for long.
            self._correction = min(10.0, max(0.1, gap / self._predicted))
        if self.history:
            self.history[-1].update(gap=gap, objective=objective, time_s=self.elapsed_s)
        if self.rule.verbose > 0:
            _logger.info(
                "epoch %d: objective %.6g, certified gap %.3g (%.1e of it), %.2f s",
                self.first_epoch + len(self.history) - 1,
                objective,
                gap,
                gap / abs(objective) if objective else math.inf,
                self.elapsed_s,
            )
        self._is_met = self.rule.is_met(gap, objective) or self._is_stuck(gap, objective)

    def _is_stuck(self, gap: float, objective: float) -> bool:
        """Return whether a gap at the data's resolution has not halved for half of the epochs."""
        epoch = len(self.history)
        if gap <= 0.5 * self._halved_gap:
            self._halved_gap, self._halved_at = gap, epoch
        has_stopped = epoch > 2 * self._halved_at + 20
        at_resolution = gap <= self.rule.resolution * abs(objective)
        return self.rule.tol > 0.0 and has_stopped and at_resolution

    def expected_epochs(self) -> float:
        """Return how many more epochs the latest decline of the running gap would take.

        Returns
        -------
        float
            0 before there is a decline to judge by; inf where the gap does not fall.
        """
        if len(self.history) < _FIRST_JUDGED or not self._objective:
            return 0.0
        # Gaps of losses with corners shrink by fits and starts: judged over a longer time.
        window = max(2, len(self.history) // 4)
        first, last = (self.history[i]["running_gap"] for i in (-1 - window, -1))
        target = self.rule.tol * abs(self._objective)
        if last <= target:
            return 0.0
        if not first > 0.0:
            return math.inf  # rounding of a gap that was next to nothing
        decline = (math.log(first) - math.log(last)) / window if last > 0.0 else math.inf
        return (
            (math.log(last) - math.log(target)) / decline
            if decline > 0.0 and target > 0.0
            else math.inf
        )

    def state(self) -> dict[str, Any]:
        """Return what `resume` takes."""
        history = [dict(entry) for entry in self.history]
        return {"history": history, "elapsed_s": self.elapsed_s, "objective": self._objective}

    def resume(self, state: Mapping[str, Any], n_seen: int) -> None:
        """Go on where another fit has ended.

        Parameters
        ----------
        state : mapping
            Of its progress.
        n_seen : int
            Epochs that are not seen again.
        """
        self.history[:] = [dict(entry) for entry in state["history"][:n_seen]]
        self._objective = state["objective"]
        self._start = time.perf_counter() - state["elapsed_s"]

    @property
    def is_met(self) -> bool:
        """Whether the last exact pass met the rule."""
        return self._is_met

    @property
    def relative_gap(self) -> float:
        """Running gap of the last epoch, relative to the objective."""
        gap = self.history[-1]["running_gap"]
        return gap / abs(self._objective) if self._objective else 0.0 if gap == 0.0 else math.inf

    @property
    def elapsed_s(self) -> float:
        """Seconds since the fit began."""
        return time.perf_counter() - self._start


@dataclass(frozen=True)
class Limits:
    """Where coordinate ascent ends short of the tolerance: another method may do better.

    Attributes
    ----------
    patience : float
        Epochs that may be left, by the gap's decline.
    judged_from : int
        Epochs before which the decline says nothing yet.
    ends_at : float
        Running gap, at or below which it may be rounding that is left.
    """

    patience: float = math.inf
    judged_from: int = 0
    ends_at: float = 0.0

    def are_reached(self, progress: Progress) -> bool:
        """Return whether more epochs seem left than another method is worth, or than may be.

        Parameters
        ----------
        progress : Progress
            What ascent has seen so far.

        Returns
        -------
        bool
            False without a patience.
        """
        if len(progress.history) < self.judged_from or math.isinf(self.patience):
            return False
        n_left = progress.rule.max_iter - len(progress.history)
        return progress.expected_epochs() > min(self.patience, n_left)


def history_of(entries: np.ndarray) -> list[dict[str, float]]:
    """Return what each step of one call left, as `Progress` records it.

    Parameters
    ----------
    entries : ndarray of shape (n_entries, 4), float64
        Seconds, what the step's own model promised, the certified gap and the objective.

    Returns
    -------
    list of dict
        One for each, numbered from 0.
    """
    names = ("time_s", "running_gap", "gap", "objective")
    return [
        {"epoch": epoch, **dict(zip(names, entry, strict=True))}
        for epoch, entry in enumerate(entries.tolist())
    ]


def in_one_call(
    run: Callable[[int, np.ndarray | None], FitResult],
    problem: Problem,
    shape: tuple[int, int],
    most_entries: int,
    communicator: Communicator,
    rule: StoppingRule,
) -> FitResult | None:
    """Run a method that is one call of compiled code; those who look on see its steps afterwards.

    Where they end the fit, it runs once more, as far as that.

    Parameters
    ----------
    run : callable
        Takes the most entries that the history may have, and an array for the coefficients at each
        or None; returns the model there.
    problem : Problem
        With the value of the intercept's column.
    shape : (n_outputs, n_features)
        Of the coefficients.
    most_entries : int
        Beyond which the method is not worth it.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Most reads, and who looks on.

    Returns
    -------
    FitResult or None
        None where the rule was not met.
    """
    most, points = min(most_entries, rule.max_iter + 1), None
    if rule.control.is_active:
        points = np.zeros((most, shape[0], shape[1] + 1))
    result = run(most, points)
    if not result.has_converged:
        return None
    n_seen = _n_seen(problem, result.history, communicator, rule, points)
    return run(n_seen, None) if n_seen < len(result.history) else result


def _n_seen(
    problem: Problem,
    history: list[dict[str, float]],
    communicator: Communicator,
    rule: StoppingRule,
    points: np.ndarray | None,
) -> int:
    """Show the steps of one call, and return how many there were when the fit was ended."""
    if points is None and not rule.verbose:
        return len(history)
    progress = Progress(rule, first_epoch=0)
    for number, entry in enumerate(history):
        gap, objective = entry["gap"], entry["objective"]
        progress.see_epoch(gap)
        progress.see_certificate(gap, objective)
        if points is None:
            continue
        point = points[number]
        model_of = partial(Interim.of_point, point, problem.bias_column, gap, objective)
        if rule.control.ends(communicator, model_of):
            return number + 1
    return len(history)
