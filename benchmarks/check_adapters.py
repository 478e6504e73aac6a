"""Check that every adapter minimises our objective: its tightest run against a float64 optimum.

Run from the repository's root::

    python -m benchmarks.check_adapters --scale 0.01

The exit status is 1 if no solver of a library comes within the tolerance on some problem, that
is, if the adapter maps the objective wrongly or the library's float32 path cannot get there.
"""

from __future__ import annotations

import argparse
from itertools import groupby

import numpy as np

from benchmarks.libraries import ADAPTER_MODULES, Library, Setting, load_library
from benchmarks.measure import Contender, measure_fit
from benchmarks.problems import (
    RECIPES,
    TASK_OF_SUFFIX,
    Problem,
    ProblemUnavailableError,
    make_problem,
)
from benchmarks.reference import Reference, find_reference

TOLERANCE = 1e-6
# All tasks on data where no solver meets its own limit of iterations first (hinge on the raw
# columns of dense_tall does), and the logistic loss on the rest.
DEFAULT_CHECKS = (
    *(data + suffix for data in ("text", "dense_wide") for suffix in TASK_OF_SUFFIX),
    "dense_tall",
    "click_log",
    "click_log_unit",
)


def main() -> int:
    """Print one line per problem, library and solver.

    Returns
    -------
    int
        Exit status: 1 if a library has no solver within `TOLERANCE`.
    """
    arguments = _parse_arguments()
    libraries = []
    for name in arguments.libraries:
        try:
            libraries.append(load_library(name))
        except ImportError as error:
            print(f"skip library {name}: {error}")
    n_failures = 0
    try:
        for name in arguments.problems:
            n_failures += _check_problem(name, libraries, arguments)
    finally:
        for library in libraries:
            library.close()
    print(f"{n_failures} failures")
    return 1 if n_failures else 0


def _parse_arguments() -> argparse.Namespace:
    """Define the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--problems", nargs="+", default=DEFAULT_CHECKS, choices=RECIPES, metavar="NAME"
    )
    parser.add_argument(
        "--libraries", nargs="+", default=list(ADAPTER_MODULES), choices=ADAPTER_MODULES
    )
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--reference-s", type=float, default=60.0)
    return parser.parse_args()


def _check_problem(name: str, libraries: list[Library], arguments: argparse.Namespace) -> int:
    """Check all libraries on one problem; return the number of libraries that fail."""
    try:
        problem = make_problem(name, arguments.scale)
    except ProblemUnavailableError as error:
        print(f"skip problem {name}: {error}")
        return 0
    start = np.zeros(problem.coef_shape)
    reference = find_reference(problem, start, arguments.reference_s)
    if reference is None:
        print(f"skip problem {name}: no independent reference")
        return 0
    relative_gap = reference.gap / reference.objective
    print(f"{name}: P = {reference.objective:.12g} +- {relative_gap:.1e} ({reference.method})")
    failures = 0
    for library in libraries:
        obstacle = library.obstacle(problem)
        if obstacle:
            print(f"  {library.name:10} skipped: {obstacle}")
            continue
        errors = _errors(problem, library, reference, arguments.threads)
        failures += min(errors) > TOLERANCE
    return failures


def _errors(
    problem: Problem, library: Library, reference: Reference, n_threads: int
) -> list[float]:
    """Relative suboptimality of every solver's tightest setting."""
    errors = []
    for solver, settings in groupby(library.settings(problem), key=lambda s: s.solver):
        tightest: Setting = list(settings)[-1]
        contender = Contender(library, solver, [tightest], "")
        try:
            record, _ = measure_fit(problem, contender, 0, 0, n_threads, {})
        except Exception as failure:  # one solver's failure must not hide the others
            print(f"  {library.name:10} {solver:17} FAILED {failure}")
            errors.append(np.inf)
            continue
        error = (record.objective - reference.objective) / reference.objective
        verdict = "ok" if error <= TOLERANCE else "ABOVE TOLERANCE"
        print(
            f"  {library.name:10} {solver:17} {tightest.label:25} {error:9.1e}  {verdict}"
            f"  {record.seconds:.3g} s"
        )
        errors.append(error)
    return errors


if __name__ == "__main__":
    raise SystemExit(main())
