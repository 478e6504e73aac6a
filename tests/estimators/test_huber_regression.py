"""Huber's regression with its scale: scikit-learn's objective, and what its gap proves."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import HuberRegressor as Peer

from snapml import HuberRegressor, load
from snapml.estimators.robust.concomitant_scale import Value, lower_bound, scale_of
from snapml.io import convert

pytestmark = pytest.mark.pairwise

SHARED = Path(__file__).parents[3] / "shared" / "data"


def make(n_rows=300, n_features=6, dtype=np.float64, seed=0):
    """Return rows whose columns have unlike units, and targets some of which are far off."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) * np.logspace(-1, 1, n_features) + 2.0
    y = X @ rng.normal(size=n_features) + 0.3 * rng.standard_t(2, n_rows)
    y[::17] += 40.0
    return X.astype(dtype), y.astype(dtype)


def objective(point, X, y, weights, epsilon, alpha):
    """Return scikit-learn's objective at coefficients, intercept and scale."""
    coef, intercept, scale = point[:-2], point[-2], point[-1]
    size = abs(y - X @ coef - intercept) / scale
    losses = np.where(size < epsilon, size**2, 2 * epsilon * size - epsilon**2)
    return float(np.sum(weights * (scale + scale * losses)) + alpha * coef @ coef)


def point_of(model):
    return np.append(model.coef_.astype(np.float64), [model.intercept_, model.scale_])


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("alpha", [1e-4, 1.0, 1e3])
@pytest.mark.parametrize("epsilon", [1.01, 1.35, 5.0])
def test_objective_is_that_of_scikit_learn_and_no_model_is_below_the_gap(
    epsilon, alpha, is_weighted
):
    X, y = make()
    weights = np.random.default_rng(1).integers(0, 3, len(y)) if is_weighted else np.ones(len(y))
    how = dict(epsilon=epsilon, alpha=alpha)
    model = HuberRegressor(**how).fit(X, y, weights)
    peer = Peer(**how, max_iter=10_000, tol=1e-8).fit(X, y, weights)
    own, least = (objective(point_of(m), X, y, weights, epsilon, alpha) for m in (model, peer))
    assert model.objective_ == pytest.approx(own, rel=1e-12)
    assert own - least <= model.gap_ + 1e-9 * own
    assert model.gap_ <= 1e-5 * own
    np.testing.assert_array_equal(
        model.outliers_, abs(y - model.predict(X)) > epsilon * model.scale_
    )


@pytest.mark.parametrize("size", [1e-1, 1e-3, 1e-5])
def test_gap_holds_against_other_models_and_scales(size):
    X, y = make(seed=2)
    model = HuberRegressor(alpha=0.1, tol=1e-3).fit(X, y)
    rng = np.random.default_rng(3)
    start = point_of(model)
    for _ in range(50):
        other = start * (1.0 + size * rng.normal(size=len(start)))
        assert objective(other, X, y, 1.0, 1.35, 0.1) >= model.objective_ - model.gap_
    best = minimize(
        lambda p: objective(p, X, y, 1.0, 1.35, 0.1), start, method="Nelder-Mead",
        options={"maxiter": 4000, "xatol": 1e-10, "fatol": 1e-10},
    )  # fmt: skip
    assert best.fun >= model.objective_ - model.gap_


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_dense_and_sparse_rows_stores_and_both_types_agree(fit_intercept, tmp_path):
    X, y = make()
    X = X * (np.random.default_rng(4).random(X.shape) < 0.6)
    how = dict(alpha=0.5, fit_intercept=fit_intercept)
    wide = HuberRegressor(**how).fit(X, y)
    convert(iter([(X[:100], y[:100]), (X[100:], y[100:])]), tmp_path / "store", dtype="float64")
    single = X.astype(np.float32)
    for rows in (csr_matrix(X), single, csr_matrix(single), tmp_path / "store"):
        model = HuberRegressor(**how).fit(rows, None if isinstance(rows, Path) else y)
        assert abs(model.objective_ - wide.objective_) <= model.gap_ + 1e-5 * wide.objective_
        assert model.scale_ == pytest.approx(wide.scale_, rel=5e-3)
        assert model.outliers_.shape == y.shape


def test_california_is_that_of_the_oracle():
    if not SHARED.exists():
        pytest.skip("no shared data beside the repository")
    rows = np.genfromtxt(SHARED / "california_housing.csv.gz", delimiter=",", skip_header=1)
    rows = rows[np.isfinite(rows[:, :9]).all(axis=1), :9]
    X, y = rows[:, :8], rows[:, 8] / 1e5
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    case = json.loads((SHARED / "glm_oracles.json").read_text())["cases"]["california_huber"]
    model = HuberRegressor(epsilon=1.35, alpha=1e-4, tol=1e-9).fit(X, y)
    theirs = np.append(case["coef"], [case["intercept"], case["scale"]])
    least = objective(theirs, X, y, 1.0, 1.35, 1e-4)
    assert abs(model.objective_ - least) <= 1e-9 * least + model.gap_
    np.testing.assert_allclose(point_of(model), theirs, rtol=1e-3)


def test_many_columns_and_either_solver_have_one_answer():
    X, y = make(400, 600, seed=5)
    fits = [HuberRegressor(alpha=100.0, solver=s).fit(X, y) for s in ("auto", "sdca", "pqn")]
    for model in fits[1:]:
        assert abs(model.objective_ - fits[0].objective_) <= model.gap_ + fits[0].gap_


def test_no_penalty_has_the_answer_of_hardly_any():
    X, y = make()
    model, nearly = (HuberRegressor(alpha=a, tol=1e-8).fit(X, y) for a in (0.0, 1e-10))
    assert model.objective_ == pytest.approx(nearly.objective_, rel=1e-7)


def test_warm_start_goes_on_from_the_last_model_and_scale():
    X, y = make(2000)
    model = HuberRegressor(warm_start=True).fit(X, y)
    first, scale = model.n_iter_, model.scale_
    model.fit(X, y)
    assert model.n_iter_ < first
    assert model.scale_ == pytest.approx(scale, rel=1e-3)


def test_rows_on_a_plane_have_hardly_any_scale():
    X, y = make()
    plane = X @ np.arange(6.0) + 1.0
    model = HuberRegressor(alpha=0.0).fit(X, plane)
    np.testing.assert_allclose(model.coef_, np.arange(6.0), atol=1e-6)
    assert 0.0 < model.scale_ < 1e-6
    constant = HuberRegressor().fit(X, np.full(len(y), 3.0))
    np.testing.assert_allclose(constant.predict(X), 3.0, rtol=1e-6)
    zero = HuberRegressor().fit(X, np.zeros(len(y)))
    np.testing.assert_array_equal(zero.predict(X), 0.0)


def test_equal_fits_give_equal_bits_and_files_keep_them(tmp_path):
    X, y = make()
    model, again = (HuberRegressor().fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(model.coef_, again.coef_)
    assert model.scale_ == again.scale_
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))
    theirs = model.to_sklearn()
    assert isinstance(theirs, Peer)
    assert theirs.scale_ == model.scale_
    np.testing.assert_allclose(theirs.predict(X), model.predict(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"epsilon": 0.9}, "epsilon: expected a number of at least 1"),
        ({"epsilon": np.inf}, "epsilon: expected a finite number"),
        ({"epsilon": np.nan}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": np.inf}, "alpha"),
        ({"solver": "ipm"}, "solver: expected one of"),
        ({"max_iter": -1}, "max_iter"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        HuberRegressor(**bad).fit(*make())


def test_targets_whose_squares_overflow_are_refused():
    X, y = make()
    with pytest.raises(ValueError, match="overflow"):
        HuberRegressor().fit(X, 1e200 * y)


# --- the scale alone -------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1.0, 1.1, 1.35, 4.0])
def test_scale_solves_its_equation(epsilon):
    rng = np.random.default_rng(6)
    residuals, weights = rng.standard_t(1, 500), rng.random(500)
    scale = scale_of(residuals, weights, epsilon, lambda own: own)
    left = weights @ np.minimum((residuals / scale) ** 2, epsilon**2)
    if epsilon > 1.0:
        assert left == pytest.approx(weights.sum(), rel=1e-10)
    assert left >= weights.sum() * (1 - 1e-10)


def test_scale_of_mostly_no_residuals_is_none():
    residuals = np.zeros(100)
    residuals[:30] = 1.0
    assert scale_of(residuals, np.ones(100), 1.35, lambda own: own) == 0.0
    assert scale_of(np.zeros(5), np.ones(5), 1.35, lambda own: own) == 0.0


def test_lower_bound_of_a_convex_function_is_below_it():
    def value(scale):
        return 3.0 * scale + 2.0 / scale  # its slope is between -inf and 3

    best = np.sqrt(2.0 / 3.0)
    for scales in ([0.8], [0.5, 0.81], [0.7, 0.8, 0.95], [0.815, 0.8165, 0.818], [0.9, 1.0, 1.2]):
        values = [Value(s, value(s) - 1e-9, value(s)) for s in scales]
        bound = lower_bound(values, 3.0, 4.0)
        assert bound <= value(best)
    near = [Value(s, value(s), value(s)) for s in (0.81, 0.8165, 0.823)]
    assert lower_bound(near, 3.0, 4.0) >= value(best) * (1 - 1e-3)


def wide(n_rows=40, n_features=90, seed=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) + 1.0
    return X, X[:, 0] + rng.standard_t(2, n_rows) + 5.0


@pytest.mark.parametrize("layout", [np.asarray, csr_matrix])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_more_columns_than_rows_are_interpolated_where_that_is_best(
    layout, fit_intercept, is_weighted
):
    X, y = wide()
    weights = np.random.default_rng(1).integers(0, 4, len(y)) if is_weighted else np.ones(len(y))
    how = dict(alpha=1e-3, fit_intercept=fit_intercept)
    model = HuberRegressor(**how).fit(layout(X), y, weights)
    assert "meets every target" in model.solver_
    np.testing.assert_allclose(model.predict(layout(X))[weights > 0], y[weights > 0], rtol=1e-9)
    assert model.gap_ <= 1e-6 * model.objective_
    rng, start = np.random.default_rng(3), point_of(model)
    for size in np.logspace(-6, 0, 60):
        other = start + size * np.append(rng.normal(size=len(start) - 2), [0.0, 0.0])
        other[-2] += size * rng.normal() * fit_intercept
        left = y - X @ other[:-2] - other[-2]
        other[-1] = max(1e-15, scale_of(left, weights.astype(float), 1.35, lambda own: own))
        assert objective(other, X, y, weights, 1.35, 1e-3) >= model.objective_ - model.gap_


def test_rows_of_weight_zero_are_finite_too():
    X, y = wide()
    X[3, 5] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        HuberRegressor().fit(X, y, np.arange(len(y)) != 3)


@pytest.mark.parametrize("alpha", [300.0, 1e4])
def test_more_columns_than_rows_keep_a_scale_where_the_penalty_wants_one(alpha):
    X, y = wide()
    model = HuberRegressor(alpha=alpha).fit(X, y)
    peer = Peer(alpha=alpha, max_iter=10_000, tol=1e-9).fit(X, y)
    own, least = (objective(point_of(m), X, y, 1.0, 1.35, alpha) for m in (model, peer))
    assert model.scale_ > 1e-3
    assert own - least <= model.gap_ + 1e-9 * own
    assert model.gap_ <= 1e-5 * own


def test_a_fit_that_ends_early_warns_once():
    X, y = make()
    with pytest.warns(ConvergenceWarning, match="tol=1e-05 was not reached") as caught:
        HuberRegressor(max_iter=1).fit(X, y)
    assert len(caught) == 1
