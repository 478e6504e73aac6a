"""Command lines, rank files and variables, in the words of each MPI; which MPI it is."""

import re
import shlex
from pathlib import Path

import pytest

from snapml_run.arguments import make_parser, parse
from snapml_run.command import build_command, chosen_variables, rank_file
from snapml_run.cores import Core
from snapml_run.mpi_library import Mpi, check_library, parse_version
from snapml_run.placement import Placement
from snapml_run.refusal import Refusal

DOCUMENT = Path(__file__).parents[2] / "docs" / "launcher.md"
VERSIONS = Path(__file__).parent / "versions"
OPEN_MPI_4 = Mpi("openmpi4", "4.1.4", "/usr/bin/mpirun")
OPEN_MPI_5 = Mpi("openmpi5", "5.0.11", "/venv/bin/mpirun")
MPICH = Mpi("mpich", "5.0.2", "/venv/bin/mpirun")
TWO_HOSTS = Placement(
    hosts=(("a", 2), ("b", 1)),
    cores=((Core(0, (0, 4)), Core(1, (1, 5))), (Core(2, (2, 6)), Core(3, (3, 7)))),
    n_threads=2,
    is_crowded=False,
)
UNBOUND = Placement(hosts=(("localhost", 4),), cores=(), n_threads=1, is_crowded=True)


def command(mpi, placement, **settings):
    settings = {
        "rank_file_path": "F" if rank_file(mpi, placement) else None,
        "variables": {"A": "1", "B": "x y"},
        "may_crowd": False,
        "leaves_mapping": False,
        "runs_as_root": False,
        "further": [],
        **settings,
    }
    return " ".join(build_command(mpi, placement, ["python", "fit.py"], **settings))


def test_rank_file_names_machine_and_cores():
    text = "rank 0=a slot=0,1\nrank 1=a slot=2,3\nrank 2=b slot=0,1\n"
    assert rank_file(OPEN_MPI_4, TWO_HOSTS) == text
    assert rank_file(OPEN_MPI_5, TWO_HOSTS) == text
    assert rank_file(MPICH, TWO_HOSTS) is None
    assert rank_file(OPEN_MPI_5, UNBOUND) is None


def test_bound_ranks_of_open_mpi_5():
    assert command(OPEN_MPI_5, TWO_HOSTS) == (
        "/venv/bin/mpirun -n 3 --host a:2,b:1 --map-by rankfile:file=F --bind-to core -x A -x B "
        "python fit.py"
    )


def test_bound_ranks_of_open_mpi_4():
    assert command(OPEN_MPI_4, TWO_HOSTS) == (
        "/usr/bin/mpirun -n 3 --host a:2,b:1 --rankfile F --bind-to core -x A -x B python fit.py"
    )


def test_bound_ranks_of_mpich_by_the_kernels_cpus():
    assert command(MPICH, TWO_HOSTS) == (
        "/venv/bin/mpirun -n 3 -hosts a:2,b:1 -bind-to user:0+1+4+5,2+3+6+7 -genvnone -genv A 1 "
        "-genv B x y python fit.py"
    )


def test_unbound_ranks_that_share_cores():
    assert command(OPEN_MPI_5, UNBOUND, may_crowd=True, variables={}) == (
        "/venv/bin/mpirun -n 4 --host localhost:4 --map-by slot:OVERSUBSCRIBE --bind-to none "
        "python fit.py"
    )
    assert command(OPEN_MPI_4, UNBOUND, may_crowd=True, variables={}) == (
        "/usr/bin/mpirun -n 4 --host localhost:4 --map-by slot --bind-to none --oversubscribe "
        "python fit.py"
    )
    assert command(MPICH, UNBOUND, may_crowd=True, variables={}) == (
        "/venv/bin/mpirun -n 4 -hosts localhost:4 -bind-to none -genvnone python fit.py"
    )


def test_bound_ranks_where_more_than_places_are_allowed():
    assert "--map-by rankfile:file=F:OVERSUBSCRIBE --bind-to core " in command(
        OPEN_MPI_5, TWO_HOSTS, may_crowd=True
    )
    assert "--rankfile F --bind-to core --oversubscribe " in command(
        OPEN_MPI_4, TWO_HOSTS, may_crowd=True
    )


@pytest.mark.parametrize("mpi", [OPEN_MPI_4, OPEN_MPI_5, MPICH])
def test_further_arguments_come_last_before_the_program(mpi):
    assert command(mpi, TWO_HOSTS, further=["--x", "y z"]).endswith(" --x y z python fit.py")


def test_mapping_can_be_left_to_the_mpi_and_the_user():
    for mpi in (OPEN_MPI_4, OPEN_MPI_5, MPICH):
        text = command(mpi, UNBOUND, leaves_mapping=True, further=["--bind-to", "socket"])
        assert text.count("bind-to") == 1
        assert "map-by" not in text


def test_consent_to_run_as_root_is_open_mpis_alone():
    for mpi in (OPEN_MPI_4, OPEN_MPI_5):
        assert " --allow-run-as-root python" in command(mpi, UNBOUND, runs_as_root=True)
    assert "root" not in command(MPICH, UNBOUND, runs_as_root=True)


def test_variables_that_ranks_elsewhere_would_lack():
    environment = dict.fromkeys(
        ["HOME", "PYTHONPATH", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "SNAPML_CACHE_DIR", "MY"],
        "1",
    )
    assert list(chosen_variables(environment, ["MY", "NOT_SET"], keeps_devices=False)) == [
        "CUDA_VISIBLE_DEVICES",
        "MY",
        "OMP_NUM_THREADS",
        "PYTHONPATH",
        "SNAPML_CACHE_DIR",
    ]


def test_devices_that_a_scheduler_gives_each_machine_stay_its_own():
    environment = {"CUDA_VISIBLE_DEVICES": "0"}
    assert chosen_variables(environment, [], keeps_devices=True) == {}
    named = ["CUDA_VISIBLE_DEVICES"]
    assert chosen_variables(environment, named, keeps_devices=True) == {"CUDA_VISIBLE_DEVICES": "0"}


@pytest.mark.parametrize(
    ("file", "kind", "version"),
    [
        ("openmpi_4.1.4.txt", "openmpi4", "4.1.4"),
        ("openmpi_4.1.4_debian.txt", "openmpi4", "4.1.4"),
        ("openmpi_5.0.11.txt", "openmpi5", "5.0.11"),
        ("mpich_5.0.2.txt", "mpich", "5.0.2"),
    ],
)
def test_kind_of_a_recorded_version(file, kind, version):
    found = parse_version((VERSIONS / file).read_text(), "mpirun")
    assert (found.kind, found.version) == (kind, version)


@pytest.mark.parametrize(
    ("text", "came"),
    [
        ((VERSIONS / "intel_2021.18.1.txt").read_text(), r"Intel\(R\) MPI Library for Linux"),
        ("mpirun (Open MPI) 3.1.6\n", r"Open MPI\) 3.1.6"),
        ("mpirun (IBM Spectrum MPI) 10.4\n", "IBM Spectrum"),
        ("prterun (PRRTE) 3.0.5\n", "PRRTE"),
        ("", "nothing"),
    ],
)
def test_other_kinds_are_refused_with_what_came(text, came):
    with pytest.raises(Refusal, match=rf"expected Open MPI from 4 or MPICH, got '.*{came}"):
        parse_version(text, "mpirun")


LIBRARIES = {
    "openmpi4": "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4",
    "openmpi5": "Open MPI v5.0.11, package: Open MPI user@localhost, ident: 5.0.11",
    "mpich": "MPICH Version:      5.0.2\nMPICH Release date: Fri Sep 25",
    "intel": "Intel(R) MPI Library 2021.18.1 for Linux* OS\n",
}


@pytest.mark.parametrize("mpi", [OPEN_MPI_4, OPEN_MPI_5, MPICH], ids=lambda mpi: mpi.kind)
@pytest.mark.parametrize("library", LIBRARIES)
def test_mpirun_and_library_must_be_of_one_kind(mpi, library):
    answer = f"4.1.2\n{LIBRARIES[library]}"
    if library == mpi.kind:
        check_library(mpi, answer)
    else:
        with pytest.raises(Refusal, match=r"mpi4py loads the library .* would be rank 0 of 1"):
            check_library(mpi, answer)


def test_old_mpi4py_is_refused():
    with pytest.raises(Refusal, match=r"expected mpi4py from 4.1, got 3.1.6"):
        check_library(OPEN_MPI_5, "3.1.6\n" + LIBRARIES["openmpi5"])
    check_library(OPEN_MPI_5, "4.10.0\n" + LIBRARIES["openmpi5"])


@pytest.mark.parametrize(
    ("arguments", "program"),
    [
        (["-n", "2", "fit.py", "--its", "-n", "3"], ["fit.py", "--its", "-n", "3"]),
        (["--dry-run", "-n2", "fit.py", "--", "--x"], ["fit.py", "--", "--x"]),
        (["--ranks=2", "-m", "package.fit", "--check"], ["-m", "package.fit", "--check"]),
        (["-n", "2", "--", "-odd.py", "a b"], ["-odd.py", "a b"]),
        (["-n", "2", "--mpi-args=--mca btl tcp", "fit.py"], ["fit.py"]),
        (["-n", "2", "--check"], []),
        (["-np", "2", "-v", "-x", "A=1", "fit.py", "-np", "3"], ["fit.py", "-np", "3"]),
        (["-np", "2", "-H", "a,b", "--mpiarg", "-q", "--verbose", "fit.py"], ["fit.py"]),
        (["--accelerators", "2", "--host", "a,b", "-np", "2", "fit.py"], ["fit.py"]),
    ],
)
def test_options_of_the_launcher_end_where_the_program_begins(arguments, program):
    options, found = parse(arguments)
    assert found == program
    assert options.n_ranks == 2


def test_names_of_other_launchers_mean_the_same():
    known = "-np 4 -H a:2,b:2 -x NAME --accelerators 2 --mpiarg=-q fit.py"
    own = "--ranks 4 --hosts a:2,b:2 --env NAME --gpus 2 --mpi-args=-q fit.py"
    assert parse(known.split()) == parse(own.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n", "0", "fit.py"], "invalid number from 1 value: '0'"),
        (["-n", "two", "fit.py"], "invalid number from 1 value: 'two'"),
        (["-n", "2"], "expected a script, -m MODULE, or --check"),
        (["-n", "2", "-m"], "-m: expected a module"),
        (["--check", "fit.py"], "--check runs no script: got fit.py"),
        (["--hosts", "a", "--hostfile", "f", "x.py"], "expected --hosts or --hostfile, got both"),
        (["--oversub", "fit.py"], "unrecognized arguments: --oversub"),
    ],
)
def test_bad_usage_says_what_was_expected(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        parse(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_document_lists_every_option():
    text = DOCUMENT.read_text()
    table = text.split("| option | |")[1].split("\n\n")[0]
    first = re.findall(r"^\| (`[^|]*`) \|", table, re.M)
    listed = {name for cell in first for name in re.findall(r"`(--?[\w-]+)`", cell)}
    offered = {
        name
        for action in make_parser()._actions
        for name in action.option_strings
        if name not in ("-h", "--help")
    }
    assert listed == offered
    assert all(action.help for action in make_parser()._actions)


def test_commands_of_pages_are_understood():
    pages = [DOCUMENT.parents[1] / "README.md", *sorted(DOCUMENT.parent.glob("*.md"))]
    blocks = [b for page in pages for b in re.findall(r"```bash\n(.*?)```", page.read_text(), re.S)]
    found = re.findall(r"(?:^|exec )snapml-run (.*)$", "".join(blocks), re.M)
    assert len(found) >= 8
    for line in found:
        options, program = parse(shlex.split(line, comments=True))
        assert options.check != bool(program), line
