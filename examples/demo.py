"""Train LogisticRegression on real and on large data, beside scikit-learn.

Prints one table and writes a plot of the duality gap against time:

    python examples/demo.py            # breast cancer, then a click log of 1M x 1M
    python examples/demo.py --rows 20000 --output-dir demo_small
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.linear_model
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import snapml
from snapml.data import make_click_log

_log = logging.getLogger("demo")


@dataclass(frozen=True)
class Task:
    """A named data set, split into a part to train on and a part to test on."""

    name: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    C: float


@dataclass(frozen=True)
class Run:
    """What one library did on one task."""

    task: str
    library: str
    seconds: float
    objective: float
    gap: float | None
    test_log_loss: float
    history: list[dict[str, float]]


def breast_cancer() -> Task:
    """Return the real data set that ships with scikit-learn, standardised."""
    X, y = load_breast_cancer(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    scaler = StandardScaler().fit(X)
    return Task("breast cancer", scaler.transform(X), y, scaler.transform(X_test), y_test, C=1.0)


def click_log(n_rows: int) -> Task:
    """Return a generated click log: 39 active categories a row, as many columns as rows."""
    n_test = n_rows // 10
    _log.info("generating a click log of %d x %d ...", n_rows, n_rows)
    X, y = make_click_log(n_rows + n_test, n_rows)
    name = f"click log {n_rows:,} x {n_rows:,}"
    return Task(name, X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:], C=0.1)


def objective(task: Task, model: Any) -> float:
    """Return C sum_i log(1 + exp(-y_i z_i)) + ||w||^2 / 2 in float64."""
    coef = model.coef_.ravel().astype(np.float64)
    margins = (2 * task.y - 1) * (task.X @ coef + float(model.intercept_[0]))
    return float(task.C * np.logaddexp(0.0, -margins).sum() + 0.5 * coef @ coef)


def run(task: Task, library: str, model: Any) -> Run:
    """Fit a model and measure it."""
    _log.info("%s: %s ...", task.name, library)
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(task.X, task.y)
    seconds = time.perf_counter() - start
    for warning in caught:
        _log.info("  warned: %s", str(warning.message).splitlines()[0])
    probability = model.predict_proba(task.X_test)[:, 1].astype(np.float64)
    _log.info("  %.2f s", seconds)
    return Run(
        task=task.name,
        library=library,
        seconds=seconds,
        objective=objective(task, model),
        gap=getattr(model, "gap_", None),
        test_log_loss=float(log_loss(task.y_test, probability)),
        history=getattr(model, "history_", []),
    )


def table(runs: list[Run]) -> str:
    """Return the runs as a Markdown table."""
    header = ("data", "library", "seconds", "objective", "certified gap", "test log-loss")
    rows = [header, tuple("---" for _ in header)]
    for r in runs:
        gap = "none" if r.gap is None else f"{r.gap:.2e} ({r.gap / r.objective:.0e})"
        row = (r.task, r.library, f"{r.seconds:.3f}", f"{r.objective:.4f}", gap)
        rows.append((*row, f"{r.test_log_loss:.5f}"))
    widths = [max(len(row[k]) for row in rows) for k in range(len(header))]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    )


def plot(runs: list[Run], path: Path) -> None:
    """Draw the gap of our fits against time, and where scikit-learn's answers lie."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    tasks = list(dict.fromkeys(r.task for r in runs))
    figure, axes = plt.subplots(1, len(tasks), figsize=(6 * len(tasks), 4.2), squeeze=False)
    for axis, task in zip(axes[0], tasks, strict=True):
        lower_bound = max(r.objective - r.gap for r in runs if r.task == task and r.gap is not None)
        for r in (r for r in runs if r.task == task):
            if r.history:
                seconds = [entry["time_s"] for entry in r.history]
                running = [entry["running_gap"] / r.objective for entry in r.history]
                exact = [entry["gap"] / r.objective for entry in r.history]
                line = axis.plot(seconds, running, marker=".", label=f"{r.library}, during epochs")
                color = line[0].get_color()
                axis.plot(seconds, exact, "o", color=color, label=f"{r.library}, certified")
            else:
                distance = max(r.objective - lower_bound, 1e-16) / lower_bound
                axis.plot(r.seconds, distance, "s", label=f"{r.library}, distance from the bound")
        axis.set(title=task, xlabel="seconds", yscale="log", xscale="log")
        axis.set_ylabel("relative duality gap")
        axis.grid(visible=True, alpha=0.3)
        axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the click log")
    parser.add_argument("--output-dir", type=Path, default=Path("snapml_demo"))
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)

    runs = []
    for task in (breast_cancer(), click_log(args.rows)):
        ours = snapml.LogisticRegression(C=task.C, verbose=1)
        runs.append(run(task, "snapml", ours))
        theirs = sklearn.linear_model.LogisticRegression(C=task.C)
        runs.append(run(task, "scikit-learn", theirs))
    args.output_dir.mkdir(parents=True, exist_ok=True)
    text = table(runs)
    (args.output_dir / "table.md").write_text(text + "\n")
    plot(runs, args.output_dir / "gap.png")
    print(text)
    print(f"table and plot: {args.output_dir / 'table.md'}, {args.output_dir / 'gap.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
