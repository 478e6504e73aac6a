"""The weighted, centred rows of a least-squares problem, read in blocks and never copied whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix, DenseMatrix, Matrix
from snapml.solvers.communicator import Communicator, SerialCommunicator
from snapml.solvers.dense_products import add_gram, matmul
from snapml.solvers.least_squares.compiled_sums import MOST_COLUMNS, row_forms, row_sums
from snapml.solvers.least_squares.ridge_factor import RidgeFactor
from snapml.solvers.rows.cpu_rows import sparse_gram

__all__ = ["CenteredRows", "readable", "work_entries"]

# A float64 block that stays in a cache while it is used.
_BLOCK_ENTRIES = 1 << 15
_LEAST_BLOCK_ROWS = 64
# The same of sparse rows, of which to take a few costs more than to make them dense.
_TIMES_SPARSE = 4
_ROWS_A_THREAD = 1 << 10  # of a block whose products with a square matrix are all there is to do
# Places, zeros included, for one that is stored, from which on products of sparse rows cost less.
_LEAST_ZEROS = 3
# Sparse rows of at most this many entries, zeros included, are made dense: products of those take
# less time than one of SciPy's sparse products takes to begin.
_WIDE_AT_ONCE = 1 << 16
# Rows of at most this many entries are made wide and centred once, in one block: they stay in a
# cache, or close to it, and what surrounds a block would take longer than its products.
_KEPT_ENTRIES = 1 << 20
# Sparse data of at most this many entries, zeros included, are centred before they are multiplied;
# larger ones are multiplied as they are, and the products centred.
_DENSE_ENTRIES = 1 << 25
# A mean of more than so many times the spread is rounded by more than counts; rows that tell.
_FAR = 1e6
_LOOKED_AT = 64
# Rows a column from which on a triangular factor saves work.
_TALL = 2


class CenteredRows:
    """A matrix with rows ``sqrt(s_i) (x_i - mean)`` in float64.

    An unpenalised intercept is the same as centred rows and targets, means taken with the weights.

    Parameters
    ----------
    matrix : Matrix
        The rows x_i, which `snapml.solvers.rows.cpu_rows.check_rows` has passed: SciPy's products
        trust the indices.
    row_weights : ndarray of shape (n_rows,) or None
        The weights s_i; None means that all are one.
    fit_intercept : bool
        Whether to centre; otherwise the mean is zero.
    communicator : Communicator or None, default=None
        The other shards: means are those of all rows, and what is summed over rows is over all.
    n_threads : int, default=1
        Threads of products.

    Attributes
    ----------
    shape : tuple of int
        Numbers of this shard's rows, and of columns.
    n_rows_of_all : int
        Number of rows of all shards.
    total_weight : float
        Sum of the weights of all shards.
    weights : ndarray of shape (n_rows,), float64
        s_i.
    has_intercept : bool
        Whether rows are centred.
    stays_sparse : bool
        Whether products are those of the sparse rows, centred afterwards.
    mean, mean_rest : ndarray of shape (n_features,), float64
        Subtracted from every row one after the other; the rest is what rounding of a mean far from
        zero has left, and zero where means are near.
    """

    def __init__(
        self,
        matrix: Matrix,
        row_weights: np.ndarray | None,
        fit_intercept: bool,
        communicator: Communicator | None = None,
        n_threads: int = 1,
    ) -> None:
        self._matrix, self._n_threads = matrix, n_threads
        self.communicator = SerialCommunicator() if communicator is None else communicator
        self.shape = matrix.shape
        self._rows = readable(matrix)
        self._columns = self._rows.T  # SciPy makes a new object of it each time
        self.weights = np.ones(self.shape[0])
        if row_weights is not None:
            self.weights = np.asarray(row_weights, dtype=np.float64)
        self._roots = np.sqrt(self.weights)
        self._has_weights = row_weights is not None
        self._kept: np.ndarray | None = None
        self._gram: np.ndarray | None = None
        self._kernel: np.ndarray | None = None
        sums = self.total(np.array([self.weights.sum(), float(self.shape[0])]))
        self.total_weight, self.n_rows_of_all = float(sums[0]), int(sums[1])
        self.stays_sparse = any(
            self.communicator.exchange(not self.is_dense or _is_thin(self._rows))
        )
        self.has_intercept = fit_intercept
        self.mean = np.zeros(self.shape[1])
        if fit_intercept:
            self.mean = self.total(self._sum_of_rows()) / self.total_weight
        self.mean_rest = np.zeros(self.shape[1])
        if any(self.communicator.exchange(self._has_far_columns())):
            rest = np.zeros(self.shape[1])
            for rows, block in self._blocks():
                rest += self._roots[rows] @ block
            self.mean_rest = self.total(rest) / self.total_weight
            self._kept = None  # the rest was still in them

    @property
    def is_dense(self) -> bool:
        """Whether all blocks may be made dense."""
        return isinstance(self._rows, np.ndarray) or self.n_entries <= _DENSE_ENTRIES

    @property
    def _block_rows(self) -> int:
        """Number of rows to make wide together.

        A block of half as many rows as columns takes half the room of the matrix of products,
        which is read and written once for every block.
        """
        n_features = self.shape[1]
        if self.shape[0] * n_features <= _KEPT_ENTRIES:
            return max(1, self.shape[0])
        enough = max(_LEAST_BLOCK_ROWS, min(n_features, self.shape[0]) // 2)
        times = 1 if isinstance(self._rows, np.ndarray) else _TIMES_SPARSE
        return max(enough, times * _BLOCK_ENTRIES // max(1, n_features))

    @property
    def n_entries(self) -> int:
        """Number of entries of all shards, zeros included."""
        return self.n_rows_of_all * self.shape[1]

    def total(self, array: np.ndarray) -> np.ndarray:
        """Return the sum over the shards.

        Parameters
        ----------
        array : ndarray, float64
            This shard's addend.

        Returns
        -------
        ndarray
            Of the same shape.
        """
        total: np.ndarray = self.communicator.allreduce_sum(array)
        return total

    def center(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ``sqrt(s_i) (y_i - mean - rest)``, the targets' means and their rests.

        Parameters
        ----------
        targets : ndarray of shape (n_rows, n_targets)
            Any dtype.

        Returns
        -------
        centered : ndarray of shape (n_rows, n_targets), float64
            Weighted and centred.
        mean, rest : ndarray of shape (n_targets,), float64
            Zero without an intercept; the rest is zero where means are near.
        """
        values = np.asarray(targets, dtype=np.float64)
        mean, rest = np.zeros(values.shape[1]), np.zeros(values.shape[1])
        if not self.has_intercept:
            return self._roots[:, np.newaxis] * values, mean, rest
        mean = self.total(self.weights @ values) / self.total_weight
        centred = values - mean
        squares = self.total(self.weights @ centred**2) / self.total_weight
        if np.any(np.abs(mean) > _FAR * np.sqrt(squares)):
            rest = self.total(self.weights @ centred) / self.total_weight
            centred -= rest
        return self._roots[:, np.newaxis] * centred, mean, rest

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sums ``sum_i sqrt(s_i) v_ik`` of vectors over the rows of all shards.

        Of residuals they are what rounding of the means has left, zero but for that.

        Parameters
        ----------
        values : ndarray of shape (n_rows, k)
            Vectors, weighted by ``sqrt(s_i)`` as the rows are.

        Returns
        -------
        ndarray of shape (k,)
            The sums.
        """
        return self.total(self._roots @ values)

    def dot(self, coef: np.ndarray) -> np.ndarray:
        """Return the rows times some columns.

        Parameters
        ----------
        coef : ndarray of shape (n_features, k)
            Columns.

        Returns
        -------
        ndarray of shape (n_rows, k)
            The products.
        """
        if self.stays_sparse:
            return self._roots[:, np.newaxis] * (self._rows @ coef - self.mean @ coef)
        out = np.empty((self.shape[0], coef.shape[1]))
        for rows, block in self._blocks():
            matmul(block, coef, self._n_threads, out=out[rows])
        return out

    def transposed_dot(self, values: np.ndarray) -> np.ndarray:
        """Return the columns times some vectors over the rows.

        Parameters
        ----------
        values : ndarray of shape (n_rows, k)
            Vectors.

        Returns
        -------
        ndarray of shape (n_features, k)
            The products.
        """
        if self.stays_sparse:
            weighted = self._roots[:, np.newaxis] * values
            return self.total(self._columns @ weighted - np.outer(self.mean, weighted.sum(axis=0)))
        out = np.zeros((self.shape[1], values.shape[1]))
        for rows, block in self._blocks():
            out += matmul(block.T, values[rows], self._n_threads)
        return self.total(out)

    def residual(self, targets: np.ndarray, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return targets less the rows times some columns, and the columns times that.

        Parameters
        ----------
        targets : ndarray of shape (n_rows, k)
            As `center` returns them.
        coef : ndarray of shape (n_features, k)
            Columns.

        Returns
        -------
        residual : ndarray of shape (n_rows, k)
            ``targets - dot(coef)``.
        products : ndarray of shape (n_features, k)
            ``transposed_dot(residual)``, from the same read of the rows.
        """
        if self.stays_sparse:
            residual = targets - self.dot(coef)
            return residual, self.transposed_dot(residual)
        residual = np.empty_like(targets)
        products = np.zeros_like(coef)
        for rows, block in self._blocks():
            explained = matmul(block, coef, self._n_threads)
            np.subtract(targets[rows], explained, out=residual[rows])
            products += matmul(block.T, residual[rows], self._n_threads)
        return residual, self.total(products)

    def gram(self) -> np.ndarray:
        """Return the matrix of scalar products of the columns.

        Returns
        -------
        ndarray of shape (n_features, n_features), float64
            Symmetric.
        """
        if self._gram is not None:
            return self._gram
        nothing = np.empty((self.shape[0], 0))
        is_narrow = 0 < self.shape[1] <= MOST_COLUMNS and self.shape[0] > 0
        if not is_narrow or self.stays_sparse or self.mean_rest.any():
            return self.gram_and_products(nothing)[0]
        weights = self.weights if self._has_weights else None
        own = row_sums(self._matrix, nothing, weights, self.mean, self._n_threads)[0]
        return self.total(own)

    def gram_and_products(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the matrix of scalar products of the columns, and the columns times targets.

        Parameters
        ----------
        targets : ndarray of shape (n_rows, k)
            As `center` returns them.

        Returns
        -------
        gram : ndarray of shape (n_features, n_features), float64
            Symmetric.
        products : ndarray of shape (n_features, k)
            ``transposed_dot(targets)``, of dense rows from the same read.
        """
        if self._gram is not None:
            return self._gram, self.transposed_dot(targets)
        if self.stays_sparse:
            assert isinstance(self._matrix, CompressedMatrix)
            product = self.total(sparse_gram(self._matrix, self.weights, self._n_threads)[:-1, :-1])
            product -= self.total_weight * np.outer(self.mean, self.mean)
            return product, self.transposed_dot(targets)
        sums = np.zeros((self.shape[1], targets.shape[1]))
        out = np.zeros((self.shape[1], self.shape[1]))
        for rows, block in self._blocks():
            add_gram(block, out, self._n_threads)
            sums += matmul(block.T, targets[rows], self._n_threads)
        return self.total(out), self.total(sums)

    def kernel(self) -> np.ndarray:
        """Return the matrix of scalar products of the rows.

        Returns
        -------
        ndarray of shape (n_rows, n_rows), float64
            Symmetric.
        """
        n_rows = self.shape[0]
        if self._kernel is not None:
            return self._kernel
        if not self.stays_sparse:
            rows = self.toarray()
            products = np.zeros((n_rows, n_rows))
            add_gram(rows.T, products, self._n_threads)
            return products
        wide = self._rows.astype(np.float64)
        product = np.empty((n_rows, n_rows))
        shift = np.asarray(self._rows @ self.mean)
        beside = self.mean @ self.mean - shift
        step = max(1, _KEPT_ENTRIES // max(1, n_rows))
        for first in range(0, n_rows, step):  # of one block alone, what is not symmetric yet
            part = slice(first, first + step)
            own = (wide[part] @ wide.T).toarray(out=product[part])
            own += beside
            own -= shift[part, np.newaxis]
            own *= self._roots
            own *= self._roots[part, np.newaxis]
        return product

    def square_lengths(self) -> np.ndarray:
        """Return the scalar product of every row with itself, of rows that stay sparse.

        Returns
        -------
        ndarray of shape (n_rows,)
            One for each row.
        """
        wide = self._rows.astype(np.float64)
        out = np.asarray(wide.multiply(wide).sum(axis=1)).ravel() - 2.0 * (wide @ self.mean)
        return self.weights * (out + self.mean @ self.mean)

    def forms(self, factor: RidgeFactor) -> np.ndarray:
        """Return the quadratic form of the inverse of a factored matrix at every row.

        Parameters
        ----------
        factor : RidgeFactor
            Of as many columns as the rows have; not to be used any more.

        Returns
        -------
        ndarray of shape (n_rows,)
            One for each row.
        """
        if not self.stays_sparse:
            out = np.empty(self.shape[0])
            for rows, block in self._blocks(self._n_threads * _ROWS_A_THREAD):
                out[rows] = factor.square_lengths(block, self._n_threads)
            return out
        about = factor.solve(self.mean[:, np.newaxis])[:, 0]
        assert isinstance(self._matrix, CompressedMatrix)
        out = row_forms(self._matrix, factor.upper_inverse(), self._n_threads)
        out -= 2.0 * np.asarray(self._rows @ about) - self.mean @ about
        return self.weights * out

    def squares_dot(self, coef: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return the squares of products with some columns times others, block by block.

        Parameters
        ----------
        coef : ndarray of shape (n_features, k)
            Columns.
        factors : ndarray of shape (k, m)
            What the squares of `dot(coef)` are multiplied with.

        Returns
        -------
        ndarray of shape (n_rows, m)
            The products.
        """
        out = np.empty((self.shape[0], factors.shape[1]))
        if not self.stays_sparse:
            for rows, block in self._blocks():
                out[rows] = matmul(block, coef, self._n_threads) ** 2 @ factors
            return out
        shift, step = self.mean @ coef, max(1, _KEPT_ENTRIES // max(1, coef.shape[1]))
        for first in range(0, self.shape[0], step):
            part = slice(first, first + step)
            out[part] = np.square(self._rows[part] @ coef - shift) @ factors
        return self.weights[:, np.newaxis] * out

    def keep(self, *, gram: np.ndarray | None = None, kernel: np.ndarray | None = None) -> None:
        """Take products that were asked for, to be returned when they are asked for again.

        Parameters
        ----------
        gram : ndarray of shape (n_features, n_features), float64, or None, default=None
            Of the columns.
        kernel : ndarray of shape (n_rows, n_rows), float64, or None, default=None
            Of the rows.
        """
        self._gram, self._kernel = gram, kernel

    def reduced(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and targets of equal sums of squares for all coefficients.

        Those of many rows, or of several shards, are what an orthogonal transformation leaves of
        them: the triangular factor of all shards' triangular factors. Nothing is squared, and no
        digit lost.

        Parameters
        ----------
        targets : ndarray of shape (n_rows, n_targets)
            As `center` returns them.

        Returns
        -------
        rows : ndarray of shape (n_reduced, n_features), float64
            The rows themselves where there is one shard and they are few; else at most as many as
            columns of both.
        targets : ndarray of shape (n_reduced, n_targets), float64
            Theirs.
        """
        n_features = self.shape[1]
        if self.communicator.size == 1:
            array = self.toarray()
            if len(array) <= _TALL * n_features:
                return array, targets
            joint = _triangular([np.hstack([array, targets])])
            return joint[:, :n_features], joint[:, n_features:]
        factor = np.empty((0, n_features + targets.shape[1]))
        for rows, block in self._blocks():
            factor = _triangular([factor, np.hstack([block, targets[rows]])])
        joint = np.empty((0, factor.shape[1]))
        for rank in range(self.communicator.size):  # one at a time: all of them may be too many
            sent = factor if rank == self.communicator.rank else None
            joint = _triangular([joint, self.communicator.exchange(sent)[rank]])
        return joint[:, :n_features], joint[:, n_features:]

    def toarray(self) -> np.ndarray:
        """Return the rows as one array.

        Returns
        -------
        ndarray of shape (n_rows, n_features), float64
            A copy.
        """
        out = np.empty(self.shape)
        for rows, block in self._blocks():
            out[rows] = block
        return out

    def _blocks(self, least_rows: int = 0) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield weighted, centred, dense rows, some at a time: each takes the room of the last."""
        step = max(least_rows, self._block_rows)
        if self._kept is not None:
            yield slice(0, len(self._kept)), self._kept
            return
        has_rest = bool(self.mean_rest.any())
        room = np.empty((min(step, self.shape[0]), self.shape[1]))
        for start in range(0, self.shape[0], step):
            rows = slice(start, min(start + step, self.shape[0]))
            part = self._rows[rows]
            dense = part if isinstance(part, np.ndarray) else part.toarray()
            block = np.subtract(dense, self.mean, out=room[: rows.stop - start])
            if has_rest:
                block -= self.mean_rest
            if self._has_weights:
                block *= self._roots[rows, np.newaxis]
            if self._block_rows == self.shape[0]:
                self._kept = block
            yield rows, block

    def _has_far_columns(self) -> bool:
        """Return whether some rows show a dense column whose mean is rounded by what counts."""
        if not (self.has_intercept and isinstance(self._rows, np.ndarray) and len(self._rows)):
            return False
        shown = self._rows[:: max(1, len(self._rows) // _LOOKED_AT)].astype(np.float64)
        is_far = np.abs(self.mean) > _FAR * shown.std(axis=0)
        return bool(np.any(is_far & (shown != shown[0]).any(axis=0)))

    def _sum_of_rows(self) -> np.ndarray:
        """Return the weighted sum of the rows."""
        step = self._block_rows
        if not isinstance(self._rows, np.ndarray):  # as many entries in a block, not as many places
            step = max(step, _BLOCK_ENTRIES * self.shape[0] // max(1, self._rows.nnz))
        total = np.zeros(self.shape[1])
        for start in range(0, self.shape[0], step):
            part = self._rows[start : start + step].astype(np.float64)
            total += part.T @ self.weights[start : start + step]
        return total


def _is_thin(rows: Any) -> bool:
    """Return whether sparse rows have few entries, of columns that centring takes little of.

    Products are then centred without loss: no mean is much more than its column's spread.
    """
    if isinstance(rows, np.ndarray) or not rows.nnz:  # what no row shows is not for it to decide
        return False
    if rows.shape[0] * rows.shape[1] <= _WIDE_AT_ONCE:
        return False
    if _LEAST_ZEROS * rows.nnz > rows.shape[0] * rows.shape[1]:
        return False
    sums, squares = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for first in range(0, rows.nnz, _BLOCK_ENTRIES):
        part = slice(first, first + _BLOCK_ENTRIES)
        columns, values = rows.indices[part], rows.data[part].astype(np.float64)
        np.add.at(sums, columns, values)
        np.add.at(squares, columns, np.square(values))
    # Of what is not all zero, centring is to leave a hundredth of the squares.
    kept = squares - sums**2 / max(1, rows.shape[0])
    return bool(np.all(kept >= 0.01 * squares))


def _triangular(parts: list[np.ndarray]) -> np.ndarray:
    """Return the triangular factor of rows, or the rows themselves where they are fewer."""
    rows = np.vstack(parts)
    if len(rows) <= rows.shape[1]:
        return rows
    return np.asarray(np.linalg.qr(rows, mode="r"))


def work_entries(matrix: Matrix) -> int:
    """Return the entries of rows, or of the smaller of their matrices of products if they are more.

    Parameters
    ----------
    matrix : Matrix
        The rows.

    Returns
    -------
    int
        What threads are shared by.
    """
    return max(matrix.n_stored, min(matrix.shape) ** 2)


def readable(matrix: Matrix) -> Any:
    """Return rows as NumPy and SciPy read them, in the user's memory.

    Parameters
    ----------
    matrix : DenseMatrix or CompressedMatrix
        The rows.

    Returns
    -------
    ndarray or csr_matrix
        Of the same shape and dtype.
    """
    if isinstance(matrix, DenseMatrix):
        return matrix.values
    assert isinstance(matrix, CompressedMatrix)  # the only other container
    values = matrix.values
    if values is None:
        values = np.ones(matrix.n_stored, dtype=matrix.dtype)
    return csr_matrix((values, matrix.indices, matrix.indptr), shape=matrix.shape)
