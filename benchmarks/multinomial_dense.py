"""Time the multinomial loss on dense rows of many coefficients beside scikit-learn's defaults.

Made-up rows (independent columns, sensors whose columns are correlated, images as they come) and
handwritten digits, C from 0.01 to 100, one default fit of each, by turns; where both take less than
a second, the faster of two. ``plain_s`` is this library's fit scaled by the Hessian's diagonal
alone. What scikit-learn's fit leaves is its objective above ours, as a share; what ours leaves is
certified. ``python -m benchmarks.multinomial_dense`` writes ``results/multinomial_dense.csv``.
"""

import csv
import time
import warnings
from pathlib import Path

import numpy as np
import sklearn.linear_model
from sklearn.datasets import load_digits

import snapml
from benchmarks.objective import multinomial_objective
from benchmarks.real_defaults import data_sets
from snapml.solvers.newton.preconditioners import KroneckerCurvature

INDEPENDENT = [(2000, 200, 10), (10_000, 200, 10)]
SENSORS = [(3000, 400, 6, 0.5), (6000, 600, 26, 0.5), (6000, 300, 10, 0.2)]
IMAGES = [(3000, 20, 10, 0.15), (6000, 28, 10, 0.15), (6000, 16, 10, 0.3), (1500, 20, 10, 1.0)]


def sensors(n, p, n_classes, apart):
    """Return columns that few things move, with unit variance, and classes."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((p, p)))[0] / np.arange(1, p + 1) ** 0.7
    centres = 1.5 * apart * rng.standard_normal((n_classes, p))
    y = rng.integers(0, n_classes, n)
    X = (rng.standard_normal((n, p)) + centres[y] * (rng.random(p) < 0.2)) @ basis.T
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def images(n, size, n_classes, apart):
    """Return grey values from 0 to 255, dark near the borders, and classes."""
    rng = np.random.default_rng(0)
    steps = np.arange(size)
    blur = np.exp(-0.5 * ((steps[:, None] - steps) / 1.5) ** 2)
    y = rng.integers(0, n_classes, n)
    drawn = 0.8 * apart * rng.standard_normal((n_classes, size, size))[y]
    drawn = blur @ (drawn + rng.standard_normal((n, size, size))) @ blur.T
    middle = np.exp(-0.5 * ((steps - size / 2) / (size / 4)) ** 2)
    grey = 255 * (drawn / drawn.std() * np.sqrt(np.outer(middle, middle)) - 0.3)
    return np.clip(np.round(grey), 0, 255).reshape(n, -1), y


def problems():
    """Yield a name, rows and labels."""
    for n, p, n_classes in INDEPENDENT:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, p))
        scores = X @ rng.standard_normal((p, n_classes)) * 2.0 / np.sqrt(p)
        yield f"independent {n} x {p}", X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    for n, p, n_classes, apart in SENSORS:
        yield f"sensors {n} x {p}", *sensors(n, p, n_classes, apart)
    for n, size, n_classes, apart in IMAGES:
        yield f"images {n} x {size * size}", *images(n, size, n_classes, apart)
    yield "digits", *load_digits(return_X_y=True)
    yield from data_sets(["mnist_t10k"])


def timed(make, X, y):
    """Return how long a fit takes, and the model."""
    began = time.perf_counter()
    model = make().fit(X, y)
    return time.perf_counter() - began, model


def without_factors(make, X, y):
    """Return the same where conjugate gradients are scaled by the diagonal alone."""
    usual = KroneckerCurvature.suits
    KroneckerCurvature.suits = staticmethod(lambda _: False)
    try:
        return timed(make, X, y)
    finally:
        KroneckerCurvature.suits = usual


def compare(X, y, C):
    """Return the times of the three fits, and the first and the last model."""

    def ours():
        return snapml.LogisticRegression(C=C)

    def theirs():
        return sklearn.linear_model.LogisticRegression(C=C)

    best = [np.inf] * 3
    for _ in range(2):
        fits = [timed(ours, X, y), without_factors(ours, X, y), timed(theirs, X, y)]
        best = [min(old, seconds) for old, (seconds, _) in zip(best, fits, strict=True)]
        if max(best) > 1.0:
            break
    return best, *(model for _, model in fits)


def main():
    """Time all fits, and write the file."""
    warnings.simplefilter("ignore")
    out = Path(__file__).parent / "results" / "multinomial_dense.csv"
    with out.open("w", newline="") as file:
        writer = csv.writer(file)
        names = ["snapml_s", "plain_s", "sklearn_s", "times_faster", "certified_gap", "plain_gap"]
        writer.writerow(["data", "classes", "C", *names, "sklearn_above", "how"])
        for name, X, y in problems():
            for C in (0.01, 1.0, 100.0):
                taken, model, plain, other = compare(X, y, C)
                gaps = [f"{each.gap_ / each.objective_:.1e}" for each in (model, plain)]
                above = (
                    multinomial_objective(other, X, y, C) / multinomial_objective(model, X, y, C)
                    - 1.0
                )
                row = [name, len(model.classes_), C, *(f"{each:.4g}" for each in taken)]
                row += [f"{taken[2] / taken[0]:.2f}", *gaps, f"{above:.1e}", model.solver_]
                writer.writerow(row)
                print(*row, flush=True)


if __name__ == "__main__":
    main()
