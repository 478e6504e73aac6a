"""Fits models on the rows of all ranks, and beside them, on rank 0, on all rows at once."""

import json
import warnings

import numpy as np
from mpi4py import MPI  # noqa: TID253 - a job of MPI
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning

import snapml
from snapml.distributed import mpi
from snapml.solvers.newton import small_newton

# One rank solves few rows in one call: here by the method whose reads ranks are to match.
small_newton._MOST_ENTRIES = 0

CASES = {
    "logistic": ("LogisticRegression", {}),
    "balanced": ("LogisticRegression", {"class_weight": "balanced", "C": 0.1}),
    "coordinate ascent": ("LogisticRegression", {"solver": "sdca", "C": 0.01}),
    "unpenalised": ("LogisticRegression", {"C": np.inf}),
    "multinomial": ("LogisticRegression", {}),
    "one against the rest": ("LogisticRegression", {"multi_class": "ovr"}),
    "squared hinge": ("LinearSVC", {}),
    "hinge": ("LinearSVC", {"loss": "hinge", "C": 0.01}),
    "ridge": ("Ridge", {}),
    "least squares": ("Ridge", {"alpha": 0.0}),
    "weighted": ("LogisticRegression", {}),
    "quantile": ("QuantileRegressor", {"quantile": 0.3, "alpha": 0.01}),
    "tube": ("LinearSVR", {"epsilon": 0.1, "C": 0.1}),
    "huber": ("HuberRegressor", {"alpha": 0.01}),
    "counts": ("PoissonRegressor", {"alpha": 0.01}),
    "amounts": ("GammaRegressor", {"alpha": 0.01}),
    "amounts and zeros": ("TweedieRegressor", {"power": 1.5, "alpha": 0.01}),
    "theta": ("NegativeBinomialRegressor", {"alpha": 0.01}),
    "labels of a family": ("GeneralizedLinearRegressor", {"family": "binomial", "alpha": 0.01}),
    "another link": (
        "GeneralizedLinearRegressor",
        {"family": "binomial", "link": "cloglog", "alpha": 0.01},
    ),
    "offset": ("LogisticRegression", {}),
    "offset, coordinate ascent": ("LogisticRegression", {"solver": "sdca", "C": 0.01}),
    "offset, L1": ("LogisticRegression", {"l1_ratio": 1.0, "C": 0.3}),
    "offset, ridge": ("Ridge", {}),
    "offset, multinomial": ("LogisticRegression", {}),
    "offset, counts": ("PoissonRegressor", {"alpha": 0.01}),
}


def data(name, is_sparse, dtype):
    """Return rows sorted by their labels, so that most ranks see one class, and weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 8)) * (rng.random((600, 8)) < (0.4 if is_sparse else 1.0))
    has_three = name in ("multinomial", "one against the rest", "offset, multinomial")
    n_classes = 3 if has_three else 2
    margins = X[:, :n_classes] + 0.5 * rng.normal(size=(600, n_classes))
    y = (
        margins[:, 0] * 3.0 + 1.0
        if name in ("ridge", "least squares", "quantile", "tube", "huber")
        else margins.argmax(axis=1)
    )
    if name == "theta":
        y = rng.negative_binomial(2, 1.0 / (1.0 + np.exp(0.5 * margins[:, 0]) / 2.0))
    if name in ("counts", "offset, counts", "amounts", "amounts and zeros"):
        y = rng.poisson(np.exp(0.5 * margins[:, 0])) + float(name == "amounts")
    order = np.argsort(y, kind="stable")
    X, y = X[order].astype(dtype), y[order]
    weights = rng.random(600) if name == "weighted" else None
    return (csr_matrix(X) if is_sparse else X), y, weights


def own_rows(comm, n_rows):
    """Return this rank's rows: uneven parts, and none for the last of three ranks or more."""
    n_working = comm.size - (comm.size > 2)
    bounds = [n_rows * k * (k + 1) // (n_working * (n_working + 1)) for k in range(n_working + 1)]
    bounds += [n_rows] * (comm.size - n_working)
    return slice(bounds[comm.rank], bounds[comm.rank + 1])


def main():
    comm = MPI.COMM_WORLD
    warnings.simplefilter("error", ConvergenceWarning)
    for name, (estimator, parameters) in CASES.items():
        for is_sparse in (False, True):
            for dtype in ("float32", "float64"):
                X, y, weights = data(name, is_sparse, dtype)
                rows = own_rows(comm, len(y))
                own = None if weights is None or comm.rank == 1 else weights[rows]
                if weights is not None and comm.size > 1:
                    weights[_rows_of_rank_1(comm, len(y))] = 1.0
                offsets = offsets_of(name, comm, len(y))
                given = {} if comm.rank == 1 else moved_by(name, offsets, rows)
                settings = {"tol": 1e-6, "n_threads": 1, "max_iter": 1000, **parameters}
                model = getattr(mpi, estimator)(comm=comm, **settings)
                model.fit(X[rows], y[rows], own, **given)
                models = comm.gather((model.coef_.tobytes(), model.intercept_, model.gap_))
                if comm.rank == 0:
                    whole = getattr(snapml, estimator)(**settings)
                    whole.fit(X, y, weights, **moved_by(name, offsets))
                    report(name, is_sparse, dtype, models, model, whole)


def offsets_of(name, comm, n_rows):
    """Return offsets far from zero; rank 1 brings none, which are zeros beside the others'."""
    if not name.startswith("offset"):
        return None
    shape = (n_rows, 3) if name == "offset, multinomial" else n_rows
    offsets = np.random.default_rng(1).normal(100.0 if comm.size == 1 else 1.0, 2.0, size=shape)
    if comm.size > 1:
        offsets[_rows_of_rank_1(comm, n_rows)] = 0.0
    return offsets


def moved_by(name, offsets, rows=slice(None)):
    """Return what fit takes for offsets, as exposures where the model has those."""
    if offsets is None:
        return {}
    own = offsets[rows]
    return {"exposure": np.exp(own)} if name == "offset, counts" else {"offset": own}


def _rows_of_rank_1(comm, n_rows):
    class Other:
        rank, size = 1, comm.size

    return own_rows(Other, n_rows)


def report(name, is_sparse, dtype, models, model, whole):
    """Print how the models of the ranks compare, and with that of all rows."""
    found = {
        "case": name,
        "is_sparse": is_sparse,
        "dtype": dtype,
        "is_same_on_all": all(
            coef == models[0][0] and np.array_equal(intercept, models[0][1]) and gap == models[0][2]
            for coef, intercept, gap in models
        ),
        "objective": model.objective_,
        "gap": model.gap_,
        "whole_objective": whole.objective_,
        "whole_gap": whole.gap_,
        "n_iter": int(np.max(model.n_iter_)),
        "whole_n_iter": int(np.max(whole.n_iter_)),
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
