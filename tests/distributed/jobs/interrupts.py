"""One rank alone gets a SIGINT, at any moment of a fit; nobody hangs, and the next fit works.

Where: while it computes; between the messages of one sum; as others fail; as all have ended.
"""

import json
import os
import signal
import sys

import numpy as np
from mpi4py import MPI  # noqa: TID253 - a job of MPI

from snapml.distributed.mpi import LogisticRegression, MpiCommunicator
from snapml.distributed.ordered_sums import OrderedSum
from snapml.solvers.newton import descent

COMM = MPI.COMM_WORLD


def interrupt():
    """Send a SIGINT to this process, where it is rank 1."""
    if COMM.rank == 1:
        os.kill(os.getpid(), signal.SIGINT)


def interrupting(owner, name, *, after=False, which=1):
    """Return a function in the place of another that interrupts at one of its calls."""
    plain = getattr(owner, name)
    n_calls = 0

    def replaced(*args, **kwargs):
        nonlocal n_calls
        n_calls += 1
        if n_calls == which and not after:
            interrupt()
        try:
            return plain(*args, **kwargs)
        finally:
            if n_calls == which and after:
                interrupt()

    setattr(owner, name, replaced)
    return lambda: setattr(owner, name, plain)


# What is replaced, and when the interrupt comes.
MOMENTS = {
    "while it computes": (descent.Descent, "_pass", {}),
    "before a letter": (MpiCommunicator, "_letters", {"which": 9}),
    "behind a letter": (MpiCommunicator, "_letters", {"which": 9, "after": True}),
    "in a long sum": (OrderedSum, "add", {}),
    "behind a long sum": (OrderedSum, "add", {"after": True}),
    "in an exchange": (MpiCommunicator, "_gathered", {"which": 3}),
    "at the end": (MpiCommunicator, "finish", {}),
    "behind the end": (MpiCommunicator, "finish", {"after": True}),
    "as it leaves": (MpiCommunicator, "close", {}),
    "as another fails": (MpiCommunicator, "fail", {}),
    "as it begins": (MpiCommunicator, "__init__", {"after": True}),
}


def data(rank):
    rng = np.random.default_rng(rank)
    X = rng.normal(size=(300, 80))
    return X, (X[:, 0] > 0.0).astype(int)


def try_moment(name):
    """Return what this rank saw, and whether the next fit of all works."""
    X, y = data(COMM.rank)
    if name == "as another fails" and COMM.rank == 0:
        X[0, 0] = np.nan
    model = LogisticRegression(comm=COMM, n_threads=1)
    owner, function, when = MOMENTS[name]
    restore = interrupting(owner, function, **when)
    try:
        model.fit(X, y)
        seen = None
    except BaseException as error:
        seen = f"{type(error).__name__}: {error}"
    restore()
    is_unfitted = not hasattr(model, "coef_")
    after = LogisticRegression(comm=COMM, n_threads=1).fit(*data(COMM.rank))
    found = COMM.gather((seen, is_unfitted, after.coef_.tobytes()))
    if COMM.rank == 0:
        return {
            "moment": name,
            "seen": [one for one, _, _ in found],
            "is_unfitted": [one for _, one, _ in found],
            "goes_on": len({one for _, _, one in found}) == 1,
        }
    return None


def cut_short():
    """Let something else than Ctrl-C end a sum on one rank, half way; it must not go on to others.

    The other ranks wait in the sum: the job ends by what leaves this rank's code.
    """
    shards = MpiCommunicator(COMM)
    if COMM.rank == 1:
        group = shards._long_sum._levels[0].group
        group.collect = lambda *_: (_ for _ in ()).throw(TimeoutError("an alarm of the user's"))
        try:
            shards.allreduce_sum(np.ones(1000))
        except TimeoutError:
            try:
                shards.allreduce_sum(np.ones(1000))
            except RuntimeError as error:
                hears_nothing = shards.fail(error) is None
                print(json.dumps({"says": str(error), "fails": hears_nothing}), flush=True)
                raise
    shards.allreduce_sum(np.ones(1000))


def main():
    if sys.argv[1:] == ["cut short"]:
        cut_short()
    for name in MOMENTS:
        found = try_moment(name)
        if found is not None:
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
