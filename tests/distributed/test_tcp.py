"""Connections between ranks over TCP, of which a test plays all, one a thread."""

import contextlib
import errno
import math
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snapml.distributed.tcp import Listener, Mesh, PeerError, TcpGroup
from snapml.distributed.tcp.communicator import TcpCommunicator
from snapml.distributed.tcp.values import from_bytes, to_bytes

KEY = b"a secret of the job"


def on_ranks(size, work, keys=None, timeout_s=10.0):
    """Run `work(mesh)` on each of some ranks, in threads; return the results or exceptions."""
    listeners = [Listener("127.0.0.1") for _ in range(size)]
    addresses = [listener.address for listener in listeners]

    def run(rank):
        key = KEY if keys is None else keys[rank]
        try:
            mesh = Mesh(listeners[rank], addresses, rank, key, timeout_s)
        except PeerError as error:
            return error
        try:
            return work(mesh)
        except PeerError as error:
            return error
        finally:
            mesh.close()

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(run, range(size)))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_gather_and_exchange_are_in_the_order_of_ranks(size):
    def work(mesh):
        group = TcpGroup(mesh)
        rows = group.gather(np.full(3, float(mesh.rank)))
        return rows, group.exchange({"rank": mesh.rank, "classes": np.arange(mesh.rank)})

    for rows, values in on_ranks(size, work):
        np.testing.assert_array_equal(rows, np.repeat(np.arange(size), 3).reshape(size, 3))
        assert [value["rank"] for value in values] == list(range(size))
        assert [len(value["classes"]) for value in values] == list(range(size))


@pytest.mark.parametrize("count", [0, 1, 2, 1_000_003])
def test_parts_are_dealt_and_collected(count):
    """Longer arrays than the kernel takes at once must not leave two ranks sending for ever."""
    bounds = np.array([count * k // 3 for k in range(4)])

    def work(mesh):
        group = TcpGroup(mesh)
        array = np.arange(count) + 0.25 * mesh.rank
        parts = np.empty((3, bounds[mesh.rank + 1] - bounds[mesh.rank]))
        group.deal(array, bounds, parts)
        whole = np.empty(count)
        group.collect(parts.sum(axis=0), bounds, whole)
        return whole

    for whole in on_ranks(3, work):
        np.testing.assert_array_equal(whole, 3.0 * np.arange(count) + 0.75)


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (100_003,)])
def test_sums_are_added_in_the_order_of_ranks(shape):
    rng = np.random.default_rng(0)
    addends = [rng.normal(size=shape) * 10.0**k for k in range(3)]
    expected = addends[0] + addends[1] + addends[2]
    for total in on_ranks(3, lambda mesh: TcpCommunicator(mesh).allreduce_sum(addends[mesh.rank])):
        np.testing.assert_array_equal(total, expected)


def test_some_ranks_swap_among_themselves():
    def work(mesh):
        if mesh.rank == 1:
            return None
        return TcpGroup(mesh, [2, 0]).gather(np.array([float(mesh.rank)])).ravel().tolist()

    assert on_ranks(3, work) == [[2.0, 0.0], None, [2.0, 0.0]]


def test_rank_without_the_key_is_not_let_in():
    found = on_ranks(2, lambda mesh: mesh.rank, keys=[KEY, b"another secret there"], timeout_s=1.0)
    assert "did not connect" in str(found[0])
    assert "does not answer as a rank of this job" in str(found[1])


def test_strangers_are_sent_away_and_the_job_goes_on():
    listeners = [Listener("127.0.0.1") for _ in range(2)]
    addresses = [listener.address for listener in listeners]
    for first_words in (b"", b"GET / HTTP/1.0\r\n\r\n" * 10, b"snapml01"):
        with socket.create_connection(addresses[0]) as stranger:
            stranger.sendall(first_words)
    with ThreadPoolExecutor(2) as pool:
        meshes = list(pool.map(lambda k: Mesh(listeners[k], addresses, k, KEY, 10.0), range(2)))
    assert [mesh.size for mesh in meshes] == [2, 2]
    for mesh in meshes:
        mesh.close()


def test_answer_of_one_side_does_not_serve_as_the_other_sides():
    """A stranger that sends back what it gets must not be taken for one that has the key."""
    listener = Listener("127.0.0.1")
    stop = threading.Event()

    def echo():
        connection, _ = listener.socket.accept()
        connection.settimeout(0.2)
        connection.recv(16)  # the greeting
        while not stop.is_set():
            try:
                connection.sendall(connection.recv(1024))
            except OSError:
                continue
        connection.close()

    mirror = threading.Thread(target=echo)
    mirror.start()
    own = Listener("127.0.0.1")
    with pytest.raises(PeerError, match="does not answer as a rank of this job"):
        Mesh(own, [listener.address, own.address], 1, KEY, 5.0)
    stop.set()
    mirror.join()
    listener.close()


def test_missing_rank_is_noticed_in_time():
    listener = Listener("127.0.0.1")
    start = time.monotonic()
    with pytest.raises(PeerError, match=r"rank 1, 2 did not connect in 0\.5 s"):
        Mesh(listener, [listener.address, ("127.0.0.1", 1), ("127.0.0.1", 1)], 0, KEY, 0.5)
    assert time.monotonic() - start < 5.0


def test_a_rank_without_free_files_says_so(monkeypatch):
    listener = Listener("127.0.0.1")
    full = OSError(errno.EMFILE, "Too many open files")
    monkeypatch.setattr(socket.socket, "accept", Mock(side_effect=full))
    with pytest.raises(PeerError, match=r"rank 0 cannot let another one in: .*Too many open files"):
        Mesh(listener, [listener.address, ("127.0.0.1", 1)], 0, KEY, 0.5)


def test_a_thread_that_waits_for_others_ends_with_its_listener():
    """As where a task fails while a thread of it meets the others."""
    listener = Listener("127.0.0.1")
    addresses = [listener.address, ("127.0.0.1", 1)]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(Mesh, listener, addresses, 0, KEY, 60.0)
        time.sleep(0.5)
        listener.close()
        with pytest.raises(PeerError, match="rank 0 cannot let another one in"):
            waiting.result(20.0)


def test_lost_rank_ends_the_others_swap():
    def work(mesh):
        group = TcpGroup(mesh)
        if mesh.rank == 1:
            return "gone"
        return group.gather(np.zeros(100_000))

    found = on_ranks(3, work)
    assert isinstance(found[0], PeerError)
    assert isinstance(found[2], PeerError)


def test_silent_rank_is_noticed_in_time():
    may_end = threading.Event()

    def work(mesh):
        if mesh.rank == 1:
            return may_end.wait(20.0)
        try:
            return TcpGroup(mesh).gather(np.zeros(1))
        finally:
            may_end.set()

    found = on_ranks(2, work, timeout_s=0.5)
    assert "nothing moved to or from rank 1 for 0.5 s" in str(found[0])


def test_short_key_is_refused():
    with pytest.raises(ValueError, match="at least 16 bytes, got 5"):
        Mesh(Listener("127.0.0.1"), [("127.0.0.1", 1)], 0, b"short", 1.0)


leaves = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(deadline=None)
@given(values)
@example({"array": ("tuple", [None, True, -math.inf, 2**80])})
def test_values_survive_the_wire(value):
    found = from_bytes(to_bytes(value))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3).T,
        np.array(["a", "längeres"]),
        np.zeros((0, 4), np.int8),
        np.float32(0.1),
        np.array([np.nan, -0.0]),
    ],
)
def test_arrays_survive_the_wire(array):
    found = from_bytes(to_bytes([array, "between", array]))
    for one in (found[0], found[2]):
        assert type(one) is type(array)
        assert one.dtype == array.dtype
        np.testing.assert_array_equal(one, array)


@pytest.mark.parametrize("value", [object(), np.array([object()]), {1: 2}, {"a": {3}}])
def test_other_values_are_refused(value):
    with pytest.raises(TypeError, match="expected"):
        to_bytes(value)


GOOD = to_bytes({"classes": np.arange(4), "names": ["a", ("b", 1.5)]})


@settings(deadline=None, max_examples=500)
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255), st.integers(0, len(GOOD)))
@example(GOOD.index(b"<i8"), ord("O"), len(GOOD))
def test_damaged_values_raise_no_other_error_than_a_value_error(where, byte, length):
    damaged = bytearray(GOOD)
    damaged[where] = byte
    with contextlib.suppress(ValueError):
        from_bytes(bytes(damaged[:length]))
