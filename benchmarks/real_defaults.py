"""Time default fits of every real set beside scikit-learn's default fits.

Every classification file of `DATA_DIRECTORY` as a user would load it: svmlight text as a sparse
matrix, arrays as they are, neither scaled nor weighted; default settings on both sides, all
threads. Fits are interleaved; the fastest of each counts. What scikit-learn's fit leaves is its
objective above ours, as a share; what ours leaves is certified.

``python -m benchmarks.real_defaults`` writes ``results/real_defaults.csv``.
"""

from __future__ import annotations

import argparse
import csv
import lzma
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.linear_model
import sklearn.svm
from scipy.special import logsumexp
from sklearn.datasets import load_svmlight_file

import snapml
from benchmarks.real_data import DATA_DIRECTORY

# Larger files, where scikit-learn takes minutes, are read where they are asked for by name.
_MOST_BYTES = 1_750_000
# Entries of the rows, for each model of one class against the rest, beyond which LIBLINEAR takes
# minutes for a set: SVMs are left out there.
_MOST_ENTRIES = 30_000_000
# Fits that take longer than this are not repeated.
_LONG_S = 3.0
_REPEATS = 5
_MOST_CLASSES, _MOST_L1_CLASSES = 30, 2
_L1 = {"l1_ratio": 1.0, "solver": "liblinear"}
# Name, class, parameters, loss, whether the intercept is penalised.
MODELS: dict[str, tuple[str, dict[str, Any], str, bool]] = {
    "LogisticRegression": ("LogisticRegression", {}, "log", False),
    "LogisticRegression, L1": ("LogisticRegression", _L1, "log", True),
    "LinearSVC": ("LinearSVC", {}, "squared", True),
    "LinearSVC, hinge": ("LinearSVC", {"loss": "hinge"}, "hinge", True),
}


def data_sets(wanted: list[str]) -> Iterator[tuple[str, Any, np.ndarray]]:
    """Yield name, rows and labels of the files, the smaller first.

    Parameters
    ----------
    wanted : list of str
        Beginnings of names; empty for all that are not large.

    Yields
    ------
    name : str
        Of the file.
    X : csr_matrix or ndarray
        The rows.
    y : ndarray
        The labels.
    """
    paths = [*DATA_DIRECTORY.glob("*.svm.xz"), *DATA_DIRECTORY.glob("*.npz")]
    for path in sorted(paths, key=lambda path: path.stat().st_size):
        name = path.name.removesuffix(".svm.xz").removesuffix(".npz")
        is_wanted = name.startswith(tuple(wanted)) if wanted else path.stat().st_size <= _MOST_BYTES
        if ".test" in name or not is_wanted:
            continue
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                if not {"X", "y"} <= set(arrays):
                    continue
                X, y = arrays["X"], arrays["y"]
        else:
            with lzma.open(path) as file:
                X, y = load_svmlight_file(file)
            # scikit-learn reads them as 64-bit numbers, which its own L1 fits refuse.
            X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        if len(np.unique(y)) <= _MOST_CLASSES:
            yield name, X, y


def objective(model: Any, X: Any, y: np.ndarray, loss: str, is_penalised: bool, l1: bool) -> float:
    """Return the objective of a model at C = 1, in float64.

    Parameters
    ----------
    model : estimator
        With coefficients.
    X, y
        What it was fitted on.
    loss : str
        ``"log"``, ``"squared"`` or ``"hinge"``.
    is_penalised : bool
        Whether the intercept is.
    l1 : bool
        Whether the penalty is the L1 norm.

    Returns
    -------
    float
        Summed over the outputs.
    """
    coef, intercept = np.asarray(model.coef_, float), np.ravel(model.intercept_).astype(float)
    margins = np.asarray(X @ coef.T + intercept)
    number = np.searchsorted(model.classes_, y)
    if loss == "log" and margins.shape[1] > 1:
        losses = logsumexp(margins, axis=1) - margins[np.arange(len(y)), number]
    else:
        classes = [1] if margins.shape[1] == 1 else np.arange(margins.shape[1])
        signs = np.where(number[:, None] == classes, 1.0, -1.0)
        products = signs * margins
        if loss == "log":
            losses = np.logaddexp(0.0, -products)
        else:
            losses = np.maximum(0.0, 1.0 - products) ** (2 if loss == "squared" else 1)
    weights = np.column_stack((coef, intercept)) if is_penalised else coef
    return float(losses.sum() + (np.abs(weights).sum() if l1 else 0.5 * (weights**2).sum()))


def fastest(fits: list[Any]) -> list[float]:
    """Return the least seconds of each of several fits, interleaved.

    Parameters
    ----------
    fits : list of callable
        Each fits one model.

    Returns
    -------
    list of float
        One for each.
    """
    seconds: list[list[float]] = [[] for _ in fits]
    for repeat in range(_REPEATS):
        for fit, own in zip(fits, seconds, strict=True):
            if repeat == 0 or own[0] < _LONG_S:
                begin = time.perf_counter()
                fit()
                own.append(time.perf_counter() - begin)
    return [min(own) for own in seconds]


def compare(name: str, X: Any, y: np.ndarray) -> Iterator[list[str]]:
    """Fit every model on a set; yield the table's rows.

    Parameters
    ----------
    name : str
        Of the set.
    X, y
        Rows and labels.

    Yields
    ------
    list of str
        As `main` names them.
    """
    n_classes = len(np.unique(y))
    for title, (bare, parameters, loss, is_penalised) in MODELS.items():
        l1 = "l1_ratio" in parameters
        is_long = n_classes > 2 and n_classes * X.size > _MOST_ENTRIES
        if (l1 and n_classes > _MOST_L1_CLASSES) or (bare == "LinearSVC" and is_long):
            continue
        module = sklearn.svm if bare == "LinearSVC" else sklearn.linear_model
        ours = getattr(snapml, bare)(**parameters)
        theirs = getattr(module, bare)(**parameters)
        ours_s, theirs_s = fastest([lambda m=m: m.fit(X, y) for m in (ours, theirs)])
        values = [objective(m, X, y, loss, is_penalised, l1) for m in (ours, theirs)]
        gap = float(np.sum(ours.gap_)) / max(abs(float(np.sum(ours.objective_))), 1e-300)
        yield [name, f"{X.shape[0]} x {X.shape[1]}", str(n_classes), title,
               f"{ours_s:.4g}", f"{theirs_s:.4g}", f"{theirs_s / ours_s:.2f}", f"{gap:.1e}",
               f"{values[1] / values[0] - 1.0:.1e}", str(ours.solver_)]  # fmt: skip


def main() -> None:
    """Fit all, and write the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("sets", nargs="*", help="beginnings of names; none: all, into the file")
    wanted = parser.parse_args().sets
    if not DATA_DIRECTORY.is_dir():
        raise SystemExit(f"skipped: there is no folder {DATA_DIRECTORY.name} of real sets")
    header = ["data", "shape", "classes", "estimator", "snapml_s", "sklearn_s", "times_faster",
              "certified_gap", "sklearn_above", "how"]  # fmt: skip
    warnings.simplefilter("ignore")
    path = Path(__file__).parent / "results" / "real_defaults.csv"
    with nullcontext(sys.stdout) if wanted else path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(header)
        for name, X, y in data_sets(wanted):
            for row in compare(name, X, y):
                table.writerow(row)
                file.flush()


if __name__ == "__main__":
    main()
