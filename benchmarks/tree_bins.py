"""What bins cost a tree in accuracy: histograms of several sizes beside exact trees.

    python -m benchmarks.tree_bins --out benchmarks/results/tree_bins.csv

Families of generated rows, from one that a tree learns to one that is mostly noise. The exact tree
is ``splitter="best"``, which is scikit-learn's. One thread, in turns on the same data.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.records import machine_facts, write_rows
from snapml import DecisionTreeClassifier

DEPTHS = (8, 12, 16, 20)
BINS = (255, 1023, 4095)


def families(n_rows: int, seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return rows and labels by name.

    Parameters
    ----------
    n_rows : int
        How many.
    seed : int
        Other seeds give other rows.

    Returns
    -------
    dict
        Of pairs of float32 rows and labels.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 28)).astype(np.float32)
    linear = X[:, :8] @ rng.normal(size=8) / np.sqrt(8)
    boxes = (np.abs(X[:, 0]) < 0.7) ^ (X[:, 1] > 0.2) ^ (X[:, 2] > 0.9)
    heavy = np.exp(2.0 * X)
    return {
        "boxes": (X, (boxes ^ (rng.random(n_rows) < 0.02)).astype(int)),
        "linear": (X, (linear > 0).astype(int)),
        "linear, noise": (X, (linear + rng.normal(size=n_rows) > 0).astype(int)),
        "linear, much noise": (X, (linear + 3 * rng.normal(size=n_rows) > 0).astype(int)),
        "long tails": (heavy, (linear + 0.5 * rng.normal(size=n_rows) > 0).astype(int)),
    }


def main() -> None:
    """Fit all, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    rows = []
    for seed in range(arguments.repeats):
        for name, (X, y) in families(arguments.rows + 100_000, seed).items():
            cut = arguments.rows
            for depth in DEPTHS:
                for bins in (*BINS, None):
                    how = {"splitter": "best"} if bins is None else {"max_bins": bins}
                    tree = DecisionTreeClassifier(
                        max_depth=depth, n_threads=1, random_state=0, **how
                    )
                    began = time.perf_counter()
                    tree.fit(X[:cut], y[:cut])
                    seconds = time.perf_counter() - began
                    rows.append(
                        {
                            "family": name,
                            "seed": seed,
                            "n_rows": cut,
                            "depth": depth,
                            "bins": "exact" if bins is None else bins,
                            "accuracy": tree.score(X[cut:], y[cut:]),
                            "seconds": seconds,
                            **machine_facts(),
                        }
                    )
                    print(*list(rows[-1].values())[:7], flush=True)
    if arguments.out is not None:
        write_rows(arguments.out, rows)


if __name__ == "__main__":
    main()
