"""Curvature matrices that turn gradients into quasi-Newton steps.

A curvature is made from the rows of an engine, as a rule a sample of the data's, at the engine's
present point: the Hessian of the objective where there are few columns, its block of the heaviest
columns and its diagonal elsewhere (docs/algorithms.md, section 8).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.sparse import csr_matrix

from snapml.problems import Intercept, Problem, Softmax
from snapml.solvers.communicator import Communicator
from snapml.solvers.cpu_rows import as_array
from snapml.solvers.engine import PrimalEngine

__all__ = [
    "HOT_COLUMNS",
    "Curvature",
    "DenseCurvature",
    "DiagonalCurvature",
    "HotCurvature",
    "make_curvature",
]

# Up to here the Hessians of all pairs of classes are formed, beyond only those of each class.
_MOST_JOINT_COLUMNS = 1200
# Up to here a Gram matrix in float64 costs less than what it saves.
_MOST_WIDE_COLUMNS = 256
# The hot block of wide data, and how many columns make dense data wide.
HOT_COLUMNS = 512
_MOST_DENSE_COLUMNS = 4096
# Rows are scaled in pieces of this many entries, which stay in cache.
_CHUNK_ENTRIES = 100_000


class Curvature(Protocol):
    """An approximate Hessian of the objective."""

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        """Return the approximate Hessian's inverse times `gradient`, in its shape."""


def make_curvature(
    engine: PrimalEngine, communicator: Communicator
) -> DenseCurvature | HotCurvature:
    """Return the curvature that suits the engine's rows, at its present point.

    Parameters
    ----------
    engine : PrimalEngine
        Rows and point.
    communicator : Communicator
        Adds up over the shards.

    Returns
    -------
    Curvature
        For gradients of the engine's problem.
    """
    most_columns = HOT_COLUMNS if engine.is_sparse else _MOST_DENSE_COLUMNS
    if engine.n_features > most_columns:
        return HotCurvature(engine, communicator)
    return DenseCurvature(engine, communicator)


class DenseCurvature:
    """The Hessian in centred and scaled columns, factored.

    In the columns (x - mean) / scale it is well conditioned wherever the problem is, whatever
    the units of the data; the mean is subtracted only where a free intercept makes that the same
    problem. Directions without curvature get no step.
    """

    def __init__(self, engine: PrimalEngine, communicator: Communicator) -> None:
        self._problem = engine.problem
        self._bias_column = engine.bias_column
        self._rows = as_array(engine.dataset)
        self._mean, self._scale = _moments(self._rows, engine.problem, communicator)
        is_wide = self._rows.dtype == np.float64 or engine.n_features <= _MOST_WIDE_COLUMNS
        self._dtype = np.dtype(np.float64 if is_wide else np.float32)
        self._ridge = self._scaled_penalty(engine)
        own = np.array([1.0, engine.rows_per_row]) * engine.n_rows
        n_rows, n_meant = communicator.allreduce_sum(own)
        shortage = max(0.0, engine.n_features / max(1.0, n_rows) - 0.05)
        self._shrinkage = 0.3 * shortage if n_meant > n_rows else 0.0
        self.update(engine, communicator)

    def update(self, engine: PrimalEngine, communicator: Communicator) -> None:
        """Form and factor the Hessian at the engine's present point.

        Parameters
        ----------
        engine : PrimalEngine
            The engine the curvature was made from.
        communicator : Communicator
            Adds up over the shards.
        """
        if isinstance(self._problem.loss, Softmax):
            hessians = self._softmax_hessians(engine)
        else:
            hessians = self._separate_hessians(engine, communicator)
        self._factors = []
        for hessian in hessians:
            hessian = communicator.allreduce_sum(hessian)
            repeats = len(hessian) // len(self._ridge)
            # Few rows see too little curvature in some directions: steps there would be too long.
            hessian[np.diag_indices_from(hessian)] *= 1.0 + self._shrinkage
            hessian[np.diag_indices_from(hessian)] += np.tile(self._ridge, repeats)
            self._factors.append(_Factor(hessian, self._problem.penalty.l2 > 0.0))

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        """Return the Hessian's inverse times a gradient.

        Parameters
        ----------
        gradient : ndarray of shape (n_outputs, n_features + 1), float64
            In the columns as they are.

        Returns
        -------
        ndarray of shape (n_outputs, n_features + 1), float64
            A step in the coefficients as they are.
        """
        scaled = gradient.copy()
        if self._bias_column:
            scaled[:, :-1] -= self._mean / self._bias_column * gradient[:, -1:]
        scaled[:, :-1] /= self._scale
        if len(self._factors) == 1 and len(gradient) > 1 and self._factors[0].size == scaled.size:
            step = self._factors[0].solve(scaled.ravel()).reshape(scaled.shape)
        elif len(self._factors) == 1:
            step = self._factors[0].solve(scaled.T).T
        else:
            parts = zip(self._factors, scaled, strict=True)
            step = np.array([factor.solve(part) for factor, part in parts])
        step[:, :-1] /= self._scale
        if self._bias_column:
            step[:, -1] -= step[:, :-1] @ self._mean / self._bias_column
        return step

    def without_null_space(self, coef: np.ndarray) -> np.ndarray:
        """Return the shortest coefficients with the same margins.

        Parameters
        ----------
        coef : ndarray of shape (n_outputs, n_features + 1), float64
            Coefficients of a problem without a penalty.

        Returns
        -------
        ndarray of shape (n_outputs, n_features + 1), float64
            As short as the rows allow; the intercept makes up for the columns' means.
        """
        null = self._factors[0].null_space
        if null is None or self._factors[0].size != coef.shape[1]:
            return coef
        basis = np.linalg.qr(null[:-1] / self._scale[:, None])[0]
        moved = coef.copy()
        excess = (coef[:, :-1] @ basis) @ basis.T
        moved[:, :-1] -= excess
        if self._bias_column:
            moved[:, -1] += excess @ self._mean / self._bias_column
        return moved

    def _scaled_penalty(self, engine: PrimalEngine) -> np.ndarray:
        l2 = engine.problem.penalty.l2
        ridge = np.append(l2 / self._scale**2, 0.0)
        if engine.problem.intercept is not Intercept.FREE:
            ridge[-1] = l2 if self._bias_column else 1.0  # no intercept: a column of zeros
        return ridge

    def _gram(self, weights: np.ndarray) -> np.ndarray:
        """Return A^T diag(weights) A in float64 for the scaled columns A and weights >= 0."""
        size = len(self._mean) + 1
        gram = np.zeros((size, size))
        rows = np.flatnonzero(weights)
        is_whole = len(rows) > 0.7 * len(weights)  # gathering rows costs a copy of them
        count = len(weights) if is_whole else len(rows)
        step = max(_CHUNK_ENTRIES // size, 2 * size)
        buffer = np.empty((min(step, count), size), dtype=self._dtype)
        for first in range(0, count, step):
            part = slice(first, first + step) if is_whole else rows[first : first + step]
            root = np.sqrt(weights[part]).astype(self._dtype)[:, None]
            columns = buffer[: len(root)]
            np.subtract(_dense(self._rows[part]), self._mean, out=columns[:, :-1], casting="unsafe")
            columns[:, :-1] /= self._scale.astype(self._dtype)
            columns[:, -1] = self._bias_column
            columns *= root
            gram += columns.T @ columns
        return gram

    def _separate_hessians(
        self, engine: PrimalEngine, communicator: Communicator
    ) -> list[np.ndarray]:
        """Return one Hessian an output, or one for all outputs where theirs are the same."""
        curvatures = engine.curvatures()
        n_different = np.array([float((curvatures != curvatures[0]).any())])
        if communicator.allreduce_sum(n_different)[0] == 0.0:
            curvatures = curvatures[:1]
        return [self._gram(weights) for weights in curvatures]

    def _softmax_hessians(self, engine: PrimalEngine) -> list[np.ndarray]:
        weights = engine.row_weights(np.arange(engine.n_rows))
        p = engine.curvatures()
        n_classes, size = len(p), len(self._mean) + 1
        if n_classes * size > _MOST_JOINT_COLUMNS:
            return [self._gram(weights * q * (1.0 - q)) for q in p]
        joint = np.empty((n_classes, size, n_classes, size))
        for k in range(n_classes):
            joint[k, :, k] = self._gram(weights * p[k] * (1.0 - p[k]))
            for j in range(k):
                joint[k, :, j] = -self._gram(weights * p[k] * p[j])
                joint[j, :, k] = joint[k, :, j]
        # All intercepts moved alike change nothing: any curvature in that direction will do.
        bias = joint[:, -1, :, -1]
        bias += np.trace(bias) / n_classes**2
        return [joint.reshape(n_classes * size, n_classes * size)]


class _Factor:
    """A positive semidefinite matrix, factored; its null space, if any, is left alone."""

    def __init__(self, matrix: np.ndarray, is_penalised: bool) -> None:
        self.size = len(matrix)
        self.null_space: np.ndarray | None = None
        diagonal = np.sqrt(np.maximum(matrix.diagonal(), np.finfo(np.float64).tiny))
        self._diagonal = np.where(matrix.diagonal() > 0.0, diagonal, 1.0)
        scaled = matrix / self._diagonal[:, None] / self._diagonal
        self._cholesky = None
        try:
            factor = cho_factor(scaled, lower=True, check_finite=False)
            # The pivots tell how close to singular a matrix with unit diagonal is.
            if is_penalised or factor[0].diagonal().min() > 1e-6:
                self._cholesky = factor
                return
        except LinAlgError:
            pass  # semidefinite to working precision: eigenvalues tell what is there
        values, vectors = eigh(matrix, check_finite=False)
        floor = values[-1] * self.size * np.finfo(np.float64).eps * 16.0
        is_null = values <= floor
        self._vectors = vectors[:, ~is_null]
        self._values = values[~is_null]
        self.null_space = vectors[:, is_null] if is_null.any() else None

    def solve(self, vector: np.ndarray) -> np.ndarray:
        """Return the (pseudo-)inverse times a vector or columns of vectors."""
        if self._cholesky is None:
            projected = self._vectors.T @ vector
            values = self._values if vector.ndim == 1 else self._values[:, None]
            return np.asarray(self._vectors @ (projected / values))
        diagonal = self._diagonal if vector.ndim == 1 else self._diagonal[:, None]
        return np.asarray(
            cho_solve(self._cholesky, vector / diagonal, check_finite=False) / diagonal
        )


class HotCurvature:
    """The Hessian's block of the heaviest columns, factored, and its diagonal elsewhere."""

    def __init__(self, engine: PrimalEngine, communicator: Communicator) -> None:
        self._problem = engine.problem
        self._bias_column = engine.bias_column
        rows = as_array(engine.dataset)
        self._rows = csr_matrix(rows.astype(np.float64))
        self.update(engine, communicator)

    def update(self, engine: PrimalEngine, communicator: Communicator) -> None:
        """Form and factor the block at the engine's present point.

        Parameters
        ----------
        engine : PrimalEngine
            The engine the curvature was made from.
        communicator : Communicator
            Adds up over the shards.
        """
        l2 = self._problem.penalty.l2
        curvatures = engine.curvatures()
        if isinstance(self._problem.loss, Softmax):
            weights = engine.row_weights(np.arange(engine.n_rows))
            curvatures = weights * curvatures * (1.0 - curvatures)
        squares = self._rows.copy()
        squares.data **= 2
        diagonals = communicator.allreduce_sum(np.asarray((squares.T @ curvatures.T).T))
        total = diagonals.sum(axis=0)
        self._hot = np.sort(np.argpartition(-total, HOT_COLUMNS)[:HOT_COLUMNS])
        hot = self._rows[:, self._hot]
        self._diagonals = 2.0 * diagonals + l2  # rare columns' curvature varies most
        floor = self._diagonals.max() * 1e-12
        self._diagonals = np.maximum(self._diagonals, floor if floor > 0.0 else 1.0)
        self._factors = []
        for weights in curvatures:
            block = self._block(hot, weights, communicator)
            ridge = np.full(len(block), l2)
            if self._problem.intercept is not Intercept.FREE:
                ridge[-1] = l2 if self._bias_column else 1.0  # no intercept: a column of zeros
            else:
                ridge[-1] = 0.0
            block[np.diag_indices_from(block)] += ridge
            self._factors.append(_Factor(block, l2 > 0.0))

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        """Return the approximate Hessian's inverse times a gradient.

        Parameters
        ----------
        gradient : ndarray of shape (n_outputs, n_features + 1), float64
            The gradient.

        Returns
        -------
        ndarray of shape (n_outputs, n_features + 1), float64
            A step.
        """
        step = np.empty_like(gradient)
        step[:, :-1] = gradient[:, :-1] / self._diagonals
        hot = np.append(self._hot, gradient.shape[1] - 1)
        for k, factor in enumerate(self._factors):
            step[k, hot] = factor.solve(gradient[k, hot])
        return step

    def _block(
        self, hot: csr_matrix, weights: np.ndarray, communicator: Communicator
    ) -> np.ndarray:
        """Return the Hessian of the hot columns and the intercept's column."""
        weighted = hot.multiply(weights[:, None]).tocsr()
        size = hot.shape[1] + 1
        block = np.zeros((size, size))
        block[:-1, :-1] = (hot.T @ weighted).toarray()
        block[-1, :-1] = self._bias_column * np.asarray(weighted.sum(axis=0)).ravel()
        block[:-1, -1] = block[-1, :-1]
        block[-1, -1] = self._bias_column * self._bias_column * weights.sum()
        return communicator.allreduce_sum(block)


class DiagonalCurvature:
    """The Hessian's diagonal alone: a preconditioner for very many columns."""

    def __init__(self, engine: PrimalEngine, communicator: Communicator) -> None:
        squares = csr_matrix(as_array(engine.dataset), dtype=np.float64, copy=True)
        squares.data **= 2
        self._squares = squares.T.tocsr()  # runs along the columns that it adds up
        self.update(engine, communicator)

    def update(self, engine: PrimalEngine, communicator: Communicator) -> None:
        """Form the diagonal at the engine's present point.

        Parameters
        ----------
        engine : PrimalEngine
            The engine the curvature was made from.
        communicator : Communicator
            Adds up over the shards.
        """
        weights = engine.curvatures()
        if isinstance(engine.problem.loss, Softmax):
            weights = engine.row_weights(np.arange(engine.n_rows)) * weights * (1.0 - weights)
        diagonal = np.empty((engine.n_outputs, engine.n_features + 1))
        diagonal[:, :-1] = (self._squares @ weights.T).T
        diagonal[:, -1] = engine.bias_column**2 * weights.sum(axis=1)
        diagonal = communicator.allreduce_sum(diagonal)
        is_penalised = engine.problem.intercept is Intercept.PENALISED
        diagonal[:, : None if is_penalised else -1] += engine.problem.penalty.l2
        self._diagonal = np.where(diagonal > 0.0, diagonal, 1.0)  # no intercept: a column of zeros

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        """Return the inverse diagonal times a gradient."""
        return np.asarray(gradient / self._diagonal)

    def product(self, step: np.ndarray) -> np.ndarray:
        """Return the diagonal times a step."""
        return np.asarray(step * self._diagonal)


def _dense(rows: np.ndarray | csr_matrix) -> np.ndarray:
    return rows.toarray() if isinstance(rows, csr_matrix) else rows


def _moments(
    rows: np.ndarray | csr_matrix, problem: Problem, communicator: Communicator
) -> tuple[np.ndarray, np.ndarray]:
    """Return means (zero where columns must not be centred) and scales of the columns."""
    n_rows, n_features = rows.shape
    step = max(1, _CHUNK_ENTRIES // max(1, n_features))
    chunks = [slice(first, first + step) for first in range(0, n_rows, step)]
    totals, squares = np.zeros(n_features + 1), np.zeros(n_features)
    with np.errstate(all="ignore"):  # what is not finite is found by the pass that follows
        for chunk in chunks:
            totals[:-1] += _dense(rows[chunk]).sum(axis=0, dtype=np.float64)
        totals[-1] = n_rows
        totals = communicator.allreduce_sum(totals)
        count = max(1.0, float(totals[-1]))
        is_centred = problem.intercept is Intercept.FREE
        mean = totals[:-1] / count if is_centred else np.zeros(n_features)
        for chunk in chunks:
            centred = _dense(rows[chunk]) - mean
            squares += np.einsum("ij,ij->j", centred, centred)
        scale = np.sqrt(communicator.allreduce_sum(squares) / count)
    # A constant column differs from its mean by the rounding of the mean alone.
    is_constant = ~(scale > 1e-14 * np.abs(mean)) | ~np.isfinite(scale)
    return mean, np.where(is_constant, 1.0, scale)
