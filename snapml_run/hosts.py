"""Which machines a job may use: stated, listed in a file, or given by Slurm or PBS."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from snapml_run.refusal import Refusal
from snapml_run.slurm import slurm_nodes

__all__ = ["Allocation", "Host", "find_allocation", "parse_host_file", "parse_hosts"]

THIS_MACHINE = "localhost"


@dataclass(frozen=True)
class Host:
    """A machine: its name, how many ranks it may take, how many CPUs the scheduler gave."""

    name: str
    n_slots: int | None = None
    n_cpus: int | None = None


@dataclass(frozen=True)
class Allocation:
    """Machines, and who named them."""

    hosts: tuple[Host, ...]
    source: str

    @property
    def is_stated(self) -> bool:
        """Whether somebody named the machines."""
        return self.source != "this machine"


def find_allocation(
    hosts: str | None, host_file: str | None, environment: Mapping[str, str]
) -> Allocation:
    """Return the machines of the job.

    Parameters
    ----------
    hosts, host_file : str or None
        What the user said: ``a:2,b:2``, or a file of such lines.
    environment : mapping
        Variables of the process, where Slurm and PBS leave what they gave.

    Returns
    -------
    Allocation
        The user's, else Slurm's, else that of PBS, else this machine.

    Raises
    ------
    Refusal
        If a list cannot be read.
    """
    if hosts is not None:
        return Allocation(parse_hosts(hosts), "--hosts")
    if host_file is not None:
        return Allocation(parse_host_file(_read(host_file, "--hostfile")), host_file)
    nodes = slurm_nodes(environment)
    if nodes:
        return Allocation(tuple(Host(*node) for node in nodes), "Slurm")
    if environment.get("PBS_NODEFILE"):
        lines = _read(environment["PBS_NODEFILE"], "PBS_NODEFILE").split()
        if not lines:
            raise Refusal(f"PBS_NODEFILE: {environment['PBS_NODEFILE']} names no machine")
        return Allocation(_counted(lines), "PBS")
    return Allocation((Host(THIS_MACHINE),), "this machine")


def parse_hosts(text: str) -> tuple[Host, ...]:
    """Return the machines of a list such as ``a:2,b:2``.

    Parameters
    ----------
    text : str
        Names, separated by commas, each with a number of ranks or without.

    Returns
    -------
    tuple of Host
        In the order of the list.

    Raises
    ------
    Refusal
        If a name or number is missing, or a machine is named twice.
    """
    return _checked([_host(part.strip(), "--hosts") for part in text.split(",")], "--hosts")


def parse_host_file(text: str) -> tuple[Host, ...]:
    """Return the machines of a file in the manner of Open MPI or MPICH.

    Parameters
    ----------
    text : str
        Lines ``a``, ``a:2`` or ``a slots=2``; ``#`` begins a comment.

    Returns
    -------
    tuple of Host
        In the order of the lines.

    Raises
    ------
    Refusal
        If a line is none of these, or a machine is named twice.
    """
    found = []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        slots = re.fullmatch(r"slots=(\d+)", words[1]) if len(words) == 2 else None
        if len(words) > 1 and slots is None:
            raise Refusal(f"host file: expected 'a', 'a:2' or 'a slots=2', got {line.strip()!r}")
        found.append(_host(words[0] + (f":{slots[1]}" if slots else ""), "host file"))
    return _checked(found, "host file")


def _host(text: str, where: str) -> Host:
    # The name reaches mpirun's own lists and files: no character may have a meaning there.
    match = re.fullmatch(r"([A-Za-z0-9_][A-Za-z0-9_.-]*)(?::(\d+))?", text)
    if match is None or (match[2] is not None and int(match[2]) == 0):
        raise Refusal(f"{where}: expected a machine, or machine:ranks as in a:2, got {text!r}")
    return Host(match[1], None if match[2] is None else int(match[2]))


def _checked(hosts: list[Host], where: str) -> tuple[Host, ...]:
    names = [host.name for host in hosts]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Refusal(f"{where}: expected each machine once, got {', '.join(twice)} again")
    if not hosts:
        raise Refusal(f"{where}: names no machine")
    return tuple(hosts)


def _counted(lines: list[str]) -> tuple[Host, ...]:
    """Return the machines of a PBS file: a line for each rank."""
    hosts = [_host(name, "PBS_NODEFILE") for name in dict.fromkeys(lines)]
    return tuple(Host(host.name, lines.count(host.name)) for host in hosts)


def _read(path: str, what: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        raise Refusal(f"{what}: cannot read {path}: {reason}") from error
