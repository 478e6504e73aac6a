"""Jobs over several hosts, simulated by network namespaces: models, bytes, a cable that is out."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .launching import JOBS, library, results_of

if not (Path(__file__).parents[2] / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)

from benchmarks.scaling.hosts import SimulatedHosts, why_not

# Less than 5 % of this is what it takes to start the ranks.
SIZE, COUNT = 200_000, 5


def job_of(*arguments):
    return [sys.executable, "-m", "mpi4py", str(JOBS / "on_hosts.py"), *map(str, arguments)]


@pytest.fixture(scope="module")
def can_simulate():
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def mpi(request, can_simulate):
    return library(getattr(request, "param", "Open MPI"))


def run_on(hosts, mpi, ranks_per_host, *arguments):
    job = hosts.run(
        mpi.mpirun, ranks_per_host, job_of(*arguments), environment=mpi.environment, timeout_s=120
    )
    (result,) = results_of(job)
    return result


@pytest.mark.parametrize("mpi", ["Open MPI", "MPICH"], indirect=True)
def test_model_of_two_hosts_is_that_of_all_rows(mpi):
    with SimulatedHosts(2) as hosts:
        found = run_on(hosts, mpi, 2, "model")
    assert len(found["hosts"]) == 4
    assert len(set(found["hosts"])) == 2
    assert found["is_same_on_all"]
    assert found["distance"] <= found["gap"]


def test_wire_carries_what_the_communicator_says(mpi):
    with SimulatedHosts(3) as hosts:
        before = hosts.bytes_sent()
        found = run_on(hosts, mpi, 1, "sums", SIZE, COUNT)
        counted = [now - then for now, then in zip(hosts.bytes_sent(), before, strict=True)]
    least = COUNT * 8 * SIZE * 2 * 2 / 3  # 2 (p - 1) / p times the array
    assert found["is_right"]
    assert found["sent"] == pytest.approx([least] * 3, rel=1e-4)
    assert counted == pytest.approx(found["sent"], rel=0.05)


def test_rate_limit_holds(can_simulate):
    """The scaling measurements rest on it: 2 s of sums at 20 Mbit/s."""
    mpi = library()
    with SimulatedHosts(2) as hosts:
        hosts.limit_rate(20.0)
        found = run_on(hosts, mpi, 1, "sums", 100_000, 6)
    assert found["seconds"] > 0.9 * found["sent"][0] * 8 / 20e6


def test_hosts_are_removed_with_what_runs_on_them(can_simulate):
    mpi = library()
    with SimulatedHosts(2) as hosts:
        sleeper = hosts.start(mpi.mpirun, 1, ["sleep", "600"], environment=mpi.environment)
    sleeper.communicate(timeout=20)
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    assert f"snapml-hosts-{os.getpid()}-" not in listed.stdout


def test_hosts_of_a_dead_process_are_removed_by_the_next(can_simulate):
    dead = subprocess.Popen(["true"])
    dead.wait()
    namespace = f"snapml-hosts-{dead.pid}-1"
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    left = subprocess.Popen(["ip", "netns", "exec", namespace, "sleep", "600"])
    while not subprocess.run(
        ["ip", "netns", "pids", namespace], stdout=subprocess.PIPE, check=True
    ).stdout:
        time.sleep(0.01)
    with SimulatedHosts(1):
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    assert left.wait(timeout=20) != 0
    assert namespace not in listed.stdout
    assert f"snapml-hosts-{os.getpid()}-1" in listed.stdout


def test_unplugged_host_ends_the_job_of_open_mpi(can_simulate):
    """With a heartbeat between its daemons, as docs/mpi.md says; else TCP's patience decides."""
    mpi = library()
    heartbeat = {"time": "2", "intvl": "1", "probes": "3"}
    settings = {f"PRTE_MCA_oob_tcp_keepalive_{name}": s for name, s in heartbeat.items()}
    with SimulatedHosts(2) as hosts:
        job = hosts.start(
            mpi.mpirun, 1, job_of("without_end"), environment={**mpi.environment, **settings}
        )
        assert job.stdout.readline() == "under way\n"
        hosts.cut(1)
        _, stderr = job.communicate(timeout=60)
    assert "lost communication with a remote daemon" in stderr
