"""Seconds of logistic regression and of counts on Spark, `pyspark.ml` and ours to one objective.

Both fit the same cached DataFrame in one local session, in turn. Theirs stops by its own ``tol``.
A fit of ours to a tight gap says how far from the minimum that is; the timed fits of ours end once
their certified gap is no larger, so that their objective is no worse. Objectives are evaluated here
in float64. ``feed_seconds`` is how long the rows take into the memory of our tasks, which is a part
of ``seconds``, measured apart. Run from the repository's root, on a machine with nothing else to
do::

    python -m benchmarks.spark.compare
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.records import REPOSITORY_ROOT, machine_facts, prepare_output, write_rows
from benchmarks.spark.cases import CASES, N_COLUMNS, N_ROWS, Case, Objective, make_rows
from benchmarks.spark.feed import feed_seconds
from benchmarks.spark.session import cached_frame, make_session, save_rows

__all__ = ["measure"]

DEFAULT_OUTPUT = REPOSITORY_ROOT / "benchmarks" / "results" / "spark.csv"
# The gap of the fit that the least objective is known from, and the least that is asked for.
_TIGHT = 1e-6
_MOST_READS = 1000


def main() -> int:
    """Measure the cases that are asked for, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--rows", type=int, help="instead of those of each case")
    parser.add_argument("--columns", type=int, help="instead of those of each case")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--memory", default="6g", help="of Java")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--overwrite", action="store_true")
    arguments = parser.parse_args()
    prepare_output(arguments.output, arguments.overwrite)
    session = make_session(arguments.slots, arguments.memory)
    try:
        for found in measure(session, arguments):
            write_rows(arguments.output, found)
            print_medians(found)
    finally:
        session.stop()
    return 0


def measure(session: Any, arguments: argparse.Namespace) -> Iterator[list[dict[str, Any]]]:
    """Fit every case, those of the same data one after the other.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Where.
    arguments : argparse.Namespace
        ``cases``, ``rows``, ``columns``, ``repeats`` and ``slots``.

    Yields
    ------
    list of dict
        The rows of a case.
    """
    for data in N_ROWS:
        cases = {name: CASES[name] for name in arguments.cases if CASES[name].data == data}
        if not cases:
            continue
        n_rows, n_columns = arguments.rows or N_ROWS[data], arguments.columns or N_COLUMNS[data]
        X, y = make_rows(data, n_rows, n_columns)
        with tempfile.TemporaryDirectory() as folder:
            save_rows(Path(folder), X, y, arguments.slots)
            frame = cached_frame(session, Path(folder))
            for name, case in cases.items():
                facts = {"case": name, "n_rows": n_rows, "n_columns": n_columns}
                facts |= {"n_nonzeros": int((X != 0).sum()), "slots": arguments.slots}
                found = rounds(frame, case, Objective(X, y, case), arguments)
                yield [{**facts, **row, **_machine()} for row in found]
            frame.unpersist()


def rounds(
    frame: Any, case: Case, objective: Objective, arguments: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Fit a case by turns.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The cached rows.
    case : Case
        What to fit.
    objective : Objective
        Its objective.
    arguments : argparse.Namespace
        ``repeats`` and ``slots``.

    Yields
    ------
    dict
        A fit.
    """
    tol = None
    for repeat in range(arguments.repeats):
        theirs = timed_fit("pyspark.ml", frame, case, objective, {})
        if tol is None:
            tight = timed_fit("snapml", frame, case, objective, _ours(_TIGHT, arguments))
            least = tight["objective"] - tight["gap"]
            tol = max(_TIGHT, (theirs["objective"] - least) / theirs["objective"])
        feed = feed_seconds(frame, arguments.slots)
        ours = timed_fit("snapml", frame, case, objective, _ours(tol, arguments))
        for row, seconds in ((theirs, None), (ours, feed)):
            excess = (row["objective"] - least) / least
            yield {**row, "excess": excess, "feed_seconds": seconds, "repeat": repeat}


def _ours(tol: float, arguments: argparse.Namespace) -> dict[str, Any]:
    return {"tol": tol, "maxIter": _MOST_READS, "numWorkers": arguments.slots}


def timed_fit(
    library: str, frame: Any, case: Case, objective: Objective, settings: dict[str, Any]
) -> dict[str, Any]:
    """Fit once.

    Parameters
    ----------
    library : {'pyspark.ml', 'snapml'}
        Whose.
    frame : pyspark.sql.DataFrame
        The cached rows.
    case : Case
        What to fit.
    objective : Objective
        Its objective.
    settings : dict
        Further parameters.

    Returns
    -------
    dict
        Seconds and what was reached.
    """
    estimator = case.estimator(library, **settings)
    load, start = os.getloadavg()[0], time.perf_counter()
    model = estimator.fit(frame)
    seconds = time.perf_counter() - start
    is_ours = library == "snapml"
    return {
        "library": library,
        "reg_param": case.reg_param,
        "standardization": case.standardization,
        "tol": estimator.getTol(),
        "seconds": seconds,
        "objective": objective.value(model.coefficients.toArray(), model.intercept),
        "gap": model.gap if is_ours else None,
        "n_iter": _iterations(model),
        "detail": model.summary.solver if is_ours else "",
        "load_average": load,
    }


def _iterations(model: Any) -> int:
    """Return the iterations, which Spark's classes have by two names."""
    for name in ("totalIterations", "numIterations"):
        if hasattr(model.summary, name):
            return int(getattr(model.summary, name))
    raise TypeError(f"expected a summary with iterations, got {type(model.summary).__name__}")


def _machine() -> dict[str, Any]:
    import pyspark

    facts = machine_facts()
    return {**facts, "versions": f"{facts['versions']}; pyspark {pyspark.__version__}"}


def print_medians(found: list[dict[str, Any]]) -> None:
    """Print the median seconds of a case's fits.

    Parameters
    ----------
    found : list of dict
        Its rows.
    """
    seconds = {
        library: median(row["seconds"] for row in found if row["library"] == library)
        for library in ("pyspark.ml", "snapml")
    }
    ours = [row for row in found if row["library"] == "snapml"]
    feed = median(row["feed_seconds"] for row in ours)
    print(
        f"{ours[0]['case']}: pyspark.ml {seconds['pyspark.ml']:.1f} s, "
        f"snapml {seconds['snapml']:.1f} s (feed {feed:.1f} s, "
        f"{ours[0]['n_rows'] / feed:,.0f} rows/s): "
        f"{seconds['pyspark.ml'] / seconds['snapml']:.1f} times as fast; {ours[0]['detail']}",
        flush=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
