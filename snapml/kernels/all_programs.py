"""Everything that engines may ask for, so that tests compile all of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from snapml.kernels.descent import column_descent, coordinate_descent, dense_rounds
from snapml.kernels.device.program import Program
from snapml.kernels.losses import fused_pass, losses, many_losses, objective
from snapml.kernels.matrices import ranking, row_checks, scaling, widen
from snapml.kernels.products import adjoint, many_rows, ranked_rows, rows, transposed
from snapml.kernels.sums import reduce

__all__ = ["all_programs"]

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_TYPES = ((_FLOAT32, _FLOAT32), (_FLOAT32, _FLOAT64), (_FLOAT64, _FLOAT64))
_INDICES = (np.dtype(np.int32), np.dtype(np.int64))


def all_programs(core_names: Iterable[str], dual_names: Iterable[str]) -> Iterator[Program]:
    """Yield every program with every combination of types.

    Parameters
    ----------
    core_names : iterable of str
        Losses, by their names in the core headers.
    dual_names : iterable of str
        Those of them that have a coordinate step.

    Yields
    ------
    Program
        Each once.
    """
    names = tuple(core_names)
    yield reduce.PROGRAM
    yield widen.PROGRAM
    for real, wide in _TYPES:
        yield rows.program(real, wide)
        yield scaling.program(real, wide)
        for rank in _INDICES:
            yield ranked_rows.program(real, wide, rank)
        for loss in names:
            yield fused_pass.dense_program(loss, real, wide)
    for real in (_FLOAT32, _FLOAT64):
        yield transposed.program(real)
        for index in _INDICES:
            yield many_rows.program(real, index)
            for rank in _INDICES:
                yield ranking.program(real, index, rank)
        for loss in names:
            yield losses.program(loss, real)
            if loss != "Softmax":  # of one margin
                yield many_losses.program(loss, real)
    yield from _dual_programs(tuple(dual_names))


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
