"""Rows are counted where thresholds send them, whatever the columns' numbers look like."""

import numpy as np
import pytest

from snapml import DecisionTreeRegressor

N_ROWS = 6000
MOST = np.finfo(np.float32).max


def column(kind, rng):
    """Return numbers of any size in float32."""
    normal = rng.normal(size=N_ROWS)
    return {
        "normal": normal,
        "skewed": np.exp(8 * normal),
        "of all magnitudes": np.sign(normal) * 10.0 ** rng.uniform(-44, 38, N_ROWS),
        "of the whole range": rng.uniform(-1, 1, N_ROWS) * MOST,
        "far from zero": 1e8 + 100 * normal,
        "below the least normal number": 1e-41 * normal,
        "mostly one": np.where(normal > 2, normal, 1.0),
        "with an outlier": np.where(np.arange(N_ROWS) == 7, MOST, normal),
        "one": np.ones(N_ROWS),
        "a few": rng.integers(0, 5, N_ROWS) ** 20.0,
        "missing": np.full(N_ROWS, np.nan),
    }[kind].astype(np.float32)


@pytest.mark.parametrize("max_bins", [2, 17, 255, 3000])
@pytest.mark.parametrize(
    "kind",
    [
        "normal",
        "skewed",
        "of all magnitudes",
        "of the whole range",
        "far from zero",
        "below the least normal number",
        "mostly one",
        "with an outlier",
        "one",
        "a few",
        "missing",
    ],
)
def test_counts_are_those_of_the_thresholds(kind, max_bins):
    rng = np.random.default_rng(3)
    x = column(kind, rng)
    x[::13] = np.nan
    X = np.stack([x, rng.normal(size=N_ROWS).astype(np.float32)], axis=1)
    target = rng.normal(size=N_ROWS) + np.argsort(np.argsort(x)) / 2000
    model = DecisionTreeRegressor(splitter="hist", max_bins=max_bins).fit(X, target)
    tree = model.tree_
    assert (tree.feature == 0).any() or kind == "missing"
    n_rows = tree.decision_path(X).sum(axis=0)
    np.testing.assert_array_equal(np.asarray(n_rows).ravel(), tree.n_node_samples)
