"""The results on disk: a CSV that grows row by row, and the page that people read."""

from __future__ import annotations

import csv
import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.measurement import Measurement

__all__ = ["Report", "markdown"]

_FIELDS = [field.name for field in dataclasses.fields(Measurement)]
_VERDICTS = {"": None, "True": True, "False": False}


class Report:
    """A folder with ``check.csv`` and ``check.md``.

    Parameters
    ----------
    folder : pathlib.Path
        Made if need be.
    facts : mapping
        What a reader must know about card, machine and software; repeated in every row.
    """

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "check.csv"
        self.facts = dict(facts)

    def clear(self) -> None:
        """Begin a new file."""
        with self.path.open("w", newline="") as stream:
            self._writer(stream).writeheader()

    def add(self, measured: Measurement) -> None:
        """Append a row; it is on disk when this returns, whatever becomes of the process."""
        row = {**dataclasses.asdict(measured), "ratio": measured.ratio, **self.facts}
        with self.path.open("a", newline="") as stream:
            self._writer(stream).writerow(row)
            stream.flush()
            os.fsync(stream.fileno())

    def read(self) -> list[Measurement]:
        """Return what is there, written by this process or by others."""
        with self.path.open(newline="") as stream:
            return [_measurement(row) for row in csv.DictReader(stream)]

    def write_page(self) -> None:
        """Write ``check.md`` from the CSV."""
        self.path.with_suffix(".md").write_text(markdown(self.read(), self.facts))

    def _writer(self, stream: Any) -> csv.DictWriter[str]:
        return csv.DictWriter(stream, [*_FIELDS, "ratio", *self.facts], lineterminator="\n")


def markdown(measurements: Sequence[Measurement], facts: Mapping[str, Any]) -> str:
    """Return a table for each section, below the facts about machine and software.

    Parameters
    ----------
    measurements : sequence of Measurement
        Results of any sections.
    facts : mapping
        Names and values.

    Returns
    -------
    str
        Markdown; what failed comes first.
    """
    lines = ["# Check of the GPU", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    failed = [m for m in measurements if m.is_good is False]
    checked = [m for m in measurements if m.is_good is not None]
    lines += ["", f"**{len(checked) - len(failed)} of {len(checked)} checks passed.**"]
    if failed:
        lines += ["", "## What failed", "", *_table(failed)]
    for section in dict.fromkeys(m.section for m in measurements):
        rows = [m for m in measurements if m.section == section]
        lines += ["", f"## {section}", "", *_table(rows)]
    return "\n".join(lines) + "\n"


def _table(rows: Iterable[Measurement]) -> list[str]:
    lines = ["| what | case | value | beside | ratio | | note |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        reference = "" if row.reference is None else f"{row.reference:.3g} {row.unit}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        verdict = {None: "", True: "ok", False: "**FAILED**"}[row.is_good]
        cells = (row.name, row.case, f"{row.value:.3g} {row.unit}", reference, ratio, verdict)
        lines.append(f"| {' | '.join(cells)} | {row.note.replace('|', '/')} |")
    return lines


def _measurement(row: Mapping[str, str]) -> Measurement:
    reference = float(row["reference"]) if row["reference"] else None
    return Measurement(
        row["section"],
        row["name"],
        row["case"],
        float(row["value"]),
        row["unit"],
        reference,
        _VERDICTS[row["is_good"]],
        row["note"],
    )
