"""Fits with checkpoints: ends them by signals or kills a rank, goes on, or finishes them at once.

Usage: restarts.py FOLDER HOW/CASE...; prints what all ranks found, one object each. The checkpoints
of HOW are in FOLDER/HOW, those of HOW=NAME in FOLDER/NAME.
"""

import json
import logging
import os
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from mpi4py import MPI  # noqa: TID253 - a job of MPI
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import snapml
from snapml.distributed import mpi
from snapml.solvers.stopping import Progress

N_ROWS = 600
CASES = {
    "logistic": ("LogisticRegression", {"C": 0.1}),
    "multinomial": ("LogisticRegression", {}),
    "ascent": ("LogisticRegression", {"solver": "sdca", "C": 0.002, "tol": 1e-3}),
    "classes apart": ("LinearSVC", {"loss": "hinge", "C": 0.003, "tol": 1e-4}),
    "ridge": ("Ridge", {"alpha": 0.1}),
}


def data(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 12)) * np.logspace(0.0, 0.5, 12)
    n_classes = 3 if name in ("multinomial", "classes apart") else 2
    margins = X[:, :n_classes] + 2.0 * rng.normal(size=(N_ROWS, n_classes))
    y = margins[:, 0] if name == "ridge" else margins.argmax(axis=1)
    return (csr_matrix(X) if name == "ascent" else X), y


def own_rows(comm):
    """Return uneven parts; the first rank has no rows where there are more than two."""
    shares = np.arange(comm.size) + (comm.size <= 2)
    bounds = np.append(0, np.cumsum(shares)) * N_ROWS // shares.sum()
    return slice(int(bounds[comm.rank]), int(bounds[comm.rank + 1]))


def model_of(comm, name, folder, **others):
    estimator, parameters = CASES[name]
    settings = {"tol": 1e-6, "n_threads": 1, "max_iter": 2000, **parameters}
    kept = {"checkpoint": folder / name, "checkpoint_every": 1} if folder else {}
    return getattr(mpi, estimator)(comm=comm, **{**settings, **kept, **others})


def signal_at(comm, epoch, number):
    """Let the last rank get a signal in the midst of an epoch."""
    see_epoch = Progress.see_epoch

    def seen(progress, gap):
        if comm.rank == comm.size - 1 and len(progress.history) == epoch:
            os.kill(os.getpid(), number)
        return see_epoch(progress, gap)

    Progress.see_epoch = seen


def fit(comm, model, name):
    X, y = data(name)
    rows = own_rows(comm)
    return model.fit(X[rows], y[rows])


def whole(comm, name, folder):
    """Fit without a checkpoint."""
    return described(fit(comm, model_of(comm, name, None), name))


def on(comm, name, folder):
    """Fit with a checkpoint, from where one has ended."""
    model = fit(comm, model_of(comm, name, folder, checkpoint_every=20), name)
    return described(model) | {"is_left": (folder / name).exists()}


def terminated(comm, name, folder):
    signal_at(comm, 1, signal.SIGTERM)
    before = signal.getsignal(signal.SIGTERM)
    try:
        fit(comm, model_of(comm, name, folder, checkpoint_every=1000), name)
    except SystemExit as error:
        is_restored = signal.getsignal(signal.SIGTERM) is before
        found = {"error": type(error).__name__, "code": error.code, "message": str(error)}
        return found | {"is_restored": is_restored, "is_left": (folder / name).exists()}
    return {"error": None}


def ends(comm, name, folder):
    """Get SIGTERM, and let nobody catch what follows."""
    signal_at(comm, 1, signal.SIGTERM)
    fit(comm, model_of(comm, name, folder), name)


def noted(comm, name, folder):
    """Get SIGUSR1: one checkpoint more, and the fit goes on."""
    signal_at(comm, 1, signal.SIGUSR1)
    model = fit(comm, model_of(comm, name, folder, checkpoint_every=1000), name)
    return described(model) | model.run_report_["checkpoints"]


def killed(comm, name, folder):
    """Lose a rank between two passes."""
    if comm.rank == comm.size - 1:
        (folder / "time").write_text(repr(time.time()))
    signal_at(comm, 3, signal.SIGKILL)
    fit(comm, model_of(comm, name, folder), name)


def raises(comm, name, folder):
    """Meet an error of the user's own making in the midst of a fit."""

    class OwnError(Exception):
        pass

    def seen(progress, gap):
        if comm.rank == comm.size - 1 and len(progress.history) == 3:
            (folder / "time").write_text(repr(time.time()))
            raise OwnError("what the user's own code raised")
        return see_epoch(progress, gap)

    see_epoch, Progress.see_epoch = Progress.see_epoch, seen
    fit(comm, model_of(comm, name, folder), name)


def refused(comm, name, folder):
    """Go on with other data, other parameters, from a damaged file; hear what every rank hears."""
    path, found = folder / name, {}
    good = path.read_bytes() if comm.rank == 0 else None
    for case in ("data", "parameters", "damaged", "short", "foreign", "folder"):
        model = model_of(comm, name, folder)
        if comm.rank == 0:
            damaged = good[:1000] + bytes([good[1000] ^ 1]) + good[1001:]
            contents = {"damaged": damaged, "short": good[:-7], "foreign": b"%PDF-1.4 something"}
            path.write_bytes(contents.get(case, good))
        X, y = data(name)
        y = np.roll(y, 1) if case == "data" else y
        if case == "parameters":
            model.set_params(C=0.2)
        if case == "folder":
            model.set_params(checkpoint=folder / "none" / "state")
        try:
            model.fit(X[own_rows(comm)], y[own_rows(comm)])
            found[case] = None
        except (ValueError, OSError) as error:
            found[case] = f"{type(error).__name__}: {error}"
    if comm.rank == 0:
        path.write_bytes(good)
    return found


def hidden(comm, name, folder):
    """Go on where only rank 0 sees the folder."""
    if comm.rank != 0:
        folder = Path("/nowhere")
        os.chdir("/")
    else:
        os.chdir(folder)
    model = fit(comm, model_of(comm, name, Path()), name)
    return described(model)


def reported(comm, name, folder):
    """Return the report, the lines of the log, and whether the saved model is the fitted one."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("snapml").addHandler(handler)
    model = fit(comm, model_of(comm, name, folder, report=folder / "report", verbose=1), name)
    X, _ = data(name)
    is_same = None
    if comm.rank == 0:
        model.save(folder / "model")
        loaded = snapml.load(folder / "model")
        is_same = bool((loaded.predict(X) == model.predict(X)).all())
        is_same &= type(loaded) is snapml.LogisticRegression
    copy = clone(model)
    is_same_copy = copy.checkpoint == folder / name and copy.comm is comm
    return {"report": model.run_report_, "lines": lines, "saved": is_same, "copy": is_same_copy}


def described(model):
    return {
        "coef": np.asarray(model.coef_).tolist(),
        "objective": model.objective_,
        "gap": model.gap_,
        "n_iter": int(np.max(model.n_iter_)),
        "resumed_from": model.run_report_["resumed_from_pass"],
    }


def main():
    folder, *items = sys.argv[1:]
    comm = MPI.COMM_WORLD
    warnings.simplefilter("error", ConvergenceWarning)
    see_epoch = Progress.see_epoch
    for item in items:
        asked, case = item.split("/")
        how, _, place = asked.partition("=")
        found = comm.gather(globals()[how](comm, case, Path(folder) / (place or how)))
        Progress.see_epoch = see_epoch
        if comm.rank == 0:
            print(json.dumps({"case": item, "ranks": found}), flush=True)


if __name__ == "__main__":
    main()
