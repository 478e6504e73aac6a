"""One row of the results, the time of a call on a device, and the table that people read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from snapml.kernels import Device

__all__ = ["Measurement", "markdown", "seconds_per_call"]


@dataclass(frozen=True)
class Measurement:
    """What was measured, and beside what.

    Attributes
    ----------
    section : str
        Part of the check.
    name, case : str
        What ran, and on what.
    value, unit : float and str
        The result.
    reference : float or None
        What it is held against, in the same unit: an allowed error, a floor, another library.
    is_good : bool or None
        Whether it passed; None where nothing can fail.
    note : str
        What the number alone does not say.
    """

    section: str
    name: str
    case: str
    value: float
    unit: str
    reference: float | None = None
    is_good: bool | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Value over reference."""
        return self.value / self.reference if self.reference else None


def seconds_per_call(device: Device, call: Callable[[], Any], least_s: float = 0.1) -> float:
    """Return the time of one call, as the least of three rounds of as many as take `least_s`.

    Calls are queued one after the other, so that the time of a launch hides behind the work of the
    one before; a call that reads a result on the host pays for its wait.

    Parameters
    ----------
    device : Device
        Runs the work.
    call : callable
        What to time; it ran once before.
    least_s : float, default=0.1
        Least duration of a round.

    Returns
    -------
    float
        Seconds.
    """
    call()
    device.synchronize()

    def round_s(n_calls: int) -> float:
        started_s = time.perf_counter()
        for _ in range(n_calls):
            call()
        device.synchronize()
        return time.perf_counter() - started_s

    n_calls = 1
    while (passed_s := round_s(n_calls)) < least_s:
        n_calls = max(2 * n_calls, int(n_calls * least_s / max(passed_s, 1e-9)))
    return min(passed_s, round_s(n_calls), round_s(n_calls)) / n_calls


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
        Markdown.
    """
    lines = ["# Check of the GPU", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    failed = [m for m in measurements if m.is_good is False]
    checked = [m for m in measurements if m.is_good is not None]
    lines += ["", f"**{len(checked) - len(failed)} of {len(checked)} checks passed.**"]
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
        lines.append(f"| {' | '.join(cells)} | {row.note} |")
    return lines
