"""Loads files by rank and compares with all rows on one; reduces metrics over ranks."""

import bz2
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa  # noqa: TID253 - a job of its own
from mpi4py import MPI  # noqa: TID253 - a job of MPI
from pyarrow import parquet  # noqa: TID253 - a job of its own
from scipy.sparse import csr_matrix, issparse, vstack
from sklearn import metrics
from sklearn.datasets import make_classification

import snapml.io
from snapml.distributed import mpi
from snapml.io import dump_snap, read_batches

LINES = [f"{k % 3} " + " ".join(f"{c}:{c + k / 8}" for c in range(1, 2 + k % 5)) for k in range(40)]
TEXTS = {
    "plain": "\n".join(LINES) + "\n",
    "no last newline": "\n".join(LINES),
    "CRLF": "\r\n".join(LINES) + "\r\n",
    "comments and blank lines": "# head\n\n" + "\n\n# note\n".join(LINES) + "\n\n\n",
    "fewer rows than ranks": "1 1:1\n0 2:1\n",
    "one row": "1 3:1",
    "empty": "",
    "only comments": "# nothing\n\n# here",
    "one giant line": "0 " + " ".join(f"{c}:1" for c in range(1, 9000)),
    "giant line first": "0 " + " ".join(f"{c}:1" for c in range(1, 9000)) + "\n" + "\n".join(LINES),
    "zero-based in the last line": "\n".join([*LINES, "1 0:5"]),
}


def write(folder):
    for name, text in TEXTS.items():
        (folder / f"{name}.svm").write_text(text, newline="")
    for k in range(4):
        part = "\n".join(LINES[10 * k : 10 * k + 10])
        (folder / f"part {k}.svm.bz2").write_bytes(bz2.compress(part.encode()))
        (folder / f"part {k}.svm").write_text(part)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4)).astype(np.float32) * (rng.random((50, 4)) < 0.5)
    y = np.arange(50.0, dtype=np.float32)
    dump_snap(X, y, folder / "dense.snap")
    dump_snap(csr_matrix(X), y, folder / "sparse.snap")
    dump_snap(csr_matrix(X[:, :3]), y, folder / "narrow.snap")
    dump_snap(X[:0], y[:0], folder / "none.snap")
    for k in range(4):
        dump_snap(csr_matrix(X), y, folder / f"by column {k}.snap", by_column=True)
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": np.arange(50), "w": np.ones(50)})
    (folder / "parts").mkdir()
    parquet.write_table(table, folder / "parts" / "0.parquet", row_group_size=7)
    parquet.write_table(table.slice(0, 3), folder / "parts" / "1.parquet")
    parquet.write_table(table.slice(0, 0), folder / "none.parquet")
    wide = table.set_column(0, "a", [pa.array(np.arange(50.0) / 3)])
    parquet.write_table(wide, folder / "wide.parquet")
    lists = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 4)
    parquet.write_table(pa.table({"x": lists, "y": np.arange(50)}), folder / "lists.parquet")


def local_parquet(paths, **options):
    batches = [b for path in paths for b in read_batches(path, **options)]
    return tuple(
        None if batches[0][k] is None else np.concatenate([b[k] for b in batches]) for k in range(3)
    )


def one_below_the_other(paths, **options):
    parts = [snapml.io.load_snap(path) for path in paths]
    width = max(X.shape[1] for X, _ in parts)
    for X, _ in parts:
        if issparse(X):
            X.resize(X.shape[0], width)
    stack = vstack if issparse(parts[0][0]) else np.concatenate
    return stack([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def loads(folder):
    """Return for each case a loader over ranks, one of the whole, paths and options."""
    svmlight = mpi.load_svmlight, snapml.io.load_svmlight
    cases = {name: (*svmlight, folder / f"{name}.svm", {}) for name in TEXTS}
    plain = folder / "plain.svm"
    cases["float32, more columns"] = (*svmlight, plain, {"dtype": "float32", "n_features": 20})
    cases["zero-based"] = (*svmlight, plain, {"zero_based": True, "n_threads": 1})
    whole = (
        mpi.load_svmlight,
        lambda _, **o: snapml.io.load_svmlight(folder / "no last newline.svm", **o),
    )
    cases["files"] = (*whole, [folder / f"part {k}.svm" for k in range(4)], {})
    cases["compressed files"] = (*whole, [folder / f"part {k}.svm.bz2" for k in range(4)], {})
    snap = (
        mpi.load_snap,
        lambda path: one_below_the_other(path if isinstance(path, list) else [path]),
    )
    for name in ("dense", "sparse", "none"):
        cases[f"{name} snap"] = (*snap, folder / f"{name}.snap", {})
    cases["snap files"] = (*snap, [folder / "narrow.snap", folder / "sparse.snap"], {})
    cases["snap by column"] = (*snap, [folder / f"by column {k}.snap" for k in range(4)], {})
    rows = (
        mpi.load_parquet,
        lambda path, **o: local_parquet(path if isinstance(path, list) else [path], **o),
    )
    both = {"label": "y", "weight": "w"}
    cases["parquet folder"] = (*rows, folder / "parts", both)
    cases["parquet files"] = (
        *rows,
        [folder / "parts" / "0.parquet", folder / "wide.parquet"],
        both,
    )
    cases["parquet, some columns"] = (
        *rows,
        folder / "wide.parquet",
        {"columns": ["b"], "dtype": "float64"},
    )
    cases["parquet lists"] = (*rows, folder / "lists.parquet", {"label": "y"})
    return cases


def is_the_whole(parts, whole):
    """Return whether rows of ranks are those of one machine, bit for bit."""
    for found, expected in zip(zip(*parts, strict=True), whole, strict=False):
        if expected is None:
            if any(part is not None for part in found):
                return False
        elif issparse(expected):
            joined = vstack(found, format="csr")
            same = [(joined.data, expected.data), (joined.indices, expected.indices),
                    (joined.indptr, expected.indptr)]  # fmt: skip
            kinds = {(part.dtype, part.shape[1]) for part in found}
            if kinds != {(expected.dtype, expected.shape[1])} or joined.shape != expected.shape:
                return False
            if not all(np.array_equal(a, b) for a, b in same):
                return False
        elif {part.dtype for part in found} != {expected.dtype} or not np.array_equal(
            np.concatenate(found), expected
        ):
            return False
    return True


def report_loads(comm, folder):
    for case, (load, local, path, options) in loads(folder).items():
        own = load(path, comm=comm, **options)
        parts = comm.gather(tuple(own))
        if comm.rank == 0:
            print(json.dumps({
                "case": case,
                "is_the_whole": is_the_whole(parts, local(path, **options)),
                "n_rows": [part[0].shape[0] for part in parts],
            }), flush=True)  # fmt: skip
    own = [folder / f"part {k}.svm" for k in range(comm.rank, 4, comm.size)]
    X, y = mpi.load_svmlight(own, comm=comm)
    parts = comm.gather((X.shape[1], len(y)))
    if comm.rank == 0:
        found = {"case": "own files", "is_the_whole": sum(n for _, n in parts) == 40,
                 "n_rows": [n for _, n in parts]}  # fmt: skip
        found["is_the_whole"] &= {width for width, _ in parts} == {5}
        print(json.dumps(found), flush=True)


def report_metrics(comm):
    X, y = make_classification(300, 5, n_informative=3, n_classes=3, random_state=0, n_redundant=0)
    score, weights = np.round(X[:, 0], 1), np.abs(X[:, 1])
    proba = np.exp(X[:, :3]) / np.exp(X[:, :3]).sum(axis=1, keepdims=True)
    bounds = (
        [0, 10, 10, 290, 300] if comm.size == 4 else np.linspace(0, 300, comm.size + 1).astype(int)
    )
    rows = slice(bounds[comm.rank], bounds[comm.rank + 1])
    for name, y_all, values in (
        ("accuracy_score", y, X[:, :3].argmax(axis=1)),
        ("log_loss", y, proba),
        ("hinge_loss", y, X[:, :3]),
        ("mean_squared_error", X[:, :2], X[:, 1:3]),
        ("roc_auc_score", y == 1, score),
    ):
        options = {"sample_weight": weights[rows]}
        found = getattr(mpi, name)(y_all[rows], values[rows], comm=comm, **options)
        results = comm.gather(found)
        if comm.rank == 0:
            expected = getattr(metrics, name)(y_all, values, sample_weight=weights)
            print(json.dumps({"metric": name, "found": results, "expected": expected}), flush=True)


def failures(comm, folder):
    one = comm.rank == 1
    return {
        "one compressed file": lambda: mpi.load_svmlight(folder / "part 0.svm.bz2", comm=comm),
        "too few columns": lambda: mpi.load_svmlight(folder / "plain.svm", n_features=4, comm=comm),
        "other parameters": lambda: mpi.load_svmlight(folder / "plain.svm", comm=comm,
                                                      zero_based=bool(one)),
        "other loads": lambda: mpi.load_snap(folder / ("sparse.snap" if one else "dense.snap"),
                                             comm=comm),
        "no path": lambda: mpi.load_svmlight(3, comm=comm),
        "no column": lambda: mpi.load_parquet(folder / "parts", label="z", comm=comm),
        "missing on one": lambda: mpi.load_svmlight(folder / ("x" if one else "plain.svm"),
                                                    comm=comm),
        "text that is none": lambda: mpi.load_svmlight(
            folder / ("dense.snap" if one else "plain.svm"), comm=comm),
        "NaN on one": lambda: mpi.roc_auc_score([0, 1], [0.0, np.nan if one else 1.0], comm=comm),
        "other lengths on one": lambda: mpi.log_loss([0, 1], [0.5] * (1 if one else 2),
                                                     comm=comm),
    }  # fmt: skip


def report_failures(comm, folder):
    for case, call in failures(comm, folder).items():
        try:
            call()
            error = None
        except Exception as caught:
            error = caught
        found = comm.gather({"error": type(error).__name__, "message": str(error)})
        if comm.rank == 0:
            print(json.dumps({"failure": case, "ranks": found}), flush=True)


def main():
    comm, folder = MPI.COMM_WORLD, Path(sys.argv[1])
    warnings.simplefilter("error")
    if comm.rank == 0:
        write(folder)
    comm.Barrier()
    report_loads(comm, folder)
    report_metrics(comm)
    if comm.size == 3:
        report_failures(comm, folder)


if __name__ == "__main__":
    main()
