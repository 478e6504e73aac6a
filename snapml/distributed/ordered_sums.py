"""Sums of long arrays over ranks, in a fixed order: by parts, and by nodes where that saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

__all__ = ["Group", "Level", "OrderedSum", "Traffic", "in_order"]

# Numbers that are added up at once: MPI counts them in 32 bits, and what is received of them takes
# as much memory again.
_MOST_AT_ONCE = 2**24


class Group(Protocol):
    """Ranks that send parts of arrays to each other, wherever the arrays are."""

    @property
    def rank(self) -> int:
        """Number of this rank in the group."""

    @property
    def size(self) -> int:
        """Number of ranks."""

    def empty(self, count: int) -> Any:
        """Return memory for so many float64, where the group's arrays are."""

    def deal(self, array: Any, bounds: np.ndarray, parts: Any) -> None:
        """Send every rank its part; receive this rank's part of every array, in rows.

        Parameters
        ----------
        array : array of shape (bounds[-1],), float64
            This rank's, contiguous.
        bounds : ndarray of shape (size + 1,), int64
            Where the parts of the ranks begin and end.
        parts : array of shape (size, n_own), float64
            Filled with what the ranks have for this one.
        """

    def collect(self, part: Any, bounds: np.ndarray, whole: Any) -> None:
        """Send this rank's part to all; put together those of all.

        Parameters
        ----------
        part : array of shape (n_own,), float64
            This rank's.
        bounds : ndarray of shape (size + 1,), int64
            Where the parts of the ranks begin and end.
        whole : array of shape (bounds[-1],), float64
            Filled.
        """


@dataclass
class Traffic:
    """Bytes that this rank has sent in sums of long arrays, each part counted once a receiver.

    Attributes
    ----------
    within, across : int
        To ranks of its own node, and to those of others.
    """

    within: int = 0
    across: int = 0


@dataclass(frozen=True)
class Level:
    """One step of a sum: the members of a group add up a part each.

    Attributes
    ----------
    group : Group
        Who.
    n_parts : int
        How many of them, the first ones, get a part.
    is_across : ndarray of shape (group.size,), bool
        Which of them are on other nodes than this rank.
    """

    group: Group
    n_parts: int
    is_across: np.ndarray


class OrderedSum:
    """Adds up arrays of all ranks, in an order that neither MPI nor the network decides.

    With one level each of p ranks adds up one part in the order of ranks, and sends 2 (p - 1) / p
    times the array, the least that p ranks can. With two, each rank of a node adds up a part over
    the node, in the order of its ranks; then the ranks that have the same part add it up over the
    nodes, in their order; and the nodes share it. Each number then leaves a node once instead of
    once a rank.

    Parameters
    ----------
    levels : sequence of Level
        All ranks; or those of this node, and the ranks of all nodes that have this one's part.
    traffic : Traffic
        Where bytes are counted.
    most_at_once : int
        Numbers of a slice, by which longer arrays are added up.
    """

    def __init__(
        self, levels: Sequence[Level], traffic: Traffic, most_at_once: int = _MOST_AT_ONCE
    ) -> None:
        self.most_at_once = most_at_once
        self._levels = list(levels)
        self._traffic = traffic
        self._rooms: list[Any] = [None] * len(levels)

    def reserve(self, count: int) -> None:
        """Allocate what a sum needs, so that none fails half way for lack of memory.

        Parameters
        ----------
        count : int
            Numbers of the array.
        """
        count = min(count, self.most_at_once)
        for number, level in enumerate(self._levels):
            n_own = -(-count // level.n_parts)
            room = self._rooms[number]
            if room is None or room.size < level.group.size * n_own:
                self._rooms[number] = level.group.empty(level.group.size * n_own)
            count = n_own

    def add(self, addend: Any, total: Any) -> None:
        """Add up one array of each rank.

        Parameters
        ----------
        addend : array of shape (n,), float64
            This rank's; of the same length on all.
        total : array of shape (n,), float64
            Filled with the sum; may be `addend`.
        """
        self.reserve(addend.size)
        for first in range(0, addend.size, self.most_at_once):
            piece = slice(first, first + self.most_at_once)
            self._add(0, addend[piece], total[piece])

    def _add(self, number: int, addend: Any, total: Any) -> None:
        level = self._levels[number]
        group, size = level.group, int(addend.size)
        cuts = np.minimum(np.arange(group.size + 1), level.n_parts)
        bounds = size * cuts // level.n_parts
        counts = np.diff(bounds)
        n_own = int(counts[group.rank])
        parts = self._rooms[number][: group.size * n_own].reshape(group.size, n_own)
        group.deal(addend, bounds, parts)
        part = _added_up(parts)
        if number + 1 < len(self._levels):
            self._add(number + 1, part, part)
        group.collect(part, bounds, total)
        n_across = int(counts[level.is_across].sum()) + n_own * int(level.is_across.sum())
        n_sent = size - n_own + n_own * (group.size - 1)
        self._traffic.across += 8 * n_across
        self._traffic.within += 8 * (n_sent - n_across)


def in_order(addends: np.ndarray) -> np.ndarray:
    """Return the sum of rows, added one after the other.

    Parameters
    ----------
    addends : ndarray of shape (n_rows, n)
        At least one; they stay as they are.

    Returns
    -------
    ndarray of shape (n,)
        The sum.
    """
    return np.asarray(_added_up(addends.copy()))


def _added_up(parts: Any) -> Any:
    """Return the sum of rows, in the place of the first."""
    total = parts[0]
    for k in range(1, len(parts)):
        total += parts[k]
    return total
