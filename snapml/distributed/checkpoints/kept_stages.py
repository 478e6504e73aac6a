"""The runs of solvers that a fit consists of, as a tree that a restart walks again.

What has ended is replayed from its results, the run that was interrupted goes on from its state,
and runs inside it follow the same rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from snapml.solvers.communicator import Communicator
from snapml.solvers.observer import RowStates, Stage
from snapml.solvers.result import FitResult

__all__ = ["KeptStages", "with_row_states", "without_row_states"]

_RESULT = [field.name for field in fields(FitResult) if field.name != "duals"]


class KeptStages:
    """The tree, and where in it the fit is.

    Parameters
    ----------
    offered : callable
        Gets the communicator and the state's function where a run offers its state, and whether it
        is another than the one that the run has gone on from.
    log : callable
        Gets lines of text.
    """

    def __init__(
        self,
        offered: Callable[[Communicator, Callable[[], Any], bool], None],
        log: Callable[[str], None],
    ) -> None:
        self.offered, self.log = offered, log
        self._open = [_KeptStage(self, "fit", None)]
        self.n_begun = 0

    def resume(self, node: dict[str, Any]) -> None:
        """Let the runs to come follow those of a tree that `node` has returned."""
        self._open = [_KeptStage(self, "fit", node)]

    def begin(self, solver: str) -> Stage:
        """Return the stage of the next run inside the innermost open one."""
        self.n_begun += 1
        outer = self._open[-1]
        if outer.results_left:
            record = outer.results_left.popleft()
            if record["solver"] == solver:
                outer.results.append(record)
                return _ended(record)
            outer.forget(solver, record["solver"])
        kept, outer.inner = outer.inner, None
        if kept is not None and kept["solver"] != solver:
            outer.forget(solver, kept["solver"])
            kept = None
        self._open.append(_KeptStage(self, solver, kept))
        return self._open[-1]

    def node(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the tree, in which the innermost run has a state."""
        found: dict[str, Any] | None = None
        for stage in reversed(self._open):
            own = state if stage is self._open[-1] else stage.kept
            found = {
                "solver": stage.solver,
                "state": own,
                "results": list(stage.results) if own is not state else [],
                "inner": found,
            }
        assert found is not None
        return found

    def close(self, stage: _KeptStage, result: FitResult) -> None:
        """Keep the result of a run that has ended; runs inside it that have not are gone."""
        while self._open.pop() is not stage:
            pass
        record = {name: getattr(result, name) for name in _RESULT}
        self._open[-1].results.append({"solver": stage.solver, **record})


class _KeptStage(Stage):
    """A run, the results of those inside it since its last state, and what it goes on from."""

    def __init__(self, stages: KeptStages, solver: str, node: dict[str, Any] | None) -> None:
        self._stages, self.solver = stages, solver
        node = node or {}
        self.state = self.kept = node.get("state")
        self._is_as_kept = self.state is not None
        self.results: list[dict[str, Any]] = []
        self.results_left = deque(node.get("results", []))
        self.inner: dict[str, Any] | None = node.get("inner")

    def forget(self, solver: str, kept: str) -> None:
        """Drop what a restart would follow: the fit has taken another way."""
        self._stages.log(f"the checkpoint is of {kept}, the fit now runs {solver}: it begins anew")
        self.results_left.clear()
        self.inner = None

    def offer(self, communicator: Communicator, state_of: Callable[[], dict[str, Any]]) -> None:
        is_new, self._is_as_kept = not self._is_as_kept, False
        self._stages.offered(communicator, state_of, is_new)

    def keep(self, state: dict[str, Any]) -> None:
        self.kept, self.results, self.inner = state, [], None
        self.results_left.clear()

    def finish(self, result: FitResult) -> FitResult:
        self._stages.close(self, result)
        return result


def _ended(record: dict[str, Any]) -> Stage:
    stage = Stage()
    stage.result = FitResult(duals=None, **{name: record[name] for name in _RESULT})
    return stage


def without_row_states(value: Any, found: list[RowStates]) -> Any:
    """Return a tree with numbers in the place of row states, which are appended to a list."""
    if isinstance(value, RowStates):
        found.append(value)
        return {"row states": len(found) - 1}
    if isinstance(value, dict):
        return {key: without_row_states(each, found) for key, each in value.items()}
    if isinstance(value, list):
        return [without_row_states(each, found) for each in value]
    return value


def with_row_states(value: Any, states: list[RowStates]) -> Any:
    """Return a tree with the row states in the place of their numbers."""
    if isinstance(value, dict):
        if set(value) == {"row states"}:
            return states[value["row states"]]
        return {key: with_row_states(each, states) for key, each in value.items()}
    if isinstance(value, list):
        return [with_row_states(each, states) for each in value]
    return value
