"""The cores of this machine, in the order in which MPI libraries number them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Core", "Machine", "find_machine", "order_cores", "parse_cpus"]


@dataclass(frozen=True)
class Core:
    """A core: its number among those that this job may use, and the CPUs (threads) it has."""

    number: int
    cpus: tuple[int, ...]


@dataclass(frozen=True)
class Machine:
    """What ranks on this machine can share."""

    cores: tuple[Core, ...]
    n_usable: int
    """Cores that may be kept busy: fewer than there are under a quota or an affinity."""
    why_unbound: str | None = None
    """Why ranks cannot have cores of their own; None where they can."""


def find_machine(system: Path = Path("/sys")) -> Machine:
    """Return the cores of this machine.

    Parameters
    ----------
    system : Path
        Where the kernel describes it.

    Returns
    -------
    Machine
        Without the cores that the control group withholds.
    """
    own, allowed = _affinities()
    cores = order_cores(system, allowed)
    n_own = sum(1 for core in cores if own & set(core.cpus))
    quota = _quota(system / "fs" / "cgroup")
    if own != allowed:
        return Machine(cores, n_own, "this process is bound to some of the CPUs itself")
    if quota is not None and math.ceil(quota) < len(cores):
        return Machine(cores, max(1, math.ceil(quota)), "a quota limits this machine's CPU time")
    return Machine(cores, n_own)


def order_cores(system: Path, allowed: Iterable[int]) -> tuple[Core, ...]:
    """Return cores as hwloc, and so every MPI library, numbers them.

    Parameters
    ----------
    system : Path
        A folder like ``/sys``.
    allowed : iterable of int
        CPUs that may be used; cores without one have no number.

    Returns
    -------
    tuple of Core
        Depth first through packages, memory nodes and caches, each in the order of its first CPU.
    """
    cpus = sorted(allowed)
    nodes = [
        parse_cpus(_read(folder / "cpulist"))
        for folder in sorted((system / "devices" / "system" / "node").glob("node[0-9]*"))
    ]
    places = {}
    for cpu in cpus:
        folder = system / "devices" / "system" / "cpu" / f"cpu{cpu}"
        package = parse_cpus(_read(folder / "topology" / "package_cpus_list"))
        if not package:
            package = parse_cpus(_read(folder / "topology" / "core_siblings_list"))
        node = next((node for node in nodes if cpu in node), frozenset())
        cache = parse_cpus(_read(folder / "cache" / "index3" / "shared_cpu_list"))
        siblings = parse_cpus(_read(folder / "topology" / "thread_siblings_list"))
        levels = (package, node, cache, siblings or frozenset([cpu]))
        places[cpu] = tuple(min(level & frozenset(cpus), default=-1) for level in levels)
    found: dict[tuple[int, ...], list[int]] = {}
    for cpu in cpus:
        found.setdefault(places[cpu], []).append(cpu)
    return tuple(Core(k, tuple(found[place])) for k, place in enumerate(sorted(found)))


def parse_cpus(text: str) -> frozenset[int]:
    """Return the numbers of a list of the kernel's.

    Parameters
    ----------
    text : str
        Such as ``0-3,8``.

    Returns
    -------
    frozenset of int
        Empty where the text is.
    """
    found: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _affinities() -> tuple[set[int], set[int]]:
    """Return the CPUs of this process, and all that its control group allows.

    MPI libraries number the latter: the kernel cuts every wish down to them.
    """
    own = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, range(max(own) + 1024))
    except OSError:  # forbidden here
        return own, own
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, own)
    return own, allowed


def _quota(group: Path) -> float | None:
    """Return how many CPUs' time the control group has; None is no limit."""
    second = _read(group / "cpu.max").split()
    if len(second) == 2 and second[0] != "max":
        return int(second[0]) / int(second[1])
    first = [_read(group / "cpu" / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    if all(first) and int(first[0]) > 0:
        return int(first[0]) / int(first[1])
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
