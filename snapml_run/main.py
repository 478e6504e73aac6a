"""Finds out what to run and where, says so, and runs it."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from snapml_run.arguments import parse
from snapml_run.command import build_command, chosen_variables, rank_file
from snapml_run.cores import find_machine
from snapml_run.gpus import find_gpus
from snapml_run.hosts import Allocation, find_allocation
from snapml_run.job import held_signals, run_job, temporary_file
from snapml_run.mpi_library import KIND_NAMES, Mpi, find_mpi
from snapml_run.placement import Placement, place
from snapml_run.refusal import Refusal

__all__ = ["main"]

REFUSED = 2
_ROOT_CONSENT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the launcher.

    Parameters
    ----------
    arguments : sequence of str or None, default=None
        What follows the program's name; None takes the process's.

    Returns
    -------
    int
        The exit code of the job; 2 where it was refused.

    Raises
    ------
    SystemExit
        With code 2 on bad usage, with 0 after ``--help``.
    """
    options, program = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        if options.version:
            from importlib import metadata

            print(f"snapml-run {metadata.version('snapml-open')}")
            return 0
        return _launch(options, program)
    except Refusal as error:
        sys.stderr.write(f"snapml-run: {error}\n")
        return REFUSED
    except KeyboardInterrupt:  # before the job was started
        return 130


def _launch(options: argparse.Namespace, program: list[str]) -> int:
    python = _python(options.python)
    _check_program(program)
    allocation = find_allocation(options.hosts, options.hostfile, os.environ)
    placement = _placement(options, allocation)
    mpi = _mpi(options, python)
    if options.check:
        program = ["-m", "snapml_run.check_job", *_expected(placement)]
    given, names = _environment(options, mpi, placement)
    environment = {**os.environ, **given}
    text = rank_file(mpi, placement)

    keeps_devices = allocation.source == "Slurm"
    variables = chosen_variables(environment, names, keeps_devices=keeps_devices)

    def command(path: str | None) -> list[str]:
        return build_command(
            mpi,
            placement,
            [python, "-m", "mpi4py", *program],
            rank_file_path=path,
            variables=variables,
            may_crowd=options.oversubscribe,
            leaves_mapping=options.bind == "mpi",
            runs_as_root=options.allow_run_as_root,
            further=[word for words in options.mpi_args for word in _words(words)],
        )

    if options.dry_run:
        _describe(given, command("RANKFILE" if text else None), text)
        return 0
    _check_root(options, mpi)
    n_threads = environment["OMP_NUM_THREADS"]
    sys.stderr.write(f"snapml-run: {_summary(mpi, placement, allocation, n_threads)}\n")
    with held_signals() as mask, temporary_file(text, "ranks") as path:
        words = command(path)
        sys.stderr.write(f"snapml-run: {_as_typed(given, words)}\n")
        if options.verbose:
            sys.stderr.write(_details(text, variables))
        sys.stderr.flush()
        return run_job(
            words, environment, grace_s=options.grace, save_s=options.save_first, mask=mask
        )


def _python(wish: str | None) -> str:
    found = shutil.which(wish or sys.executable)
    if found is None:
        raise Refusal(f"--python: expected a program, got {wish!r}")
    return str(Path(found).absolute())


def _check_program(program: list[str]) -> None:
    if program and program[0] != "-m" and not Path(program[0]).exists():
        raise Refusal(f"{program[0]}: no such script; options of snapml-run stand before it")


def _mpi(options: argparse.Namespace, python: str) -> Mpi:
    if options.dry_run and options.mpi is not None:
        return Mpi(options.mpi, "not asked", options.mpirun or "mpirun")
    return find_mpi(options.mpirun, python, options.mpi)


def _placement(options: argparse.Namespace, allocation: Allocation) -> Placement:
    gpus, trouble = find_gpus(os.environ)
    if trouble is not None and options.gpus is None:
        sys.stderr.write(f"snapml-run: no GPUs: {trouble}\n")
    return place(
        allocation,
        find_machine(),
        gpus,
        n_gpus=options.gpus,
        n_ranks=options.n_ranks,
        n_cores=options.cores,
        is_bound=options.bind == "cores",
        may_crowd=options.oversubscribe,
    )


def _environment(
    options: argparse.Namespace, mpi: Mpi, placement: Placement
) -> tuple[dict[str, str], list[str]]:
    """Return variables that get a value here, and names of further ones to pass."""
    given: dict[str, str] = {}
    if options.threads is not None or "OMP_NUM_THREADS" not in os.environ:
        given["OMP_NUM_THREADS"] = str(options.threads or placement.n_threads)
    if mpi.is_open_mpi and placement.is_crowded:
        # A rank that waits would keep the core from the one that works.
        given.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    names = []
    for wish in options.env:
        name, sign, value = wish.partition("=")
        if not name.replace("_", "a").isalnum() or name[0].isdigit():
            raise Refusal(f"--env: expected NAME or NAME=VALUE, got {wish!r}")
        if sign:
            given[name] = value
        elif name not in os.environ:
            raise Refusal(f"--env {name}: expected a variable that is set, or {name}=VALUE")
        names.append(name)
    return given, [*names, *given]


def _check_root(options: argparse.Namespace, mpi: Mpi) -> None:
    consents = options.allow_run_as_root or all(os.environ.get(name) for name in _ROOT_CONSENT)
    if mpi.is_open_mpi and os.geteuid() == 0 and not consents:
        raise Refusal(
            "Open MPI does not run as root unless told to: expected another user, "
            f"--allow-run-as-root, or {' and '.join(_ROOT_CONSENT)} set to 1"
        )


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise Refusal(f"--mpi-args: expected words as in a shell, got {text!r}: {error}") from error


def _expected(placement: Placement) -> list[str]:
    """Return what the check must find: ranks on each machine, if they are bound, GPUs."""
    counts = ",".join(str(count) for _, count in placement.hosts)
    return [counts, "bound" if placement.cores else "unbound", str(placement.n_gpus)]


def _summary(mpi: Mpi, placement: Placement, allocation: Allocation, n_threads: str) -> str:
    hosts = placement.hosts
    where = f"{len(hosts)} hosts" if len(hosts) > 1 else hosts[0][0]
    bound = "bound to cores" if placement.cores else "not bound"
    why = f" ({placement.note})" if placement.note else ""
    gpus = "a GPU and " if placement.n_gpus else ""
    ranks = f"{placement.n_ranks} rank{'s' * (placement.n_ranks > 1)}"
    threads = f"{n_threads} thread{'s' * (n_threads != '1')}"
    return (
        f"{ranks} on {where} ({allocation.source}), each with {gpus}"
        f"{threads}, {bound}{why}; {KIND_NAMES[mpi.kind]} ({mpi.version})"
    )


def _details(text: str | None, variables: Iterable[str]) -> str:
    """Return what ``--verbose`` adds: cores of the ranks, and names of what is passed to all."""
    cores = "" if text is None else "".join(f"  {line}\n" for line in text.splitlines())
    return f"{cores}  variables passed to all ranks: {', '.join(variables) or 'none'}\n"


def _as_typed(given: Mapping[str, str], command: Sequence[str]) -> str:
    return " ".join([*(f"{k}={shlex.quote(v)}" for k, v in given.items()), shlex.join(command)])


def _describe(given: Mapping[str, str], command: Sequence[str], text: str | None) -> None:
    print(_as_typed(given, command))
    if text is not None:
        print("# RANKFILE:")
        print(text, end="")
