"""Time default fits of few rows a column beside scikit-learn's: the sizes of a first try on text.

Made-up rows, as many as a third to five times their columns: dense normal entries, sparse ones,
indicators, and entries whose columns differ in scale; targets of a linear model with noise, and
labels of chance. One thread; by turns, the fastest of each counting. What scikit-learn's fit leaves
is its objective above ours, as a share; what ours leaves is certified.
``python -m benchmarks.few_rows`` writes ``results/few_rows.csv``.
"""

import csv
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import sklearn.linear_model
import sklearn.svm
from scipy.special import logsumexp

import snapml

REPEATS, LONG_S = 5, 0.3
SHAPES = [(60, 200), (150, 200), (300, 500), (200, 1000), (1000, 1500), (600, 300), (1000, 400)]
FILLED = {"dense": 1.0, "third": 0.3, "sparse": 0.05}
STRENGTHS = (0.01, 1.0, 100.0)


def made_rows():
    """Yield a name, rows, scores that are linear in them, and whether labels are chance."""
    for n, p in SHAPES:
        for filled, share in FILLED.items():
            for kind in ("normal", "indicators", "scales", "chance"):
                rng = np.random.default_rng(n + p)
                X = rng.normal(size=(n, p)) * (rng.random((n, p)) < share)
                if kind == "indicators":
                    X = (rng.random((n, p)) < min(share, 0.3)).astype(np.float64)
                if kind == "scales":
                    X *= np.exp(rng.normal(size=p))
                scores = X @ rng.normal(size=p) + 0.5 * rng.normal(size=n)
                if kind == "chance":
                    scores = rng.normal(size=n)
                rows = X if filled == "dense" else sp.csr_matrix(X)
                yield f"{filled} {kind} {n} x {p}", rows, scores


def fits(scores):
    """Yield a name, both makers, the targets, and the loss of margins there, for each strength."""
    labels, classes = (
        scores > np.median(scores),
        np.digitize(scores, np.quantile(scores, [0.3, 0.7])),
    )
    signs = np.where(labels, 1.0, -1.0)
    theirs, svm = sklearn.linear_model, sklearn.svm
    for C in STRENGTHS:
        for power, loss in ((1, "hinge"), (2, "squared_hinge")):
            yield (
                f"LinearSVC, {loss}, C={C}",
                lambda C=C, loss=loss: snapml.LinearSVC(loss=loss, C=C, n_threads=1),
                lambda C=C, loss=loss: svm.LinearSVC(loss=loss, C=C),
                labels,
                lambda z, C=C, power=power: C * np.sum(np.maximum(0, 1 - signs * z[:, 0]) ** power),
                1.0,
            )
        yield (
            f"LogisticRegression, C={C}",
            lambda C=C: snapml.LogisticRegression(C=C, n_threads=1),
            lambda C=C: theirs.LogisticRegression(C=C),
            labels,
            lambda z, C=C: C * np.sum(np.logaddexp(0, -signs * z[:, 0])),
            0.0,
        )
        yield (
            f"LogisticRegression of 3 classes, C={C}",
            lambda C=C: snapml.LogisticRegression(C=C, n_threads=1),
            lambda C=C: theirs.LogisticRegression(C=C),
            classes,
            lambda z, C=C: C * np.sum(logsumexp(z, axis=1) - z[np.arange(len(z)), classes]),
            0.0,
        )
        yield (
            f"LinearSVR, C={C}",
            lambda C=C: snapml.LinearSVR(C=C, n_threads=1),
            lambda C=C: svm.LinearSVR(C=C),
            scores,
            lambda z, C=C: C * np.sum(np.abs(scores - z[:, 0])),
            1.0,
        )
        yield (
            f"Ridge, alpha={1 / C}",
            lambda C=C: snapml.Ridge(alpha=1 / C, n_threads=1),
            lambda C=C: theirs.Ridge(alpha=1 / C),
            scores,
            lambda z, C=C: C * np.sum((scores - z[:, 0]) ** 2) / 2,
            0.0,
        )


def objective(model, X, loss, bias):
    """Return the objective of a model; `bias` is the penalty of its intercept."""
    coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    penalty = 0.5 * (np.sum(coef**2) + bias * np.sum(intercept**2))
    return penalty + loss(np.asarray(X @ coef.T) + intercept)


def compare(makers, X, y):
    """Return the fastest fit of each maker, and the last models."""
    times, models = [[] for _ in makers], [None] * len(makers)
    while len(times[0]) < REPEATS and sum(map(sum, times)) < len(makers) * LONG_S:
        for way, make in enumerate(makers):
            began = time.perf_counter()
            models[way] = make().fit(X, y)
            times[way].append(time.perf_counter() - began)
    return [min(each) for each in times], models


def main():
    """Time all fits, and write the file."""
    warnings.simplefilter("ignore")
    out = Path(__file__).parent / "results" / "few_rows.csv"
    with out.open("w", newline="") as file:
        writer = csv.writer(file)
        names = ["snapml_s", "sklearn_s", "times_faster", "certified_gap", "sklearn_above", "how"]
        writer.writerow(["data", "fit", *names])
        for name, X, scores in made_rows():
            for fit, ours, theirs, y, loss, bias in fits(scores):
                (own_s, their_s), models = compare((ours, theirs), X, y)
                own, other = (objective(model, X, loss, bias) for model in models)
                gap = float(np.sum(models[0].gap_) / np.sum(models[0].objective_))
                row = [name, fit, f"{own_s:.4g}", f"{their_s:.4g}", f"{their_s / own_s:.2f}"]
                row += [f"{gap:.1e}", f"{other / own - 1.0:.1e}", models[0].solver_]
                writer.writerow(row)
                file.flush()
            print(name, flush=True)


if __name__ == "__main__":
    main()
