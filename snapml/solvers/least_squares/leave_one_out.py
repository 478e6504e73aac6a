"""Ridge predictions of every row by the model that has not seen it, for some penalties.

A row's residual without itself is its residual divided by one minus its leverage; of a matrix wider
than long, both are scaled by the penalty, so that nothing cancels. docs/algorithms.md, section 15.
Leverages come from a factor for each penalty, or from eigenvectors for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import eigh, svd

from snapml.data import Matrix
from snapml.solvers.least_squares.centered_rows import CenteredRows, work_entries
from snapml.solvers.least_squares.ridge_factor import RidgeFactor
from snapml.solvers.rows.cpu_rows import check_rows, margins
from snapml.solvers.threads import FEW_OPERATIONS, limit_blas_threads, resolve_n_threads

__all__ = ["LeaveOneOut"]

# Times that eigenvectors cost a Cholesky factor of the same matrix, half of their work going
# through memory; a factor and the inverse; a factor and its own inverse. From 300 to 4,000 rows.
_FACTORS_OF_EIGENVECTORS, _FACTORS_OF_INVERSE, _FACTORS_OF_TRIANGLE = 16.0, 2.4, 1.8
# Of the trace: rounding of a factor is far below a penalty that is more.
_LEAST_SHARE = 1e-11


class _Errors(NamedTuple):
    """Residuals without the rows as fractions, and the coefficients with them.

    Attributes
    ----------
    numerators : ndarray of shape (n_rows, n_targets)
    denominators : ndarray of shape (n_rows,)
    coef : ndarray of shape (n_features, n_targets) or None
        Of the model of all rows; None means the columns times the numerators.
    """

    numerators: np.ndarray
    denominators: np.ndarray
    coef: np.ndarray | None


class _Solver(Protocol):
    """Ridge regression of rows and targets."""

    def errors(self, alpha: float) -> _Errors:
        """Return the errors of one of the penalties."""


class LeaveOneOut:
    """Ridge regression with one row left out, for every row and some penalties.

    Parameters
    ----------
    matrix : Matrix
        The rows.
    targets : ndarray of shape (n_rows, n_targets)
        y, finite.
    row_weights : ndarray of shape (n_rows,) or None
        s_i; None means that all are one.
    fit_intercept : bool
        Whether there is an unpenalised b.
    alphas : sequence of float
        The penalties that will be asked for, positive.
    by_svd : bool, default=False
        Whether to decompose the rows themselves: slower and more exact than their products, where
        penalties are tiny.
    n_threads : int or None, default=None
        Threads of BLAS; None means all that the process may use, one on small data.

    Attributes
    ----------
    rows : CenteredRows
        With what a fit of all rows can take from here.

    Raises
    ------
    NonFiniteError, ValueError
        If the matrix holds what no solver can work with.
    """

    def __init__(
        self,
        matrix: Matrix,
        targets: np.ndarray,
        row_weights: np.ndarray | None,
        fit_intercept: bool,
        alphas: Sequence[float],
        *,
        by_svd: bool = False,
        n_threads: int | None = None,
    ) -> None:
        check_rows(matrix, n_threads)
        self._matrix, self._targets = matrix, np.asarray(targets, dtype=np.float64)
        self._n_threads = resolve_n_threads(n_threads, work_entries(matrix))
        self.rows = CenteredRows(matrix, row_weights, fit_intercept, n_threads=self._n_threads)
        centered, mean, rest = self.rows.center(targets)
        self._target_mean = mean + rest
        total = self.rows.weights.sum()
        # The intercept's own direction among the rows: of no penalty, so its leverage is fixed.
        constant = np.sqrt(self.rows.weights / total) * (1.0 if fit_intercept else 0.0)
        if float(work_entries(matrix)) * min(matrix.shape) <= FEW_OPERATIONS:
            self._n_threads = 1
        with limit_blas_threads(self._n_threads):
            self._solver = _solver(self.rows, centered, constant, np.asarray(alphas), by_svd)

    def residuals(self, alpha: float) -> np.ndarray:
        """Return ``sqrt(s_i) (y_i - prediction of row i without it)``.

        Parameters
        ----------
        alpha : float
            One of the penalties.

        Returns
        -------
        ndarray of shape (n_rows, n_targets)
            Zero where the weight is.
        """
        return self._residuals(self._errors(alpha))

    def predictions(self, alpha: float) -> np.ndarray:
        """Return the prediction of every row without it.

        Parameters
        ----------
        alpha : float
            One of the penalties.

        Returns
        -------
        ndarray of shape (n_rows, n_targets)
            Of a row of weight zero, the prediction of the model of all rows.
        """
        errors = self._errors(alpha)
        roots = np.sqrt(self.rows.weights)
        is_seen = roots > 0
        out = np.empty_like(self._targets)
        residual = self._residuals(errors)[is_seen] / roots[is_seen, np.newaxis]
        out[is_seen] = self._targets[is_seen] - residual
        if not is_seen.all():
            coef = errors.coef
            if coef is None:
                coef = self.rows.transposed_dot(errors.numerators)
            intercept = self._target_mean - self.rows.mean @ coef
            for target, (w, b) in enumerate(zip(coef.T, intercept, strict=True)):
                every = margins(self._matrix, w, float(b), self._n_threads)
                out[~is_seen, target] = every[~is_seen]
        return out

    def _errors(self, alpha: float) -> _Errors:
        with limit_blas_threads(self._n_threads):
            return self._solver.errors(alpha)

    @staticmethod
    def _residuals(errors: _Errors) -> np.ndarray:
        return errors.numerators / errors.denominators[:, np.newaxis]


def _solver(
    rows: CenteredRows, centered: np.ndarray, constant: np.ndarray, alphas: np.ndarray, by_svd: bool
) -> _Solver:
    """Return what is cheapest for so many penalties."""
    n_rows, n_columns = rows.shape
    if n_rows <= n_columns:
        kernel = rows.kernel()
        cost = len(alphas) * _FACTORS_OF_TRIANGLE
        if cost <= _FACTORS_OF_EIGENVECTORS and _is_exact(kernel, alphas):
            # With the constant added, along which centred targets have nothing: it changes no fit.
            rows.keep(kernel=kernel)
            return _RowsFactored(kernel, centered, constant)
        return _RowsDecomposed(kernel, centered, constant)
    if by_svd:
        return _ColumnsDecomposed(
            rows, centered, constant, _Principal.of_rows(rows, centered, alphas)
        )
    gram = rows.gram()
    # In factors; a triangle in parts, times the rows, is little more than half of a square.
    product = 6.0 * n_rows / n_columns
    once = _FACTORS_OF_EIGENVECTORS + product
    each = _FACTORS_OF_INVERSE if rows.stays_sparse else _FACTORS_OF_TRIANGLE + 0.56 * product
    if len(alphas) * each <= once and _is_exact(gram, alphas):
        rows.keep(gram=gram)
        return _ColumnsFactored(rows, gram, centered, constant)
    parts = _Principal.of_products(rows, gram, centered, alphas)
    return _ColumnsDecomposed(rows, centered, constant, parts)


def _is_exact(products: np.ndarray, alphas: np.ndarray) -> bool:
    """Return whether factors round by nothing beside the penalties."""
    return bool(alphas.min() >= _LEAST_SHARE * np.trace(products))


class _RowsFactored:
    """No more rows than columns, a factor of the rows' products for each penalty."""

    def __init__(self, kernel: np.ndarray, centered: np.ndarray, constant: np.ndarray) -> None:
        self._centered, self._constant = centered, constant
        # Centred rows have the constant as eigenvector of zero, whose inverse would be much more
        # than what is left of it without the constant; made an average one, nothing cancels.
        self._weight = (np.trace(kernel) / len(kernel) or 1.0) if constant.any() else 0.0
        self._kernel = kernel
        if self._weight:
            _add_outer(self._weight, constant, kernel)

    def errors(self, alpha: float) -> _Errors:
        factor = RidgeFactor(self._kernel, alpha)
        numerators = factor.solve(self._centered)
        denominators = factor.inverse_diagonal()
        denominators -= self._constant**2 / (alpha + self._weight)
        return _Errors(numerators, denominators, None)


class _RowsDecomposed:
    """No more rows than columns, eigenvectors over the rows for all penalties."""

    def __init__(self, kernel: np.ndarray, centered: np.ndarray, constant: np.ndarray) -> None:
        kept = slice(None)
        if constant.any():
            # Made the largest, the constant is the last one, and no other is mixed with it.
            _add_outer(2.0 * (np.trace(kernel) + 1.0), constant, kernel)
            kept = slice(None, -1)
        eigenvalues, vectors = eigh(kernel, overwrite_a=True, check_finite=False, driver="evd")
        self._eigenvalues = np.maximum(eigenvalues[kept], 0.0)
        self._basis = vectors[:, kept]
        self._squares = self._basis**2
        self._projected = self._basis.T @ centered

    def errors(self, alpha: float) -> _Errors:
        factors = 1.0 / (self._eigenvalues + alpha)
        numerators = self._basis @ (factors[:, np.newaxis] * self._projected)
        return _Errors(numerators, self._squares @ factors, None)


class _ColumnsFactored:
    """More rows than columns, a factor of the columns' products for each penalty."""

    def __init__(
        self, rows: CenteredRows, gram: np.ndarray, centered: np.ndarray, constant: np.ndarray
    ) -> None:
        self._rows, self._gram, self._centered, self._constant = rows, gram, centered, constant
        self._products = rows.transposed_dot(centered)

    def errors(self, alpha: float) -> _Errors:
        factor = RidgeFactor(self._gram, alpha)
        coef = factor.solve(self._products)
        leverages = self._rows.forms(factor)
        residual = self._centered - self._rows.dot(coef)
        return _Errors(residual, 1.0 - leverages - self._constant**2, coef)


class _ColumnsDecomposed:
    """More rows than columns, the principal directions for all penalties."""

    def __init__(
        self,
        rows: CenteredRows,
        centered: np.ndarray,
        constant: np.ndarray,
        parts: _Principal,
    ) -> None:
        self._rows, self._centered, self._constant, self._parts = rows, centered, constant, parts

    def errors(self, alpha: float) -> _Errors:
        parts = self._parts
        coef = parts.directions @ (parts.projected / (parts.eigenvalues[:, np.newaxis] + alpha))
        residual = self._centered - self._rows.dot(coef)
        return _Errors(residual, 1.0 - parts.leverages[alpha] - self._constant**2, coef)


class _Principal(NamedTuple):
    """Principal directions of the rows.

    Attributes
    ----------
    eigenvalues : ndarray of shape (k,)
        Squares of the lengths along them.
    directions : ndarray of shape (n_features, k)
        Orthonormal.
    projected : ndarray of shape (k, n_targets)
        The columns' products with the targets, along them.
    leverages : dict
        By penalty those of all rows.
    """

    eigenvalues: np.ndarray
    directions: np.ndarray
    projected: np.ndarray
    leverages: dict[float, np.ndarray]

    @classmethod
    def of_products(
        cls, rows: CenteredRows, gram: np.ndarray, centered: np.ndarray, alphas: np.ndarray
    ) -> _Principal:
        """Decompose the columns' products."""
        values, directions = eigh(gram, overwrite_a=True, check_finite=False, driver="evd")
        values = np.maximum(values, 0.0)
        leverages = rows.squares_dot(directions, 1.0 / (values[:, np.newaxis] + alphas))
        projected = directions.T @ rows.transposed_dot(centered)
        return cls(values, directions, projected, _by_alpha(alphas, leverages))

    @classmethod
    def of_rows(cls, rows: CenteredRows, centered: np.ndarray, alphas: np.ndarray) -> _Principal:
        """Decompose the rows themselves."""
        left, singular, right = svd(
            rows.toarray(), full_matrices=False, overwrite_a=True, check_finite=False
        )
        squares = (singular**2)[:, np.newaxis]
        leverages = left**2 @ (squares / (squares + alphas))
        projected = singular[:, np.newaxis] * (left.T @ centered)
        return cls(singular**2, right.T, projected, _by_alpha(alphas, leverages))


def _by_alpha(alphas: np.ndarray, columns: np.ndarray) -> dict[float, np.ndarray]:
    return dict(zip(alphas.tolist(), columns.T, strict=True))


def _add_outer(weight: float, vector: np.ndarray, to: np.ndarray) -> None:
    """Add ``weight * vector vector^T`` without a matrix of its own."""
    for scaled, row in zip(weight * vector, to, strict=True):
        row += scaled * vector
