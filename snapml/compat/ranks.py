"""Processes that an MPI launcher started: here each of them trains a model of its own."""

from __future__ import annotations

import os
import warnings

__all__ = ["warn_of_ranks"]

# Number of ranks and own rank, as Open MPI, MPICH and its kin, and MVAPICH tell their processes.
_VARIABLES = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("PMI_SIZE", "PMI_RANK"),
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),
)


def warn_of_ranks(name: str) -> None:
    """Warn on the first of several ranks that they do not train together.

    Snap ML's classes of MPI had the same names.

    Parameters
    ----------
    name : str
        Of the class.
    """
    for size, rank in _VARIABLES:
        n_ranks = os.environ.get(size, "")
        if n_ranks.isdecimal() and int(n_ranks) > 1 and os.environ.get(rank, "0") == "0":
            warnings.warn(
                f"this is one of {n_ranks} ranks of an MPI job, each of which trains a "
                f"{name} of its own on what it was given: snapml.distributed.mpi has the classes "
                f"that train one model on the rows of all ranks",
                UserWarning,
                stacklevel=3,  # the caller of fit
            )
            return
