"""Counts and amounts: scikit-learn's minimum, statsmodels' numbers, every place."""

import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import scipy.special
import sklearn.linear_model
from kernels.emulator.strict_arrays import StrictDevice
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import d2_tweedie_score
from sklearn.model_selection import GridSearchCV, cross_val_score

import snapml
from snapml import (
    GammaRegressor,
    NegativeBinomialRegressor,
    PoissonRegressor,
    TweedieRegressor,
)
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.solvers.plan import device_choice
from snapml.statistics import inference

pytestmark = pytest.mark.pairwise

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
RNG = np.random.default_rng(0)
N, P = 400, 6
X = RNG.normal(size=(N, P)) * (RNG.random((N, P)) < 0.7)
MARGINS = X[:, :3] @ [0.4, -0.3, 0.2] + 0.5
COUNTS = RNG.poisson(np.exp(MARGINS)).astype(float)
AMOUNTS = 1000.0 * RNG.gamma(2.0, np.exp(MARGINS) / 2.0)
WEIGHTS = RNG.integers(0, 4, N).astype(float)
OFFSETS = RNG.normal(size=N)
SPREAD = RNG.negative_binomial(2, 1.0 / (1.0 + np.exp(MARGINS) / 2.0)).astype(float)
SUMS = 100.0 * RNG.gamma(2.0 * np.maximum(COUNTS, 1.0)) * (COUNTS > 0.0)


def poisson(y, means):
    return scipy.special.xlogy(y, y / means) - y + means


def gamma(y, means):
    return y / means - np.log(y / means) - 1.0


def tweedie(y, means, power=1.5):
    a, b = 2.0 - power, 1.0 - power
    return y**a / (a * b) - y * means**b / b + means**a / a


def negative_binomial(y, means, theta=0.7):
    grown = np.log((1.0 + theta * y) / (1.0 + theta * means))
    return scipy.special.xlogy(y, y / means) - (y + 1.0 / theta) * grown


@dataclass(frozen=True)
class Family:
    """A class with the parameters that make it a family, and what an independent eye says."""

    cls: type
    y: np.ndarray
    half_deviances: Callable[..., Any]
    variance: Callable[..., Any]
    more: tuple[tuple[str, Any], ...] = ()
    power: float | None = None  # that scikit-learn's deviances know it by

    def __call__(self, **options):
        return self.cls(**dict(self.more), **options)

    @property
    def peer(self):
        if self.power is None:
            return None
        return lambda **options: getattr(sklearn.linear_model, self.cls.__name__)(
            **dict(self.more), **options
        )

    def __str__(self):
        return self.cls.__name__


FAMILIES = [
    Family(PoissonRegressor, COUNTS, poisson, lambda m: m, power=1.0),
    Family(GammaRegressor, AMOUNTS, gamma, lambda m: m**2, power=2.0),
    Family(TweedieRegressor, SUMS, tweedie, lambda m: m**1.5, (("power", 1.5),), power=1.5),
    Family(
        NegativeBinomialRegressor,
        SPREAD,
        negative_binomial,
        lambda m: m + 0.7 * m**2,
        (("theta", 0.7),),
    ),
]


@pytest.fixture(params=FAMILIES, ids=str)
def family(request):
    return request.param


def objective(family, coef, intercept, alpha, l1_ratio, weights, offsets, rows=X):
    """Return half the mean deviance and the penalty, in float64."""
    means = np.exp(rows @ coef + intercept + offsets)
    mean = weights @ family.half_deviances(family.y, means) / weights.sum()
    l1, l2 = alpha * l1_ratio, alpha * (1.0 - l1_ratio)
    return mean + l1 * np.abs(coef).sum() + l2 * (coef @ coef) / 2


def least_ridge(family, alpha, fit_intercept):
    """Return the coefficients and the intercept that SciPy finds to be the best."""
    terms = alpha, 0.0, WEIGHTS, np.zeros(N)

    def split(joint):
        return joint[:P], joint[P] * fit_intercept

    def gradient(joint):
        coef, intercept = split(joint)
        means = np.exp(X @ coef + intercept)
        slopes = WEIGHTS / WEIGHTS.sum() * (means - family.y) * means / family.variance(means)
        return np.append(X.T @ slopes + alpha * coef, slopes.sum() * fit_intercept)

    start = np.append(np.zeros(P), np.log(family.y.mean()) * fit_intercept)
    found = scipy.optimize.minimize(
        lambda joint: objective(family, *split(joint), *terms),
        start,
        jac=gradient,
        method="BFGS",
        options={"gtol": 1e-10, "maxiter": 10_000},
    )
    return split(found.x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("alpha", [1.0, 1e-3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_finds_the_minimum(family, container, dtype, alpha, fit_intercept):
    options = dict(alpha=alpha, fit_intercept=fit_intercept)
    coef, intercept = least_ridge(family, alpha, fit_intercept)
    model = family(**options, tol=1e-10 if dtype == np.float64 else 1e-5)
    model.fit(container(X.astype(dtype)), family.y, WEIGHTS)
    assert model.coef_.dtype == dtype
    terms = alpha, 0.0, WEIGHTS, np.zeros(N)
    least = objective(family, coef, intercept, *terms)
    at_model = objective(family, model.coef_.astype(float), model.intercept_, *terms)
    slack = least * (1e-12 if dtype == np.float64 else 1e-5)
    assert model.objective_ == pytest.approx(at_model, rel=1e-12 if dtype == np.float64 else 1e-5)
    assert least - slack <= model.objective_
    assert model.objective_ - model.gap_ <= least + slack
    assert model.gap_ <= model.tol * model.objective_
    np.testing.assert_allclose(model.coef_, coef, atol=2e-5 if slack < 1e-9 else 5e-3)
    if family.peer is not None:
        theirs = family.peer(**options, tol=1e-10, max_iter=10_000, solver="newton-cholesky")
        theirs.fit(X, family.y, WEIGHTS)
        np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-5 if slack < 1e-9 else 5e-3)
        found = model.score(X.astype(dtype), family.y, WEIGHTS)
        assert found == pytest.approx(theirs.score(X, family.y, WEIGHTS), abs=1e-4)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_l1_penalties_find_a_point_that_no_direction_betters(family, container, l1_ratio):
    y, alpha = family.y, 0.2 / l1_ratio * (10.0 if family.power == 1.5 else 1.0)
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
    y = COUNTS
    for l1_ratio in (0.0, 0.5):
        model = PoissonRegressor(alpha=0.1, l1_ratio=l1_ratio, tol=1e-10, max_iter=1000)
        model.fit(X, y, WEIGHTS, offset=OFFSETS)
        means = model.predict(X, offset=OFFSETS)
        assert WEIGHTS @ means == pytest.approx(WEIGHTS @ y, rel=1e-6)


def test_exposure_is_the_logarithm_of_an_offset(family):
    y, exposure = family.y, np.exp(OFFSETS)
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
    y, exposure = COUNTS, np.exp(OFFSETS)
    counts = PoissonRegressor(alpha=0.0, tol=1e-11).fit(X, y, exposure=exposure)
    rates = PoissonRegressor(alpha=0.0, tol=1e-11).fit(X, y / exposure, exposure)
    np.testing.assert_allclose(rates.coef_, counts.coef_, rtol=1e-6)


@pytest.mark.parametrize("size", [-1e3, 50.0, 1e3])
def test_far_offsets_move_the_intercept_and_nothing_else(family, size):
    y = family.y
    plain = family(alpha=0.1, tol=1e-9).fit(X, y)
    moved = family(alpha=0.1, tol=1e-9).fit(X, y, offset=np.full(N, size))
    np.testing.assert_allclose(moved.coef_, plain.coef_, atol=1e-6)
    assert moved.intercept_ + size == pytest.approx(plain.intercept_, abs=1e-6)


def test_units_of_amounts_do_not_matter():
    y = AMOUNTS
    plain = GammaRegressor(alpha=0.1, tol=1e-10).fit(X, y)
    for unit in (1e-9, 1e12):
        other = GammaRegressor(alpha=0.1, tol=1e-10).fit(X, unit * y)
        np.testing.assert_allclose(other.coef_, plain.coef_, rtol=1e-7)
        assert other.objective_ == pytest.approx(plain.objective_, rel=1e-9)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.power is not None], ids=str)
def test_d2_is_scikit_learns(family):
    y = family.y
    model = family(alpha=0.1).fit(X, y)
    expected = d2_tweedie_score(y, model.predict(X), sample_weight=WEIGHTS, power=family.power)
    assert model.score(X, y, WEIGHTS) == pytest.approx(expected, rel=1e-10)


def test_rows_of_a_store_and_of_a_device_find_the_same_minimum(family, tmp_path, monkeypatch):
    y = family.y
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
    y = family.y
    model = family(alpha=0.1).fit(X, y)
    model.save(tmp_path / "model")
    others = [snapml.load(tmp_path / "model"), snapml.from_json(model.to_json())]
    if family.peer is None:
        with pytest.raises(TypeError, match="scikit-learn has no NegativeBinomialRegressor"):
            model.to_sklearn()
    else:
        theirs = model.to_sklearn()
        assert type(theirs).__module__.startswith("sklearn")
        others += [theirs, family.cls.from_sklearn(theirs)]
    for other in others:
        np.testing.assert_allclose(other.predict(X), model.predict(X), rtol=1e-13)


def test_searches_and_scores_work_as_in_scikit_learn(family):
    y = family.y
    search = GridSearchCV(family(tol=1e-6), {"alpha": [1e-3, 1.0]}, cv=3).fit(X, y)
    if family.peer is not None:
        theirs = family.peer(tol=1e-8, max_iter=1000)
        expected = GridSearchCV(theirs, {"alpha": [1e-3, 1.0]}, cv=3).fit(X, y)
        assert search.best_params_ == expected.best_params_
        np.testing.assert_allclose(
            search.cv_results_["mean_test_score"],
            expected.cv_results_["mean_test_score"],
            atol=1e-4,
        )
    assert np.isfinite(cross_val_score(family(), X, y, cv=3)).all()


def test_warm_start_goes_on_from_the_last_model(family):
    y = family.y
    model = family(alpha=0.01, tol=1e-9, warm_start=True).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ < first
    np.testing.assert_allclose(model.coef_, family(alpha=0.01, tol=1e-9).fit(X, y).coef_, atol=1e-5)


@pytest.mark.parametrize(
    ("number", "wrong", "says"),
    [
        (0, lambda y: y - 1.0, "y: expected counts of at least 0, got -1"),
        (0, lambda y: 0.0 * y, "y: expected counts of which one is above 0, got zeros only"),
        (1, lambda y: np.where(y > 1e3, y, 0.0), "expected positive amounts.*got 0"),
        (1, lambda y: -y, "expected positive amounts"),
        (0, lambda y: np.where(y > 2, np.nan, y), "contains NaN"),
        (2, lambda y: -y, "y: expected amounts of at least 0"),
        (2, lambda y: 0.0 * y, "y: expected amounts of which one is above 0"),
        (3, lambda y: -y, "y: expected counts of at least 0"),
    ],
)
def test_targets_outside_the_family_are_refused_and_leave_nothing(number, wrong, says):
    family = FAMILIES[number]
    y = wrong(family.y)
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
        family(**parameters).fit(X, family.y)


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
    if name.startswith("aus_tweedie"):
        return rows, rows.ClaimAmount / rows.Exposure, {"sample_weight": rows.Exposure}
    return rows, rows.ClaimNb, {"exposure": rows.Exposure}


REFERENCES = {
    "ohlsson_poisson": PoissonRegressor(),
    "ohlsson_gamma_log": GammaRegressor(),
    "aus_poisson": PoissonRegressor(),
    "aus_gamma_log": GammaRegressor(),
    "bike_poisson": PoissonRegressor(),
    **{f"aus_tweedie{power}": TweedieRegressor(power=power) for power in (1.3, 1.5, 1.7)},
    **{f"aus_nb2_alpha{t}": NegativeBinomialRegressor(theta=t) for t in (0.5, 1.0, 2.0)},
}


@pytest.mark.parametrize("name", REFERENCES)
def test_reference_fits_of_statsmodels_come_out(name):
    expected = reference(name)
    frame, y, more = policies(name)
    names = [each for each in expected["params"] if each != "Intercept"]
    model = clone(REFERENCES[name]).set_params(alpha=0.0, tol=1e-16, max_iter=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # beyond what rounding allows
        model.fit(design(frame, names), y, **more)
    exact = np.array([expected["params"][each] for each in names])
    np.testing.assert_allclose(model.coef_, exact, rtol=1e-6, atol=2e-8)
    assert model.intercept_ == pytest.approx(expected["params"]["Intercept"], abs=1e-6)
    weights = more.get("sample_weight", np.ones(len(y)))
    assert 2.0 * model.objective_ * np.sum(weights) == pytest.approx(expected["deviance"], rel=1e-9)
    found = inference(model, design(frame, names), y, **more, weights="variance")
    errors = np.array([expected["bse"][each] for each in ["Intercept", *names]])
    np.testing.assert_allclose(found.standard_errors, errors, rtol=1e-6)
    if not name.startswith("aus_tweedie"):  # statsmodels approximates the series
        assert found.log_likelihood == pytest.approx(expected["llf"], rel=1e-8)
    phi = expected["pearson_chi2"] / expected["df_resid"]
    again = inference(
        model, design(frame, names), y, **more, weights="variance", dispersion="pearson"
    )
    assert again.scale == pytest.approx(phi, rel=1e-6)
    assert again.residual_df == pytest.approx(expected["df_resid"])


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


@pytest.mark.parametrize(
    ("parameters", "error", "says"),
    [
        ({"power": 0.5}, ValueError, "power: expected 0, or from 1 to 2, got 0.5: no distribution"),
        ({"power": 3}, ValueError, "got 3: its deviance has several minima"),
        ({"power": -1}, ValueError, "several minima"),
        ({"power": np.nan}, ValueError, "power: .* got nan: it is no number"),
        ({"power": "1.5"}, TypeError, "power: expected a number, got '1.5'"),
        ({"power": 1.5, "link": "identity"}, ValueError, "expected 'log' .* could be negative"),
        ({"power": 0, "link": "log"}, ValueError, "expected 'identity' .* several minima"),
        ({"power": 1, "link": "logit"}, ValueError, "link: expected one of .*, got 'logit'"),
    ],
)
def test_powers_and_links_that_cannot_be_certified_are_refused(parameters, error, says):
    with pytest.raises(error, match=says):
        TweedieRegressor(**parameters).fit(X, COUNTS)


@pytest.mark.parametrize(
    ("power", "same", "y"), [(1, PoissonRegressor, COUNTS), (2, GammaRegressor, AMOUNTS)]
)
def test_tweedie_is_poisson_and_gamma_at_its_ends(power, same, y):
    model = TweedieRegressor(power=power, alpha=0.1, tol=1e-9).fit(X, y, offset=OFFSETS)
    expected = same(alpha=0.1, tol=1e-9).fit(X, y, offset=OFFSETS)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    near = TweedieRegressor(power=power + (1e-6 if power == 1 else -1e-6), alpha=0.1, tol=1e-9)
    near.fit(X, y, offset=OFFSETS)
    np.testing.assert_allclose(near.coef_, expected.coef_, atol=1e-4)


@pytest.mark.parametrize("far", [0.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_power_0_is_least_squares(dtype, far):
    y = MARGINS + RNG.normal(size=N) + far
    model = TweedieRegressor(alpha=0.3, tol=1e-8).fit(X.astype(dtype), y, WEIGHTS, offset=OFFSETS)
    expected = sklearn.linear_model.TweedieRegressor(
        alpha=0.3, tol=1e-10, solver="newton-cholesky", max_iter=1000
    ).fit(X, y - OFFSETS, WEIGHTS)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-5, atol=1e-7)
    found = model.predict(X.astype(dtype), offset=OFFSETS)
    np.testing.assert_allclose(found, expected.predict(X) + OFFSETS, rtol=1e-6, atol=1e-5)
    assert model.score(X, y, offset=OFFSETS) > 0.05
    with pytest.raises(ValueError, match="exposure: expected none with the identity link"):
        model.fit(X, y, exposure=np.exp(OFFSETS))


def likelihood(theta, means, y, weights):
    """Return the log-likelihood of negative binomial counts."""
    from scipy.stats import nbinom

    return weights @ nbinom.logpmf(y, 1.0 / theta, 1.0 / (1.0 + theta * means))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("theta", [0.05, 0.7, 5.0])
def test_estimate_of_theta_is_the_likeliest_beside_its_model(theta, dtype):
    y = RNG.negative_binomial(1 / theta, 1.0 / (1.0 + theta * np.exp(MARGINS + OFFSETS)))
    model = NegativeBinomialRegressor(alpha=0.0, tol=1e-9)
    model.fit(X.astype(dtype), y, WEIGHTS, offset=OFFSETS)
    means = model.predict(X.astype(dtype), offset=OFFSETS).astype(float)
    best = likelihood(model.theta_, means, y, WEIGHTS)
    for other in (0.99, 1.01):
        assert likelihood(other * model.theta_, means, y, WEIGHTS) < best
    given = NegativeBinomialRegressor(theta=model.theta_, alpha=0.0, tol=1e-9)
    given.fit(X.astype(dtype), y, WEIGHTS, offset=OFFSETS)
    np.testing.assert_allclose(given.coef_, model.coef_, atol=1e-4)
    assert given.theta_ == model.theta_
    assert model.objective_ == pytest.approx(given.objective_, rel=1e-8)


def test_estimate_of_theta_is_that_of_statsmodels():
    discrete = pytest.importorskip("statsmodels.discrete.discrete_model")
    rows = np.column_stack([X, np.ones(N)])
    theirs = discrete.NegativeBinomial(SPREAD, rows)
    expected = theirs.fit(disp=0, maxiter=1000, method="newton", tol=1e-12)
    model = NegativeBinomialRegressor(alpha=0.0, tol=1e-13).fit(X, SPREAD)
    assert model.theta_ == pytest.approx(expected.params[-1], rel=1e-5)
    np.testing.assert_allclose(model.coef_, expected.params[:P], atol=1e-6)


def test_counts_that_vary_less_than_poissons_are_told():
    with pytest.warns(ConvergenceWarning, match="PoissonRegressor is their model"):
        model = NegativeBinomialRegressor(alpha=0.0).fit(X, np.full(N, 3.0))
    np.testing.assert_allclose(model.predict(X), 3.0, rtol=1e-3)


@pytest.mark.parametrize(
    ("theta", "error"),
    [
        (0.0, ValueError),
        (-1.0, ValueError),
        (np.inf, ValueError),
        (np.nan, ValueError),
        ("ml", TypeError),
        (True, TypeError),
    ],
)
def test_what_is_no_theta_is_refused(theta, error):
    with pytest.raises(error, match="theta: expected a number"):
        NegativeBinomialRegressor(theta=theta).fit(X, SPREAD)
