"""The emulated device's arrays refuse what CuPy's refuse."""

import numpy as np
import pytest

from .emulator.strict_arrays import STRICT_NUMPY, StrictDevice

XP = STRICT_NUMPY


@pytest.fixture
def array():
    return StrictDevice().to_device(np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize(
    "mix",
    [
        np.asarray,
        np.sum,
        np.sqrt,
        lambda x: np.concatenate([x, x]),
        lambda x: x + np.ones(3),
        lambda x: np.ones(3) + x,
        lambda x: x * np.ones((2, 3)),
        lambda x: np.ones((3, 2)) @ x,
        lambda x: x < np.ones(3),
        lambda x: x.__iadd__(np.ones(3)) + np.ones(3),
        lambda x: x[np.array([0])],
        lambda x: x.__setitem__(slice(None), np.ones(3)),
        lambda x: XP.sqrt(np.ones(3)),
        XP.asarray,
    ],
)
def test_arrays_of_host_and_device_do_not_mix(array, mix):
    with pytest.raises(TypeError):
        mix(array)


def test_functions_that_cupy_lacks_are_absent():
    with pytest.raises(AttributeError):
        XP.errstate  # noqa: B018
    with pytest.raises(AssertionError, match="quicksort"):
        XP.argsort(XP.zeros(3), kind="quicksort")


def test_sums_are_arrays_and_agree_with_numpy(array):
    total = array.sum()
    assert isinstance(total, XP.ndarray)
    assert float(total) == 15.0
    assert bool((array * 2.0 - array == array).all())
    array /= 2.0
    np.testing.assert_array_equal(StrictDevice().to_host(array[1, 1:]), [2.0, 2.5])


def test_arrays_of_two_devices_do_not_mix():
    first, second = StrictDevice(), StrictDevice()
    with first.use():
        ours = XP.zeros(3)
        theirs = second.to_device(np.ones(3))
        for mix in (
            lambda: ours + theirs,
            lambda: ours.__setitem__(slice(None), theirs),
            lambda: ours.__iadd__(theirs),
            lambda: XP.vdot(ours, theirs),
            theirs.sum,
        ):
            with pytest.raises(ValueError, match="current device"):
                mix()
        with pytest.raises(AssertionError, match="may not be complete"):
            first.copy_of(theirs)
        second.synchronize()
        assert float((ours + first.copy_of(theirs)).sum()) == 3.0
    with second.use():
        assert float(theirs.sum()) == 3.0


def test_factor_of_an_indefinite_matrix_is_refused():
    matrix = StrictDevice().to_device(np.array([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(np.linalg.LinAlgError):
        StrictDevice().cholesky(matrix)
    assert not hasattr(XP.linalg, "cholesky")  # CuPy's does not say that it failed
