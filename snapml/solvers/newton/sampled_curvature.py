"""A curvature and the rows that it is made from: how many, and when it is made anew."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from snapml._lazy import cached_property
from snapml.solvers.communicator import Communicator
from snapml.solvers.engine import PrimalEngine
from snapml.solvers.inner_products import inner
from snapml.solvers.newton.column_scaling import ColumnScaling
from snapml.solvers.newton.curvature import Curvature, DenseCurvature, HotCurvature, make_curvature
from snapml.solvers.newton.descent import Descent
from snapml.solvers.newton.sample_size import CHEAP_COLUMNS, reads_of_hessian, sample_rows

__all__ = ["SampledCurvature"]

_MOST_SAMPLE_STEPS = 30
# A curvature is renewed where a step leaves more than this share of the squared decrement.
_STALE = 0.1
# A curvature from a sample can be renewed before these steps only: the pairs correct the rest.
_RENEWALS = (5, 15, 31)
_SAMPLE_RENEWALS = (0, 6)
# Steps whose decline tells how many are left: the most, and the fewest, of all columns' curvature.
_WATCHED_STEPS, _FEWEST_STEPS = 5, 3
# Reads that a Hessian has to cost before steps without one are tried; the share of these that such
# steps may seem to need; and the least share of its columns' curvatures that a step may see.
_WORTH_WAITING, _WAIT_SHARE, _LEAST_SHARE = 20.0, 0.7, 0.2
_HESSIANS_OF_SAMPLE = 2.0  # that its minimum takes
# The share of the tolerance that the squared decrement may have to fall to: under a weak penalty
# a certificate asks for more than its tolerance.
_BEYOND_TOL = 1e-3


class SampledCurvature:
    """The curvature, and the rows that it is made from: a sample, or all of them."""

    def __init__(
        self, engine: PrimalEngine, communicator: Communicator, tol: float, *, uses_sample: bool
    ) -> None:
        self._all_rows = engine
        self._tol = tol
        self._communicator = communicator
        own = np.array([float(engine.n_rows), float(not _can_wait(engine))])
        n_rows, n_unable = communicator.allreduce_sum(own).tolist()
        self._total, self._can_wait = int(n_rows), n_unable == 0.0
        self._rows_read = 0
        self._has_slowed = False
        self._decrements: deque[float] = deque(maxlen=_WATCHED_STEPS)
        self._is_quadratic = engine.problem.loss.is_quadratic
        self._jumps = engine.problem.loss.kinks != "none"
        self.expected = math.inf  # objective at the minimum over the sample, as the sample has it
        self._take(sample_rows(engine, self._total) if uses_sample else self._total)

    def _count(self, engine: PrimalEngine) -> int:
        """Return the rows of all shards."""
        return int(self._communicator.allreduce_sum(np.array([float(engine.n_rows)]))[0])

    def _take(self, wanted: int) -> None:
        """Make the next curvature from about so many rows."""
        self._wanted = wanted
        self._point: Any = None  # where the curvature was made
        self.has_other_rows = wanted < self._total
        self.engine = self._all_rows
        if self.has_other_rows:
            self.engine = self._all_rows.sample(wanted, self._communicator)
        self._n_rows = self._count(self.engine)
        self.curvature: DenseCurvature | HotCurvature | None = None

    def state(self) -> dict[str, Any]:
        """Return what `resume` takes, on the host."""
        return {
            "wanted": self._wanted,
            "point": None if self.curvature is None else self.engine.to_host(self._point),
            "rows_read": self._rows_read,
            "has_slowed": self._has_slowed,
            "decrements": list(self._decrements),
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Make the curvature that another fit had; leaves the engine where that was made."""
        if state["wanted"] != self._wanted:
            self._take(state["wanted"])
        if state["point"] is not None:
            point = self.engine.to_vectors(state["point"])
            self.engine.fused_pass(point)
            self.engine.accept()
            self.update()
            self._point = point
        self._rows_read = state["rows_read"]
        self._has_slowed = state["has_slowed"]
        self._decrements.extend(state["decrements"])

    @property
    def current(self) -> Curvature:
        """The curvature, made at the latest update."""
        if self.curvature is None:
            raise RuntimeError("expected a curvature, got none")
        return self.curvature

    @property
    def is_exact(self) -> bool:
        """Whether a fresh curvature is the Hessian itself, so that it knows more than the pairs."""
        curvature = self.curvature
        is_hessian = isinstance(curvature, DenseCurvature) and curvature.is_hessian
        return is_hessian and not self.has_other_rows

    def is_made_at(self, coef: Any) -> bool:
        """Return whether the curvature is that of a point, which is the same array."""
        return self.curvature is not None and self._point is coef

    @property
    def description(self) -> str:
        """What the steps are, and what their curvature is made from."""
        source = "its steps" if self.curvature is None else f"{self._n_rows} rows"
        return f"quasi-Newton, curvature from {source}"

    def n_reads(self, descent: Descent) -> int:
        """Return how many times as much as the data was read after the first read, rounded up."""
        return descent.n_passes - 1 + math.ceil(self._rows_read / max(1, self._total))

    def is_stale(self, descent: Descent) -> bool:
        """Return whether the curvature should be made anew before the next step."""
        if self.curvature is None:
            return not self._waits(descent)
        if self._is_quadratic:
            return False
        if self.is_exact and self.engine.n_features <= CHEAP_COLUMNS:
            return True
        if self.is_exact and self._jumps:
            return self._has_slowed  # how steps decline says little of the next
        is_due = self._has_slowed and (self.is_exact or descent.n_passes in _RENEWALS)
        return is_due and self._reads_of_update(descent) < self._reads_left(descent)

    def step(self, descent: Descent, before: float) -> float:
        """Move once, with a fresh curvature where the present one has grown old.

        Parameters
        ----------
        descent : Descent
            Where the fit is.
        before : float
            What the last step returned.

        Returns
        -------
        float
            The squared Newton decrement, twice what the step is expected to gain; 0 where no
            curvature leads down.
        """
        has_failed = False
        while True:
            if has_failed or self._grow(descent):
                self.update(descent.coef)
                descent.forget()
            elif self.is_stale(descent):
                if self.curvature is None and descent.n_steps > 0:
                    before = self._end_waiting(descent)
                else:
                    self.update(descent.coef)
                if self.is_exact:
                    descent.forget()
            direction = descent.direction(self.curvature or self._scaling_of_columns)
            decrement = -inner(self._all_rows, direction, descent.gradient)
            if descent.advance(direction):
                self._note(decrement, before)
                return decrement
            if has_failed:
                if not self.has_other_rows:
                    return 0.0
                self.distrust()
            has_failed = True

    @property
    def may_wait(self) -> bool:
        """Whether steps without a Hessian, of which a read is all, may need less time.

        Where columns have little in common few of them get to the minimum.
        """
        return self._can_wait and self._reads_to_save >= _WORTH_WAITING

    @property
    def _reads_to_save(self) -> float:
        """Return how many reads take as long as the Hessians of a start."""
        n_stored = self._total * self._all_rows.n_features
        reads = reads_of_hessian(self._all_rows, self._n_rows, self._total, n_stored)
        return reads * (_HESSIANS_OF_SAMPLE if self.has_other_rows else 1.0)

    def _waits(self, descent: Descent) -> bool:
        """Return whether to go on without a Hessian; the first step shows what columns share."""
        if not self.may_wait:
            return False
        scaling, most = self._scaling_of_columns, self._reads_to_save
        scaling.learn(descent)
        if scaling.share < _LEAST_SHARE:
            return False
        if len(self._decrements) < _WATCHED_STEPS:
            return descent.n_passes <= 2 * _WATCHED_STEPS
        return descent.n_passes < most and self._reads_left(descent) < _WAIT_SHARE * most

    def _end_waiting(self, descent: Descent) -> float:
        """Take a Hessian; return what a step of the same before the next one has left: nothing.

        A first step that has shown what columns share has done little else, and is taken back. The
        curvature of few rows, which misleads far from where it is made, is that of the point the
        step has led to.
        """
        if descent.n_steps == 1 and not self.has_other_rows:
            assert descent.last_pair is not None
            descent.coef = descent.coef - descent.last_pair[0]
            descent.begin()
            descent.forget()
        self.update(descent.coef)
        self._decrements.clear()
        return math.inf

    @cached_property
    def _scaling_of_columns(self) -> ColumnScaling:
        return ColumnScaling(self._all_rows, self._communicator)

    def distrust(self) -> None:
        """Take more rows, since those of the sample do not see what matters; at worst all."""
        self._take(self._total if self.engine.n_features <= CHEAP_COLUMNS else self._next_sample())
        self._decrements.clear()

    def take_more(self, descent: Descent, *, is_all: bool) -> None:
        """Make the curvature from more rows, or from all, at the descent's point."""
        self.distrust()
        if is_all and self.has_other_rows:
            self._take(self._total)
        self.update(descent.coef)
        descent.forget()

    def shortened(self, coef: Any) -> Any:
        """Return the shortest coefficients with the same margins, where all rows are known."""
        if self.has_other_rows or not isinstance(self.curvature, DenseCurvature):
            return coef
        point = self.engine.to_host(coef)
        shortest = self.curvature.without_null_space(self.engine, self._communicator, point)
        return coef if shortest is point else self.engine.to_vectors(shortest)

    def _note(self, decrement: float, before: float) -> None:
        """See how much of the squared decrement the last step but one left."""
        self._has_slowed = decrement > _STALE * before and math.isfinite(before)
        self._decrements.append(decrement)

    def _grow(self, descent: Descent) -> bool:
        """Take more rows where their Hessian costs less than the reads that seem to be left."""
        is_able = self.has_other_rows and isinstance(self.curvature, DenseCurvature)
        if not is_able or len(self._decrements) < _WATCHED_STEPS:
            return False
        wanted = self._next_sample()
        if 2.0 * self._reads_of_hessian(descent, wanted) >= self._reads_left(descent):
            return False
        self._take(wanted)
        self._decrements.clear()
        return True

    def _next_sample(self) -> int:
        """Return the rows of a larger sample; all where it would copy most of them."""
        wanted = 4 * self._n_rows
        return wanted if 2 * wanted <= self._total else self._total

    def _reads_of_hessian(self, descent: Descent, n_rows: int) -> float:
        return reads_of_hessian(descent.engine, n_rows, descent.n_rows, descent.n_stored)

    def _reads_of_update(self, descent: Descent) -> float:
        """Return how many reads take as long as to make the curvature anew."""
        reads, count = self._reads_of_hessian(descent, self._n_rows), self.engine.n_outputs
        if not (self.engine.problem.loss.is_joint and self.is_exact):
            return reads  # a read for several outputs takes as much longer as their Hessians
        return reads * 0.5 * (count + 1)  # of all pairs of classes

    def _reads_left(self, descent: Descent) -> float:
        """Return how many reads are left if the squared decrement goes on to decline as it does.

        Infinite after too few steps to tell, 0 where none seems to be needed.
        """
        seen, target = self._decrements, self._tol * abs(descent.value)
        if self.is_exact:
            target *= _BEYOND_TOL
        is_whole = isinstance(self.curvature, DenseCurvature)
        if len(seen) < (_FEWEST_STEPS if is_whole else _WATCHED_STEPS):
            return math.inf
        if not seen[-1] > target > 0.0:
            return 0.0
        decline = max(math.log(seen[0] / seen[-1]) / (len(seen) - 1), 1e-3)
        return math.log(seen[-1] / target) / decline

    def update(self, coef: Any = None) -> None:
        """Make the curvature at a point.

        Parameters
        ----------
        coef : array of shape (n_outputs, n_features + 1), float64, or None
            None is the point the engine is at.
        """
        if coef is not None and self.has_other_rows:
            self._rows_read += self._n_rows
            self.engine.fused_pass(coef)
            self.engine.accept()
        if self.curvature is None:
            self.curvature = make_curvature(self.engine, self._communicator)
        else:
            self.curvature.update(self.engine, self._communicator)
        self._point = coef
        self._has_slowed = False

    def minimise(self, coef: Any) -> Any:
        """Minimise over the sample, as far as a sample is worth it."""
        descent = Descent(self.engine, self._communicator, coef)
        descent.begin()
        n_columns = self.engine.n_features * self.engine.n_outputs
        worth = 0.01 * min(1.0, n_columns / max(1, self._n_rows))
        decrement = math.inf
        is_cheap = not self.engine.is_sparse and self.engine.n_features <= CHEAP_COLUMNS
        for step in range(_MOST_SAMPLE_STEPS):
            is_due = not self._is_quadratic and (is_cheap or step in _SAMPLE_RENEWALS)
            if self.curvature is None or is_due:
                self.update()
                self._point = descent.coef
                if is_cheap:
                    descent.forget()
            direction = descent.direction(self.current)
            before, decrement = decrement, -inner(self.engine, direction, descent.gradient)
            if not descent.advance(direction) or decrement <= worth * abs(descent.value):
                break
            if not decrement < before:
                break
        self._rows_read += descent.n_passes * self._n_rows
        self.expected = descent.value
        if is_cheap and not self._is_quadratic:
            self.update()
            self._point = descent.coef
        return descent.coef


def _can_wait(engine: PrimalEngine) -> bool:
    """Return whether a shard's rows may be read in place of a Hessian: dense ones in memory.

    What is proved without a penalty needs the Hessian.
    """
    is_dense = not (engine.is_sparse or engine.is_streamed) and engine.device is None
    return is_dense and engine.problem.penalty.l2 > 0.0
