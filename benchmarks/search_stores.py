"""Searches over C and folds where rows are in a store, beside the same in memory.

The problems, the grids and the ways of `benchmarks.search`. A store may keep a share of its bytes
in memory, and reads the rest from files in each pass, which the system may have cached. Each
measurement has a process of its own; `peak_more_mb` is what its peak memory grew by in the fit:

    python -m benchmarks.search_stores --problems text dense_wide --out \
        benchmarks/results/search_stores.csv
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from multiprocessing import Process
from pathlib import Path
from typing import Any

from benchmarks.problems import make_problem
from benchmarks.records import machine_facts, write_rows
from benchmarks.search import GRIDS, WAYS, _scores
from snapml import LogisticRegression
from snapml.data import ChunkedDataset, ChunkWriter

CHUNK_BYTES = 4 * 2**20
SHARES = {"memory": None, "store, all kept": 2.0, "store, a quarter kept": 0.25}


def measure(
    name: str, folder: str, where: str, way: str, grid: str, best_C: float
) -> dict[str, Any]:
    """Run one search, or one fit at the best C, in this process, and return its row."""
    rows = _rows(name, folder, SHARES[where])
    if way == "fit":
        model = LogisticRegression(C=best_C, max_iter=5000)
    else:
        model = WAYS[way](rows[0], GRIDS[grid])
    load, before = os.getloadavg()[0], _peak_mb()
    began, cpu_began = time.perf_counter(), time.process_time()
    model.fit(*rows)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    chosen, scores = (best_C, []) if way == "fit" else _scores(model)
    return {
        "problem": name,
        "n_rows": rows[0].shape[0],
        "n_features": rows[0].shape[1],
        "where": where,
        "grid": grid,
        "way": way,
        "seconds": round(seconds, 4),
        "cpu_seconds": round(cpu_seconds, 4),
        "peak_more_mb": round(_peak_mb() - before, 1),
        "chosen_C": f"{chosen:.4g}",
        "mean_scores": " ".join(f"{score:.5f}" for score in scores),
        "load_average": round(load, 2),
        **machine_facts(),
    }


def _rows(name: str, folder: str, share: float | None) -> tuple[Any, ...]:
    """Return rows and labels, or an open store that has both."""
    if share is None:
        problem = make_problem(name)
        return problem.X, problem.y
    store = ChunkedDataset.open(folder)
    limit = int(share * sum(store.chunk_bytes))
    return (ChunkedDataset.open(folder, memory_limit=limit),)


def _write(name: str, folder: str) -> None:
    problem = make_problem(name)
    with ChunkWriter(folder, chunk_bytes=CHUNK_BYTES) as writer:
        writer.append(problem.X, problem.y)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Run what the command line names, each in a process of its own, and append to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", default=["text", "dense_wide"])
    parser.add_argument("--grid", choices=GRIDS, default="narrow")
    parser.add_argument("--ways", nargs="+", default=["fit", "shared", "cv"])
    parser.add_argument("--where", nargs="+", choices=SHARES, default=list(SHARES))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--best-C", type=float, default=2.783)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--folder", default=None, help=argparse.SUPPRESS)  # of a child
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.folder is not None:
        [name], [where], [way] = args.problems, args.where, args.ways
        row = measure(name, args.folder, where, way, args.grid, args.best_C)
        print({k: row[k] for k in list(row)[:12]}, flush=True)
        if args.out is not None:
            write_rows(args.out, [row])
        return
    for name in args.problems:
        with tempfile.TemporaryDirectory() as parent:
            folder = str(Path(parent) / "rows")
            # A child starts from its parent's peak: what makes all rows is a child, too.
            writer = Process(target=_write, args=(name, folder))
            writer.start()
            writer.join()
            if writer.exitcode:
                raise RuntimeError(f"{name}: its store was not written")
            for _ in range(args.repeats):
                for where in args.where:
                    for way in args.ways:
                        _in_child(args, name, folder, where, way)


def _in_child(args: argparse.Namespace, name: str, folder: str, where: str, way: str) -> None:
    """Run one measurement in a process that starts anew."""
    command = [sys.executable, "-m", "benchmarks.search_stores", "--problems", name]
    command += ["--where", where, "--ways", way, "--folder", folder, "--grid", args.grid]
    command += ["--best-C", str(args.best_C)]
    subprocess.run(command + (["--out", str(args.out)] if args.out else []), check=True)


if __name__ == "__main__":
    main()
