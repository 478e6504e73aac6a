"""Floors of fits on a card that has not run them: a projection, and no measurement.

Run from the repository's root, without a GPU::

    python -m benchmarks.gpu.projection

How often a fit reads its data is counted on the CPU, on fewer rows of the same kind. What a read
costs at least follows from bytes, gathers and operations over the rates of an H200.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu.data import Shape, logistic
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.newton import quasi_newton
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.stopping import StoppingRule

__all__ = ["CASES", "RATES", "Case", "CountingEngine", "Projection", "project"]

RESULTS = Path(__file__).resolve().parents[1] / "results" / "gpu_projection.csv"
RATES = {
    "bytes": 4.3e12,
    "gathers": 150e9,
    "atomics": 75e9,
    "operations": 67e12,
    "host bytes": 50e9,
}
"""Assumed of an H200, per second: a copy within its memory (seen on one card, not by this code),
gathers from its L2 and additions of 64-bit integers there (estimates), float32 operations (the data
sheet), copies from pinned memory over PCIe 5 (an estimate)."""

COLD = 0.35
"""Share of a click log's entries whose columns are not among the 29,000 most frequent ones, which
shared memory holds (docs/algorithms.md, section 8)."""


@dataclass(frozen=True)
class Case:
    """A fit that is projected, and the smaller one whose reads are counted.

    Attributes
    ----------
    full, counted : Shape
        Of both; the weight of all rows together is the same.
    """

    full: Shape
    counted: Shape


CASES = (
    Case(Shape(11_000_000, 28), Shape(400_000, 28)),
    Case(Shape(1_000_000, 784), Shape(50_000, 784)),
    Case(Shape(400_000, 2000), Shape(80_000, 2000)),
    Case(Shape(20_000_000, 1_000_000, 39), Shape(400_000, 20_000, 39)),
)


@dataclass(frozen=True)
class Projection:
    """One row of the results; every time is a floor that no card has been seen to reach.

    Attributes
    ----------
    kind : str
        "projection".
    data, counted_on : str
        What is projected, and what the reads were counted on.
    tol : float
        Relative duality gap.
    reads, hessian_products, sample_rows, sample_reads : int
        Counted.
    read_floor_ms, fit_floor_ms : float
        Of one read, and of all reads, products, and the sample's Gram matrix and reads.
    transfer_floor_ms : float
        To copy the rows to the device.
    """

    kind: str
    data: str
    counted_on: str
    tol: float
    reads: int
    hessian_products: int
    sample_rows: int
    sample_reads: int
    read_floor_ms: float
    fit_floor_ms: float
    transfer_floor_ms: float


class CountingEngine:
    """A `PrimalEngine` that counts what it is asked, and so do its samples.

    Parameters
    ----------
    engine : PrimalEngine
        Does the work.
    counts : collections.Counter or None, default=None
        Where calls are counted by name; those of samples as "sample.NAME".
    prefix : str, default=""
        For the names.
    """

    def __init__(self, engine: Any, counts: Counter[str] | None = None, prefix: str = "") -> None:
        self._engine = engine
        self._prefix = prefix
        self.counts: Counter[str] = Counter() if counts is None else counts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def fused_pass(self, *args: Any, **options: Any) -> Any:
        """Count a read; see `PrimalEngine.fused_pass`."""
        self.counts[f"{self._prefix}fused_pass"] += 1
        return self._engine.fused_pass(*args, **options)

    def hessian_product(self, direction: Any) -> Any:
        """Count a product; see `PrimalEngine.hessian_product`."""
        self.counts[f"{self._prefix}hessian_product"] += 1
        return self._engine.hessian_product(direction)

    def sample(self, n_rows: int) -> CountingEngine:
        """Count the rows of a sample; see `PrimalEngine.sample`."""
        sampled = self._engine.sample(n_rows)
        self.counts["sample.rows"] = max(self.counts["sample.rows"], sampled.n_rows)
        return CountingEngine(sampled, self.counts, "sample.")


def project(case: Case, tol: float, seed: int = 0) -> Projection:
    """Count the reads of a fit, and say what they cost at least.

    Parameters
    ----------
    case : Case
        Which fit.
    tol : float
        Relative duality gap at which it ends.
    seed : int, default=0
        Of the data.

    Returns
    -------
    Projection
        With floors for `RATES`.
    """
    cost = case.full.n_rows / case.counted.n_rows
    problem, dataset = logistic(case.counted, seed, cost)
    engine = CountingEngine(CpuPrimalEngine(problem, dataset))
    quasi_newton.solve(engine, SerialCommunicator(), StoppingRule(tol, 1000))
    counts = engine.counts
    read_s = _read_floor_s(case.full, case.full.n_rows)
    sample_rows = counts["sample.rows"]
    fit_s = counts["fused_pass"] * read_s
    # Dense rows are read twice for a product; a pass over sparse ones is two reads already.
    reads_of_product = 1 if case.full.n_entries else 2
    fit_s += reads_of_product * counts["hessian_product"] * read_s
    fit_s += counts["sample.fused_pass"] * _read_floor_s(case.full, sample_rows)
    if not case.full.n_entries:  # X^T diag(curvature) X, one triangle of it
        fit_s += sample_rows * case.full.n_cols**2 / RATES["operations"]
    return Projection(
        "projection",
        str(case.full),
        str(case.counted),
        tol,
        counts["fused_pass"],
        counts["hessian_product"],
        sample_rows,
        counts["sample.fused_pass"],
        round(1e3 * read_s, 3),
        round(1e3 * fit_s, 2),
        round(1e3 * _bytes(case.full, case.full.n_rows) / RATES["host bytes"], 1),
    )


def _bytes(shape: Shape, n_rows: int) -> float:
    """Return the bytes of the rows: float32 entries, or 32-bit indices and offsets."""
    return 4.0 * n_rows * ((shape.n_entries + 1) if shape.n_entries else shape.n_cols)


def _read_floor_s(shape: Shape, n_rows: int) -> float:
    """Return the floor of a fused pass: rows once, or for margins and for products if sparse.

    Labels are read and margins written, 4 and 8 bytes a row. Of sparse rows each cold entry is a
    gather for the margins, and an atomic addition for the products.
    """
    if not shape.n_entries:
        return (_bytes(shape, n_rows) + 12.0 * n_rows) / RATES["bytes"]
    streamed_s = (_bytes(shape, n_rows) + 12.0 * n_rows) / RATES["bytes"]
    n_cold = COLD * n_rows * shape.n_entries
    return max(streamed_s, n_cold / RATES["gathers"]) + max(streamed_s, n_cold / RATES["atomics"])


def main(arguments: list[str] | None = None) -> None:
    """Write the projection.

    Parameters
    ----------
    arguments : list of str or None, default=None
        Of the command line; None takes the process's.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.projection")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-6])
    options = parser.parse_args(arguments)
    with options.output.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(Projection.__annotations__), lineterminator="\n")
        writer.writeheader()
        for case in CASES:
            for tol in options.tol:
                row = project(case, tol)
                writer.writerow(asdict(row))
                stream.flush()
                print(row, flush=True)


if __name__ == "__main__":
    main()
