"""Draw what ``benchmarks.trees`` has measured: seconds and accuracy by depth, as a PNG.

Run from the repository's root::

    python -m benchmarks.trees_plot benchmarks/results/trees.csv docs/trees.png
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

_STYLES = {
    "snapml": {"color": "C3", "lw": 2.6},
    "snapml best": {"color": "C1", "lw": 2.6},
    "scikit-learn": {"color": "C0"},
    "lightgbm": {"color": "C2"},
    "xgboost": {"color": "C4"},
}


def medians(rows: list[dict[str, str]], column: str) -> dict[str, dict[int, float]]:
    """Return the medians of a column over repeats.

    Parameters
    ----------
    rows : list of dict
        Of one number of rows and of threads.
    column : str
        Of the table.

    Returns
    -------
    dict
        Library to depth to median.
    """
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["library"]][int(row["depth"])].append(float(row[column]))
    return {
        name: {depth: median(values) for depth, values in sorted(of_depths.items())}
        for name, of_depths in found.items()
    }


def draw(rows: list[dict[str, str]], path: Path) -> Any:
    """Draw one thread's fits.

    Parameters
    ----------
    rows : list of dict
        The table.
    path : pathlib.Path
        PNG to write.

    Returns
    -------
    matplotlib.figure.Figure
        Closed.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    alone = [row for row in rows if row["threads"] == "1"]
    figure, (times, scores) = plt.subplots(1, 2, figsize=(9.5, 3.8))
    for axis, column in ((times, "seconds"), (scores, "test_accuracy")):
        for name, points in medians(alone, column).items():
            axis.plot(list(points), list(points.values()), "o-", ms=4, label=name, **_STYLES[name])
        axis.set(xlabel="max_depth", xticks=sorted({int(row["depth"]) for row in alone}))
    times.set(yscale="log", ylabel="seconds of a fit, binning included")
    scores.set_ylabel("accuracy on new rows")
    n_rows, n_columns = int(alone[0]["n_rows"]), alone[0]["n_columns"]
    figure.suptitle(f"One tree, {n_rows:,} rows of {n_columns} columns, one thread", fontsize=10)
    scores.legend(fontsize=8, frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return figure


def main() -> int:
    """Draw the table that the command line names.

    Returns
    -------
    int
        Exit status.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    with arguments.table.open(newline="") as stream:
        draw(list(csv.DictReader(stream)), arguments.picture)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
