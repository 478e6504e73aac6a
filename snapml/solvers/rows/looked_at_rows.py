"""The few rows that certificates look at, kept on the host where a device has the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack

from snapml import _native
from snapml.data import Dataset, DenseMatrix
from snapml.problems import Problem
from snapml.solvers.rows.cpu_margins import CpuMargins
from snapml.solvers.rows.row_sample import rows_looked_at

__all__ = ["KeptRows", "LookedAtRows"]


class LookedAtRows(CpuMargins):
    """Labels, weights, offsets and margins of the rows that certificates look at.

    A certificate asks several things of them, and each question to a device takes as long as a
    small pass: the host has copies of what stays, and the margins come once a point.

    Parameters
    ----------
    problem : Problem
        Loss, intercept and penalty.
    n_rows : int
        Of the engine.
    labels, row_weights, offsets, weight
        Of these rows, as a `Dataset` has them.

    Attributes
    ----------
    rows : slice
        Which of the engine's rows they are.
    numbers : ndarray of shape (n_looked_at,), int64
        The same as numbers.
    """

    def __init__(
        self,
        problem: Problem,
        n_rows: int,
        labels: np.ndarray,
        row_weights: np.ndarray | None,
        offsets: np.ndarray | None,
        weight: float,
    ) -> None:
        numbers = rows_looked_at(n_rows)
        matrix = DenseMatrix(np.empty((len(numbers), 0), labels.dtype))
        dataset = Dataset(matrix, labels, row_weights, weight, offsets)
        super().__init__(problem, dataset, _native.ThreadPool(1))
        self.numbers = numbers
        self.rows = self.of_engine(n_rows)

    @staticmethod
    def of_engine(n_rows: int) -> slice:
        """Return which of an engine's rows they are: evenly spaced ones."""
        numbers = rows_looked_at(n_rows)
        return slice(0, n_rows, int(numbers[1]) if len(numbers) > 1 else 1)

    def places(self, rows: np.ndarray) -> np.ndarray | None:
        """Return where some of an engine's rows stand among these, None where one does not."""
        places = rows // self.rows.step
        is_known = bool((places * self.rows.step == rows).all()) and (places < self.n_rows).all()
        return places if is_known else None

    def see(self, margins: np.ndarray) -> None:
        """Take the margins of the present point, shape (n_outputs, n_looked_at), float64."""
        self._margins = margins


class KeptRows:
    """Copies of some rows on the host, each fetched once.

    Parameters
    ----------
    data : DeviceDataset or StreamedDataset
        Whose rows they are.
    numbers : ndarray of int64
        Of the rows that there are to ask for.
    """

    def __init__(self, data: Any, numbers: np.ndarray) -> None:
        self._data, self._numbers = data, numbers
        self._slots = np.full(len(numbers), -1, np.int64)
        self._rows: Any = None

    def take(self, places: np.ndarray) -> Any:
        """Return some rows in float64, in the order asked for.

        Parameters
        ----------
        places : ndarray of shape (n_taken,), int64
            Where they stand among `numbers`, each once.

        Returns
        -------
        ndarray of shape (n_taken, n_features) or csr_matrix
            The rows.
        """
        missing = places[self._slots[places] < 0]
        if len(missing):
            new, first = self._data.host_rows(self._numbers[missing]).astype(np.float64), 0
            if self._rows is not None:
                first = self._rows.shape[0]
                stack = np.concatenate if isinstance(new, np.ndarray) else _stacked
                new = stack((self._rows, new))
            self._rows = new
            self._slots[missing] = np.arange(first, first + len(missing))
        return self._rows[self._slots[places]]


def _stacked(blocks: tuple[csr_matrix, csr_matrix]) -> csr_matrix:
    return vstack(blocks, format="csr")
