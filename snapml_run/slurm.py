"""What Slurm says of a job: its machines, the ranks and the CPUs of each."""

from __future__ import annotations

import re
from collections.abc import Mapping

from snapml_run.refusal import Refusal

__all__ = ["expand_counts", "expand_nodes", "slurm_nodes"]


def slurm_nodes(environment: Mapping[str, str]) -> list[tuple[str, int | None, int | None]]:
    """Return name, ranks and CPUs of the machines of this job.

    Parameters
    ----------
    environment : mapping
        Variables of the process.

    Returns
    -------
    list of (str, int or None, int or None)
        Empty outside of Slurm; None is what it does not say.

    Raises
    ------
    Refusal
        If the lists cannot be read or differ in length.
    """
    text = environment.get("SLURM_JOB_NODELIST") or environment.get("SLURM_NODELIST")
    if not text:
        return []
    names = expand_nodes(text)
    ranks = _per_node(environment, ("SLURM_TASKS_PER_NODE",), names)
    cpus = _per_node(environment, ("SLURM_JOB_CPUS_PER_NODE", "SLURM_CPUS_ON_NODE"), names)
    return list(zip(names, ranks, cpus, strict=True))


def expand_nodes(text: str) -> list[str]:
    """Return the names of a list such as ``n[01-03,7],login2``.

    Parameters
    ----------
    text : str
        Names; brackets hold numbers and ranges. There may be several in a name.

    Returns
    -------
    list of str
        In the order of the list; numbers keep their leading zeros.

    Raises
    ------
    Refusal
        If it is no such list.
    """
    names: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text.strip()):
        pieces = re.split(r"\[([^\[\]]*)\]", part)  # every other one stood in brackets
        found = [pieces[0]]
        for inside, after in zip(pieces[1::2], pieces[2::2], strict=True):
            numbers = _numbers(inside, text)
            found = [name + number + after for name in found for number in numbers]
        names += found
    if not all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name) for name in names):
        raise Refusal(f"Slurm: expected names of machines as in n[01-03,7], got {text!r}")
    return names


def _numbers(inside: str, text: str) -> list[str]:
    found = []
    for piece in inside.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", piece)
        if match is None or (match[2] is not None and int(match[2]) < int(match[1])):
            raise Refusal(f"Slurm: expected numbers and ranges in brackets, got {text!r}")
        first, last = match[1], match[2] or match[1]
        found += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return found


def expand_counts(text: str) -> list[int]:
    """Return the numbers of a list such as ``2(x3),1``.

    Parameters
    ----------
    text : str
        Numbers, each with how many machines it is for where that is more than one.

    Returns
    -------
    list of int
        One a machine.

    Raises
    ------
    Refusal
        If it is no such list.
    """
    found = []
    for part in text.strip().split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if match is None:
            raise Refusal(f"Slurm: expected numbers as in 2(x3),1, got {text!r}")
        found += [int(match[1])] * int(match[2] or 1)
    return found


def _per_node(
    environment: Mapping[str, str], variables: tuple[str, ...], names: list[str]
) -> list[int] | list[None]:
    for variable in variables:
        if environment.get(variable):
            counts = expand_counts(environment[variable])
            if len(counts) == 1 and variable == "SLURM_CPUS_ON_NODE":
                counts = counts * len(names)  # this machine's: the others are taken to be like it
            if len(counts) != len(names):
                raise Refusal(
                    f"Slurm: {variable} has {len(counts)} numbers, the list of nodes {len(names)} "
                    "names: inside a job step say --hosts"
                )
            return counts
    return [None] * len(names)
