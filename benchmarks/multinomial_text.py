"""Time default multinomial fits of text beside scikit-learn's.

Word counts and tf-idf of two collections of 20 classes, C from 0.01 to 100, one thread, default
settings on both sides: a certified gap here, 100 iterations of L-BFGS there. Shown are both errors,
against the lowest objective of either less what it can be above the minimum.
``python -m benchmarks.multinomial_text`` writes ``results/multinomial_text.csv``.
"""

import csv
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import lzma
import time
import warnings
from pathlib import Path

from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression

import snapml
from benchmarks.objective import multinomial_objective

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SETS = {"20 Newsgroups": "20news_bydate.train", "news20": "news20_multi"}
STRENGTHS = (0.01, 1.0, 100.0)


def timed(model, X, y):
    """Return the seconds of a fit."""
    begin = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - begin


def main():
    """Fit all, and write the table."""
    warnings.simplefilter("ignore")
    rows = [
        ["data", "C", "snapml_s", "sklearn_s", "times_faster", "certified_gap", "sklearn_error",
         "snapml_n_iter", "sklearn_n_iter", "how"]
    ]  # fmt: skip
    for name, file in SETS.items():
        path = DATA / f"{file}.svm.xz"
        if not path.exists():
            print(f"skipped: {path.name} is not there")
            continue
        with lzma.open(path) as stream:
            counts, y = load_svmlight_file(stream)
        for kind, X in (("counts", counts), ("tf-idf", TfidfTransformer().fit_transform(counts))):
            for C in STRENGTHS:
                ours = snapml.LogisticRegression(C=C, n_threads=1)
                theirs = LogisticRegression(C=C)
                ours_s, theirs_s = timed(ours, X, y), timed(theirs, X, y)
                least = ours.objective_ - ours.gap_
                error = (multinomial_objective(theirs, X, y, C) - least) / ours.objective_
                rows.append(
                    [f"{name}, {kind}", C, f"{ours_s:.3g}", f"{theirs_s:.3g}",
                     f"{theirs_s / ours_s:.2f}", f"{ours.gap_ / ours.objective_:.1e}",
                     f"{error:.1e}", int(ours.n_iter_.max()), int(theirs.n_iter_.max()),
                     ours.solver_]
                )  # fmt: skip
                print(*rows[-1][:-1], flush=True)
    target = Path(__file__).parent / "results" / "multinomial_text.csv"
    with target.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
