import numpy as np
import pytest

from snapml.solvers.many import many_paths
from snapml.solvers.many.many_paths import ManyPaths

PATHS = np.array([0, 1])


def vectors(*columns):
    return np.array(columns, dtype=np.float32).T


def test_paths_begin_at_zero_and_then_at_their_only_model():
    paths = ManyPaths(3, 2, np.dtype(np.float32))
    np.testing.assert_array_equal(paths.starts(PATHS, np.array([1.0, 1.0])), np.zeros((3, 2)))
    models = vectors([1, 2, 3], [4, 5, 6])
    paths.add(PATHS, np.array([1.0, 1.0]), models)
    starts = paths.starts(PATHS, np.array([10.0, 10.0]))
    np.testing.assert_array_equal(starts, models)
    assert starts.dtype == np.float32


@pytest.mark.parametrize(("C", "way"), [(100.0, 1.0), (10.0**1.5, 0.5), (1e6, 1.0), (10.0, 0.0)])
def test_the_next_model_goes_on_in_a_straight_line_in_log_C_as_far_as_the_last_move(C, way):
    paths = ManyPaths(1, 1, np.dtype(np.float64))
    for factor, number in [(1.0, 2.0), (10.0, 5.0)]:
        paths.add(np.array([0]), np.array([factor]), np.array([[number]]))
    start = paths.starts(np.array([0]), np.array([C]))
    np.testing.assert_allclose(start, [[5.0 + many_paths._SHARE * way * 3.0]])


def test_of_several_models_of_a_path_only_the_first_goes_on_from_the_last():
    paths = ManyPaths(1, 2, np.dtype(np.float64))
    # In one call, C rising: the last two of each path count.
    of = np.array([0, 1, 0, 1, 0, 1])
    factors = np.array([1.0, 1.0, 10.0, 10.0, 100.0, 100.0])
    paths.add(of, factors, np.array([[0.0, 0.0, 1.0, 10.0, 3.0, 30.0]]))
    starts = paths.starts(np.array([0, 1, 0, 1]), np.array([1e3, 1e3, 1e4, 1e4]))
    step = many_paths._SHARE
    np.testing.assert_allclose(starts, [[3.0 + 2.0 * step, 30.0 + 20.0 * step, 3.0, 30.0]])


def test_equal_values_of_C_are_no_direction():
    paths = ManyPaths(1, 1, np.dtype(np.float64))
    for number in (1.0, 1.5):
        paths.add(np.array([0]), np.array([2.0]), np.array([[number]]))
    np.testing.assert_array_equal(paths.starts(np.array([0]), np.array([4.0])), [[1.5]])
