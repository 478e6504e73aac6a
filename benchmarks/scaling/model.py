"""What a fit over ranks takes: a model of passes, bytes, time and efficiency, up to 1,000 nodes.

A pass is work on rows, which ranks share, arithmetic on vectors as long as a gradient, which all
repeat, one sum of such a vector and a few small ones. What a rank computes, and how long a message
takes, is measured (`limited_hosts.py`, results/scaling_runs.csv) or, for machines that nobody has
measured, assumed and named so. `main` compares the model with every measured run and projects::

    python -m benchmarks.scaling.model
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.records import REPOSITORY_ROOT, prepare_output, write_rows

__all__ = [
    "Link",
    "Work",
    "fit_seconds",
    "hierarchical_sum_s",
    "node_bytes",
    "node_pass_s",
    "pass_seconds",
    "rank_bytes",
    "sum_s",
]

RESULTS = REPOSITORY_ROOT / "benchmarks" / "results"
_LETTER_BYTES = 64 * 8
_RANKS_PER_NODE = 16
# Criteo's terabyte click log has 4.37 billion rows; columns hashed to a million.
_ROWS, _COLUMNS = 4.37e9, 1_000_000
_NODES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)


@dataclass(frozen=True)
class Link:
    """A way from rank to rank: seconds a message, and bytes a second."""

    latency_s: float
    bytes_per_s: float


# Assumed, of nodes that nobody has measured: their networks, and copies between their processes.
_NETWORKS = {"100 Gbit/s": Link(5e-6, 12.5e9), "10 Gbit/s": Link(20e-6, 1.25e9)}
_INSIDE = Link(1e-6, 10e9)


@dataclass(frozen=True)
class Work:
    """A fit, and how long one core takes for its parts."""

    rows_s: float
    """On all rows, a pass."""
    vectors_s: float
    """On vectors as long as a gradient, a pass; each rank repeats it."""
    add_s_per_byte: float
    """To copy and add what a rank sends or gets."""
    size: int
    """Numbers in a gradient."""
    n_passes: float
    vectors_per_pass: float
    small_sums_per_pass: float


def rank_bytes(n_ranks: int, size: int) -> float:
    """Return what a rank sends in a sum of `size` float64: the least that so many ranks can do.

    Parameters
    ----------
    n_ranks : int
        That add up.
    size : int
        Numbers.
    """
    return 2.0 * (n_ranks - 1) / n_ranks * 8.0 * size


def small_sum_s(n_ranks: int, link: Link) -> float:
    """Return the seconds of a letter of each rank to all, whose size doubles in each round."""
    rounds = math.ceil(math.log2(n_ranks)) if n_ranks > 1 else 0
    return rounds * link.latency_s + (n_ranks - 1) * _LETTER_BYTES / link.bytes_per_s


def sum_s(n_ranks: int, size: int, link: Link, *, ranks_per_link: int = 1) -> float:
    """Return the seconds of one sum of vectors: letters, parts to their ranks, totals to all.

    Parameters
    ----------
    n_ranks : int
        That add up.
    size : int
        Numbers.
    link : Link
        Between them.
    ranks_per_link : int, default=1
        Ranks of a node that share its link.
    """
    if n_ranks == 1:
        return 0.0
    messages = (n_ranks - 1) * link.latency_s  # the ring of the totals; the parts overlap
    others = 1.0 if ranks_per_link == 1 else (n_ranks - ranks_per_link) / (n_ranks - 1)
    wire = ranks_per_link * others * rank_bytes(n_ranks, size) / link.bytes_per_s
    return small_sum_s(n_ranks, link) + link.latency_s + messages + wire


def hierarchical_sum_s(
    n_nodes: int, ranks_per_node: int, size: int, link: Link, inside: Link
) -> float:
    """Return the seconds of a sum inside each node, over the nodes, and inside them again.

    Parameters
    ----------
    n_nodes, ranks_per_node : int
        Each rank of a node adds its part of the vector over the nodes.
    size : int
        Numbers.
    link, inside : Link
        Between nodes, and between the ranks of one.
    """
    own = math.ceil(size / ranks_per_node)
    within = sum_s(ranks_per_node, size, inside)
    if n_nodes == 1:
        return within
    across = rank_bytes(n_nodes, own) * ranks_per_node / link.bytes_per_s
    return within + small_sum_s(n_nodes, link) + n_nodes * link.latency_s + across


def pass_seconds(work: Work, n_ranks: int, link: Link, *, n_cores: float) -> float:
    """Return the seconds of a pass of ranks on hosts of their own, whose cores they may share.

    Parameters
    ----------
    work : Work
        The fit.
    n_ranks : int
        One on each host.
    link : Link
        Between them.
    n_cores : float
        Of all hosts together: as many as ranks, but for hosts that one machine simulates.
    """
    turns = max(1.0, n_ranks / n_cores)
    computing = turns * (work.rows_s / n_ranks + work.vectors_s)
    adding = turns * work.add_s_per_byte * rank_bytes(n_ranks, work.size)
    vector = sum_s(n_ranks, work.size, link) + adding
    small = work.small_sums_per_pass * small_sum_s(n_ranks, link)
    return computing + work.vectors_per_pass * vector + small


def fit_seconds(work: Work, n_ranks: int, link: Link, *, n_cores: float) -> float:
    """Return the seconds of all passes of `pass_seconds`."""
    return work.n_passes * pass_seconds(work, n_ranks, link, n_cores=n_cores)


def checks(runs: list[dict[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield the model beside each run on simulated hosts.

    Parameters
    ----------
    runs : list of dict
        Rows of results/scaling_runs.csv.
    """
    for run in runs:
        n_hosts = int(run["hosts"])
        if n_hosts == 1:
            continue
        work = work_of(run)
        link = Link(float(run["latency_s"]), float(run["bytes_per_s"]))
        predicted_s = fit_seconds(work, n_hosts, link, n_cores=float(run["cores"]))
        least = work.n_passes * work.vectors_per_pass * rank_bytes(n_hosts, work.size)
        measured_s, measured_bytes = float(run["solve_s"]), float(run["wire_bytes"])
        yield {
            "kind": "check",
            "nodes": n_hosts,
            "ranks_per_node": 1,
            "network": f"{run['mbit_per_s']} Mbit/s",
            "latency_s": link.latency_s,
            "bytes_per_s": link.bytes_per_s,
            "sums": "flat",
            "passes": work.n_passes,
            "measured_passes": float(run["n_passes"]),
            "bytes_a_node": least,
            "measured_bytes_a_node": measured_bytes,
            "error_of_bytes": least / measured_bytes - 1.0,
            "seconds": predicted_s,
            "measured_seconds": measured_s,
            "error_of_seconds": predicted_s / measured_s - 1.0,
            "efficiency": None,
            "load_average": float(run["load_average"]),
        }


def work_of(run: dict[str, str]) -> Work:
    """Return what one rank, and hosts without a limit, have shown of a fit of the same rows."""
    n_passes = float(run["one_rank_passes"])
    return Work(
        rows_s=float(run["one_rank_rows_s"]) / n_passes,
        vectors_s=float(run["one_rank_vectors_s"]) / n_passes,
        add_s_per_byte=float(run["add_s_per_byte"]),
        size=int(run["n_features"]) + 1,
        n_passes=n_passes,
        vectors_per_pass=float(run["vector_sums"]) / n_passes,
        small_sums_per_pass=float(run["small_sums"]) / n_passes,
    )


def projections(run: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield what the model says of Criteo's log on nodes of assumed networks.

    Parameters
    ----------
    run : dict
        Whose rates of computing are taken over, core for core.
    """
    small = work_of(run)
    work = replace(
        small,
        rows_s=small.rows_s * _ROWS / float(run["n_rows"]),
        vectors_s=small.vectors_s * _COLUMNS / float(run["n_features"]),
        size=_COLUMNS + 1,
    )
    for network, link in _NETWORKS.items():
        for sums in ("flat", "hierarchical"):
            first = node_pass_s(work, 1, link, sums)
            for n_nodes in _NODES:
                a_pass = node_pass_s(work, n_nodes, link, sums)
                n_vectors = work.n_passes * work.vectors_per_pass
                yield {
                    "kind": "projection",
                    "nodes": n_nodes,
                    "ranks_per_node": _RANKS_PER_NODE,
                    "network": f"{network}, assumed",
                    "latency_s": link.latency_s,
                    "bytes_per_s": link.bytes_per_s,
                    "sums": sums,
                    "passes": work.n_passes,
                    "measured_passes": None,
                    "bytes_a_node": n_vectors * node_bytes(n_nodes, work.size, sums),
                    "measured_bytes_a_node": None,
                    "error_of_bytes": None,
                    "seconds": work.n_passes * a_pass,
                    "measured_seconds": None,
                    "error_of_seconds": None,
                    "efficiency": first / (n_nodes * a_pass),
                    "load_average": float(run["load_average"]),
                }


def node_bytes(n_nodes: int, size: int, sums: str) -> float:
    """Return what a node sends to others in a sum over all its ranks, ``"flat"`` or in levels."""
    if sums == "hierarchical":
        return rank_bytes(n_nodes, size)
    n_ranks = n_nodes * _RANKS_PER_NODE
    share = (n_ranks - _RANKS_PER_NODE) / (n_ranks - 1)
    return _RANKS_PER_NODE * share * rank_bytes(n_ranks, size)


def node_pass_s(work: Work, n_nodes: int, link: Link, sums: str) -> float:
    """Return the seconds of a pass on nodes of `_RANKS_PER_NODE` ranks, a core each."""
    n_ranks = n_nodes * _RANKS_PER_NODE
    if n_nodes == 1:
        summing = sum_s(n_ranks, work.size, _INSIDE)
        small = small_sum_s(n_ranks, _INSIDE)
    elif sums == "flat":
        summing = sum_s(n_ranks, work.size, link, ranks_per_link=_RANKS_PER_NODE)
        small = small_sum_s(n_ranks, link)
    else:
        summing = hierarchical_sum_s(n_nodes, _RANKS_PER_NODE, work.size, link, _INSIDE)
        small = small_sum_s(_RANKS_PER_NODE, _INSIDE) + small_sum_s(n_nodes, link)
    summing += work.add_s_per_byte * rank_bytes(n_ranks, work.size)
    vectors = work.vectors_s + work.vectors_per_pass * summing
    return work.rows_s / n_ranks + vectors + work.small_sums_per_pass * small


def main() -> int:
    """Compare with the measured runs, project, write one row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=RESULTS / "scaling_runs.csv")
    parser.add_argument("--output", type=Path, default=RESULTS / "scaling_model.csv")
    parser.add_argument("--overwrite", action="store_true")
    arguments = parser.parse_args()
    with arguments.runs.open(newline="") as stream:
        runs = list(csv.DictReader(stream))
    prepare_output(arguments.output, arguments.overwrite)
    rows = [*checks(runs), *projections(runs[0])]
    write_rows(arguments.output, rows)
    for row in rows:
        names = ("kind", "nodes", "network", "sums", "seconds")
        print({name: row[name] for name in (*names, "error_of_seconds", "efficiency")})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
