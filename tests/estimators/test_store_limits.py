"""Fits on stores keep their promises: peak memory, Ctrl-C, reads ahead, and errors of the disk."""

import json
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

from snapml import LogisticRegression
from snapml.data import ChunkedDataset, ChunkedMatrix, ChunkWriter
from snapml.data.store import chunk_reader, chunked_matrix

from .conftest import run_python

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").is_file(), reason="no /proc/self/status on this platform"
)

MIB = 2**20


def report_of(code, timeout_s=110):
    """Run code in a fresh interpreter and return the JSON it prints last."""
    return json.loads(run_python(textwrap.dedent(code), timeout_s=timeout_s).splitlines()[-1])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A store of 128 MiB of dense rows in chunks of 4 MiB."""
    path = tmp_path_factory.mktemp("limits") / "store"
    rng = np.random.default_rng(0)
    with ChunkWriter(path, chunk_bytes=4 * MIB) as writer:
        for _ in range(16):
            X = rng.normal(size=(20_480, 100)).astype(np.float32)
            writer.append(X, X[:, 0] + rng.normal(size=len(X)) > 0)
    return path


@pytest.mark.parametrize("storage", ["plain", "uint8"])
def test_peak_memory_of_a_fit_is_the_limit_and_what_rows_need_beside_it(tmp_path, path, storage):
    """32 MiB for rows; a sample of rows, and labels, weights and margins, come on top."""
    if storage != "plain":
        store = ChunkedDataset.open(path)
        path = tmp_path / "narrow"
        with ChunkWriter(path, chunk_bytes=4 * MIB, storage=storage) as writer:
            for number, matrix in store.matrices():
                rows = slice(*store.chunk_rows[number : number + 2])
                writer.append(matrix.values, store.labels()[rows])
    before, after, n_iter = report_of(
        f"""
        import json, re
        from pathlib import Path
        import numpy as np
        from snapml import LogisticRegression
        from snapml.data import ChunkedDataset

        def megabytes(name):
            text = Path("/proc/self/status").read_text()
            return int(re.search(name + r":\\s+(\\d+)", text)[1]) / 1024

        rows = np.random.default_rng(0).normal(size=(2000, 100)).astype(np.float32)
        LogisticRegression(n_threads=1).fit(rows, rows[:, 0] > 0)  # imports what a fit imports
        store = ChunkedDataset.open({str(path)!r})
        before = megabytes("VmRSS")
        model = LogisticRegression(n_threads=1, memory_limit="32MiB").fit(store)
        print(json.dumps([before, megabytes("VmHWM"), int(model.n_iter_[0])]))
        """
    )
    per_row = 327_680 * (8 + 8 + 4 + 2 * 8 + 16) / MIB  # labels twice, signs, margins, temporaries
    sample = 24
    assert n_iter > 2
    assert 16 < after - before < 32 + per_row + sample


@pytest.mark.parametrize("when", ["first pass", "later passes"])
def test_sigint_ends_a_fit_on_a_store_at_once_and_leaves_no_thread(path, when):
    late = report_of(
        f"""
        import json, os, signal, threading, time
        from snapml import LogisticRegression
        from snapml.data import ChunkedDataset
        from snapml.solvers.rows.streaming_engine import StreamingEngine

        is_first = {when == "first pass"}
        passes = threading.Event()
        plain = StreamingEngine.fused_pass
        def fused_pass(self, *args, **options):
            if is_first:
                passes.set()
            found = plain(self, *args, **options)
            passes.set()
            return found
        StreamingEngine.fused_pass = fused_pass

        late = []
        for wait_s in (0.001, 0.02, 0.04, 0.06, 0.08):
            store = ChunkedDataset.open({str(path)!r}, memory_limit="32MiB")
            model = LogisticRegression(tol=0, max_iter=10**9, n_threads=2)
            passes.clear()
            sent = []
            def send():
                passes.wait()
                time.sleep(wait_s)
                sent.append(time.perf_counter())
                os.kill(os.getpid(), signal.SIGINT)
            before = len(os.listdir("/proc/self/task"))
            sender = threading.Thread(target=send)
            sender.start()
            try:
                model.fit(store)
            except KeyboardInterrupt:
                late.append(time.perf_counter() - sent[0])
            sender.join()
            time.sleep(0.02)
            assert len(os.listdir("/proc/self/task")) <= before, os.listdir("/proc/self/task")
            assert not hasattr(model, "coef_")
        print(json.dumps(late))
        """
    )
    print("late by (s): median", np.median(late), "largest", max(late))
    assert len(late) == 5
    assert np.median(late) < 0.5
    assert max(late) < 1.0  # on a machine that does other things as well


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_FSIZE ends a write as a full disk does")
@pytest.mark.parametrize("append", [False, True])
def test_disk_that_is_full_is_named_and_nothing_is_left(tmp_path, append):
    path = tmp_path / "store"
    if append:
        with ChunkWriter(path) as writer:
            writer.append(np.ones((3, 100)))
    before = sorted(tmp_path.rglob("*"))
    error = report_of(
        f"""
        import json, resource, signal
        import numpy as np
        from snapml.data import ChunkWriter

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            with ChunkWriter({str(path)!r}, chunk_bytes=2**20, append={append}) as writer:
                for _ in range(10):
                    writer.append(np.ones((1000, 100)))
            print(json.dumps(None))
        except OSError as error:
            print(json.dumps([str(error), error.filename]))
        """
    )
    assert error is not None
    assert "File too large" in error[0]
    assert error[1] is not None
    assert "chunk-0000000" in error[1]
    assert sorted(tmp_path.rglob("*")) == before


def test_error_of_a_read_reaches_the_caller_of_fit(path, monkeypatch):
    before, plain, n_reads = set(threading.enumerate()), chunk_reader._filled, []

    def failing(stream, memory):
        if threading.current_thread().name.startswith("snapml-chunks"):
            n_reads.append(len(memory))
            if len(n_reads) == 2000:
                raise OSError(5, "Input/output error")
        return plain(stream, memory)

    monkeypatch.setattr(chunk_reader, "_filled", failing)
    model = LogisticRegression(tol=0, memory_limit="32MiB")
    with pytest.raises(OSError, match=r"Input/output error: .*chunk-000000"):
        model.fit(path)
    # Of 16 pieces a chunk: no more than is asked for ahead, while the caller wakes up.
    assert 2000 <= len(n_reads) <= 2000 + 16 * chunked_matrix._BUFFERS
    assert not set(threading.enumerate()) - before  # those of others may have ended
    assert not hasattr(model, "coef_")


def test_reader_waits_for_a_slow_caller(path, monkeypatch):
    """It is never more than its buffers ahead of what was handed over."""
    n_begun, plain = [], ChunkedDataset.matrix

    def matrix(self, number, buffer=None):
        n_begun.append(number)
        return plain(self, number, buffer)

    monkeypatch.setattr(ChunkedDataset, "matrix", matrix)
    ahead, full = [], threading.Event()
    for turn, _ in enumerate(ChunkedMatrix(ChunkedDataset.open(path), 0).chunks(), start=1):
        full.wait(0.02)  # as long as several reads
        ahead.append(len(n_begun) - turn)
    assert max(ahead) == 2  # with the one that is worked on, three buffers
