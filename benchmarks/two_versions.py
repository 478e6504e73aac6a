"""Two versions of this library on the grid of problems, in turns on the same data.

Each version is installed into a folder of its own, both with the same Python::

    pip install --no-deps --target build/before WHEEL_OF_BEFORE
    pip install --no-deps --target build/after .
    python -m benchmarks.two_versions build/before build/after --out OUT.csv

A row is a problem: seconds of a fit to the tolerance, the least of several, of each version.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

REPOSITORY_ROOT = Path(__file__).resolve().parents[1]
TOLERANCE = 1e-6
STRENGTHS = (0.01, 0.1)
VALUES_OF_C = (0.01, 1.0, 100.0)


class Version:
    """A process that has imported one version.

    Parameters
    ----------
    folder : Path
        Where it is installed.
    """

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", _WORKER, str(folder.resolve()), str(REPOSITORY_ROOT)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, env=environment, **pipes)

    def ask(self, *words: Any) -> dict[str, Any]:
        """Return the answer to a request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        """End the process."""
        self._process.communicate("")


# The editable installation's finder, if there is one, goes before all paths: it is taken out.
_WORKER = """
import sys
folder, root = sys.argv[1:3]
sys.meta_path[:] = [each for each in sys.meta_path if "Redirecting" not in type(each).__name__]
sys.path[:] = [folder, root, *(each for each in sys.path if each not in ("", root))]
from benchmarks.two_versions import serve
serve(folder)
"""


def serve(folder: str) -> None:
    """Fit what the other end of standard input asks for, and answer in lines.

    Parameters
    ----------
    folder : str
        Where the version should have come from.
    """
    import snapml
    from benchmarks.libraries import Setting
    from benchmarks.libraries.ours import Adapter
    from benchmarks.problems import make_problem

    assert Path(snapml.__file__).is_relative_to(folder), snapml.__file__
    answers, sys.stdout = sys.stdout, sys.stderr
    adapter, problems = Adapter(), {}
    for line in sys.stdin:
        name, value, is_strength = json.loads(line)
        key = name, value
        if key not in problems:
            problems.clear()
            given = {"strength": value} if is_strength else {"C": value}
            problems[key] = make_problem(name, **given)
        problem = problems[key]
        began = time.perf_counter()
        fit = adapter.fit(problem, Setting("auto", TOLERANCE, 2000), 1)
        seconds = time.perf_counter() - began
        answer = {"seconds": seconds, "objective": fit.extra["reported_objective"]}
        answer |= {"gap": fit.extra["gap"], "n_rows": problem.X.shape[0]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main() -> None:
    """Run all problems, print and write the ratios."""
    from statistics import median

    from benchmarks.problems import RECIPES, expand_names
    from benchmarks.records import machine_facts, write_rows

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--problems", nargs="+", default=["grid"])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--budget", type=float, default=6.0, help="seconds for a problem")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    versions = {"before": Version(args.before), "after": Version(args.after)}
    rows = []
    for name in expand_names(args.problems):
        has_l1 = RECIPES[name].task.l1_ratio > 0
        for value in STRENGTHS if has_l1 else VALUES_OF_C:
            times: dict[str, list[float]] = {"before": [], "after": []}
            answer, began = {}, time.perf_counter()
            for repeat in range(args.repeats + 1):
                order = list(versions) if repeat % 2 else list(versions)[::-1]
                for which in order:
                    answer[which] = versions[which].ask(name, value, has_l1)
                    if repeat:  # the first fit makes the data
                        times[which].append(answer[which]["seconds"])
                if repeat >= 2 and time.perf_counter() - began > args.budget:
                    break
            row = {"problem": name, "strength" if has_l1 else "C": value}
            row = {"problem": name, "C": "", "strength": "", **row}
            row |= {f"seconds_{which}": min(found) for which, found in times.items()}
            row["ratio"] = row["seconds_after"] / row["seconds_before"]
            row |= {f"gap_{which}": found["gap"] for which, found in answer.items()}
            row["repeats"] = len(times["after"])
            rows.append({**row, **machine_facts()})
            print(*list(row.values())[:6], flush=True)
    for version in versions.values():
        version.close()
    ratios = sorted(row["ratio"] for row in rows)
    print(f"{len(rows)} problems: median {median(ratios):.3f}, largest {ratios[-1]:.3f}")
    if args.out is not None:
        write_rows(args.out, rows)


if __name__ == "__main__":
    main()
