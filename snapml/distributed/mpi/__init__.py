"""Training over MPI: `MpiCommunicator`, estimators, loaders and metrics that take ``comm=``."""

from typing import Any

from snapml.distributed.mpi import estimators
from snapml.distributed.mpi.communicator import MpiCommunicator
from snapml.distributed.mpi.loaders import load_parquet, load_snap, load_svmlight
from snapml.distributed.mpi.metrics import (
    accuracy_score,
    hinge_loss,
    log_loss,
    mean_squared_error,
    roc_auc_score,
)
from snapml.distributed.ranks import RankError

__all__ = [
    "MpiCommunicator",
    "RankError",
    "accuracy_score",
    "hinge_loss",
    "load_parquet",
    "load_snap",
    "load_svmlight",
    "log_loss",
    "mean_squared_error",
    "roc_auc_score",
]
__all__ += estimators.__all__


def __getattr__(name: str) -> Any:
    """Return the estimator of a name."""
    if name in estimators.__all__:
        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
