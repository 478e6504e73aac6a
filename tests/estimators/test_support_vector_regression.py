"""Support vector regression: scikit-learn's objective, minimised as far as the gap says."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random
from sklearn.datasets import load_diabetes
from sklearn.svm import LinearSVR as Peer

from snapml import LinearSVR, load
from snapml.io import convert

LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X / X.std(axis=0), y


def objective(model, X, y, weights=1.0, scaling=1.0):
    """Return scikit-learn's objective of a model."""
    excess = np.maximum(0.0, abs(y - model.predict(X)) - model.epsilon)
    losses = excess**2 if model.loss == LOSSES[1] else excess
    bias = float(np.sum(model.intercept_)) / scaling
    return model.C * np.sum(weights * losses) + (model.coef_ @ model.coef_ + bias**2) / 2


@pytest.mark.filterwarnings("ignore:Liblinear failed")
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 20.0])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_model_of_scikit_learn_is_better(diabetes, loss, C, epsilon, is_weighted):
    X, y = diabetes
    weights = np.random.default_rng(0).integers(0, 3, len(y)) if is_weighted else np.ones(len(y))
    how = dict(loss=loss, C=C, epsilon=epsilon, intercept_scaling=10.0)
    model = LinearSVR(**how).fit(X, y, weights)
    peer = Peer(**how, max_iter=10_000, random_state=0).fit(X, y, weights)
    assert model.intercept_.shape == (1,)
    assert model.objective_ == pytest.approx(objective(model, X, y, weights, 10.0), rel=1e-10)
    assert model.gap_ <= 1e-5 * model.objective_
    assert objective(peer, X, y, weights, 10.0) >= model.objective_ - model.gap_


@pytest.mark.parametrize("solver", ["auto", "ipm", "sdca", "pqn"])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_solver_has_the_same_answer(loss, solver):
    rng = np.random.default_rng(1)
    X = random(800, 700, 0.02, "csr", random_state=2)
    y = X @ rng.normal(size=700) + 0.1 * rng.normal(size=800)
    best = LinearSVR(loss=loss, epsilon=0.1, tol=1e-8).fit(X, y)
    impossible = {LOSSES[0]: "pqn", LOSSES[1]: "ipm"}[loss]
    model = LinearSVR(loss=loss, epsilon=0.1, solver=solver, tol=1e-6)
    if solver == impossible:
        with pytest.raises(ValueError, match="solver"):
            model.fit(X, y)
        return
    model.fit(X, y)
    assert model.gap_ <= 1e-6 * model.objective_
    assert abs(model.objective_ - best.objective_) <= model.gap_ + best.gap_


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_dense_and_sparse_rows_and_both_types_agree(diabetes, loss, fit_intercept):
    X, y = diabetes
    how = dict(loss=loss, epsilon=5.0, C=0.1, fit_intercept=fit_intercept)
    wide = LinearSVR(**how).fit(X, y)
    assert fit_intercept or wide.intercept_[0] == 0.0
    for rows in (csr_matrix(X), X.astype(np.float32), csr_matrix(X.astype(np.float32))):
        model = LinearSVR(**how).fit(rows, y)
        assert abs(model.objective_ - wide.objective_) <= 2e-5 * wide.objective_
        assert model.coef_.dtype == rows.dtype


@pytest.mark.parametrize("loss", LOSSES)
def test_stores_have_the_answer_of_memory(diabetes, loss, tmp_path):
    X, y = diabetes
    convert(iter([(X, y)]), tmp_path / "store", dtype="float64")
    how = dict(loss=loss, epsilon=5.0, C=1e-3)
    streamed, whole = LinearSVR(**how).fit(tmp_path / "store"), LinearSVR(**how).fit(X, y)
    assert abs(streamed.objective_ - whole.objective_) <= streamed.gap_ + whole.gap_


def test_long_rows_of_many_columns_leave_coordinate_ascent():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1200, 600))
    y = X @ rng.normal(size=600) + rng.standard_t(3, size=1200)
    model = LinearSVR(C=10.0).fit(X, y)
    assert "interior point" in model.solver_
    assert "coordinate ascent" in model.solver_
    assert model.gap_ <= 1e-5 * model.objective_
    assert model.history_[-1]["epoch"] >= len(model.history_) - 1


def test_files_and_scikit_learn_keep_the_model(diabetes, tmp_path):
    X, y = diabetes
    model, again = (LinearSVR(epsilon=5.0).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(model.coef_, again.coef_)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))
    theirs = model.to_sklearn()
    assert isinstance(theirs, Peer)
    np.testing.assert_allclose(theirs.predict(X), model.predict(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"C": 0.0}, "C"),
        ({"C": np.inf}, "C"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": np.inf}, "epsilon"),
        ({"loss": "hinge"}, "loss: expected one of"),
        ({"solver": "saga"}, "solver: expected one of"),
        ({"intercept_scaling": 0.0}, "intercept_scaling"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(diabetes, bad, message):
    with pytest.raises(ValueError, match=message):
        LinearSVR(**bad).fit(*diabetes)
