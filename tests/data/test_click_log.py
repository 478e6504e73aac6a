"""The generated click log: its shape, its statistics, and that it follows its seed."""

import numpy as np
import pytest

from snapml.data import make_click_log

SIZE = dict(n_rows=5000, n_features=2000)


@pytest.fixture(scope="module")
def click_log():
    return make_click_log(**SIZE)


def test_every_row_has_39_distinct_sorted_columns(click_log):
    X, _ = click_log
    assert X.shape == (5000, 2000)
    assert np.all(np.diff(X.indptr) == 39)
    columns = X.indices.reshape(5000, 39)
    assert np.all(np.diff(columns, axis=1) > 0)
    assert columns.min() >= 0
    assert columns.max() < 2000


def test_all_values_are_one(click_log):
    X, _ = click_log
    assert X.data.dtype == np.float32
    assert np.all(X.data == 1)
    assert make_click_log(**SIZE, dtype=np.float64)[0].dtype == np.float64


def test_indices_are_32_bit(click_log):
    assert click_log[0].indices.dtype == click_log[0].indptr.dtype == np.int32


def test_about_a_quarter_of_the_rows_are_clicks(click_log):
    _, y = click_log
    assert y.dtype == np.int64
    assert set(y) == {0, 1}
    assert 0.1 < y.mean() < 0.45


def test_labels_follow_the_columns(click_log):
    """A row's frequent columns say something about its label: it is a planted model, not noise."""
    X, y = click_log
    counts = np.asarray(X.sum(axis=0)).ravel()
    frequent = np.argsort(counts)[-200:]
    clicks = np.asarray(X[:, frequent][y == 1].sum(axis=0)).ravel()
    rates, mean = clicks / counts[frequent], y.mean()
    deviations = (rates - mean) / np.sqrt(mean * (1 - mean) / counts[frequent])
    assert deviations.std() > 1.5  # 1 if labels were drawn without looking


def test_categories_are_skewed(click_log):
    X, _ = click_log
    counts = np.sort(np.asarray(X.sum(axis=0)).ravel())[::-1]
    assert counts[:200].sum() > 0.5 * counts.sum()
    assert counts[1000:].sum() < 0.1 * counts.sum()


def test_same_seed_gives_the_same_data(click_log):
    X, y = make_click_log(**SIZE, random_state=0)
    assert np.array_equal(X.indices, click_log[0].indices)
    assert np.array_equal(y, click_log[1])


def test_data_vary_with_the_seed(click_log):
    X, y = make_click_log(**SIZE, random_state=1)
    assert not np.array_equal(X.indices, click_log[0].indices)
    assert not np.array_equal(y, click_log[1])


@pytest.mark.parametrize(("n_features", "n_fields"), [(312, 39), (8, 1), (1000, 20)])
def test_fields_share_out_all_columns(n_features, n_fields):
    X, _ = make_click_log(20_000, n_features, n_fields)
    assert np.all(np.diff(X.indptr) == n_fields)
    assert X.has_sorted_indices
    if n_features < 500:  # few enough for every category to occur in 20 000 draws
        assert len(np.unique(X.indices)) == n_features


def test_too_few_columns_are_refused():
    with pytest.raises(ValueError, match=r"n_features >= 8 \* n_fields = 312, got 311"):
        make_click_log(10, 311)
