"""What a continuation of smoothed hinges reads, and how many epochs coordinate ascent takes.

Counts, which no machine changes: made-up rows, one thread, ``LinearSVC(loss="hinge")`` to its own
tolerance; rows of length 1 that are dense, and ones. The seconds that an NVIDIA H200 would take are
projections: epochs in rounds, reads and products at the times of ``results/gpu_check_h200.csv``, in
proportion to the stored entries, and 3 ms more for a read, which its fits took beside their
kernels. Hessians are left out.

    python -m benchmarks.hinge_reads

writes ``results/hinge_reads.csv``; 4 minutes.
"""

from __future__ import annotations

import csv
import warnings
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.gpu.data import Shape, logistic
from snapml import LinearSVC
from snapml.solvers.newton.sampled_curvature import SampledCurvature
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.rows.cpu_rows import array_of

# Rows here, and on the card: rows, seconds of an epoch in rounds and of a read. A product with the
# Hessian reads sparse rows as a pass does.
_SHAPES = (
    (Shape(100_000, 28), 11_000_000, 0.3307, 0.00027),
    (Shape(20_000, 784), 1_000_000, 0.0663, 0.00092),
    (Shape(8_000, 2_000), 400_000, 0.0443, 0.0009),
    (Shape(50_000, 100_000, 39), 20_000_000, 1.1388, 0.0073),
    (Shape(50_000, 1_000, 10), 20_000_000, 1.1388 * 10 / 39, 0.0073 * 10 / 39),
)
_STRENGTHS = (0.01, 0.1, 1.0, 10.0)
_OF_A_READ_S = 0.003


def _counted(model: LinearSVC, X: Any, y: np.ndarray) -> Counter[str]:
    """Fit; return how often the rows were read, and for what."""
    counts: Counter[str] = Counter()

    def counting(owner: Any, name: str) -> Any:
        method = getattr(owner, name)

        def counted(*args: Any, **options: Any) -> Any:
            counts[name] += 1
            return method(*args, **options)

        return mock.patch.object(owner, name, counted)

    with (
        counting(CpuPrimalEngine, "fused_pass"),
        counting(CpuPrimalEngine, "hessian_product"),
        counting(SampledCurvature, "update"),
    ):
        model.fit(X, y)
    return counts


def main() -> None:
    """Write a row for each shape and strength."""
    warnings.simplefilter("ignore")
    path = Path(__file__).parent / "results" / "hinge_reads.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        columns = ["shape", "C", "reads", "products", "hessians", "gap", "epochs", "epochs_gap"]
        table.writerow([*columns, "rows_on_a_card", "projected_s", "projected_s_of_epochs"])
        for shape, n_on_card, epoch_s, read_s in _SHAPES:
            _, dataset = logistic(shape, 0)
            X: Any = array_of(dataset.matrix)
            for C in _STRENGTHS:
                model = LinearSVC(loss="hinge", C=C, n_threads=1, max_iter=2000)
                counts = _counted(model.set_params(solver="pqn"), X, dataset.labels)
                gap = model.gap_ / model.objective_
                model.set_params(solver="sdca", max_time_s=20).fit(X, dataset.labels)
                reads, products = counts["fused_pass"], counts["hessian_product"]
                continuation_s = reads * (read_s + _OF_A_READ_S) + products * read_s
                row = [str(shape), C, reads, products, counts["update"], f"{gap:.1e}"]
                row += [model.n_iter_, f"{model.gap_ / model.objective_:.1e}", n_on_card]
                row += [f"{continuation_s:.2f}", f"{model.n_iter_ * epoch_s:.2f}"]
                table.writerow(row)
                file.flush()
                print(*row)


if __name__ == "__main__":
    main()
