"""Ridge predictions of every row by the model that has not seen it, for any penalty.

One decomposition serves all penalties: a row's residual without itself is its residual divided by
one minus its leverage (docs/algorithms.md, section 15); of a matrix wider than long, both are
scaled by the penalty, so that nothing cancels.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh, svd

from snapml.data import Matrix
from snapml.solvers.least_squares.centered_rows import CenteredRows
from snapml.solvers.rows.cpu_rows import check_rows, margins
from snapml.solvers.threads import FEW_OPERATIONS, limit_blas_threads, resolve_n_threads

__all__ = ["LeaveOneOut"]


class LeaveOneOut:
    """Ridge regression with one row left out, for every row and any penalty.

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
    by_svd : bool, default=False
        Whether to decompose the rows themselves: slower and more exact than their products, where
        penalties are tiny.
    n_threads : int or None, default=None
        Threads of BLAS; None means all that the process may use, one on small data.

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
        *,
        by_svd: bool = False,
        n_threads: int | None = None,
    ) -> None:
        check_rows(matrix, n_threads)
        self._matrix, self._targets = matrix, np.asarray(targets, dtype=np.float64)
        self._n_threads = resolve_n_threads(n_threads, matrix.n_stored)
        self._rows = CenteredRows(matrix, row_weights, fit_intercept, n_threads=self._n_threads)
        self._centered, mean, rest = self._rows.center(targets)
        self._target_mean = mean + rest
        total = self._rows.weights.sum()
        # The intercept's own direction among the rows: of no penalty, so its leverage is fixed.
        self._constant = np.sqrt(self._rows.weights / total) * (1.0 if fit_intercept else 0.0)
        self._is_wide = matrix.shape[0] <= matrix.shape[1]
        if float(matrix.n_stored) * min(matrix.shape) <= FEW_OPERATIONS:
            self._n_threads = 1
        with limit_blas_threads(self._n_threads):
            if self._is_wide:
                self._decompose_rows()
            else:
                self._decompose_columns(by_svd)
            self._projected = self._basis.T @ self._centered

    def residuals(self, alpha: float) -> np.ndarray:
        """Return ``sqrt(s_i) (y_i - prediction of row i without it)``.

        Parameters
        ----------
        alpha : float
            Penalty, positive.

        Returns
        -------
        ndarray of shape (n_rows, n_targets)
            Zero where the weight is.
        """
        with limit_blas_threads(self._n_threads):
            factors = 1.0 / (self._eigenvalues + alpha)
            if self._is_wide:
                residual = self._basis @ (factors[:, np.newaxis] * self._projected)
                return residual / (self._squares @ factors)[:, np.newaxis]
            shrunk = factors[:, np.newaxis] * self._projected
            residual = self._centered - self._basis @ shrunk
            leverage = self._squares @ factors + self._constant**2
            return residual / (1.0 - leverage)[:, np.newaxis]

    def predictions(self, alpha: float) -> np.ndarray:
        """Return the prediction of every row without it.

        Parameters
        ----------
        alpha : float
            Penalty, positive.

        Returns
        -------
        ndarray of shape (n_rows, n_targets)
            Of a row of weight zero, the prediction of the model of all rows.
        """
        roots = np.sqrt(self._rows.weights)
        is_seen = roots > 0
        out = np.empty_like(self._targets)
        residual = self.residuals(alpha)[is_seen] / roots[is_seen, np.newaxis]
        out[is_seen] = self._targets[is_seen] - residual
        if not is_seen.all():
            coef = self._coef(alpha)
            intercept = self._target_mean - self._rows.mean @ coef
            for target, (w, b) in enumerate(zip(coef.T, intercept, strict=True)):
                every = margins(self._matrix, w, float(b), self._n_threads)
                out[~is_seen, target] = every[~is_seen]
        return out

    def _coef(self, alpha: float) -> np.ndarray:
        """Return the coefficients of the model of all rows, one column per target."""
        factors = 1.0 / (self._eigenvalues + alpha)
        shrunk = factors[:, np.newaxis] * self._projected
        if self._is_wide:
            return self._rows.transposed_dot(self._basis @ shrunk)
        return self._directions @ shrunk

    def _decompose_rows(self) -> None:
        """Find eigenvectors over the rows, the intercept's left out."""
        kernel = self._rows.kernel()
        if self._constant.any():
            # Centred rows have the constant as eigenvector of zero; made the largest, it is the
            # last one, and no other is mixed with it.
            kernel += 2.0 * (np.trace(kernel) + 1.0) * np.outer(self._constant, self._constant)
        eigenvalues, vectors = eigh(kernel, overwrite_a=True, check_finite=False)
        kept = slice(None, -1) if self._constant.any() else slice(None)
        self._eigenvalues = np.maximum(eigenvalues[kept], 0.0)
        self._basis = vectors[:, kept]
        self._squares = self._basis**2

    def _decompose_columns(self, by_svd: bool) -> None:
        """Find the principal directions, and every row's place along them."""
        if by_svd:
            left, singular, right = svd(
                self._rows.toarray(), full_matrices=False, overwrite_a=True, check_finite=False
            )
            self._eigenvalues, self._directions = singular**2, right.T
            self._basis = left * singular
        else:
            eigenvalues, self._directions = eigh(
                self._rows.gram(), overwrite_a=True, check_finite=False
            )
            self._eigenvalues = np.maximum(eigenvalues, 0.0)
            self._basis = self._rows.dot(self._directions)
        self._squares = self._basis**2
