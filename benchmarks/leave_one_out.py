"""`RidgeCV` by leave-one-out beside scikit-learn's, with default penalties and with 50.

    python -m benchmarks.leave_one_out

writes ``results/leave_one_out.csv``: seconds of the best of some calls, all threads, interleaved.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import linear_model

import snapml

_SHAPES = {
    "dense": ((100, 5), (1000, 50), (100_000, 30), (300, 2000), (2000, 1000), (3000, 2500)),
    "sparse": ((1000, 300), (50_000, 200), (2000, 5000), (20_000, 1000), (4000, 20_000)),
}
_STORED = 20


def _rows(kind: str, n_rows: int, n_columns: int) -> Any:
    rng = np.random.default_rng(0)
    if kind == "dense":
        return rng.standard_normal((n_rows, n_columns))
    share = _STORED / n_columns
    return sparse.random(n_rows, n_columns, share, format="csr", random_state=0)


def main() -> None:
    """Write a row for each shape and number of penalties."""
    parser = argparse.ArgumentParser(description=__doc__)
    results = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=results / "leave_one_out.csv")
    wanted = parser.parse_args()
    with wanted.out.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(
            ["rows", "shape", "alphas", "snapml_s", "sklearn_s", "times_faster", "coef_difference"]
        )
        for kind, shapes in _SHAPES.items():
            for shape in shapes:
                X = _rows(kind, *shape)
                y = np.asarray(X[:, :5].sum(axis=1)).ravel()
                y = y + np.random.default_rng(1).standard_normal(len(y))
                for alphas in ((0.1, 1.0, 10.0), tuple(np.logspace(-3, 3, 50))):
                    row = [kind, f"{shape[0]} x {shape[1]}", len(alphas), *_compared(X, y, alphas)]
                    table.writerow(row)
                    file.flush()
                    print(*row, flush=True)


def _compared(X: Any, y: np.ndarray, alphas: tuple[float, ...]) -> list[str]:
    """Return seconds of both, their ratio, and by how much coefficients differ."""
    makers = {"ours": snapml.RidgeCV, "theirs": linear_model.RidgeCV}
    best = dict.fromkeys(makers, np.inf)
    fitted: dict[str, Any] = {}
    for _ in range(5):
        for name, make in makers.items():
            began = time.perf_counter()
            fitted[name] = make(alphas).fit(X, y)
            best[name] = min(best[name], time.perf_counter() - began)
        if sum(best.values()) > 2.0:
            break
    beside = float(np.abs(fitted["ours"].coef_ - fitted["theirs"].coef_).max())
    ratio = best["theirs"] / best["ours"]
    return [f"{best['ours']:.4g}", f"{best['theirs']:.4g}", f"{ratio:.2f}", f"{beside:.0e}"]


if __name__ == "__main__":
    main()
