"""What a check has found: which differences are faults, and the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

__all__ = ["Measured", "Rank", "faults", "report"]

# Clocks further apart than this make logs of several machines unreadable.
_CLOCK_TOLERANCE_S = 1.0
_RANKS = ("rank", "host", "local", "CPUs", "threads", "GPUs", "clock (ms)")
_SUMS = ("bytes", "snapml (ms)", "snapml (MB/s)", "MPI (ms)", "MPI (MB/s)")


@dataclass(frozen=True)
class Rank:
    """One rank: where it is, and what it has there."""

    number: int
    host: str
    local_rank: int
    n_local: int
    cpus: tuple[int, ...]
    n_threads: str
    gpus: tuple[str, ...]
    gpu_trouble: str | None
    clock_s: float
    """How far its clock is ahead of the first rank's."""
    clock_doubt_s: float
    versions: dict[str, str]


@dataclass(frozen=True)
class Measured:
    """How long a sum of so many float64 numbers takes: snapml's own, and the MPI's."""

    size: int
    own_s: float
    library_s: float


def faults(
    ranks: Sequence[Rank], counts: Sequence[int], *, is_bound: bool, has_gpus: bool
) -> list[str]:
    """Return what must be mended before the ranks can train one model.

    Parameters
    ----------
    ranks : sequence of Rank
        All of the job, in their order.
    counts : sequence of int
        How many were to be on each machine, one machine after the other.
    is_bound, has_gpus : bool
        Whether each was to have cores of its own; whether each was to have a GPU.

    Returns
    -------
    list of str
        A sentence each; empty where all is well.
    """
    found = []
    first = ranks[0]
    for name in first.versions:
        others = [rank for rank in ranks if rank.versions[name] != first.versions[name]]
        if others:
            found.append(
                f"expected the same {name} on all ranks, got {first.versions[name]} on rank 0 "
                f"({first.host}) and {others[0].versions[name]} on rank {others[0].number} "
                f"({others[0].host})"
            )
    for rank in ranks:
        far = abs(rank.clock_s) - rank.clock_doubt_s
        if far > _CLOCK_TOLERANCE_S:
            found.append(
                f"expected clocks within {_CLOCK_TOLERANCE_S:g} s, got {rank.clock_s:+.3f} s on "
                f"rank {rank.number} ({rank.host})"
            )
    placed = [len(list(group)) for _, group in groupby(rank.host for rank in ranks)]
    if placed != list(counts):
        found.append(f"expected {list(counts)} ranks on the machines, got {placed}")
    found += _place_faults(ranks, is_bound=is_bound, has_gpus=has_gpus)
    return found


def _place_faults(ranks: Sequence[Rank], *, is_bound: bool, has_gpus: bool) -> list[str]:
    found = []
    for host in dict.fromkeys(rank.host for rank in ranks):
        here = [rank for rank in ranks if rank.host == host]
        if is_bound:
            shared = {
                cpu
                for a in here
                for b in here
                if a.number < b.number
                for cpu in {*a.cpus} & {*b.cpus}
            }
            if shared:
                found.append(
                    f"expected ranks on {host} bound to cores of their own, got CPUs "
                    f"{ranges(shared)} for several"
                )
        if has_gpus and len(here) > len(here[0].gpus):
            found.append(
                f"expected a GPU for each of {len(here)} ranks on {host}, got {len(here[0].gpus)}"
            )
        if len({rank.gpus for rank in here}) > 1:
            found.append(f"expected the ranks on {host} to see the same GPUs, got other ones")
    gpus = {len(rank.gpus) for rank in ranks}
    if len(gpus) > 1:
        found.append(f"expected as many GPUs on all hosts, got {', '.join(map(str, sorted(gpus)))}")
    return found


def report(ranks: Sequence[Rank], measured: Sequence[Measured]) -> str:
    """Return the tables that people read.

    Parameters
    ----------
    ranks : sequence of Rank
        All of the job.
    measured : sequence of Measured
        Sums of growing size; empty where none were run.

    Returns
    -------
    str
        Versions of the first rank, a line for each rank, a line for each size.
    """
    lines = ["  ".join(f"{name} {version}" for name, version in ranks[0].versions.items()), ""]
    lines += _table(
        [
            _RANKS,
            *(
                (
                    str(rank.number),
                    rank.host,
                    f"{rank.local_rank} of {rank.n_local}",
                    ranges(rank.cpus),
                    rank.n_threads,
                    str(len(rank.gpus)) + (f" ({rank.gpu_trouble})" if rank.gpu_trouble else ""),
                    f"{1e3 * rank.clock_s:+.3f} ± {1e3 * rank.clock_doubt_s:.3f}",
                )
                for rank in ranks
            ),
        ]
    )
    if measured:
        lines += ["", "sums over all ranks, the quickest of several:"]
        lines += _table([_SUMS, *(_sum_line(sum_) for sum_ in measured)])
    return "\n".join(lines)


def _sum_line(found: Measured) -> tuple[str, ...]:
    n_bytes = 8 * found.size
    return (
        f"{n_bytes:,}",
        f"{1e3 * found.own_s:.3f}",
        f"{n_bytes / found.own_s / 1e6:,.1f}",
        f"{1e3 * found.library_s:.3f}",
        f"{n_bytes / found.library_s / 1e6:,.1f}",
    )


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]


def ranges(numbers: Sequence[int] | set[int]) -> str:
    """Return numbers as the kernel lists CPUs.

    Parameters
    ----------
    numbers : sequence or set of int
        In any order.

    Returns
    -------
    str
        Such as ``0-3,8``.
    """
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)
