"""Packed columns of all shards, copied to each: where rows are few, descent needs no other way.

What is sent is an index and a value for each entry, once a working set, and a curvature for each
row, once a model. Gram matrices of so many columns are larger, and blocks of them take more
messages (benchmarks/results/sharded_l1.csv).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csc_matrix, vstack

from snapml import _native
from snapml.problems import Intercept
from snapml.solvers.columns.column_model import minimise_on_columns
from snapml.solvers.columns.cpu_column_descent import NativeDescent
from snapml.solvers.columns.cpu_columns import CpuColumns
from snapml.solvers.communicator import Communicator
from snapml.solvers.quadratic_model import Model

__all__ = ["GatheredColumns"]


class GatheredColumns:
    """Some columns with the rows of all shards (protocol `Curved`).

    Parameters
    ----------
    engine : CpuColumns
        This shard's.
    own : csc_matrix of shape (n_own_rows, n_columns)
        This shard's rows of the columns.
    communicator : Communicator
        The other shards.
    """

    def __init__(self, engine: CpuColumns, own: csc_matrix, communicator: Communicator) -> None:
        self._engine = engine
        parts = communicator.exchange((own.indptr, own.indices, own.data, own.shape))
        shards = [csc_matrix((data, rows, at), shape=shape) for at, rows, data, shape in parts]
        self._stored = vstack(shards, format="csc", dtype=engine.dtype)
        self._indptr = self._stored.indptr.astype(np.int64)
        self._native = _native.Columns.sparse(
            engine.pool,
            self._indptr,
            self._stored.indices,
            self._stored.data,
            1.0,
            engine.dtype == np.float64,
            self._stored.shape[0],
        )

    def minimise(self, model: Model, coef: np.ndarray, target: float) -> np.ndarray:
        """Return coefficients that minimise the model of all shards to within about `target`."""
        curvatures = np.concatenate(model.communicator.exchange(model.curvatures))
        whole = _Whole(model, curvatures)
        found = minimise_on_columns(self._engine.problem, self, whole, coef, target)
        return model.agreed(found)

    def descent(self, model: Model) -> NativeDescent:
        """Return a descent on the model; refuse curvatures that overflow."""
        return NativeDescent(self._engine, self._native, model)

    def hessian_product(self, coef: np.ndarray, shift: float, curvatures: Any) -> np.ndarray:
        """Return ``X^T (h * (X coef + shift))``."""
        margins, sums = np.zeros(self._stored.shape[0]), np.empty(self._stored.shape[1])
        _native.columns_product(self._native, coef, margins)
        weighted = curvatures * (margins + shift)
        _native.columns_adjoint(self._engine.pool, self._native, weighted, sums)
        return sums

    def counts(self) -> np.ndarray:
        """Return how many entries each column stores."""
        return np.diff(self._indptr)

    def gram(self, kept: np.ndarray, model: Model) -> np.ndarray:
        """Return the model's Gram matrix of some of the columns, less a free intercept's share."""
        own = self._stored[:, kept].astype(np.float64)
        weighted = own.copy()
        weighted.data *= model.curvatures[own.indices]
        gram = np.asarray((own.T @ weighted.tocsr()).toarray())
        if self._engine.problem.intercept is Intercept.FREE:
            sums = own.T @ model.curvatures
            gram -= np.outer(sums, sums / model.curvature_sum)
        return gram


class _Whole(Model):
    """The model of all shards' rows in one place."""

    def __init__(self, model: Model, curvatures: np.ndarray) -> None:
        none = np.empty(0)
        super().__init__(model.slopes, none, curvatures, model.penalty, True, model.is_trusted)
        self._residual_sq = model.residual_sq

    @property
    def residual_sq(self) -> float:
        return self._residual_sq
