"""Default threads beside one thread, on a quiet machine and beside a process that takes a core.

Made-up rows, default fits of ours only: nobody should have to lower ``n_threads`` because another
process runs. The four ways of a problem take turns; the median of each counts. The other
process spins for ever on one core, whichever the system gives it.

``python -m benchmarks.busy_machine`` writes ``results/busy_machine.csv``.
"""

from __future__ import annotations

import argparse
import csv
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import snapml
from benchmarks.problems import Problem, make_problem
from benchmarks.synthetic_data import zipf_text
from snapml.data import make_click_log
from snapml.solvers.threads import available_threads

_SPIN = "while True: pass"
_ROUNDS, _LONG_S, _LONG_ROUNDS = 9, 1.0, 5


class Case(NamedTuple):
    """A model and its data."""

    data: str
    model: Any
    X: Any
    y: np.ndarray

    @property
    def name(self) -> str:
        """The model's call."""
        return repr(self.model).removesuffix("()")


def _targets(problem: Problem) -> np.ndarray:
    return np.asarray(problem.X @ np.random.default_rng(0).normal(size=problem.X.shape[1]))


def _sparse() -> Iterator[Case]:
    X, y = make_click_log(n_rows=50_000, n_features=100_000, n_fields=39, random_state=0)
    for model in (snapml.LogisticRegression(), snapml.LinearSVC()):
        yield Case("click log 50k x 100k", model, X, y)
    rng = np.random.default_rng(0)
    for name, shape in (("20k x 47k", (20_000, 47_000, 80)), ("5k x 400k", (5000, 400_000, 400))):
        X = zipf_text(rng, *shape, exponent=1.05)
        scores = X @ rng.normal(size=X.shape[1]) + 0.1 * rng.normal(size=X.shape[0])
        y, classes = scores > 0, np.digitize(scores, np.quantile(scores, [0.2, 0.4, 0.6, 0.8]))
        yield Case("text " + name, snapml.LogisticRegression(), X, y)
        yield Case("text " + name, snapml.LinearSVC(loss="hinge"), X, y)
        yield Case("text " + name, snapml.LogisticRegression(l1_ratio=1.0, C=10.0), X, y)
        yield Case("text " + name, snapml.Ridge(), X, scores)
        yield Case("text " + name, snapml.Lasso(alpha=1e-4), X, scores)
        yield Case("text " + name, snapml.LogisticRegression(), X, classes)


def _dense() -> Iterator[Case]:
    wide = make_problem("dense_wide")
    for model in (snapml.LogisticRegression(), snapml.LinearSVC(loss="hinge")):
        yield Case("dense 10k x 2000", model, wide.X, wide.y)
    yield Case("dense 10k x 2000", snapml.Ridge(), wide.X, _targets(wide))
    yield Case("dense 10k x 2000", snapml.Lasso(alpha=1e-4), wide.X, _targets(wide))
    tall = make_problem("higgs_like", scale=0.1)
    y, rng = _targets(tall), np.random.default_rng(0)
    y = y / y.std()
    for model in (snapml.LogisticRegression(), snapml.LinearSVC(loss="hinge")):
        yield Case("dense 100k x 28", model, tall.X, tall.y)
    yield Case("dense 100k x 28", snapml.LogisticRegression(), tall.X, np.digitize(y, [-1, 0, 1]))
    for model in (snapml.Ridge(), snapml.Lasso(alpha=0.01), snapml.HuberRegressor()):
        yield Case("dense 100k x 28", model, tall.X, y + rng.standard_t(2, size=len(y)))
    counts = rng.poisson(np.exp(np.clip(0.3 * y, -2, 2)))
    yield Case("dense 100k x 28", snapml.PoissonRegressor(), tall.X, counts)
    yield Case("dense 100k x 28", snapml.QuantileRegressor(), tall.X, y)
    yield Case("dense 100k x 28", snapml.DecisionTreeClassifier(), tall.X, tall.y)
    rows = make_problem("dense_500", scale=0.3)
    yield Case("dense 500", snapml.LogisticRegression(), rows.X, rows.y)
    small = make_problem("dense_tall", scale=0.02)
    yield Case("dense 2k x 50", snapml.LogisticRegression(), small.X, small.y)


def _searches() -> Iterator[Case]:
    tall = make_problem("higgs_like", scale=0.02)
    y = _targets(tall)
    yield Case("dense 20k x 28", snapml.LogisticRegressionCV(), tall.X, tall.y)
    yield Case("dense 20k x 28", snapml.LassoCV(), tall.X, y / y.std())


@contextmanager
def _other_process() -> Iterator[subprocess.Popen[bytes]]:
    """Start the process that takes a core, and stop it at once."""
    process = subprocess.Popen([sys.executable, "-c", _SPIN])
    try:
        process.send_signal(signal.SIGSTOP)
        yield process
    finally:
        process.kill()
        process.wait()


def _seconds(case: Case, n_threads: int | None) -> float:
    model = case.model.__class__(**case.model.get_params())
    model.set_params(n_threads=n_threads)
    began = time.perf_counter()
    model.fit(case.X, case.y)
    return time.perf_counter() - began


def measure(case: Case, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Return the medians of the four ways of a case, and their ratios."""
    seconds: dict[str, list[float]] = {}
    rounds = _LONG_ROUNDS if _seconds(case, 1) > _LONG_S else _ROUNDS
    for _ in range(rounds):
        for load, sent in (("quiet", signal.SIGSTOP), ("busy", signal.SIGCONT)):
            process.send_signal(sent)
            time.sleep(0.05)  # until the system has moved it to a core
            for way, n_threads in (("one", 1), ("default", None)):
                seconds.setdefault(f"{load}_{way}", []).append(_seconds(case, n_threads))
    process.send_signal(signal.SIGSTOP)
    median = {way: float(np.median(times)) for way, times in seconds.items()}
    row = {"data": case.data, "model": case.name, "threads": available_threads()}
    row |= {f"{way}_s": f"{value:.4g}" for way, value in median.items()}
    for load in ("quiet", "busy"):
        row[f"{load}_ratio"] = f"{median[load + '_default'] / median[load + '_one']:.3f}"
    return row


def main() -> None:
    """Measure all cases and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results/busy_machine.csv"
    )
    parser.add_argument("--only", default="", help="part of the data's or the model's name")
    parsed = parser.parse_args()
    warnings.simplefilter("ignore")
    makers: tuple[Callable[[], Iterator[Case]], ...] = (_sparse, _dense, _searches)
    rows = []
    with _other_process() as process:
        for case in (case for make in makers for case in make()):
            if parsed.only not in f"{case.data} {case.name}":
                continue
            rows.append(measure(case, process))
            print(*rows[-1].values(), sep="  ", flush=True)
    with parsed.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
