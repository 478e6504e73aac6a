"""Epochs of all shards at once: how far each goes by itself, and how far all go together.

Every shard maximises its own part of the dual, with a factor sigma' for what the others do
meanwhile (CoCoA+, Ma et al. 2015). The summed change is then searched for the best step, so that
no factor can lower the dual (docs/algorithms.md, section 3).
"""

from __future__ import annotations

import numpy as np

from snapml.solvers.communicator import Communicator
from snapml.solvers.engine import Engine

__all__ = ["ShardMerge"]

# Long epochs between two safe ones (benchmarks/results/rank_passes.csv).
_LONG_EPOCHS = 2
# Two shards that change the same go half of the way together.
_SHORT = 0.7
# Differences below this many roundings of their terms say nothing.
_ROUNDINGS = 8.0
# A bracket this narrow, relative to its upper end, is narrow enough.
_NARROW = 0.1
_MOST_TRIALS = 8


class ShardMerge:
    """The shards' epochs, and what they have taught about the next one.

    An epoch with the safe factor, the number of shards, is right for what all shards change alike;
    one with the factor 1, a long one, for what cancels in the sum. The two take turns, unless the
    long ones go most of the way: then the shards have little in common.

    Parameters
    ----------
    engine : Engine
        This shard.
    communicator : Communicator
        The others; there is at least one.
    """

    def __init__(self, engine: Engine, communicator: Communicator) -> None:
        self._engine = engine
        self._communicator = communicator
        self._steps: list[float] = []  # of the long epochs since the last safe one
        self.sigma = float(communicator.size)
        """Factor sigma' of the next epoch."""

        self.needed = 1.0
        """What sigma' would just have sufficed for the whole step of the last epoch."""

        self.step = 1.0
        """How far all shards went together, as a share of what each went by itself."""

    def epoch(self, number: int) -> float:
        """Run one epoch on every shard, and add up what they change.

        Parameters
        ----------
        number : int
            Of the epoch.

        Returns
        -------
        float
            Sum of the rows' gaps as each was visited.
        """
        engine = self._engine
        before = engine.shared.astype(np.float64)
        engine.keep_states()
        gap = engine.dual_epoch(number, self.sigma)
        own = (engine.shared.astype(np.float64) - before) / self.sigma
        with np.errstate(all="ignore"):  # what is not finite shows in the certificate
            scalars = [gap, engine.line_slope(1.0), float(own @ own)]
            total = self._communicator.allreduce_sum(np.append(own, scalars))
            change = total[:-3]
            gap, rise, single = total[-3:].tolist()
            pull, joint = self._inner_products(before, change)
            self.step = self._step(rise, pull, joint)
            if self.step < 1.0:
                engine.go_to(self.step)
            engine.shared[:] = before + self.step * change
        self.needed = joint / single if single > 0.0 else 1.0
        self.sigma = self._next_sigma()
        return float(gap)

    def _next_sigma(self) -> float:
        if self.sigma == 1.0:
            self._steps.append(self.step)
        if len(self._steps) < _LONG_EPOCHS or min(self._steps[-_LONG_EPOCHS:]) > _SHORT:
            return 1.0
        self._steps.clear()
        return float(self._communicator.size)

    def _inner_products(self, before: np.ndarray, change: np.ndarray) -> tuple[float, float]:
        """Return before.change and ||change||^2, to the same bits on processors of other makes."""
        rank, size = self._communicator.rank, self._communicator.size
        part = slice(len(change) * rank // size, len(change) * (rank + 1) // size)
        mine = change[part]
        own = np.array([float(before[part] @ mine), float(mine @ mine)])
        pull, joint = self._communicator.allreduce_sum(own).tolist()
        return pull, joint

    def _step(self, rise: float, pull: float, joint: float) -> float:
        """Return the best step on the line, or a little less: there the dual still rises.

        Along the line the dual's slope is what the loss terms' slope leaves of
        ``pull + step * joint``. The terms are concave, so their slope is nowhere below `rise`, that
        at the end.
        """
        slope = rise - pull - joint
        eps = float(np.finfo(self._engine.shared.dtype).eps)
        if not slope < -_ROUNDINGS * eps * (abs(rise) + abs(pull) + joint):
            return 1.0
        low, high = max(0.0, 1.0 + slope / joint) if joint > 0.0 else 0.0, 1.0
        if high - low <= _NARROW:
            return low
        first, last = self._slope(low, pull, joint), slope
        if self._engine.problem.loss.has_quadratic_conjugate and first > last:
            return float(np.clip(low + (high - low) * first / (first - last), low, high))
        return self._bracketed(low, high, pull, joint)

    def _bracketed(self, low: float, high: float, pull: float, joint: float) -> float:
        for _ in range(_MOST_TRIALS):
            if high - low <= _NARROW * high:
                break
            middle = 0.5 * (low + high)
            if self._slope(middle, pull, joint) >= 0.0:
                low = middle
            else:
                high = middle
        # By convexity the mean of what the shards gain alone is gained at least.
        return low if low > 0.0 else 1.0 / self._communicator.size

    def _slope(self, step: float, pull: float, joint: float) -> float:
        """Return the slope of the dual at a point of the line."""
        own = np.array([self._engine.line_slope(step)])
        return float(self._communicator.allreduce_sum(own)[0]) - pull - step * joint
