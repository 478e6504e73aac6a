"""Fits a store that all ranks share, and stores of their own."""

import json
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI  # noqa: TID253 - a job of MPI

import snapml
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.distributed import mpi


def written(path, X, y):
    with ChunkWriter(path, chunk_bytes=4000) as writer:
        writer.append(X, y)
    return ChunkedDataset.open(path, memory_limit=0)


def main():
    comm, folder = MPI.COMM_WORLD, Path(sys.argv[1])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 6))
    y = (X[:, 0] + rng.normal(size=700) > 0.0).astype(float)
    if comm.rank == 0:
        written(folder / "all", X, y)
    comm.Barrier()
    settings = {"C": 0.1, "tol": 1e-9}
    whole = snapml.LogisticRegression(**settings).fit(X, y)
    fits = {}
    model = mpi.LogisticRegression(comm=comm, **settings)
    fits["shared"] = model.fit(folder / "all").objective_
    store = ChunkedDataset.open(folder / "all")
    fits["targets beside"] = model.fit(store, y, np.ones(700)).objective_
    rows = slice(comm.rank, None, comm.size)
    fits["own"] = model.fit(written(folder / f"own {comm.rank}", X[rows], y[rows])).objective_
    errors = {}
    lasso = mpi.Lasso(alpha=0.05, comm=comm)
    targets = np.column_stack([y] * (1 + comm.rank))
    for name, estimator, rows, own in (
        ("few chunks", model, written(folder / f"{comm.rank}", X[:9], y[:9]), y),
        ("a store on one rank", lasso, written(folder / "a", X, y) if comm.rank == 1 else X, y),
        ("numbers of targets", lasso, X, targets),
        ("a Gram matrix", mpi.Lasso(precompute=np.eye(6), comm=comm), X, y),
    ):
        try:
            estimator.fit(rows, own)
        except (ValueError, NotImplementedError) as error:
            errors[name] = str(error)
    sparse = [mpi_lasso(comm, folder / "all"), mpi_lasso(comm, folder / "all", memory_limit=0)]
    found = comm.gather((fits, errors, sparse))
    if comm.rank == 0:
        alone = snapml.Lasso(alpha=0.05).fit(folder / "all")
        result = {"whole": whole.objective_, "lasso": described(alone), "ranks": found}
        print(json.dumps(result), flush=True)


def mpi_lasso(comm, store, **settings):
    return described(mpi.Lasso(alpha=0.05, comm=comm, **settings).fit(store))


def described(model):
    coef = np.asarray(model.coef_).tolist()
    return {"objective": model.objective_, "gap": model.gap_, "coef": coef, "reads": model.n_iter_}


if __name__ == "__main__":
    main()
