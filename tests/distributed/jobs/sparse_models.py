"""Fits models with L1 penalties, positive coefficients or none on the rows of all ranks.

Beside them, on rank 0, the same on all rows at once.
"""

import json
import warnings

import numpy as np
from models import own_rows
from mpi4py import MPI  # noqa: TID253 - a job of MPI
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning

import snapml
from snapml.distributed import mpi
from snapml.solvers.least_squares import summed_starts
from snapml.solvers.newton import small_newton

# One rank solves few rows in one call, and sums few columns up: here by the method whose reads
# ranks are to match.
small_newton._MOST_ENTRIES = 0
summed_starts._MOST_COLUMNS = 0

L1 = {"l1_ratio": 1.0, "C": 0.5}
CASES = {
    "logistic": ("LogisticRegression", L1),
    "logistic elastic net": ("LogisticRegression", {"l1_ratio": 0.5, "C": 0.2}),
    "balanced": ("LogisticRegression", {**L1, "class_weight": "balanced"}),
    "multinomial": ("LogisticRegression", L1),
    "one against the rest": ("LogisticRegression", {**L1, "multi_class": "ovr"}),
    "squared hinge": ("LinearSVC", {"penalty": "l1", "C": 0.2}),
    "positive ridge": ("Ridge", {"positive": True, "alpha": 3.0}),
    "lasso": ("Lasso", {"alpha": 0.1}),
    "lasso without intercept": ("Lasso", {"alpha": 0.1, "fit_intercept": False}),
    "positive lasso": ("Lasso", {"alpha": 0.1, "positive": True}),
    "weighted": ("Lasso", {"alpha": 0.1}),
    "elastic net": ("ElasticNet", {"alpha": 0.2}),
    "ridge path": ("ElasticNet", {"alpha": 0.2, "l1_ratio": 0.0}),
    "two targets": ("ElasticNet", {"alpha": 0.2}),
    "least squares": ("LinearRegression", {}),
    "collinear": ("LinearRegression", {}),
    "positive least squares": ("LinearRegression", {"positive": True}),
}
REGRESSION = ("Ridge", "Lasso", "ElasticNet", "LinearRegression")


def data(name, is_sparse, dtype):
    """Return rows sorted by their labels, so that most ranks see one class, and weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 12)) * (rng.random((600, 12)) < (0.4 if is_sparse else 1.0)) + 0.5
    if name == "collinear":
        X = np.round(X * 1024) / 1024  # so that float32 holds the difference exactly
        X[:, 3] = X[:, 1] - X[:, 2]
    n_classes = 3 if name in ("multinomial", "one against the rest") else 2
    margins = X[:, :n_classes] + 0.5 * rng.normal(size=(600, n_classes))
    y = margins.argmax(axis=1)
    if CASES[name][0] in REGRESSION:
        y = np.column_stack([margins[:, 0] * 3.0 + 5.0, margins[:, 1]])
        y = y if name == "two targets" else y[:, 0]
    order = np.argsort(y if y.ndim == 1 else y[:, 0], kind="stable")
    X, y = X[order].astype(dtype), y[order]
    weights = rng.random(600) if name == "weighted" else None
    return (csr_matrix(X) if is_sparse else X), y, weights


def settings_of(name):
    estimator, parameters = CASES[name]
    if estimator == "LinearRegression":
        return {"n_threads": 1, **parameters}
    return {"tol": 1e-7, "n_threads": 1, "max_iter": 1000, **parameters}


def main():
    comm = MPI.COMM_WORLD
    warnings.simplefilter("error", ConvergenceWarning)
    for name, (estimator, _) in CASES.items():
        for is_sparse in (False, True):
            for dtype in ("float32", "float64"):
                if is_sparse and name == "positive least squares":
                    continue
                X, y, weights = data(name, is_sparse, dtype)
                rows = own_rows(comm, len(y))
                own = None if weights is None else weights[rows]
                settings = settings_of(name)
                model = getattr(mpi, estimator)(comm=comm, **settings).fit(X[rows], y[rows], own)
                bits = model.coef_.tobytes(), np.asarray(model.intercept_).tobytes(), model.gap_
                models = comm.gather(bits)
                if comm.rank == 0:
                    whole = getattr(snapml, estimator)(**settings).fit(X, y, weights)
                    report(name, is_sparse, dtype, models, model, whole)


def report(name, is_sparse, dtype, models, model, whole):
    """Print how the models of the ranks compare, and with that of all rows."""
    coef, other = np.asarray(model.coef_), np.asarray(whole.coef_)
    found = {
        "case": name,
        "is_sparse": is_sparse,
        "dtype": dtype,
        "is_same_on_all": all(own == models[0] for own in models),
        "objective": model.objective_,
        "gap": model.gap_,
        "whole_objective": whole.objective_,
        "whole_gap": whole.gap_,
        "n_iter": int(np.max(getattr(model, "n_iter_", 0))),
        "whole_n_iter": int(np.max(getattr(whole, "n_iter_", 0))),
        "distance": float(np.abs(coef - other).max()),
        "n_nonzero": int(np.count_nonzero(coef)),
        "whole_n_nonzero": int(np.count_nonzero(other)),
        "rank": getattr(model, "rank_", None),
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
