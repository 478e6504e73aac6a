"""A connection between each two ranks, over which they swap bytes; who has the key may join.

Both sides prove that they have the key before anything else is read: each sends a random challenge
and gets back its keyed digest, with the ranks and the direction in it so that no answer serves
twice. What travels later is neither encrypted nor signed: the network is trusted with the sums, as
by MPI and NCCL.
"""

from __future__ import annotations

import hmac
import secrets
import selectors
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

__all__ = ["Listener", "Mesh", "PeerError"]

_CHALLENGE = 32  # bytes
_DIGEST = "sha256"
_GREETING = struct.Struct("<8sII")  # name of the protocol, the sender's rank, number of ranks
_PROTOCOL = b"snapml01"
_ADDRESS = struct.Struct("<II")
# A host that has vanished answers no probe: noticed after about a minute, whatever the work takes.
_KEEPALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 4}
_PIECE = 1 << 18  # bytes handed to the kernel at once


class PeerError(RuntimeError):
    """Another rank's process has ended, cannot be reached, or does not answer in time."""


class Listener:
    """Where the other ranks of this one's job can reach it.

    Parameters
    ----------
    host : str
        Name or address of this machine that the others know it by.
    """

    def __init__(self, host: str) -> None:
        family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
        self.socket = socket.create_server((host, 0), family=family, backlog=1024)
        self.address: tuple[str, int] = (host, self.socket.getsockname()[1])

    def close(self) -> None:
        """Stop listening; a thread that waits for others on it fails, as do they."""
        with suppress(OSError):  # closed before, or a system that has this for connections alone
            self.socket.shutdown(socket.SHUT_RDWR)  # to close wakes nobody
        self.socket.close()


class Mesh:
    """The connections of one rank to all others.

    Parameters
    ----------
    listener : Listener
        Whose address the others have; closed once all are connected.
    addresses : sequence of (str, int)
        Host and port of every rank, in the order of ranks.
    rank : int
        This one's number.
    key : bytes
        Secret of the job, of at least 16 bytes.
    timeout_s : float
        Most seconds to wait for another rank, for connections and while nothing arrives.

    Raises
    ------
    PeerError
        If a rank cannot be reached, or does not have the key.
    ValueError
        If the key is short.
    """

    def __init__(
        self,
        listener: Listener,
        addresses: Sequence[tuple[str, int]],
        rank: int,
        key: bytes,
        timeout_s: float,
    ) -> None:
        self.rank, self.size = rank, len(addresses)
        self.n_sent = 0
        self._key, self._timeout_s = key, timeout_s
        self._peers: dict[int, socket.socket] = {}
        try:
            if len(key) < 16:
                raise ValueError(f"key: expected at least 16 bytes, got {len(key)}")
            deadline = time.monotonic() + timeout_s
            for other in range(rank):
                self._peers[other] = self._connect(other, addresses[other], deadline)
            while len(self._peers) < self.size - 1:
                self._accept(listener, deadline)
        except BaseException:
            self.close()
            raise
        finally:
            listener.close()
        for connection in self._peers.values():
            connection.setblocking(False)

    def swap(self, outgoing: Mapping[int, memoryview], incoming: Mapping[int, memoryview]) -> None:
        """Send some bytes to each of the others, and fill a buffer from each, all at once.

        Parameters
        ----------
        outgoing : mapping of int to memoryview
            Bytes for some of the other ranks.
        incoming : mapping of int to memoryview
            Buffers for what some of them send; of the lengths that they send.

        Raises
        ------
        PeerError
            If a rank is lost, or nothing moves for `timeout_s`.
        """
        left_out = {rank: view.cast("B") for rank, view in outgoing.items() if view.nbytes}
        left_in = {rank: view.cast("B") for rank, view in incoming.items() if view.nbytes}
        self.n_sent += sum(view.nbytes for view in left_out.values())
        with selectors.DefaultSelector() as selector:
            for rank in left_out.keys() | left_in.keys():
                events = _events(rank in left_out, rank in left_in)
                selector.register(self._peers[rank], events, rank)
            while left_out or left_in:
                ready = selector.select(self._timeout_s)
                if not ready:
                    raise PeerError(self._silence(sorted(left_out.keys() | left_in.keys())))
                for slot, events in ready:
                    self._move(slot.data, events, left_out, left_in)
                    want = _events(slot.data in left_out, slot.data in left_in)
                    if want != slot.events:
                        _watch(selector, slot.fileobj, want, slot.data)

    def close(self) -> None:
        """Close the connections; the others notice."""
        for connection in self._peers.values():
            connection.close()
        self._peers = {}

    def _move(
        self,
        rank: int,
        events: int,
        left_out: dict[int, memoryview],
        left_in: dict[int, memoryview],
    ) -> None:
        """Send and receive what the kernel takes and has."""
        connection = self._peers[rank]
        try:
            if events & selectors.EVENT_WRITE and rank in left_out:
                n_moved = connection.send(left_out[rank][:_PIECE])
                _advance(left_out, rank, n_moved)
            if events & selectors.EVENT_READ and rank in left_in:
                n_moved = connection.recv_into(left_in[rank][:_PIECE])
                if n_moved == 0:
                    raise PeerError(f"rank {rank} has closed its connection: its process ended")
                _advance(left_in, rank, n_moved)
        except BlockingIOError:
            return
        except OSError as error:
            raise PeerError(f"the connection to rank {rank} is lost: {error}") from error

    def _silence(self, ranks: list[int]) -> str:
        names = ", ".join(map(str, ranks))
        return f"nothing moved to or from rank {names} for {self._timeout_s:g} s"

    def _connect(self, other: int, address: tuple[str, int], deadline: float) -> socket.socket:
        where = f"rank {other} at {address[0]}:{address[1]}"
        try:
            connection = socket.create_connection(address, timeout=_left(deadline))
        except OSError as error:
            raise PeerError(f"cannot reach {where}: {error}") from error
        try:
            connection.settimeout(_left(deadline))
            _prepare(connection)
            connection.sendall(_GREETING.pack(_PROTOCOL, self.rank, self.size))
            self._prove(connection, self.rank, other)
        except (OSError, _RefusedError) as error:
            connection.close()
            raise PeerError(f"{where} does not answer as a rank of this job: {error}") from error
        return connection

    def _accept(self, listener: Listener, deadline: float) -> None:
        """Let one rank in; strangers are sent away, and do not end the job."""
        try:
            listener.socket.settimeout(_left(deadline))
            connection, _ = listener.socket.accept()
        except TimeoutError as error:
            missing = sorted(set(range(self.rank + 1, self.size)) - self._peers.keys())
            names = ", ".join(map(str, missing))
            raise PeerError(f"rank {names} did not connect in {self._timeout_s:g} s") from error
        except OSError as error:  # as of too many open files
            raise PeerError(f"rank {self.rank} cannot let another one in: {error}") from error
        try:
            # A stranger that says nothing must not use up the time of those that are to come.
            connection.settimeout(min(5.0, _left(deadline)))
            _prepare(connection)
            name, other, size = _GREETING.unpack(_read(connection, _GREETING.size))
            is_expected = self.rank < other < self.size and other not in self._peers
            if name != _PROTOCOL or size != self.size or not is_expected:
                raise _RefusedError("no rank that was expected")
            self._prove(connection, other, self.rank)
        except (OSError, _RefusedError):
            connection.close()
            return
        self._peers[other] = connection

    def _prove(self, connection: socket.socket, caller: int, called: int) -> None:
        """Show the key to the other side, and have it shown, without sending it."""
        is_caller = self.rank == caller
        own = secrets.token_bytes(_CHALLENGE)
        connection.sendall(own)
        theirs = _read(connection, _CHALLENGE)
        pair = _ADDRESS.pack(caller, called)
        both = pair + own + theirs if is_caller else pair + theirs + own
        mine, other = (b"caller", b"called") if is_caller else (b"called", b"caller")
        expected = hmac.digest(self._key, other + both, _DIGEST)
        answer = hmac.digest(self._key, mine + both, _DIGEST)
        if is_caller:  # the one that calls shows the key first: strangers learn nothing
            connection.sendall(answer)
        if not hmac.compare_digest(expected, _read(connection, len(expected))):
            raise _RefusedError("it does not have the key")
        if not is_caller:
            connection.sendall(answer)


class _RefusedError(Exception):
    """What is at the other end of a connection is no rank of this job."""


def _prepare(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # not on every platform
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _read(connection: socket.socket, n_bytes: int) -> bytes:
    """Return so many bytes; fewer are no answer."""
    found = bytearray()
    while len(found) < n_bytes:
        piece = connection.recv(n_bytes - len(found))
        if not piece:
            raise _RefusedError("it closed the connection")
        found += piece
    return bytes(found)


def _left(deadline: float) -> float:
    return max(1e-3, deadline - time.monotonic())


def _events(has_out: bool, has_in: bool) -> int:
    return (selectors.EVENT_WRITE if has_out else 0) | (selectors.EVENT_READ if has_in else 0)


def _watch(selector: selectors.BaseSelector, fileobj: object, events: int, rank: int) -> None:
    if events:
        selector.modify(fileobj, events, rank)  # type: ignore[arg-type]
    else:
        selector.unregister(fileobj)  # type: ignore[arg-type]


def _advance(left: dict[int, memoryview], rank: int, n_moved: int) -> None:
    left[rank] = left[rank][n_moved:]
    if not left[rank].nbytes:
        del left[rank]
