"""The command line, in the words of each MPI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snapml_run.mpi_library import Mpi
from snapml_run.placement import Placement

__all__ = ["build_command", "chosen_variables", "rank_file"]

# What a rank on another machine would lack. Names that end in a star are beginnings.
_PASSED = (
    "LD_LIBRARY_PATH",
    "PYTHON*",
    "SNAPML_*",
    "MPI4PY_*",
    "NCCL_*",
    "UCX_*",
    "FI_*",
    "OMP_*",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
)


def chosen_variables(
    environment: Mapping[str, str], further: Sequence[str], *, keeps_devices: bool
) -> dict[str, str]:
    """Return the variables that ranks on other machines get from here.

    Parameters
    ----------
    environment : mapping
        Variables of the process.
    further : sequence of str
        More names, from the user.
    keeps_devices : bool
        Whether a scheduler gives each machine its own ``CUDA_VISIBLE_DEVICES``.

    Returns
    -------
    dict of str
        Names and the values that they have here.
    """
    exact = {name for name in _PASSED if not name.endswith("*")} | set(further)
    if keeps_devices:
        exact -= {"CUDA_VISIBLE_DEVICES"} - set(further)
    beginnings = tuple(name[:-1] for name in _PASSED if name.endswith("*"))
    return {
        name: value
        for name, value in sorted(environment.items())
        if name in exact or name.startswith(beginnings)
    }


def rank_file(mpi: Mpi, placement: Placement) -> str | None:
    """Return what places and binds ranks under Open MPI.

    Parameters
    ----------
    mpi : Mpi
        What will read it.
    placement : Placement
        Of the ranks.

    Returns
    -------
    str or None
        A line for each rank; None where ranks are not bound, or the MPI reads no such file.
    """
    if not (mpi.is_open_mpi and placement.cores):
        return None
    lines: list[str] = []
    for name, count in placement.hosts:
        for local_rank in range(count):
            numbers = ",".join(str(core.number) for core in placement.cores[local_rank])
            lines.append(f"rank {len(lines)}={name} slot={numbers}\n")
    return "".join(lines)


def build_command(
    mpi: Mpi,
    placement: Placement,
    program: Sequence[str],
    *,
    rank_file_path: str | None,
    variables: Mapping[str, str],
    may_crowd: bool,
    leaves_mapping: bool,
    runs_as_root: bool,
    further: Sequence[str],
) -> list[str]:
    """Return the command that starts the job.

    Parameters
    ----------
    mpi : Mpi
        What starts it.
    placement : Placement
        Of the ranks.
    program : sequence of str
        What each rank runs.
    rank_file_path : str or None
        Where the text of `rank_file` stands.
    variables : mapping
        Those that all ranks get; they have these values for mpirun too.
    may_crowd, leaves_mapping, runs_as_root : bool
        Whether the user allows more ranks than places; leaves binding to the MPI and to `further`;
        allows to run as root.
    further : sequence of str
        Arguments for mpirun, from the user.

    Returns
    -------
    list of str
        Program and arguments.
    """
    hosts = ",".join(f"{name}:{count}" for name, count in placement.hosts)
    command = [mpi.path, "-n", str(placement.n_ranks)]
    if mpi.is_open_mpi:
        command += ["--host", hosts]
        if not leaves_mapping:
            command += _open_mpi_mapping(mpi, rank_file_path, may_crowd)
        command += [word for name in variables for word in ("-x", name)]
        command += ["--allow-run-as-root"] * runs_as_root
    else:
        command += ["-hosts", hosts]
        command += [] if leaves_mapping else ["-bind-to", _hydra_binding(placement)]
        # Not -genvlist: Hydra 5.0.2 leaves the last variable of its environment out of it.
        command += ["-genvnone"]
        command += [word for name in variables for word in ("-genv", name, variables[name])]
    return [*command, *further, *program]


def _open_mpi_mapping(mpi: Mpi, rank_file_path: str | None, may_crowd: bool) -> list[str]:
    if mpi.kind == "openmpi4":
        sharing = ["--oversubscribe"] * may_crowd
        if rank_file_path is not None:
            return ["--rankfile", rank_file_path, "--bind-to", "core", *sharing]
        return ["--map-by", "slot", "--bind-to", "none", *sharing]
    sharing_policy = ":OVERSUBSCRIBE" * may_crowd
    if rank_file_path is not None:
        # Without --bind-to, sharing would undo the binding of the file.
        mapping = f"rankfile:file={rank_file_path}{sharing_policy}"
        return ["--map-by", mapping, "--bind-to", "core"]
    return ["--map-by", f"slot{sharing_policy}", "--bind-to", "none"]


def _hydra_binding(placement: Placement) -> str:
    """Return the CPUs of each rank of a machine, which Hydra counts as the kernel does."""
    if not placement.cores:
        return "none"
    ranks = (sorted(cpu for core in cores for cpu in core.cpus) for cores in placement.cores)
    return "user:" + ",".join("+".join(map(str, cpus)) for cpus in ranks)
