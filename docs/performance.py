"""The page of measurements, from the files in ``benchmarks/results``: no figure is typed.

``python docs/performance.py`` draws the README's chart anew.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median

__all__ = ["write_performance_page"]

RESULTS = "../benchmarks/results"
CHART = "_static/generated/linear_models.png"


def write_performance_page(folder: Path) -> None:
    """Write ``performance.md`` into the folder of the documentation.

    Parameters
    ----------
    folder : Path
        The folder of this file.
    """
    results = (folder / RESULTS).resolve()
    parts = [
        "# Performance\n",
        "Made from the files in `benchmarks/results` when this site was built. Losing results are "
        "in them; ratios are of runs that took turns on the same data.\n",
        *_linear_models(results, folder / CHART),
        *_trees(results),
        *_spark(results),
    ]
    (folder / "performance.md").write_text("\n".join(parts))


def _linear_models(results: Path, chart: Path) -> list[str]:
    """Return how much longer the best peer takes, for every problem of the grid; draw it."""
    seconds: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    for row in _read(results / "grid_summary.csv"):
        strength = f"C={row['C']}" if row["C"] else f"strength {row['strength']}"
        level = f"{float(row['relative_suboptimality']):.0e}"
        key = row["problem"], row["loss"], strength, level
        # None where the search for a setting ended before it got there.
        seconds[key][row["library"]] = float(row["seconds"] or math.inf)
    lines = []
    for (problem, loss, strength, level), times in sorted(seconds.items()):
        peers = {name: time for name, time in times.items() if name != "snapml"}
        best = min(peers, key=peers.__getitem__)
        ours, theirs = times.get("snapml", math.inf), peers[best]
        is_known = ours < math.inf and theirs < math.inf
        ratio = f"{theirs / ours:.2f}" if is_known else ""
        name = best if theirs < math.inf else ""
        lines.append(
            (problem, loss, strength, level, _seconds(ours), name, _seconds(theirs), ratio)
        )
    ratios: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        if line[7]:
            ratios[line[3]].append(float(line[7]))
    _draw(chart, dict(sorted(ratios.items(), reverse=True)))
    heads = ("problem", "loss", "", "to", "snapml, s", "best peer", "its, s", "times ours")
    return [
        "## Linear models, one thread\n",
        _source("grid_summary.csv"),
        f"![Every problem as a point: how many times longer the best peer took]({CHART})\n",
        _table(heads, lines),
    ]


def _draw(path: Path, ratios: dict[str, list[float]]) -> None:
    """Draw the best peer's time over ours, sorted, for each accuracy."""
    from matplotlib import pyplot as plt

    path.parent.mkdir(exist_ok=True)
    figure, axes = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
    for level, values in ratios.items():
        shares = [100.0 * k / max(1, len(values) - 1) for k in range(len(values))]
        axes.plot(shares, sorted(values), ".-", label=f"to within {level} of the minimum")
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set(
        yscale="log",
        xlabel="problems, from the one that goes worst for snapml (%)",
        ylabel="best peer's time / snapml's",
        title="above the line snapml is faster",
    )
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _trees(results: Path) -> list[str]:
    """Return the seconds of one tree, by depth and library."""
    times: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in _read(results / "trees.csv"):
        key = f"{row['library']}, {row['threads']} thread{'s' * (row['threads'] != '1')}"
        times[key, row["n_rows"]][int(row["depth"])].append(float(row["seconds"]))
    depths = sorted({depth for by_depth in times.values() for depth in by_depth})
    lines = [
        (library, n_rows, *(f"{median(by[d]):.3g}" if d in by else "" for d in depths))
        for (library, n_rows), by in sorted(times.items())
    ]
    heads = ("seconds", "rows", *(f"depth {depth}" for depth in depths))
    return ["## One decision tree\n", _source("trees.csv"), _table(heads, lines)]


def _spark(results: Path) -> list[str]:
    """Return the seconds of fits on Spark, the newest rows of each case."""
    times: dict[str, dict[str, list[tuple[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in _read(results / "spark.csv"):
        times[row["case"]][row["library"]].append((row["date"][:10], float(row["seconds"])))
    lines = []
    for case, by_library in times.items():
        newest = {name: _of_last_day(runs) for name, runs in by_library.items()}
        if {"snapml", "pyspark.ml"} <= newest.keys():
            theirs, ours = newest["pyspark.ml"], newest["snapml"]
            lines.append((case, f"{theirs:.3g}", f"{ours:.3g}", f"{theirs / ours:.2f}"))
    heads = ("case", "pyspark.ml, s", "snapml, s", "times ours")
    return ["## Spark, two cores\n", _source("spark.csv"), _table(heads, lines)]


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g}" if seconds < math.inf else "not reached"


def _of_last_day(runs: list[tuple[str, float]]) -> float:
    """Return the median of the runs of the last day."""
    last = max(day for day, _ in runs)
    return median(seconds for day, seconds in runs if day == last)


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _source(name: str) -> str:
    return f"From `benchmarks/results/{name}`.\n"


def _table(heads: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    rows = [heads, ("---",) * len(heads), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


if __name__ == "__main__":
    here = Path(__file__).parent
    _linear_models((here / RESULTS).resolve(), here / "linear_models.png")
