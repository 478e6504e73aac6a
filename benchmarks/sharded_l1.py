"""L1 penalties on many sparse columns whose rows are on several shards: three ways to minimise.

Each shard is a thread of this process: reads, sums and the numbers in them are those of as many
ranks, seconds of a thread its own. Run from the repository's root::

    python -m benchmarks.sharded_l1 --output benchmarks/results/sharded_l1.csv
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import machine_facts
from snapml.data import CompressedMatrix, Dataset, make_click_log
from snapml.problems import Intercept, Logistic, Penalty, Problem
from snapml.solvers.columns import cpu_column_engine
from snapml.solvers.columns.cpu_column_engine import CpuColumnEngine
from snapml.solvers.communicator import Communicator, SerialCommunicator
from snapml.solvers.plan.thread_shards import row_shards, solve_together
from snapml.solvers.result import FitResult
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.working_sets import working_set_descent

_RULE = StoppingRule(1e-5, 100)
_NEVER, _ALWAYS = 0, 1 << 60
# What is sent of more columns than the Gram matrix of one shard holds: they themselves, their Gram
# matrix, or slopes of blocks of them.
_WAYS = {
    "columns": {"_MOST_GATHERED": _ALWAYS, "_MOST_SPARSE_GRAM_OF_SHARDS": _NEVER},
    "Gram matrix": {"_MOST_GATHERED": _NEVER, "_MOST_SPARSE_GRAM_OF_SHARDS": _ALWAYS},
    "blocks": {"_MOST_GATHERED": _NEVER, "_MOST_SPARSE_GRAM_OF_SHARDS": _NEVER},
}
_COLUMNS = ("data", "l1", "way", "n_shards", "n_reads", "n_messages", "megabytes", "thread_seconds",
            "relative_gap", "support")  # fmt: skip


class _Counting:
    """A communicator that counts messages, and bytes as each shard lays them down."""

    def __init__(self, communicator: Communicator) -> None:
        self.rank, self.size = communicator.rank, communicator.size
        self._communicator = communicator
        self.n_messages = self.n_bytes = 0

    def allreduce_sum(self, array: Any) -> Any:
        """Return the sum over all shards."""
        self.n_messages += 1
        self.n_bytes += array.nbytes
        return self._communicator.allreduce_sum(array)

    def exchange(self, value: Any) -> list[Any]:
        """Return what all shards have laid down."""
        self.n_messages += 1
        parts = value if isinstance(value, tuple) else (value,)
        self.n_bytes += sum(part.nbytes for part in parts if isinstance(part, np.ndarray))
        return self._communicator.exchange(value)


def data_sets(n_rows: int) -> Iterator[tuple[str, Any, np.ndarray]]:
    """Return rows of words that are rarer and rarer, and of a category for each field."""
    rng = np.random.default_rng(0)
    n_columns, length = 20_000, 40
    words = np.sort(rng.zipf(1.2, (n_rows, length)).clip(max=1 << 40) % n_columns, axis=1)
    indptr = np.arange(0, words.size + 1, length)
    values = rng.random(words.size) + 0.1
    rows = CompressedMatrix(indptr, words.ravel().astype(np.int32), n_columns, values)
    truth = rng.normal(size=n_columns) * (rng.random(n_columns) < 0.2) * 2.0
    margins = (values * truth[words.ravel()]).reshape(words.shape).sum(axis=1)
    name = f"words {n_rows} x {n_columns}"
    yield name, rows, margins + rng.logistic(size=n_rows) > 0.0
    X, y = make_click_log(n_rows, n_columns)
    rows = CompressedMatrix(X.indptr, X.indices, n_columns, X.data)
    yield f"click log {n_rows} x {n_columns}", rows, y > 0


def measure(data: Dataset, strength: float, n_shards: int) -> dict[str, Any]:
    """Fit on so many shards, and return what the first of them saw."""
    problem = Problem(Logistic(), Intercept.FREE, penalty=Penalty(strength, 0.0))
    seen: dict[int, dict[str, Any]] = {}

    def solve(shard: Dataset, communicator: Communicator) -> FitResult:
        counting, began = _Counting(communicator), time.thread_time()
        engine = CpuColumnEngine(problem, shard, n_threads=1)
        result = working_set_descent.solve(engine, counting, _RULE)
        seen[communicator.rank] = {
            "n_reads": result.n_iter + 1,
            "n_messages": counting.n_messages,
            "megabytes": f"{counting.n_bytes / 1e6:.3f}",
            "thread_seconds": f"{time.thread_time() - began:.3f}",
            "relative_gap": f"{result.gap / result.objective:.2e}",
            "support": int(np.count_nonzero(result.coef)),
        }
        return result

    if n_shards == 1:
        solve(data, SerialCommunicator())
        return {**seen[0], "n_messages": 0, "megabytes": "0"}
    solve_together([partial(solve, shard) for shard in row_shards(data, n_shards)])
    return seen[0]


def runs(n_rows: int, strengths: list[float], shards: list[int]) -> Iterator[dict[str, Any]]:
    """Return one row a fit."""
    for name, rows, is_positive in data_sets(n_rows):
        labels = np.where(is_positive, 1.0, -1.0).astype(rows.dtype)
        data = Dataset(rows, labels, None, 1.0)
        for strength in strengths:
            facts = {"data": name, "l1": strength}
            yield {**facts, "way": "one shard", "n_shards": 1, **measure(data, strength, 1)}
            for way, limits in _WAYS.items():
                for limit, value in limits.items():
                    setattr(cpu_column_engine, limit, value)
                for n_shards in shards:
                    found = measure(data, strength, n_shards)
                    yield {**facts, "way": way, "n_shards": n_shards, **found}


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--l1", type=float, nargs="+", default=[2.0, 1.0])
    parser.add_argument("--shards", type=int, nargs="+", default=[2, 4])
    options = parser.parse_args()
    with options.output.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [*_COLUMNS, *machine_facts()], lineterminator="\n")
        writer.writeheader()
        for row in runs(options.rows, options.l1, options.shards):
            print(*row.values(), flush=True)
            writer.writerow({**row, **machine_facts()})
            stream.flush()


if __name__ == "__main__":
    main()
