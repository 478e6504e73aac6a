"""Searches on dense rows of many columns, in a basis of the rows' span, beside those in columns."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.model_selection import StratifiedKFold

from snapml import LogisticRegressionCV
from snapml._validation import as_matrix
from snapml.searches import logistic_regression_cv
from snapml.searches.shared.spanned_rows import SpannedRows
from snapml.solvers.newton import row_space

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def make_rows(n_rows=60, n_columns=150, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns)) + 1.0
    margins = X[:, :5] @ rng.standard_normal((5, n_classes))
    return X, (margins + rng.gumbel(size=margins.shape)).argmax(axis=1)


@pytest.fixture
def spans(monkeypatch):
    """Return the bases that were made."""
    made, real = [], SpannedRows.__init__

    def seen(self, *args, **kwargs):
        real(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(SpannedRows, "__init__", seen)
    return made


def path_of(model):
    return np.stack(list(model.coefs_paths_.values()))


@pytest.mark.parametrize(
    ("made", "n_classes", "dtype"),
    [
        (LogisticRegressionCV(Cs=4, cv=3, tol=1e-9), 2, np.float64),
        (LogisticRegressionCV(Cs=[0.01, 1.0], cv=3, tol=1e-9), 3, np.float64),
        (LogisticRegressionCV(Cs=4, cv=3, tol=1e-9, fit_intercept=False), 2, np.float64),
        (LogisticRegressionCV(Cs=[0.1, 1.0], cv=3, tol=1e-6, scoring="neg_log_loss"), 2, "f4"),
        (LogisticRegressionCV(Cs=4, cv=3, tol=1e-9, class_weight="balanced"), 2, np.float64),
        (LogisticRegressionCV(Cs=4, cv=3, tol=1e-9, refit=False), 2, np.float64),
    ],
    ids=str,
)
@pytest.mark.parametrize("has_weights", [False, True], ids=["plain", "weights"])
def test_models_are_those_of_the_columns(made, n_classes, dtype, has_weights, spans, monkeypatch):
    X, y = make_rows(n_classes=n_classes)
    X = X.astype(dtype)
    weights = np.random.default_rng(1).integers(1, 4, len(y)) * 1.0 if has_weights else None
    model = made.fit(X, y, sample_weight=weights)
    assert len(spans) == 1
    assert spans[0].matrix.shape[1] <= 60
    paths, coef, C = path_of(model), model.coef_.copy(), np.copy(model.C_)
    scores = np.stack(list(model.scores_.values()))
    monkeypatch.setattr(logistic_regression_cv, "is_far_wider", lambda matrix: False)
    model.fit(X, y, sample_weight=weights)
    assert len(spans) == 1
    expected = path_of(model)
    assert paths.dtype == expected.dtype
    assert paths.shape == expected.shape
    atol = (2e-2 if dtype == "f4" else 1e-3) * np.abs(expected).max()
    np.testing.assert_allclose(paths, expected, atol=atol)
    np.testing.assert_allclose(scores, np.stack(list(model.scores_.values())), atol=2e-3)
    np.testing.assert_array_equal(C, model.C_)
    np.testing.assert_allclose(coef, model.coef_, atol=atol)


def looks_at_rows(model, X, y):
    assert X.shape[1] == 150
    return model.score(X, y)


class Splitter(StratifiedKFold):
    """Sees the user's rows."""

    def split(self, X, y=None, groups=None):
        assert np.shape(X)[1] == 150
        return super().split(X, y, groups)


@pytest.mark.parametrize(
    ("made", "layout", "n_rows"),
    [
        (LogisticRegressionCV(Cs=2, cv=3), csr_matrix, 60),
        (LogisticRegressionCV(Cs=2, cv=3), np.asarray, 110),
        (LogisticRegressionCV(Cs=2, cv=3, scoring=looks_at_rows), np.asarray, 60),
        (LogisticRegressionCV(Cs=2, cv=3, l1_ratios=[0.5]), np.asarray, 60),
        (LogisticRegressionCV(Cs=2, cv=3, solver="liblinear"), np.asarray, 60),
    ],
)
def test_others_stay_in_their_columns(made, layout, n_rows, spans):
    X, y = make_rows(n_rows)
    made.fit(layout(X), y)
    assert not spans


def test_splitters_see_the_rows_and_attributes_their_columns(spans):
    X, y = make_rows()
    model = LogisticRegressionCV(Cs=2, cv=Splitter(3)).fit(X, y)
    assert spans
    assert model.coef_.shape == (1, 150)
    assert model.n_features_in_ == 150
    assert model.gap_ <= 1e-4 * model.objective_
    assert model.predict(X).shape == y.shape


def test_what_is_not_a_number_is_refused_as_ever():
    X, y = make_rows()
    X[3, 7] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        LogisticRegressionCV(Cs=2, cv=3).fit(X, y)


def test_fits_without_a_model_stay_without_one():
    X, _ = make_rows()
    span = SpannedRows(as_matrix(X), 1.0, has_intercept=True, n_threads=1)
    coefs = np.full((2, 1, span.matrix.shape[1] + 1), np.nan)
    coefs[0] = 0.0
    found = span.in_columns(coefs)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).all()


def test_more_rows_than_eigenvectors_are_worth_stay_in_their_columns(monkeypatch):
    X, _ = make_rows()
    assert row_space.is_far_wider(as_matrix(X))
    monkeypatch.setattr(row_space, "_MOST_ROWS", 59)
    assert not row_space.is_far_wider(as_matrix(X))
