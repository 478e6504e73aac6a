"""What a summary says about the training, where the rows are those of the fit."""

from __future__ import annotations

from snapml.distributed.spark.tasks.request import FitOutcome

__all__ = ["TrainingFacts"]


class TrainingFacts:
    """Facts of a fit.

    Parameters
    ----------
    outcome : FitOutcome or None
        None where the rows are others.
    """

    def __init__(self, outcome: FitOutcome | None) -> None:
        self._outcome = outcome

    def _training(self) -> FitOutcome:
        if self._outcome is None:
            raise RuntimeError("expected the summary of a training, got one of other rows")
        return self._outcome

    @property
    def objectiveHistory(self) -> list[float]:
        """Objectives that were certified on the way, the model's last."""
        return list(self._training().objective_history)

    @property
    def totalIterations(self) -> int:
        """Reads of the data beyond the first."""
        return self._training().n_iter

    @property
    def objective(self) -> float:
        """Mean loss plus penalty at the model."""
        return self._training().objective

    @property
    def gap(self) -> float:
        """Certified bound of the objective's distance from its least value."""
        return self._training().gap

    @property
    def solver(self) -> str:
        """What was run, and why."""
        return self._training().solver
