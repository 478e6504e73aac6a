"""What the ranks of a job do together: all agree, or all raise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from snapml.distributed.mpi.communicator import MpiCommunicator

__all__ = ["check_alike", "together"]


@contextmanager
def together(comm: Any) -> Iterator[MpiCommunicator]:
    """Run a block on all ranks: where it fails on one, it fails on all.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The ranks.

    Yields
    ------
    MpiCommunicator
        To talk to the others with.

    Raises
    ------
    RankError
        If the block has failed on other ranks only; it says which, and of what.
    """
    communicator = MpiCommunicator(comm)
    try:
        yield communicator
        communicator.finish()
    except BaseException as error:
        communicator.fail(error)
        raise
    finally:
        communicator.close()


def check_alike(subject: str, terms: list[dict[str, str]]) -> None:
    """Raise the same error on every rank where the ranks' terms differ.

    Parameters
    ----------
    subject : str
        For the message.
    terms : list of dict
        Of each rank, in their order.

    Raises
    ------
    ValueError
        If a term differs; it says on which rank.
    """
    for name in sorted({name for own in terms for name in own}):
        found = [own.get(name, "nothing") for own in terms]
        if len(set(found)) > 1:
            first_other = int(np.argmax([value != found[0] for value in found]))
            raise ValueError(
                f"{subject}: expected the same {name} on all ranks, got {found[0]} on rank 0 and "
                f"{found[first_other]} on rank {first_other}"
            )
