"""Standard errors, tests and intervals against statsmodels, and against plain NumPy."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

import snapml
from snapml import (
    GammaRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    NegativeBinomialRegressor,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from snapml.statistics import inference

RNG = np.random.default_rng(0)
N, P = 400, 5
X = RNG.standard_normal((N, P)) * [1.0, 2.0, 0.1, 30.0, 1.0] + [0.0, 1.0, 0.0, -20.0, 5.0]
MARGINS = X @ [1.0, -0.5, 3.0, 0.02, 0.0] + 0.5
LABELS = (RNG.random(N) < 1.0 / (1.0 + np.exp(-MARGINS))).astype(int)
TARGETS = MARGINS + RNG.standard_normal(N)
COUNTS = RNG.integers(1, 4, N)


def with_ones(rows):
    return np.column_stack([np.ones(len(rows)), rows])


def assert_equal_to(found, theirs):
    np.testing.assert_allclose(found.estimates, theirs.params, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.standard_errors, theirs.bse, rtol=1e-6)
    np.testing.assert_allclose(found.statistics, theirs.tvalues, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(found.p_values, theirs.pvalues, rtol=1e-4, atol=1e-15)
    interval = theirs.conf_int(alpha=1.0 - found.level)
    np.testing.assert_allclose(np.column_stack([found.lower, found.upper]), interval, rtol=1e-5)
    np.testing.assert_allclose(found.covariance, theirs.cov_params(), rtol=1e-5, atol=1e-10)


@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", ["model", "robust"])
@pytest.mark.parametrize("has_intercept", [True, False])
def test_logistic_regression_agrees_with_statsmodels(container, kind, has_intercept):
    api = pytest.importorskip("statsmodels.api")
    model = LogisticRegression(C=np.inf, tol=1e-12, fit_intercept=has_intercept)
    found = inference(model.fit(container(X), LABELS), container(X), LABELS, covariance=kind)
    rows = with_ones(X) if has_intercept else X
    options = {} if kind == "model" else {"cov_type": "HC0"}
    assert_equal_to(found, api.Logit(LABELS, rows).fit(disp=False, tol=1e-12, **options))


@pytest.mark.parametrize("kind", ["model", "robust"])
@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_least_squares_agree_with_statsmodels(kind, has_intercept, level):
    api = pytest.importorskip("statsmodels.api")
    model = LinearRegression(fit_intercept=has_intercept).fit(X, TARGETS)
    found = inference(model, X, TARGETS, covariance=kind, level=level)
    options = {} if kind == "model" else {"cov_type": "HC0", "use_t": True}
    rows = with_ones(X) if has_intercept else X
    assert_equal_to(found, api.OLS(TARGETS, rows).fit(**options))
    assert found.residual_df == pytest.approx(N - P - has_intercept)


def test_weights_agree_with_statsmodels_frequencies():
    api = pytest.importorskip("statsmodels.api")
    model = LogisticRegression(C=np.inf, tol=1e-12).fit(X, LABELS, COUNTS)
    family = api.families.Binomial()
    theirs = api.GLM(LABELS, with_ones(X), family=family, freq_weights=COUNTS).fit(tol=1e-12)
    assert_equal_to(inference(model, X, LABELS, COUNTS), theirs)


@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_offsets_agree_with_statsmodels(container):
    api = pytest.importorskip("statsmodels.api")
    offset = np.sin(np.arange(N)) + 0.5
    rows = container(X)
    for made, targets, family in (
        (LogisticRegression(C=np.inf, tol=1e-12), LABELS, api.families.Binomial()),
        (LinearRegression(), TARGETS, api.families.Gaussian()),
    ):
        model = made.fit(rows, targets, COUNTS, offset=offset)
        options = dict(family=family, freq_weights=COUNTS, offset=offset)
        theirs = api.GLM(targets, with_ones(X), **options).fit(tol=1e-12)
        found = inference(model, rows, targets, COUNTS, offset=offset)
        np.testing.assert_allclose(found.estimates, theirs.params, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(found.standard_errors, theirs.bse, rtol=1e-6)
        np.testing.assert_allclose(found.covariance, theirs.cov_params(), rtol=1e-5, atol=1e-10)
        with pytest.raises(ValueError, match="was fitted with one"):
            inference(model, rows, targets, COUNTS)
        with pytest.raises(ValueError, match="standard errors away"):
            inference(model, rows, targets, COUNTS, offset=2.0 * offset)


@pytest.mark.parametrize("kind", ["model", "posterior", "robust"])
@pytest.mark.parametrize(
    ("made", "targets"),
    [
        (LogisticRegression(C=0.3, tol=1e-12), LABELS),
        (LogisticRegression(C=np.inf, tol=1e-12), LABELS),
        (Ridge(alpha=20.0), TARGETS),
        (LinearRegression(), TARGETS),
    ],
)
def test_weight_k_is_k_copies_of_a_row(made, targets, kind):
    found = inference(made.fit(X, targets, COUNTS), X, targets, COUNTS, covariance=kind)
    copies, theirs = X.repeat(COUNTS, axis=0), targets.repeat(COUNTS)
    other = inference(made.fit(copies, theirs), copies, theirs, covariance=kind)
    np.testing.assert_allclose(found.covariance, other.covariance, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(found.p_values, other.p_values, rtol=1e-4, atol=1e-15)
    assert found.residual_df == pytest.approx(other.residual_df)


@pytest.mark.parametrize("solver", ["auto", "liblinear"])
def test_penalised_logistic_regression_has_the_covariances_of_its_formulas(solver):
    model = LogisticRegression(C=0.3, tol=1e-12, solver=solver).fit(X, LABELS)
    rows, coef = with_ones(X), np.append(model.intercept_, model.coef_)
    shares = 1.0 / (1.0 + np.exp(-rows @ coef))
    information = rows.T @ np.diag(shares * (1.0 - shares)) @ rows
    penalty = np.eye(P + 1) / 0.3
    penalty[0, 0] *= solver == "liblinear"
    bread = np.linalg.inv(information + penalty)
    scores = rows * (shares - LABELS)[:, None]
    for kind, expected in {
        "model": bread @ information @ bread,
        "posterior": bread,
        "robust": bread @ (scores.T @ scores) @ bread,
    }.items():
        found = inference(model, X, LABELS, covariance=kind)
        np.testing.assert_allclose(found.covariance, expected, rtol=1e-6, atol=1e-12)
        assert found.penalty == pytest.approx(1 / 0.3)


def test_standard_errors_of_ridge_are_the_spread_of_its_estimates():
    rng, model = np.random.default_rng(1), Ridge(alpha=10.0)
    estimates, errors = [], []
    for _ in range(400):
        targets = MARGINS + rng.standard_normal(N)
        found = inference(model.fit(X, targets), X, targets)
        estimates.append(found.estimates)
        errors.append(found.standard_errors)
    spread = np.std(estimates, axis=0)
    np.testing.assert_allclose(np.mean(errors, axis=0), spread, rtol=0.12)
    assert 0.9 < found.scale < 1.4


def test_standard_errors_of_penalised_logistic_regression_are_the_spread_of_its_estimates():
    rng = np.random.default_rng(2)
    shares = 1.0 / (1.0 + np.exp(-MARGINS))
    model = LogisticRegression(C=0.05, tol=1e-10)
    estimates, errors = [], []
    for _ in range(300):
        labels = (rng.random(N) < shares).astype(int)
        found = inference(model.fit(X, labels), X, labels)
        estimates.append(found.estimates)
        errors.append(found.standard_errors)
    np.testing.assert_allclose(np.mean(errors, axis=0), np.std(estimates, axis=0), rtol=0.2)


def test_table_names_columns_and_shows_every_number():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["age", "income", "a longer name", "x", "z"])
    model = LinearRegression().fit(frame, TARGETS)
    found = inference(model, frame, TARGETS, level=0.9)
    lines = str(found).splitlines()
    assert lines[0].split() == ["estimate", "std.", "error", "t", "P>|t|", "[0.05", "0.95]"]
    assert [line[:14].strip() for line in lines[1:-1]] == ["intercept", *frame.columns]
    assert f"{found.estimates[1]:.5g}" in lines[2]
    assert f"{found.p_values[1]:.3g}" in lines[2]
    assert lines[-1] == "400 rows, 394 residual df; covariance: model; L2 penalty: 0"


def test_float32_rows_are_added_up_in_float64():
    rows = X.astype(np.float32)
    model = LogisticRegression(C=np.inf).fit(rows, LABELS)
    wide = LogisticRegression(C=np.inf).fit(rows.astype(np.float64), LABELS)
    found = inference(model, rows, LABELS).standard_errors
    np.testing.assert_allclose(found, inference(wide, rows, LABELS).standard_errors, rtol=1e-4)


FITTED = LogisticRegression().fit(X, LABELS)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: inference(Lasso().fit(X, TARGETS), X, TARGETS), TypeError, "got Lasso"),
        (lambda: inference(FITTED, X, LABELS, level=95), ValueError, "level: expected"),
        (lambda: inference(FITTED, X, LABELS, level="0.9"), ValueError, "level: expected"),
        (
            lambda: inference(Ridge().fit(X, TARGETS), X, np.where(COUNTS > 1, TARGETS, np.nan)),
            ValueError,
            "y: expected finite",
        ),
        (
            lambda: inference(LogisticRegressionCV(), X, LABELS),
            TypeError,
            "got LogisticRegressionCV",
        ),
        (lambda: inference(FITTED, X, LABELS, covariance="x"), ValueError, "got 'x'"),
        (lambda: inference(FITTED, X, 1 - LABELS), ValueError, "standard errors away"),
        (lambda: inference(FITTED, X, LABELS[1:]), ValueError, r"expected shape \(400,\)"),
        (lambda: inference(FITTED, X, LABELS + 1), ValueError, r"labels of \[0, 1\], got .*2"),
        (lambda: inference(FITTED, X[:, 1:], LABELS), ValueError, "4 features"),
        (lambda: inference(FITTED, X, LABELS, -COUNTS), ValueError, "sample_weight: expected"),
        (
            lambda: inference(LogisticRegression(l1_ratio=0.5).fit(X, LABELS), X, LABELS),
            ValueError,
            "no L1 penalty, got l1_ratio=0.5",
        ),
        (
            lambda: inference(
                LogisticRegression(class_weight="balanced").fit(X, LABELS), X, LABELS
            ),
            ValueError,
            "class_weight=None",
        ),
        (
            lambda: inference(LogisticRegression().fit(X, np.arange(N) % 3), X, np.arange(N) % 3),
            ValueError,
            "got 3 models",
        ),
        (
            lambda: inference(LinearRegression().fit(X[:5], TARGETS[:5]), X[:5], TARGETS[:5]),
            ValueError,
            "linearly independent|more rows",
        ),
    ],
)
def test_what_has_no_standard_errors_is_refused_with_the_reason(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_as_many_rows_as_coefficients_leave_no_residual():
    few, targets = X[: X.shape[1] + 1], TARGETS[: X.shape[1] + 1]
    with pytest.raises(ValueError, match=r"more rows than coefficients, got 6 rows .* for 6:"):
        inference(LinearRegression().fit(few, targets), few, targets)


def test_sparse_coefficients_have_the_same_errors_and_other_numbers_of_them_are_refused():
    model = LogisticRegression().fit(X, LABELS)
    errors = inference(model, X, LABELS).standard_errors
    np.testing.assert_array_equal(inference(model.sparsify(), X, LABELS).standard_errors, errors)
    model.densify().coef_ = model.coef_[:, 1:]
    with pytest.raises(ValueError, match="expected coef_ for the 5 columns of its fit, got 4"):
        inference(model, X, LABELS)


def test_columns_that_depend_on_each_other_need_a_penalty():
    twice = np.column_stack([X, X[:, 0]])
    with pytest.raises(ValueError, match="linearly independent, or a penalty"):
        inference(LinearRegression().fit(twice, TARGETS), twice, TARGETS)
    found = inference(Ridge(alpha=1.0).fit(twice, TARGETS), twice, TARGETS)
    assert np.isfinite(found.standard_errors).all()


@pytest.mark.parametrize("kind", ["model", "posterior", "robust"])
def test_a_column_of_zeros_with_a_penalty_has_a_line_without_nan(kind):
    rows = np.column_stack([X, np.zeros(N)])
    found = inference(Ridge(alpha=1.0).fit(rows, TARGETS), rows, TARGETS, covariance=kind)
    assert found.statistics[-1] == 0.0
    assert found.p_values[-1] == 1.0
    assert np.isfinite(found.lower).all()
    assert np.isfinite(found.upper).all()


@pytest.mark.parametrize(
    ("made", "targets", "change"),
    [
        (LogisticRegression(C=2.0), LABELS, {"C": 1.9}),
        (LogisticRegression(class_weight="balanced"), LABELS, {"class_weight": None}),
        (LogisticRegression(bounds=([-1.0] * P, 1.0)), LABELS, {"bounds": None}),
        (LogisticRegression(solver="liblinear"), LABELS, {"intercept_scaling": 1.01}),
        (Ridge(alpha=1.0), TARGETS, {"alpha": 1.01}),
        (LinearRegression(positive=True), TARGETS, {"positive": False}),
        (LinearRegression(fit_intercept=False), X @ np.ones(P), {"fit_intercept": 0.5}),
    ],
)
def test_parameters_changed_since_the_fit_are_noticed(made, targets, change):
    model = made.fit(X, targets).set_params(**change)
    with pytest.raises(ValueError, match=f"parameters of its fit, got {next(iter(change))}="):
        inference(model, X, targets)


def test_parameters_that_are_equal_or_do_not_matter_may_change():
    model = Ridge(alpha=1).fit(X, TARGETS).set_params(alpha=1.0, n_threads=1, max_iter=7)
    inference(model, X, TARGETS)


def test_fit_numbers_agree_with_statsmodels():
    api = pytest.importorskip("statsmodels.api")
    rows = with_ones(X)
    found = inference(LogisticRegression(C=np.inf, tol=1e-12).fit(X, LABELS), X, LABELS)
    theirs = api.Logit(LABELS, rows).fit(disp=False, tol=1e-12)
    assert found.null_log_likelihood == pytest.approx(theirs.llnull, rel=1e-9)
    assert found.r_squared == pytest.approx(theirs.prsquared, rel=1e-9)
    other = inference(LinearRegression().fit(X, TARGETS), X, TARGETS)
    ols = api.OLS(TARGETS, rows).fit()
    assert other.r_squared == pytest.approx(ols.rsquared, rel=1e-9)
    for mine, one in ((found, theirs), (other, ols)):
        assert mine.log_likelihood == pytest.approx(one.llf, rel=1e-9)
        assert mine.aic == pytest.approx(one.aic, rel=1e-9)
        assert mine.bic == pytest.approx(one.bic, rel=1e-9)
        assert mine.n_parameters == pytest.approx(P + 1)


@pytest.mark.parametrize("made", [LinearRegression(), Ridge()])
def test_targets_that_need_no_model_have_no_r_squared(made):
    assert np.isnan(inference(made.fit(X, np.ones(N)), X, np.ones(N)).r_squared)


def test_model_that_was_loaded_notices_changed_parameters(tmp_path):
    Ridge(alpha=1.0).fit(X, TARGETS).save(tmp_path / "model")
    model = snapml.load(tmp_path / "model")
    inference(model, X, TARGETS)
    with pytest.raises(ValueError, match="parameters of its fit, got alpha="):
        inference(model.set_params(alpha=2.0), X, TARGETS)


def test_null_model_has_the_offset():
    api = pytest.importorskip("statsmodels.api")
    offset = 3.0 * np.sin(np.arange(N)) - 2.0
    model = LogisticRegression(C=np.inf, tol=1e-12).fit(X, LABELS, COUNTS, offset=offset)
    found = inference(model, X, LABELS, COUNTS, offset=offset)
    options = dict(family=api.families.Binomial(), freq_weights=COUNTS, offset=offset)
    theirs = api.GLM(LABELS, with_ones(X), **options).fit(tol=1e-12)
    null = api.GLM(LABELS, np.ones(N), **options).fit(tol=1e-12)
    assert found.log_likelihood == pytest.approx(theirs.llf, rel=1e-9)
    assert found.null_log_likelihood == pytest.approx(null.llf, rel=1e-9)


def test_summary_and_frame_show_the_same_numbers():
    pandas = pytest.importorskip("pandas")
    found = inference(Ridge(alpha=5.0).fit(X, TARGETS), X, TARGETS)
    text = found.summary()
    for shown in (f"{found.r_squared:.4f}", f"{found.aic:.6g}", f"{found.bic:.6g}", "Ridge"):
        assert shown in text
    assert found.n_parameters < P + 1
    assert all(line in text for line in str(found).splitlines()[:-1])
    frame = found.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.index) == list(found.names)
    np.testing.assert_array_equal(frame["p_value"], found.p_values)
    np.testing.assert_array_equal(frame[["lower", "upper"]].T, [found.lower, found.upper])


def test_a_column_called_intercept_keeps_its_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"intercept": X[:, 0], "b": X[:, 1]})
    model = LinearRegression().fit(frame, TARGETS)
    found = inference(model, frame, TARGETS)
    assert found.names == ("(intercept)", "intercept", "b")
    assert found.summary().count("(intercept)") == 1


@pytest.mark.parametrize("covariance", ["model", "posterior", "robust"])
@pytest.mark.parametrize("model", [LinearRegression(), Ridge(alpha=2.0), LogisticRegression()])
@pytest.mark.parametrize("value", [0.0, 0.1, 7.3, -1e9])
def test_a_constant_column_with_a_penalty_changes_no_other_error(model, covariance, value):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    t = X @ [1.0, 0.2, 3.0, -0.5] + rng.normal(size=300)
    y = (t > 0).astype(int) if isinstance(model, LogisticRegression) else t
    model = clone(model)
    if isinstance(model, LogisticRegression):
        model.set_params(tol=1e-12)
    expected = inference(model.fit(X, y), X, y, covariance=covariance).standard_errors
    Z = np.column_stack([X, np.full(300, value)])
    model.fit(Z, y)
    if isinstance(model, LinearRegression):
        with pytest.raises(ValueError, match="a penalty"):
            inference(model, Z, y, covariance=covariance)
        return
    found = inference(model, Z, y, covariance=covariance)
    np.testing.assert_allclose(found.standard_errors[1:5], expected[1:], rtol=1e-6)
    assert np.isfinite(found.standard_errors).all()
    assert found.statistics[5] == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("covariance", ["model", "robust"])
@pytest.mark.parametrize("shift", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_far_column_has_the_errors_of_the_centred_one(covariance, shift, unit):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3))
    X[:, 1] = (X[:, 1] + shift) * unit
    t = X[:, 0] + rng.normal(size=400)
    near = X.copy()
    near[:, 1] -= shift * unit
    for model, y in (
        (LinearRegression(), t),
        (LogisticRegression(C=np.inf, tol=1e-10), (t > 0).astype(int)),
    ):
        expected = inference(model.fit(near, y), near, y, covariance=covariance)
        found = inference(model.fit(X, y), X, y, covariance=covariance)
        slopes = found.standard_errors[1:] / expected.standard_errors[1:]
        np.testing.assert_allclose(slopes, 1.0, rtol=1e-5)
        assert found.r_squared == pytest.approx(expected.r_squared, rel=1e-6)


AMOUNTS = RNG.gamma(2.0, np.exp(0.1 * MARGINS) / 2.0)
EVENTS = RNG.poisson(np.exp(0.1 * MARGINS)).astype(float)
FAMILIES = {
    "Poisson": (PoissonRegressor(), EVENTS, {}),
    "Gamma": (GammaRegressor(), AMOUNTS, {"link": "log"}),
    "Tweedie": (TweedieRegressor(power=1.5), AMOUNTS * (EVENTS > 0), {"var_power": 1.5}),
    "NegativeBinomial": (NegativeBinomialRegressor(theta=0.7), EVENTS, {"alpha": 0.7}),
    "Gaussian": (TweedieRegressor(power=0), TARGETS, {}),
}


@pytest.mark.parametrize("kind", ["model", "robust"])
@pytest.mark.parametrize("weights", ["frequency", "variance"])
@pytest.mark.parametrize("name", FAMILIES)
def test_counts_and_amounts_agree_with_statsmodels(name, weights, kind):
    api = pytest.importorskip("statsmodels.api")
    model, y, options = FAMILIES[name]
    options = {**options, **({"link": api.families.links.Log()} if name == "Gamma" else {})}
    offset = RNG.normal(scale=0.2, size=N)
    model = clone(model).set_params(alpha=0.0, tol=1e-14).fit(X, y, COUNTS, offset=offset)
    family = getattr(api.families, name)(**options)
    theirs = {f"{'freq' if weights == 'frequency' else 'var'}_weights": COUNTS.astype(float)}
    theirs = api.GLM(y, with_ones(X), family=family, offset=offset, **theirs)
    robust = {"cov_type": "HC0"} if kind == "robust" else {}
    has_t = name in ("Gamma", "Tweedie", "Gaussian")
    theirs = theirs.fit(tol=1e-14, use_t=has_t, **robust)
    found = inference(model, X, y, COUNTS, offset=offset, covariance=kind, weights=weights)
    if kind == "model":
        assert_equal_to(found, theirs)
    elif weights == "frequency":  # statsmodels' sandwich of variance weights is that of frequencies
        np.testing.assert_allclose(found.standard_errors, theirs.bse, rtol=1e-5)
    assert found.scale == pytest.approx(theirs.scale, rel=1e-6)
    if name not in ("Tweedie", "Gaussian"):
        assert found.log_likelihood == pytest.approx(theirs.llf, rel=1e-8)


def test_dispersion_is_as_asked():
    model = PoissonRegressor(alpha=0.0, tol=1e-12).fit(X, EVENTS, exposure=2.0)
    plain = inference(model, X, EVENTS, exposure=2.0)
    assert plain.scale == 1.0
    for kind in ("pearson", "deviance", 1.7):
        found = inference(model, X, EVENTS, exposure=2.0, dispersion=kind)
        expected = np.sqrt(found.scale) * plain.standard_errors
        np.testing.assert_allclose(found.standard_errors, expected, rtol=1e-12)
        assert np.isinf(found.residual_df) == (kind == 1.7)
    deviance = 2.0 * N * model.objective_ / (N - P - 1)
    assert inference(model, X, EVENTS, exposure=2.0, dispersion="deviance").scale == pytest.approx(
        deviance, rel=1e-8
    )
    assert "D^2" in plain.summary()


def test_a_penalty_on_the_mean_is_that_times_the_rows():
    model = PoissonRegressor(alpha=0.01, tol=1e-13).fit(X, EVENTS, COUNTS)
    means = model.predict(X)
    rows = with_ones(X)
    H = (rows.T * (COUNTS * means)) @ rows
    ridge = 0.01 * COUNTS.sum() * np.diag([0.0, *[1.0] * P])
    inverse = np.linalg.inv(H + ridge)
    found = inference(model, X, EVENTS, COUNTS)
    np.testing.assert_allclose(found.covariance, inverse @ H @ inverse, rtol=1e-7)
    assert found.penalty == pytest.approx(0.01 * COUNTS.sum())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights": "analytic"}, "weights: expected one of"),
        ({"dispersion": "ml"}, "dispersion: expected one of"),
        ({"dispersion": 0.0}, "dispersion: expected one of"),
        ({"dispersion": True}, "dispersion: expected one of"),
    ],
)
def test_dispersions_and_weights_that_mean_nothing_are_refused(options, words):
    model = PoissonRegressor(alpha=0.0).fit(X, EVENTS)
    with pytest.raises(ValueError, match=words):
        inference(model, X, EVENTS, **options)


def test_counts_with_an_l1_penalty_and_wrong_targets_are_refused():
    model = PoissonRegressor(alpha=0.1, l1_ratio=0.5).fit(X, EVENTS)
    with pytest.raises(ValueError, match="no L1 penalty, got l1_ratio=0"):
        inference(model, X, EVENTS)
    with pytest.raises(ValueError, match="y: expected counts of at least 0"):
        inference(PoissonRegressor(alpha=0.0).fit(X, EVENTS), X, -EVENTS)
    with pytest.raises(TypeError, match="LinearRegression has no exposure"):
        inference(LinearRegression().fit(X, TARGETS), X, TARGETS, exposure=1.0)
