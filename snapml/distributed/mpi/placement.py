"""Which GPU each rank works on."""

from __future__ import annotations

import os
from typing import Any

from snapml._validation import check_device_ids
from snapml.distributed.mpi.communicator import MpiCommunicator
from snapml.distributed.mpi.library import mpi_module
from snapml.solvers.plan import device_choice

__all__ = ["LOCAL_RANK", "placed"]

LOCAL_RANK = "local_rank"


def placed(device_ids: Any, ranks: MpiCommunicator) -> tuple[int, ...]:
    """Return the numbers of the GPUs that this rank works on, none for the CPU.

    Parameters
    ----------
    device_ids : None, list of int or 'local_rank'
        What this rank asks for. 'local_rank' gives the ranks of a node the GPUs that they see, one
        each, in the order of both.
    ranks : MpiCommunicator
        All ranks, which call this together.

    Returns
    -------
    tuple of int
        As CUDA counts the devices that this process sees.

    Raises
    ------
    RuntimeError
        If one rank has several GPUs, and MPI was told that it has one thread.
    ValueError
        If `device_ids` is nothing of that; and on all ranks, where some node has more ranks than
        GPUs for them.
    """
    is_asked = isinstance(device_ids, str) and device_ids == LOCAL_RANK
    if isinstance(device_ids, str) and not is_asked:
        raise ValueError(
            f"device_ids={device_ids!r}: expected None, a list of integers >= 0 or {LOCAL_RANK!r}"
        )
    own = None if is_asked else check_device_ids(device_ids)
    if own is not None and len(own) > 1:
        _check_threads(own)
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
    found = ranks.exchange((device_choice.visible_devices() if is_asked else None, hidden))
    owners = _matched([visible for visible, _ in found])
    for rank, (visible, hidden) in enumerate(found):
        if visible is not None and rank not in owners:
            raise _too_few(rank, [seen for seen, _ in found], ranks, hidden)
    return (owners[ranks.rank],) if own is None else own


def _check_threads(device_ids: tuple[int, ...]) -> None:
    """Refuse several GPUs where their threads may not call MPI in turn."""
    mpi = mpi_module()
    if mpi.Query_thread() < mpi.THREAD_SERIALIZED:
        raise RuntimeError(
            f"device_ids={list(device_ids)!r}: several GPUs of one rank need an MPI that several "
            "threads may call in turn; leave mpi4py.rc.threads as it is, or use one GPU for each "
            "rank"
        )


def _matched(visible: list[list[str] | None]) -> dict[int, int]:
    """Return the number, among those it sees, of the GPU of each rank that can have one.

    Ranks may see all GPUs of their node, or each of them others, or some of both: each takes the
    first free one, and those before it move on where that is what it takes.
    """
    owner: dict[str, int] = {}

    def take(rank: int, tried: set[str]) -> bool:
        for uuid in visible[rank] or []:
            if uuid not in owner:
                owner[uuid] = rank
                return True
        for uuid in visible[rank] or []:
            if uuid not in tried:
                tried.add(uuid)
                if take(owner[uuid], tried):
                    owner[uuid] = rank
                    return True
        return False

    for rank in range(len(visible)):
        take(rank, set())
    return {rank: (visible[rank] or []).index(uuid) for uuid, rank in owner.items()}


def _too_few(
    rank: int, visible: list[list[str] | None], ranks: MpiCommunicator, hidden: str
) -> ValueError:
    """Return what to say of the node of a rank that got none."""
    of_ranks = ranks.nodes.of_ranks
    beside = [k for k in range(ranks.size) if of_ranks[k] == of_ranks[rank]]
    asking = [k for k in beside if visible[k] is not None]
    n_gpus = len({uuid for k in asking for uuid in visible[k] or []})
    return ValueError(
        f"device_ids={LOCAL_RANK!r}: host {ranks.nodes.hosts[rank]} has {len(asking)} ranks of "
        f"this job (rank {rank} among them) and {n_gpus} visible GPUs (CUDA_VISIBLE_DEVICES "
        f"{hidden} on rank {rank}): expected one GPU for each rank; start at most {n_gpus} ranks "
        "there, or give each rank its own device_ids=[...], where two may name the same GPU"
    )
