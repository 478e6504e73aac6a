"""Fits files that all ranks name, and files of their own; prints what each rank found or raised."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa  # noqa: TID253 - a job of its own
from mpi4py import MPI  # noqa: TID253 - a job of MPI
from pyarrow import csv, parquet  # noqa: TID253 - a job of its own
from scipy.sparse import csr_matrix
from sklearn.datasets import dump_svmlight_file

import snapml
from snapml.distributed import mpi
from snapml.io import dump_snap

N_ROWS, N_COLUMNS = 500, 6
NAMES = [f"column {k}" for k in range(N_COLUMNS)]
SETTINGS = {"C": 0.1, "tol": 1e-9, "n_threads": 1}


def data():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(N_ROWS, N_COLUMNS)), 3).astype(np.float32)
    X *= rng.random(X.shape) < 0.5
    X[400:, -1] = 0.0  # so that later parts of text have fewer columns
    return X, (X[:, 0] + rng.normal(size=N_ROWS) > 0.0).astype(float)


def write(folder):
    """Write the rows in every format; the last rank's files of its own have fewer columns."""
    X, y = data()
    table = pa.table({**dict(zip(NAMES, X.T.copy(), strict=True)), "y": y})
    dump_svmlight_file(X, y, str(folder / "all.svm"), zero_based=False)
    for name, rows in (("0", slice(0, 100)), ("1", slice(100, 150)), ("2", slice(150, N_ROWS))):
        dump_svmlight_file(X[rows], y[rows], str(folder / f"{name}.svm"), zero_based=False)
        own = table.slice(rows.start, rows.stop - rows.start)
        (folder / "parts").mkdir(exist_ok=True)
        parquet.write_table(own, folder / "parts" / f"{name}.parquet", row_group_size=40)
    swapped = table.slice(150).select(["y", *reversed(NAMES)])
    parquet.write_table(swapped, folder / "swapped.parquet")
    parquet.write_table(table.slice(150).rename_columns([*NAMES[:-1], "other", "y"]),
                        folder / "other.parquet")  # fmt: skip
    (folder / "few.svm").write_text("1 1:1 6:1\n0 2:1\n")
    (folder / "empty.svm").write_text("# nothing\n")
    (folder / "bad.svm").write_text("1 1:1\n0 2:one\n" * 40)
    np.save(folder / "all.npy", X)
    np.save(folder / "labelled.npy", np.column_stack([X, y]))
    csv.write_csv(table, folder / "all.csv")
    with pa.ipc.new_file(folder / "all.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=30)
    with pa.ipc.new_stream(folder / "all.arrows", table.schema) as writer:
        writer.write_table(table)
    dump_snap(X, y, folder / "dense.snap")
    dump_snap(csr_matrix(X), y, folder / "sparse.snap")


def fits(comm, folder):
    """Return X and y of each fit that has the same rows in all."""
    _, y = data()
    three = [folder / "parts" / f"{name}.parquet" for name in "012"]
    text = [folder / f"{name}.svm" for name in "012"]
    own = [text[comm.rank]] if comm.size == 3 else text[comm.rank :: comm.size]
    return {
        "svmlight": (folder / "all.svm", None),
        "svmlight by name": (str(folder / "all.svm"), None),
        "svmlight and targets": (folder / "all.svm", y),
        "svmlight files": (text, None),
        "svmlight, own": (own, None),
        "parquet folder": (folder / "parts", "y"),
        "parquet files": (three, "y"),
        "parquet, own": (three[comm.rank :: comm.size], "y"),
        "parquet, columns swapped": ([*three[:2], folder / "swapped.parquet"], "y"),
        "npy": (folder / "all.npy", y),
        "npy, labelled": (folder / "labelled.npy", N_COLUMNS),
        "csv": (folder / "all.csv", "y"),
        "arrow": (folder / "all.arrow", "y"),
        "dense snap": (folder / "dense.snap", None),
        "sparse snap": (folder / "sparse.snap", None),
    }


def failures(comm, folder):
    """Return X and y of each fit that must fail, on a job of three ranks."""
    _, y = data()
    missing = folder / "missing.svm" if comm.rank == 1 else folder / "all.svm"
    one = [folder / "parts" / "0.parquet", folder / "other.parquet"]
    return {
        "missing": (missing, None),
        "missing of several": ([folder / "all.svm", missing], None),
        "missing everywhere": (folder / "missing.svm", None),
        "no targets on one": (folder / "parts", None if comm.rank == 1 else "y"),
        "no targets": (folder / "all.npy", None),
        "too few targets": (folder / "all.npy", y[:-1]),
        "corrupt": (folder / "bad.svm", None),
        "corrupt on one": (folder / ("bad.svm" if comm.rank == 1 else "all.svm"), None),
        "empty": (folder / "empty.svm", None),
        "other columns": (one, "y"),
        "other column of targets": (folder / "parts", NAMES[0] if comm.rank == 2 else "y"),
        "stream": (folder / "all.arrows", "y"),
        "other count": (other_count(comm, folder), y),
        "two formats": ([folder / "all.svm", folder / "all.npy"], None),
    }


def other_count(comm, folder):
    path = folder / f"count {comm.rank}.npy"
    np.save(path, np.ones((N_ROWS, N_COLUMNS - (comm.rank == 1))))
    return path


def main():
    comm, folder = MPI.COMM_WORLD, Path(sys.argv[1])
    warnings.simplefilter("error")
    if comm.rank == 0:
        write(folder)
    comm.Barrier()
    report_fits(comm, folder)
    if comm.size == 3:
        report_failures(comm, folder)


def report_fits(comm, folder):
    X, y = data()
    whole = snapml.LogisticRegression(**SETTINGS).fit(X, y)
    few = snapml.LogisticRegression(**SETTINGS).fit(np.eye(6)[:2] + np.eye(6)[[5, 5]] * [[1], [0]],
                                                    [1, 0])  # fmt: skip
    for case, (rows, targets) in fits(comm, folder).items():
        model = mpi.LogisticRegression(comm=comm, **SETTINGS).fit(rows, targets)
        report(comm, case, model, whole)
    model = mpi.LogisticRegression(comm=comm, **SETTINGS).fit(folder / "few.svm")
    report(comm, "fewer rows than ranks", model, few)
    ridge = mpi.Ridge(comm=comm, tol=1e-9).fit(folder / "parts", "y", np.linspace(0.0, 1.0, N_ROWS))
    report(comm, "ridge, weighted", ridge,
           snapml.Ridge(tol=1e-9).fit(X, y, np.linspace(0.0, 1.0, N_ROWS)))  # fmt: skip


def report_failures(comm, folder):
    for case, (rows, targets) in failures(comm, folder).items():
        try:
            mpi.LogisticRegression(comm=comm, **SETTINGS).fit(rows, targets)
            error = None
        except Exception as caught:
            error = caught
        found = comm.gather({"error": type(error).__name__, "message": str(error)})
        if comm.rank == 0:
            print(json.dumps({"failure": case, "ranks": found}), flush=True)


def report(comm, case, model, whole):
    names = list(getattr(model, "feature_names_in_", []))
    models = comm.gather((model.coef_.tobytes(), names))
    if comm.rank == 0:
        found = {
            "case": case,
            "objective": model.objective_,
            "gap": model.gap_,
            "whole": whole.objective_,
            "whole_gap": whole.gap_,
            "is_same_on_all": all(own == models[0] for own in models),
            "names": names,
        }
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
