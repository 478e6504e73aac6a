"""Run scikit-learn's own tests on snapml's classes: ``python tests/sklearn_suite/run.py``.

Every test module of scikit-learn runs in a process of its own, in which snapml's classes stand
under scikit-learn's names (see substitution.py). Prints what passed, what failed as expected
(expected_failures.py) and what failed; the last line is the score, which ``--write-score`` keeps
in score.txt. Exit status 0 means that nothing
failed unexpectedly and that no expectation was in vain.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import sklearn

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
sys.path.insert(0, str(ROOT))

from tests.sklearn_suite.expected_failures import CATEGORIES, EXPECTED_FAILURES, NOT_YET  # noqa: E402

# Longest first, so that the processes end at about the same time.
MODULES = (
    "linear_model.tests.test_logistic",
    "linear_model.tests.test_ridge",
    "tests.test_common",
    "tree.tests.test_tree",
    "linear_model.tests.test_coordinate_descent",
    "linear_model.tests.test_sparse_coordinate_descent",
    "linear_model._glm.tests.test_glm",
    "linear_model.tests.test_quantile",
    "linear_model.tests.test_huber",
    "linear_model.tests.test_common",
    "linear_model.tests.test_sag",
    "linear_model.tests.test_base",
    "svm.tests.test_svm",
    "svm.tests.test_sparse",
    "tree.tests.test_monotonic_tree",
    "tree.tests.test_export",
)
TIMEOUT_S = 900


@dataclass
class Outcome:
    """What became of one test."""

    module: str
    test: str
    outcome: str = "passed"  # or failed, skipped, xfailed (by scikit-learn's own mark)
    message: str = ""
    is_ours: bool = False
    duration_s: float = 0.0

    def __str__(self) -> str:
        """Return the test's name as one would look it up."""
        return f"{self.module}::{self.test}"


def run_module(module: str, keyword: str | None) -> list[Outcome]:
    """Run one test module in a fresh process, and read its log."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(FOLDER / "pytest.ini")]
    command += ["-p", "tests.sklearn_suite.substitution", "--pyargs", f"sklearn.{module}"]
    command += ["-k", keyword] if keyword else []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        log.touch()
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **threads, "SNAPML_SUITE_LOG": str(log)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        outcomes = read_log(module, log)
    print(f"{module}: {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    if done.returncode not in (0, 1, 5):  # 1: tests failed, 5: none selected
        text = done.stdout[-3000:] + done.stderr[-3000:]
        outcomes.append(Outcome(module, "(the process)", "failed", text, is_ours=True))
    return outcomes


def read_log(module: str, log: Path) -> list[Outcome]:
    """Fold the phases of every test into one outcome."""
    outcomes: dict[str, Outcome] = {}
    for text in log.read_text().splitlines():
        line = json.loads(text)
        outcome = outcomes.setdefault(line["test"], Outcome(module, line["test"]))
        outcome.is_ours |= bool(line["touched"])
        outcome.duration_s += line["duration_s"]
        if line["outcome"] == "failed":
            outcome.outcome, outcome.message = "failed", line["message"]
        elif line["outcome"] == "skipped" and outcome.outcome != "failed":
            outcome.outcome = "xfailed" if line["was_xfail"] else "skipped"
    return list(outcomes.values())


def report(outcomes: list[Outcome], *, is_complete: bool, slowest: int) -> tuple[bool, str]:
    """Print failures and expected failures by reason; return whether all is well, and the score."""
    ours = [o for o in outcomes if o.is_ours]
    by_outcome = collections.defaultdict(list)
    expected = collections.defaultdict(list)
    unexpected_passes = []
    for outcome in ours:
        entries = [e for e in EXPECTED_FAILURES if e.matches(outcome.module, outcome.test)]
        if entries and outcome.outcome == "failed":
            expected[entries[0]].append(outcome)
        else:
            by_outcome[outcome.outcome].append(outcome)
            if entries and outcome.outcome == "passed":
                unexpected_passes.append(outcome)
    for outcome in by_outcome["failed"]:
        first_lines = " ".join(outcome.message.split())[:300]
        print(f"FAILED {outcome}\n    {first_lines}")
    for category in CATEGORIES:
        for entry in (e for e in EXPECTED_FAILURES if e.category == category):
            if entry in expected:
                print(f"expected: {entry.module}::{entry.test} ({len(expected[entry])})")
                print(f"    {category}: {entry.reason}")
    errors = [f"passes, but is expected to fail: {outcome}" for outcome in unexpected_passes]
    if is_complete:
        errors += [
            f"matches no failing test: {entry.module}::{entry.test}"
            for entry in EXPECTED_FAILURES
            if entry not in expected
        ]
    errors += [
        f"{entry.test}: unknown category {entry.category!r}"
        for entry in EXPECTED_FAILURES
        if entry.category not in CATEGORIES
    ]
    for error in errors:
        print(f"ERROR {error}")
    for outcome in sorted(ours, key=lambda o: -o.duration_s)[:slowest]:
        print(f"{outcome.duration_s:7.2f} s {outcome}")
    counts = collections.Counter(o.outcome for o in outcomes)
    print(f"all tests run, also those that use none of our classes: {dict(counts)}")
    print(
        f"ours: {len(by_outcome['skipped'])} skipped by scikit-learn, "
        f"{len(by_outcome['xfailed'])} marked as expected failures by scikit-learn itself"
    )
    n_missing = sum(len(found) for entry, found in expected.items() if entry.category == NOT_YET)
    n_expected = sum(len(found) for found in expected.values()) - n_missing
    n_failed = len(by_outcome["failed"]) + len(unexpected_passes)
    score = (
        f"scikit-learn's own tests: {len(by_outcome['passed'])} passed, {n_expected} expected "
        f"failures, {n_missing} not supported yet, {n_failed} failed "
        f"(scikit-learn {sklearn.__version__})"
    )
    return not by_outcome["failed"] and not errors, score


def main() -> int:
    """Run the modules asked for, several at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", help="parts of the names of test modules")
    parser.add_argument("-k", dest="keyword", help="pytest's selection of tests")
    parser.add_argument("-n", dest="jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--write-score", action="store_true", help="keep the score in score.txt")
    parser.add_argument("--slowest", type=int, default=0, help="list the slowest tests")
    options = parser.parse_args()
    chosen = [m for m in MODULES if not options.modules or any(p in m for p in options.modules)]
    with ThreadPoolExecutor(options.jobs) as pool:
        parts = list(pool.map(lambda module: run_module(module, options.keyword), chosen))
    outcomes = [outcome for part in parts for outcome in part]
    is_complete = not options.modules and not options.keyword
    is_well, score = report(outcomes, is_complete=is_complete, slowest=options.slowest)
    print(score)
    if options.write_score and is_complete:
        (FOLDER / "score.txt").write_text(f"{score}\n")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
