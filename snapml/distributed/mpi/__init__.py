"""Training over MPI: `MpiCommunicator`, and estimators that take ``comm=``."""

from snapml.distributed.mpi.communicator import MpiCommunicator, RankError
from snapml.distributed.mpi.estimators import LinearSVC, LogisticRegression, Ridge

__all__ = ["LinearSVC", "LogisticRegression", "MpiCommunicator", "RankError", "Ridge"]
