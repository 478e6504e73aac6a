"""How shards of one training job add up their numbers."""

from __future__ import annotations

from typing import Any, Protocol

from snapml.kernels import Device

__all__ = ["Communicator", "DeviceShards", "SerialCommunicator"]


class Communicator(Protocol):
    """What a solver needs of the other shards: who they are, and sums over them."""

    @property
    def rank(self) -> int:
        """Number of this shard, from 0."""

    @property
    def size(self) -> int:
        """Number of shards."""

    def allreduce_sum(self, array: Any) -> Any:
        """Return the sum over all shards, where the array is; every shard gets the same bits.

        Shards that hold arrays of devices lay down theirs; all others lay down arrays of the host.
        """

    def exchange(self, value: Any) -> list[Any]:
        """Return what all shards have laid down, in the order of ranks."""

    def with_device(self, device: Device) -> DeviceShards:
        """Return these shards where each of them has a device, whose arrays they add up too.

        Parameters
        ----------
        device : Device
            This shard's. All shards call this together.

        Returns
        -------
        DeviceShards
            For work inside ``with device.use():``.
        """


class DeviceShards(Communicator, Protocol):
    """Shards that have a device each."""

    @property
    def description(self) -> str:
        """How many there are, and which way their sums go."""


class SerialCommunicator:
    """The only shard there is."""

    rank = 0
    size = 1
    description = "1 shard"

    def allreduce_sum(self, array: Any) -> Any:
        """Return `array` itself.

        Parameters
        ----------
        array : array of the host or of a device
            This shard's addend.

        Returns
        -------
        array
            The same object.
        """
        return array

    def exchange(self, value: Any) -> list[Any]:
        """Return what the only shard has laid down.

        Parameters
        ----------
        value : object
            Any.

        Returns
        -------
        list of object
            One.
        """
        return [value]

    def with_device(self, device: Device) -> SerialCommunicator:
        """Return itself, which has nothing to add up.

        Parameters
        ----------
        device : Device
            Any.

        Returns
        -------
        SerialCommunicator
            The same object.
        """
        return self
