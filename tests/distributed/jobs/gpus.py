"""Fits models on emulated GPUs, one or two a rank, and beside them on the CPU, on all rows.

Jobs of fewer ranks are the first ranks of this one.
"""

import functools
import json
import os
import warnings

import numpy as np
from emulated_gpus import NcclDevice, StrictDevice
from mpi4py import MPI  # noqa: TID253 - a job of MPI
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning

import snapml
from snapml.distributed import mpi
from snapml.distributed.mpi import estimators
from snapml.solvers.plan import device_choice
from snapml.solvers.rows import gpu_primal_engine

CASES = {
    "logistic": ("LogisticRegression", {}, 2),
    "multinomial": ("LogisticRegression", {}, 3),
    "squared hinge": ("LinearSVC", {}, 2),
    "hinge": ("LinearSVC", {"loss": "hinge", "C": 0.01, "tol": 1e-2}, 2),
    "ridge": ("Ridge", {}, 1),
}
SIZES = 1, 2, 3, 4


@functools.cache
def device(number):
    return NcclDevice() if number >= 10 else StrictDevice()


def data(n_classes, *, is_sparse):
    """Return rows sorted by their labels, so that most ranks see one class."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 7)) * (rng.random((240, 7)) < (0.5 if is_sparse else 1.0))
    margins = X[:, :n_classes] + 0.3 * rng.normal(size=(240, n_classes))
    y = margins[:, 0] * 3.0 + 1.0 if n_classes == 1 else margins.argmax(axis=1)
    order = np.argsort(y, kind="stable")
    return (csr_matrix(X[order]) if is_sparse else X[order]), y[order]


def own_rows(comm):
    """Return this rank's rows: uneven parts, and none for the last of three ranks or more."""
    n_working = comm.size - (comm.size > 2)
    cuts = [240 * k * (k + 1) // (n_working * (n_working + 1)) for k in range(n_working + 1)]
    cuts += [240] * (comm.size - n_working)
    return slice(cuts[comm.rank], cuts[comm.rank + 1])


def try_case(comm, case, *, is_sparse, device_ids, note):
    estimator, parameters, n_classes = CASES[case]
    X, y = data(n_classes, is_sparse=is_sparse)
    rows = own_rows(comm)
    settings = {"tol": 1e-6, "max_iter": 1000, **parameters}
    model = getattr(mpi, estimator)(comm=comm, device_ids=device_ids, **settings)
    model.fit(X[rows], y[rows])
    found = comm.gather((model.coef_.tobytes(), model.intercept_, model.gap_))
    if comm.rank > 0:
        return
    whole = getattr(snapml, estimator)(**{**settings, "tol": 1e-6}).fit(X, y)
    result = {
        "case": case,
        "is_sparse": is_sparse,
        "n_ranks": comm.size,
        "note": note,
        "is_same_on_all": all(
            coef == found[0][0] and np.array_equal(b, found[0][1]) and gap == found[0][2]
            for coef, b, gap in found
        ),
        "objective": model.objective_,
        "gap": model.gap_,
        "tol": settings["tol"],
        "whole_objective": whole.objective_,
        "whole_gap": whole.gap_,
        "solver": model.solver_,
    }
    print(json.dumps(result), flush=True)


def every_case(comm):
    for case in ("logistic", "hinge") if comm.size == 1 else CASES:
        for is_sparse in (False, True):
            try_case(comm, case, is_sparse=is_sparse, device_ids=[0], note="pinned")


def other_ways(comm):
    """Vectors on devices, NCCL, two devices on most ranks, ranks on two nodes, a shared GPU."""
    gpu_primal_engine._LEAST_DEVICE_VECTOR = 1
    for case, is_sparse in (("logistic", False), ("multinomial", True), ("ridge", True)):
        try_case(comm, case, is_sparse=is_sparse, device_ids=[0], note="vectors there")
        try_case(comm, case, is_sparse=is_sparse, device_ids=[10], note="nccl")
    two = [1, 2] if comm.rank % 2 else [1]
    for case, is_sparse in (("logistic", True), ("hinge", True)):
        try_case(comm, case, is_sparse=is_sparse, device_ids=two, note="two devices")
    try_case(comm, "logistic", is_sparse=False, device_ids=[11, 12], note="two with nccl")
    plain = estimators.MpiCommunicator
    estimators.MpiCommunicator = functools.partial(plain, node=comm.rank % 2)
    try_case(comm, "logistic", is_sparse=True, device_ids=[10], note="nodes, nccl")
    try_case(comm, "multinomial", is_sparse=False, device_ids=[0], note="nodes, pinned")
    estimators.MpiCommunicator = plain
    gpu_primal_engine._LEAST_DEVICE_VECTOR = 32_768
    os.environ["SNAPML_NCCL"] = "0" if comm.rank == 1 else "1"
    try_case(comm, "logistic", is_sparse=False, device_ids=[10], note="switched off")
    del os.environ["SNAPML_NCCL"]


def placements(comm):
    """Let ranks take the GPU of their local rank, of those that each of them sees."""
    seen = {
        "all see all": [["a", "b", "c", "d"]] * 4,
        "each sees its own": [["a"], ["b"], ["c"], ["d"]],
        "some of both": [["a", "b"], ["a"], ["c", "d"], ["c"]],
        "two nodes": [["a", "b"], ["a", "b"], ["c", "d"], ["c", "d"]],
        "too few": [["a", "b", "c"]] * 4,
        "too few on one node": [["a"], ["b"], ["c"], ["c"]],
        "none": [[]] * 4,
    }
    X, y = data(2, is_sparse=False)
    rows = own_rows(comm)
    for case, visible in seen.items():
        used = []
        device_choice.make_device = lambda number, used=used: (used.append(number), device(0))[1]
        device_choice.visible_devices = lambda visible=visible: visible[comm.rank]
        refusal = attempt(comm, X[rows], y[rows], "local_rank")
        tell(comm, case, (used, refusal))
    device_choice.make_device = device
    tell(comm, "mixed", attempt(comm, X[rows], y[rows], None if comm.rank == 2 else [0]))
    tell(comm, "other model", attempt(comm, X[rows], y[rows], [20 if comm.rank == 1 else 0]))
    tell(comm, "no such name", attempt(comm, X[rows], y[rows], "auto"))
    tell(comm, "goes on", attempt(comm, X[rows], y[rows], [0]))


def attempt(comm, X, y, device_ids):
    """Return the class and text of the error of a fit, None where it has none."""
    device(20).model = "other model"
    try:
        mpi.LogisticRegression(comm=comm, device_ids=device_ids).fit(X, y)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def tell(comm, case, own):
    found = comm.gather(own)
    if comm.rank == 0:
        print(json.dumps({"placement": case, "ranks": found}), flush=True)


def main():
    world = MPI.COMM_WORLD
    warnings.simplefilter("error", ConvergenceWarning)
    device_choice.make_device = device
    for size in SIZES:
        comm = world.Split(0 if world.rank < size else MPI.UNDEFINED, world.rank)
        if comm != MPI.COMM_NULL:
            every_case(comm)
    other_ways(world)
    placements(world)


if __name__ == "__main__":
    main()
