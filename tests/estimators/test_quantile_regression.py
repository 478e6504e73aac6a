"""Quantile regression, held against scikit-learn's linear program and exact fits of others."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import QuantileRegressor as Peer

from snapml import QuantileRegressor, load
from snapml.io import convert

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


def objective(model, X, y, weights=None):
    """Return scikit-learn's objective of a model."""
    r, q = y - model.predict(X), model.quantile
    losses = np.maximum(q * r, (q - 1) * r)
    penalty = getattr(model, "alpha", 0.0) * abs(model.coef_).sum()
    return np.average(losses, weights=weights) + penalty


@pytest.mark.parametrize("alpha", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("quantile", [0.05, 0.5, 0.8])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_objective_is_that_of_scikit_learn(diabetes, quantile, alpha, is_weighted):
    X, y = diabetes
    weights = np.random.default_rng(0).integers(0, 3, len(y)) if is_weighted else None
    model = QuantileRegressor(quantile=quantile, alpha=alpha).fit(X, y, weights)
    peer = Peer(quantile=quantile, alpha=alpha).fit(X, y, weights)
    least = objective(peer, X, y, weights)
    assert model.objective_ == pytest.approx(objective(model, X, y, weights), rel=1e-12)
    assert -1e-9 <= model.objective_ - least <= model.gap_ + 1e-9
    assert model.gap_ <= 1e-6 * model.objective_


@pytest.mark.parametrize("n_rows", [100, 5_000])
def test_coefficients_of_no_use_are_zeros(n_rows):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n_rows, 12))
    y = X[:, :3] @ [3.0, -2.0, 1.0] + rng.normal(size=n_rows)
    model, peer = (cls(alpha=0.1).fit(X, y) for cls in (QuantileRegressor, Peer))
    np.testing.assert_array_equal(model.coef_ != 0.0, abs(peer.coef_) > 1e-12)
    assert (model.coef_ == 0.0).any()
    assert model.gap_ <= 1e-6 * model.objective_


def test_several_quantiles_are_those_of_fits_apart(diabetes):
    X, y = diabetes
    quantiles = [0.1, 0.5, 0.9]
    joint = QuantileRegressor(quantile=quantiles, alpha=0.0).fit(X, y)
    apart = [QuantileRegressor(quantile=q, alpha=0.0).fit(X, y) for q in quantiles]
    np.testing.assert_array_equal(joint.coef_, [model.coef_ for model in apart])
    np.testing.assert_array_equal(joint.intercept_, [model.intercept_ for model in apart])
    assert joint.predict(X).shape == (len(y), 3)
    assert joint.gap_ == pytest.approx(sum(model.gap_ for model in apart))


@pytest.mark.parametrize("solver", ["ipm", "sdca"])
@pytest.mark.parametrize("alpha", [0.1, 10.0])
def test_l2_penalty_has_one_answer(diabetes, solver, alpha):
    X, y = diabetes
    how = dict(quantile=0.3, alpha=alpha, l1_ratio=0.0, tol=1e-5)
    model = QuantileRegressor(solver=solver, **how).fit(X, y)
    best = QuantileRegressor(solver="ipm", **{**how, "tol": 1e-10}).fit(X, y)
    assert model.gap_ <= 1e-5 * model.objective_
    assert model.objective_ - best.objective_ <= model.gap_
    r = y - model.predict(X)
    mean = np.maximum(0.3 * r, -0.7 * r).mean() + alpha * model.coef_ @ model.coef_ / 2
    assert model.objective_ == pytest.approx(mean, rel=1e-9)


def test_dense_and_sparse_rows_and_both_types_agree(diabetes):
    X, y = diabetes
    how = dict(quantile=0.4, alpha=0.05, l1_ratio=0.5)
    wide = QuantileRegressor(**how).fit(X, y)
    for rows in (csr_matrix(X), X.astype(np.float32), csr_matrix(X.astype(np.float32))):
        model = QuantileRegressor(**how).fit(rows, y)
        assert abs(model.objective_ - wide.objective_) <= model.gap_ + 1e-6 * wide.objective_
        assert model.coef_.dtype == rows.dtype


def test_share_of_rows_below_is_the_quantile():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 8))
    y = X.sum(axis=1) + np.exp(rng.normal(size=20_000))
    for quantile in (0.02, 0.5, 0.97):
        model = QuantileRegressor(quantile=quantile, alpha=0.0).fit(X, y)
        below = (y < model.predict(X)).mean()
        assert abs(below - quantile) <= 9 / 20_000


def test_equal_fits_give_equal_bits_and_files_keep_them(diabetes, tmp_path):
    X, y = diabetes
    model, again = (QuantileRegressor(alpha=0.1).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(model.coef_, again.coef_)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))
    theirs = model.to_sklearn()
    assert isinstance(theirs, Peer)
    np.testing.assert_allclose(theirs.predict(X), model.predict(X), rtol=1e-12)


def test_stores_beyond_memory_take_an_l2_penalty_and_say_so(diabetes, tmp_path):
    X, y = diabetes
    convert(iter([(X, y)]), tmp_path / "store", dtype="float64")
    how = dict(quantile=0.4, alpha=0.1, l1_ratio=0.0, tol=1e-4)
    streamed = QuantileRegressor(memory_limit=1, **how).fit(tmp_path / "store")
    assert "coordinate ascent" in streamed.solver_
    whole = QuantileRegressor(**how).fit(X, y)
    assert abs(streamed.objective_ - whole.objective_) <= streamed.gap_ + whole.gap_
    with pytest.raises(NotImplementedError, match="an L2 penalty alone"):
        QuantileRegressor(memory_limit=1).fit(tmp_path / "store")


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
def test_stores_with_room_in_memory_are_solved_there(diabetes, tmp_path, l1_ratio):
    X, y = diabetes
    parts = [(X[rows], y[rows]) for rows in (slice(None, 200), slice(200, None))]
    convert(iter(parts), tmp_path / "store", dtype="float64", chunk_bytes=8192)
    how = dict(quantile=0.4, alpha=0.1, l1_ratio=l1_ratio)
    stored, whole = QuantileRegressor(**how).fit(tmp_path / "store"), QuantileRegressor(**how)
    whole.fit(X, y)
    np.testing.assert_array_equal(stored.coef_, whole.coef_)
    assert (stored.objective_, stored.solver_) == (whole.objective_, whole.solver_)


@pytest.mark.parametrize(
    "quantile", [0, 1, -0.1, 1.5, np.nan, "half", [], [0.5, 1.0], [[0.5]], None]
)
def test_quantiles_outside_are_refused(diabetes, quantile):
    with pytest.raises(ValueError, match="quantile: expected numbers between 0 and 1"):
        QuantileRegressor(quantile=quantile).fit(*diabetes)


def test_other_bad_parameters_are_refused(diabetes):
    for bad, message in (
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": np.inf}, "alpha"),
        ({"l1_ratio": 1.5}, "l1_ratio"),
        ({"solver": "pqn"}, "solver: expected"),
        ({"solver": "sdca"}, "needs an L2 penalty"),
    ):
        with pytest.raises(ValueError, match=message):
            QuantileRegressor(**bad).fit(*diabetes)


def test_engel_fits_are_those_of_the_exact_linear_program():
    if not SHARED.exists():
        pytest.skip("no shared data beside the repository")
    engel = pytest.importorskip("statsmodels.datasets").engel.load_pandas().data
    X, y = engel[["income"]].to_numpy(), engel["foodexp"].to_numpy()
    cases = json.loads((SHARED / "glm_oracles.json").read_text())["cases"]
    names = [name for name in cases if name.startswith("engel_quantile")]
    assert len(names) == 7
    for name in names:
        quantile, case = float(name.removeprefix("engel_quantile")), cases[name]
        model = QuantileRegressor(quantile=quantile, alpha=0.0, tol=1e-12).fit(X, y)
        found = [model.intercept_, model.coef_[0], len(y) * model.objective_]
        wanted = [case["intercept"], case["income"], case["objective"]]
        np.testing.assert_allclose(found, wanted, rtol=1e-7)


@pytest.mark.parametrize("alpha", [1e-300, 1e-160])
def test_a_penalty_whose_squares_overflow_ends_with_a_model_and_a_warning(alpha):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), 1.0 * rng.poisson(0.1, size=300)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        model = QuantileRegressor(alpha=alpha, l1_ratio=0.0).fit(X, y)
    assert np.isfinite(model.coef_).all()
