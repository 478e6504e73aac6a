"""How many threads a fit may use, and who has a say in it."""

import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import threadpoolctl

from snapml import _native
from snapml.solvers import threads
from snapml.solvers.threads import (
    available_threads,
    blas_threads_for,
    limit_blas_threads,
    multiply_blas_threads,
    resolve_n_threads,
)

ENOUGH = 1000 * threads._ENTRIES_PER_THREAD


@pytest.fixture
def eight_available(monkeypatch):
    monkeypatch.setattr(threads, "available_threads", lambda: 8)


@pytest.mark.parametrize(
    ("n_threads", "expected"),
    [(None, 8), (1, 1), (3, 3), (8, 8), (20, 20), (-1, 8), (-2, 7), (-8, 1), (-9, 1), (-100, 1)],
)
@pytest.mark.usefixtures("eight_available")
def test_wish_is_counted_as_joblib_counts(n_threads, expected):
    assert resolve_n_threads(n_threads, ENOUGH) == expected


@pytest.mark.parametrize("n_threads", [0, 1.5, "2", True, False])
def test_other_wishes_are_refused(n_threads):
    with pytest.raises(ValueError, match=f"other than 0, got {n_threads!r}"):
        resolve_n_threads(n_threads, ENOUGH)


@pytest.mark.usefixtures("eight_available")
def test_small_data_get_fewer_threads_than_asked_for():
    per_thread = threads._ENTRIES_PER_THREAD
    sizes = [0, 1, per_thread - 1, per_thread, 2 * per_thread - 1, 2 * per_thread, ENOUGH]
    assert [resolve_n_threads(3, size) for size in sizes] == [1, 1, 1, 1, 1, 2, 3]


def test_nobody_asks_the_system_for_data_of_one_thread(monkeypatch):
    monkeypatch.setattr(threads, "available_threads", None)
    assert resolve_n_threads(None, 2 * threads._ENTRIES_PER_THREAD - 1) == 1
    with pytest.raises(ValueError, match="got 0"):
        resolve_n_threads(0, 1)


@pytest.fixture
def many_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(threads, "_read", lambda path: None)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    threads._cgroup_quota.cache_clear()
    yield monkeypatch
    threads._cgroup_quota.cache_clear()


def test_all_cores_are_available_where_nothing_limits_them(many_cores):
    assert available_threads() == 64


def test_affinity_limits(many_cores):
    many_cores.setattr(os, "sched_getaffinity", lambda pid: {0, 5, 7}, raising=False)
    assert available_threads() == 3


def test_count_of_cores_serves_where_there_is_no_affinity(many_cores):
    many_cores.delattr(os, "sched_getaffinity", raising=False)
    many_cores.setattr(os, "cpu_count", lambda: 6)
    assert available_threads() == 6
    many_cores.setattr(os, "cpu_count", lambda: None)
    assert available_threads() == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [("3", 3), ("3,2", 3), (" 5 ", 5), ("", 64), ("0", 64), ("-1", 64), ("many", 64), ("99", 64)],
)
def test_omp_num_threads_limits(many_cores, value, expected):
    many_cores.setenv("OMP_NUM_THREADS", value)
    assert available_threads() == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "max 100000"}, 64),
        ({"cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "250000 100000"}, 3),
        ({"cpu.max": "10000 100000"}, 1),
        ({"cpu.max": "9900000 100000"}, 64),
        ({"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000"}, 2),
        ({"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, 64),
        ({"cpu.cfs_quota_us": "150000"}, 64),
        ({"cpu.max": "max 100000", "cpu.cfs_quota_us": "1", "cpu.cfs_period_us": "1"}, 1),
        ({}, 64),
    ],
)
def test_quota_of_the_control_group_limits(many_cores, files, expected):
    many_cores.setattr(threads, "_read", lambda path: files.get(path.name))
    assert available_threads() == expected


def test_quota_is_read_once_in_a_second(many_cores):
    many_cores.setattr(time, "monotonic", lambda: 7.0)
    many_cores.setattr(threads, "_read", lambda path: "300000 100000")
    assert available_threads() == 3
    many_cores.setattr(threads, "_read", lambda path: "100000 100000")
    assert available_threads() == 3
    many_cores.setattr(time, "monotonic", lambda: 8.1)
    assert available_threads() == 1


def test_file_that_is_not_there_reads_as_none(tmp_path):
    assert threads._read(tmp_path / "cpu.max") is None
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert threads._read(tmp_path / "cpu.max") == "max 100000"


@pytest.mark.parametrize("user_api", ["snapml", None])
def test_threadpoolctl_limits(user_api):
    with threadpoolctl.threadpool_limits(1, user_api=user_api):
        assert resolve_n_threads(4, ENOUGH) == 1
        assert resolve_n_threads(None, ENOUGH) == 1
    with threadpoolctl.threadpool_limits(3, user_api=user_api):
        assert resolve_n_threads(4, ENOUGH) == 3


def test_threadpoolctl_leaves_no_limit_behind():
    many = available_threads() + 2
    before = resolve_n_threads(many, ENOUGH)
    with threadpoolctl.threadpool_limits(1, user_api="snapml"):
        pass
    assert resolve_n_threads(many, ENOUGH) == before == many
    assert _native.get_thread_limit() == 0


def test_threadpoolctl_lists_the_engine():
    (info,) = threadpoolctl.ThreadpoolController().select(user_api="snapml").info()
    assert info["internal_api"] == "snapml"
    assert info["num_threads"] >= 1


def test_omp_num_threads_is_heard_by_a_fresh_process():
    script = "from snapml.solvers.threads import available_threads; print(available_threads())"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "1"


def in_another_thread(call):
    """Return what a call returns in another thread."""
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


def blas_threads():
    return [
        each["num_threads"]
        for each in threadpoolctl.threadpool_info()
        if each["user_api"] == "blas"
    ]


@pytest.mark.parametrize("by_user", [True, False])
def test_number_of_blas_is_set_from_any_thread(by_user):
    """Whatever thread has set it before, by threadpoolctl or by a fit."""

    def numbers():
        before = blas_threads()
        with limit_blas_threads(1):
            limited = blas_threads()
        with multiply_blas_threads(2):
            return before, limited, blas_threads()

    first = threadpoolctl.threadpool_limits(2, user_api="blas") if by_user else None
    try:
        with limit_blas_threads(2):
            before, limited, multiplied = in_another_thread(numbers)
        assert limited == [1] * len(before)
        assert multiplied == [2 * each for each in before]
        assert blas_threads() == before
    finally:
        if first is not None:
            first.restore_original_limits()


def test_small_matrices_take_one_thread_of_blas():
    with limit_blas_threads(2):
        before = blas_threads()
        with blas_threads_for(200**3 / 3):
            assert blas_threads() == [1] * len(before)
        with blas_threads_for(1e12):
            assert blas_threads() == before
        assert blas_threads() == before


def test_innermost_limit_of_a_thread_holds_and_the_least_of_all_threads():
    before = blas_threads()
    with limit_blas_threads(1):
        with blas_threads_for(1e12, 2):
            assert blas_threads() == [min(2, each) for each in before]
            with limit_blas_threads(1):
                assert blas_threads() == [1] * len(before)
            assert in_another_thread(lambda: limited_by(1)) == [1] * len(before)
            assert blas_threads() == [min(2, each) for each in before]
        assert blas_threads() == [1] * len(before)
    assert blas_threads() == before


def limited_by(number):
    """Return BLAS's threads inside a limit."""
    with limit_blas_threads(number):
        return blas_threads()


def test_blas_on_openmp_keeps_a_number_for_each_thread(monkeypatch):
    own = threading.local()

    class Library(SimpleNamespace):
        num_threads = property(lambda self: getattr(own, "n_threads", 8))

        def set_num_threads(self, n_threads):
            own.n_threads = n_threads

        _real_set_num_threads = set_num_threads

    library = Library(threading_layer="openmp")
    assert threads._is_of_threads(library)
    monkeypatch.setattr(threads, "_blas_libraries", lambda: ([], [library]))

    def inside_and_after():
        with limit_blas_threads(2):
            inside = library.num_threads
        return inside, library.num_threads

    with limit_blas_threads(3):
        assert in_another_thread(inside_and_after) == (2, 8)
        assert library.num_threads == 3
    assert library.num_threads == 8
