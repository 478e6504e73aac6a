"""Import time of `snapml` beyond `sklearn.linear_model`, and what it must not load.

Fresh processes, in turn: `import sklearn.linear_model`; `import snapml`; `import snapml` once
scikit-learn is there. Run from anywhere in an environment that has `snapml` installed::

    python -m benchmarks.import_time

The exit status is 1 if `import snapml` loads one of the optional packages.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.records import REPOSITORY_ROOT, machine_facts, prepare_output, write_rows

DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "import_time.csv"
OPTIONAL_PACKAGES = ("cupy", "mpi4py", "pyspark", "matplotlib")
# name -> (statement before the clock, statement on the clock)
KINDS = {
    "sklearn.linear_model": ("pass", "import sklearn.linear_model"),
    "snapml": ("pass", "import snapml"),
    "snapml after sklearn.linear_model": ("import sklearn.linear_model", "import snapml"),
}
_CHILD = """
import json, sys, time
{before}
start = time.perf_counter()
{timed}
seconds = time.perf_counter() - start
print(json.dumps({{"seconds": seconds, "modules": sorted(sys.modules)}}))
"""


def main() -> int:
    """Measure, write one row per process, print medians and the check.

    Returns
    -------
    int
        Exit status: 1 if an optional package was loaded.
    """
    arguments = _parse_arguments()
    prepare_output(arguments.output, arguments.overwrite)
    rows, modules = measure(arguments.repeats)
    write_rows(arguments.output, rows)
    medians = {
        kind: median(row["seconds"] for row in rows if row["kind"] == kind) for kind in KINDS
    }
    for kind, seconds in medians.items():
        print(f"{kind}: {1000 * seconds:.0f} ms")
    beyond = medians["snapml"] - medians["sklearn.linear_model"]
    print(f"snapml beyond sklearn.linear_model: {1000 * beyond:.0f} ms (difference of medians)")
    loaded = [name for name in OPTIONAL_PACKAGES if name in modules]
    print(f"optional packages loaded by import snapml: {', '.join(loaded) or 'none'}")
    return 1 if loaded else 0


def _parse_arguments() -> argparse.Namespace:
    """Define the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--overwrite", action="store_true")
    return parser.parse_args()


def measure(n_repeats: int) -> tuple[list[dict[str, Any]], set[str]]:
    """Start one process of every kind in turn, `n_repeats` times.

    A first round, which compiles byte code and fills the file cache, is not recorded.

    Parameters
    ----------
    n_repeats : int
        Recorded rounds.

    Returns
    -------
    rows : list of dict
        One per process.
    modules : set of str
        Modules present after ``import snapml`` alone.
    """
    facts = machine_facts()
    rows: list[dict[str, Any]] = []
    modules: set[str] = set()
    for repeat in range(-1, n_repeats):
        for kind in KINDS:
            load_average = round(os.getloadavg()[0], 2)
            answer = _import_in_child(kind)
            if kind == "snapml":
                modules.update(answer["modules"])
            if repeat >= 0:
                row = {"kind": kind, "repeat": repeat, "seconds": answer["seconds"]}
                rows.append(row | {"load_average": load_average} | facts)
    return rows, modules


def _import_in_child(kind: str) -> dict[str, Any]:
    """Import in a fresh process, away from the source tree, and read its answer."""
    before, timed = KINDS[kind]
    code = _CHILD.format(before=before, timed=timed)
    with tempfile.TemporaryDirectory() as directory:
        child = subprocess.run(
            [sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, check=False
        )
    if child.returncode != 0:
        raise SystemExit(f"{timed}: {child.stderr.strip().splitlines()[-1]}")
    answer: dict[str, Any] = json.loads(child.stdout)
    return answer


if __name__ == "__main__":
    raise SystemExit(main())
