"""What tasks and the driver do about faults by themselves; without Spark's JVM."""

import gc
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from snapml.distributed.spark.driver.batch_size import small_batches
from snapml.distributed.spark.tasks.cards import Card, Contact
from snapml.distributed.spark.tasks.meeting import Meeting
from snapml.distributed.tcp import Listener, PeerError

from .spark_tasks import KEY, Tasks


def meeting(context, timeout_s, stack):
    """Return a task's meeting, which ends with a stack."""
    listener = Listener("127.0.0.1")
    stack.callback(listener.close)
    own = Contact(listener.address, ("host", 1), ("host", 2), {"snapml": "1"})
    found = Meeting(context, own, listener, KEY, timeout_s)
    stack.callback(found.close)
    return found


def test_tasks_that_do_not_come_are_not_waited_for_for_ever():
    may_end = threading.Event()
    context = SimpleNamespace(allGather=lambda own: may_end.wait(20.0))
    with ExitStack() as stack:
        found = meeting(context, 0.1, stack)
        with pytest.raises(PeerError, match=r"not all tasks had begun after 0\.1 s"):
            found.contacts()
        may_end.set()


def test_a_meeting_raises_what_it_meets():
    def broken(own):
        raise ConnectionResetError("by Spark")

    with ExitStack() as stack:
        found = meeting(SimpleNamespace(allGather=broken), 5.0, stack)
        for ask in (found.contacts, lambda: found.cards(Card(None, 1, None))):
            with pytest.raises(ConnectionResetError, match="by Spark"):
                ask()


def test_a_task_that_does_not_read_its_rows_is_not_waited_for_for_ever():
    tasks = Tasks([None] * 2)
    with ExitStack() as stack:
        own, other = (meeting(tasks.context(k), 1.0, stack) for k in range(2))
        assert own.contacts() == other.contacts()
        with pytest.raises(PeerError, match="nothing moved to or from rank 1 for 1 s"):
            own.cards(Card(None, 3, "a"))
    assert not [each for each in threading.enumerate() if each.name == "snapml meeting"]


def test_tasks_that_have_shown_their_cards_hold_no_connections():
    def open_sockets():
        found = (each for each in gc.get_objects() if isinstance(each, socket.socket))
        return {each.fileno() for each in found} - {-1}

    before, tasks, size = open_sockets(), Tasks([None] * 4), 4
    with ExitStack() as stack, ThreadPoolExecutor(size) as pool:
        meetings = [meeting(tasks.context(k), 10.0, stack) for k in range(size)]
        cards = [Card(None, k, "a") for k in range(size)]
        for shown in pool.map(lambda own, card: own.cards(card), meetings, cards):
            assert shown == cards
        assert open_sockets() == before


def test_the_folder_of_a_fit_has_the_permissions_of_its_parent_and_goes(tmp_path):
    pytest.importorskip("pyspark")
    from snapml.distributed.spark.driver.checkpoint_folder import own_folder

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


def sessions_of(conf):
    """Return two Python objects that stand for one session."""
    return [SimpleNamespace(conf=conf, session_id="1") for _ in range(2)]


@pytest.mark.parametrize("before", [{}, {"spark.sql.execution.arrow.maxBytesPerBatch": "7m"}])
def test_the_last_of_several_fits_brings_the_size_of_batches_back(before):
    conf = Settings(before)
    with ExitStack() as second:
        with ExitStack() as first:
            for fit, session in zip((first, second), sessions_of(conf), strict=True):
                fit.enter_context(small_batches(session))
        assert list(conf.values()) == ["1m"]
    assert conf == before


def test_a_platform_that_refuses_the_size_of_batches_is_warned_of(caplog):
    class Refusing(Settings):
        def set(self, name, value):
            raise PermissionError(f"{name} is not for users")

    conf = Refusing()
    for session in sessions_of(conf):
        with small_batches(session):
            pass
    messages = [record.getMessage() for record in caplog.records]
    name = "spark.sql.execution.arrow.maxBytesPerBatch"
    assert messages == [f"{name}=1m was refused: {name} is not for users"] * 2


def test_a_session_that_ends_inside_a_fit_does_not_hide_why(caplog):
    conf = Settings()

    def fit():
        with small_batches(sessions_of(conf)[0]):
            conf.clear()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit()
    (record,) = caplog.records
    assert "could not be set back to None" in record.getMessage()
