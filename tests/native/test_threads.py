"""Threads of the engine beside forks, other Python threads, and signals."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from snapml import _native
from snapml.problems import Logistic

from .shards import Shard

FLOAT64 = np.dtype(np.float64)
FORK_SCRIPT = """
    import os, sys
    import numpy as np
    from snapml import _native

    X = np.random.default_rng(0).normal(size=(500, 20))
    y = np.sign(X[:, 0])
    norms = (X * X).sum(axis=1)
    rows = _native.Rows.dense(X)

    def epoch(pool):
        duals, shared = 80.0 * y, np.zeros(21)
        shard = _native.Shard.make(y, None, 1.0, norms, duals, shared, 0.0, 0.0)
        _native.dual_epoch(pool, rows, "Logistic", shard, np.empty((2, 21)), sigma=2.0, outer=1.0,
                           relaxation=1.0, rounds=3, block_rows=16, seed=0, epoch=0)
        return shared

    old_pool = _native.ThreadPool(2)
    expected = epoch(old_pool)
    child = os.fork()
    if child == 0:
        pools = old_pool, _native.ThreadPool(2)
        same = all(np.array_equal(epoch(pool), expected) for pool in pools)
        del old_pool, pools
        os._exit(0 if same else 1)
    _, status = os.waitpid(child, 0)
    assert np.array_equal(epoch(old_pool), expected)
    sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_forked_child_runs_epochs_on_an_inherited_pool_and_on_its_own():
    script = textwrap.dedent(FORK_SCRIPT)
    # Python 3.12 warns of any fork beside threads; that it is safe here is what this test shows.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script]
    try:  # what takes time are the imports: a minute, where the processor is an emulated one
        process = subprocess.run(command, timeout=300, capture_output=True)
    except subprocess.TimeoutExpired:
        pytest.fail("an epoch after fork() hung")
    assert process.returncode == 0, process.stderr.decode()


def test_two_python_threads_run_epochs_on_two_pools_at_once():
    def make_shards():
        return [Shard(Logistic(), FLOAT64, n_threads=2, n_rows=3000, seed=s) for s in (0, 1)]

    def run(shard):
        for epoch in range(20):
            shard.run_epoch(epoch, rounds=4)

    alone, together = make_shards(), make_shards()
    for shard in alone:
        run(shard)
    threads = [threading.Thread(target=run, args=(shard,)) for shard in together]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "an epoch hung"
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one.shared, other.shared)


def test_pools_leave_no_thread_behind():
    def threads():
        return {entry.name for entry in Path("/proc/self/task").iterdir()}

    if sys.platform != "linux":
        pytest.skip("threads are listed in /proc, which only Linux has")
    before = threads()  # some of other libraries may be about to end
    pool = _native.ThreadPool(4)
    _native.penalty_value(pool, np.ones(10))
    started = threads() - before
    assert len(started) == 3
    del pool
    assert not started & threads()


class Alarm(Exception):
    """Raised by a signal handler in the middle of a long call."""


def raise_alarm(signum, frame):
    raise Alarm


def run_with_alarm(call):
    """Run what a signal is to interrupt soon; the engine asks for signals every 50 ms."""
    before = signal.signal(signal.SIGALRM, raise_alarm)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=[1, 2], ids=["1-thread", "2-threads"])
def long_shard(request):
    """Most of a second of work; all rows are one row in memory."""
    entries = np.broadcast_to(np.ones(2000, dtype=np.float32), (1_000_000, 2000))
    pool = _native.ThreadPool(request.param)
    duals, shared = np.ones(len(entries), np.float32), np.zeros(2001, np.float32)
    norms = np.full(len(entries), 2000.0, np.float32)
    labels = np.ones(len(entries), np.float32)
    native = _native.Shard.make(labels, None, 1e-9, norms, duals, shared, 0.0, 0.0)
    return (pool, _native.Rows.dense(entries), "Squared", native), duals


def test_signal_ends_an_epoch_early(long_shard):
    shard, duals = long_shard
    replicas = np.empty((2, 2001), np.float32) if shard[0].size == 2 else None
    options = dict(outer=1.0, relaxation=1.0, rounds=1, block_rows=16, seed=0, epoch=0)
    epoch = partial(_native.dual_epoch, *shard, replicas, sigma=float(shard[0].size), **options)
    with pytest.raises(Alarm):
        run_with_alarm(epoch)
    assert np.count_nonzero(duals == 1) > 0  # rows that were not visited
    assert _native.penalty_value(shard[0], np.ones(2)) == 1.0  # the pool still works


def test_signal_ends_an_exact_sweep_early(long_shard):
    shard, duals = long_shard
    margins, adjoints = np.full(len(duals), np.nan), np.empty((shard[0].size, 2001))
    with pytest.raises(Alarm):
        run_with_alarm(partial(_native.exact_sweep, *shard, 1.0, 1.0, margins, adjoints))
    assert np.count_nonzero(np.isnan(margins)) > 0
    assert _native.penalty_value(shard[0], np.ones(2)) == 1.0


def test_error_in_a_worker_reaches_the_caller():
    indices = np.zeros(100, dtype=np.int32)
    indices[90] = 1
    with pytest.raises(ValueError, match="got 1 at position 90"):
        _native.Rows.compressed(
            _native.ThreadPool(2), np.arange(101, dtype=np.int32), indices, None, 1.0, True, 1
        )


def test_share_of_a_worker_does_not_depend_on_the_thread_that_does_it():
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("threads cannot be kept on one core here")

    def epochs():
        shard = Shard(Logistic(), FLOAT64, n_threads=5, n_rows=3000, seed=0)
        for epoch in range(10):
            shard.run_epoch(epoch, rounds=4)
        return shard.shared

    free, allowed = epochs(), os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})  # threads that are started now too
        confined = epochs()
    finally:
        os.sched_setaffinity(0, allowed)
    np.testing.assert_array_equal(free, confined)
