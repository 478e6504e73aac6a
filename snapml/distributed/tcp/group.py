"""Ranks that swap arrays and small values over TCP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from snapml.distributed.tcp.mesh import Mesh, PeerError
from snapml.distributed.tcp.values import from_bytes, to_bytes

__all__ = ["TcpGroup"]

_MOST_VALUE_BYTES = 1 << 34  # of one value: vectors of a checkpoint are the longest


class TcpGroup:
    """Some of the ranks of a mesh, this one among them (protocol `Group`).

    Parameters
    ----------
    mesh : Mesh
        The connections.
    members : sequence of int or None, default=None
        Their numbers in the mesh, in the order of the group; None means all.
    """

    def __init__(self, mesh: Mesh, members: Sequence[int] | None = None) -> None:
        self._mesh = mesh
        self._members = list(range(mesh.size) if members is None else members)
        self.rank = self._members.index(mesh.rank)
        self.size = len(self._members)

    def empty(self, count: int) -> np.ndarray:
        """Return memory for so many float64."""
        return np.empty(count)

    def deal(self, array: np.ndarray, bounds: np.ndarray, parts: np.ndarray) -> None:
        """Send every rank its part; see `Group.deal`."""
        own = slice(bounds[self.rank], bounds[self.rank + 1])
        parts[self.rank] = array[own]
        outgoing = {k: array[bounds[k] : bounds[k + 1]] for k in self._others()}
        self._swap(outgoing, {k: parts[k] for k in self._others()})

    def collect(self, part: np.ndarray, bounds: np.ndarray, whole: np.ndarray) -> None:
        """Send this rank's part to all; see `Group.collect`."""
        whole[bounds[self.rank] : bounds[self.rank + 1]] = part
        incoming = {k: whole[bounds[k] : bounds[k + 1]] for k in self._others()}
        self._swap(dict.fromkeys(self._others(), part), incoming)

    def gather(self, own: np.ndarray) -> np.ndarray:
        """Return the arrays of all ranks.

        Parameters
        ----------
        own : ndarray of shape (n,), float64
            Of the same length on all.

        Returns
        -------
        ndarray of shape (size, n)
            In the order of ranks.
        """
        found = np.empty((self.size, len(own)))
        found[self.rank] = own
        self._swap(dict.fromkeys(self._others(), own), {k: found[k] for k in self._others()})
        return found

    def exchange(self, value: Any) -> list[Any]:
        """Return what all ranks have laid down, in the order of ranks.

        Parameters
        ----------
        value : object
            That `to_bytes` takes.

        Returns
        -------
        list of object
            One of each rank.

        Raises
        ------
        TypeError
            If it takes no such value; nothing was sent then.
        """
        own = np.frombuffer(to_bytes(value), np.uint8)
        lengths = self.gather(np.array([float(own.size)]))[:, 0].astype(np.int64)
        if lengths.max() > _MOST_VALUE_BYTES:
            raise PeerError(f"expected values of at most {_MOST_VALUE_BYTES} bytes, got {lengths}")
        found = [np.empty(int(length), np.uint8) for length in lengths]
        found[self.rank] = own
        self._swap(dict.fromkeys(self._others(), own), {k: found[k] for k in self._others()})
        return [from_bytes(data.tobytes()) for data in found]

    def _others(self) -> list[int]:
        return [k for k in range(self.size) if k != self.rank]

    def _swap(self, outgoing: dict[int, np.ndarray], incoming: dict[int, np.ndarray]) -> None:
        members = self._members
        self._mesh.swap(
            {members[k]: array.data for k, array in outgoing.items() if array.size},
            {members[k]: array.data for k, array in incoming.items() if array.size},
        )
