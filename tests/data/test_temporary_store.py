"""Folders of temporary stores: gone with the statement, and after a crash with the next one."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from snapml.data.store.temporary_store import removing_temporary_stores, temporary_store_path

CHILD = """
import time
from snapml.data.store.temporary_store import removing_temporary_stores, temporary_store_path
with removing_temporary_stores():
    path = temporary_store_path()
    path.mkdir()
    (path / "chunk-00000000").write_bytes(b"rows")
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def used():
    path = temporary_store_path()
    path.mkdir()
    (path / "chunk-00000000").write_bytes(b"rows")
    return path


@pytest.fixture
def child():
    process = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_folder_goes_with_the_statement(temporary, error):
    def use():
        with removing_temporary_stores():
            assert used().exists()
            if error is not None:
                raise error

    if error is None:
        use()
    else:
        with pytest.raises(error):
            use()
    assert list(temporary.iterdir()) == []


def test_folder_of_a_killed_process_goes_with_the_next(temporary, child):
    child.send_signal(signal.SIGKILL)
    child.wait()
    [left] = temporary.iterdir()
    with removing_temporary_stores():
        path = used()
        assert not left.exists()
        assert path.exists()
    assert list(temporary.iterdir()) == []


def test_folder_of_a_living_process_stays(temporary, child):
    [living] = temporary.iterdir()
    with removing_temporary_stores():
        used()
    assert list(temporary.iterdir()) == [living]
    assert (living / "rows" / "chunk-00000000").read_bytes() == b"rows"


def test_folder_of_another_fit_in_this_process_stays():
    with removing_temporary_stores():
        outer = used()
        with removing_temporary_stores():
            used()
        assert outer.exists()


def test_what_others_have_is_left_alone(temporary):
    (temporary / "snapml-store-file").write_text("no folder")
    target = temporary / "elsewhere"
    (target / "rows").mkdir(parents=True)
    (target / "lock").touch()
    (temporary / "snapml-store-link").symlink_to(target)
    (temporary / "snapml-store-mine").mkdir()
    (temporary / "snapml-store-mine" / "notes").touch()
    before = sorted(temporary.rglob("*"))
    with removing_temporary_stores():
        used()
    assert sorted(temporary.rglob("*")) == before


def test_forked_child_leaves_the_folder_to_its_parent():
    with removing_temporary_stores():
        path = used()
        code = os.fork() if threading.active_count() == 1 else None
        if code is None:
            pytest.skip("other threads run: a fork would copy their locks")
        if code == 0:
            try:
                raise SystemExit
            except SystemExit:
                from snapml.data.store import temporary_store

                temporary_store._scope.get().close()
            finally:
                os._exit(0)
        os.waitpid(code, 0)
        assert path.exists()


def test_threads_that_fit_at_once_keep_theirs(temporary):
    errors = []

    def fit():
        try:
            for _ in range(20):
                with removing_temporary_stores():
                    path = used()
                    assert (path / "chunk-00000000").read_bytes() == b"rows"
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=fit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert list(temporary.iterdir()) == []


def test_outside_of_the_statement_there_is_none():
    with pytest.raises(RuntimeError, match="removing_temporary_stores"):
        temporary_store_path()


def test_too_little_room_is_an_error():
    with removing_temporary_stores(), pytest.raises(OSError, match="are free: expected a larger"):
        temporary_store_path(2**62)
