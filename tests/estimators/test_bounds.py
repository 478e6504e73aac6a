"""Bounds on coefficients: SciPy's L-BFGS-B minimum, optimality conditions, and clear refusals."""

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize
from sklearn.base import clone

from snapml import ElasticNet, Lasso, LogisticRegression, Ridge
from snapml.data import ChunkedDataset, ChunkWriter
from snapml.model_selection import GridSearchCV
from snapml.statistics import inference

RNG = np.random.default_rng(5)
N, P = 200, 8
X = (RNG.standard_normal((N, P)) + 0.5 * RNG.standard_normal((N, 1))).astype(np.float32)
X = X.astype(np.float64)
MARGINS = X @ [1.0, -1.0, 0.5, -0.5, 0.2, -0.2, 0.0, 0.0] + 0.4
LABELS = (RNG.random(N) < 1.0 / (1.0 + np.exp(-MARGINS))).astype(int)
TARGETS = MARGINS + 0.5 * RNG.standard_normal(N)
WEIGHTS = RNG.integers(0, 3, N).astype(float)
INF = np.inf
BOUNDS = {
    "signs": ([0, 0, -INF, -INF, 0, 0, -INF, -INF], [INF, INF, 0, 0, INF, INF, INF, INF]),
    "boxes": (-0.15, 0.25),
    "one side": (-INF, 0.1),
    "fixed at zero": ([0, 0, *[-INF] * 6], [0, 0, *[INF] * 6]),
}
CONTAINERS = {"dense": np.asarray, "sparse": scipy.sparse.csr_array}


def minimum(loss, l1, l2, bounds, has_intercept=True, extra_penalty=0.0):
    """Return min P over w = p - n with p in [0, upper] and n in [0, -lower], by L-BFGS-B."""
    lower, upper = (np.broadcast_to(np.asarray(b, float), P) for b in bounds)

    def objective(parts):
        p, n, b = parts[:P], parts[P : 2 * P], parts[-1]
        w = p - n
        value, slope = loss(X @ w + b)
        value += l1 * parts[:-1].sum() + 0.5 * l2 * w @ w + 0.5 * extra_penalty * b * b
        along = X.T @ slope + l2 * w
        return value, np.concatenate([along + l1, -along + l1, [slope.sum() + extra_penalty * b]])

    box = [(0.0, u) for u in upper] + [(0.0, -u) for u in lower]
    box += [(None, None) if has_intercept else (0.0, 0.0)]
    found = minimize(
        objective,
        np.zeros(2 * P + 1),
        jac=True,
        method="L-BFGS-B",
        bounds=box,
        options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 30},
    )
    return found.x[:P] - found.x[P : 2 * P], found.fun


def logistic(c):
    signs = 2.0 * LABELS - 1.0
    return lambda z: (
        c @ np.logaddexp(0, -signs * z),
        -signs * c / (1.0 + np.exp(signs * z)),
    )


def squared(c):
    return lambda z: (0.5 * c @ (z - TARGETS) ** 2, c * (z - TARGETS))


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("container", CONTAINERS)
def test_logistic_regression_finds_scipys_minimum(name, l1_ratio, container):
    model = LogisticRegression(
        C=0.5, l1_ratio=l1_ratio, bounds=BOUNDS[name], tol=1e-10, max_iter=500
    )
    model.fit(CONTAINERS[container](X), LABELS, WEIGHTS)
    coef, best = minimum(logistic(0.5 * WEIGHTS), l1_ratio, 1.0 - l1_ratio, BOUNDS[name])
    assert model.objective_ == pytest.approx(best, rel=1e-8)
    assert 0.0 <= model.gap_ <= 1e-10 * model.objective_
    assert model.objective_ - best <= model.gap_ + 1e-12 * best
    np.testing.assert_allclose(model.coef_[0], coef, atol=1e-4)
    lower, upper = BOUNDS[name]
    assert np.all((model.coef_[0] >= lower) & (model.coef_[0] <= upper))


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("has_intercept", [True, False])
def test_elastic_net_finds_scipys_minimum(name, l1_ratio, has_intercept):
    model = ElasticNet(
        alpha=0.05, l1_ratio=l1_ratio, bounds=BOUNDS[name], tol=1e-12, fit_intercept=has_intercept
    ).fit(X, TARGETS, WEIGHTS)
    shares = WEIGHTS / WEIGHTS.sum()
    strengths = 0.05 * l1_ratio, 0.05 * (1.0 - l1_ratio)
    coef, best = minimum(squared(shares), *strengths, BOUNDS[name], has_intercept)
    assert model.objective_ == pytest.approx(best, rel=1e-9)
    assert model.objective_ - best <= model.gap_ + 1e-12 * best
    np.testing.assert_allclose(model.coef_, coef, atol=1e-5)


def test_penalised_intercept_is_not_bounded():
    model = LogisticRegression(C=0.5, solver="liblinear", bounds=(-0.1, 0.1), tol=1e-10)
    model.fit(X, LABELS)
    coef, best = minimum(logistic(np.full(N, 0.5)), 0.0, 1.0, (-0.1, 0.1), extra_penalty=1.0)
    assert model.objective_ == pytest.approx(best, rel=1e-8)
    np.testing.assert_allclose(model.coef_[0], coef, atol=1e-5)
    assert model.intercept_[0] > 0.1


def test_finite_bounds_need_no_penalty():
    model = LogisticRegression(C=np.inf, bounds=(-0.3, 0.3), tol=1e-9).fit(X, LABELS)
    _, best = minimum(logistic(np.ones(N)), 0.0, 0.0, (-0.3, 0.3))
    assert model.objective_ == pytest.approx(best, rel=1e-8)
    assert model.gap_ <= 1e-9 * model.objective_
    with pytest.raises(ValueError, match="expected a penalty"):
        LogisticRegression(C=np.inf, bounds=(0, np.inf)).fit(X, LABELS)


def test_lower_bounds_of_zero_are_positive():
    for made in (Lasso(alpha=0.02), ElasticNet(alpha=0.02)):
        made.set_params(tol=1e-12)
        bound = made.set_params(bounds=(0, np.inf)).fit(X, TARGETS).coef_.copy()
        made.set_params(bounds=None, positive=True)
        np.testing.assert_allclose(made.fit(X, TARGETS).coef_, bound, atol=1e-7)
    both = Lasso(alpha=0.02, positive=True, bounds=(-1, 0.2), tol=1e-12).fit(X, TARGETS).coef_
    only = Lasso(alpha=0.02, bounds=(0, 0.2), tol=1e-12).fit(X, TARGETS).coef_
    np.testing.assert_allclose(both, only, atol=1e-8)


def test_bounds_that_do_not_bind_change_nothing():
    for wide in ((-1e6, 1e6), (-np.inf, np.inf)):
        free = LogisticRegression(l1_ratio=0.5, tol=1e-11).fit(X, LABELS)
        bound = LogisticRegression(l1_ratio=0.5, tol=1e-11, bounds=wide).fit(X, LABELS)
        np.testing.assert_allclose(bound.coef_, free.coef_, atol=1e-6)


def test_float32_coefficients_keep_bounds_that_float32_cannot_hold():
    for bound in (0.1, 0.3, 1e-50):
        model = LogisticRegression(bounds=(-bound, bound), C=10.0).fit(X.astype(np.float32), LABELS)
        assert model.coef_.dtype == np.float32
        assert np.abs(model.coef_.astype(np.float64)).max() <= bound
        assert model.gap_ <= 1e-6 * model.objective_


@pytest.mark.parametrize("container", CONTAINERS)
def test_many_columns_find_the_optimality_conditions(container):
    rng = np.random.default_rng(8)
    rows = rng.standard_normal((150, 700)) * (rng.random((150, 700)) < 0.2)
    y = rows[:, :10] @ np.ones(10) + rng.standard_normal(150)
    lower, upper = np.where(np.arange(700) % 2, 0.0, -0.2), np.full(700, 0.3)
    model = Lasso(alpha=0.01, bounds=(lower, upper), tol=1e-10)
    model.fit(CONTAINERS[container](rows), y)
    assert model.gap_ <= 1e-10 * model.objective_
    w = model.coef_
    slopes = rows.T @ (y - rows @ w - model.intercept_) / 150  # to be in the subdifferential
    is_upper, is_lower = w == upper, (w == lower) & (w < 0)
    inner = (w != 0) & ~is_upper & ~is_lower
    assert min(inner.sum(), is_upper.sum(), is_lower.sum()) > 0
    np.testing.assert_allclose(slopes[inner], 0.01 * np.sign(w[inner]), atol=1e-6)
    assert np.all(slopes[is_upper] >= 0.01 - 1e-6)
    assert np.all(slopes[is_lower] <= -0.01 + 1e-6)
    at_rest = (w == 0) & (lower < 0)
    assert np.all(np.abs(slopes[at_rest]) <= 0.01 + 1e-6)
    assert np.all(slopes[(w == 0) & (lower == 0)] <= 0.01 + 1e-6)


def test_warm_start_beyond_the_bounds_begins_within_them():
    model = LogisticRegression(warm_start=True, tol=1e-10).fit(X, LABELS)
    again = model.set_params(bounds=(-0.1, 0.1)).fit(X, LABELS)
    cold = LogisticRegression(tol=1e-10, bounds=(-0.1, 0.1)).fit(X, LABELS)
    np.testing.assert_allclose(again.coef_, cold.coef_, atol=1e-5)


def test_bounds_go_with_offsets():
    offset = 0.5 * X[:, 0]
    model = LogisticRegression(bounds=(0, np.inf), tol=1e-10).fit(X, LABELS, offset=offset)
    plain = logistic(np.ones(N))
    _, best = minimum(lambda z: plain(z + offset), 0.0, 1.0, (0, np.inf))
    assert model.objective_ == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("far", [1e6, 1e10, 1e20, 1e308])
@pytest.mark.parametrize("made", [Lasso(alpha=0.02), LogisticRegression(l1_ratio=1.0, C=0.1)])
def test_bounds_that_are_far_cost_no_certificate(made, far):
    y = LABELS if isinstance(made, LogisticRegression) else TARGETS
    free = clone(made).set_params(tol=1e-8).fit(X, y)
    model = clone(made).set_params(tol=1e-8, bounds=(-far, far)).fit(X, y)
    np.testing.assert_allclose(model.coef_, free.coef_, atol=1e-6)
    assert np.all(model.gap_ <= 1e-8 * model.objective_)
    assert np.all(np.asarray(model.n_iter_) <= np.asarray(free.n_iter_) + 2)


def test_bounds_in_a_series_go_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdefgh"))
    lower = pandas.Series({name: 0.0 if name < "c" else -0.1 for name in reversed("abcdefgh")})
    for made, y in ((LogisticRegression(), LABELS), (Lasso(alpha=0.01), TARGETS)):
        model = clone(made).set_params(bounds=(lower, np.inf)).fit(frame, y)
        expected = clone(made).set_params(bounds=([0.0, 0.0, *[-0.1] * 6], np.inf)).fit(X, y)
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-12)
        wrong = clone(made).set_params(bounds=(lower.rename({"a": "z"}), np.inf))
        with pytest.raises(ValueError, match="one entry for each column of X by its name"):
            wrong.fit(frame, y)


def test_searches_keep_bounds():
    search = GridSearchCV(LogisticRegression(bounds=(0, np.inf)), {"C": [0.1, 1.0]}, cv=3)
    assert np.all(search.fit(X, LABELS).best_estimator_.coef_ >= 0)
    assert search.n_shared_ == 0


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (1.0, "expected a pair"),
        ((0.1, 1.0), r"lower <= 0 <= upper for every column, got \(0.1, 1\) for column 0"),
        ((np.nan, 1.0), "lower <= 0 <= upper"),
        (([0.0] * 7, 1.0), r"shape \(8,\) for lower, got \(7,\)"),
        (("no", 1.0), "expected numbers for lower, got 'no'"),
    ],
)
def test_what_is_no_pair_of_bounds_is_refused(bounds, words):
    for made, y in ((LogisticRegression(), LABELS), (Lasso(), TARGETS)):
        model = made.set_params(bounds=bounds)
        with pytest.raises(ValueError, match=words):
            model.fit(X, y)
        assert not hasattr(model, "coef_")


def test_what_cannot_keep_bounds_says_so(tmp_path):
    with ChunkWriter(tmp_path / "store", chunk_bytes=4000) as writer:
        writer.append(X, LABELS)
    store = ChunkedDataset.open(tmp_path / "store")
    for made in (LogisticRegression(bounds=(0, 1)), Lasso(bounds=(0, 1))):
        with pytest.raises(
            NotImplementedError, match="bounds on a store: this version has it for rows in memory"
        ):
            made.fit(store)
    with pytest.raises(ValueError, match="expected two classes, got 3"):
        LogisticRegression(bounds=(0, 1)).fit(X, np.arange(N) % 3)
    with pytest.raises(ValueError, match="solver"):
        LogisticRegression(bounds=(0, 1), solver="sdca").fit(X, LABELS)
    with pytest.raises(NotImplementedError, match="at most 5000 columns, got 5001"):
        Lasso(bounds=(0, 1)).fit(scipy.sparse.csr_array((20, 5001)), np.arange(20.0))
    model = LogisticRegression(bounds=(0, np.inf)).fit(X, LABELS)
    with pytest.raises(ValueError, match="expected no constraint, got bounds"):
        inference(model, X, LABELS)
    assert "bounds" not in Ridge().get_params()
