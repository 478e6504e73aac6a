"""What a machine has: cores in hwloc's order, GPUs and the CPUs near them."""

import os
import subprocess
import sys

import pytest

from snapml_run.cores import find_machine, order_cores, parse_cpus
from snapml_run.gpus import find_gpus, parse_listing

from .machines import write_nvidia_smi, write_system


def test_list_of_cpus():
    assert parse_cpus("0-3,8\n") == {0, 1, 2, 3, 8}
    assert parse_cpus("\n") == frozenset()


def test_threads_of_a_core_stand_together(tmp_path):
    system = write_system(tmp_path, packages=[2, 2], threads=2)
    assert [core.cpus for core in order_cores(system, range(8))] == [(0, 4), (1, 5), (2, 6), (3, 7)]


def test_packages_are_numbered_one_after_the_other_however_their_cpus_are(tmp_path):
    system = write_system(tmp_path, packages=[3, 3], interleaved=True)
    cores = order_cores(system, range(6))
    assert [core.cpus for core in cores] == [(0,), (2,), (4,), (1,), (3,), (5,)]
    assert [core.number for core in cores] == list(range(6))


def test_cores_that_are_withheld_have_no_number(tmp_path):
    system = write_system(tmp_path, packages=[4], threads=2)
    found = [(core.number, core.cpus) for core in order_cores(system, [2, 3, 7])]
    assert found == [(0, (2,)), (1, (3, 7))]


def test_shared_caches_divide_a_package(tmp_path):
    system = write_system(tmp_path, packages=[4])
    for cpu in range(4):
        folder = system / f"devices/system/cpu/cpu{cpu}/cache/index3"
        folder.mkdir(parents=True)
        (folder / "shared_cpu_list").write_text("0,2\n" if cpu % 2 == 0 else "1,3\n")
    assert [core.cpus for core in order_cores(system, range(4))] == [(0,), (2,), (1,), (3,)]


def test_this_machine_has_the_cpus_of_this_process():
    found = find_machine()
    assert os.sched_getaffinity(0) <= {cpu for core in found.cores for cpu in core.cpus}
    assert 1 <= found.n_usable <= len(found.cores)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this process has one CPU")
def test_process_bound_to_some_cpus_is_told_apart():
    script = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from snapml_run.cores import find_machine; m = find_machine();"
        "print(m.n_usable, len(m.cores) > 1, m.why_unbound, len(os.sched_getaffinity(0)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "1 True this process is bound to some of the CPUs itself 1\n", done.stderr


@pytest.mark.parametrize(
    ("files", "n_usable"),
    [
        ({"cpu.max": "100000 100000"}, 1),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
    ],
)
def test_quota_of_the_control_group_limits_the_cores(tmp_path, files, n_usable):
    for name, text in files.items():
        path = tmp_path / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    found = find_machine(tmp_path)
    if n_usable is None or len(found.cores) == n_usable:
        assert found.n_usable == len(os.sched_getaffinity(0))
    else:
        assert found.n_usable == n_usable
        assert "quota" in found.why_unbound


@pytest.fixture
def four_gpus(tmp_path, monkeypatch):
    """Return a machine with four GPUs, two on each package, and its nvidia-smi."""
    (tmp_path / "bin").mkdir()
    write_nvidia_smi(tmp_path / "bin", 4)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return write_system(tmp_path / "sys", packages=[4, 4], gpus=[0, 0, 1, 1])


def test_gpus_and_the_cpus_near_them(four_gpus):
    found, trouble = find_gpus({}, four_gpus)
    assert trouble is None
    assert [gpu.index for gpu in found] == ["0", "1", "2", "3"]
    assert [min(gpu.near_cpus) for gpu in found] == [0, 0, 4, 4]


@pytest.mark.parametrize(
    ("visible", "indices"),
    [
        ("2,0", ["2", "0"]),
        ("GPU-3a00,1", ["3", "1"]),
        ("1,9,0", ["1"]),
        ("0,-1,1", ["0"]),
        ("", []),
        ("NoDevFiles", []),
        ("MIG-abc,MIG-def", ["MIG-abc", "MIG-def"]),
    ],
)
def test_variable_of_cuda_chooses(four_gpus, visible, indices):
    found, _ = find_gpus({"CUDA_VISIBLE_DEVICES": visible}, four_gpus)
    assert [gpu.index for gpu in found] == indices


def test_without_a_listing_the_variable_is_believed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_gpus({}) == ((), None)
    found, _ = find_gpus({"CUDA_VISIBLE_DEVICES": "0,1"})
    assert len(found) == 2


def test_driver_that_does_not_answer_is_reported(tmp_path, monkeypatch):
    path = tmp_path / "nvidia-smi"
    path.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found, trouble = find_gpus({})
    assert found == ()
    assert trouble == f"{path}: NVIDIA-SMI has failed"


def test_gpu_whose_memory_node_is_unknown_is_near_no_cpu(tmp_path):
    system = write_system(tmp_path, packages=[2], gpus=[-1])
    (found,) = parse_listing("0, GPU-1, 00000000:01:00.0\n", system)
    assert found.near_cpus == frozenset()
    (found,) = parse_listing("0, GPU-1, 00000000:77:00.0\nNo more\n", system)
    assert found.near_cpus == frozenset()
