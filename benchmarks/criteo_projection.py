"""What one H200 would need for Criteo's terabyte click logs: a projection, and no measurement.

Run from the repository's root, without a GPU::

    python -m benchmarks.criteo_projection

The number of reads is the one that `benchmarks.gpu.projection` counted on a click log of the same
kind; rates are that script's, or assumptions. Every number that goes in is a row of the results.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

from benchmarks.gpu.projection import RATES
from benchmarks.gpu.projection import RESULTS as COUNTS

RESULTS = Path(__file__).resolve().parent / "results" / "criteo_projection.csv"

DATA = {
    "rows": (4.2e9, "rows", "the published size of the logs of 24 days"),
    "entries of a row": (39, "entries", "13 binned numbers and 26 categories, hashed; all ones"),
    "columns": (1e6, "columns", "as in the published comparisons"),
    "bytes of an entry": (4, "bytes", "an int32 index; ones have no values that could be narrow"),
    "bytes of a row's offset": (4, "bytes", "int32, from the beginning of its chunk"),
}
CARD = {
    "device memory": (141e9, "bytes", "data sheet of the H200"),
    "device memory for rows": (0.9, "share", "assumed; the rest is for buffers and vectors"),
    "device bytes beside a row": (20, "bytes", "a float32 label and two float64 margins"),
    "pinned host to device": (RATES["host bytes"], "bytes/s", "estimate: PCIe 5 x16"),
    "time of an entry": (7.5e-12, "s", "expected 6 to 9 ps, docs/algorithms.md section 8"),
}
SOURCES = {
    "host memory": (200e9, "bytes/s", "assumed: more than the link takes; needs 0.7 TB of memory"),
    "four NVMe drives": (25e9, "bytes/s", "assumed: 6.25e9 each, read in sequence"),
    "one NVMe drive": (6.5e9, "bytes/s", "assumed: a PCIe 4 drive, read in sequence"),
    "object store": (3e9, "bytes/s", "assumed: 25 Gbit/s of network"),
}


def counted_reads() -> dict[float, int]:
    """Return reads and products with the Hessian to each gap, of a click log on fewer rows."""
    with COUNTS.open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if "39 ones" in row["data"]]
    return {float(row["tol"]): int(row["reads"]) + int(row["hessian_products"]) for row in rows}


def project() -> list[dict[str, Any]]:
    """Return the rows of the results: what goes in, then what follows from it."""
    found = [
        {"kind": "assumed", "name": name, "value": value, "unit": unit, "from": origin}
        for table in (DATA, CARD, SOURCES)
        for name, (value, unit, origin) in table.items()
    ]

    def add(kind: str, name: str, value: float, unit: str, origin: str) -> float:
        found.append(
            {
                "kind": kind,
                "name": name,
                "value": float(f"{value:.3g}"),
                "unit": unit,
                "from": origin,
            }
        )
        return value

    data = {name: value for name, (value, *_) in DATA.items()}
    card = {name: value for name, (value, *_) in CARD.items()}
    entries = data["rows"] * data["entries of a row"]
    entries = add("projection", "entries", entries, "entries", "rows x entries of a row")
    n_bytes = entries * data["bytes of an entry"] + data["rows"] * data["bytes of a row's offset"]
    n_bytes = add("projection", "bytes of the store", n_bytes, "bytes", "without labels")
    beside = data["rows"] * card["device bytes beside a row"]
    resident = max(0.0, card["device memory"] * card["device memory for rows"] - beside)
    resident = add(
        "projection",
        "bytes that stay on the card",
        resident,
        "bytes",
        "memory less labels, margins",
    )
    compute_s = entries * card["time of an entry"]
    compute_s = add("projection", "computation of a read", compute_s, "s", "entries x time")
    reads = counted_reads()
    for tol, count in reads.items():
        origin = f"counted in {COUNTS.name}, reads and Hessian products"
        add("counted on 400,000 rows", f"reads to a gap of {tol:g}", count, "reads", origin)
    for source, (rate, *_) in SOURCES.items():
        rate = min(rate, card["pinned host to device"])
        first_s = max(n_bytes / rate, compute_s)
        read_s = max((n_bytes - resident) / rate, compute_s)
        add("projection", f"first read, {source}", first_s, "s", "all bytes at the slowest rate")
        add("projection", f"later read, {source}", read_s, "s", "bytes that do not stay")
        for tol, count in reads.items():
            fit_s = first_s + (count - 1) * read_s
            add("projection", f"fit to {tol:g}, {source}", fit_s, "s", "first and later reads")
    return found


def main(arguments: list[str]) -> None:
    """Write and print the projection."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    rows = project()
    for row in rows:
        print(
            f"{row['kind']:24} {row['name']:36} {row['value']:<12.4g} {row['unit']:8} {row['from']}"
        )
    with options.output.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
