"""Tasks of a stage meet: by Spark once, which takes a second, and by connections from then on."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

from snapml.distributed.spark.tasks.cards import Card, Contact, version_errors
from snapml.distributed.tcp import Listener, Mesh, PeerError
from snapml.distributed.tcp.group import TcpGroup

__all__ = ["Meeting"]


class Meeting:
    """All tasks of a stage, who are connected on a thread while they read their rows.

    Parameters
    ----------
    context : pyspark.BarrierTaskContext
        Of this task. Spark by itself would let it wait for a year.
    contact : Contact
        What this task says.
    listener : Listener
        That of the contact's address.
    key : bytes
        Secret of the job.
    timeout_s : float
        Most seconds to wait for the others.
    """

    def __init__(
        self, context: Any, contact: Contact, listener: Listener, key: bytes, timeout_s: float
    ) -> None:
        self._context, self._own, self._listener = context, contact, listener
        self._key, self._timeout_s = key, timeout_s
        self._found: Future[tuple[list[Contact], Mesh | None]] = Future()
        # A daemon: its task fails where it waits in vain, and the process ends with the task.
        threading.Thread(target=self._meet, name="snapml meeting", daemon=True).start()

    def contacts(self) -> list[Contact]:
        """Return what all tasks say before they have read their rows, in the order of partitions.

        Raises
        ------
        PeerError
            If not all have come in time, or some cannot be reached.
        """
        return self._result()[0]

    def cards(self, own: Card) -> list[Card]:
        """Return what all tasks show once they have read their rows, in the order of partitions.

        The connections end with it: as many as all pairs of tasks have are for none of the sums.

        Parameters
        ----------
        own : Card
            What this task shows.

        Raises
        ------
        PeerError
            If a task has ended, or has not read its rows in time.
        RuntimeError
            If tasks are of different versions, which are not connected.
        """
        mesh = self._result()[1]
        if mesh is None:
            raise RuntimeError("expected tasks of one version, got several")
        shown = TcpGroup(mesh).exchange(asdict(own))
        mesh.close()
        return [Card(**each) for each in shown]

    def close(self) -> None:
        """Close the connections, or have the thread do so that makes them; the others notice."""
        self._found.add_done_callback(_close)

    def _meet(self) -> None:
        try:
            texts = self._context.allGather(self._own.text())
            contacts, mesh = [Contact.of_text(text) for text in texts], None
            if not version_errors(contacts):
                addresses = [contact.address for contact in contacts]
                rank = self._context.partitionId()
                mesh = Mesh(self._listener, addresses, rank, self._key, self._timeout_s)
            self._found.set_result((contacts, mesh))
        except BaseException as failure:
            self._found.set_exception(failure)

    def _result(self) -> tuple[list[Contact], Mesh | None]:
        try:
            return self._found.result(self._timeout_s)
        except TimeoutError as failure:
            raise PeerError(f"not all tasks had begun after {self._timeout_s:g} s") from failure


def _close(found: Future[tuple[list[Contact], Mesh | None]]) -> None:
    mesh = None if found.exception() else found.result()[1]
    if mesh is not None:
        mesh.close()
