"""One rank meets bad data or parameters, or dies; each rank prints what it then sees."""

import json
import os
import signal
import sys
import time

import numpy as np
from mpi4py import MPI  # noqa: TID253 - a job of MPI
from sklearn.linear_model import LogisticRegression as Reference

from snapml.distributed.mpi import (
    Lasso,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    MpiCommunicator,
    Ridge,
)


def data(rank):
    rng = np.random.default_rng(rank)
    X = rng.normal(size=(60, 5))
    return X, (X[:, 0] > 0.0).astype(int)


def one_class(comm):
    X, _ = data(comm.rank)
    LogisticRegression(comm=comm).fit(X, np.ones(60))


def not_a_number(comm):
    X, y = data(comm.rank)
    if comm.rank == 1:
        X[3, 2] = np.nan
    LogisticRegression(comm=comm).fit(X, y)


def other_columns(comm):
    X, y = data(comm.rank)
    LogisticRegression(comm=comm).fit(X[:, : 5 - comm.rank], y)


def other_type(comm):
    X, y = data(comm.rank)
    LogisticRegression(comm=comm).fit(X.astype(f"f{8 >> comm.rank}"), y)


def other_parameters(comm):
    X, y = data(comm.rank)
    LogisticRegression(C=1.0 + comm.rank, comm=comm).fit(X, y)


def other_estimator(comm):
    X, y = data(comm.rank)
    (Ridge if comm.rank else LogisticRegression)(comm=comm).fit(X, y)


def other_start(comm):
    X, y = data(0)
    model = Lasso(alpha=0.01, warm_start=True, comm=comm)
    if comm.rank != 1:
        model.coef_, model.intercept_, model.n_features_in_ = np.ones(5), 0.0, 5
    model.fit(X, y)


def overflow(comm):
    X, y = data(comm.rank)
    Lasso(alpha=0.01, comm=comm).fit(1e160 * X, y)


def not_a_number_in_lasso(comm):
    X, y = data(comm.rank)
    if comm.rank == 1:
        X[3, 2] = np.nan
    Lasso(alpha=0.01, comm=comm).fit(X, y)


def infinite_in_least_squares(comm):
    X, y = data(comm.rank)
    if comm.rank == 1:
        X[3, 2] = np.inf
    LinearRegression(comm=comm).fit(X, y)


def offset(comm):
    X, y = data(comm.rank)
    LogisticRegression(comm=comm).fit(X, y, offset=np.full(len(y), np.nan))


def offset_of_machine(comm):
    X, y = data(comm.rank)
    LinearSVC(comm=comm).fit(X, y, offset=1.0)


def many_columns(comm):
    LinearRegression(comm=comm).fit(np.ones((2, 4097)), np.ones(2))


def no_targets(comm):
    X, y = data(comm.rank)
    LogisticRegression(comm=comm).fit(X, None if comm.rank == 1 else y)


def no_communicator(comm):
    X, y = data(comm.rank)
    LogisticRegression().fit(X, y)


def other_sums(comm):
    shards = MpiCommunicator(comm)
    shards.allreduce_sum(np.zeros(100 + comm.rank))


def killed(comm):
    X, y = data(comm.rank)
    model = LogisticRegression(comm=comm).fit(X, y)
    if comm.rank == 1:
        ends_now()
        os.kill(os.getpid(), signal.SIGKILL)
    model.fit(X, y)


def uncaught(comm):
    X, y = data(comm.rank)
    if comm.rank == 1:
        ends_now()
        raise ValueError("what the user's own code raised")
    LogisticRegression(comm=comm).fit(X, y)


def inside(comm):
    X, y = data(comm.rank)
    if comm.rank == 1:
        X[3, 2] = np.nan
        ends_now()
    LogisticRegression(comm=comm).fit(X, y)


def ends_now():
    print("ends at", time.time(), flush=True)


def report(case, comm):
    """Print what each rank caught, and whether they can go on to another fit."""
    try:
        globals()[case](comm)
        error = None
    except Exception as caught:
        error = caught
    found = comm.gather({"error": type(error).__name__, "message": str(error)})
    X, y = data(0)
    model = LogisticRegression(comm=comm).fit(X, y)
    whole = Reference(C=float(comm.size), tol=1e-10).fit(X, y)
    goes_on = bool(np.allclose(model.coef_, whole.coef_, atol=1e-3))
    if comm.rank == 0:
        found = {"case": case, "ranks": found, "goes_on": goes_on}
        print(json.dumps(found), flush=True)


def main():
    for case in sys.argv[1:]:
        if case in ("killed", "uncaught", "inside"):
            globals()[case](MPI.COMM_WORLD)
        else:
            report(case, MPI.COMM_WORLD)


if __name__ == "__main__":
    main()
