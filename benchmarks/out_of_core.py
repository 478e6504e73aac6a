"""A pass and a fit over a store four times the memory limit, beside the same rows in memory.

Run from the repository's root::

    python -m benchmarks.out_of_core --output benchmarks/results/out_of_core.csv
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import machine_facts
from snapml import LogisticRegression
from snapml.data import (
    ChunkedDataset,
    ChunkedMatrix,
    ChunkWriter,
    CompressedMatrix,
    Dataset,
    DenseMatrix,
    make_click_log,
)
from snapml.problems import Intercept, Logistic, Problem
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.rows.streaming_engine import StreamingEngine

_CHUNK_BYTES = 16 * 2**20
_SHARE = 4  # of the store's bytes that are allowed in memory, its inverse


def data_sets() -> dict[str, tuple[Any, np.ndarray]]:
    """Return dense rows and a click log, float32, with labels 0 and 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600_000, 200)).astype(np.float32)
    y = (X[:, :5].sum(axis=1) + rng.normal(size=len(X)) > 0).astype(np.int64)
    clicks, clicked = make_click_log(1_500_000, 200_000)
    ones = CompressedMatrix(clicks.indptr, clicks.indices, clicks.shape[1])
    return {"dense 600k x 200": (X, y), "click log 1.5M x 200k": (ones, clicked)}


def read_all(folder: Path) -> None:
    """Read the files of a store, and do nothing with them."""
    buffer = bytearray(_CHUNK_BYTES)
    for path in sorted(folder.iterdir()):
        with path.open("rb", buffering=0) as stream:
            while stream.readinto(buffer):
                pass


def timed(call: Callable[[], Any]) -> float:
    """Return the seconds of a call."""
    started_s = time.perf_counter()
    call()
    return time.perf_counter() - started_s


def measure(name: str, X: Any, y: np.ndarray, n_threads: int, repeats: int) -> list[dict[str, Any]]:
    """Return the rows of one data set: passes interleaved, then a fit each."""
    signs = np.where(y > 0, 1, -1).astype(np.float32)
    matrix = X if isinstance(X, CompressedMatrix) else DenseMatrix(X)
    problem = Problem(Logistic(), Intercept.FREE)
    point = 0.01 * np.random.default_rng(1).normal(size=(1, matrix.shape[1] + 1))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        with ChunkWriter(path, chunk_bytes=_CHUNK_BYTES) as writer:
            writer.append(X, y)
        n_bytes = ChunkedDataset.open(path).manifest.n_bytes
        store = ChunkedDataset.open(path, memory_limit=n_bytes // _SHARE)
        whole = CpuPrimalEngine(problem, Dataset(matrix, signs, None, 1.0), n_threads=n_threads)
        streamed = Dataset(ChunkedMatrix(store), signs, None, 1.0)
        parts = StreamingEngine(problem, streamed, n_threads=n_threads)
        parts.fused_pass(point)  # what stays in memory is there then, and checksums are known
        calls = {
            "pass in memory": lambda: whole.fused_pass(point),
            "pass over the store": lambda: parts.fused_pass(point),
            "read of the files": lambda: read_all(path),
        }
        for repeat in range(repeats):
            for what, call in calls.items():
                seconds = timed(call)
                found.append({"what": what, "repeat": repeat, "seconds": seconds})
        model = LogisticRegression(n_threads=n_threads)
        for what, rows in (("fit in memory", X), ("fit on the store", store)):
            seconds = timed(lambda rows=rows: model.fit(rows, y))
            gap = model.gap_ / model.objective_
            extra = {"n_reads": int(model.n_iter_[0]) + 1, "relative_gap": gap}
            found.append({"what": what, "repeat": 0, "seconds": seconds, **extra})
    common = {"data": name, "n_threads": n_threads, "n_bytes": n_bytes}
    for row in found:
        row["gb_per_s"] = n_bytes / 1e9 / row["seconds"]
    return [{**common, **row} for row in found]


def main(arguments: list[str]) -> None:
    """Measure all data sets with one thread and with two."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("out_of_core.csv"))
    options = parser.parse_args(arguments)
    rows = []
    for name, (X, y) in data_sets().items():
        for n_threads in (1, 2):
            for row in measure(name, X, y, n_threads, options.repeats):
                print(*row.values())
                rows.append({**row, **machine_facts()})
    names = list(dict.fromkeys(key for row in rows for key in row))
    with options.output.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
