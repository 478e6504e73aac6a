"""Labels are those of np.unique, whatever their type."""

import numpy as np
import pytest

from snapml import DecisionTreeClassifier
from snapml.trees.labels import encode_labels


@pytest.mark.parametrize("order", ["=", ">"])
@pytest.mark.parametrize("at", ["least", "zero", "most"])
@pytest.mark.parametrize("dtype", "bBhHiIqQ")
def test_whole_numbers_of_any_type_are_counted(dtype, at, order):
    """A span of 251 is more than the differences of int8 can hold."""
    info = np.iinfo(dtype)
    first = {"least": info.min, "zero": max(-125, info.min), "most": info.max - 250}[at]
    numbers = [first + 10 * k for k in range(26)]
    y = np.array(numbers * 3, np.dtype(dtype).newbyteorder(order))[::-1]
    classes, codes = encode_labels(y)
    expected, places = np.unique(y, return_inverse=True)
    assert classes.dtype == y.dtype
    np.testing.assert_array_equal(classes, expected)
    np.testing.assert_array_equal(codes, places)


def test_many_rows_of_int16_are_counted():
    y = np.tile(np.array([20_000, -20_000, 7], np.int16), 15_000)
    classes, codes = encode_labels(y)
    assert classes.tolist() == [-20_000, 7, 20_000]
    np.testing.assert_array_equal(classes[codes], y)


def test_a_tree_tells_labels_of_int8_apart():
    y = np.array([-100, 0, 100] * 20, np.int8)
    X = y[:, None].astype(np.float32)
    model = DecisionTreeClassifier(splitter="hist").fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)
