"""The committed table, and the machine on which its bits were made.

``python -m digests.table`` in the folder of the tests writes it anew.
"""

import csv
import hashlib
import os
import platform
from pathlib import Path

import numpy as np
import scipy
from threadpoolctl import threadpool_info

from snapml import _native

from .fits import FITS, Answer, run

PATH = Path(__file__).with_name("table.csv")
COLUMNS = ["fit", "digest", "n_iter", "solver", "objective", "gap"]


def digest(answer: Answer) -> str:
    """Return a digest of every bit of the coefficients and intercepts, and of their dtypes."""
    made = hashlib.sha256()
    for array in (answer.coef, answer.intercept):
        made.update(f"{array.dtype.str}{array.shape}".encode())
        made.update(np.ascontiguousarray(array).tobytes())
    return made.hexdigest()[:16]


def machine() -> str:
    """Return what the last bits depend on: instructions, libraries of linear algebra, compiler."""
    blas = {x["architecture"] for x in threadpool_info() if x["user_api"] == "blas"}
    simd = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return "; ".join(
        [
            f"{platform.machine()} with {' '.join(simd)}",
            f"{os.cpu_count()} processors",
            f"compiler {_native.compiler}",
            f"numpy {np.__version__}",
            f"scipy {scipy.__version__}",
            *sorted(blas),
            _processor(),  # whose caches say how products are cut into blocks
        ]
    )


def _processor() -> str:
    """Return the processor's family and model, where Linux tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    pairs = [line.split(":", 1) for line in lines if ":" in line]
    known = {name.strip(): value.strip() for name, value in pairs}
    kinds = (known.get(name, "?") for name in ("vendor_id", "cpu family", "model"))
    return "processor " + " ".join(kinds)


def read() -> tuple[str, dict[str, dict[str, str]]]:
    """Return the machine and the rows by the names of their fits."""
    with PATH.open(newline="") as lines:
        made_on = next(lines).removeprefix("# ").rstrip("\n")
        return made_on, {row["fit"]: row for row in csv.DictReader(lines)}


def row(name: str, answer: Answer) -> dict[str, str]:
    """Return the row of a fit."""
    return {
        "fit": name,
        "digest": digest(answer),
        "n_iter": answer.n_iter,
        "solver": answer.solver,
        "objective": repr(answer.objective),
        "gap": repr(answer.gap),
    }


def write() -> None:
    """Fit everything and write the table."""
    with PATH.open("w", newline="") as lines:
        lines.write(f"# {machine()}\n")
        rows = csv.DictWriter(lines, COLUMNS, lineterminator="\n")
        rows.writeheader()
        rows.writerows(row(name, run(fit)) for name, fit in FITS.items())


if __name__ == "__main__":
    write()
