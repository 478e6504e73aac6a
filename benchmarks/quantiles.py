"""Time quantile regression beside scikit-learn's linear program and statsmodels' QuantReg.

One thread for every library, one after the other on the same data. scikit-learn is asked once, the
others `REPEATS` times, of which the least counts. ``python -m benchmarks.quantiles`` writes
``results/quantiles.csv``.
"""

import csv
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import QuantileRegressor as Peer
from statsmodels.regression.quantile_regression import QuantReg

from snapml import QuantileRegressor

REPEATS = 5
CASES = [(0.5, 0.0), (0.9, 0.0), (0.01, 0.0), (0.5, 1e-3)]
SHAPES = [(2_000, 20), (20_000, 20), (200_000, 20)]
MOST_ROWS = {"scikit-learn": 20_000}


def make(n_rows, n_columns):
    """Return rows, and targets with errors of heavy tails."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_columns))
    return X, X @ rng.standard_normal(n_columns) + rng.standard_t(3, n_rows)


def fit(library, X, y, quantile, alpha):
    """Return coefficients, intercept and certified gap."""
    if library == "snapml":
        model = QuantileRegressor(quantile=quantile, alpha=alpha, n_threads=1).fit(X, y)
        return model.coef_, model.intercept_, model.gap_
    if library == "scikit-learn":
        model = Peer(quantile=quantile, alpha=alpha).fit(X, y)
        return model.coef_, model.intercept_, np.nan
    found = QuantReg(y, np.column_stack([X, np.ones(len(X))])).fit(q=quantile).params
    return found[:-1], found[-1], np.nan


def timed(library, X, y, quantile, alpha):
    """Return seconds, objective and gap of the best of a few fits."""
    best = np.inf
    for _ in range(1 if library == "scikit-learn" else REPEATS):
        start = time.perf_counter()
        coef, intercept, gap = fit(library, X, y, quantile, alpha)
        best = min(best, time.perf_counter() - start)
    r = y - X @ coef - intercept
    value = np.maximum(quantile * r, (quantile - 1) * r).mean() + alpha * np.abs(coef).sum()
    return best, value, gap


def main():
    """Write the table."""
    path = Path(__file__).with_name("results") / "quantiles.csv"
    with path.open("w", newline="") as lines:
        out = csv.writer(lines, lineterminator="\n")
        out.writerow(
            ["n_rows", "n_columns", "quantile", "alpha", "library", "seconds", "objective", "gap"]
        )
        for n_rows, n_columns in SHAPES:
            X, y = make(n_rows, n_columns)
            for quantile, alpha in CASES:
                for library in ("snapml", "statsmodels", "scikit-learn"):
                    if library == "statsmodels" and alpha > 0.0:
                        continue  # has no penalty for this class
                    if n_rows > MOST_ROWS.get(library, n_rows):
                        continue
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        seconds, value, gap = timed(library, X, y, quantile, alpha)
                    row = [n_rows, n_columns, quantile, alpha, library]
                    out.writerow([*row, f"{seconds:.4g}", repr(float(value)), f"{gap:.2g}"])
                    lines.flush()


if __name__ == "__main__":
    main()
