"""Offsets of the estimators that choose by cross-validation, and of early stopping."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, make_scorer, r2_score
from sklearn.model_selection import KFold, StratifiedKFold

import snapml
from snapml import ElasticNetCV, LassoCV, LogisticRegression, LogisticRegressionCV, Ridge, RidgeCV
from snapml.callbacks import EarlyStopping

RNG = np.random.default_rng(5)
N, P = 240, 5
X = RNG.standard_normal((N, P)).astype(np.float32).astype(np.float64)
OFFSET = 2.0 * RNG.standard_normal(N) + 1.0
MARGINS = X @ np.resize([1.0, -0.5, 0.0], P) + OFFSET - 1.5
LABELS = (RNG.random(N) < 1.0 / (1.0 + np.exp(-MARGINS))).astype(int)
TARGETS = MARGINS + 0.3 * RNG.standard_normal(N)
COUNTS = RNG.integers(1, 4, N)
QUIET = dict(l1_ratios=(0,), scoring="accuracy", use_legacy_attributes=False)
ALPHAS = np.array([0.01, 0.1, 1.0, 30.0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weights", [None, COUNTS], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    "model",
    [
        LassoCV(alphas=10, cv=3),
        ElasticNetCV(alphas=10, l1_ratio=[0.3, 0.9], cv=3),
        RidgeCV(ALPHAS),
        RidgeCV(ALPHAS, cv=KFold(3), scoring="neg_mean_squared_error"),
    ],
    ids=["LassoCV", "ElasticNetCV", "RidgeCV", "RidgeCV(cv)"],
)
def test_search_of_a_regressor_is_that_of_what_the_offset_leaves(model, weights, dtype):
    rows, y = X.astype(dtype), TARGETS.astype(dtype)
    plain = type(model)(**model.get_params()).fit(rows, y - OFFSET, weights)
    model.fit(rows, y, weights, offset=OFFSET)
    close = dict(rtol=1e-9 if dtype is np.float64 else 1e-3)
    assert model.has_offset_
    assert not plain.has_offset_
    assert model.alpha_ == pytest.approx(plain.alpha_, rel=close["rtol"])
    np.testing.assert_allclose(model.coef_, plain.coef_, **close)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, **close)
    if hasattr(model, "mse_path_"):
        np.testing.assert_allclose(model.mse_path_, plain.mse_path_, **close)
    found = model.predict(rows, offset=OFFSET)
    np.testing.assert_allclose(found, plain.predict(rows) + OFFSET, rtol=1e-4)
    assert model.score(rows, y, offset=OFFSET) == pytest.approx(r2_score(y, found))
    with pytest.raises(ValueError, match="offset: expected that of each row"):
        model.predict(rows)


def test_scores_of_rows_left_out_are_of_predictions_with_their_offset():
    model = RidgeCV(ALPHAS, scoring="r2", store_cv_results=True).fit(X, TARGETS, offset=OFFSET)
    alone = [
        np.ravel(
            [
                Ridge(alpha=alpha)
                .fit(np.delete(X, i, 0), np.delete(TARGETS - OFFSET, i))
                .predict(X[i : i + 1])
                for i in range(N)
            ]
        )
        + OFFSET
        for alpha in ALPHAS
    ]
    np.testing.assert_allclose(model.cv_results_.T, alone, rtol=1e-8)
    scores = [r2_score(TARGETS, one) for one in alone]
    assert model.best_score_ == pytest.approx(max(scores))
    assert model.alpha_ == ALPHAS[np.argmax(scores)]
    folds = RidgeCV(ALPHAS, cv=4, scoring="r2").fit(X, TARGETS, offset=OFFSET)
    by_hand = [
        np.mean(
            [
                r2_score(
                    TARGETS[test],
                    Ridge(alpha=alpha)
                    .fit(X[train], TARGETS[train], offset=OFFSET[train])
                    .predict(X[test], offset=OFFSET[test]),
                )
                for train, test in KFold(4).split(X)
            ]
        )
        for alpha in ALPHAS
    ]
    assert folds.best_score_ == pytest.approx(max(by_hand))
    assert folds.alpha_ == ALPHAS[np.argmax(by_hand)]


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.7])
def test_logistic_search_fits_and_scores_folds_with_their_offset(l1_ratio, refit):
    Cs, cv = [0.01, 0.3, 20.0], StratifiedKFold(3)
    search = LogisticRegressionCV(
        Cs=Cs,
        l1_ratios=(l1_ratio,),
        cv=cv,
        scoring="neg_log_loss",
        use_legacy_attributes=False,
        tol=1e-9,
        max_iter=2000,
        refit=refit,
    ).fit(X, LABELS, COUNTS, offset=OFFSET)

    def single(C, train):
        model = LogisticRegression(C=C, l1_ratio=l1_ratio, tol=1e-9, max_iter=2000)
        return model.fit(X[train], LABELS[train], COUNTS[train], offset=OFFSET[train])

    for number, (train, test) in enumerate(cv.split(X, LABELS)):
        for at, C in enumerate(Cs):
            model = single(C, train)
            np.testing.assert_allclose(
                search.coefs_paths_[number, 0, at, 0, :-1], model.coef_[0], atol=1e-3
            )
            found = model.predict_proba(X[test], offset=OFFSET[test])
            expected = -log_loss(LABELS[test], found, sample_weight=COUNTS[test])
            assert search.scores_[number, 0, at] == pytest.approx(expected, rel=1e-4)
    assert search.has_offset_
    if refit:
        best = single(search.C_, np.arange(N))
        np.testing.assert_allclose(search.coef_, best.coef_, atol=1e-3)
        assert search.gap_ <= 1e-9 * search.objective_
    expected = -log_loss(LABELS, search.predict_proba(X, offset=OFFSET))
    assert search.score(X, LABELS, offset=OFFSET) == pytest.approx(expected)
    with pytest.raises(ValueError, match="offset: expected that of each row"):
        search.score(X, LABELS)


@pytest.mark.parametrize(
    "model", [LassoCV(), RidgeCV(), RidgeCV(cv=3), LogisticRegressionCV(**QUIET)]
)
def test_searches_refuse_offsets_that_do_not_fit(model):
    y = LABELS if isinstance(model, LogisticRegressionCV) else TARGETS
    before = dict(vars(model))
    with pytest.raises(ValueError, match=r"offset: expected shape \(240,\), got \(239,\)"):
        model.fit(X, y, offset=OFFSET[1:])
    with pytest.raises(ValueError, match="offset: expected finite numbers"):
        model.fit(X, y, offset=np.nan)
    assert vars(model) == before


def test_search_among_several_classes_refuses_an_offset():
    y = np.arange(N) % 3
    with pytest.raises(ValueError, match="offset: expected two classes"):
        LogisticRegressionCV(**QUIET).fit(X, y, offset=OFFSET)


def test_classifiers_of_ridge_have_none():
    model = snapml.RidgeClassifierCV()
    with pytest.raises(NotImplementedError, match=r"offset: RidgeClassifierCV\.fit takes none"):
        model.fit(X, LABELS, offset=OFFSET)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("scoring", ["neg_log_loss", None, make_scorer(r2_score)])
def test_early_stopping_scores_with_the_offset_of_its_rows(scoring):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or newer")
    train, valid = slice(0, 160), slice(160, None)
    stopping = EarlyStopping(X[valid], LABELS[valid], scoring=scoring, offset=OFFSET[valid])
    model = LogisticRegression(solver="sdca", tol=1e-8, max_iter=400).set_callbacks(stopping)
    model.fit(X[train], LABELS[train], offset=OFFSET[train])
    best = stopping.best_estimator_
    if scoring == "neg_log_loss":
        found = best.predict_proba(X[valid], offset=OFFSET[valid])
        assert stopping.best_score_ == pytest.approx(-log_loss(LABELS[valid], found))
    if scoring is None:
        expected = best.score(X[valid], LABELS[valid], offset=OFFSET[valid])
        assert stopping.best_score_ == expected
    assert len(stopping.scores_) > 1
    without = EarlyStopping(X[valid], LABELS[valid])
    with pytest.raises(ValueError, match="offset: expected that of each row"):
        LogisticRegression(solver="sdca").set_callbacks(without).fit(
            X[train], LABELS[train], offset=OFFSET[train]
        )
