"""Default fits on problems that nobody chose, beside scikit-learn's.

A seed draws rows, targets and an estimator, so that no problem can be tuned to: dense rows
(independent, correlated, of low rank, with heavy tails, not scaled, repeated, pixels) and sparse
ones (categories, counts, tf-idf), 100 to 100,000 of them, 2 to 30,000 columns. All threads, the
best of up to three calls; scikit-learn, in a process of its own, is given five times our time, at
least 5 and at most 30 seconds.

    python -m benchmarks.made_up_defaults --seeds 0 120

writes ``results/made_up_defaults.csv``. A row says which library stopped where only by our
certified gap: `sklearn_s` is the time of scikit-learn's own stop, or ">" and the limit.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import linear_model, svm

import snapml

_MOST_ENTRIES = 4_000_000
_START_S = 10.0  # to start a process, and to send rows there
# Threads of BLAS look for work for a tenth of a second after the last product, on all cores: fits
# of a millisecond beside them took ten times as long.
_QUIET_S = 0.3
_DENSE = ("gauss", "ar", "low rank", "heavy", "raw", "binary", "pixels", "repeated")
_SPARSE = ("one-hot", "counts", "tf-idf")
# Names, and what makes them of each library from C or from alpha = 1 / C.
_Make = Callable[[Any, Any, float], Any]
_CLASSIFIERS: dict[str, _Make] = {
    "LogisticRegression": lambda linear, _, C: linear.LogisticRegression(C=C),
    "LogisticRegression, classes": lambda linear, _, C: linear.LogisticRegression(C=C),
    "LinearSVC": lambda _, machines, C: machines.LinearSVC(C=C),
    "LinearSVC, classes": lambda _, machines, C: machines.LinearSVC(C=C),
    "LinearSVC, hinge": lambda _, machines, C: machines.LinearSVC(C=C, loss="hinge"),
    "LogisticRegressionCV": lambda linear, _, C: linear.LogisticRegressionCV(),
    "RidgeClassifier": lambda linear, _, C: linear.RidgeClassifier(),
}
_REGRESSORS: dict[str, _Make] = {
    "Ridge": lambda linear, _, C: linear.Ridge(alpha=1.0 / C),
    "Lasso": lambda linear, _, C: linear.Lasso(alpha=0.01 / C**0.5),
    "ElasticNet": lambda linear, _, C: linear.ElasticNet(alpha=0.01 / C**0.5),
    "LassoCV": lambda linear, _, C: linear.LassoCV(),
    "ElasticNetCV": lambda linear, _, C: linear.ElasticNetCV(),
    "RidgeCV": lambda linear, _, C: linear.RidgeCV(),
    "LinearRegression": lambda linear, _, C: linear.LinearRegression(),
    "PoissonRegressor": lambda linear, _, C: linear.PoissonRegressor(alpha=0.01 / C),
    "GammaRegressor": lambda linear, _, C: linear.GammaRegressor(alpha=0.01 / C),
    "HuberRegressor": lambda linear, _, C: linear.HuberRegressor(),
    "LinearSVR": lambda _, machines, C: machines.LinearSVR(C=C),
}


def _make_ours(name: str, C: float) -> Any:
    return (_CLASSIFIERS | _REGRESSORS)[name](snapml, snapml, C)


def _make_theirs(name: str, C: float) -> Any:
    return (_CLASSIFIERS | _REGRESSORS)[name](linear_model, svm, C)


def _serve(pipe: Any) -> None:
    """Time fits of scikit-learn in a process of their own: LIBLINEAR cannot be interrupted."""
    warnings.simplefilter("ignore")
    while True:
        name, C, X, y = pipe.recv()
        try:
            pipe.send(fastest(lambda: _make_theirs(name, C), X, y)[0])  # noqa: B023
        except (ValueError, np.linalg.LinAlgError) as error:
            pipe.send(str(error))


class Peer:
    """The process that runs scikit-learn."""

    def __init__(self) -> None:
        self._process: Any = None

    def seconds(self, name: str, C: float, X: Any, y: np.ndarray, limit: float) -> Any:
        """Return the seconds of a fit, None where they are more than a limit, or what is wrong."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
        self._pipe.send((name, C, X, y))
        if self._pipe.poll(limit + _START_S):
            return self._pipe.recv()
        self._process.kill()
        self._process = None
        return None


def dense_rows(kind: str, rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    """Return rows of a dense kind."""
    X = rng.standard_normal((n, p))
    if kind == "ar":
        share = rng.uniform(0.3, 0.95)
        for j in range(1, p):
            X[:, j] = share * X[:, j - 1] + np.sqrt(1.0 - share**2) * X[:, j]
    elif kind == "low rank":
        rank = max(1, min(n, p) // 5)
        X = 0.1 * X + rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p)) / rank**0.5
    elif kind == "heavy":
        X = rng.standard_t(3, (n, p))
    elif kind == "raw":
        X = np.exp(X + 2.0 * rng.standard_normal(p)) + 5.0 * rng.standard_normal(p)
    elif kind == "binary":
        X = (rng.random((n, p)) < rng.beta(0.5, 2.0, p)).astype(float)
    elif kind == "pixels":
        rank = max(2, min(20, p))
        X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p)) - 0.5
        X = np.clip(X, 0.0, 3.0) * rng.choice([1.0, 80.0])
    elif kind == "repeated":
        X = X[: max(100, n // 10)][rng.integers(0, max(100, n // 10), n)]
    return X


def sparse_rows(kind: str, rng: np.random.Generator, n: int, p: int, stored: int) -> Any:
    """Return rows of a sparse kind, with about so many entries each."""
    if kind == "one-hot":
        levels = max(2, p // stored)
        places = rng.zipf(1.3, (n, stored)) % levels + levels * np.arange(stored)
        ends = np.arange(n + 1) * stored
        return sparse.csr_matrix((np.ones(n * stored), places.ravel(), ends), (n, stored * levels))
    lengths = np.maximum(1, rng.poisson(stored, n))
    often = 1.0 / np.arange(1, p + 1)
    words = rng.choice(p, lengths.sum(), p=often / often.sum())
    ends = np.r_[0, np.cumsum(lengths)]
    X = sparse.csr_matrix((np.ones(len(words)), words, ends), (n, p))
    X.sum_duplicates()
    if kind == "tf-idf":
        X = sparse.csr_matrix(X.multiply(np.log(n / (1.0 + X.getnnz(axis=0))) + 1.0))
        norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        X = sparse.csr_matrix(sparse.diags(1.0 / np.maximum(norms, 1e-12)) @ X)
    return X


def make_rows(rng: np.random.Generator) -> tuple[str, Any]:
    """Return a kind, and rows of it."""
    n, kind = int(10.0 ** rng.uniform(2.0, 5.0)), str(rng.choice(_DENSE + _SPARSE))
    if kind in _SPARSE:
        p = int(10.0 ** rng.uniform(1.3, 4.5))
        stored = int(min(p, rng.integers(3, 80)))
        X = sparse_rows(kind, rng, min(n, _MOST_ENTRIES // stored), p, stored)
    else:
        p = int(10.0 ** rng.uniform(0.3, 3.5))
        X = dense_rows(kind, rng, max(100, min(n, _MOST_ENTRIES // p)), p)
    return kind, X.astype(np.float32) if rng.random() < 0.15 else X


def scores(rng: np.random.Generator, X: Any) -> np.ndarray:
    """Return standardised margins of some columns."""
    w = rng.standard_normal(X.shape[1]) * (rng.random(X.shape[1]) < rng.choice([0.05, 0.3, 1.0]))
    w[rng.integers(len(w))] = 1.0
    z = np.asarray(X @ w, dtype=np.float64).ravel()
    return (z - z.mean()) / (z.std() + 1e-12)


def targets(name: str, rng: np.random.Generator, X: Any) -> np.ndarray:
    """Return what an estimator is to predict."""
    n, strength = X.shape[0], float(rng.choice([0.5, 2.0, 10.0]))
    if name.endswith("classes"):
        k = int(rng.choice([3, 3, 5, 10]))
        each = np.column_stack([scores(rng, X) for _ in range(k)])
        return (strength * each + rng.gumbel(size=(n, k))).argmax(axis=1)
    z = scores(rng, X)
    if name in _CLASSIFIERS:
        noisy = strength * z + rng.logistic(size=n)
        y = (noisy > np.quantile(noisy, 1.0 - rng.choice([0.5, 0.5, 0.1, 0.02]))).astype(int)
        y[rng.integers(0, n, 10)] = 1
        return y
    if name == "PoissonRegressor":
        return rng.poisson(np.exp(0.7 * z.clip(-3.0, 3.0) + rng.choice([-1.0, 0.0, 2.0]))) * 1.0
    if name == "GammaRegressor":
        return np.exp(0.7 * z.clip(-3.0, 3.0)) * rng.gamma(2.0, size=n) + 1e-6
    heavy = name in ("HuberRegressor", "LinearSVR")
    noise = rng.standard_t(2, n) if heavy else rng.standard_normal(n)
    return strength * z + noise + rng.choice([0.0, 100.0])


def fastest(make: Callable[[], Any], X: Any, y: np.ndarray) -> tuple[float, Any]:
    """Return the seconds of the best of three calls, one where that is long, and its model."""
    best, model, began = np.inf, None, time.perf_counter()
    for number in range(3):
        if number and time.perf_counter() - began > 1.0:
            break
        at = time.perf_counter()
        fitted = make().fit(X, y)
        if time.perf_counter() - at < best:
            best, model = time.perf_counter() - at, fitted
    return best, model


def compare(seed: int, peer: Peer) -> list[Any]:
    """Return the row of a seed."""
    rng = np.random.default_rng(seed)
    kind, X = make_rows(rng)
    makers = _CLASSIFIERS if rng.random() < 0.5 else _REGRESSORS
    name = str(rng.choice(list(makers)))
    y, C = targets(name, rng, X), float(rng.choice([1.0, 1.0, 1.0, 0.01, 100.0]))
    time.sleep(_QUIET_S)
    ours, model = fastest(lambda: _make_ours(name, C), X, y)
    time.sleep(_QUIET_S)
    limit = min(30.0, max(5.0, 5.0 * ours))
    theirs = peer.seconds(name, C, X, y, limit)
    gap = np.max(model.gap_) / max(np.max(model.objective_), 1e-300)
    is_timed = isinstance(theirs, float)
    return [
        seed,
        name,
        f"C={C:g}",
        kind,
        f"{X.shape[0]} x {X.shape[1]}",
        f"{X.nnz / X.shape[0]:.0f}" if sparse.issparse(X) else X.shape[1],
        X.dtype,
        f"{ours:.4g}",
        f"{theirs:.4g}" if is_timed else theirs or f">{limit:.3g}",
        f"{(theirs if is_timed else limit) / ours:.2f}",
        f"{gap:.1e}",
        getattr(model, "solver_", ""),
    ]


def main() -> None:
    """Write a row for each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 120))
    results = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=results / "made_up_defaults.csv")
    wanted = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = ["seed", "estimator", "strength", "rows", "shape", "stored_a_row", "dtype"]
    columns += ["snapml_s", "sklearn_s", "times_faster", "certified_gap", "how"]
    peer = Peer()
    with wanted.out.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(columns)
        for seed in range(*wanted.seeds):
            row = compare(seed, peer)
            table.writerow(row)
            file.flush()
            print(*row[:-1], flush=True)


if __name__ == "__main__":
    main()
