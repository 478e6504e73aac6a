"""Columns without entries are left out of a fit, and nobody sees it but by its speed."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import snapml
from snapml.data import CompressedMatrix, Dataset
from snapml.model_selection import GridSearchCV
from snapml.problems import Intercept, Logistic, Problem
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.control import Control
from snapml.solvers.dual_ascent.host_duals import worth_merging
from snapml.solvers.fit_settings import Settings
from snapml.solvers.plan import choice, used_columns
from snapml.solvers.plan.used_columns import find_used
from snapml.solvers.stopping import StoppingRule

N_ROWS, N_USED, N_ALL = 300, 40, 2000


@pytest.fixture(autouse=True)
def _few_columns_are_many(monkeypatch):
    monkeypatch.setattr(used_columns, "_LEAST_COLUMNS", 1000)


@pytest.fixture
def places():
    return np.sort(np.random.default_rng(1).choice(N_ALL, N_USED, replace=False))


@pytest.fixture
def narrow():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N_ROWS, N_USED)) * (rng.random((N_ROWS, N_USED)) < 0.3)


@pytest.fixture
def wide(narrow, places):
    X = np.zeros((N_ROWS, N_ALL))
    X[:, places] = narrow
    return csr_matrix(X)


@pytest.fixture
def y(narrow):
    return np.where(narrow[:, 0] - narrow[:, 1] + 0.3 * narrow[:, 2] > 0.0, 1, -1)


def compressed(X):
    return CompressedMatrix(X.indptr, X.indices, X.shape[1], X.data)


MODELS = [
    snapml.LogisticRegression(tol=1e-9),
    snapml.LogisticRegression(l1_ratio=1.0, tol=1e-9),
    snapml.LogisticRegression(l1_ratio=0.5, tol=1e-9),
    snapml.LinearSVC(tol=1e-9, max_iter=10_000),
    snapml.LinearSVC(loss="hinge", tol=1e-7, max_iter=100_000),
    snapml.Ridge(tol=1e-9),
    snapml.Lasso(alpha=0.01, tol=1e-9),
    snapml.Lasso(alpha=0.01, positive=True, tol=1e-9),
    snapml.PoissonRegressor(tol=1e-9),
    snapml.QuantileRegressor(alpha=0.01, tol=1e-7),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_model_is_that_of_the_columns_in_use(model, wide, narrow, places, y):
    y = np.abs(y + 1) if isinstance(model, snapml.PoissonRegressor) else y
    own = model.__class__(**model.get_params()).fit(wide, y)
    of_used = model.__class__(**model.get_params()).fit(csr_matrix(narrow), y)
    coef = np.ravel(own.coef_)
    assert coef.shape == (N_ALL,)
    np.testing.assert_allclose(coef[places], np.ravel(of_used.coef_), rtol=1e-3, atol=2e-4)
    assert np.count_nonzero(np.delete(coef, places)) == 0
    assert abs(own.objective_ - of_used.objective_) <= own.gap_ + of_used.gap_ + 1e-12


def test_several_classes(wide, narrow, places):
    y = np.digitize(narrow[:, 0], [-0.1, 0.1])
    own = snapml.LogisticRegression(tol=1e-9).fit(wide, y)
    of_used = snapml.LogisticRegression(tol=1e-9).fit(csr_matrix(narrow), y)
    np.testing.assert_allclose(own.coef_[:, places], of_used.coef_, atol=1e-5)
    assert own.coef_.shape == (3, N_ALL)


def test_it_is_used_where_most_columns_are_empty(wide, monkeypatch):
    used = find_used(compressed(wide))
    packed = used.of_dataset(Dataset(compressed(wide), np.ones(N_ROWS), None, 1.0))
    assert packed.matrix.shape == (N_ROWS, N_USED)
    assert wide.indptr.flags.writeable
    monkeypatch.setattr(used_columns, "_LEAST_COLUMNS", N_ALL + 1)
    assert find_used(compressed(wide)) is None


def test_it_is_not_used_where_most_columns_hold_entries(monkeypatch):
    rng = np.random.default_rng(0)
    X = csr_matrix(rng.random((500, 1200)) < 0.01, dtype=float)
    assert find_used(compressed(X)) is None
    monkeypatch.setattr(used_columns, "_MOST_ENTRIES", 1)
    assert find_used(compressed(X)) is None


def test_bounds_of_columns_and_of_the_intercept(wide, narrow, places, y):
    lower = np.full((1, N_ALL), -np.inf)
    upper = np.full((1, N_ALL), np.inf)
    upper[0, places[0]] = 0.5
    kinds = {"solver": "liblinear", "tol": 1e-9}
    own = snapml.LogisticRegression(bounds=(lower[0], upper[0]), **kinds).fit(wide, y)
    of_used = snapml.LogisticRegression(bounds=(lower[0, places], upper[0, places]), **kinds)
    of_used.fit(csr_matrix(narrow), y)
    assert own.coef_[0, places[0]] == 0.5
    np.testing.assert_allclose(own.coef_[0, places], of_used.coef_[0], atol=1e-5)
    np.testing.assert_allclose(own.intercept_, of_used.intercept_, atol=1e-5)


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
def test_a_warm_start_goes_on_from_the_model_of_all_columns(l1_ratio, wide, y):
    model = snapml.LogisticRegression(l1_ratio=l1_ratio, warm_start=True, tol=1e-6).fit(wide, y)
    n_first = model.n_iter_[0]
    assert model.fit(wide, y).n_iter_[0] < n_first
    assert model.coef_.shape == (1, N_ALL)


def test_a_path_has_coefficients_of_all_columns(wide, y):
    alphas, coefs, gaps = snapml.lasso_path(wide, y.astype(float), alphas=5)
    assert coefs.shape == (N_ALL, len(alphas))
    assert (gaps <= 1e-3 * N_ROWS).all()


@pytest.mark.parametrize("solver", ["auto", "sdca", "pqn"])
def test_those_who_look_on_see_models_of_all_columns(solver, wide, y):
    seen = []

    def look(model_of):
        seen.append(model_of().coef.shape)
        return False

    rule = StoppingRule(1e-9, 200, control=Control(look=look))
    dataset = Dataset(compressed(wide), y.astype(float), None, 1.0)
    problem = Problem(Logistic(), Intercept.FREE)
    result = choice.fit(problem, dataset, SerialCommunicator(), rule, Settings(solver))
    assert result.has_converged
    assert seen
    assert set(seen) == {(1, N_ALL)}


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
def test_searches_share_the_columns_in_use(l1_ratio, wide, narrow, places, y):
    search = {"Cs": [0.1, 1.0], "cv": 3, "l1_ratios": [l1_ratio], "scoring": "neg_log_loss"}
    search |= {"use_legacy_attributes": False}
    own = snapml.LogisticRegressionCV(**search).fit(wide, y)
    of_used = snapml.LogisticRegressionCV(**search).fit(csr_matrix(narrow), y)
    np.testing.assert_allclose(own.scores_, of_used.scores_, rtol=1e-5)
    np.testing.assert_allclose(own.coef_[:, places], of_used.coef_, atol=1e-4)
    grid = GridSearchCV(snapml.LogisticRegression(), {"C": [0.1, 1.0]}, cv=3).fit(wide, y)
    assert grid.best_estimator_.coef_.shape == (1, N_ALL)
    narrow_grid = GridSearchCV(snapml.LogisticRegression(), {"C": [0.1, 1.0]}, cv=3)
    narrow_grid.fit(csr_matrix(narrow), y)
    mean_score = "mean_test_score"
    np.testing.assert_allclose(grid.cv_results_[mean_score], narrow_grid.cv_results_[mean_score])


def test_indices_that_lead_outside_are_refused_in_the_same_words(wide):
    indices = wide.indices.copy()
    indices[7] = N_ALL
    wrong = CompressedMatrix(wide.indptr, indices, N_ALL, wide.data)
    assert find_used(wrong) is None
    with pytest.raises(ValueError, match=f"indices must lie in \\[0, {N_ALL}\\)"):
        snapml.LogisticRegression().fit(wrong, np.arange(N_ROWS) % 2)


def test_offsets_that_fall_are_refused_in_words_of_offsets(wide):
    indptr = wide.indptr.copy()
    indptr[3] = indptr[-1]
    wrong = CompressedMatrix(indptr, wide.indices, N_ALL, wide.data)
    assert find_used(wrong) is None
    with pytest.raises(ValueError, match="indptr must not decrease"):
        snapml.LogisticRegression().fit(wrong, np.arange(N_ROWS) % 2)


def test_rows_without_entries_have_no_columns_to_keep():
    empty = csr_matrix((50, 5000))
    assert find_used(compressed(empty)) is None


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "n_threads"), [(1000, 10, 4), (1000, 4000, 1), (1000, 900, 2)]
)
def test_threads_that_merge_long_vectors_have_entries_to_read(n_rows, n_columns, n_threads):
    entries = 8
    indices = np.zeros(entries * n_rows, dtype=np.int64)
    matrix = CompressedMatrix(np.arange(n_rows + 1) * entries, indices, n_columns)
    assert worth_merging(4, matrix) == n_threads
