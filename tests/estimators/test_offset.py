"""Offsets: against statsmodels, against SciPy's minimum, and refused where they mean nothing."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from reference.elastic_net import ElasticNetObjective
from reference.losses import ORACLES
from scipy.optimize import minimize
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, cross_validate

import snapml
from snapml import ElasticNet, Lasso, LinearRegression, LogisticRegression, Ridge
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.statistics import inference

RNG = np.random.default_rng(3)
N, P = 300, 6
X = RNG.standard_normal((N, P)).astype(np.float32).astype(np.float64)
OFFSET = 2.0 * RNG.standard_normal(N) + 1.0
MARGINS = X @ np.resize([1.0, -0.5, 0.0], P) + OFFSET - 1.5
LABELS = (RNG.random(N) < 1.0 / (1.0 + np.exp(-MARGINS))).astype(int)
TARGETS = MARGINS + 0.3 * RNG.standard_normal(N)
COUNTS = RNG.integers(0, 4, N)
REGRESSORS = [LinearRegression(), Ridge(alpha=3.0), Lasso(alpha=0.1), ElasticNet(alpha=0.1)]


def smooth_minimum(C, weights, has_intercept=True):
    """Return coefficients and objective of the logistic problem with L2, by SciPy."""
    rows, signs = np.column_stack([X, np.ones(N)]), 2.0 * LABELS - 1.0
    shown = np.ones(P + 1)
    shown[-1] = 0.0

    def objective(w):
        w = w if has_intercept else w * shown
        m = signs * (rows @ w + OFFSET)
        slopes = -signs * weights / (1.0 + np.exp(m))
        loss = weights @ np.logaddexp(0, -m) + 0.5 / C * np.sum((w * shown) ** 2)
        slope = rows.T @ slopes + w * shown / C
        return C * loss, C * (slope if has_intercept else slope * shown)

    found = minimize(
        objective, np.zeros(P + 1), jac=True, method="BFGS", options={"gtol": 1e-10 * C}
    )
    return found.x, found.fun


@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("solver", ["auto", "sdca", "pqn"])
@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_logistic_regression_finds_scipys_minimum(container, solver, has_intercept):
    options = dict(C=0.7, solver=solver, tol=1e-10, max_iter=2000, fit_intercept=has_intercept)
    model = LogisticRegression(**options).fit(container(X), LABELS, COUNTS, offset=OFFSET)
    best, objective = smooth_minimum(0.7, COUNTS, has_intercept)
    np.testing.assert_allclose(model.coef_[0], best[:-1], atol=2e-5)
    assert model.intercept_[0] == pytest.approx(best[-1], abs=2e-5)
    assert objective <= model.objective_ * (1 + 1e-12)
    assert model.objective_ - objective <= model.gap_ + 1e-9 * objective
    assert model.gap_ <= 1e-10 * model.objective_


def test_float32_rows_find_the_same_minimum():
    options = dict(C=0.7, tol=1e-6, max_iter=2000)
    for solver in ("sdca", "pqn"):
        model = LogisticRegression(solver=solver, **options)
        model.fit(X.astype(np.float32), LABELS, offset=OFFSET)
        best, objective = smooth_minimum(0.7, np.ones(N))
        assert model.coef_.dtype == np.float32
        np.testing.assert_allclose(model.coef_[0], best[:-1], atol=5e-3)
        assert model.objective_ - objective <= model.gap_ + 1e-6 * objective


def shifted(loss, offset):
    """Return the oracle of l(z + o) for all rows together."""
    return replace(
        loss,
        value=lambda z, y: loss.value(z + offset, y),
        gradient=lambda z, y: loss.gradient(z + offset, y),
        curvature=lambda z, y: loss.curvature(z + offset, y),
        conjugate=lambda u, y: loss.conjugate(u, y) - u * offset,
    )


@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_l1_penalties_find_the_oracles_minimum(container, l1_ratio):
    model = LogisticRegression(C=0.2, l1_ratio=l1_ratio, tol=1e-10, max_iter=1000)
    model.fit(container(X), LABELS, offset=OFFSET)
    labels = np.where(LABELS == 1, 1.0, -1.0)
    objective = ElasticNetObjective(
        shifted(ORACLES["Logistic"], OFFSET),
        X,
        labels,
        np.full(N, 0.2),
        l1_ratio,
        1.0 - l1_ratio,
        intercept="free",
    )
    minimum = objective.minimum()
    assert model.objective_ == pytest.approx(minimum, rel=1e-9)
    assert objective.primal(model.coef_[0], model.intercept_) == pytest.approx(model.objective_)
    assert model.objective_ - minimum <= model.gap_ + 1e-9 * minimum


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.usefixtures("small_data_get_threads")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_gap_bounds_the_distance_to_the_minimum_after_few_passes(n_threads):
    _, objective = smooth_minimum(5.0, np.ones(N))
    rounding = 8 * np.finfo(np.float64).eps * objective  # of two sums in their own orders
    for solver in ("sdca", "pqn"):
        for max_iter in (1, 2, 5):
            model = LogisticRegression(
                C=5.0, solver=solver, max_iter=max_iter, n_threads=n_threads, tol=1e-12
            )
            model.fit(X, LABELS, offset=OFFSET)
            assert -rounding <= model.objective_ - objective <= model.gap_ * (1 + 1e-9) + 1e-10


def test_unpenalised_logistic_regression_is_statsmodels_glm():
    api = pytest.importorskip("statsmodels.api")
    model = LogisticRegression(C=np.inf, tol=1e-12).fit(X, LABELS, offset=OFFSET)
    rows = np.column_stack([np.ones(N), X])
    theirs = api.GLM(LABELS, rows, family=api.families.Binomial(), offset=OFFSET).fit(tol=1e-12)
    np.testing.assert_allclose(np.append(model.intercept_, model.coef_), theirs.params, rtol=1e-5)
    shares = theirs.predict(rows[:9], offset=OFFSET[:9])
    found = model.predict_proba(X[:9], offset=OFFSET[:9])
    np.testing.assert_allclose(found[:, 1], shares, rtol=1e-5)


def test_constant_offset_moves_the_free_intercept_and_nothing_else():
    plain = LogisticRegression(tol=1e-11).fit(X, LABELS)
    moved = LogisticRegression(tol=1e-11).fit(X, LABELS, offset=2.5)
    np.testing.assert_allclose(moved.coef_, plain.coef_, atol=1e-5)
    assert moved.intercept_[0] == pytest.approx(plain.intercept_[0] - 2.5, abs=1e-5)


def test_offset_of_zero_is_none():
    for solver in ("sdca", "pqn"):
        options = dict(solver=solver, tol=1e-10, max_iter=2000)
        plain = LogisticRegression(**options).fit(X, LABELS)
        zero = LogisticRegression(**options).fit(X, LABELS, offset=np.zeros(N))
        np.testing.assert_array_equal(zero.coef_, plain.coef_)
        assert zero.gap_ == plain.gap_


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("several", [False, True])
def test_offset_of_a_regressor_is_taken_off_its_target(model, several):
    y = np.column_stack([TARGETS, 2.0 * TARGETS]) if several else TARGETS
    own = clone(model).fit(X, y, COUNTS, offset=OFFSET)
    plain = clone(model).fit(X, (y.T - OFFSET).T, COUNTS)
    np.testing.assert_array_equal(own.coef_, plain.coef_)
    np.testing.assert_array_equal(own.intercept_, plain.intercept_)
    assert own.gap_ == plain.gap_
    expected = (plain.predict(X).T + OFFSET).T
    np.testing.assert_allclose(own.predict(X, offset=OFFSET), expected)
    residual, spread = y - expected, y - y.mean(axis=0)
    r2 = np.mean(1.0 - np.sum(residual**2, axis=0) / np.sum(spread**2, axis=0))
    assert own.score(X, y, offset=OFFSET) == pytest.approx(r2)


def test_predictions_add_the_offset_and_need_it():
    model = LogisticRegression().fit(X, LABELS, offset=OFFSET)
    assert model.has_offset_
    margins = X @ model.coef_[0] + model.intercept_ + OFFSET
    np.testing.assert_allclose(model.decision_function(X, offset=OFFSET), margins)
    np.testing.assert_array_equal(model.predict(X, offset=OFFSET), margins > 0)
    shares = 1.0 / (1.0 + np.exp(-margins))
    np.testing.assert_allclose(model.predict_proba(X, offset=OFFSET)[:, 1], shares)
    log_shares = model.predict_log_proba(X, offset=OFFSET)[:, 1]
    np.testing.assert_allclose(log_shares, np.log(shares))
    accuracy = np.mean((margins > 0) == LABELS)
    assert model.score(X, LABELS, offset=OFFSET) == pytest.approx(accuracy)
    np.testing.assert_allclose(model.decision_function(X, offset=0), margins - OFFSET)
    methods = ("decision_function", "predict", "predict_proba", "predict_log_proba")
    for call in [*(getattr(model, m) for m in methods), lambda X: model.score(X, LABELS)]:
        with pytest.raises(ValueError, match="was fitted with one; offset=0 leaves it out"):
            call(X)
    regressor = Ridge().fit(X, TARGETS, offset=OFFSET)
    with pytest.raises(ValueError, match="this Ridge was fitted with one"):
        regressor.predict(X)
    assert not LogisticRegression().fit(X, LABELS).has_offset_


def test_next_fit_without_an_offset_forgets_it():
    model = LogisticRegression(warm_start=True).fit(X, LABELS, offset=OFFSET)
    plain = LogisticRegression().fit(X, LABELS)
    np.testing.assert_allclose(model.fit(X, LABELS).coef_, plain.coef_, atol=1e-3)
    model.predict(X)


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (OFFSET[:-1], r"offset: expected shape \(300,\), got \(299,\)"),
        (np.column_stack([OFFSET, OFFSET]), r"got \(300, 2\)"),
        (np.where(np.arange(N) == 7, np.nan, OFFSET), "finite numbers, got NaN"),
        ("much", "offset: expected numbers, got 'much'"),
    ],
)
def test_offset_that_is_none_is_refused_and_leaves_nothing_fitted(offset, words):
    model = LogisticRegression()
    with pytest.raises(ValueError, match=words):
        model.fit(X, LABELS, offset=offset)
    assert not hasattr(model, "coef_")
    fitted = LogisticRegression().fit(X, LABELS)
    with pytest.raises(ValueError, match=words):
        fitted.predict(X, offset=offset)


@pytest.mark.parametrize("multi_class", ["auto", "ovr"])
def test_one_number_for_several_classes_is_refused(multi_class):
    classes = np.arange(N) % 3
    with pytest.raises(ValueError, match=r"expected shape .*each row and class"):
        LogisticRegression(multi_class=multi_class).fit(X, classes, offset=OFFSET)
    model = LogisticRegression(multi_class=multi_class).fit(X, classes)
    with pytest.raises(ValueError, match=r"expected shape .*each row and class"):
        model.predict(X, offset=OFFSET)


def test_rows_of_a_store_find_the_same_minimum(tmp_path):
    rows = np.column_stack([X, RNG.standard_normal((N, 3))])
    with ChunkWriter(tmp_path / "store", chunk_bytes=4000) as writer:
        writer.append(rows, LABELS)
    store = ChunkedDataset.open(tmp_path / "store")
    for options in (dict(solver="sdca"), dict(solver="pqn"), dict(l1_ratio=1.0)):
        options |= dict(C=0.3, tol=1e-9, max_iter=2000)
        found = LogisticRegression(**options).fit(store, offset=OFFSET)
        expected = LogisticRegression(**options).fit(rows, LABELS, offset=OFFSET)
        np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-4)
        assert found.gap_ <= 1e-9 * found.objective_
        margins = expected.decision_function(rows, offset=OFFSET)
        np.testing.assert_allclose(
            found.decision_function(store, offset=OFFSET), margins, atol=1e-3
        )


def test_model_file_keeps_that_there_was_an_offset(tmp_path):
    model = LogisticRegression().fit(X, LABELS, offset=OFFSET)
    model.save(tmp_path / "model")
    for loaded in (snapml.load(tmp_path / "model"), snapml.from_json(model.to_json())):
        with pytest.raises(ValueError, match="was fitted with one"):
            loaded.predict(X)
        np.testing.assert_array_equal(
            loaded.predict(X, offset=OFFSET), model.predict(X, offset=OFFSET)
        )
    with pytest.raises(ValueError, match="would leave out of its predictions"):
        model.to_sklearn()


def test_metadata_routing_hands_offsets_to_fits_and_scores():
    with config_context(enable_metadata_routing=True):
        model = LogisticRegression().set_fit_request(offset=True).set_score_request(offset=True)
        found = cross_validate(model, X, LABELS, params={"offset": OFFSET}, cv=3)
    scores = []
    for train, test in StratifiedKFold(3).split(X, LABELS):
        own = LogisticRegression().fit(X[train], LABELS[train], offset=OFFSET[train])
        scores.append(own.score(X[test], LABELS[test], offset=OFFSET[test]))
    np.testing.assert_allclose(found["test_score"], scores)


@pytest.mark.parametrize("size", [25.0, 79.0, -300.0, 1e4])
@pytest.mark.parametrize(
    "wishes", [{}, {"C": np.inf}, {"l1_ratio": 1.0}, {"solver": "pqn"}, {"solver": "sdca"}]
)
def test_offsets_far_from_zero_move_the_intercept_and_nothing_else(size, wishes):
    for dtype in (np.float32, np.float64):
        rows = X.astype(dtype)
        plain = LogisticRegression(tol=1e-9, **wishes).fit(rows, LABELS)
        moved = LogisticRegression(tol=1e-9, **wishes).fit(rows, LABELS, offset=np.full(N, size))
        np.testing.assert_allclose(moved.coef_, plain.coef_, atol=1e-3)
        assert moved.intercept_[0] + size == pytest.approx(plain.intercept_[0], abs=1e-3)
        assert moved.objective_ == pytest.approx(plain.objective_, rel=1e-4)


def test_warm_start_survives_an_offset_far_from_the_last_one():
    model = LogisticRegression(warm_start=True, tol=1e-9).fit(X, LABELS)
    expected = model.coef_.copy()
    model.fit(X, LABELS, offset=np.full(N, 60.0))
    np.testing.assert_allclose(model.coef_, expected, atol=1e-5)


def test_models_with_an_offset_predict_no_batches():
    model = LogisticRegression().fit(X, LABELS, offset=OFFSET)
    with pytest.raises(ValueError, match="expected one without an offset, which rows in batches"):
        snapml.predict_batches(model, X)


def _fitted_and_asked(model, rows, targets, offset):
    """Fit a model and ask it everything that takes an offset."""
    model.fit(rows, targets, offset=OFFSET)
    asked = {"predict", "decision_function", "predict_proba", "predict_log_proba"} & set(dir(model))
    calls = [lambda name=name: getattr(model, name)(rows, offset=offset) for name in asked]
    calls += [
        lambda: model.score(rows, targets, offset=offset),
        lambda: clone(model).fit(rows, targets, offset=offset),
    ]
    if isinstance(model, LinearRegression | LogisticRegression) and not hasattr(model, "cv"):
        calls.append(lambda: inference(model, rows, targets, offset=offset))
    return calls


@pytest.mark.parametrize(
    "model",
    [
        *REGRESSORS,
        LogisticRegression(tol=1e-10),
        snapml.RidgeCV(),
        snapml.RidgeCV(cv=3),
        snapml.LassoCV(alphas=3, cv=3),
        snapml.LogisticRegressionCV(
            Cs=2, l1_ratios=(0,), scoring="accuracy", use_legacy_attributes=False
        ),
    ],
    ids=lambda model: type(model).__name__,
)
def test_index_of_an_offset_is_that_of_the_rows(model):
    pandas = pytest.importorskip("pandas")
    names = [f"row{i}" for i in range(N)]
    rows = pandas.DataFrame(X, index=names).rename(columns=str)
    targets = LABELS if isinstance(model, LogisticRegression) else TARGETS
    same = pandas.Series(OFFSET, index=names)
    for call in _fitted_and_asked(clone(model), rows, targets, same):
        call()
    for other in (same.iloc[::-1], same.reset_index(drop=True)):
        for call in _fitted_and_asked(clone(model), rows, targets, other):
            with pytest.raises(ValueError, match="offset: expected the index of X in the same"):
                call()
    # Without two of them there is nothing to compare.
    plain = clone(model).fit(X, targets, offset=same.iloc[::-1])
    expected = clone(model).fit(X, targets, offset=OFFSET[::-1])
    np.testing.assert_array_equal(plain.coef_, expected.coef_)
