"""Print what ``benchmarks.trees`` has measured by number of rows, as a table for the docs.

Run from the repository's root::

    python -m benchmarks.trees_by_rows benchmarks/results/trees_by_rows.csv
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from pathlib import Path
from statistics import median

_HEAD = (
    '| rows | depth | `"hist"`, by threads | scikit-learn | times as fast, by threads '
    '| MB beyond X, by threads | accuracy: `"hist"`, scikit-learn |'
)


def table(rows: list[dict[str, str]], clock: str = "seconds") -> list[str]:
    """Return medians over repeats, one line per number of rows and depth.

    Parameters
    ----------
    rows : list of dict
        Of ``benchmarks.trees``, any libraries; scikit-learn may lack.
    clock : {'seconds', 'cpu_seconds'}, default='seconds'
        What is shown; of one thread on a machine with other work, the latter says more.

    Returns
    -------
    list of str
        Lines of a table in Markdown.
    """
    lines = [_HEAD, "|" + "---|" * 7]
    for n_rows, depth in sorted({(int(row["n_rows"]), int(row["depth"])) for row in rows}):
        own = [row for row in rows if (int(row["n_rows"]), int(row["depth"])) == (n_rows, depth)]
        ours = _medians(own, "snapml", clock)
        exact = _medians(own, "scikit-learn", clock).get(1)
        gains = {} if exact is None else {n: exact / seconds for n, seconds in ours.items()}
        memory = _medians(own, "snapml", "bytes_beyond_rows")
        scores = [_medians(own, name, "test_accuracy") for name in ("snapml", "scikit-learn")]
        cells = [
            f"{n_rows:,}",
            str(depth),
            _joined(ours, "{:.2f}".format),
            "-" if exact is None else f"{exact:.1f}",
            _joined(gains, "{:.0f}".format),
            _joined(memory, lambda n_bytes: f"{n_bytes / 1e6:.0f}"),
            ", ".join(f"{score[min(score)]:.4f}" if score else "-" for score in scores),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _medians(rows: list[dict[str, str]], library: str, column: str) -> dict[int, float]:
    """Return a library's medians by number of threads."""
    own = [row for row in rows if row["library"] == library]
    return {
        n_threads: median(float(row[column]) for row in own if int(row["threads"]) == n_threads)
        for n_threads in sorted({int(row["threads"]) for row in own})
    }


def _joined(by_threads: dict[int, float], shown: Callable[[float], str]) -> str:
    return " / ".join(map(shown, by_threads.values())) or "-"


def main() -> int:
    """Print the table of the file that the command line names.

    Returns
    -------
    int
        Exit status.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--clock", choices=("seconds", "cpu_seconds"), default="seconds")
    arguments = parser.parse_args()
    with arguments.table.open(newline="") as stream:
        print("\n".join(table(list(csv.DictReader(stream)), arguments.clock)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
