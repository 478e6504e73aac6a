"""Problems of rows that leave most columns empty, solved on the columns that hold entries.

A hash of 2^20 or 2^24 columns holds entries in a few thousand: every vector over the columns, and
every merge of one, would be a thousand times as long as what it says. Columns without entries have
the coefficient zero, which is within all bounds and costs no penalty.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from snapml.data import CompressedMatrix, Dataset, Matrix
from snapml.data.compressed import CheckedMatrix
from snapml.problems import Penalty
from snapml.solvers.control import Interim
from snapml.solvers.fit_settings import Start
from snapml.solvers.result import FitResult, StartModel
from snapml.solvers.stopping import StoppingRule

__all__ = ["UsedColumns", "find_used"]

# Vectors over fewer columns stay in the cache.
_LEAST_COLUMNS = 1 << 18
# Entries a column from which on few columns of a hash are empty.
_MOST_ENTRIES = 64
# Share of the columns that may be in use.
_MOST_USED = 0.5


class UsedColumns:
    """The columns of a matrix that hold entries.

    Parameters
    ----------
    matrix : CompressedMatrix
        With all columns.
    numbers : ndarray of shape (n_used,), int64
        Ascending.

    Attributes
    ----------
    matrix : CompressedMatrix
        With these columns alone; it shares the entries.
    """

    def __init__(self, matrix: CompressedMatrix, numbers: np.ndarray) -> None:
        self._n_all = matrix.n_features
        self._numbers = numbers
        places = np.empty(self._n_all, dtype=matrix.indices.dtype)
        places[numbers] = np.arange(len(numbers), dtype=places.dtype)
        indptr = matrix.indptr.view()  # the caller's own array stays writeable
        own = places[matrix.indices]
        self.matrix = CheckedMatrix(indptr, own, len(numbers), matrix.values, matrix.dtype)

    def of_dataset(self, dataset: Dataset) -> Dataset:
        """Return the rows with these columns alone."""
        return replace(dataset, matrix=self.matrix)

    def of_penalty(self, penalty: Penalty) -> Penalty:
        """Return the penalty of these columns, and of the intercept's where it has one."""
        if penalty.bounds is None:
            return penalty
        own = np.arange(self._n_all, len(penalty.bounds.lower))
        return penalty.on(np.concatenate((self._numbers, own)))

    def of_start(self, start: Start) -> Start:
        """Return where to begin on these columns."""
        if start.coef is None:
            return start
        numbers = np.append(self._numbers, self._n_all)
        return replace(start, coef=np.ascontiguousarray(start.coef[:, numbers]))

    def of_model(self, start: FitResult | StartModel | None) -> StartModel | None:
        """Return the model to begin at on these columns."""
        if start is None:
            return None
        return StartModel(np.asarray(start.coef)[..., self._numbers], start.intercept)

    def of_rule(self, rule: StoppingRule) -> StoppingRule:
        """Return a rule whose control shows models of all columns."""
        return replace(rule, control=rule.control.through(self._shown))

    def stored(self, result: FitResult) -> FitResult:
        """Return a model of these columns as one of all."""
        return replace(result, coef=self.spread(result.coef))

    def spread(self, coef: np.ndarray) -> np.ndarray:
        """Return coefficients of all columns, along the last axis; zero without entries."""
        spread = np.zeros((*coef.shape[:-1], self._n_all), dtype=coef.dtype)
        spread[..., self._numbers] = coef
        return spread

    def _shown(self, model: Interim) -> Interim:
        return replace(model, coef=self.spread(model.coef))


def find_used(matrix: Matrix) -> UsedColumns | None:
    """Return the columns that hold entries, where a fit on them alone is quicker.

    Parameters
    ----------
    matrix : Matrix
        All rows.

    Returns
    -------
    UsedColumns or None
        None where rows are dense or not in memory, where most columns hold entries, and where
        offsets or indices lead outside the arrays: whoever reads the rows refuses them.
    """
    if not isinstance(matrix, CompressedMatrix):
        return None
    n_all, n_stored = matrix.n_features, matrix.n_stored
    if n_all < _LEAST_COLUMNS or n_stored > _MOST_ENTRIES * n_all or not _is_sound(matrix):
        return None
    is_used = np.zeros(n_all, dtype=bool)
    is_used[matrix.indices] = True
    n_used = int(np.count_nonzero(is_used))
    if not 0 < n_used <= _MOST_USED * n_all:
        return None
    return UsedColumns(matrix, np.flatnonzero(is_used))


def _is_sound(matrix: CompressedMatrix) -> bool:
    """Return whether offsets and indices stay within the arrays."""
    if isinstance(matrix, CheckedMatrix):
        return True
    try:
        matrix.check_indices()
    except ValueError:
        return False
    return True
