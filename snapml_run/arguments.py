"""The command line of the launcher: its own options, and the program that follows them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

__all__ = ["make_parser", "parse"]

MPI_KINDS = ("openmpi4", "openmpi5", "mpich")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError
    return value


_positive.__name__, _count.__name__ = "number from 1", "number from 0"  # argparse's messages

# An option with an action takes no value.
_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        ("-n", "-np", "--ranks"),
        {
            "type": _positive,
            "metavar": "N",
            "dest": "n_ranks",
            "help": "ranks of the job; without it as many as hosts, Slurm, PBS or the GPUs say",
        },
    ),
    (
        ("-H", "--host", "--hosts"),
        {
            "metavar": "A:2,B:2",
            "dest": "hosts",
            "help": "machines, and how many ranks each may take (1, or one a GPU, if not said)",
        },
    ),
    (("--hostfile",), {"metavar": "FILE", "help": "the same, a line each: 'a:2' or 'a slots=2'"}),
    (
        ("--gpus", "--accelerators"),
        {
            "type": _count,
            "metavar": "N",
            "dest": "gpus",
            "help": "GPUs of each machine, one rank each; 0: ranks on cores. Without it as on this "
            "machine",
        },
    ),
    (
        ("--cores",),
        {
            "type": _positive,
            "metavar": "N",
            "help": "cores of each machine, if they are not as on this one; ranks are not bound",
        },
    ),
    (
        ("--threads",),
        {"type": _positive, "metavar": "N", "help": "threads of a rank, if not its share of cores"},
    ),
    (
        ("--bind",),
        {
            "choices": ("cores", "none", "mpi"),
            "default": "cores",
            "help": "whether each rank has its own cores, near its GPU (default), all have all, or "
            "the MPI and --mpi-args decide",
        },
    ),
    (
        ("--oversubscribe",),
        {"action": "store_true", "help": "allow more ranks than the machines have places for"},
    ),
    (
        ("--allow-run-as-root",),
        {"action": "store_true", "help": "what Open MPI wants to hear before it runs as root"},
    ),
    (
        ("-x", "--env"),
        {
            "metavar": "NAME[=VALUE]",
            "dest": "env",
            "append": True,
            "help": "pass one more variable to all ranks; may be repeated",
        },
    ),
    (
        ("--mpirun",),
        {"metavar": "PATH", "help": "the MPI's launcher, if not beside Python or on PATH"},
    ),
    (
        ("--mpi",),
        {
            "choices": MPI_KINDS,
            "help": "the MPI that is expected; with --dry-run it need not be installed here",
        },
    ),
    (
        ("--mpi-args", "--mpiarg"),
        {
            "metavar": "ARGS",
            "dest": "mpi_args",
            "append": True,
            "help": "arguments for mpirun, as in a shell: --mpi-args='--mca btl tcp,self'",
        },
    ),
    (
        ("--python",),
        {"metavar": "PATH", "help": "Python of the ranks, if not the one that runs this"},
    ),
    (
        ("--grace",),
        {
            "type": _positive,
            "metavar": "SECONDS",
            "default": 8,
            "help": "how long the job may take to end after a signal (default: 8)",
        },
    ),
    (
        ("--save-first",),
        {
            "type": _positive,
            "metavar": "SECONDS",
            "help": "on SIGTERM send the ranks SIGUSR1, upon which the script may write what it "
            "has, and SIGTERM so much later",
        },
    ),
    (
        ("-v", "--verbose"),
        {
            "action": "store_true",
            "help": "print also the cores of each rank, and the variables that all get",
        },
    ),
    (
        ("--dry-run",),
        {"action": "store_true", "help": "print what would be run, and do not run it"},
    ),
    (
        ("--check",),
        {
            "action": "store_true",
            "help": "run no script: compare versions, clocks, places and GPUs of the ranks, time "
            "their sums, print a table",
        },
    ),
    (("--version",), {"action": "store_true", "help": "print the version of snapml"}),
)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of what stands before the program.

    Returns
    -------
    argparse.ArgumentParser
        Of the launcher's own options.
    """
    parser = argparse.ArgumentParser(
        prog="snapml-run",
        usage="snapml-run [options] [--] SCRIPT.py [arguments]\n"
        "       snapml-run [options] -m MODULE [arguments]\n"
        "       snapml-run [options] --check",
        description="Run a script on the ranks of an MPI job.",
        epilog="Hosts are those of --hosts or --hostfile, else of the Slurm or PBS job, else this "
        "machine. The exit code is the job's; 2 is bad usage, or a job that was refused; 130 "
        "is a job that Ctrl-C ended, 143 one that SIGTERM ended.",
        allow_abbrev=False,
    )
    for names, settings in _OPTIONS:
        keywords = dict(settings)
        if keywords.pop("append", False):
            keywords["action"], keywords["default"] = "append", []
        parser.add_argument(*names, **keywords)
    return parser


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Separate the launcher's options from the program's, which may look alike.

    Parameters
    ----------
    arguments : sequence of str
        What follows ``snapml-run``.

    Returns
    -------
    options : argparse.Namespace
        Of the launcher.
    program : list of str
        The script, or ``-m`` and the module, and all that follows; may be empty.

    Raises
    ------
    SystemExit
        With code 2 on bad usage, with 0 after ``--help``.
    """
    own, program = _split(arguments)
    parser = make_parser()
    options = parser.parse_args(own)
    if program == ["-m"]:
        parser.error("-m: expected a module")
    if options.check and program:
        parser.error(f"--check runs no script: got {program[0]}")
    if not (program or options.check or options.version):
        parser.error("expected a script, -m MODULE, or --check")
    if options.hosts is not None and options.hostfile is not None:
        parser.error("expected --hosts or --hostfile, got both")
    return options, program


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    with_value = {name for names, s in _OPTIONS if "action" not in s for name in names}
    own: list[str] = []
    rest = list(arguments)
    while rest:
        if rest[0] == "--":
            return own, rest[1:]
        if rest[0] == "-m" or not rest[0].startswith("-"):
            break
        argument = rest.pop(0)
        if argument in with_value and rest:
            # A value of its own word may look like an option, as arguments of mpirun do.
            value = rest.pop(0)
            own += [f"{argument}={value}"] if argument.startswith("--") else [argument, value]
        else:
            own.append(argument)
    return own, rest
