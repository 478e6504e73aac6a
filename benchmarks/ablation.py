"""Epochs to a certified gap, with one choice of the descent changed at a time.

Choices: the relaxation of the steps, the rows of a block, more visits to the rows that hold most of
the gap, the length of the intercept's column, and whether dense columns are centred. Counts of
epochs do not depend on how busy the machine is. Run from the repository's root::

    python -m benchmarks.ablation --scale 0.2
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.epoch_speed import make_engine
from benchmarks.problems import RECIPES, Problem, make_problem
from benchmarks.records import REPOSITORY_ROOT, machine_facts, prepare_output, write_rows
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.dual_ascent.cpu_engine import CpuEngine
from snapml.solvers.dual_ascent.dual_coordinate_ascent import solve
from snapml.solvers.stopping import StoppingRule

DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "ablation.csv"
MOST_EPOCHS = 300


@dataclass(frozen=True)
class Variant:
    """One setting of the descent; the defaults are the engine's own.

    Parameters
    ----------
    relaxation : float or None
        Factor on the curvature of a step.
    block_rows : int or None
        Rows visited together.
    column_scale : float
        Factor on the length of a free intercept's column.
    is_centred : bool
        Whether dense columns are centred; only with an intercept.
    has_focus : bool
        Whether few rows that hold most of the gap are visited more often; only sparse ones.
    """

    relaxation: float | None = None
    block_rows: int | None = None
    column_scale: float = 1.0
    is_centred: bool = True
    has_focus: bool = True


VARIANTS = {
    "as it is": Variant(),
    "relaxation 1": Variant(relaxation=1.0),
    "relaxation 0.8": Variant(relaxation=0.8),
    "relaxation 0.65": Variant(relaxation=0.65),
    "no focus": Variant(has_focus=False),
    "single rows": Variant(block_rows=1),
    "blocks of 4": Variant(block_rows=4),
    "blocks of 16": Variant(block_rows=16),
}
INTERCEPT_VARIANTS = {
    "as it is": Variant(),
    "column x 0.1": Variant(column_scale=0.1),
    "column x 0.3": Variant(column_scale=0.3),
    "column x 3": Variant(column_scale=3.0),
    "not centred": Variant(is_centred=False),
}


def main() -> int:
    """Run every variant on every problem and print the epochs.

    Returns
    -------
    int
        Exit status.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--problems",
        nargs="+",
        choices=RECIPES,
        metavar="NAME",
        default=["click_log", "click_log_unit", "text", "dense_tall", "dense_wide", "w8a"],
    )
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--tol", type=float, default=1e-5, help="relative duality gap")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--overwrite", action="store_true")
    arguments = parser.parse_args()
    prepare_output(arguments.output, arguments.overwrite)
    for name in arguments.problems:
        problem = make_problem(name, arguments.scale)
        rows = compare(problem, VARIANTS, arguments.tol)
        with_intercept = replace(problem, fit_intercept=True)
        rows += compare(with_intercept, INTERCEPT_VARIANTS, arguments.tol)
        # Weak rows: the multiplier of the intercept has little to push with.
        weak = replace(with_intercept, C=problem.C * 1e-3)
        rows += compare(weak, INTERCEPT_VARIANTS, arguments.tol)
        write_rows(arguments.output, rows)
    return 0


def compare(problem: Problem, variants: dict[str, Variant], tol: float) -> list[dict[str, Any]]:
    """Solve one problem with each variant.

    Parameters
    ----------
    problem : Problem
        Logistic problem.
    variants : dict
        Settings by name.
    tol : float
        Relative duality gap to reach.

    Returns
    -------
    list of dict
        One row per variant.
    """
    rows = []
    for name, variant in variants.items():
        engine = _configured_engine(problem, variant)
        result = solve(engine, SerialCommunicator(), StoppingRule(tol, MOST_EPOCHS))
        print(
            f"{problem.name:16s} C={problem.C:<6g} intercept={problem.fit_intercept!s:5s} "
            f"{name:16s} {result.n_iter:4d} epochs, gap {result.gap / result.objective:.1e}"
        )
        rows.append(
            {
                "problem": problem.name,
                "scale": problem.scale,
                "C": problem.C,
                "fit_intercept": problem.fit_intercept,
                "variant": name,
                "tol": tol,
                "epochs": result.n_iter,
                "has_converged": result.has_converged,
                "relative_gap": result.gap / result.objective,
                "mean_stiffness": result.mean_stiffness,
            }
            | machine_facts()
        )
    return rows


def _configured_engine(problem: Problem, variant: Variant) -> CpuEngine:
    """Return a one-thread engine with the variant's settings."""
    engine = make_engine(
        problem, 1, column_scale=variant.column_scale, is_centred=variant.is_centred
    )
    if variant.relaxation is not None:
        engine.relaxation = variant.relaxation
    engine.has_focus &= variant.has_focus
    if variant.block_rows is not None:
        engine.block_rows = variant.block_rows
    return engine


if __name__ == "__main__":
    raise SystemExit(main())
