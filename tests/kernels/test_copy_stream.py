"""What a stream of copies asks of CuPy, with a stand-in whose streams are as late as they may."""

from types import SimpleNamespace

import numpy as np
import pytest
from real_device import real_device, with_real_device

from snapml.kernels.device.copy_stream import CudaCopyStream, marked

from .emulator.strict_arrays import StrictDevice
from .test_staged_copy import FakeArray, FakeCupy


def test_copy_comes_after_the_mark_it_waits_for_and_before_its_own():
    cupy, target, seen = FakeCupy(), np.zeros(5), []
    copies = CudaCopyStream(cupy)
    (stream,) = cupy.streams
    assert stream.is_non_blocking
    cupy.current.queue.append(lambda: seen.append(target.any()))
    copies.wait(marked(cupy, cupy.current))
    copies.copy(np.ones(5), FakeArray(target))
    mark = copies.mark()
    copies.copy(np.full(5, 2.0), FakeArray(target))
    assert not target.any()
    mark.synchronize()
    assert target.tolist() == [1.0] * 5
    assert seen == [False]
    copies.synchronize()
    assert target.tolist() == [2.0] * 5


def test_marks_let_the_host_sleep():
    kinds = []
    event = SimpleNamespace(record=lambda stream: None)
    cuda = SimpleNamespace(Event=lambda **kind: (kinds.append(kind), event)[1])
    assert marked(SimpleNamespace(cuda=cuda), None) is event
    assert kinds == [{"block": True, "disable_timing": True}]


@pytest.mark.parametrize("place", with_real_device(["emulated"]))
def test_copies_and_work_come_in_the_order_of_the_marks(place):
    device = real_device() if place == "gpu" else StrictDevice()
    with device.use():
        pinned = device.pinned_empty((1000, 3), np.dtype(np.float32))
        target, copies = device.xp.zeros((2000, 3), np.float32), device.copy_stream()
        for value in range(5):
            pinned[:] = value
            copies.wait(device.mark())
            copies.copy(pinned, target[500:1500])
            device.wait(copies.mark())
            total = float(target.sum())  # which waits
            assert total == 3000.0 * value
