"""Tasks of one executor as one shard: the first takes the rows of all, and trains on all threads.

Shards that keep their rows need the more epochs of coordinate ascent, the more of them there are;
threads of one process get other rows in every epoch, and add up no vectors over TCP.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from snapml.data.store.temporary_store import temporary_store_path
from snapml.distributed.spark.tasks.cards import Card, Contact, n_features_of
from snapml.distributed.spark.tasks.local_rows import LocalRows
from snapml.distributed.tcp import Listener, Mesh, PeerError
from snapml.distributed.tcp.group import TcpGroup

__all__ = ["Team", "teams_of"]

# What the first task says to those that wait, so many times while they would wait in vain.
_BEAT, _OVER = b"+", b"."
_BEATS = 4


def teams_of(cards: Sequence[Card]) -> list[list[int]]:
    """Return which tasks are one shard.

    Parameters
    ----------
    cards : sequence of Card
        Of all tasks.

    Returns
    -------
    list of list of int
        Numbers of the tasks of each team, which rise; teams in the order of their first.
    """
    teams: dict[str | int, list[int]] = {}
    for number, card in enumerate(cards):
        teams.setdefault(number if card.team is None else card.team, []).append(number)
    return list(teams.values())


class Team:
    """The tasks of a team, connected to each other.

    Parameters
    ----------
    cards : sequence of Card
        Of all tasks of the job.
    contacts : sequence of Contact
        Of all tasks, too.
    rank : int
        Number of this one.
    listener : Listener
        That of its `team_address`.
    key : bytes
        Secret of the job.
    timeout_s : float
        Most seconds to wait for another's rows.

    Raises
    ------
    PeerError
        If a task cannot be reached.
    """

    def __init__(
        self,
        cards: Sequence[Card],
        contacts: Sequence[Contact],
        rank: int,
        listener: Listener,
        key: bytes,
        timeout_s: float,
    ) -> None:
        teams = teams_of(cards)
        members = next(team for team in teams if rank in team)
        addresses = [contacts[k].team_address for k in members]
        self.shard_addresses = [contacts[team[0]].shard_address for team in teams]
        """Of the first tasks of all teams."""

        self.shard = teams.index(members)
        """Number of this team."""

        self.size = len(members)
        """Number of its tasks."""

        self.n_features = n_features_of(cards)
        """Number of columns, which tasks without rows take from the others."""

        self._timeout_s = timeout_s
        self._folders: list[Path] = []
        self._mesh = Mesh(listener, addresses, members.index(rank), key, timeout_s)
        self._group = TcpGroup(self._mesh)

    @property
    def is_first(self) -> bool:
        """Whether this task trains for the team."""
        return self._group.rank == 0

    def hand_over(self, rows: LocalRows) -> None:
        """Give the rows to the first task, and wait until it has trained.

        However long that takes: it says that it is there.

        Parameters
        ----------
        rows : LocalRows
            In memory; none are left.

        Raises
        ------
        PeerError
            If the first task has not come to its end, or does not say that it is there.
        OSError
            If the disk is full.
        """
        folder = temporary_store_path()
        rows.move_to(folder)
        self._group.exchange(str(folder))
        message = bytearray(_BEAT)
        while message == _BEAT:
            self._mesh.swap({}, {0: memoryview(message)})
        self._group.exchange(None)

    def take_over(self, rows: LocalRows, n_threads: int) -> None:
        """Add the rows of the others, in the order of tasks; what they wrote is removed.

        Parameters
        ----------
        rows : LocalRows
            Of this task, the first one, inside of `waiting`; has those of all afterwards.
        n_threads : int
            Threads to use.
        """
        rows.take_from(self._folders, self.n_features, n_threads)
        for folder in self._folders:
            shutil.rmtree(folder)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let the others wait inside ``with``, once they have written their rows.

        Raises
        ------
        PeerError
            If one of them has ended before.
        """
        self._folders = [Path(folder) for folder in self._group.exchange("")[1:]]
        is_over = threading.Event()
        beats = threading.Thread(
            target=self._beat, args=(is_over,), name="snapml team", daemon=True
        )
        beats.start()
        try:
            yield
        finally:
            is_over.set()
            beats.join()
        self._tell(_OVER)
        self._group.exchange(None)  # Spark would wait for a task that hangs for ever

    def _beat(self, is_over: threading.Event) -> None:
        # One that is lost is met again by the last message.
        with suppress(PeerError):
            while not is_over.wait(self._timeout_s / _BEATS):
                self._tell(_BEAT)

    def _tell(self, message: bytes) -> None:
        self._mesh.swap({k: memoryview(message) for k in range(1, self.size)}, {})

    def close(self) -> None:
        """Close the connections; the others notice."""
        self._mesh.close()
