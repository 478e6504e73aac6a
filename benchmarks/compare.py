"""Read results of `run.py`: time to accuracy as tables, CSV and plot; check the certificates.

Run from the repository's root, for example::

    python -m benchmarks.compare benchmarks/results/time_to_accuracy.csv

This project is its solver "auto", but in the table of its own solvers. The exit status is 1 if any
run claimed a gap smaller than its distance to the optimum.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.libraries import UNPUBLISHED_LIBRARIES
from benchmarks.measure import TARGETS
from benchmarks.records import REPOSITORY_ROOT, FitRecord, read_fit_records, write_rows

_REFERENCE = "reference"
_OURS = "snapml"
# Rounding of two float64 sums over a million rows, each relative to the objective.
_ROUNDING = 1e-11
# The objective a library reports may be that of its coefficients before rounding to float32.
_REPORTED_TOLERANCE = 1e-6
_HUES = {_OURS: "Reds", "sklearn": "Greens", "liblinear": "Purples", "ibm_snapml": "Blues"}
_HUES |= {"sklearnex": "GnBu", "glum": "Oranges", "skglm": "YlOrBr", "celer": "PuRd"}
_MARKERS = "osv^D*XP<>dph"
_AUTO = "auto"
# "auto" must not be slower than this many times the better of the solvers it chooses from.
_SLOWEST_AUTO = 1.25


class Case(NamedTuple):
    """What makes runs comparable: the same problem at the same size and thread count."""

    problem: str
    loss: str
    C: float
    fit_intercept: bool
    n_rows: int
    n_features: int
    n_nonzeros: int
    scale: float
    seed: int
    l1_ratio: float
    strength: float | None
    threads: int

    @property
    def weight(self) -> str:
        """C, or the share of the critical penalty."""
        return f"C={self.C:g}" if self.strength is None else f"{self.strength:g} critical"

    @property
    def title(self) -> str:
        """Short text for tables and plots."""
        threads = f"{self.threads} thread" + ("s" if self.threads > 1 else "")
        size = f"{self.n_rows:,} x {self.n_features:,}"
        return f"{self.problem}, {size}, {self.weight}, {threads}"

    @property
    def is_dense(self) -> bool:
        """Whether every value is stored."""
        return self.n_nonzeros == self.n_rows * self.n_features


@dataclass(frozen=True)
class Point:
    """Medians over the repeats of one setting."""

    library: str
    library_version: str
    solver: str
    setting: str
    level: int
    seconds: float
    suboptimality: float
    n_repeats: int


def main() -> int:
    """Compare the files of the command line.

    Returns
    -------
    int
        Exit status: 1 if a certificate was violated.
    """
    arguments = _parse_arguments()
    records = [record for path in arguments.results for record in read_fit_records(path)]
    _refuse_to_publish(records, arguments.output_dir)
    cases = group_by_case(records)
    optima = find_optima(cases)
    points = {case: find_points(runs, optima[case]) for case, runs in cases.items()}
    _print_machines(records)
    print(markdown_table(points))
    print()
    print(own_solvers_table(points))
    for line in totals(points, cases):
        print(line)
    arguments.output_dir.mkdir(parents=True, exist_ok=True)
    summary = arguments.output_dir / f"{arguments.name}.csv"
    summary.unlink(missing_ok=True)
    write_rows(summary, summary_rows(points))
    draw(points, arguments.output_dir / f"{arguments.name}.png")
    violations = find_violations(cases, optima)
    _print_certificates(cases, optima, violations)
    return 1 if violations else 0


def _parse_arguments() -> argparse.Namespace:
    """Define and check the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+", type=Path, help="CSV files of run.py")
    parser.add_argument("--output-dir", type=Path, default=None, help="default: the first CSV's")
    parser.add_argument("--name", default="summary", help="stem of the files written")
    arguments = parser.parse_args()
    if arguments.output_dir is None:
        arguments.output_dir = arguments.results[0].parent
    return arguments


def _refuse_to_publish(records: list[FitRecord], directory: Path) -> None:
    """Stop before results of a proprietary library are written into the repository."""
    found = UNPUBLISHED_LIBRARIES.intersection(record.library for record in records)
    is_inside = REPOSITORY_ROOT in (directory.resolve() / "x").parents
    if found and is_inside:
        raise SystemExit(f"{', '.join(found)}: choose an --output-dir outside the repository")


def group_by_case(records: list[FitRecord]) -> dict[Case, list[FitRecord]]:
    """Collect comparable runs.

    Parameters
    ----------
    records : list of FitRecord
        Rows of all files.

    Returns
    -------
    dict
        Case to its records, in the order of first appearance.
    """
    cases: dict[Case, list[FitRecord]] = defaultdict(list)
    for record in records:
        cases[Case(*(getattr(record, name) for name in Case._fields))].append(record)
    return dict(cases)


def find_optima(cases: dict[Case, list[FitRecord]]) -> dict[Case, float]:
    """Least objective of every case; runs with other thread counts lend theirs.

    Parameters
    ----------
    cases : dict
        What `group_by_case` returned.

    Returns
    -------
    dict
        Case to P*.
    """
    least: dict[Case, float] = {}
    for case, runs in cases.items():
        key = case._replace(threads=0)
        here = min(record.objective for record in runs)
        least[key] = min(here, least.get(key, here))
    return {case: least[case._replace(threads=0)] for case in cases}


def find_points(runs: list[FitRecord], optimum: float) -> list[Point]:
    """Medians over repeats, for every setting of every solver.

    Parameters
    ----------
    runs : list of FitRecord
        Runs of one case.
    optimum : float
        P*.

    Returns
    -------
    list of Point
        Sorted by library, solver and rung; reference runs are left out.
    """
    by_setting: dict[tuple[str, str, int, str], list[FitRecord]] = defaultdict(list)
    for record in runs:
        if record.library != _REFERENCE:
            key = (record.library, record.solver, record.level, record.setting)
            by_setting[key].append(record)
    return [
        Point(
            library,
            group[0].library_version,
            solver,
            setting,
            level,
            seconds=median(record.seconds for record in group),
            suboptimality=median((record.objective - optimum) / optimum for record in group),
            n_repeats=len(group),
        )
        for (library, solver, level, setting), group in sorted(by_setting.items())
    ]


def fastest_to(points: list[Point], library: str, target: float) -> Point | None:
    """Return the quickest setting of any solver of a library that reaches an accuracy.

    Settings that were fitted in all rounds go before those that only the search has seen, whose
    one time may be a lucky one. Of this project's solvers only "auto" counts.

    Parameters
    ----------
    points : list of Point
        Points of one case.
    library : str
        Whose settings.
    target : float
        Relative suboptimality to reach.

    Returns
    -------
    Point or None
        None if no setting reached it.
    """
    reached = [
        p
        for p in points
        if p.library == library
        and p.suboptimality <= target
        and (library != _OURS or p.solver == _AUTO)
    ]
    return _quickest(reached)


def _quickest(points: list[Point]) -> Point | None:
    """Return the point of least seconds among those of most repeats."""
    most = max((p.n_repeats for p in points), default=0)
    return min((p for p in points if p.n_repeats == most), key=lambda p: p.seconds, default=None)


def _libraries(points: list[Point]) -> list[str]:
    """Libraries of a case, this project first."""
    names = {point.library for point in points}
    return sorted(names, key=lambda name: (name != _OURS, name))


def speed_up(points: list[Point], target: float) -> float | None:
    """Seconds of the best peer over this project's.

    Parameters
    ----------
    points : list of Point
        Points of one case.
    target : float
        Relative suboptimality to reach.

    Returns
    -------
    float or None
        0 if only a peer reached the target, infinite if only this project did; None if there is
        nothing to compare.
    """
    names = _libraries(points)
    ours = fastest_to(points, _OURS, target)
    peers = [p for name in names if name != _OURS and (p := fastest_to(points, name, target))]
    if _OURS not in names or len(names) == 1 or (ours is None and not peers):
        return None
    if ours is None:
        return 0.0
    return min((p.seconds for p in peers), default=math.inf) / ours.seconds


def markdown_table(points: dict[Case, list[Point]]) -> str:
    """Seconds of each library to each target, one line a case.

    Parameters
    ----------
    points : dict
        Case to its points.

    Returns
    -------
    str
        A Markdown table.
    """
    names = list(
        dict.fromkeys(n for case_points in points.values() for n in _libraries(case_points))
    )
    names.sort(key=lambda name: name != _OURS)
    goals = " / ".join(f"{target:.0e}" for target in TARGETS)
    lines = [
        f"Seconds to {goals}; '>': not reached by a fit of so many seconds; '-': not applicable.",
        "",
        f"| problem | size | C | threads | {' | '.join(names)} | fastest | best peer / ours |",
        "|---" * (len(names) + 6) + "|",
    ]
    for case, case_points in points.items():
        size = f"{case.n_rows:,} x {case.n_features:,}"
        cells = [case.problem, size, case.weight, str(case.threads)]
        cells += [_cell(case_points, name) for name in names]
        best = [_quickest_library(case_points, target) or "nobody" for target in TARGETS]
        ratios = [speed_up(case_points, target) for target in TARGETS]
        cells.append(" / ".join(best))
        cells.append(" / ".join("-" if r is None else f"{r:.2f}" for r in ratios))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(points: list[Point], library: str) -> str:
    """Seconds of a library to each target, with the solver."""
    mine = [p for p in points if p.library == library]
    if not mine:
        return "-"
    best = [fastest_to(points, library, target) for target in TARGETS]
    longest = max(p.seconds for p in mine)
    texts = [f"{p.seconds:.3g}" if p else f">{longest:.2g}" for p in best]
    solvers = list(dict.fromkeys(p.solver for p in best if p))
    return f"{' / '.join(texts)} {', '.join(solvers)}".rstrip()


def _quickest_library(points: list[Point], target: float) -> str | None:
    """Name of the library that is first at a target."""
    best = [p for name in _libraries(points) if (p := fastest_to(points, name, target))]
    return min(best, key=lambda p: p.seconds).library if best else None


def own_solvers_table(points: dict[Case, list[Point]]) -> str:
    """Seconds of "auto" beside this project's fixed solvers, where those were measured.

    Parameters
    ----------
    points : dict
        Case to its points.

    Returns
    -------
    str
        A Markdown table and a line about the worst case; empty without fixed solvers.
    """
    lines = []
    ratios = []
    for case, case_points in points.items():
        solvers = {p.solver for p in case_points if p.library == _OURS} - {_AUTO}
        for target in TARGETS if solvers else ():
            times = {s: _seconds_of(case_points, s, target) for s in sorted(solvers)}
            ratio = _seconds_of(case_points, _AUTO, target) / min(times.values())
            if math.isnan(ratio):  # nobody reached it
                continue
            ratios.append((ratio, case, target))
            texts = [f"{s} {t:.3g}" for s, t in times.items()]
            mine = _seconds_of(case_points, _AUTO, target)
            lines.append(
                f"| {case.title} | {target:.0e} | {mine:.3g} | {', '.join(texts)} | {ratio:.2f} |"
            )
    if not ratios:
        return ""
    n_good = sum(ratio <= _SLOWEST_AUTO for ratio, _, _ in ratios)
    worst, case, target = max(ratios, key=lambda item: item[0])
    head = ["| case | target | auto | fixed solvers | auto / better |", "|---|---|---|---|---|"]
    tail = (
        f'\n"auto" within {_SLOWEST_AUTO} times its better solver: {n_good} of {len(ratios)}; '
        f"worst {worst:.2f} ({case.title}, {target:.0e})"
    )
    return "\n".join([*head, *lines, tail])


def _seconds_of(points: list[Point], solver: str, target: float) -> float:
    """Seconds of one of this project's solvers to a target, infinite if it does not get there."""
    mine = [
        p for p in points if p.library == _OURS and p.solver == solver and p.suboptimality <= target
    ]
    best = _quickest(mine)
    return math.inf if best is None else best.seconds


def totals(points: dict[Case, list[Point]], cases: dict[Case, list[FitRecord]]) -> list[str]:
    """Sum up: how often this project is first, how far behind at worst, and if it always arrives.

    Parameters
    ----------
    points : dict
        Case to its points.
    cases : dict
        Case to its records.

    Returns
    -------
    list of str
        Lines to print.
    """
    lines = []
    for target in TARGETS:
        found = {case: speed_up(case_points, target) for case, case_points in points.items()}
        ratios = {case: ratio for case, ratio in found.items() if ratio is not None}
        if not ratios:
            continue
        n_first = sum(ratio >= 1.0 for ratio in ratios.values())
        worst = min(ratios, key=lambda case: ratios[case])
        lines.append(
            f"to {target:.0e}: snapml is fastest in {n_first} of {len(ratios)} cases "
            f"({n_first / len(ratios):.0%}), median speed-up {median(ratios.values()):.2f}, "
            f"worst {ratios[worst]:.2f} ({worst.title})"
        )
        dense = [
            ratio
            for case, ratio in ratios.items()
            if case.is_dense and case.strength is None and case.C >= 1.0
        ]
        if dense:
            lines.append(
                f"  dense, C >= 1: {len(dense)} cases, median speed-up {median(dense):.2f}, "
                f"worst {min(dense):.2f}"
            )
    stuck = [
        case.title
        for case, case_points in points.items()
        if _OURS in _libraries(case_points) and not fastest_to(case_points, _OURS, min(TARGETS))
    ]
    lines.append(f"snapml does not reach {min(TARGETS):.0e} in {len(stuck)} of {len(points)} cases")
    lines += [f"  NOT REACHED {title}" for title in stuck]
    short = [
        f"{case.title}: {run.solver} {run.setting} ends at {run.gap / abs(run.objective):.1e}"
        for case, runs in cases.items()
        for run in runs
        if run.library == _OURS and run.gap is not None and _missed_tolerance(run)
    ]
    lines.append(f"runs of snapml that end above their own tolerance: {len(short)}")
    lines += [f"  NOT CONVERGED {text}" for text in short]
    return lines


def _missed_tolerance(run: FitRecord) -> bool:
    """Whether a run's certificate is larger than it was asked for."""
    tol = float(run.setting.split()[0].removeprefix("tol="))
    return run.gap is not None and run.gap > tol * abs(run.objective) * (1.0 + 1e-6)


def summary_rows(points: dict[Case, list[Point]]) -> list[dict[str, Any]]:
    """Rows of the summary file: one per case, library and target.

    Parameters
    ----------
    points : dict
        Case to its points.

    Returns
    -------
    list of dict
        ``seconds`` is empty where the target was not reached; ``times_ours`` is the ratio to
        this project's seconds.
    """
    rows = []
    for case, case_points in points.items():
        for library in _libraries(case_points):
            for target in TARGETS:
                best = fastest_to(case_points, library, target)
                ours = fastest_to(case_points, _OURS, target)
                rows.append(
                    case._asdict()
                    | {
                        "library": library,
                        "library_version": best.library_version if best else "",
                        "relative_suboptimality": target,
                        "seconds": best.seconds if best else None,
                        "solver": best.solver if best else "",
                        "setting": best.setting if best else "",
                        "n_repeats": best.n_repeats if best else 0,
                        "times_ours": best.seconds / ours.seconds if best and ours else None,
                    }
                )
    return rows


def find_violations(cases: dict[Case, list[FitRecord]], optima: dict[Case, float]) -> list[str]:
    """Find runs whose certificate does not hold.

    Parameters
    ----------
    cases : dict
        Case to its records.
    optima : dict
        Case to P*.

    Returns
    -------
    list of str
        One line per run with P - P* > gap, or with a reported objective that is not P.
    """
    lines = []
    for case, runs in cases.items():
        for run in runs:
            who = f"{case.title}: {run.library} {run.solver} {run.setting} [{run.repeat}]"
            excess = run.objective - optima[case]
            if run.gap is not None and excess > run.gap + _ROUNDING * abs(optima[case]):
                lines.append(f"{who}: gap {run.gap:.6g} < P - P* = {excess:.6g}")
            reported = run.reported_objective
            tolerance = _REPORTED_TOLERANCE * abs(run.objective)
            if reported is not None and abs(reported - run.objective) > tolerance:
                lines.append(f"{who}: reports P = {reported:.10g}, is {run.objective:.10g}")
    return lines


def _print_certificates(
    cases: dict[Case, list[FitRecord]], optima: dict[Case, float], violations: list[str]
) -> None:
    """Say how well P* is known and whether every claimed gap holds."""
    n_checked = sum(run.gap is not None for runs in cases.values() for run in runs)
    for case, runs in cases.items():
        bounds = [(run.objective - run.gap, run.library) for run in runs if run.gap is not None]
        if not bounds:
            print(f"{case.title}: P* = {optima[case]:.12g}, the least seen, not certified")
            continue
        bound, who = max(bounds)
        width = max(0.0, optima[case] - bound) / optima[case]
        print(f"{case.title}: P* = {optima[case]:.12g}, certified to {width:.1e} by {who}")
    for line in violations:
        print(f"VIOLATED {line}")
    print(f"{n_checked} certificates checked, {len(violations)} violations")


def _print_machines(records: list[FitRecord]) -> None:
    """Warn where files of different machines are laid side by side."""
    machines = {(record.cpu_model, record.cores) for record in records}
    for cpu_model, cores in sorted(machines):
        print(f"machine: {cpu_model}, {cores} cores")
    if len(machines) > 1:
        print("WARNING: times of different machines are not comparable")


def draw(points: dict[Case, list[Point]], path: Path) -> None:
    """Plot suboptimality against time, one panel per case.

    Parameters
    ----------
    points : dict
        Case to its points.
    path : pathlib.Path
        PNG to write.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    n_columns = min(4, max(1, round(len(points) ** 0.5)))
    n_lines = -(-len(points) // n_columns)
    size = (6.5 * n_columns + 2.5, 4.2 * n_lines)
    figure, axes = plt.subplots(n_lines, n_columns, figsize=size, squeeze=False)
    styles = _line_styles(points)
    for axis, (case, case_points) in zip(axes.flat, points.items(), strict=False):
        _draw_panel(axis, case, case_points, styles)
    for axis in axes.flat[len(points) :]:
        axis.set_visible(False)
    handles = {
        label: handle
        for axis in axes.flat
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    labels = [" ".join(key) for key in styles]
    figure.tight_layout(rect=(0, 0, 1 - 2.3 / size[0], 1))
    figure.legend(
        [handles[label] for label in labels], labels, loc="center right", fontsize=8, frameon=False
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _line_styles(points: dict[Case, list[Point]]) -> dict[tuple[str, str], dict[str, Any]]:
    """One hue per library, a shade and a marker per solver; this project drawn thick."""
    from matplotlib import colormaps

    keys = sorted({(p.library, p.solver) for case_points in points.values() for p in case_points})
    keys.sort(key=lambda key: (key[0] != _OURS, key))
    styles = {}
    for library, group in groupby(keys, key=lambda key: key[0]):
        hue = colormaps[_HUES.get(library, "Greys")]
        solvers = list(group)
        for number, (key, marker) in enumerate(zip(solvers, _MARKERS, strict=False)):
            shade = hue(0.9 - 0.5 * number / len(solvers))
            width = 2.6 if library == _OURS else 1.0
            styles[key] = {"color": shade, "marker": marker, "lw": width, "ms": 4}
    return styles


def _draw_panel(
    axis: Any, case: Case, points: list[Point], styles: dict[tuple[str, str], dict[str, Any]]
) -> None:
    """Draw one case; points closer than 1e-11 to the optimum lie on the lower edge."""
    for key, group in groupby(points, key=lambda p: (p.library, p.solver)):
        curve = list(group)
        seconds = [point.seconds for point in curve]
        suboptimality = [max(point.suboptimality, 1e-11) for point in curve]
        axis.plot(seconds, suboptimality, label=" ".join(key), **styles[key])
    for target in TARGETS:
        axis.axhline(target, color="0.85", lw=0.8, zorder=0)
    axis.set(xscale="log", yscale="log", ylim=(1e-11, 10), xlabel="seconds (wall, median)")
    axis.set_ylabel("(P - P*) / P*")
    axis.set_title(case.title, fontsize=9)


if __name__ == "__main__":
    raise SystemExit(main())
