"""How fast files become rows, beside scikit-learn's loader and pyarrow's.

Svmlight; click logs as text and as frames; Parquet to a store beside pyarrow's own read of it.

Run from the repository's root::

    python -m benchmarks.loading --output benchmarks/results/loading.csv
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from benchmarks.records import machine_facts
from snapml.data import make_click_log
from snapml.io import ClickLogEncoder, convert, load_svmlight


def svmlight_texts(n_rows: int) -> dict[str, bytes]:
    """Return texts of 39 entries a row: ones, and numbers of 17 digits."""
    X, y = make_click_log(n_rows, 1_000_000)
    texts = {}
    for name in ("ones", "numbers"):
        if name == "numbers":
            X.data = np.random.default_rng(0).random(X.nnz)
        stream = io.BytesIO()
        dump_svmlight_file(X, y, stream, zero_based=False)
        texts[name] = stream.getvalue()
    return texts


def click_text(n_rows: int) -> bytes:
    """Return lines of the Criteo layout: 13 numbers and 26 categories of 8 letters."""
    rng = np.random.default_rng(0)
    numbers = rng.geometric(0.05, size=(n_rows, 13))
    categories = (1e5 * rng.random((n_rows, 26)) ** 3).astype(np.int64)
    lines = []
    for label, own, codes in zip(rng.integers(0, 2, n_rows), numbers, categories, strict=True):
        fields = [str(label), *map(str, own), *(f"{code:08x}" for code in codes)]
        lines.append("\t".join(fields))
    return "\n".join(lines).encode()


def encode(text: bytes, n_threads: int) -> None:
    """Encode a click log."""
    for _ in ClickLogEncoder().batches(io.BytesIO(text), n_threads=n_threads):
        pass


def readers(n_rows: int) -> list[tuple[str, str, int, int, Callable[[], Any]]]:
    """Return name, text, bytes, rows and call of everything that is timed."""
    calls: list[tuple[str, str, int, int, Callable[[], Any]]] = []
    for name, text in svmlight_texts(n_rows).items():
        case = f"svmlight, {name}"
        for n_threads in (1, 2):
            calls.append(
                (
                    f"snapml, {n_threads} threads",
                    case,
                    len(text),
                    n_rows,
                    lambda text=text, n=n_threads: load_svmlight(
                        io.BytesIO(text), dtype=np.float32, n_threads=n
                    ),
                )
            )
        calls.append(
            (
                "scikit-learn",
                case,
                len(text),
                n_rows,
                lambda text=text: load_svmlight_file(io.BytesIO(text), dtype=np.float32),
            )
        )
    clicks = click_text(n_rows)
    for n_threads in (1, 2):
        calls.append(
            (
                f"snapml, {n_threads} threads",
                "click log",
                len(clicks),
                n_rows,
                lambda n=n_threads: encode(clicks, n),
            )
        )
    return calls


def click_frame_reader(n_rows: int) -> tuple[str, str, int, int, Callable[[], Any]]:
    """Return the call that encodes the fields of a click log as an Arrow table."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    numbers = {f"n{k}": rng.geometric(0.05, n_rows).astype(np.float64) for k in range(13)}
    codes = (1e5 * rng.random((26, n_rows)) ** 3).astype(np.int64)
    texts = {f"c{k}": [f"{code:08x}" for code in own] for k, own in enumerate(codes)}
    frame = pa.table({**numbers, **texts})
    encoder = ClickLogEncoder()
    return (
        "snapml, 1 threads",
        "click frame",
        frame.nbytes,
        n_rows,
        lambda: encoder.transform(frame),
    )


def parquet_readers(
    n_rows: int, folder: Path
) -> list[tuple[str, str, int, int, Callable[[], Any]]]:
    """Return the calls that read 28 columns and a label from ten row groups, as of `readers`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    calls: list[tuple[str, str, int, int, Callable[[], Any]]] = []
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64"):
        columns = {f"c{k}": rng.normal(size=n_rows).astype(dtype) for k in range(28)}
        columns["y"] = rng.integers(0, 2, n_rows).astype(dtype)
        path, case = folder / f"{dtype}.parquet", f"parquet, {dtype}"
        pq.write_table(pa.table(columns), path, row_group_size=-(-n_rows // 10))
        # A folder for each call: removing the last one is not what is timed.
        stores = map(f"{folder}/{dtype}-{{}}".format, itertools.count())
        n_bytes = path.stat().st_size
        calls.append(("pyarrow", case, n_bytes, n_rows, lambda path=path: pq.read_table(path)))
        calls.append(
            (
                "snapml, to a store",
                case,
                n_bytes,
                n_rows,
                lambda path=path, stores=stores, dtype=dtype: convert(
                    path, next(stores), label="y", dtype=dtype
                ),
            )
        )
    return calls


def main(arguments: list[str]) -> None:
    """Time all readers, one after the other, several times."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--parquet-rows", type=int, default=2_000_000)
    parser.add_argument("--case", default="", help="only cases whose names have this text")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("loading.csv"))
    options = parser.parse_args(arguments)
    facts, rows = machine_facts(), []
    with tempfile.TemporaryDirectory() as folder:
        calls = [
            *readers(options.rows),
            click_frame_reader(options.rows),
            *parquet_readers(options.parquet_rows, Path(folder)),
        ]
        calls = [call for call in calls if options.case in call[1]]
        for repeat, (reader, case, n_bytes, n_rows, call) in itertools.product(
            range(options.repeats), calls
        ):
            started_s = time.perf_counter()
            call()
            seconds = time.perf_counter() - started_s
            own = {"case": case, "reader": reader, "repeat": repeat, "seconds": round(seconds, 4)}
            speed = {"mb_per_s": round(n_bytes / 1e6 / seconds, 1)}
            rows.append({**own, **speed, "rows_per_s": round(n_rows / seconds), **facts})
            print(case, reader, rows[-1]["mb_per_s"], "MB/s", rows[-1]["rows_per_s"], "rows/s")
    with options.output.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
