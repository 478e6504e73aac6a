"""Least squares with many elastic net penalties on sums over the rows, which are read once.

Where rows are more than columns, the sums of products of columns and targets are smaller than the
rows, and say all that a fit needs. Those of a fold's rows are those of all rows without the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from snapml import _native
from snapml.data import CompressedMatrix, Matrix
from snapml.problems import Penalty
from snapml.solvers.dense_products import add_gram
from snapml.solvers.least_squares import compiled_sums
from snapml.solvers.least_squares.centered_rows import readable
from snapml.solvers.rows.cpu_rows import sparse_gram
from snapml.solvers.threads import limit_blas_threads, resolve_n_threads

__all__ = ["MOST_COLUMNS", "NormalEquations", "PathModels", "RowSums"]

MOST_COLUMNS = 3000
"""Their sums take as much room as so many numbers squared, several times."""
# A float64 block that stays in a cache while it is used; and the share of entries from which on
# sparse rows are multiplied as dense ones.
_BLOCK_ENTRIES, _DENSE_SHARE = 1 << 15, 0.1
_ROWS_AT_ONCE = 256  # of the sums, which take much room


class PathModels(NamedTuple):
    """Models of several penalties.

    Attributes
    ----------
    coef : ndarray of shape (n_penalties, n_features), float64
        w.
    intercept : ndarray of shape (n_penalties,), float64
        b, less the origin's target.
    objective, gap : ndarray of shape (n_penalties,), float64
        P of each by the sums, and its duality gap.
    is_solved : bool
        Whether each has met the tolerance.
    """

    coef: np.ndarray
    intercept: np.ndarray
    objective: np.ndarray
    gap: np.ndarray
    is_solved: bool


class RowSums:
    """Weighted sums of products of columns and targets, about an origin.

    Parameters
    ----------
    origin : ndarray of shape (n_features + 1,), float64
        What is taken from each row and its target.
    products : ndarray of shape (n_features + 1, n_features + 1), float64
        Sums of c_i v_i v_i^T, v_i the row with its target as the last entry, less the origin.
    sums : ndarray of shape (n_features + 1,), float64
        Sums of c_i v_i.
    weight : float
        Sum of c_i.
    """

    def __init__(
        self, origin: np.ndarray, products: np.ndarray, sums: np.ndarray, weight: float
    ) -> None:
        self.origin, self.products, self.sums, self.weight = origin, products, sums, weight

    @classmethod
    def of_rows(
        cls,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        origin: np.ndarray,
        n_threads: int | None = None,
    ) -> RowSums:
        """Read rows.

        Parameters
        ----------
        matrix : DenseMatrix or CompressedMatrix
            Rows.
        y : ndarray of shape (n_rows,)
            Targets.
        weights : ndarray of shape (n_rows,) or None
            c_i; None means that all are one.
        origin : ndarray of shape (n_features + 1,), float64
            Near the means, so that few digits are lost; of sparse rows zero but for the target's.
        n_threads : int or None, default=None
            Threads of the products.

        Returns
        -------
        RowSums
            Of all of them.
        """
        n_rows, n_columns = matrix.shape
        own = None if weights is None else np.asarray(weights, dtype=np.float64)
        n_most = resolve_n_threads(n_threads, n_rows * n_columns)
        with limit_blas_threads(1):
            if isinstance(matrix, CompressedMatrix) and not _is_nearly_dense(matrix):
                own = np.ones(n_rows) if own is None else own
                products, sums = _sparse_sums(matrix, y, own, origin, n_most)
            else:
                products, sums = _dense_sums(matrix, y, own, origin, n_most)
        weight = float(n_rows if own is None else own.sum())
        return cls(origin, products, sums, weight)

    def without(self, part: RowSums) -> RowSums:
        """Return the sums over the other rows.

        Parameters
        ----------
        part : RowSums
            Of some of the rows, about the same origin.

        Returns
        -------
        RowSums
            Of the rest.
        """
        return RowSums(
            self.origin,
            self.products - part.products,
            self.sums - part.sums,
            self.weight - part.weight,
        )

    def equations(self, *, has_intercept: bool) -> NormalEquations | None:
        """Return the normal equations of the mean of halves of squares.

        Parameters
        ----------
        has_intercept : bool
            Whether b is fitted; if not, the origin is to be zero.

        Returns
        -------
        NormalEquations or None
            None where numbers overflow.
        """
        mean = self.sums / self.weight if has_intercept else np.zeros(len(self.sums))
        last = self.products[-1] / self.weight - mean[-1] * mean
        gram = np.divide(self.products[:-1, :-1], self.weight, order="C")
        for first in range(0, len(gram), _ROWS_AT_ONCE):
            some = slice(first, min(first + _ROWS_AT_ONCE, len(gram)))
            gram[some] -= np.outer(mean[some], mean[:-1])
        if not (np.isfinite(gram).all() and np.isfinite(last).all()):
            return None
        center = mean.copy()
        center[:-1] += self.origin[:-1]
        return NormalEquations(gram, np.ascontiguousarray(last[:-1]), float(last[-1]), center)


class NormalEquations(NamedTuple):
    """Means of products of centred columns and targets.

    Attributes
    ----------
    gram : ndarray of shape (n_features, n_features), float64
        Of the columns.
    products : ndarray of shape (n_features,), float64
        Of the columns with the targets.
    squares : float
        Of the targets.
    center : ndarray of shape (n_features + 1,), float64
        Means of columns, and of targets less the origin's: intercepts are those of such targets,
        which far ones would round. Zeros where no intercept is fitted.
    """

    gram: np.ndarray
    products: np.ndarray
    squares: float
    center: np.ndarray

    def path(
        self, penalties: list[Penalty], tol: float, start: np.ndarray | None = None
    ) -> PathModels:
        """Minimise with one penalty after the other, each from the last one's model.

        Parameters
        ----------
        penalties : list of Penalty
            Elastic nets with l1 > 0, from strong to weak.
        tol : float
            Share of each objective that its duality gap may be.
        start : ndarray of shape (n_features,), float64, or None, default=None
            Coefficients to start from.

        Returns
        -------
        PathModels
            One model for each.
        """
        coef = np.zeros((len(penalties), len(self.products)))
        if start is not None:
            coef[0] = start
        facts = np.zeros((len(penalties), 3))
        _native.gram_path(
            self.gram,
            self.products,
            self.squares,
            np.array([each.l1 for each in penalties]),
            np.array([each.l2 for each in penalties]),
            penalties[0].is_positive,
            tol,
            coef,
            facts,
        )
        intercept = self.center[-1] - coef @ self.center[:-1]
        return PathModels(coef, intercept, facts[:, 1], facts[:, 2], bool(facts[:, 0].all()))


def _is_nearly_dense(matrix: CompressedMatrix) -> bool:
    return matrix.n_stored >= _DENSE_SHARE * matrix.shape[0] * matrix.shape[1]


def _dense_sums(
    matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, origin: np.ndarray, n_threads: int
) -> tuple[np.ndarray, np.ndarray]:
    size = len(origin)
    if size <= compiled_sums.MOST_COLUMNS:
        return compiled_sums.row_sums(matrix, y[:, np.newaxis], weights, origin, n_threads)
    products, sums = np.zeros((size, size)), np.zeros(size)
    roots = np.ones(len(y)) if weights is None else np.sqrt(weights)
    for rows, block in _blocks(matrix, y, origin):
        if weights is not None:
            block *= roots[rows, np.newaxis]
        add_gram(block, products, n_threads)
        sums += roots[rows] @ block  # of few columns faster than `sum`
    return products, sums


def _blocks(
    matrix: Matrix, y: np.ndarray, origin: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield rows with their targets less the origin, some at a time, in one buffer."""
    values, size = readable(matrix), len(origin)
    step = max(size // 2, _BLOCK_ENTRIES // size, 1)
    buffer = np.empty((min(step, len(y)), size))
    for first in range(0, len(y), step):
        rows = slice(first, min(first + step, len(y)))
        block = buffer[: rows.stop - first]
        part = values[rows]
        dense = part if isinstance(part, np.ndarray) else part.toarray()
        np.subtract(dense, origin[:-1], out=block[:, :-1])
        np.subtract(y[rows], origin[-1], out=block[:, -1])
        yield rows, block


def _sparse_sums(
    matrix: CompressedMatrix, y: np.ndarray, weights: np.ndarray, origin: np.ndarray, n_threads: int
) -> tuple[np.ndarray, np.ndarray]:
    targets = np.asarray(y, dtype=np.float64) - origin[-1]
    products = sparse_gram(matrix, weights, n_threads)
    sums = np.append(products[-1, :-1], weights @ targets)
    weighted = weights * targets
    products[-1, :-1] = products[:-1, -1] = readable(matrix).T.astype(np.float64) @ weighted
    products[-1, -1] = weighted @ targets
    return products, sums
