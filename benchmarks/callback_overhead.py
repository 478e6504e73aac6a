"""What callbacks cost: fits with none, with one that does nothing, and with scikit-learn's own.

Fits alternate, so that other work on the machine meets all alike; times are medians. Beside whole
fits, whose times differ by more than callbacks cost, the time inside of what calls them is taken
within each fit: `inside_share` is its median share of the same fit's time. The CSV has one line for
each problem and callback; on the smallest problem, what a fit costs beside its passes shows.

    python -m benchmarks.callback_overhead [--out FILE] [--repeats N]
"""

from __future__ import annotations

import argparse
import csv
import io
import statistics
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.callback import ProgressBar

from benchmarks.records import machine_facts
from snapml import LinearSVC, LogisticRegression
from snapml.estimators.fit_call import _Callbacks


class Idle:
    """Does nothing, or only asks for the model on the way."""

    def setup(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing."""


class Reader(Idle):
    """Asks for the model of each pass."""

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> None:
        """Do nothing with it."""


CALLBACKS: dict[str, Callable[[], list[Any]]] = {
    "none": list,
    "idle": lambda: [Idle()],
    "reader": lambda: [Reader()],
    "ProgressBar": lambda: [ProgressBar()],
}


def problems() -> dict[str, tuple[Any, Any, np.ndarray]]:
    """Return an estimator, rows and labels of each problem."""
    rng = np.random.default_rng(0)
    made: dict[str, tuple[Any, Any, np.ndarray]] = {}
    for n_rows, n_columns in ((1_000, 20), (200_000, 50), (50_000, 300)):
        X = rng.standard_normal((n_rows, n_columns))
        y = (X[:, 0] + rng.standard_normal(n_rows) > 0).astype(int)
        made[f"logistic, dense {n_rows} x {n_columns}"] = LogisticRegression(tol=1e-9), X, y
    n_rows, n_columns, n_each = 200_000, 20_000, 20
    columns = rng.integers(0, n_columns, (n_rows, n_each)).ravel()
    starts = np.arange(0, n_rows * n_each + 1, n_each)
    S = scipy.sparse.csr_matrix((np.ones(len(columns)), columns, starts), (n_rows, n_columns))
    S.sum_duplicates()
    y = (np.asarray(S[:, :2_000].sum(axis=1)).ravel() > 1.5).astype(int)
    made["logistic, sparse 200000 x 20000"] = LogisticRegression(tol=1e-6), S, y
    made["hinge, sparse 200000 x 20000"] = LinearSVC(loss="hinge", tol=1e-4), S, y
    return made


class Inside:
    """Adds up the time inside of what hands passes to callbacks, and makes models for them."""

    def __init__(self) -> None:
        self.seconds = 0.0
        for name in ("__init__", "look", "end"):
            setattr(_Callbacks, name, self._timed(getattr(_Callbacks, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def timed(*arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return method(*arguments)
            finally:
                self.seconds += time.perf_counter() - began

        return timed


def measured(
    made: Any, X: Any, y: np.ndarray, repeats: int, inside: Inside
) -> dict[str, list[tuple[float, float]]]:
    """Return times of fits, and inside of callbacks, by the callback; the first does not count."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in CALLBACKS}
    for number in range(repeats + 1):
        for name, make in CALLBACKS.items():
            made.set_callbacks(*make())
            with redirect_stdout(io.StringIO()):
                inside.seconds = 0.0
                began = time.perf_counter()
                made.fit(X, y)
                took = time.perf_counter() - began
            if number:
                times[name].append((took, inside.seconds))
    return times


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    folder = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=folder / "callback_overhead.csv")
    parser.add_argument("--repeats", type=int, default=11)
    args = parser.parse_args()
    lines, inside = [], Inside()
    for problem, (made, X, y) in problems().items():
        times = measured(made, X, y, args.repeats, inside)
        without = [took for took, _ in times["none"]]
        base = statistics.median(without)
        for name, pairs in times.items():
            own = [took for took, _ in pairs]
            ratios = [t / t0 for t, t0 in zip(own, without, strict=True)]
            lines.append(
                {
                    "problem": problem,
                    "callback": name,
                    "passes": len(made.history_),
                    "median_s": round(statistics.median(own), 6),
                    "fastest_s": round(min(own), 6),
                    "median_ratio": round(statistics.median(ratios), 4),
                    "fastest_over_fastest": round(min(own) / min(without), 4),
                    "extra_us_a_pass": round(
                        1e6 * (statistics.median(own) - base) / len(made.history_), 1
                    ),
                    "inside_us_a_pass": round(
                        1e6 * statistics.median(t for _, t in pairs) / len(made.history_), 1
                    ),
                    "inside_share": round(statistics.median(t / took for took, t in pairs), 5),
                    "repeats": args.repeats,
                    **machine_facts(),
                }
            )
            print({k: lines[-1][k] for k in list(lines[-1])[:10]})
    with args.out.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()
