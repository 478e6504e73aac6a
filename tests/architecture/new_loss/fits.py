"""Fits with the loss LogCosh in a copy of the tree; prints what each has found.

Usage: fits.py TREE [ranks], where TREE holds the folder snapml, built, and tests/reference.
"""

import json
import sys
import tempfile
from pathlib import Path

TREE = Path(sys.argv[1])
# Not the package that an editable installation would find.
sys.meta_path[:] = [each for each in sys.meta_path if "Scikit" not in type(each).__name__]
sys.path[:0] = [str(TREE), str(TREE / "tests")]

import numpy as np  # noqa: E402
from reference.losses import ORACLES  # noqa: E402
from scipy.optimize import minimize  # noqa: E402
from scipy.sparse import csr_matrix  # noqa: E402

import snapml  # noqa: E402
from snapml.data import (  # noqa: E402
    ChunkedDataset,
    ChunkedMatrix,
    ChunkWriter,
    CompressedMatrix,
    Dataset,
    DenseMatrix,
)
from snapml.problems import Intercept, LogCosh, Penalty, Problem  # noqa: E402
from snapml.solvers.communicator import SerialCommunicator  # noqa: E402
from snapml.solvers.fit_settings import Settings  # noqa: E402
from snapml.solvers.plan import choice  # noqa: E402
from snapml.solvers.stopping import StoppingRule  # noqa: E402

RIDGE, LASSO = Penalty(0.0, 2.0), Penalty(20.0, 0.5)


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 12)) * (rng.random((400, 12)) < 0.5)
    return X, X @ rng.normal(size=12) + rng.standard_t(2, size=400) + 1.0


def compressed(X):
    rows = csr_matrix(X)
    return CompressedMatrix(rows.indptr, rows.indices, 12, rows.data)


def minimum(penalty, X, y):
    """Return the least objective, with each coefficient the difference of two that are positive."""
    oracle, n_cols = ORACLES["LogCosh"], X.shape[1]

    def value(parts):
        w, b = parts[:n_cols] - parts[n_cols:-1], parts[-1]
        slopes, z = oracle.gradient(X @ w + b, y), X @ w + b
        gradient = X.T @ slopes + penalty.l2 * w
        total = oracle.value(z, y).sum() + penalty.l1 * parts[:-1].sum() + penalty.l2 * w @ w / 2
        return total, np.r_[gradient + penalty.l1, penalty.l1 - gradient, slopes.sum()]

    bounds = [(0.0, None)] * (2 * n_cols) + [(None, None)]
    settings = {"maxiter": 10_000, "maxfun": 10**6, "ftol": 1e-15, "gtol": 1e-10}
    start = np.zeros(2 * n_cols + 1)
    return minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=settings).fun


def fit(name, penalty, matrix, y, communicator):
    problem = Problem(LogCosh(), Intercept.FREE, penalty=penalty)
    rule, settings = StoppingRule(1e-9, 1000), Settings(n_threads=1)
    result = choice.fit(problem, Dataset(matrix, y, None, 1.0), communicator, rule, settings)
    X, all_y = data()
    if communicator.rank == 0:
        found = {"case": name, "objective": result.objective, "gap": result.gap}
        found |= {"minimum": minimum(penalty, X, all_y), "has_converged": result.has_converged}
        print(json.dumps(found), flush=True)


def main():
    assert Path(snapml.__file__).is_relative_to(TREE), snapml.__file__
    X, y = data()
    if len(sys.argv) > 2:
        from mpi4py import MPI

        from snapml.distributed.mpi.communicator import MpiCommunicator

        communicator = MpiCommunicator(MPI.COMM_WORLD)
        own = slice(None, 150) if communicator.rank == 0 else slice(150, None)
        for name, penalty in (("ranks", RIDGE), ("ranks, L1", LASSO)):
            fit(name, penalty, DenseMatrix(X[own].copy()), y[own].copy(), communicator)
        return
    alone = SerialCommunicator()
    for name, penalty in (("", RIDGE), (", L1", LASSO)):
        fit(f"dense{name}", penalty, DenseMatrix(X), y, alone)
        fit(f"sparse{name}", penalty, compressed(X), y, alone)
        with tempfile.TemporaryDirectory() as folder:
            with ChunkWriter(Path(folder, "store"), chunk_bytes=4000) as writer:
                writer.append(X)
            store = ChunkedMatrix(ChunkedDataset.open(Path(folder, "store")), 0)
            fit(f"store{name}", penalty, store, y, alone)


if __name__ == "__main__":
    main()
