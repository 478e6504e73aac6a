"""Time to accuracy: interleaved fits of several libraries on named problems.

Run from the repository's root, for example::

    python -m benchmarks.run --scale 0.01 --repeats 2 --output benchmarks/results/quick.csv
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from threadpoolctl import threadpool_limits

from benchmarks.libraries import ADAPTER_MODULES, UNPUBLISHED_LIBRARIES, Library, load_library
from benchmarks.measure import (
    Contender,
    Outcome,
    as_row,
    fill_suboptimality,
    find_contenders,
    measure_fit,
    run_rounds,
    warm_up,
)
from benchmarks.problems import (
    DEFAULT_PROBLEMS,
    RECIPES,
    Problem,
    ProblemUnavailableError,
    make_problem,
)
from benchmarks.records import REPOSITORY_ROOT, machine_facts, prepare_output, write_rows
from benchmarks.reference import find_reference

if TYPE_CHECKING:  # the adapter imports the package under test
    from benchmarks.libraries.ours import Adapter

DEFAULT_LIBRARIES = ("snapml", "sklearn", "liblinear")
_SETTLE_S = 0.5
DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "time_to_accuracy.csv"


def main() -> int:
    """Run the benchmark of the command line.

    Returns
    -------
    int
        Exit status: 1 if any contender failed.
    """
    arguments = _parse_arguments()
    prepare_output(arguments.output, arguments.overwrite)
    if arguments.private_output is not None:
        prepare_output(arguments.private_output, arguments.overwrite)
    libraries = _load_libraries(arguments.libraries)
    versions = {library.name: library.version() for library in libraries}
    failures: list[str] = []
    try:
        for name in arguments.problems:
            failures += _run_problem(name, libraries, versions, arguments)
    finally:
        for library in libraries:
            library.close()
    for failure in failures:
        print(f"FAILED {failure}")
    return 1 if failures else 0


def _parse_arguments() -> argparse.Namespace:
    """Define and check the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--problems", nargs="+", default=DEFAULT_PROBLEMS, choices=RECIPES, metavar="NAME"
    )
    parser.add_argument(
        "--libraries", nargs="+", default=DEFAULT_LIBRARIES, choices=ADAPTER_MODULES
    )
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--C", type=float, default=None, help="overrides the problems' C")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--budget-s", type=float, default=60.0, help="a longer fit ends its solver's ladder"
    )
    parser.add_argument(
        "--reference-s", type=float, default=300.0, help="limit of the harness's own Newton run"
    )
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument(
        "--private-output",
        type=Path,
        default=None,
        help="file outside the repository for results of libraries without an open licence",
    )
    parser.add_argument("--overwrite", action="store_true")
    arguments = parser.parse_args()
    private = arguments.private_output
    if private is not None and REPOSITORY_ROOT in private.resolve().parents:
        parser.error("--private-output must lie outside the repository")
    unpublished = UNPUBLISHED_LIBRARIES.intersection(arguments.libraries)
    if unpublished and private is None:
        parser.error(f"{', '.join(unpublished)}: --private-output is needed")
    return arguments


def _load_libraries(names: list[str]) -> list[Library]:
    """Load the adapters that can be had, saying why the others cannot."""
    libraries = []
    for name in names:
        try:
            libraries.append(load_library(name))
        except ImportError as error:
            print(f"skip library {name}: {error}")
    return libraries


def _run_problem(
    name: str, libraries: list[Library], versions: dict[str, str], arguments: argparse.Namespace
) -> list[str]:
    """Generate, warm up, measure, find the reference, write; return the failures."""
    start = time.perf_counter()
    try:
        problem = make_problem(name, arguments.scale, arguments.C)
    except ProblemUnavailableError as error:
        print(f"skip problem {name}: {error}")
        return []
    shape = f"{problem.X.shape[0]} x {problem.X.shape[1]}, {problem.n_nonzeros} values"
    print(f"{name}: {shape}, {problem.loss}, C = {problem.C:g}")
    print(f"  generated in {time.perf_counter() - start:.1f} s")
    facts = machine_facts()
    contenders = find_contenders(problem, libraries, versions)
    start = time.perf_counter()
    n_threads = arguments.threads
    # The harness's own products run on one thread, and those of the generator get time to end:
    # idle BLAS threads spin for a while, which would be charged to the fit that follows.
    with threadpool_limits(1):
        failures = warm_up(problem, contenders, n_threads)
        print(f"  warm-up of {len(contenders)} solvers: {time.perf_counter() - start:.1f} s")
        time.sleep(_SETTLE_S)
        outcome = run_rounds(
            problem, contenders, arguments.repeats, arguments.budget_s, n_threads, facts, print
        )
    _add_references(problem, contenders, outcome, arguments, facts)
    _write(outcome, arguments)
    return failures + outcome.failures


def _add_references(
    problem: Problem,
    contenders: list[Contender],
    outcome: Outcome,
    arguments: argparse.Namespace,
    facts: dict[str, Any],
) -> None:
    """Add a tight run of this project and the harness's own Newton run."""
    ours = next((c for c in contenders if c.library.name == "snapml"), None)
    if ours is not None and ours.n_open_levels < len(ours.settings):
        print("  no tight run of snapml: it failed or went over the budget")
    elif ours is not None:
        _add_tight_run(problem, ours, outcome, arguments.threads, facts)
    if outcome.best_coef is None:
        return
    start = time.perf_counter()
    reference = find_reference(problem, outcome.best_coef, arguments.reference_s)
    if reference is None:
        print("  no independent reference: an intercept, or X too large")
        return
    best = min(outcome.records, key=lambda record: record.objective)
    record = replace(
        best,
        library="reference",
        library_version="",
        solver=reference.method,
        setting="",
        level=0,
        repeat=0,
        seconds=time.perf_counter() - start,
        cpu_seconds=0.0,
        prepare_seconds=0.0,
        objective=reference.objective,
        gap=reference.gap,
        reported_objective=None,
        n_iter=reference.n_iter,
        detail="",
    )
    outcome.records.append(record)
    print(f"  reference P = {reference.objective:.12g}, certified gap {reference.gap:.2g}")


def _add_tight_run(
    problem: Problem, ours: Contender, outcome: Outcome, n_threads: int, facts: dict[str, Any]
) -> None:
    """Add one run of this project's solver at a relative gap of 1e-9."""
    setting = cast("Adapter", ours.library).reference_setting(problem)
    tight = Contender(ours.library, ours.solver, [setting], ours.version)
    try:
        record, coef = measure_fit(problem, tight, 0, 0, n_threads, facts)
    except Exception as error:  # the measured rounds must still be written
        outcome.failures.append(f"{problem.name}: tight reference run: {error}")
        return
    outcome.add(replace(record, library="reference", solver=f"snapml {ours.solver}"), coef)


def _write(outcome: Outcome, arguments: argparse.Namespace) -> None:
    """Append the rows to the public and the private file."""
    if not outcome.records:
        return
    optimum = fill_suboptimality(outcome.records)
    print(f"  P* = {optimum:.12g}")
    public: list[dict[str, Any]] = []
    private: list[dict[str, Any]] = []
    for record in outcome.records:
        (private if record.library in UNPUBLISHED_LIBRARIES else public).append(as_row(record))
    write_rows(arguments.output, public)
    if arguments.private_output is not None:
        write_rows(arguments.private_output, private)


if __name__ == "__main__":
    raise SystemExit(main())
