"""Everything that engines may ask for, so that tests compile all of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from snapml.kernels import (
    adjoint,
    column_descent,
    columns,
    coordinate_descent,
    dense_rounds,
    fused_pass,
    losses,
    objective,
    reduce,
    row_checks,
    rows,
    transposed,
)
from snapml.kernels.program import Program

__all__ = ["all_programs"]

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_TYPES = ((_FLOAT32, _FLOAT32), (_FLOAT32, _FLOAT64), (_FLOAT64, _FLOAT64))
_INDICES = (np.dtype(np.int32), np.dtype(np.int64))


def all_programs(core_names: Iterable[str]) -> Iterator[Program]:
    """Yield every program with every combination of types.

    Parameters
    ----------
    core_names : iterable of str
        Losses, by their names in the core headers.

    Yields
    ------
    Program
        Each once.
    """
    names = tuple(core_names)
    yield reduce.PROGRAM
    for real, wide in _TYPES:
        for index in _INDICES:
            yield rows.program(real, wide, index)
            yield columns.program(real, wide, index)
        for loss in names:
            yield fused_pass.dense_program(loss, real, wide)
            for index in _INDICES:
                yield fused_pass.sparse_program(loss, real, wide, index)
    for real in (_FLOAT32, _FLOAT64):
        for index in _INDICES:
            yield transposed.program(real, index)
        for loss in names:
            yield losses.program(loss, real)
    yield from _dual_programs([loss for loss in names if loss in coordinate_descent.LOSSES])


def _dual_programs(names: Iterable[str]) -> Iterator[Program]:
    """Yield what the descents ask for; rows are in one of the layouts, or dense."""
    for real in (_FLOAT32, _FLOAT64):
        for index in (None, *_INDICES):
            yield adjoint.program(real, index)
            yield column_descent.program(real, index)
            yield row_checks.program(real, index)
            for loss in names:
                yield coordinate_descent.program(loss, real, index)
        for loss in names:
            yield objective.program(loss, real)
            yield dense_rounds.program(loss, real)
