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
    for name, estimator, path in (
        ("few chunks", model, written(folder / f"{comm.rank}", X[:9], y[:9])),
        ("L1", mpi.LogisticRegression(l1_ratio=1.0, comm=comm), folder / "all"),
    ):
        try:
            estimator.fit(path, y)
        except (ValueError, NotImplementedError) as error:
            errors[name] = str(error)
    found = comm.gather((fits, errors))
    if comm.rank == 0:
        print(json.dumps({"whole": whole.objective_, "ranks": found}), flush=True)


if __name__ == "__main__":
    main()
