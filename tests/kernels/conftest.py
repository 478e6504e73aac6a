"""Devices that every kernel is run on."""

import pytest

from .emulator import EmulatedDevice


@pytest.fixture(params=[(1, 1, 0), (3, 2, 5)], ids=["one block", "six blocks, lanes at random"])
def device(request):
    """An emulated device; its size decides how many blocks a launch has."""
    n_multiprocessors, blocks_each, seed = request.param
    return EmulatedDevice(n_multiprocessors, blocks_each, seed=seed)
