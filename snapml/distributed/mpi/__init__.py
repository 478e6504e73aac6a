"""Training over MPI: `MpiCommunicator`, and estimators that take ``comm=``."""

from snapml.distributed.mpi.communicator import MpiCommunicator, RankError
from snapml.distributed.mpi.estimators import LinearSVC, LogisticRegression, Ridge
from snapml.distributed.mpi.regression import ElasticNet, Lasso, LinearRegression

__all__ = [
    "ElasticNet",
    "Lasso",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "MpiCommunicator",
    "RankError",
    "Ridge",
]
