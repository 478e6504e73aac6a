"""Ranks that have a GPU each: sums of arrays there, by NCCL or through memory of the host."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from snapml.distributed.nccl_group import NcclGroup
from snapml.distributed.ordered_sums import OrderedSum
from snapml.kernels import Device

if TYPE_CHECKING:
    from snapml.distributed.ranks import MeetingGroup, Ranks

__all__ = ["DeviceRanks"]

# Numbers in the pinned buffer: 32 MB.
_MOST_STAGED = 2**22


class DeviceRanks:
    """The ranks of a job, each with a device (protocol `Communicator`).

    Arrays of the host are added up as by the ranks alone. Those of devices go between the devices
    by NCCL where every rank has a device of its own and all have NCCL; otherwise through pinned
    memory of the host. Both add in the same order and give the same bits: NCCL sends and receives,
    and does not add.

    Parameters
    ----------
    ranks : Ranks
        Their sums on the host.
    device : Device
        This rank's.

    Attributes
    ----------
    uses_nccl : bool
        Which way arrays of devices go.
    description : str
        The same in words, and why.
    """

    def __init__(self, ranks: Ranks, device: Device) -> None:
        self._ranks, self._device = ranks, device
        self.rank, self.size = ranks.rank, ranks.size
        is_off = os.environ.get("SNAPML_NCCL") == "0"
        has_nccl = device.nccl is not None
        terms = ranks.exchange((device.uuid, has_nccl, is_off))
        reason = _why_not_nccl(terms)
        self.uses_nccl = self.size > 1 and reason is None
        way = "by NCCL" if self.uses_nccl else f"through pinned host memory ({reason})"
        self.description = "1 rank" if self.size == 1 else f"sums of {self.size} ranks {way}"
        self._groups: list[NcclGroup] = []
        levels = ranks.levels(self._nccl_group) if self.uses_nccl else ranks.host_levels()
        most = {} if self.uses_nccl else {"most_at_once": _MOST_STAGED}
        self._sum = OrderedSum(levels, ranks.traffic, **most)
        self._buffer = np.empty(0)
        self._copies: Any = None

    def allreduce_sum(self, array: Any) -> Any:
        """Return the sum over all ranks, where the array is; every rank gets the same bits.

        Parameters
        ----------
        array : array of the host or of the device, float64
            This rank's addend; of the same shape on all ranks, and in the same place.

        Returns
        -------
        array
            Of that shape, in that place.

        Raises
        ------
        RankError
            If another rank has failed.
        RuntimeError
            If the ranks' arrays differ in size or place.
        """
        if isinstance(array, np.ndarray):
            return self._ranks.allreduce_sum(array)
        xp, shape = self._device.xp, array.shape
        addend = xp.ascontiguousarray(array.astype(np.float64, copy=False)).reshape(-1)
        if self._ranks.fits_letter(addend.size):
            total = self._ranks.sum_in_letters(self._device.to_host(addend))
            return self._device.to_device(total).reshape(shape)
        total = xp.empty(addend.size, np.float64)
        self._sum.reserve(addend.size)
        if self.uses_nccl:
            add = partial(self._sum.add, addend, total)
        else:
            self._reserve_buffer(addend.size)
            self._device.to_host(addend[:1])  # what has failed on the device shows before a sum
            add = partial(self._add_staged, addend, total)
        self._ranks.sum_long(int(addend.size), add, on_devices=self.uses_nccl)
        return total.reshape(shape)

    def with_device(self, device: Device) -> DeviceRanks:
        """Return the same ranks with a device; see `Ranks.with_device`."""
        return self._ranks.with_device(device)

    def exchange(self, value: Any) -> list[Any]:
        """Return what all ranks have laid down, in the order of ranks."""
        return self._ranks.exchange(value)

    def close(self) -> None:
        """Give NCCL's resources back."""
        for group in self._groups:
            group.close()

    def _nccl_group(self, ranks: MeetingGroup) -> NcclGroup:
        group = NcclGroup(self._device, ranks)
        self._groups.append(group)
        return group

    def _reserve_buffer(self, count: int) -> None:
        count = min(count, self._sum.most_at_once)
        if self._buffer.size < count:
            self._buffer = self._device.pinned_empty((count,), np.dtype(np.float64))
        if self._copies is None:
            self._copies = self._device.copy_stream()

    def _add_staged(self, addend: Any, total: Any) -> None:
        step = self._sum.most_at_once
        for first in range(0, int(addend.size), step):
            piece = slice(first, min(first + step, int(addend.size)))
            staged = self._buffer[: piece.stop - first]
            self._device.to_host(addend[piece], out=staged)
            self._sum.add(staged, staged)
            self._copies.wait(self._device.mark())
            self._copies.copy(staged, total[piece])
            self._copies.synchronize()


def _why_not_nccl(terms: list[tuple[str, bool, bool]]) -> str | None:
    """Return why the ranks' devices do not use NCCL, None where they do."""
    owners: dict[str, int] = {}
    for rank, (uuid, has_nccl, is_off) in enumerate(terms):
        if is_off:
            return f"SNAPML_NCCL=0 on rank {rank}"
        if uuid in owners:
            return f"ranks {owners[uuid]} and {rank} share a GPU"
        if not has_nccl:
            return f"rank {rank} has no NCCL"
        owners[uuid] = rank
    return None
