"""Time default fits of every real table beside scikit-learn's default fits.

Every CSV file of `DATA_DIRECTORY` as a user would prepare it: numbers as they are or standardised,
text as one column a level (the most frequent ones), missing numbers as the median; rows shuffled
and cut to a number that scikit-learn's fits bear. Default settings on both sides; fits are
interleaved, the fastest of each counts. What scikit-learn's fit leaves is its objective above ours,
as a share; what ours leaves is certified. Pin it to one core to compare work instead of threads.

``python -m benchmarks.real_tables`` writes ``results/real_tables.csv``.
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn.linear_model
import sklearn.svm
from sklearn.preprocessing import StandardScaler

import snapml
from benchmarks.real_data import DATA_DIRECTORY
from benchmarks.real_defaults import MODELS, fastest, objective

# Target of each table, and columns that tell it or name the row; a target of few whole numbers or
# of text is a class.
TARGETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "abalone": ("Rings", ()),
    "adult_raw": ("income", ()),
    "airlines_44k": ("IsDepDelayed", ("ArrDelay", "DepDelay", "IsArrDelayed", "TailNum")),
    "ames_housing": ("SalePrice", ("Order", "PID")),
    "ausprivauto0405": ("ClaimNb", ("ClaimOcc", "ClaimAmount")),
    "bank_marketing": ("deposit", ()),
    "bike_hour": ("cnt", ("instant", "dteday", "casual", "registered")),
    "california_housing": ("median_house_value", ()),
    "cpu_act": ("target", ()),
    "credit_default_24k": ("default", ()),
    "criteo_8k.train": ("label", ()),
    "diamonds": ("price", ()),
    "glass": ("Type", ()),
    "hflights": ("ArrDelay", ("DepDelay", "TailNum")),
    "house_16H": ("target", ()),
    "ionosphere": ("Class", ()),
    "kin8nm": ("y", ()),
    "letter": ("lettr", ()),
    "magic04": ("class", ()),
    "msd_6724": ("year", ()),
    "ohlsson_mc": ("antskad", ("skadkost",)),
    "pimaindiansdiabetes": ("diabetes", ()),
    "pol": ("target", ()),
    "satimage": ("classes", ()),
    "shuttle": ("Class", ()),
    "sonar": ("Class", ()),
    "spambase": ("type", ()),
    "vehicle": ("Class", ()),
    "vowel": ("Class", ()),
    "wine_quality_red": ("quality", ()),
    "wine_quality_white": ("quality", ()),
    "zoo": ("type", ()),
}
_CLASSES = {"credit_default_24k", "criteo_8k.train", "glass", "satimage", "shuttle"}
_COUNTS = {"abalone", "ausprivauto0405", "bike_hour", "ohlsson_mc"}
_MOST_ROWS, _MOST_LEVELS = 10_000, 40


def _mean_squares(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return 0.5 * float(np.mean((y - model.predict(X)) ** 2))


def _squares_and(l1: float, l2: float) -> Callable[[Any, np.ndarray, np.ndarray], float]:
    def value(model: Any, X: np.ndarray, y: np.ndarray) -> float:
        w = np.ravel(model.coef_)
        return _mean_squares(model, X, y) + l1 * float(abs(w).sum()) + 0.5 * l2 * float(w @ w)

    return value


def _ridge(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return _squares_and(0.0, 1.0 / len(y))(model, X, y)


def _tube(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    w = np.append(np.ravel(model.coef_), model.intercept_)
    return 0.5 * float(w @ w) + float(abs(y - model.predict(X)).sum())


def _huber(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    w, scale = np.ravel(model.coef_), float(model.scale_)
    size = abs(y - model.predict(X)) / scale
    losses = np.where(size < 1.35, size**2, 2 * 1.35 * size - 1.35**2)
    return float(scale * (len(y) + losses.sum()) + 1e-4 * (w @ w))


def _poisson(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    margins, w = X @ np.ravel(model.coef_) + model.intercept_, np.ravel(model.coef_)
    known = y * np.log(np.where(y > 0, y, 1.0)) - y
    return float(np.mean(np.exp(margins) - y * margins + known) + 0.5 * (w @ w))


# Title: class, parameters, objective.
REGRESSORS: dict[str, tuple[str, dict[str, Any], Callable[[Any, Any, Any], float]]] = {
    "Ridge": ("Ridge", {}, _ridge),
    "LinearRegression": ("LinearRegression", {}, _mean_squares),
    "Lasso": ("Lasso", {}, _squares_and(1.0, 0.0)),
    "Lasso, alpha=0.01": ("Lasso", {"alpha": 0.01}, _squares_and(0.01, 0.0)),
    "ElasticNet": ("ElasticNet", {}, _squares_and(0.5, 0.5)),
    "LinearSVR": ("LinearSVR", {}, _tube),
    "HuberRegressor": ("HuberRegressor", {}, _huber),
    "PoissonRegressor": ("PoissonRegressor", {}, _poisson),
}


def tables(wanted: list[str]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, rows and targets of the tables, as they are and standardised.

    Parameters
    ----------
    wanted : list of str
        Beginnings of names; empty for all.

    Yields
    ------
    name : str
        Of the table and of its preparation.
    X : ndarray of shape (n_rows, n_columns), float64
        Rows.
    y : ndarray of shape (n_rows,)
        Numbers, or texts that name classes.
    """
    for name, (target, left_out) in TARGETS.items():
        paths = list(DATA_DIRECTORY.glob(f"{name}.[ct]sv.*"))
        if not paths or not name.startswith(tuple(wanted) or ""):
            continue
        frame = pd.read_csv(paths[0], sep="\t" if ".tsv" in paths[0].name else ",")
        frame = frame.dropna(subset=[target]).sample(frac=1.0, random_state=0)[:_MOST_ROWS]
        columns = frame.drop(columns=[target, *(c for c in left_out if c in frame)])
        X = _numbers(columns)
        y = frame[target].to_numpy()
        is_class = name in _CLASSES or not pd.api.types.is_numeric_dtype(frame[target])
        y = y.astype(str) if is_class else y.astype(np.float64)
        yield f"{name}, as it is", X, y
        yield f"{name}, standardised", StandardScaler().fit_transform(X), y


def _numbers(columns: pd.DataFrame) -> np.ndarray:
    is_number = [pd.api.types.is_numeric_dtype(dtype) for dtype in columns.dtypes]
    numbers = columns.loc[:, is_number].astype(np.float64)
    numbers = numbers.loc[:, numbers.notna().any()]
    numbers = numbers.fillna(numbers.median())
    texts = columns.loc[:, [not each for each in is_number]].astype(str)
    parts = [numbers]
    for column in texts:
        levels = texts[column].value_counts().index[:_MOST_LEVELS]
        parts.append(
            pd.DataFrame({f"{column}={v}": (texts[column] == v).astype(float) for v in levels})
        )
    return np.ascontiguousarray(pd.concat(parts, axis=1).to_numpy())


def compare(name: str, X: np.ndarray, y: np.ndarray) -> Iterator[list[str]]:
    """Fit what suits the targets; yield the results' rows.

    Parameters
    ----------
    name : str
        Of the table.
    X, y
        Rows and targets.

    Yields
    ------
    list of str
        As `main` names them.
    """
    is_class = y.dtype.kind == "U"
    kinds = MODELS if is_class else REGRESSORS
    for title, kind in kinds.items():
        bare, parameters = kind[:2]
        if "l1_ratio" in parameters and len(np.unique(y)) > 2:
            continue  # LIBLINEAR's L1 fits take two classes
        if bare == "PoissonRegressor" and name.split(",")[0] not in _COUNTS:
            continue
        module = sklearn.svm if bare.startswith("LinearSV") else sklearn.linear_model
        ours, theirs = (getattr(each, bare)(**parameters) for each in (snapml, module))
        seconds = fastest([lambda m=m: m.fit(X, y) for m in (ours, theirs)])
        if is_class:
            loss, is_penalised = kind[2:]
            l1 = "l1_ratio" in parameters
            values = [objective(m, X, y, loss, is_penalised, l1) for m in (ours, theirs)]
        else:
            values = [kind[2](m, X, y) for m in (ours, theirs)]
        gap = float(np.sum(ours.gap_)) / max(abs(float(np.sum(ours.objective_))), 1e-300)
        yield [name, f"{X.shape[0]} x {X.shape[1]}", title, f"{seconds[0]:.4g}",
               f"{seconds[1]:.4g}", f"{seconds[1] / seconds[0]:.2f}", f"{gap:.1e}",
               f"{values[1] / values[0] - 1.0:.1e}", str(ours.solver_)]  # fmt: skip


def main() -> None:
    """Fit all, and write the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("tables", nargs="*", help="beginnings of names; none: all, into the file")
    wanted = parser.parse_args().tables
    if not DATA_DIRECTORY.is_dir():
        raise SystemExit(f"skipped: there is no folder {DATA_DIRECTORY.name} of real sets")
    header = ["data", "shape", "estimator", "snapml_s", "sklearn_s", "times_faster",
              "certified_gap", "sklearn_above", "how"]  # fmt: skip
    warnings.simplefilter("ignore")
    path = Path(__file__).parent / "results" / "real_tables.csv"
    with nullcontext(sys.stdout) if wanted else path.open("w", newline="") as file:
        results = csv.writer(file, lineterminator="\n")
        results.writerow(header)
        for name, X, y in tables(wanted):
            for row in compare(name, X, y):
                results.writerow(row)
                file.flush()


if __name__ == "__main__":
    main()
