"""What tasks and the driver do about faults by themselves; without Spark's JVM."""

import threading
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from snapml.distributed.spark.batch_size import small_batches
from snapml.distributed.spark.meeting import gathered
from snapml.distributed.tcp import PeerError


def test_tasks_that_do_not_come_are_not_waited_for_for_ever():
    may_end = threading.Event()
    context = SimpleNamespace(allGather=lambda own: may_end.wait(20.0))
    with pytest.raises(PeerError, match=r"not all tasks had read their rows after 0\.1 s"):
        gathered(context, "own", 0.1)
    may_end.set()


def test_a_meeting_returns_what_was_said_and_raises_what_it_meets():
    assert gathered(SimpleNamespace(allGather=lambda own: [own, "b"]), "a", 5.0) == ["a", "b"]

    def broken(own):
        raise ConnectionResetError("by Spark")

    with pytest.raises(ConnectionResetError, match="by Spark"):
        gathered(SimpleNamespace(allGather=broken), "a", 5.0)


def test_the_folder_of_a_fit_has_the_permissions_of_its_parent_and_goes(tmp_path):
    pytest.importorskip("pyspark")
    from snapml.distributed.spark.checkpoint_folder import own_folder

    tmp_path.chmod(0o1777)

    def fit():
        with own_folder(str(tmp_path)) as folder, own_folder(str(tmp_path)) as other:
            assert folder != other
            (found,) = (path for path in tmp_path.iterdir() if str(path) == folder)
            assert found.stat().st_mode & 0o7777 == 0o1777
            (found / "state").write_text("state")
            raise KeyError

    with pytest.raises(KeyError):
        fit()
    assert list(tmp_path.iterdir()) == []
    with own_folder(None) as none:
        assert none is None


class Settings(dict):
    """Stands for the settings of a session."""

    set, unset = dict.__setitem__, dict.__delitem__


@pytest.mark.parametrize("before", [{}, {"spark.sql.execution.arrow.maxBytesPerBatch": "7m"}])
def test_the_last_of_several_fits_brings_the_size_of_batches_back(before):
    session = SimpleNamespace(conf=Settings(before))
    with ExitStack() as second:
        with ExitStack() as first:
            for fit in (first, second):
                fit.enter_context(small_batches(session))
        assert list(session.conf.values()) == ["1m"]
    assert session.conf == before
