"""Time default searches on few rows beside scikit-learn's.

One thread; searches are interleaved, and the median of each counts. ``GridSearchCV`` is each
library's own around its own estimator, over ten values of C.
``python -m benchmarks.small_searches`` writes ``results/small_searches.csv``.
"""

import csv
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time
import warnings
from pathlib import Path

import numpy as np
import sklearn.linear_model
import sklearn.model_selection
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import snapml
import snapml.model_selection

REPEATS = 7
GRID = {"C": np.logspace(-3, 3, 10)}


def data_sets():
    """Yield a name, rows, targets, and whether these are numbers."""
    for load in (load_diabetes, load_breast_cancer, load_iris, load_wine):
        X, y = load(return_X_y=True)
        name = load.__name__.removeprefix("load_").replace("_", " ")
        yield f"{name}, scaled", StandardScaler().fit_transform(X), y, load is load_diabetes
    rng = np.random.default_rng(0)
    for n_rows, n_columns in ((200, 5), (1_000, 10), (1_000, 50), (5_000, 20)):
        X = rng.normal(size=(n_rows, n_columns))
        scores = X[:, :5].sum(axis=1) + 2.0 * rng.logistic(size=n_rows)
        yield f"{n_rows} x {n_columns}", X, scores, True
        yield f"{n_rows} x {n_columns}", X, scores > 0, False


def searches(is_number):
    """Yield a name and the search of each library."""
    if is_number:
        for name in ("LassoCV", "ElasticNetCV"):
            yield name, getattr(snapml, name)(n_threads=1), getattr(sklearn.linear_model, name)()
        return
    theirs = sklearn.linear_model.LogisticRegressionCV()
    yield "LogisticRegressionCV", snapml.LogisticRegressionCV(n_threads=1), theirs
    ours = snapml.LogisticRegression(n_threads=1)
    yield (
        "GridSearchCV",
        snapml.model_selection.GridSearchCV(ours, GRID),
        sklearn.model_selection.GridSearchCV(sklearn.linear_model.LogisticRegression(), GRID),
    )


def choice_of(search):
    """Return the strength that a search has chosen."""
    if hasattr(search, "best_params_"):
        return float(search.best_params_["C"])
    return float(np.ravel(search.C_ if hasattr(search, "C_") else search.alpha_)[0])


def main():
    """Time all, and write the table."""
    warnings.simplefilter("ignore")
    rows = [["data", "search", "snapml_s", "sklearn_s", "times_faster", "snapml_choice",
             "sklearn_choice"]]  # fmt: skip
    for data, X, y, is_number in data_sets():
        for name, *both in searches(is_number):
            seconds = np.empty((REPEATS, 2))
            for round_ in range(REPEATS):
                for at, search in enumerate(both):
                    begin = time.perf_counter()
                    search.fit(X, y)
                    seconds[round_, at] = time.perf_counter() - begin
            ours_s, theirs_s = np.median(seconds, axis=0)
            rows.append([data, name, f"{ours_s:.3g}", f"{theirs_s:.3g}", f"{theirs_s / ours_s:.2f}",
                         *(f"{choice_of(search):.4g}" for search in both)])  # fmt: skip
            print(*rows[-1], flush=True)
    path = Path(__file__).parent / "results" / "small_searches.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
