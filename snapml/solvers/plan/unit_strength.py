"""Problems divided by the strength of their L2 penalty, which coordinate ascent takes to be 1."""

from __future__ import annotations

from dataclasses import replace

from snapml.data import Dataset
from snapml.problems import Problem
from snapml.solvers.control import Interim
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule

__all__ = ["UnitStrength"]


class UnitStrength:
    """A problem in the unit in which its L2 penalty has the strength 1.

    Weights, objectives and gaps are divided by the strength; models and dual states are the same.

    Parameters
    ----------
    problem : Problem
        As it was posed.
    """

    def __init__(self, problem: Problem) -> None:
        strength = problem.penalty.l2
        has_ascent = problem.loss.has_dual_step or problem.loss.is_joint
        is_taken = has_ascent and problem.penalty.is_smooth and strength > 0.0
        self._unit = strength if is_taken else 1.0
        self.problem = problem
        """In this unit."""

        if self.is_another:
            self.problem = replace(problem, penalty=replace(problem.penalty, l2=1.0))

    @property
    def is_another(self) -> bool:
        """Whether it is not the one that the problem was posed in."""
        return self._unit != 1.0

    def of_dataset(self, dataset: Dataset) -> Dataset:
        """Return the rows with their weights divided."""
        weights = dataset.row_weights
        if weights is not None:
            weights = (weights / self._unit).astype(weights.dtype)
        return replace(dataset, row_weights=weights, weight=dataset.weight / self._unit)

    def of_rule(self, rule: StoppingRule) -> StoppingRule:
        """Return the rule, whose onlookers see models as of the problem that was posed."""
        control = rule.control.through(self._as_posed)
        return replace(rule, floor=rule.floor / self._unit, control=control)

    def result(self, result: FitResult) -> FitResult:
        """Return the result of the problem that was posed."""
        history = [
            {**entry, **{name: self._unit * entry[name] for name in _IN_UNITS if name in entry}}
            for entry in result.history
        ]
        gap, objective = self._unit * result.gap, self._unit * result.objective
        return replace(result, gap=gap, objective=objective, history=history)

    def _as_posed(self, model: Interim) -> Interim:
        return replace(model, gap=self._unit * model.gap, objective=self._unit * model.objective)


_IN_UNITS = ("running_gap", "gap", "objective")
