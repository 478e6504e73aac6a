"""Fits by coordinate ascent on the rows of all ranks, twice, and on rank 0 on all rows at once."""

import json
import warnings

import numpy as np
from mpi4py import MPI  # noqa: TID253 - a job of MPI
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning

import snapml
from snapml.distributed import mpi

CASES = {
    "logistic": ("LogisticRegression", {"C": 0.3}, False),
    "hinge": ("LinearSVC", {"C": 0.1, "loss": "hinge"}, True),
    "squared hinge": ("LinearSVC", {"C": 0.1}, False),
    "ridge": ("Ridge", {"alpha": 10.0}, True),
}


def data(name, is_sparse, dtype):
    """Return rows in no order, targets and weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 20)) / np.sqrt(20)
    if is_sparse:
        X *= rng.random(X.shape) < 0.3
    margins = X @ rng.normal(size=20) + 0.3 * rng.normal(size=1000)
    y = 3.0 * margins + 1.0 if name == "ridge" else np.sign(margins)
    X = X.astype(dtype)
    return (csr_matrix(X) if is_sparse else X), y, rng.random(1000)


def main():
    comm = MPI.COMM_WORLD
    warnings.simplefilter("error", ConvergenceWarning)
    for name, (estimator, parameters, is_sparse) in CASES.items():
        dtype = "float32" if is_sparse else "float64"
        X, y, weights = data(name, is_sparse, dtype)
        n_working = comm.size - (comm.size > 3)  # the last of four has no rows
        bounds = [len(y) * k // n_working for k in range(n_working + 1)] + [len(y)]
        rows = slice(bounds[comm.rank], bounds[comm.rank + 1])
        settings = {"solver": "sdca", "tol": 1e-3, "n_threads": 1, "max_iter": 500}
        settings |= parameters
        own = X[rows], y[rows], weights[rows]
        fits = [getattr(mpi, estimator)(comm=comm, **settings).fit(*own) for _ in range(2)]
        bits = comm.gather([(fit.coef_.tobytes(), fit.gap_) for fit in fits])
        if comm.rank == 0:
            whole = getattr(snapml, estimator)(**settings).fit(X, y, weights)
            report(name, is_sparse, bits, fits[0], whole)


def report(name, is_sparse, bits, model, whole):
    """Print whether all bits are the same, and how the model compares with that of all rows."""
    found = {
        "case": name,
        "is_sparse": is_sparse,
        "is_same": all(own == bits[0][0] for pair in bits for own in pair),
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
