"""Training over MPI: `MpiCommunicator`, estimators, loaders and metrics that take ``comm=``."""

from snapml.distributed.mpi.communicator import MpiCommunicator
from snapml.distributed.mpi.estimators import LinearSVC, LogisticRegression, Ridge
from snapml.distributed.mpi.loaders import load_parquet, load_snap, load_svmlight
from snapml.distributed.mpi.metrics import (
    accuracy_score,
    hinge_loss,
    log_loss,
    mean_squared_error,
    roc_auc_score,
)
from snapml.distributed.mpi.regression import ElasticNet, Lasso, LinearRegression
from snapml.distributed.ranks import RankError

__all__ = [
    "ElasticNet",
    "Lasso",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "MpiCommunicator",
    "RankError",
    "Ridge",
    "accuracy_score",
    "hinge_loss",
    "load_parquet",
    "load_snap",
    "load_svmlight",
    "log_loss",
    "mean_squared_error",
    "roc_auc_score",
]
