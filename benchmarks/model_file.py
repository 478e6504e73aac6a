"""How long `save` and `load` of a large model take, beside a plain write and read of its numbers.

Each round times, in a folder on the same disk: ``model.save`` and ``snapml.load`` of a ridge model
of 10 million float64 coefficients, and ``numpy.save`` and ``numpy.load`` of the coefficients alone,
the written file forced to the disk as ``save`` forces its own. The order alternates between rounds,
and a first round is not recorded. Files are read from the system's cache.

Run from the repository's root::

    python -m benchmarks.model_file --output benchmarks/results/model_file.csv
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import snapml
from benchmarks.records import REPOSITORY_ROOT, machine_facts, prepare_output, write_rows

DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "model_file.csv"


def large_model(n_features: int) -> snapml.Ridge:
    """Return a fitted model with the coefficients of so many columns."""
    model = snapml.Ridge().fit([[0.0], [1.0]], [0.0, 1.0])
    model.coef_ = np.random.default_rng(0).normal(size=n_features)
    model.n_features_in_ = n_features
    return model


def plain_write(array: np.ndarray, path: Path) -> None:
    """Write an array, and wait for the disk."""
    with path.open("wb") as stream:
        np.save(stream, array)
        stream.flush()
        os.fsync(stream.fileno())


def measure(n_features: int, n_repeats: int) -> list[dict[str, Any]]:
    """Time all four in turn.

    Parameters
    ----------
    n_features : int
        Coefficients of the model.
    n_repeats : int
        Recorded rounds.

    Returns
    -------
    list of dict
        One for each time.
    """
    facts = machine_facts()
    model = large_model(n_features)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        ours, plain = Path(folder) / "model", Path(folder) / "coef.npy"
        pairs: list[tuple[tuple[str, str, Callable[[], Any]], ...]] = [
            (
                ("write", "model.save", lambda: model.save(ours)),
                ("write", "numpy.save", lambda: plain_write(model.coef_, plain)),
            ),
            (
                ("read", "snapml.load", lambda: snapml.load(ours)),
                ("read", "numpy.load", lambda: np.load(plain)),
            ),
        ]
        for repeat in range(-1, n_repeats):
            for pair in pairs:
                for kind, what, call in pair if repeat % 2 else reversed(pair):
                    begin = time.perf_counter()
                    call()
                    seconds = time.perf_counter() - begin
                    row = {"kind": kind, "what": what, "n_features": n_features, "repeat": repeat}
                    load = round(os.getloadavg()[0], 2)
                    rows.append(row | {"seconds": seconds, "load_average": load} | facts)
        if not np.array_equal(snapml.load(ours).coef_, model.coef_):
            raise SystemExit("the model that was read is another one")
    return [row for row in rows if row["repeat"] >= 0]


def main() -> None:
    """Measure, write all times, print medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-features", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--overwrite", action="store_true")
    arguments = parser.parse_args()
    prepare_output(arguments.output, arguments.overwrite)
    rows = measure(arguments.n_features, arguments.repeats)
    write_rows(arguments.output, rows)
    for kind, ours, plain in (
        ("write", "model.save", "numpy.save"),
        ("read", "snapml.load", "numpy.load"),
    ):
        own, other = (
            median(row["seconds"] for row in rows if row["what"] == what) for what in (ours, plain)
        )
        print(f"{kind}: {ours} {own:.3f} s, {plain} {other:.3f} s, ratio {own / other:.2f}")


if __name__ == "__main__":
    main()
