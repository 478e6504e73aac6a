"""A fit on more than 2^31 stored entries, in memory that holds a fraction of them.

The rows are those of a click log, written to the store again and again: with C divided by their
number of copies, the model is that of the log itself, which is fitted in memory beside it. At full
size that takes 9 GB of disk. Run from the repository's root::

    python -m benchmarks.many_entries --output benchmarks/results/many_entries.csv
    python -m benchmarks.many_entries --scale 0.05 --memory-limit 200MiB   # a try
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import machine_facts
from snapml import LogisticRegression
from snapml.data import ChunkedDataset, ChunkWriter, CompressedMatrix, make_click_log

_ENTRIES = 2**31 + 1
_FIELDS = 39
_BASE_ROWS = 1_000_000


def peak_bytes() -> int:
    """Return the most memory that this process has had."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", text)[1])  # type: ignore[index]


def write_copies(path: Path, X: CompressedMatrix, y: np.ndarray, n_copies: int) -> ChunkedDataset:
    """Write the same rows so many times to a store."""
    expected = n_copies * X.indices.nbytes
    free = shutil.disk_usage(path.parent).free
    if free < 1.2 * expected:
        raise OSError(f"{path.parent}: expected {1.2 * expected:.3g} bytes free, found {free:.3g}")
    with ChunkWriter(path) as writer:
        for _ in range(n_copies):
            writer.append(X, y)
    return ChunkedDataset.open(path)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Write, fit, and compare with the fit of one copy."""
    n_rows = min(_BASE_ROWS, int(options.scale * _ENTRIES / _FIELDS / 2) + 1)
    log, y = make_click_log(n_rows, options.n_features, _FIELDS)
    X = CompressedMatrix(log.indptr, log.indices, log.shape[1])
    n_copies = -(-int(options.scale * _ENTRIES) // X.n_stored)
    settings: dict[str, Any] = {"tol": options.tol, "n_threads": options.n_threads}
    warnings.simplefilter("ignore")  # of fits that end at the most passes asked for
    small = LogisticRegression(C=options.C, **settings).fit(X, y)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        started_s = time.perf_counter()
        store = write_copies(Path(folder) / "store", X, y, n_copies)
        write_s = time.perf_counter() - started_s
        del log, X, y
        before = peak_bytes()
        started_s = time.perf_counter()
        model = LogisticRegression(
            C=options.C / n_copies, memory_limit=options.memory_limit, **settings
        ).fit(store)
        fit_s = time.perf_counter() - started_s
    return {
        "scale": options.scale,
        "n_rows": store.shape[0],
        "n_features": store.shape[1],
        "n_stored": store.n_stored,
        "n_bytes": store.manifest.n_bytes,
        "memory_limit": options.memory_limit,
        "n_threads": options.n_threads,
        "peak_bytes_before_the_fit": before,
        "peak_bytes": peak_bytes(),
        "write_seconds": write_s,
        "fit_seconds": fit_s,
        "n_reads": int(model.n_iter_[0]) + 1,
        "relative_gap": model.gap_ / model.objective_,
        "objective": model.objective_,
        "objective_of_one_copy": small.objective_,
        "relative_gap_of_one_copy": small.gap_ / small.objective_,
        "solver": model.solver_,
        **machine_facts(),
    }


def main(arguments: list[str]) -> None:
    """Measure, check that both fits agree, and write one row."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of 2^31 entries")
    parser.add_argument("--n-features", type=int, default=100_000)
    parser.add_argument("--memory-limit", default="4GiB")
    parser.add_argument("--n-threads", type=int, default=2)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--C", type=float, default=1e-3, help="of one copy")
    parser.add_argument("--folder", type=Path, default=None, help="where the store is written")
    parser.add_argument("--output", type=Path, default=Path("many_entries.csv"))
    options = parser.parse_args(arguments)
    row = measure(options)
    for name, value in row.items():
        print(f"{name}: {value}")
    difference = abs(row["objective"] - row["objective_of_one_copy"]) / row["objective"]
    allowed = max(row["relative_gap"], row["relative_gap_of_one_copy"]) + 1e-6
    if difference > allowed:
        raise SystemExit(f"the objectives differ by {difference:.2e}, expected {allowed:.2e}")
    with options.output.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(row), lineterminator="\n")
        writer.writeheader()
        writer.writerow(row)


if __name__ == "__main__":
    main(sys.argv[1:])
