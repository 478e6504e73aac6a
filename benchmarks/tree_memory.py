"""Peak memory that the fit of a tree needs beyond its rows, in a fresh process.

Prints a number of bytes; ``benchmarks.trees`` asks for every size, depth and number of threads::

    python -m benchmarks.tree_memory --rows 1000000 --depth 12 --threads 2
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.records import REPOSITORY_ROOT

_WARM_UP_ROWS = 5000
_STATUS = Path("/proc/self/status")


def main() -> int:
    """Generate rows, fit, print.

    Returns
    -------
    int
        Exit status.
    """
    # Which imports this module.
    from benchmarks.trees import LIBRARIES, higgs_like

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--depth", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    X, y = higgs_like(arguments.rows, seed=0)
    _, make = LIBRARIES["snapml"]
    model = make(arguments.depth, arguments.threads, None)
    model.fit(X[:_WARM_UP_ROWS], y[:_WARM_UP_ROWS])
    Path("/proc/self/clear_refs").write_text("5")
    before = _bytes_of("VmRSS")
    model.fit(X, y)
    print(_bytes_of("VmHWM") - before)
    return 0


def _bytes_of(name: str) -> int:
    lines = _STATUS.read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def peak_beyond_rows(n_rows: int, depth: int, n_threads: int) -> int:
    """Measure in another process.

    Parameters
    ----------
    n_rows, depth, n_threads : int
        Of the fit.

    Returns
    -------
    int
        Bytes that the peak of resident memory was above what there was before the fit.
    """
    arguments = {"--rows": n_rows, "--depth": depth, "--threads": n_threads}
    command = [sys.executable, "-m", "benchmarks.tree_memory"]
    command += [str(word) for pair in arguments.items() for word in pair]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, cwd=REPOSITORY_ROOT
    )
    return int(done.stdout)


if __name__ == "__main__":
    raise SystemExit(main())
