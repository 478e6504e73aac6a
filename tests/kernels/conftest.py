"""Devices that every kernel is run on."""

import pytest
from real_device import real_device, with_real_device

from .emulator import EmulatedDevice
from .host_array_device import HostArrayDevice

SIZES = {"one block": (1, 1, 0), "six blocks, lanes at random": (3, 2, 5)}


@pytest.fixture(params=with_real_device(SIZES))
def device(request):
    """An emulated device, whose size decides how many blocks a launch has; or a real one."""
    if request.param == "gpu":
        return HostArrayDevice(real_device())
    n_multiprocessors, blocks_each, seed = SIZES[request.param]
    return EmulatedDevice(n_multiprocessors, blocks_each, seed=seed)
