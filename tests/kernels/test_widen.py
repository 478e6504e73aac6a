"""Rows in one or two bytes an entry mean on a device what they mean on the host."""

import numpy as np
import pytest

from snapml.data.narrow_rows import NarrowRows, narrowed
from snapml.kernels.matrices.widen import widened

from .emulator import EmulatedDevice


def meaning(rows):
    out = np.empty(rows.values.shape, np.float32)
    rows.widen(out)
    return out


@pytest.mark.parametrize("storage", ["bfloat16", "uint8"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (7, 5), (300, 41)])
def test_entries_are_those_of_the_host_to_the_bit(storage, shape):
    X = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    rows = narrowed(X, storage)
    found = widened(EmulatedDevice(), rows.values, rows.scales, rows.offsets)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.values.view(np.uint32), meaning(rows).view(np.uint32))


def test_every_pattern_of_bits_is_widened():
    bits = np.arange(2**16, dtype=np.uint16).reshape(256, 256)
    found = widened(EmulatedDevice(), bits).values.view(np.uint32)
    np.testing.assert_array_equal(found, bits.astype(np.uint32) << 16)


def test_steps_follow_their_column():
    levels = np.array([[0, 1], [255, 2]], np.uint8)
    scales, offsets = np.float32([0.5, -1.0]), np.float32([1.0, 10.0])
    found = widened(EmulatedDevice(), levels, scales, offsets)
    np.testing.assert_array_equal(found.values, [[1.0, 9.0], [128.5, 8.0]])
    np.testing.assert_array_equal(found.values, meaning(NarrowRows(levels, scales, offsets)))
