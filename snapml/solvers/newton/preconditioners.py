"""What conjugate gradients are scaled by: the Hessian's diagonal, or a product of two matrices.

The softmax's Hessian is the sum over rows of c_i M_i (x) x_i x_i^T, M_i = diag(p_i) - p_i p_i^T a
matrix of the classes. Where columns are correlated, as pixels and sensors are, its diagonal tells
next to nothing. The product of the sum of the M_i and the rows' Gram matrix has the columns' shape,
and costs one Gram matrix where the Hessian's blocks cost one a class (docs/algorithms.md,
section 8).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from snapml.problems import Intercept
from snapml.solvers.communicator import Communicator
from snapml.solvers.engine import PrimalEngine, own_curvatures
from snapml.solvers.newton.curvature import MOST_DENSE_COLUMNS, ScaledColumns
from snapml.solvers.newton.factor import DeviceFactor, Factor, make_factor

__all__ = ["DiagonalCurvature", "KroneckerCurvature"]

# Numbers of the factors of all classes: 512 MiB.
_MOST_NUMBERS = 2**26
# Classes' strengths share a factor up to this ratio: without the penalty it is right for all.
_ALIKE = 2.0
# Least strength, as a share of the largest: that of what all classes have in common is zero, and
# only the penalty curves there.
_LEAST_MIXED = 1e-6


class DiagonalCurvature:
    """The Hessian's diagonal alone: for very many columns, and for the first steps."""

    def __init__(self, engine: PrimalEngine, communicator: Communicator) -> None:
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
        self._vectors = xp = engine.vectors
        weights = own_curvatures(engine)
        diagonal = xp.empty((engine.n_outputs, engine.n_features + 1), np.float64)
        diagonal[:, :-1] = engine.weighted_squares(weights)
        diagonal[:, -1] = engine.to_vectors(engine.bias_column**2 * weights.sum(axis=1))
        diagonal = communicator.allreduce_sum(diagonal)
        is_penalised = engine.problem.intercept is Intercept.PENALISED
        diagonal[:, : None if is_penalised else -1] += engine.problem.penalty.l2
        self._diagonal = xp.where(diagonal > 0.0, diagonal, 1.0)  # no intercept: a column of zeros

    def solve(self, gradient: Any, out: Any = None) -> Any:
        """Return the inverse diagonal times a gradient, in an array where there is one for it."""
        return self._vectors.divide(gradient, self._diagonal, out=out)


class KroneckerCurvature:
    """The softmax's Hessian as a matrix of the classes times one of the columns, with the penalty.

    With V^T M V = diag(s) for the mean M of the rows' M_i, and the Gram matrix G of rows weighted
    by the traces of their c_i M_i, the solution is V (s_k G + ridge)^-1 V^T: a factor for each s_k,
    or for several that are alike.

    Parameters
    ----------
    engine : PrimalEngine
        Shard of the rows, at the point.
    communicator : Communicator
        Adds up over the shards.
    """

    def __init__(self, engine: PrimalEngine, communicator: Communicator) -> None:
        self._columns = ScaledColumns(engine, communicator)
        self.update(engine, communicator)

    @staticmethod
    def suits(engine: PrimalEngine) -> bool:
        """Return whether the loss couples the outputs, and their factors have room."""
        size = engine.n_features + 1
        is_small = size <= MOST_DENSE_COLUMNS and engine.n_outputs * size * size <= _MOST_NUMBERS
        return engine.problem.loss.is_joint and is_small

    def update(self, engine: PrimalEngine, communicator: Communicator) -> None:
        """Form and factor both matrices at the engine's present point.

        Parameters
        ----------
        engine : PrimalEngine
            The engine the curvature was made from.
        communicator : Communicator
            Adds up over the shards.
        """
        self._vectors = engine.vectors
        # Gives the memory of the last ones back.
        self._factors: list[tuple[Factor | DeviceFactor, slice, Any]] = []
        p = engine.curvatures()
        weighted = engine.row_weights() * p
        traces = own_curvatures(engine).sum(axis=0)
        products = engine.to_host(weighted @ p.T)
        mixing = np.diag(engine.to_host(weighted.sum(axis=1))) - products
        sums = np.append(mixing.ravel(), float(traces.sum()))
        sums = communicator.allreduce_sum(sums)
        gram = communicator.allreduce_sum(self._columns.rows.gram(traces))
        strengths, rotation = np.linalg.eigh(sums[:-1].reshape(mixing.shape))
        self._rotation = engine.to_vectors(rotation)
        ridge = engine.to_rows(self._columns.ridge)
        total = sums[-1] if sums[-1] > 0.0 else 1.0  # no curvature anywhere
        for strength, members, scales in _groups(strengths):
            matrix = gram * (strength / total)
            matrix.reshape(-1)[:: len(matrix) + 1] += ridge
            factor = make_factor(engine, matrix, True)
            self._factors.append((factor, members, engine.to_vectors(scales)))

    def solve(self, gradient: Any, out: Any = None) -> Any:
        """Return the inverse times a gradient, in an array where there is one for it.

        Parameters
        ----------
        gradient : array of shape (n_outputs, n_features + 1), float64
            In the columns as they are.
        out : array of its shape or None, default=None
            Receives the step.

        Returns
        -------
        array of shape (n_outputs, n_features + 1), float64
            A step in the coefficients as they are.
        """
        rotated = self._rotation.T @ self._columns.scaled(gradient)
        solved = [
            factor.solve(rotated[members].T).T * scales for factor, members, scales in self._factors
        ]
        step = self._columns.step_in_columns(self._rotation @ self._vectors.concatenate(solved))
        if out is None:
            return step
        out[...] = step
        return out


class _Group(NamedTuple):
    """Neighbouring strengths that share a factor.

    Attributes
    ----------
    strength : float
        Of the factor.
    members : slice
        Of the strengths in ascending order.
    scales : ndarray of shape (n_members, 1)
        What a solution with the factor is to be multiplied by.
    """

    strength: float
    members: slice
    scales: np.ndarray


def _groups(strengths: np.ndarray) -> list[_Group]:
    """Return groups of strengths, given in ascending order."""
    raised = np.maximum(strengths, _LEAST_MIXED * strengths[-1])
    groups, end = list[_Group](), len(raised)
    while end > 0:
        top = float(raised[end - 1])
        begin = min(int(np.searchsorted(raised, top / _ALIKE)), end - 1)
        shared, own = top / math.sqrt(_ALIKE), raised[begin:end, np.newaxis]
        scales = np.divide(shared, own, out=np.ones_like(own), where=own > 0.0)
        groups.append(_Group(shared, slice(begin, end), scales))
        end = begin
    return groups[::-1]
