"""L1 and elastic net on rows of a store: few columns are worked on, so that few reads are needed.

A read gives the slopes of all columns and certifies the model. The columns that the model may need
are then copied into memory by a second read, and the problem on them is solved there, reading
nothing. Where they are too many for that, one read adds up their Gram matrix for a Newton step
(docs/algorithms.md, section 13).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from snapml.problems import Intercept
from snapml.solvers.columns.cpu_gram_model import minimise_on_gram
from snapml.solvers.columns.streamed_columns import PackedColumns, StreamedColumns
from snapml.solvers.columns.streamed_gram import StreamedGram
from snapml.solvers.communicator import Communicator
from snapml.solvers.quadratic_model import Model
from snapml.solvers.result import FitResult, StartModel
from snapml.solvers.stopping import Progress, StoppingRule
from snapml.solvers.threads import limit_blas_threads
from snapml.solvers.working_sets.working_set_descent import (
    improve_in_memory,
    kept_model,
    result_of,
    run,
)
from snapml.solvers.working_sets.working_set_state import State
from snapml.solvers.working_sets.working_set_steps import search_line, take_whole_step

__all__ = ["solve"]

_READS_EACH = 3  # of a Newton step on a Gram matrix: that, where it leads, and a shorter step
_PACKED_SHARE = 1e-3  # of the gap that the problem on packed columns may leave
_MOST_INNER = 1000  # rounds in memory
_NEARLY = 0.5  # of the penalty: columns of such slopes are packed with those that exceed it
_MOST_GRAM_COLUMNS = 4000
_FEW_COLUMNS = 400  # all of which are taken at once
_FIRST_COLUMNS, _GROWTH = 500, 2.0  # that a step should have: at least, and times the support
_LEAST_GROWTH = 1.1


def solve(
    engine: StreamedColumns,
    communicator: Communicator,
    rule: StoppingRule,
    start: FitResult | StartModel | None = None,
) -> FitResult:
    """Minimise until the certified gap meets the rule or its reads of the store are used up.

    Parameters
    ----------
    engine : StreamedColumns
        Shard of the data.
    communicator : Communicator
        The other shards.
    rule : StoppingRule
        Tolerance and most reads.
    start : FitResult, StartModel or None, default=None
        Where to begin.

    Returns
    -------
    FitResult
        The model with its certificate.

    Raises
    ------
    MemoryError
        If the columns that the model needs fit neither the memory limit nor a Gram matrix.
    """
    with limit_blas_threads(1), np.errstate(over="ignore", invalid="ignore"):
        descent = _Descent(engine, communicator, rule, start)
        return descent.result()


class _Descent:
    """One fit: its state, and the Gram matrix that the last read has formed."""

    def __init__(
        self,
        engine: StreamedColumns,
        communicator: Communicator,
        rule: StoppingRule,
        start: FitResult | StartModel | None,
    ) -> None:
        self._engine = engine
        stage = rule.observer.stage(f"working sets of a store, {engine.n_cols}")
        self._progress = Progress(rule, first_epoch=0, stage=stage)
        self._state = State(engine, communicator, kept_model(stage, start))
        self._gram: StreamedGram | None = None
        self._means = "packed columns"

    def result(self) -> FitResult:
        """Run, and return the model."""
        state, engine, stage = self._state, self._engine, self._progress.stage
        if stage.result is not None:
            return stage.result
        if stage.state is not None:  # the last read is made once more
            engine.n_reads += len(stage.state["progress"]["history"]) - 1
        self._count_reads()
        self._ask_for_all()
        has_converged = run(
            state, self._progress, self._step, reads_each=_READS_EACH, free_visits=0
        )
        state.round_off()
        self._count_reads()
        means = f"working-set descent on {self._means}, {engine.description}"
        return stage.finish(result_of(state, self._progress, has_converged, means))

    def _count_reads(self) -> None:
        """Give every read its entry; those that certify nothing have the gap known so far."""
        engine = self._engine
        while len(self._progress.history) < engine.n_reads - int(engine.has_foreseen):
            self._progress.see_epoch(self._state.gap)

    def _ask_for_all(self) -> None:
        """Let the first read form the Gram matrix of few columns, too many to be packed."""
        engine, every = self._engine, np.arange(self._engine.n_cols)
        n_bytes = 2.0 * engine.n_stored * engine.dtype.itemsize
        is_few = len(every) <= _FEW_COLUMNS
        if is_few and self._state.is_on_any(n_bytes > engine.packed_limit):
            self._gram = engine.gram_of(every, self._state.damped_curvatures())

    def _step(self, state: State, target: float) -> bool:
        """Improve on columns that are packed, or on their Gram matrix."""
        ranked, n_used, n_wanted = _rank(state)
        fits = np.cumsum(self._engine.bytes_of(ranked)) <= self._engine.packed_limit
        n_packed = min(state.communicator.exchange(int(np.count_nonzero(fits))))
        # What a step should have, what it must have to get anywhere, what a Gram matrix can hold.
        n_least = min(n_wanted, max(_FIRST_COLUMNS, int(_GROWTH * n_used)))
        n_must = min(n_wanted, int(_LEAST_GROWTH * n_used) + 1)
        n_gram = min(_MOST_GRAM_COLUMNS, max(n_least, _FEW_COLUMNS), len(ranked))
        if n_packed >= min(n_least, max(n_gram, n_must)):
            has_moved = self._solve_packed(np.sort(ranked[:n_packed]))
        elif n_gram >= n_must:
            has_moved = self._newton_step(np.sort(ranked[:n_gram]), target)
        else:
            raise self._no_room(ranked[:n_must])
        self._count_reads()
        return has_moved

    def _no_room(self, columns: np.ndarray) -> MemoryError:
        needed = int(self._engine.bytes_of(columns).sum())
        return MemoryError(
            f"an L1 penalty that leaves {len(columns)} columns to work on: expected memory for "
            f"them, {needed} bytes, or at most {_MOST_GRAM_COLUMNS} columns; memory_limit leaves "
            f"{self._engine.packed_limit} bytes. Raise it, or regularise more"
        )

    def _solve_packed(self, columns: np.ndarray) -> bool:
        """Solve the problem on some columns in memory."""
        state, rule = self._state, self._progress.rule
        packed = self._engine.pack(columns)
        before = state.objective
        inner = _inner_state(state, packed)
        floor = max(0.3 * rule.floor, _PACKED_SHARE * state.gap)
        inner_rule = replace(
            rule,
            tol=0.1 * rule.tol,
            floor=floor,
            max_iter=_MOST_INNER,
            verbose=0,
            control=rule.control.without_look(),
        )
        run(inner, Progress(inner_rule, first_epoch=0), improve_in_memory, free_visits=0)
        state.coef[packed.places] = inner.coef
        state.margins, state.shift = inner.margins, inner.shift
        state.refresh()
        return state.objective < before

    def _newton_step(self, columns: np.ndarray, target: float) -> bool:
        """Minimise the model on a Gram matrix; read once where that leads, if it leads down."""
        state, engine = self._state, self._engine
        self._means, engine.packed = "Gram matrices", None
        if self._gram is None or not np.isin(columns, self._gram.columns).all():
            self._gram = engine.gram_of(columns, state.damped_curvatures())
        engine.form(self._gram)
        is_exact = state.problem.loss.is_quadratic
        if is_exact:  # a better minimum is free
            target = 1e-3 * self._progress.rule.tol * abs(state.objective)
        model, lead = _centred_model(state, self._gram, columns)
        coef = state.coef[columns]
        found = minimise_on_gram(self._gram.matrix(columns, model), model, coef, 0.5 * target)
        step = np.zeros(engine.n_cols)
        step[columns] = found - coef
        if not step.any():
            return False
        wanted, added = (None, None) if is_exact else (self._gram.columns, state.added_curvatures())
        shift = state.shift + lead(found - coef)
        ahead, gram = engine.look_ahead(state.coef, step, state.margins, shift, wanted, added)
        change = ahead.margins - state.margins
        if take_whole_step(state, model, columns, ahead):
            engine.foresee(ahead.slopes)
            self._gram = self._gram if gram is None else gram
            return True
        has_moved = search_line(state, _Known(columns, change), model, found)
        if not is_exact:
            self._gram = engine.gram_of(self._gram.columns, state.damped_curvatures())
        return has_moved


class _Known:
    """Columns whose product with the one step that is asked for is known (protocol `Movable`)."""

    def __init__(self, columns: np.ndarray, change: np.ndarray) -> None:
        self.columns, self._change = columns, change

    def product(self, coef: np.ndarray) -> np.ndarray:
        """Return the product with the whole step."""
        return self._change


def _centred_model(
    state: State, gram: StreamedGram, columns: np.ndarray
) -> tuple[Model, Callable[[np.ndarray], float]]:
    """Return the model on some columns, and how far a free intercept follows a step of them."""
    slopes, penalty = state.slopes[columns], state.problem.penalty
    if state.problem.intercept is not Intercept.FREE:
        model = Model(
            slopes, state.gradients, gram.curvatures, penalty, communicator=state.communicator
        )
        return model, lambda step: 0.0
    totals = state.total(np.array([state.gradients.sum(), gram.curvatures.sum()]))
    slope, total = float(totals[0]), max(float(totals[1]), np.finfo(np.float64).tiny)
    sums = state.total(gram.sums(columns))
    model = Model(
        slopes - sums * (slope / total),
        state.gradients,
        gram.curvatures,
        penalty,
        communicator=state.communicator,
    )
    return model, lambda step: -(slope + float(sums @ step)) / total


def _inner_state(state: State, packed: PackedColumns) -> State:
    """Return the state of the problem on packed columns at the same model."""
    own = state.coef[packed.columns]
    start = StartModel(own, state.intercept)
    return State(packed.engine, state.communicator, start)


def _rank(state: State) -> tuple[np.ndarray, int, int]:
    """Return columns, the most needed first; the support's size; how many should move.

    Behind the support and the columns whose slopes exceed the penalty come those that nearly do,
    and all where they are few: once they are in memory, a later step may need no other.
    """
    engine, penalty = state.engine, state.problem.penalty
    is_used = state.coef != 0.0
    if engine.tau:
        is_used[-1] = True
    size = -state.slopes if penalty.is_positive else np.abs(state.slopes)
    is_violated = (size > penalty.l1) & ~is_used
    score = size - _NEARLY * penalty.l1
    if not engine.is_sparse:
        with np.errstate(divide="ignore", invalid="ignore"):
            score = (size - penalty.l1) / np.sqrt(state.column_squares())
        score[~np.isfinite(score)] = -math.inf
    is_near = (size >= _NEARLY * penalty.l1) | (engine.n_cols <= _FEW_COLUMNS)
    kind = np.where(is_used, 0, np.where(is_violated, 1, 2))
    order = np.lexsort((-score, kind))
    order = order[(kind < 2)[order] | is_near[order]]
    n_used = int(np.count_nonzero(is_used))
    return order, n_used, n_used + int(np.count_nonzero(is_violated))
