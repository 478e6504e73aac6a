"""Ranks whose arrays are on GPUs and travel between these by NCCL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from snapml.kernels import Device

if TYPE_CHECKING:
    from snapml.distributed.ranks import MeetingGroup

__all__ = ["NcclGroup"]


class NcclGroup:
    """Ranks with a GPU each (protocol `Group`): parts are sent and received, NCCL adds nothing up.

    Everything is queued on the current stream of the device, behind the work that makes the arrays.

    Parameters
    ----------
    device : Device
        This rank's; its `nccl` is there.
    ranks : MeetingGroup
        The ranks, which meet by it.
    """

    def __init__(self, device: Device, ranks: MeetingGroup) -> None:
        self.rank, self.size = ranks.rank, ranks.size
        self._device: Any = device
        self._nccl = device.nccl
        # A tuple of small numbers, which every kind of ranks can send.
        own = tuple(self._nccl.get_unique_id()) if self.rank == 0 else None
        mark = ranks.exchange(own)[0]
        with device.use():
            self._links = self._nccl.NcclCommunicator(self.size, mark, self.rank)

    def empty(self, count: int) -> Any:
        """Return memory of the device for so many float64."""
        return self._device.xp.empty(count, np.float64)

    def deal(self, array: Any, bounds: np.ndarray, parts: Any) -> None:
        """Send every rank its part; see `Group.deal`."""
        pieces = self._pieces(array, bounds)
        self._swap(pieces, [parts[k] for k in range(self.size)])

    def collect(self, part: Any, bounds: np.ndarray, whole: Any) -> None:
        """Send this rank's part to all; see `Group.collect`."""
        self._swap([part] * self.size, self._pieces(whole, bounds))

    def close(self) -> None:
        """Give NCCL's resources back."""
        self._links.destroy()

    def _pieces(self, array: Any, bounds: np.ndarray) -> list[Any]:
        return [array[bounds[k] : bounds[k + 1]] for k in range(self.size)]

    def _swap(self, sent: list[Any], received: list[Any]) -> None:
        """Send one array to each rank, and receive one from each."""
        nccl, address = self._nccl, self._device.address
        received[self.rank][:] = sent[self.rank]
        stream = self._device.stream_address()
        nccl.groupStart()
        for k in range(self.size):
            if k == self.rank:
                continue
            if sent[k].size:
                self._links.send(address(sent[k]), sent[k].size, nccl.NCCL_FLOAT64, k, stream)
            if received[k].size:
                target = received[k]
                self._links.recv(address(target), target.size, nccl.NCCL_FLOAT64, k, stream)
        nccl.groupEnd()
