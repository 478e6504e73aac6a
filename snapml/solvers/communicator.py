"""How shards of one training job add up their numbers."""

from __future__ import annotations

from typing import Protocol

import numpy as np

__all__ = ["Communicator", "SerialCommunicator"]


class Communicator(Protocol):
    """What a solver needs of the other shards: who they are, and sums over them."""

    @property
    def rank(self) -> int:
        """Number of this shard, from 0."""

    @property
    def size(self) -> int:
        """Number of shards."""

    def allreduce_sum(self, array: np.ndarray) -> np.ndarray:
        """Return the sum over all shards; every shard gets the same bits."""


class SerialCommunicator:
    """The only shard there is."""

    rank = 0
    size = 1

    def allreduce_sum(self, array: np.ndarray) -> np.ndarray:
        """Return `array` itself.

        Parameters
        ----------
        array : ndarray
            This shard's addend.

        Returns
        -------
        ndarray
            The same object.
        """
        return array
