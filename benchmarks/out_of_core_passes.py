"""How many reads coordinate ascent takes on a store and in memory, to two certified gaps.

Counts, so that the load of the machine does not matter. For the hinge also with pieces left out
whose gap is small (DuHL, Dünner, Parnell and Jaggi 2017), and the share of pieces of several sizes
that could be left out after 20 epochs. Run from the repository's root::

    python -m benchmarks.out_of_core_passes --data FOLDER
        --output benchmarks/results/out_of_core_passes.csv
        --shares benchmarks/results/out_of_core_skipping.csv
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from snapml.data import (
    ChunkedDataset,
    ChunkedMatrix,
    ChunkWriter,
    CompressedMatrix,
    Dataset,
    DenseMatrix,
    make_click_log,
)
from snapml.io import load_svmlight
from snapml.problems import Hinge, Intercept, Logistic, Loss, Problem, SquaredHinge
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.dual_ascent import dual_coordinate_ascent
from snapml.solvers.dual_ascent.cpu_engine import CpuEngine
from snapml.solvers.dual_ascent.streamed_dual_engine import StreamedDualEngine
from snapml.solvers.stopping import StoppingRule

_N_CHUNKS = 10
_LOSSES = {"hinge": Hinge(), "squared hinge": SquaredHinge(), "logistic": Logistic()}


class SkippingEngine(StreamedDualEngine):
    """Leaves out pieces of small gap, judged by the exact margins before each epoch.

    Those are fresher than what an epoch itself could tell, and their reads are not counted: if this
    saves nothing, gaps that are seen as rows are visited do not either.
    """

    patience = 3  # epochs that a piece may be left out in a row
    share = 0.1  # of the mean gap of a piece's rows

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._all = list(self._groups._pieces)
        self._left_out = np.zeros(len(self._all), np.int64)
        self.rows_read = 0

    def dual_epoch(self, epoch: int, outer_sigma: float = 1.0) -> float:
        """Visit the rows of the pieces that matter; return the gap as it was before."""
        super().exact_sweep(1.0, 1.0)
        y, s = self._dataset.labels.astype(np.float64), self.duals.astype(np.float64)
        slack = 1.0 - y * (self._margins + self.offset)
        gaps = self._dataset.weight * (np.maximum(slack, 0.0) - s * slack)
        begins = [self._matrix.rows_of(k).start for k, _, _ in self._all]
        sizes = np.array([last - first for _, first, last in self._all])
        starts = np.array([b + first for b, (_, first, _) in zip(begins, self._all, strict=True)])
        of_piece = np.add.reduceat(gaps, starts) / sizes
        skipped = (of_piece < self.share * gaps.mean()) & (self._left_out < self.patience)
        self._left_out = np.where(skipped, self._left_out + 1, 0)
        self._groups._pieces = [p for p, out in zip(self._all, skipped, strict=True) if not out]
        self.rows_read += int(sizes[~skipped].sum())
        super().dual_epoch(epoch, outer_sigma)
        return float(gaps.sum())


def data_sets(folder: Path) -> Iterator[tuple[str, Any, np.ndarray, float]]:
    """Return name, rows, labels -1 and +1, and C."""
    rng = np.random.default_rng(0)
    dense = (rng.normal(size=(40_000, 60)) / np.sqrt(60)).astype(np.float32)
    margin = dense @ rng.normal(size=60) + 0.3 * rng.normal(size=len(dense))
    yield "dense 40k x 60", DenseMatrix(dense), np.sign(margin), 1.0
    order = np.argsort(margin, kind="stable")
    yield "the same, sorted", DenseMatrix(dense[order]), np.sign(margin[order]), 1.0
    centres = dense[np.arange(len(dense)) // 100 * 100]
    alike = (centres + 0.05 * dense).astype(np.float32)
    margin = alike @ rng.normal(size=60) + 0.3 * rng.normal(size=len(alike))
    yield "the same, 100 alike", DenseMatrix(alike), np.sign(margin), 0.1
    clicks, clicked = make_click_log(150_000, 100_000)
    ones = CompressedMatrix(clicks.indptr, clicks.indices, clicks.shape[1])
    yield "click log 150k x 100k", ones, np.where(clicked > 0, 1.0, -1.0), 0.1
    X, y = load_svmlight(folder / "a9a.train.svm.xz", dtype=np.float32)
    ones = CompressedMatrix(X.indptr, X.indices, X.shape[1], X.data)
    yield "a9a", ones, np.where(y > 0, 1.0, -1.0), 0.01
    content = np.load(folder / "covtype_20k.npz")
    names = list(content)
    X, y = content[names[0]], content[names[1]]
    scaled = StandardScaler().fit_transform(X.astype(np.float64)).astype(np.float32)
    yield (
        "covtype 20k",
        DenseMatrix(scaled),
        np.where(y == np.bincount(y).argmax(), 1.0, -1.0),
        0.01,
    )


def counted(engine: Any, tol: float, max_iter: int) -> dict[str, Any]:
    """Solve, and count reads of the rows."""
    n_sweeps = 0
    plain = engine.exact_sweep

    def exact_sweep(*scales: float) -> Any:
        nonlocal n_sweeps
        n_sweeps += 1
        return plain(*scales)

    engine.exact_sweep = exact_sweep
    engine.free_visits = 0
    rule = StoppingRule(tol, max_iter)
    result = dual_coordinate_ascent.solve(engine, SerialCommunicator(), rule)
    epochs = float(result.n_iter)
    if isinstance(engine, SkippingEngine):
        epochs = engine.rows_read / len(engine.duals)
    return {
        "epochs": round(epochs, 2),
        "certificates": n_sweeps,
        "relative_gap": result.gap / result.objective,
        "has_converged": result.has_converged,
    }


def measure(
    name: str, matrix: Any, y: np.ndarray, cost: float, loss: Loss, max_iter: int
) -> Iterator[dict[str, Any]]:
    """Return the counts of one data set and loss."""
    problem = Problem(loss, Intercept.PENALISED)
    whole = Dataset(matrix, y.astype(matrix.dtype), None, cost)
    is_dense = isinstance(matrix, DenseMatrix)
    with tempfile.TemporaryDirectory() as folder:
        values = 0 if is_dense or matrix.values is None else matrix.dtype.itemsize
        entry = matrix.dtype.itemsize if is_dense else matrix.indices.itemsize + values
        with ChunkWriter(folder, chunk_bytes=matrix.n_stored * entry // _N_CHUNKS) as writer:
            writer.append(matrix.values if is_dense else matrix)
        store = ChunkedDataset.open(folder, memory_limit=0)
        streamed = replace(whole, matrix=ChunkedMatrix(store))
        for tol in (1e-3, 1e-6):
            engines = {"in memory": CpuEngine(problem, whole, n_threads=1)}
            engines["on a store"] = StreamedDualEngine(problem, streamed, n_threads=1)
            if isinstance(loss, Hinge):
                engines["on a store, skipping"] = SkippingEngine(problem, streamed, n_threads=1)
            for where, engine in engines.items():
                row = {"data": name, "C": cost, "loss": type(loss).__name__, "tol": tol}
                row |= {"n_chunks": store.n_chunks, "where": where}
                yield row | counted(engine, tol, max_iter)


def small_gaps(name: str, matrix: Any, y: np.ndarray, cost: float) -> Iterator[dict[str, Any]]:
    """Return which share of pieces has a tenth of the mean gap or less, for sizes in rows."""
    problem = Problem(Hinge(), Intercept.PENALISED)
    dataset = Dataset(matrix, y.astype(matrix.dtype), None, cost)
    engine = CpuEngine(problem, dataset, n_threads=1)
    for epoch in range(20):
        engine.dual_epoch(epoch)
    engine.exact_sweep(1.0, 1.0)
    slack = 1.0 - y * engine._kept_margins()
    gaps = np.maximum(slack, 0.0) - engine.duals * slack
    for size in (1, 16, 256, 1024):
        count = len(gaps) // size
        means = gaps[: count * size].reshape(count, size).mean(axis=1)
        share = float(np.mean(means < SkippingEngine.share * gaps.mean()))
        yield {"data": name, "C": cost, "piece_rows": size, "share_of_small_gap": round(share, 4)}


def main(arguments: list[str]) -> None:
    """Measure all data sets."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of a9a and covtype_20k")
    parser.add_argument("--max-iter", type=int, default=60)
    parser.add_argument("--only", nargs="*", help="names of data sets; all by default")
    parser.add_argument("--shares", type=Path, help="where to write shares of small gaps")
    parser.add_argument("--output", type=Path, default=Path("out_of_core_passes.csv"))
    options = parser.parse_args(arguments)
    if options.shares:
        write(
            options.shares, (row for each in data_sets(options.data) for row in small_gaps(*each))
        )
    chosen = (each for each in data_sets(options.data) if each[0] in (options.only or [each[0]]))
    rows = (
        row
        for each in chosen
        for loss in _LOSSES.values()
        for row in measure(*each, loss, options.max_iter)
    )
    write(options.output, rows)


def write(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    """Write rows as they come."""
    writer = None
    with path.open("w", newline="") as stream:
        for row in rows:
            print(*row.values(), flush=True)
            if writer is None:
                writer = csv.DictWriter(stream, list(row), lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)
            stream.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
