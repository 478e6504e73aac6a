"""The GPUs of this machine that ranks will see, and the CPUs next to each."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from snapml_run.cores import parse_cpus

__all__ = ["Gpu", "find_gpus", "parse_listing"]

_QUERY = ("--query-gpu=index,uuid,pci.bus_id", "--format=csv,noheader")


@dataclass(frozen=True)
class Gpu:
    """A GPU: number and identity as ``nvidia-smi`` tells them, CPUs of its memory node."""

    index: str
    uuid: str = ""
    near_cpus: frozenset[int] = frozenset()


def find_gpus(
    environment: Mapping[str, str], system: Path = Path("/sys")
) -> tuple[tuple[Gpu, ...], str | None]:
    """Return the GPUs that ranks on this machine will see.

    Parameters
    ----------
    environment : mapping
        Variables of the process: ``CUDA_VISIBLE_DEVICES`` chooses among those that there are.
    system : Path
        Where the kernel says which CPUs are near them.

    Returns
    -------
    gpus : tuple of Gpu
        In the order in which CUDA will number them.
    trouble : str or None
        What ``nvidia-smi`` complained of.
    """
    listed, trouble = _listing(system)
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return listed, trouble
    chosen: list[Gpu] = []
    for name in (part.strip() for part in visible.split(",")):
        if not name or name.startswith("-"):  # CUDA stops at the first that is none
            break
        known = [g for g in listed if g.index == name or (g.uuid and g.uuid.startswith(name))]
        if not known and listed and not name.startswith("MIG-"):
            break
        chosen.append(known[0] if known else Gpu(name))
    return tuple(chosen), trouble if chosen else None


def parse_listing(text: str, system: Path) -> tuple[Gpu, ...]:
    """Return the GPUs of ``nvidia-smi --query-gpu=index,uuid,pci.bus_id``.

    Parameters
    ----------
    text : str
        What it printed, without a header.
    system : Path
        A folder like ``/sys``.

    Returns
    -------
    tuple of Gpu
        One a line.
    """
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 3 and fields[0].isdigit():
            index, uuid, bus = fields
            domain, _, rest = bus.lower().partition(":")
            folder = system / "bus" / "pci" / "devices" / f"{domain[-4:]}:{rest}"
            found.append(Gpu(index, uuid, _near_cpus(folder)))
    return tuple(found)


def _near_cpus(folder: Path) -> frozenset[int]:
    """Return the CPUs of the device's memory node; none where the kernel knows of no node."""
    try:
        if int((folder / "numa_node").read_text(encoding="ascii")) < 0:
            return frozenset()
        return parse_cpus((folder / "local_cpulist").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return frozenset()


def _listing(system: Path) -> tuple[tuple[Gpu, ...], str | None]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return (), None
    try:
        done = subprocess.run(
            [program, *_QUERY], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return (), f"{program}: {error}"
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()
        return (), f"{program}: {said[0] if said else f'exit code {done.returncode}'}"
    return parse_listing(done.stdout, system), None
