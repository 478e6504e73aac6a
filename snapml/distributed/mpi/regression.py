"""The regressors of `snapml` with L1 penalties, and without any, on the ranks of an MPI job."""

from __future__ import annotations

from typing import Any

import numpy as np

import snapml
from snapml.distributed.mpi.estimators import MpiEstimator

__all__ = ["ElasticNet", "Lasso", "LinearRegression"]


class LinearRegression(MpiEstimator, snapml.LinearRegression):
    """`snapml.LinearRegression` on the rows of all ranks."""


class ElasticNet(MpiEstimator, snapml.ElasticNet):
    """`snapml.ElasticNet` on the rows of all ranks."""

    def _terms(self) -> dict[str, str]:
        _refuse_gram(self.precompute)
        return super()._terms()


class Lasso(MpiEstimator, snapml.Lasso):
    """`snapml.Lasso` on the rows of all ranks."""

    def _terms(self) -> dict[str, str]:
        _refuse_gram(self.precompute)
        return super()._terms()


def _refuse_gram(precompute: Any) -> None:
    """Refuse a Gram matrix: no rank has the rows to check it by, and none would use it."""
    if np.ndim(precompute):
        raise NotImplementedError(
            f"precompute: expected 'auto', True or False on an MPI communicator, got a matrix of "
            f"shape {np.shape(precompute)}"
        )
