"""How fast text becomes rows: svmlight and click logs, beside scikit-learn's loader.

Run from the repository's root::

    python -m benchmarks.loading --output benchmarks/results/loading.csv
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from benchmarks.records import machine_facts
from snapml.data import make_click_log
from snapml.io import ClickLogEncoder, load_svmlight


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


def main(arguments: list[str]) -> None:
    """Time all readers, one after the other, several times."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("loading.csv"))
    options = parser.parse_args(arguments)
    facts, rows = machine_facts(), []
    calls = readers(options.rows)
    for repeat in range(options.repeats):
        for reader, case, n_bytes, n_rows, call in calls:
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
