"""Coordinate descent on packed columns, one after the other."""

from __future__ import annotations

import numpy as np

from snapml import _native
from snapml.solvers.columns.column_model import Slopes
from snapml.solvers.columns.cpu_columns import CpuColumns
from snapml.solvers.quadratic_model import Model
from snapml.solvers.result import overflow_error

__all__ = ["NativeDescent"]


class NativeDescent:
    """Sweeps of the extension over packed columns (protocol `ColumnDescent`).

    Parameters
    ----------
    engine : CpuColumns
        Whose columns they are.
    columns : Columns
        Packed, with all rows of the model.
    model : Model
        Of one shard.
    """

    def __init__(self, engine: CpuColumns, columns: _native.Columns, model: Model) -> None:
        self._columns = columns
        h, n_rows = model.curvatures, len(model.curvatures)
        is_exact = engine.problem.loss.is_quadratic
        self._is_weighted = not (engine.has_equal_weights and is_exact)
        self._weight = 0.0 if self._is_weighted else float(h[0])
        # The rows' curvatures, where they differ, and their states.
        self._states = np.zeros((n_rows, 2) if self._is_weighted else n_rows, dtype=engine.dtype)
        if self._is_weighted:
            self._states[:, 0] = h
        self.sums, self.squares = (np.empty(len(model.slopes)) for _ in range(2))
        _native.column_curvatures(columns, self._states, self._weight, self.sums, self.squares)
        if not np.isfinite(self.squares).all():
            raise overflow_error(engine.dtype)

    def sweep(
        self,
        slopes: Slopes,
        found: np.ndarray,
        gradient: np.ndarray,
        among: np.ndarray | None,
        n_sweeps: int,
        enough: float,
    ) -> tuple[bool, np.ndarray]:
        """Descend on the coordinates, one after the other."""
        penalty, before = slopes.penalty, found.copy()
        (self._states[:, 1] if self._is_weighted else self._states)[:] = 0.0
        _, is_done = _native.column_descent(
            self._columns,
            self._states,
            self._weight,
            gradient,
            slopes.squares,
            self.sums if slopes.total else None,
            slopes.total,
            found,
            penalty.l1,
            penalty.l2,
            penalty.is_positive,
            n_sweeps,
            enough,
            among,
        )
        if is_done and among is None:
            return True, gradient
        return False, gradient + slopes.hessian_product(found - before)
