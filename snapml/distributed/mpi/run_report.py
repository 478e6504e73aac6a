"""What a fit over MPI took: time by phase, sums and their bytes, on all ranks."""

from __future__ import annotations

import json
import platform
import socket
from collections import Counter
from typing import Any

import numpy as np
import sklearn

import snapml
from snapml.data.atomic_file import atomic_file
from snapml.distributed.mpi.library import mpi_module
from snapml.distributed.phase_clock import PHASES, MeasuredCommunicator, PhaseClock

__all__ = ["measured_here", "report_of", "write_report"]

_VERSION = 1


def measured_here(
    communicator: MeasuredCommunicator, clock: PhaseClock, rows: tuple[int, int]
) -> dict[str, Any]:
    """Return what this rank has measured.

    Parameters
    ----------
    communicator : MeasuredCommunicator
        Of the fit.
    clock : PhaseClock
        Of the fit.
    rows : tuple of int
        This rank's rows, and the entries in them.

    Returns
    -------
    dict
        For `report_of`.
    """
    clock.turn_to("prepare")
    n_sums, n_exchanges = communicator.counts()
    return {
        "host": socket.gethostname(),
        "wall_s": clock.elapsed_s,
        "phases_s": dict(clock.seconds),
        "n_sums": n_sums,
        "n_exchanges": n_exchanges,
        "bytes_of_sums": int(communicator.n_sent),
        "n_rows": rows[0],
        "n_stored": rows[1],
    }


def report_of(model: Any, ranks: list[dict[str, Any]], fit: dict[str, Any]) -> dict[str, Any]:
    """Return the report of a fit, whose schema docs/mpi.md gives.

    Parameters
    ----------
    model : fitted estimator
        With its certificate.
    ranks : list of dict
        What each rank has measured.
    fit : dict
        What else is known about the fit: parts of the report as they are.

    Returns
    -------
    dict
        For JSON.
    """
    n_rows, n_stored = (sum(rank[name] for rank in ranks) for name in ("n_rows", "n_stored"))
    phases = {name: _spread([rank["phases_s"][name] for rank in ranks]) for name in PHASES}
    work = [rank["phases_s"]["compute"] + rank["phases_s"]["certificate"] for rank in ranks]
    sums = [rank["phases_s"]["sums"] for rank in ranks]
    n_iter = getattr(model, "n_iter_", None)
    n_passes = 0 if n_iter is None else int(np.max(n_iter))
    # The slowest rank's time outside of preparation and checkpoints is the fit's.
    solving = max(a + b for a, b in zip(work, sums, strict=True))
    read_here = None if fit["resumed_from_pass"] is not None else n_passes + 1
    return {
        "format": "snapml run report",
        "version": _VERSION,
        "estimator": type(model).__name__,
        "solver": model.solver_,
        "ranks": len(ranks),
        "hosts": dict(Counter(rank["host"] for rank in ranks)),
        "versions": _versions(),
        "n_rows": n_rows,
        "n_features": int(model.n_features_in_),
        "n_stored": n_stored,
        "passes": n_passes,
        "objective": float(model.objective_),
        "gap": float(model.gap_),
        "wall_s": _spread([rank["wall_s"] for rank in ranks]),
        "phases_s": phases,
        "waiting_s": _spread([own - min(sums) for own in sums]),
        "imbalance": max(work) / (sum(work) / len(work)) if sum(work) else 1.0,
        "sums": {
            "n_sums": ranks[0]["n_sums"],
            "n_exchanges": ranks[0]["n_exchanges"],
            "bytes_sent": _spread([rank["bytes_of_sums"] for rank in ranks]),
        },
        "rate": None
        if read_here is None or not solving
        else {
            "rows_per_s": n_rows * read_here / solving,
            "entries_per_s": n_stored * read_here / solving,
        },
        **fit,
    }


def write_report(report: dict[str, Any], path: Any) -> None:
    """Write a report as JSON, whole or not at all.

    Parameters
    ----------
    report : dict
        Of `report_of`.
    path : str or path-like
        The file.
    """
    with atomic_file(path) as stream:
        stream.write(json.dumps(report, indent=1).encode() + b"\n")


def _spread(values: list[Any]) -> dict[str, Any]:
    """Return least, mean and largest, and the rank of the largest."""
    return {
        "min": min(values),
        "mean": sum(values) / len(values),
        "max": max(values),
        "rank_of_max": int(np.argmax(values)),
    }


def _versions() -> dict[str, str]:
    mpi = mpi_module()
    import mpi4py

    return {
        "snapml": snapml.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "mpi4py": mpi4py.__version__,
        "mpi_library": mpi.Get_library_version().split("\n")[0].strip("\0 "),
    }
