"""Cross-validated generalized linear models: the choice, the paths, and where rows are."""

import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

import snapml
from snapml import GeneralizedLinearRegressor, GeneralizedLinearRegressorCV
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.searches.shared import fold_margins
from snapml.solvers.newton import small_newton

RNG = np.random.default_rng(3)
N, P = 300, 6
X = RNG.standard_normal((N, P)).astype(np.float32).astype(np.float64)
OFFSETS = 0.5 * RNG.standard_normal(N)
ETA = X @ np.resize([0.6, -0.4, 0.0], P) + 0.2
WEIGHTS = RNG.uniform(0.5, 2.0, N)
MEANS = np.exp(ETA + OFFSETS)
TARGETS = {
    "normal": ETA + OFFSETS + RNG.standard_normal(N),
    "binomial": (RNG.random(N) < 1.0 / (1.0 + np.exp(-ETA - OFFSETS))).astype(float),
    "poisson": RNG.poisson(MEANS).astype(float),
    "gamma": RNG.gamma(2.0, MEANS / 2.0),
    "tweedie (1.5)": RNG.poisson(MEANS) * RNG.gamma(2.0, 0.5, N),
    "negative.binomial (0.7)": RNG.poisson(MEANS * RNG.gamma(1 / 0.7, 0.7, N)).astype(float),
}
EXACT = dict(tol=1e-13, max_iter=5000)
ALPHAS = [0.003, 1.0, 0.05]


@pytest.fixture(params=["in one call", "by reads"])
def _method(request, monkeypatch):
    """As many rows are solved, and few rows as few are."""
    if request.param == "by reads":
        monkeypatch.setattr(small_newton, "_MOST_ENTRIES", 0)


def mean_deviance(model, rows, y, weights, offsets):
    """Return the mean unit deviance from the model's own score, whose constant is given."""
    family = model._family()
    halves = family.half_deviances(y, model.predict(rows, offset=offsets))
    return 2.0 * np.average(halves, weights=weights)


@pytest.mark.usefixtures("_method")
@pytest.mark.parametrize("ratio", [0.0, 1.0, [0.5, 0.9]], ids=str)
@pytest.mark.parametrize("family", TARGETS)
def test_every_model_is_that_of_a_fit_to_its_fold(family, ratio):
    y, folds = TARGETS[family], list(KFold(3).split(X))
    model = GeneralizedLinearRegressorCV(
        family=family, l1_ratio=ratio, alphas=ALPHAS, cv=folds, **EXACT
    ).fit(X, y, WEIGHTS, offset=OFFSETS)
    np.testing.assert_array_equal(
        model.alphas_, np.sort(ALPHAS)[::-1] * np.ones_like(model.alphas_)
    )
    ratios = np.ravel(ratio)
    for at in np.ndindex(3, len(ratios), 3):
        train, test = folds[at[0]]
        alone = GeneralizedLinearRegressor(
            family=family, l1_ratio=ratios[at[1]], alpha=np.sort(ALPHAS)[::-1][at[2]], **EXACT
        ).fit(X[train], y[train], WEIGHTS[train], offset=OFFSETS[train])
        np.testing.assert_allclose(model.coef_path_[at], alone.coef_, atol=2e-6)
        np.testing.assert_allclose(model.intercept_path_[at], alone.intercept_, atol=2e-6)
        expected = mean_deviance(alone, X[test], y[test], WEIGHTS[test], OFFSETS[test])
        assert model.deviance_path_[at] == pytest.approx(expected, rel=1e-5)
    means = model.deviance_path_.mean(axis=0)
    best = np.unravel_index(means.argmin(), means.shape)
    assert (model.l1_ratio_, model.alpha_) == (ratios[best[0]], np.sort(ALPHAS)[::-1][best[1]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_choice_is_fitted_to_all_rows_and_certified(dtype, is_sparse):
    rows = scipy.sparse.csr_matrix(X.astype(dtype)) if is_sparse else X.astype(dtype)
    model = GeneralizedLinearRegressorCV(family="poisson", l1_ratio=[0.0, 1.0], n_alphas=8)
    model.fit(rows, TARGETS["poisson"], WEIGHTS, exposure=np.exp(OFFSETS))
    alone = GeneralizedLinearRegressor(
        family="poisson", alpha=model.alpha_, l1_ratio=model.l1_ratio_
    ).fit(rows, TARGETS["poisson"], WEIGHTS, exposure=np.exp(OFFSETS))
    np.testing.assert_array_equal(model.coef_, alone.coef_)
    assert (model.intercept_, model.gap_, model.objective_, model.solver_) == (
        alone.intercept_,
        alone.gap_,
        alone.objective_,
        alone.solver_,
    )
    assert model.coef_.dtype == model.coef_path_.dtype == dtype
    assert model.gap_ <= 1e-6 * model.objective_
    assert model.has_offset_
    np.testing.assert_array_equal(
        model.predict(rows, exposure=2.0), alone.predict(rows, exposure=2.0)
    )


@pytest.mark.parametrize("family", TARGETS)
def test_automatic_strengths_begin_where_no_column_is_left(family):
    model = GeneralizedLinearRegressorCV(family=family, l1_ratio=0.5, n_alphas=4)
    model.fit(X, TARGETS[family], WEIGHTS, offset=OFFSETS)
    assert model.alphas_.shape == (4,)
    np.testing.assert_allclose(model.alphas_[-1], 1e-6 * model.alphas_[0])
    np.testing.assert_allclose(np.diff(np.log(model.alphas_)), np.log(1e-2), rtol=1e-12)
    for factor, is_any in ((1.001, False), (0.98, True)):
        one = GeneralizedLinearRegressor(
            family=family, l1_ratio=0.5, alpha=factor * model.alphas_[0], **EXACT
        ).fit(X, TARGETS[family], WEIGHTS, offset=OFFSETS)
        assert one.coef_.any() == is_any


def test_grid_has_the_ends_that_are_asked_for():
    y, few = TARGETS["poisson"], dict(family="poisson", n_alphas=3)
    whole = GeneralizedLinearRegressorCV(**few, l1_ratio=[0.5, 1.0]).fit(X, y)
    assert whole.alphas_.shape == (2, 3)
    np.testing.assert_allclose(whole.alphas_[0], 2.0 * whole.alphas_[1])
    ridge = GeneralizedLinearRegressorCV(**few).fit(X, y)
    np.testing.assert_allclose(ridge.alphas_[0], 1e3 * whole.alphas_[1, 0])
    short = GeneralizedLinearRegressorCV(**few, min_alpha_ratio=0.1).fit(X, y)
    np.testing.assert_allclose(short.alphas_[-1], 0.1 * ridge.alphas_[0])
    least = GeneralizedLinearRegressorCV(**few, min_alpha=0.02, min_alpha_ratio=0.5).fit(X, y)
    assert least.alphas_[-1] == pytest.approx(0.02)
    wide = GeneralizedLinearRegressorCV(**few).fit(np.tile(X, (1, 60)), y)
    np.testing.assert_allclose(wide.alphas_[-1], 1e-2 * wide.alphas_[0])
    nothing = GeneralizedLinearRegressorCV(**few).fit(np.zeros((N, 2)), y)
    assert nothing.alphas_[0] == 10.0


def test_agrees_with_glum():
    glum = pytest.importorskip("glum")
    options = dict(l1_ratio=1.0, n_alphas=10, min_alpha_ratio=1e-3, cv=4)
    for family, y in TARGETS.items():
        ours = GeneralizedLinearRegressorCV(family=family, **options, tol=1e-12, max_iter=1000)
        ours.fit(X, y, WEIGHTS)
        theirs = glum.GeneralizedLinearRegressorCV(family=family, **options, gradient_tol=1e-9)
        theirs.fit(X, y, sample_weight=WEIGHTS)
        np.testing.assert_allclose(ours.alphas_, np.ravel(theirs.alphas_), rtol=1e-6)
        np.testing.assert_allclose(
            ours.deviance_path_.ravel(), np.ravel(theirs.deviance_path_), rtol=1e-6
        )
        assert ours.alpha_ == pytest.approx(theirs.alpha_)


@pytest.mark.parametrize("ratio", [0.0, 1.0])
@pytest.mark.parametrize("has_weights", [False, True], ids=["plain", "weights"])
def test_rows_in_a_store_give_the_same_choice(ratio, has_weights, tmp_path):
    weights = WEIGHTS if has_weights else None
    with ChunkWriter(tmp_path / "store", chunk_bytes=4000) as writer:
        writer.append(X, TARGETS["poisson"], weights)
    store = ChunkedDataset.open(tmp_path / "store", memory_limit=0)
    made = GeneralizedLinearRegressorCV(
        family="poisson", l1_ratio=ratio, n_alphas=5, cv=3, **{**EXACT, "tol": 1e-10}
    )
    stored, in_memory = clone(made).fit(store, offset=OFFSETS), clone(made)
    in_memory.fit(X, TARGETS["poisson"], weights, offset=OFFSETS)
    np.testing.assert_allclose(stored.alphas_, in_memory.alphas_, rtol=1e-12)
    np.testing.assert_allclose(stored.deviance_path_, in_memory.deviance_path_, rtol=1e-6)
    assert stored.alpha_ == pytest.approx(in_memory.alpha_)
    np.testing.assert_allclose(stored.coef_, in_memory.coef_, atol=1e-5)


def test_models_are_judged_some_at_a_time_where_rows_are_many(monkeypatch):
    made = GeneralizedLinearRegressorCV(family="gamma", n_alphas=40, cv=3)
    expected = clone(made).fit(X, TARGETS["gamma"]).deviance_path_
    monkeypatch.setattr(fold_margins, "_MOST_NUMBERS", 1)
    found = made.fit(X, TARGETS["gamma"]).deviance_path_
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_masks_are_folds_too():
    y = TARGETS["poisson"]
    train = np.arange(N) % 3 > 0
    masks = [(train, ~train)]
    numbers = [(np.flatnonzero(train), np.flatnonzero(~train))]
    found = [
        GeneralizedLinearRegressorCV(family="poisson", n_alphas=4, cv=folds).fit(X, y)
        for folds in (masks, numbers)
    ]
    np.testing.assert_array_equal(found[0].deviance_path_, found[1].deviance_path_)


def test_strengths_down_to_none_are_tried():
    y = TARGETS["poisson"]
    for ratio in (0.0, 1.0):
        model = GeneralizedLinearRegressorCV(
            family="poisson", l1_ratio=ratio, alphas=[0.0, 0.1, 3.0], cv=3, **EXACT
        ).fit(X, y)
        assert np.isfinite(model.deviance_path_).all()
        free = GeneralizedLinearRegressor(family="poisson", **EXACT)
        train, _ = next(KFold(3).split(X))
        np.testing.assert_allclose(
            model.coef_path_[0, 0, -1], free.fit(X[train], y[train]).coef_, atol=1e-6
        )
    only = GeneralizedLinearRegressorCV(family="poisson", alphas=[0.0], cv=3).fit(X, y)
    assert (only.alpha_, only.existence_) == (0.0, "proved")


def test_mean_that_leaves_its_type_is_not_chosen():
    rows, y = X.copy(), TARGETS["poisson"]
    rows[-1] = 1e4  # left out by the last fold, whose model has no bound for it
    model = GeneralizedLinearRegressorCV(family="poisson", alphas=[1e-4, 1e6], cv=KFold(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows, y)
    assert np.isinf(model.deviance_path_[2, 0, 1])
    assert model.alpha_ == 1e6


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (dict(family="cauchy"), "family: expected one of"),
        (dict(l1_ratio=1.5), "l1_ratio: expected a number from 0 to 1, got"),
        (dict(l1_ratio=[]), "l1_ratio: expected at least one number, got none"),
        (dict(n_alphas=0), "n_alphas: expected an integer of at least 1, got 0"),
        (dict(n_alphas=2.5), "n_alphas: expected an integer of at least 1, got 2.5"),
        (dict(alphas=[]), "alphas: expected at least one number, got none"),
        (dict(alphas=[0.1, -1.0]), "alpha == -1.0, must be >= 0"),
        (dict(alphas=[0.1, np.nan]), "alpha: expected"),
        (dict(min_alpha_ratio=2.0), "min_alpha_ratio: expected at most 1, got 2.0"),
        (dict(min_alpha_ratio=0.0), "min_alpha_ratio == 0.0, must be > 0"),
        (dict(min_alpha=1e9), "min_alpha: expected less than"),
        (dict(tol=-1.0), "tol == -1.0, must be >= 0"),
        (dict(cv=[(np.arange(5), np.arange(0))]), "cv: expected rows left out in each fold"),
    ],
)
def test_bad_parameters_are_refused_and_leave_nothing(parameters, message):
    model = GeneralizedLinearRegressorCV(**{"family": "poisson", **parameters})
    with pytest.raises(ValueError, match=message):
        model.fit(X, TARGETS["poisson"])
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "alphas_")


def test_bad_targets_are_refused():
    model = GeneralizedLinearRegressorCV(family="poisson", n_alphas=3)
    with pytest.raises(ValueError, match="expected counts of at least 0, got -1"):
        model.fit(X, TARGETS["poisson"] - 1.0 - TARGETS["poisson"].min())
    some = np.zeros(N)
    some[:60] = TARGETS["poisson"][:60] + 1.0
    folds = [(np.arange(60, N), np.arange(60)), (np.arange(60), np.arange(60, N))]
    with pytest.raises(ValueError, match="cv: fold 0: y: expected one above 0 among rows"):
        clone(model).set_params(cv=folds).fit(X, some)
    with pytest.raises(ValueError, match="X contains NaN"):
        model.fit(np.where(X > 2.0, np.nan, X), TARGETS["poisson"])


def test_time_bounds_the_search():
    model = GeneralizedLinearRegressorCV(family="poisson", n_alphas=5, max_time_s=1e-9)
    with pytest.raises(TimeoutError, match="expected at least one candidate to be judged"):
        model.fit(X, TARGETS["poisson"])
    model.set_params(max_time_s=60.0).fit(X, TARGETS["poisson"])
    plain = clone(model).set_params(max_time_s=None).fit(X, TARGETS["poisson"])
    np.testing.assert_array_equal(model.deviance_path_, plain.deviance_path_)


def test_model_survives_its_file(tmp_path):
    model = GeneralizedLinearRegressorCV(family="gamma", n_alphas=4, cv=3)
    model.fit(X, TARGETS["gamma"])
    model.save(tmp_path / "model")
    again = snapml.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.alpha_ == model.alpha_
    assert again.score(X, TARGETS["gamma"]) == model.score(X, TARGETS["gamma"])


def test_fit_of_a_fold_that_does_not_converge_is_no_secret():
    model = GeneralizedLinearRegressorCV(family="poisson", alphas=[1e-3], max_iter=0)
    with pytest.warns(ConvergenceWarning, match="tol=1e-06 was not reached"):
        model.fit(X, TARGETS["poisson"])
