"""One row per fit, and the facts about machine and software that every row carries.

Rows hold no host name, user name or path: they are meant to be published.
"""

from __future__ import annotations

import csv
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

REPOSITORY_ROOT = Path(__file__).resolve().parents[1]


@dataclass
class FitRecord:
    """A fit, measured; the fields are the columns of the results file.

    ``seconds`` contains ``prepare_seconds``. ``gap`` is the certificate that the library (or,
    for ``library = "reference"``, the harness) gave: P - P* <= gap. ``relative_suboptimality``
    is (P - P*) / P* with P* the least objective of the whole run. ``load_average`` is the
    machine's at the start of the fit: above ``threads``, others were using the cores. ``repeat``
    is 0 for the fits that searched the ladders.
    """

    problem: str
    loss: str
    C: float
    fit_intercept: bool
    n_rows: int
    n_features: int
    n_nonzeros: int
    scale: float
    seed: int
    library: str
    library_version: str
    solver: str
    setting: str
    level: int
    threads: int
    repeat: int
    seconds: float
    cpu_seconds: float
    prepare_seconds: float
    objective: float
    relative_suboptimality: float | None
    gap: float | None
    reported_objective: float | None
    n_iter: int | None
    detail: str
    load_average: float
    versions: str
    cpu_model: str
    cores: int
    date: str
    # Not in files of before there were L1 norms.
    l1_ratio: float = 0.0
    strength: float | None = None


def machine_facts() -> dict[str, Any]:
    """Return the columns that describe machine and software.

    Returns
    -------
    dict
        ``versions``, ``cpu_model``, ``cores`` (usable by this process) and ``date`` (UTC).
    """
    versions = "; ".join([f"python {platform.python_version()}", *_package_versions()])
    return {
        "versions": versions,
        "cpu_model": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _package_versions() -> list[str]:
    """Name and version of the packages that matter and are installed."""
    found = []
    for name in ("snapml-open", "numpy", "scipy", "scikit-learn"):
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return found


def _cpu_model() -> str:
    """Name of the processor as the kernel gives it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append rows to a CSV file, with a header if it is new.

    Floats keep all digits (`repr`), None becomes an empty cell.

    Parameters
    ----------
    path : pathlib.Path
        File to append to; its folder is made if need be.
    rows : iterable of mapping
        Rows of the same keys.
    """
    rows = list(rows)
    if not rows:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with path.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]), lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(rows)


def prepare_output(path: Path, may_overwrite: bool) -> None:
    """Make room for a results file, refusing to lose an old one silently.

    Parameters
    ----------
    path : pathlib.Path
        File about to be written.
    may_overwrite : bool
        Whether an existing file is removed.

    Raises
    ------
    SystemExit
        If the file exists and must not be overwritten.
    """
    if path.exists():
        if not may_overwrite:
            raise SystemExit(f"{path.name} exists; pass --overwrite to replace it")
        path.unlink()


def read_fit_records(path: Path) -> list[FitRecord]:
    """Read what `run.py` wrote.

    Parameters
    ----------
    path : pathlib.Path
        Results file.

    Returns
    -------
    list of FitRecord
        One per row.
    """
    with path.open(newline="") as stream:
        return [_parse(row) for row in csv.DictReader(stream)]


_PARSERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": lambda text: text == "True",
    "float | None": lambda text: float(text) if text else None,
    "int | None": lambda text: int(text) if text else None,
}


def _parse(row: Mapping[str, str]) -> FitRecord:
    """Turn text cells into the types of the fields."""
    values: dict[str, Any] = {
        field.name: _PARSERS[str(field.type)](row[field.name])
        for field in fields(FitRecord)
        if field.name in row
    }
    return FitRecord(**values)
