"""Positive semidefinite matrices, factored on the host or where an engine's rows are."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from snapml.solvers.engine import PrimalEngine
from snapml.solvers.threads import blas_threads_for

__all__ = ["DeviceFactor", "Factor", "make_factor"]

# The pivots of a matrix with unit diagonal tell how close to singular it is.
_LEAST_PIVOT = 1e-6
# Up to here LAPACK is done before a device's launches are queued. An estimate: no card has
# measured it yet.
_MOST_HOST_COLUMNS = 128


def make_factor(engine: PrimalEngine, matrix: Any, is_penalised: bool) -> Factor | DeviceFactor:
    """Factor a matrix of an engine's array module, on the host where that takes no time.

    Parameters
    ----------
    engine : PrimalEngine
        Whose arrays the matrix is one of.
    matrix : array of shape (size, size), float64
        Symmetric.
    is_penalised : bool
        Whether it is definite, however small its least eigenvalue.

    Returns
    -------
    Factor or DeviceFactor
        Takes and returns arrays of the engine's `vectors`.
    """
    is_small = engine.vectors is np and len(matrix) <= _MOST_HOST_COLUMNS
    if engine.device is None or is_small:
        return Factor(engine.to_host(matrix), is_penalised, engine.n_threads)
    return DeviceFactor(engine, matrix, is_penalised)


class Factor:
    """A positive semidefinite matrix, factored; its null space, if any, is left alone.

    Attributes
    ----------
    size : int
        Of the matrix.
    diagonal : ndarray of shape (size,)
        Square roots of its diagonal, 1 where that is zero.
    null_space : ndarray of shape (size, n_null) or None
        An orthonormal basis.
    """

    def __init__(self, matrix: np.ndarray, is_penalised: bool, n_threads: int = 1) -> None:
        self.size = len(matrix)
        self.null_space: np.ndarray | None = None
        diagonal = np.sqrt(np.maximum(matrix.diagonal(), np.finfo(np.float64).tiny))
        self.diagonal = np.where(matrix.diagonal() > 0.0, diagonal, 1.0)
        scaled = matrix / self.diagonal[:, None]
        scaled /= self.diagonal
        self._cholesky = None
        try:
            with blas_threads_for(self.size**3 / 3, n_threads):
                # In the order that LAPACK takes without a copy.
                factor = cho_factor(scaled.T, lower=True, overwrite_a=True, check_finite=False)
            if is_penalised or factor[0].diagonal().min() > _LEAST_PIVOT:
                self._cholesky = factor
                return
        except LinAlgError:
            pass  # semidefinite to working precision: eigenvalues tell what is there
        values, vectors = eigh(matrix, check_finite=False)
        is_null = _are_zero(values)
        self._vectors = vectors[:, ~is_null]
        self._values = values[~is_null]
        self.null_space = vectors[:, is_null] if is_null.any() else None

    def inverse(self) -> np.ndarray:
        """Return the (pseudo-)inverse."""
        return self.solve(np.eye(self.size))

    def solve(self, vector: np.ndarray) -> np.ndarray:
        """Return the (pseudo-)inverse times a vector or columns of vectors."""
        if self._cholesky is None:
            projected = self._vectors.T @ vector
            values = self._values if vector.ndim == 1 else self._values[:, None]
            return np.asarray(self._vectors @ (projected / values))
        diagonal = self.diagonal if vector.ndim == 1 else self.diagonal[:, None]
        return np.asarray(
            cho_solve(self._cholesky, vector / diagonal, check_finite=False) / diagonal
        )


class DeviceFactor:
    """The same for a matrix on a device, by its explicit inverse.

    A step then is a product of a matrix and a vector; the triangular solves of a factor wait for
    one column after the other.
    """

    def __init__(self, engine: PrimalEngine, matrix: Any, is_penalised: bool) -> None:
        self._engine = engine
        self.size = len(matrix)
        self.null_space: np.ndarray | None = None
        xp = engine.xp
        diagonal = matrix.diagonal()
        tiny = float(np.finfo(np.float64).tiny)
        scale = xp.where(diagonal > 0.0, xp.sqrt(xp.maximum(diagonal, tiny)), 1.0)
        self.diagonal = scale
        scaled = matrix / scale[:, None] / scale
        least = 0.0 if is_penalised else _LEAST_PIVOT
        inverse = self._inverse_of_definite(scaled, least)
        self._inverse = (
            self._pseudo_inverse(matrix) if inverse is None else inverse / scale[:, None] / scale
        )

    def inverse(self) -> Any:
        """Return the (pseudo-)inverse, where the rows are."""
        return self._inverse

    def solve(self, vector: Any) -> Any:
        """Return the (pseudo-)inverse times a vector or columns of vectors."""
        return self._engine.to_vectors(self._inverse @ self._engine.to_rows(vector))

    def _inverse_of_definite(self, scaled: Any, least_pivot: float) -> Any:
        """Return the inverse of a matrix with unit diagonal, None where it is close to singular."""
        device = self._engine.device
        try:
            lower = device.cholesky(scaled)
        except LinAlgError:
            return None  # as on the host
        if not float(lower.diagonal().min()) > least_pivot:
            return None
        inverse = device.solve_lower(lower, device.xp.eye(self.size))
        return inverse.T @ inverse

    def _pseudo_inverse(self, matrix: Any) -> Any:
        """Return the pseudo-inverse of a semidefinite matrix; keep its null space on the host."""
        xp, engine = self._engine.xp, self._engine
        values, vectors = xp.linalg.eigh(matrix)
        is_null = _are_zero(engine.to_host(values))
        n_null = int(is_null.sum())  # the values ascend
        if n_null:
            self.null_space = engine.to_host(xp.ascontiguousarray(vectors[:, :n_null]))
        kept = vectors[:, n_null:]
        return (kept / values[n_null:]) @ kept.T


def _are_zero(values: np.ndarray) -> np.ndarray:
    """Return which eigenvalues, in ascending order, are rounding."""
    floor = values[-1] * len(values) * np.finfo(np.float64).eps * 16.0
    return np.asarray(values <= floor)
