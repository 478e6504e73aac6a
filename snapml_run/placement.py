"""How many ranks each machine gets, and which cores each rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from snapml_run.cores import Core, Machine
from snapml_run.gpus import Gpu
from snapml_run.hosts import Allocation, Host
from snapml_run.refusal import Refusal

__all__ = ["Placement", "place", "share_cores"]


@dataclass(frozen=True)
class Placement:
    """Ranks on machines."""

    hosts: tuple[tuple[str, int], ...]
    """Names, and ranks on each; ranks are numbered along them."""
    cores: tuple[tuple[Core, ...], ...]
    """Of each rank of a machine, the same on all machines; none where ranks are not bound."""
    n_threads: int
    """That each rank may keep busy."""
    is_crowded: bool
    """Whether ranks must share cores."""
    n_gpus: int = 0
    """Of each machine, one for each rank; 0 where ranks work on cores."""
    note: str | None = None
    """Why ranks are not bound, where that was not asked for."""

    @property
    def n_ranks(self) -> int:
        """Of the whole job."""
        return sum(count for _, count in self.hosts)


def place(
    allocation: Allocation,
    machine: Machine,
    gpus: Sequence[Gpu],
    *,
    n_gpus: int | None,
    n_ranks: int | None,
    n_cores: int | None,
    is_bound: bool,
    may_crowd: bool,
) -> Placement:
    """Return where the ranks go.

    Parameters
    ----------
    allocation : Allocation
        The machines. All are taken to be like this one, unless Slurm says otherwise.
    machine : Machine
        This one.
    gpus : sequence of Gpu
        Those of this one.
    n_gpus : int or None
        GPUs of each machine, if the user has said so; 0 puts ranks on cores.
    n_ranks : int or None
        That the user wants.
    n_cores : int or None
        Cores of each machine, if the user has said so.
    is_bound, may_crowd : bool
        Whether ranks get cores of their own; whether there may be more ranks than places.

    Returns
    -------
    Placement
        Balanced: machines differ by at most one rank where they have room, and not at all where
        ranks have GPUs.

    Raises
    ------
    Refusal
        If there are too many ranks, or they cannot be balanced over GPUs.
    """
    per_host = len(gpus) if n_gpus is None else n_gpus
    slots = [_slots(host, allocation, machine, per_host, n_cores) for host in allocation.hosts]
    if n_ranks is None:
        if not allocation.is_stated and per_host == 0:
            raise Refusal("-n: expected the number of ranks: neither hosts nor GPUs tell it")
        n_ranks = sum(slots)
    # Where GPUs are the places, the refusal is to speak of them.
    has_room = may_crowd or (
        per_host > 0 and all(host.n_slots is None for host in allocation.hosts)
    )
    counts = _balance(n_ranks, slots, may_crowd=has_room, source=allocation.source)
    if per_host > 0:
        _check_gpus(allocation, counts, per_host, is_found=n_gpus is None, may_crowd=may_crowd)
    hosts = [(host, count) for host, count in zip(allocation.hosts, counts, strict=True) if count]
    most = max(counts)
    own_cores = [_cores_of(host, machine, n_cores) for host, _ in hosts]
    n_threads = min(max(1, n // count) for n, (_, count) in zip(own_cores, hosts, strict=True))
    is_crowded = any(count > n for n, (_, count) in zip(own_cores, hosts, strict=True))
    why_not = machine.why_unbound
    if is_crowded:
        why_not = "there are more ranks than cores"
    elif n_cores is not None or any(n != len(machine.cores) for n in own_cores):
        why_not = why_not or "the machines' cores are not those of this one"
    cores: tuple[tuple[Core, ...], ...] = ()
    if is_bound and why_not is None:
        near = [gpu.near_cpus for gpu in gpus[:most]] if per_host > 0 else []
        cores = share_cores(machine.cores, most, near)
    names = tuple((host.name, count) for host, count in hosts)
    note = why_not if is_bound else None
    return Placement(names, cores, n_threads, is_crowded, per_host, note)


def share_cores(
    cores: Sequence[Core], n_ranks: int, near: Sequence[frozenset[int]]
) -> tuple[tuple[Core, ...], ...]:
    """Divide a machine's cores among its ranks.

    Parameters
    ----------
    cores : sequence of Core
        At least as many as ranks.
    n_ranks : int
        On this machine.
    near : sequence of frozenset of int
        The CPUs next to each rank's GPU; may be empty.

    Returns
    -------
    tuple of tuple of Core
        For each rank some that no other has: near its GPU where the ranks of its memory node find
        enough there, else the same number for all.
    """
    groups: dict[frozenset[int], list[int]] = {}
    for rank in range(n_ranks):
        groups.setdefault(near[rank] if rank < len(near) else frozenset(), []).append(rank)
    local = {cpus: [core for core in cores if cpus & set(core.cpus)] for cpus in groups}
    n_local = sum(len(found) for found in local.values())
    n_distinct = len({core.number for found in local.values() for core in found})
    if n_local != n_distinct or any(len(local[cpus]) < len(groups[cpus]) for cpus in groups):
        return _evenly(cores, n_ranks)
    found: dict[int, tuple[Core, ...]] = {}
    for cpus, ranks in groups.items():
        found.update(zip(ranks, _evenly(local[cpus], len(ranks)), strict=True))
    return tuple(found[rank] for rank in range(n_ranks))


def _evenly(cores: Sequence[Core], n_ranks: int) -> tuple[tuple[Core, ...], ...]:
    size = len(cores) // n_ranks
    return tuple(tuple(cores[rank * size : (rank + 1) * size]) for rank in range(n_ranks))


def _cores_of(host: Host, machine: Machine, n_cores: int | None) -> int:
    """Return how many cores of a machine ranks may keep busy."""
    if n_cores is not None:
        return n_cores
    if host.n_cpus is None:
        return machine.n_usable
    threads_a_core = max((len(core.cpus) for core in machine.cores), default=1)
    return min(machine.n_usable, max(1, host.n_cpus // threads_a_core))


def _slots(
    host: Host, allocation: Allocation, machine: Machine, n_gpus: int, n_cores: int | None
) -> int:
    if host.n_slots is not None:
        return host.n_slots
    if n_gpus > 0:
        return n_gpus
    return 1 if allocation.is_stated else _cores_of(host, machine, n_cores)


def _balance(n_ranks: int, slots: list[int], *, may_crowd: bool, source: str) -> list[int]:
    """Return ranks for each machine: one after the other takes one, as long as it has room."""
    n_slots = sum(slots)
    if n_ranks > n_slots and not may_crowd:
        raise Refusal(
            f"{n_ranks} ranks: expected at most {n_slots}, the places of {source}; more hosts "
            "(--hosts a:2,b:2), fewer ranks, or --oversubscribe if ranks are to share cores"
        )
    if n_ranks >= n_slots:
        more, left = divmod(n_ranks - n_slots, len(slots))
        return [n + more + (place < left) for place, n in enumerate(slots)]
    counts = [0] * len(slots)
    while n_ranks > 0:
        open_places = [place for place, n in enumerate(slots) if counts[place] < n]
        for place in open_places[:n_ranks]:
            counts[place] += 1
        n_ranks -= min(n_ranks, len(open_places))
    return counts


def _check_gpus(
    allocation: Allocation, counts: list[int], n_gpus: int, *, is_found: bool, may_crowd: bool
) -> None:
    """Refuse what is not one rank a GPU, the same number on every machine."""
    origin = "as found on this machine" if is_found else "as --gpus says"
    way_out = f"({n_gpus} each, {origin}); --gpus 0 puts ranks on cores instead"
    placed = ", ".join(f"{n} on {h.name}" for h, n in zip(allocation.hosts, counts, strict=True))
    if max(counts) > n_gpus and not may_crowd:
        raise Refusal(f"expected at most one rank a GPU, got {placed} {way_out}")
    if len(set(counts)) > 1:
        raise Refusal(
            f"expected the same number of ranks with GPUs on all hosts, got {placed} {way_out}"
        )
