"""Poisson and Gamma regression: scikit-learn's minimum, statsmodels' numbers, every place."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import scipy.special
import sklearn.linear_model
from kernels.emulator.strict_arrays import StrictDevice
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import d2_tweedie_score
from sklearn.model_selection import GridSearchCV, cross_val_score

import snapml
from snapml import GammaRegressor, PoissonRegressor
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.solvers.plan import device_choice

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
RNG = np.random.default_rng(0)
N, P = 400, 6
X = RNG.normal(size=(N, P)) * (RNG.random((N, P)) < 0.7)
MARGINS = X[:, :3] @ [0.4, -0.3, 0.2] + 0.5
TARGETS = {
    "PoissonRegressor": RNG.poisson(np.exp(MARGINS)).astype(float),
    "GammaRegressor": 1000.0 * RNG.gamma(2.0, np.exp(MARGINS) / 2.0),
}
WEIGHTS = RNG.integers(0, 4, N).astype(float)
OFFSETS = RNG.normal(size=N)
FAMILIES = [PoissonRegressor, GammaRegressor]


@pytest.fixture(params=FAMILIES, ids=lambda cls: cls.__name__)
def family(request):
    return request.param


def half_deviances(family, y, means):
    if family is PoissonRegressor:
        return scipy.special.xlogy(y, y / means) - y + means
    return y / means - np.log(y / means) - 1.0


def objective(family, coef, intercept, alpha, l1_ratio, weights, offsets, rows=X):
    """Return half the mean deviance and the penalty, in float64."""
    y = TARGETS[family.__name__]
    means = np.exp(rows @ coef + intercept + offsets)
    mean = weights @ half_deviances(family, y, means) / weights.sum()
    l1, l2 = alpha * l1_ratio, alpha * (1.0 - l1_ratio)
    return mean + l1 * np.abs(coef).sum() + l2 * (coef @ coef) / 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("alpha", [1.0, 1e-3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_finds_scikit_learns_minimum(family, container, dtype, alpha, fit_intercept):
    y = TARGETS[family.__name__]
    options = dict(alpha=alpha, fit_intercept=fit_intercept)
    theirs = getattr(sklearn.linear_model, family.__name__)
    theirs = theirs(**options, tol=1e-10, max_iter=10_000, solver="newton-cholesky")
    theirs.fit(X, y, WEIGHTS)
    model = family(**options, tol=1e-10 if dtype == np.float64 else 1e-5)
    model.fit(container(X.astype(dtype)), y, WEIGHTS)
    assert model.coef_.dtype == dtype
    terms = alpha, 0.0, WEIGHTS, np.zeros(N)
    least = objective(family, theirs.coef_, theirs.intercept_, *terms)
    at_model = objective(family, model.coef_.astype(float), model.intercept_, *terms)
    slack = least * (1e-12 if dtype == np.float64 else 1e-5)
    assert model.objective_ == pytest.approx(at_model, rel=1e-12 if dtype == np.float64 else 1e-5)
    assert least - slack <= model.objective_
    assert model.objective_ - model.gap_ <= least + slack
    assert model.gap_ <= model.tol * model.objective_
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-5 if slack < 1e-9 else 5e-3)
    found = model.score(X.astype(dtype), y, WEIGHTS)
    assert found == pytest.approx(theirs.score(X, y, WEIGHTS), abs=1e-4)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_l1_penalties_find_a_point_that_no_direction_betters(family, container, l1_ratio):
    y, alpha = TARGETS[family.__name__], 0.2 / l1_ratio
    model = family(alpha=alpha, l1_ratio=l1_ratio, tol=1e-11, max_iter=1000)
    model.fit(container(X), y, offset=OFFSETS)
    assert (model.coef_ == 0.0).any()
    assert (model.coef_ != 0.0).any()
    terms = alpha, l1_ratio, np.ones(N), OFFSETS
    best = objective(family, model.coef_, model.intercept_, *terms)
    assert best == pytest.approx(model.objective_, rel=1e-12)
    for step in 1e-3 * np.random.default_rng(1).normal(size=(50, P + 1)):
        moved = objective(family, model.coef_ + step[:P], model.intercept_ + step[P], *terms)
        assert moved >= model.objective_ - model.gap_


def test_means_add_up_to_the_counts():
    y = TARGETS["PoissonRegressor"]
    for l1_ratio in (0.0, 0.5):
        model = PoissonRegressor(alpha=0.1, l1_ratio=l1_ratio, tol=1e-10, max_iter=1000)
        model.fit(X, y, WEIGHTS, offset=OFFSETS)
        means = model.predict(X, offset=OFFSETS)
        assert WEIGHTS @ means == pytest.approx(WEIGHTS @ y, rel=1e-6)


def test_exposure_is_the_logarithm_of_an_offset(family):
    y, exposure = TARGETS[family.__name__], np.exp(OFFSETS)
    one = family(alpha=0.01, tol=1e-10).fit(X, y, offset=OFFSETS)
    other = family(alpha=0.01, tol=1e-10).fit(X, y, exposure=exposure)
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-6)
    np.testing.assert_allclose(
        other.predict(X, exposure=exposure), one.predict(X, offset=OFFSETS), rtol=1e-6
    )
    both = family(alpha=0.01, tol=1e-10).fit(X, y, offset=0.5 * OFFSETS, exposure=exposure**0.5)
    np.testing.assert_allclose(both.coef_, one.coef_, rtol=1e-6, atol=1e-9)
    assert one.score(X, y, offset=OFFSETS) == pytest.approx(other.score(X, y, exposure=exposure))
    with pytest.raises(ValueError, match="was fitted with one; offset=0 leaves it out"):
        one.predict(X)
    for wrong in (0.0, -1.0, np.nan, np.where(np.arange(N) == 3, 0.0, exposure)):
        with pytest.raises(ValueError, match="exposure: expected positive numbers"):
            family().fit(X, y, exposure=wrong)


def test_rate_with_weights_is_count_with_exposure():
    """As insurers may write either; see families of log link and their offsets."""
    y, exposure = TARGETS["PoissonRegressor"], np.exp(OFFSETS)
    counts = PoissonRegressor(alpha=0.0, tol=1e-11).fit(X, y, exposure=exposure)
    rates = PoissonRegressor(alpha=0.0, tol=1e-11).fit(X, y / exposure, exposure)
    np.testing.assert_allclose(rates.coef_, counts.coef_, rtol=1e-6)


@pytest.mark.parametrize("size", [-1e3, 50.0, 1e3])
def test_far_offsets_move_the_intercept_and_nothing_else(family, size):
    y = TARGETS[family.__name__]
    plain = family(alpha=0.1, tol=1e-9).fit(X, y)
    moved = family(alpha=0.1, tol=1e-9).fit(X, y, offset=np.full(N, size))
    np.testing.assert_allclose(moved.coef_, plain.coef_, atol=1e-6)
    assert moved.intercept_ + size == pytest.approx(plain.intercept_, abs=1e-6)


def test_units_of_amounts_do_not_matter():
    y = TARGETS["GammaRegressor"]
    plain = GammaRegressor(alpha=0.1, tol=1e-10).fit(X, y)
    for unit in (1e-9, 1e12):
        other = GammaRegressor(alpha=0.1, tol=1e-10).fit(X, unit * y)
        np.testing.assert_allclose(other.coef_, plain.coef_, rtol=1e-7)
        assert other.objective_ == pytest.approx(plain.objective_, rel=1e-9)


def test_d2_is_scikit_learns(family):
    y = TARGETS[family.__name__]
    model = family(alpha=0.1).fit(X, y)
    power = 1 if family is PoissonRegressor else 2
    expected = d2_tweedie_score(y, model.predict(X), sample_weight=WEIGHTS, power=power)
    assert model.score(X, y, WEIGHTS) == pytest.approx(expected, rel=1e-10)


def test_rows_of_a_store_and_of_a_device_find_the_same_minimum(family, tmp_path, monkeypatch):
    y = TARGETS[family.__name__]
    monkeypatch.setattr(device_choice, "make_device", lambda _: StrictDevice())
    with ChunkWriter(tmp_path / "store", chunk_bytes=4000) as writer:
        writer.append(X, y)
    store = ChunkedDataset.open(tmp_path / "store", memory_limit=0)
    for more in ({}, {"l1_ratio": 1.0}):
        options = dict(alpha=0.05, tol=1e-9, max_iter=1000, **more)
        expected = family(**options).fit(X, y, offset=OFFSETS)
        for model in (
            family(**options).fit(store, offset=OFFSETS),
            family(**options, device_ids=[0]).fit(X, y, offset=OFFSETS),
        ):
            np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-4)
            assert model.gap_ <= 1e-9 * model.objective_
            assert model.objective_ == pytest.approx(expected.objective_, rel=2e-9)


def test_models_come_back_from_files_and_go_to_scikit_learn(family, tmp_path):
    y = TARGETS[family.__name__]
    model = family(alpha=0.1).fit(X, y)
    model.save(tmp_path / "model")
    theirs = model.to_sklearn()
    assert type(theirs).__module__.startswith("sklearn")
    for other in (
        snapml.load(tmp_path / "model"),
        snapml.from_json(model.to_json()),
        theirs,
        family.from_sklearn(theirs),
    ):
        np.testing.assert_allclose(other.predict(X), model.predict(X), rtol=1e-13)


def test_searches_and_scores_work_as_in_scikit_learn(family):
    y = TARGETS[family.__name__]
    search = GridSearchCV(family(tol=1e-6), {"alpha": [1e-3, 1.0]}, cv=3).fit(X, y)
    theirs = getattr(sklearn.linear_model, family.__name__)
    expected = GridSearchCV(theirs(tol=1e-8, max_iter=1000), {"alpha": [1e-3, 1.0]}, cv=3)
    expected.fit(X, y)
    assert search.best_params_ == expected.best_params_
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"],
        expected.cv_results_["mean_test_score"],
        atol=1e-4,
    )
    assert np.isfinite(cross_val_score(family(), X, y, cv=3)).all()


def test_warm_start_goes_on_from_the_last_model(family):
    y = TARGETS[family.__name__]
    model = family(alpha=0.01, tol=1e-9, warm_start=True).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ < first
    np.testing.assert_allclose(model.coef_, family(alpha=0.01, tol=1e-9).fit(X, y).coef_, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "wrong", "says"),
    [
        (PoissonRegressor, lambda y: y - 1.0, "y: expected counts, .* got -1"),
        (PoissonRegressor, lambda y: 0.0 * y, "y: expected a count above 0, got zeros only"),
        (GammaRegressor, lambda y: np.where(y > 1e3, y, 0.0), "expected positive amounts.*got 0"),
        (GammaRegressor, lambda y: -y, "expected positive amounts"),
        (PoissonRegressor, lambda y: np.where(y > 2, np.nan, y), "contains NaN"),
    ],
)
def test_targets_outside_the_family_are_refused_and_leave_nothing(family, wrong, says):
    y = wrong(TARGETS[family.__name__])
    model = family()
    with pytest.raises(ValueError, match=says):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": np.inf}, "alpha: expected a finite number"),
        ({"l1_ratio": 1.5}, "l1_ratio: expected a number from 0 to 1"),
        ({"solver": "magic"}, "solver: expected one of"),
        ({"tol": -1.0}, "tol"),
        ({"fit_intercept": "False"}, "fit_intercept"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(family, parameters, says):
    with pytest.raises(ValueError, match=says):
        family(**parameters).fit(X, TARGETS[family.__name__])


def test_level_without_events_ends_in_a_warning_or_far_away():
    """Its coefficient has no least value: no number says so without a word."""
    rows = np.zeros((200, 2))
    rows[:20, 0], rows[:, 1] = 1.0, RNG.normal(size=200)
    y = RNG.poisson(2.0, size=200).astype(float)
    y[:20] = 0.0
    model = PoissonRegressor(alpha=0.0, tol=1e-10)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, y)
    assert np.isfinite(model.coef_).all()
    assert model.coef_[0] < -5.0 or any(w.category is ConvergenceWarning for w in caught)


def design(frame, names):
    """Return the columns of a reference fit: numbers, and one column for each level but one."""
    columns = []
    for name in names:
        level = re.fullmatch(r"C\((\w+)\)\[T\.(.*)\]", name)
        if level:
            columns.append((frame[level[1]].astype(str) == level[2]).to_numpy(float))
        else:
            columns.append(frame[name].to_numpy(float))
    return np.column_stack(columns)


def reference(name):
    if not (SHARED / "glm_oracles.json").exists():
        pytest.skip(f"no reference fits in {SHARED}")
    return json.loads((SHARED / "glm_oracles.json").read_text())["cases"][name]


def policies(name):
    """Return the rows of a reference fit, its targets, and what fit takes beside them."""
    pandas = pytest.importorskip("pandas")
    if name.startswith("ohlsson"):
        rows = pandas.read_csv(SHARED / "ohlsson_mc.csv.gz").query("duration > 0")
        rows = rows.assign(fd=rows.fordald.clip(upper=20), ag=rows.agarald.clip(upper=70))
        if name == "ohlsson_poisson":
            return rows, rows.antskad, {"exposure": rows.duration}
        rows = rows.query("skadkost > 0")
        return rows, rows.skadkost / rows.antskad, {"sample_weight": rows.antskad}
    if name == "bike_poisson":
        rows = pandas.read_csv(SHARED / "bike_hour.csv.gz")
        return rows, rows.cnt, {}
    rows = pandas.read_csv(SHARED / "ausprivauto0405.csv.gz")
    if name == "aus_gamma_log":
        rows = rows.query("ClaimAmount > 0")
        return rows, rows.ClaimAmount, {}
    return rows, rows.ClaimNb, {"exposure": rows.Exposure}


@pytest.mark.parametrize(
    "name",
    ["ohlsson_poisson", "ohlsson_gamma_log", "aus_poisson", "aus_gamma_log", "bike_poisson"],
)
def test_reference_fits_of_statsmodels_come_out(name):
    expected = reference(name)
    frame, y, more = policies(name)
    names = [each for each in expected["params"] if each != "Intercept"]
    family = GammaRegressor if "gamma" in name else PoissonRegressor
    model = family(alpha=0.0, tol=1e-16, max_iter=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # beyond what rounding allows
        model.fit(design(frame, names), y, **more)
    exact = np.array([expected["params"][each] for each in names])
    np.testing.assert_allclose(model.coef_, exact, rtol=1e-6, atol=2e-8)
    assert model.intercept_ == pytest.approx(expected["params"]["Intercept"], abs=1e-6)
    weights = more.get("sample_weight", np.ones(len(y)))
    assert 2.0 * model.objective_ * np.sum(weights) == pytest.approx(expected["deviance"], rel=1e-9)


@pytest.mark.parametrize("strength", ["ridge_alpha0.01", "ridge_alpha0.001", "lasso_alpha0.0001"])
def test_reference_fits_of_glum_come_out(strength):
    expected = reference(f"aus_poisson_{strength}")
    frame, _, _ = policies("aus_poisson")
    rows = design(frame, expected["coef"])
    kind, alpha = strength.split("_alpha")
    model = PoissonRegressor(
        alpha=float(alpha), l1_ratio=float(kind == "lasso"), tol=1e-12, max_iter=1000
    )
    model.fit(rows, frame.ClaimNb / frame.Exposure, frame.Exposure)
    np.testing.assert_allclose(model.coef_, list(expected["coef"].values()), atol=1e-6)


def test_clones_keep_their_parameters(family):
    model = clone(family(alpha=0.3, l1_ratio=0.2, solver="pqn"))
    assert (model.alpha, model.l1_ratio, model.solver) == (0.3, 0.2, "pqn")
