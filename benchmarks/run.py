"""Time to accuracy: searched ladders of several libraries on named problems.

Run from the repository's root, for example::

    python -m benchmarks.run --scale 0.02 --repeats 2 --output benchmarks/results/quick.csv
    python -m benchmarks.run --problems grid --C 0.01 1 100 --strengths 0.1 0.01
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.libraries import ADAPTER_MODULES, UNPUBLISHED_LIBRARIES, Library, load_library
from benchmarks.measure import (
    Contender,
    Limits,
    Outcome,
    as_row,
    fill_suboptimality,
    find_contenders,
    measure_fit,
    reference_record,
    run_rounds,
    warm_up,
)
from benchmarks.objective import primal_objective
from benchmarks.problems import (
    DEFAULT_PROBLEMS,
    DEFAULT_STRENGTH,
    PROBLEM_SETS,
    RECIPES,
    Problem,
    ProblemUnavailableError,
    expand_names,
    make_variants,
)
from benchmarks.records import REPOSITORY_ROOT, machine_facts, prepare_output, write_rows
from benchmarks.reference import find_reference

if TYPE_CHECKING:  # the adapter imports the package under test
    from benchmarks.libraries.ours import Adapter

DEFAULT_LIBRARIES = ("snapml", "sklearn", "sklearnex", "liblinear", "glum", "skglm", "celer")
DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "time_to_accuracy.csv"
_SETTLE_S = 0.2


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
    libraries = _load_libraries(arguments.libraries, arguments.own_solvers)
    versions = {library.name: library.version() for library in libraries}
    failures: list[str] = []
    start = time.perf_counter()
    try:
        for name in expand_names(arguments.problems):
            try:
                failures += _run_problem(name, libraries, versions, arguments)
            except ProblemUnavailableError as error:
                print(f"skip problem {name}: {error}")
    finally:
        for library in libraries:
            library.close()
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"total: {(time.perf_counter() - start) / 60:.1f} minutes")
    return 1 if failures else 0


def _parse_arguments() -> argparse.Namespace:
    """Define and check the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add(
        "--problems",
        nargs="+",
        default=DEFAULT_PROBLEMS,
        choices=[*PROBLEM_SETS, *RECIPES],
        metavar="NAME",
        help=f"problems, or sets of them: {', '.join(PROBLEM_SETS)}",
    )
    add("--libraries", nargs="+", default=DEFAULT_LIBRARIES, choices=ADAPTER_MODULES)
    add("--scale", type=float, default=1.0, help="share of the full size")
    add("--C", type=float, nargs="+", default=[1.0], help="weights of the loss, L2 penalty")
    add(
        "--strengths",
        type=float,
        nargs="+",
        default=[DEFAULT_STRENGTH],
        help="shares of the critical penalty, where there is an L1 norm",
    )
    add("--threads", type=int, nargs="+", default=[1])
    add("--repeats", type=int, default=3, help="fits of each rung found, the search included")
    add("--budget-s", type=float, default=Limits.budget_s, help="a longer fit ends its search")
    add(
        "--give-up",
        type=float,
        default=Limits.give_up,
        help="so does one that took so many times what another needed to 1e-6",
    )
    add("--reference-s", type=float, default=60.0, help="limit of the reference of each problem")
    add("--own-solvers", action="store_true", help='also solver="sdca" and "pqn" of snapml')
    add("--output", type=Path, default=DEFAULT_OUTPUT)
    add(
        "--private-output",
        type=Path,
        default=None,
        help="file outside the repository for results of libraries without an open licence",
    )
    add("--overwrite", action="store_true")
    arguments = parser.parse_args()
    private = arguments.private_output
    if private is not None and REPOSITORY_ROOT in private.resolve().parents:
        parser.error("--private-output must lie outside the repository")
    unpublished = UNPUBLISHED_LIBRARIES.intersection(arguments.libraries)
    if unpublished and private is None:
        parser.error(f"{', '.join(unpublished)}: --private-output is needed")
    return arguments


def _load_libraries(names: list[str], own_solvers: bool) -> list[Library]:
    """Load the adapters that can be had, saying why the others cannot."""
    libraries = []
    for name in names:
        try:
            libraries.append(load_library(name))
        except ImportError as error:
            print(f"skip library {name}: {error}")
    for library in libraries:
        if library.name == "snapml":
            cast("Adapter", library).compare_own_solvers = own_solvers
    return libraries


def _run_problem(
    name: str, libraries: list[Library], versions: dict[str, str], arguments: argparse.Namespace
) -> list[str]:
    """Generate, warm up, measure at every strength and thread count; return the failures."""
    start = time.perf_counter()
    failures: list[str] = []
    broken: set[tuple[str, str]] = set()
    coef: NDArray[np.float64] | None = None
    variants = make_variants(name, arguments.scale, arguments.C, arguments.strengths)
    for number, problem in enumerate(variants):
        if number == 0:
            _introduce(problem, libraries, time.perf_counter() - start)
            for n_threads in arguments.threads:
                contenders = find_contenders(problem, libraries, versions)
                kept = list(contenders)
                # The harness's own products run on one thread: idle BLAS threads spin for a
                # while, which would be charged to the fit that follows.
                with threadpool_limits(1):
                    failures += warm_up(problem, kept, n_threads)
                broken |= {(c.library.name, c.solver) for c in contenders if c not in kept}
        reference = _find_optimum(problem, libraries, versions, coef, arguments)
        coef = reference.best_coef
        for n_threads in arguments.threads:
            contenders = [
                contender
                for contender in find_contenders(problem, libraries, versions)
                if (contender.library.name, contender.solver) not in broken
            ]
            failures += _measure(problem, contenders, reference, n_threads, arguments)
    return failures


def _introduce(problem: Problem, libraries: list[Library], seconds: float) -> None:
    """Say what is solved and who cannot."""
    shape = f"{problem.X.shape[0]} x {problem.X.shape[1]}, {problem.n_nonzeros} values"
    print(f"{problem.name}: {shape}, {problem.loss}, made in {seconds:.1f} s")
    for library in libraries:
        obstacle = library.obstacle(problem)
        if obstacle:
            print(f"  without {library.name}: {obstacle}")


def _find_optimum(
    problem: Problem,
    libraries: list[Library],
    versions: dict[str, str],
    previous: NDArray[np.float64] | None,
    arguments: argparse.Namespace,
) -> Outcome:
    """Run this project at a tight tolerance and polish the best point known in float64."""
    outcome = Outcome()
    facts = machine_facts()
    ours = next((x for x in libraries if x.name == "snapml" and not x.obstacle(problem)), None)
    starts = [np.zeros(problem.coef_shape)] + ([] if previous is None else [previous])
    start = min(starts, key=lambda coef: primal_objective(problem, coef))
    if ours is not None:
        setting = cast("Adapter", ours).reference_setting(problem)
        tight = Contender(ours, setting.solver, [setting], versions[ours.name])
        try:
            record, coef = measure_fit(problem, tight, 0, 0, max(arguments.threads), facts)
        except Exception as error:  # the rounds will fail, and say so
            print(f"  no tight run: {error}")
        else:
            solver = f"snapml {setting.solver}"
            outcome.add(replace(record, library="reference", solver=solver), coef)
            if record.objective < primal_objective(problem, start):
                start = coef
            print(f"  tight run: P = {record.objective:.12g} in {record.seconds:.2f} s")
    clock = time.perf_counter()
    with threadpool_limits(1):
        reference = find_reference(problem, start, arguments.reference_s)
    seconds = time.perf_counter() - clock
    if reference is None:
        print("  no independent reference: an intercept, or X too large")
        return outcome
    record = reference_record(problem, reference, seconds, facts)
    outcome.add(record, reference.coef)
    print(
        f"  reference P = {reference.objective:.12g}, certified gap {reference.gap:.2g}, "
        f"{reference.n_iter} steps, {seconds:.2f} s"
    )
    return outcome


def _measure(
    problem: Problem,
    contenders: list[Contender],
    reference: Outcome,
    n_threads: int,
    arguments: argparse.Namespace,
) -> list[str]:
    """Measure one case and write its rows; return the failures."""
    strength = "" if problem.strength is None else f" ({problem.strength:g} of critical)"
    print(f"  {problem.name}: C = {problem.C:g}{strength}, {n_threads} threads")
    start = time.perf_counter()
    optimum = reference.best_objective
    if not reference.records:
        print("  nobody to say what the optimum is: skipped")
        return []
    limits = Limits(arguments.budget_s, arguments.give_up)
    with threadpool_limits(1):
        time.sleep(_SETTLE_S)
        outcome = run_rounds(
            problem,
            contenders,
            optimum,
            arguments.repeats,
            limits,
            n_threads,
            machine_facts(),
            print,
        )
    for record in reference.records:
        outcome.records.append(replace(record, threads=n_threads))
    _write(outcome, arguments)
    print(f"  case took {time.perf_counter() - start:.1f} s")
    return outcome.failures


def _write(outcome: Outcome, arguments: argparse.Namespace) -> None:
    """Append the rows to the public and the private file."""
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
