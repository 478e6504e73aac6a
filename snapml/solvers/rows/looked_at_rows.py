"""The few rows that certificates look at, kept on the host where a device has the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

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
        self._step = int(numbers[1]) if len(numbers) > 1 else 1

    @staticmethod
    def of_engine(n_rows: int) -> slice:
        """Return which of an engine's rows they are."""
        numbers = rows_looked_at(n_rows)
        return slice(0, n_rows, int(numbers[1]) if len(numbers) > 1 else 1)

    def places(self, rows: np.ndarray) -> np.ndarray | None:
        """Return where some of an engine's rows stand among these, None where one does not."""
        places = rows // self._step
        is_known = bool((places * self._step == rows).all()) and (places < self.n_rows).all()
        return places if is_known else None

    def see(self, margins: np.ndarray) -> None:
        """Take the margins of the present point, shape (n_outputs, n_looked_at), float64."""
        self._margins = margins


class KeptRows:
    """Copies of rows on the host, each fetched once.

    Parameters
    ----------
    fetch : callable
        Takes row numbers and returns these rows, an ndarray or a csr_matrix.
    """

    def __init__(self, fetch: Any) -> None:
        self._fetch = fetch
        self._places: dict[int, int] = {}
        self._rows: Any = None

    def take(self, rows: np.ndarray) -> Any:
        """Return some rows in float64, in the order asked for.

        Parameters
        ----------
        rows : ndarray of shape (n_taken,), int64
            Row numbers, each once.

        Returns
        -------
        ndarray of shape (n_taken, n_features) or csr_matrix
            The rows.
        """
        wanted = rows.tolist()
        missing = [row for row in wanted if row not in self._places]
        if missing:
            new = self._fetch(np.array(missing, dtype=np.int64)).astype(np.float64)
            if self._rows is None:
                self._rows = new
            elif isinstance(new, np.ndarray):
                self._rows = np.concatenate((self._rows, new))
            else:
                self._rows = scipy.sparse.vstack((self._rows, new), format="csr")
            for row in missing:
                self._places[row] = len(self._places)
        return self._rows[[self._places[row] for row in wanted]]
