"""Curvature matrices that turn gradients into quasi-Newton steps.

A curvature is made from the rows of an engine, as a rule a sample of the data's, at the engine's
present point: the Hessian of the objective where there are few columns, its block of the heaviest
columns and its diagonal elsewhere (docs/algorithms.md, section 8).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from snapml.problems import Intercept
from snapml.solvers.communicator import Communicator
from snapml.solvers.engine import PrimalEngine, own_curvatures
from snapml.solvers.newton.factor import DeviceFactor, Factor, make_factor
from snapml.solvers.rows.scaled_rows import ScaledRows

__all__ = [
    "HOT_COLUMNS",
    "MOST_DENSE_COLUMNS",
    "MOST_JOINT_COLUMNS",
    "Curvature",
    "DenseCurvature",
    "HotCurvature",
    "ScaledColumns",
    "make_curvature",
]

# Up to here the Hessians of all pairs of classes are formed, beyond only those of each class.
MOST_JOINT_COLUMNS = 1200
# The hot block of wide data, and how many columns make dense data wide.
HOT_COLUMNS = 512
MOST_DENSE_COLUMNS = 4096
# A gradient along directions without curvature is rounding up to this share of the rows' weight.
_FLAT_SLOPE = 1e-6


class Curvature(Protocol):
    """An approximate Hessian of the objective, for arrays of the engine's `vectors`."""

    def solve(self, gradient: Any) -> Any:
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
    most_columns = HOT_COLUMNS if engine.is_sparse else MOST_DENSE_COLUMNS
    if engine.n_features > most_columns:
        return HotCurvature(engine, communicator)
    return DenseCurvature(engine, communicator)


def _ridge_of_intercept(engine: PrimalEngine) -> float:
    """Return what the penalty adds to the curvature of the intercept's column."""
    if engine.problem.intercept is Intercept.FREE:
        return 0.0
    # Without an intercept it is a column of zeros.
    return engine.problem.penalty.l2 if engine.bias_column else 1.0


class ScaledColumns:
    """The columns (x - mean) / scale that Hessians are formed in, and steps and slopes there.

    A Hessian is well conditioned there wherever the problem is, whatever the units of the data; the
    mean is subtracted only where a free intercept makes that the same problem.

    Parameters
    ----------
    engine : PrimalEngine
        Shard of the rows.
    communicator : Communicator
        Adds up over the shards.

    Attributes
    ----------
    rows : ScaledRows
        The rows there.
    ridge : ndarray of shape (n_features + 1,), float64
        What the penalty adds to the diagonal of a Hessian of one output.
    """

    def __init__(self, engine: PrimalEngine, communicator: Communicator) -> None:
        self._bias_column = engine.bias_column
        self.rows = ScaledRows(engine, communicator)
        self._mean = engine.to_vectors(self.rows.mean)
        self._scale = engine.to_vectors(self.rows.scale)
        l2 = engine.problem.penalty.l2
        self.ridge = np.append(l2 / self.rows.scale**2, _ridge_of_intercept(engine))

    def scaled(self, gradient: Any) -> Any:
        """Return a gradient of shape (n_outputs, n_features + 1) in these columns."""
        scaled = gradient.copy()
        if self._bias_column:
            scaled[:, :-1] -= self._mean / self._bias_column * gradient[:, -1:]
        scaled[:, :-1] /= self._scale
        return scaled

    def step_in_columns(self, step: Any) -> Any:
        """Return a step in these columns as one in the columns as they are, in its place."""
        step[:, :-1] /= self._scale
        if self._bias_column:
            step[:, -1] -= step[:, :-1] @ self._mean / self._bias_column
        return step


class DenseCurvature:
    """The Hessian in centred and scaled columns, factored; no step where there is no curvature."""

    def __init__(self, engine: PrimalEngine, communicator: Communicator) -> None:
        self._problem = engine.problem
        self._vectors, self._to_host = engine.vectors, engine.to_host
        self._columns = ScaledColumns(engine, communicator)
        self._rows, self._ridge = self._columns.rows, self._columns.ridge
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
        if self._problem.loss.is_joint:
            hessians = self._softmax_hessians(engine)
        else:
            hessians = self._separate_hessians(engine, communicator)
        self._factors: list[Factor | DeviceFactor] = []
        for hessian in hessians:
            hessian = communicator.allreduce_sum(hessian)
            repeats = len(hessian) // len(self._ridge)
            diagonal = hessian.reshape(-1)[:: len(hessian) + 1]
            # Few rows see too little curvature in some directions: steps there would be too long.
            diagonal *= 1.0 + self._shrinkage
            diagonal += engine.to_rows(np.tile(self._ridge, repeats))
            self._factors.append(make_factor(engine, hessian, self._problem.penalty.l2 > 0.0))

    @property
    def rows(self) -> ScaledRows:
        """The rows that it is made from."""
        return self._rows

    def parts(self, gradient: Any) -> list[tuple[Factor | DeviceFactor, Any]]:
        """Return the factored Hessians of outputs, or one of all, each with its share of a slope.

        Parameters
        ----------
        gradient : array of shape (n_outputs, n_features + 1), float64
            In the columns as they are.

        Returns
        -------
        list of (Factor, array)
            In the centred and scaled columns.
        """
        scaled = self._columns.scaled(gradient)
        if len(self._factors) == 1 and self._factors[0].size == scaled.size:
            return [(self._factors[0], scaled.ravel())]
        factors = self._factors * (len(scaled) if len(self._factors) == 1 else 1)
        return list(zip(factors, scaled, strict=True))

    @property
    def is_hessian(self) -> bool:
        """Whether nothing is left out: neither rows, by itself, nor what couples the classes."""
        return not self._problem.loss.is_joint or len(self._factors) == 1

    def misses(self, gradient: Any, total_weight: float) -> bool:
        """Return whether a gradient leads along directions in which there is no curvature.

        Parameters
        ----------
        gradient : array of shape (n_outputs, n_features + 1), float64
            In the columns as they are.
        total_weight : float
            Sum of c_i: the gradient in scaled columns is measured by it.

        Returns
        -------
        bool
            True where `solve` leaves out what is no rounding.
        """
        if all(factor.null_space is None for factor in self._factors):
            return False
        return any(
            factor.null_space is not None
            and bool(
                np.abs(factor.null_space.T @ self._to_host(part)).max() > _FLAT_SLOPE * total_weight
            )
            for factor, part in self.parts(gradient)
        )

    def solve(self, gradient: Any) -> Any:
        """Return the Hessian's inverse times a gradient.

        Parameters
        ----------
        gradient : array of shape (n_outputs, n_features + 1), float64
            In the columns as they are.

        Returns
        -------
        array of shape (n_outputs, n_features + 1), float64
            A step in the coefficients as they are.
        """
        scaled = self._columns.scaled(gradient)
        if len(self._factors) == 1 and len(gradient) > 1 and self._factors[0].size == scaled.size:
            step = self._factors[0].solve(scaled.ravel()).reshape(scaled.shape)
        elif len(self._factors) == 1:
            step = self._factors[0].solve(scaled.T).T
        else:
            parts = zip(self._factors, scaled, strict=True)
            step = self._vectors.stack([factor.solve(part) for factor, part in parts])
        return self._columns.step_in_columns(step)

    def without_null_space(
        self, engine: PrimalEngine, communicator: Communicator, coef: np.ndarray
    ) -> np.ndarray:
        """Return the shortest coefficients with the same margins.

        Parameters
        ----------
        engine : PrimalEngine
            The engine the curvature was made from.
        communicator : Communicator
            Adds up over the shards.
        coef : ndarray of shape (n_outputs, n_features + 1), float64
            Coefficients of a problem without a penalty.

        Returns
        -------
        ndarray of shape (n_outputs, n_features + 1), float64
            As short as the rows allow; the intercept makes up for the columns' means. Both are
            of the host.
        """
        if all(factor.null_space is None for factor in self._factors):
            return coef
        if self._factors[0].size != coef.shape[1]:
            return coef
        # The Hessian's own null space may hold directions in which the curvature has died away,
        # as it does where classes are separable: margins do change there.
        weights = engine.row_weights()
        weights = weights if weights.ndim == 1 else weights.sum(axis=0)
        gram = communicator.allreduce_sum(self._rows.gram((weights > 0.0).astype(np.float64)))
        gram.reshape(-1)[:: len(gram) + 1] += engine.to_rows(self._ridge)
        null = make_factor(engine, gram, False).null_space
        if null is None:
            return coef
        ways = null[:-1] / self._rows.scale[:, None]
        basis = np.linalg.qr(ways)[0]
        moved = coef.copy()
        excess = (coef[:, :-1] @ basis) @ basis.T
        moved[:, :-1] -= excess
        bias_column = engine.bias_column
        if bias_column:
            # The means are those of all rows; along these ways those that weigh may have another.
            shares = np.linalg.lstsq(ways, excess.T, rcond=None)[0]
            moved[:, -1] += excess @ self._rows.mean / bias_column - shares.T @ null[-1]
        return moved

    def _separate_hessians(self, engine: PrimalEngine, communicator: Communicator) -> list[Any]:
        """Return one Hessian an output, or one for all outputs where theirs are the same."""
        curvatures = engine.curvatures()
        if len(curvatures) > 1:
            n_different = np.array([float((curvatures != curvatures[0]).any())])
            if communicator.allreduce_sum(n_different)[0] == 0.0:
                curvatures = curvatures[:1]
        return list(map(self._rows.gram, curvatures))

    def _softmax_hessians(self, engine: PrimalEngine) -> list[Any]:
        n_classes, size = engine.n_outputs, engine.n_features + 1
        if n_classes * size > MOST_JOINT_COLUMNS:
            return list(map(self._rows.gram, own_curvatures(engine)))
        weights, p = engine.row_weights(), engine.curvatures()
        # As where a fit begins: one Gram matrix is enough. A device's cost less than to look.
        if engine.device is None and engine.n_rows and (p == p[:, :1]).all():
            shares = np.diag(p[:, 0]) - np.outer(p[:, 0], p[:, 0])
            joint = shares[:, None, :, None] * self._rows.gram(weights)[None, :, None, :]
        else:
            joint = self._class_pairs(engine.xp, weights, p)
        # All intercepts moved alike change nothing: any curvature in that direction will do.
        bias = joint[:, -1, :, -1]
        bias += bias.trace() / n_classes**2
        return [joint.reshape(n_classes * size, n_classes * size)]

    def _class_pairs(self, xp: Any, weights: Any, p: Any) -> Any:
        """Return the Hessian's blocks, of shape (n_classes, size, n_classes, size)."""
        n_classes, size = len(p), len(self._ridge)
        joint = xp.empty((n_classes, size, n_classes, size), np.float64)
        for k in range(n_classes):
            joint[k, :, k] = self._rows.gram(weights * p[k] * (1.0 - p[k]))
            for j in range(k):
                joint[k, :, j] = -self._rows.gram(weights * p[k] * p[j])
                joint[j, :, k] = joint[k, :, j]
        return joint


class HotCurvature:
    """The Hessian's block of the heaviest columns, factored, and its diagonal elsewhere."""

    def __init__(self, engine: PrimalEngine, communicator: Communicator) -> None:
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
        xp, l2, last = engine.vectors, engine.problem.penalty.l2, engine.n_features
        self._vectors = xp
        weights = own_curvatures(engine)
        diagonals = communicator.allreduce_sum(engine.weighted_squares(weights))
        order = xp.argpartition(-diagonals.sum(axis=0), HOT_COLUMNS)
        hot = xp.sort(order[:HOT_COLUMNS])
        self._places = xp.concatenate((hot, xp.full(1, last, hot.dtype)))
        diagonals = 2.0 * diagonals + l2  # rare columns' curvature varies most
        floor = float(diagonals.max()) * 1e-12
        self._diagonals = xp.maximum(diagonals, floor if floor > 0.0 else 1.0)
        ridge = np.full(len(self._places), l2)
        ridge[-1] = _ridge_of_intercept(engine)
        blocks = communicator.allreduce_sum(engine.column_grams(engine.to_rows(hot), weights))
        self._factors = []
        for block in blocks:
            diagonal = block.reshape(-1)[:: len(block) + 1]
            diagonal += engine.to_rows(ridge)
            self._factors.append(make_factor(engine, block, l2 > 0.0))

    def solve(self, gradient: Any) -> Any:
        """Return the approximate Hessian's inverse times a gradient.

        Parameters
        ----------
        gradient : array of shape (n_outputs, n_features + 1), float64
            The gradient.

        Returns
        -------
        array of shape (n_outputs, n_features + 1), float64
            A step.
        """
        step = self._vectors.empty_like(gradient)
        step[:, :-1] = gradient[:, :-1] / self._diagonals
        for own, slopes, factor in zip(step, gradient, self._factors, strict=True):
            own[self._places] = factor.solve(slopes[self._places])
        return step
