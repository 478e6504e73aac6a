"""Support vectors under Snap ML's names: the rows that the model is made of."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from snapml import compat
from snapml.compat import SupportVectorMachine, support_vector_machine

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4)) + 0.3
Y = np.where(X[:, 0] - X[:, 1] + 0.5 * RNG.normal(size=120) > 0.2, 7, 3)
THREE = (X[:, :3] + 0.3 * RNG.normal(size=(120, 3))).argmax(axis=1)
TIGHT = {"tol": 1e-10, "max_iter": 20_000, "regularizer": 0.5}
LOSSES = pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])


@pytest.fixture(params=["auto", "sdca"])
def solver(request, monkeypatch):
    """Have machines solved by a method without dual variables, and by one with them."""

    class Chosen(support_vector_machine.SupportedSVC):
        def fit(self, X, y=None, sample_weight=None):
            self.solver = request.param
            return super().fit(X, y, sample_weight)

    monkeypatch.setattr(support_vector_machine, "SupportedSVC", Chosen)
    return request.param


def dual_variables(loss, signs, weight):
    """Return the minimiser of the dual problem, by a general method."""
    products = (signs[:, None] * X) @ (signs[:, None] * X).T
    if loss == "squared_hinge":
        products += np.eye(len(X)) / (2.0 * weight)
    found = minimize(
        lambda a: (0.5 * a @ products @ a - a.sum(), products @ a - 1.0),
        np.zeros(len(X)),
        jac=True,
        bounds=[(0.0, weight if loss == "hinge" else None)] * len(X),
        options={"maxiter": 100_000, "maxfun": 100_000, "ftol": 0.0, "gtol": 1e-9},
    )
    return found.x


@LOSSES
def test_they_are_the_rows_with_dual_variables_above_zero(loss, solver):
    model = SupportVectorMachine(loss=loss, **TIGHT).fit(X, Y)
    weight = 1.0 / TIGHT["regularizer"]
    alpha = dual_variables(loss, np.where(Y == 7, 1.0, -1.0), weight)
    np.testing.assert_allclose(((Y == 7) * 2.0 - 1.0) * alpha @ X, model.coef_[0], atol=1e-4)
    np.testing.assert_array_equal(model.support_, np.flatnonzero(alpha > 1e-5))
    assert model.n_support_ == len(model.support_) < 100
    assert type(model.n_support_) is int
    assert model.estimator_.solver == solver


@LOSSES
@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
@pytest.mark.parametrize("labels", [Y, THREE], ids=["two", "three"])
def test_a_fit_of_these_rows_alone_is_the_same_model(loss, form, labels, solver):
    model = SupportVectorMachine(loss=loss, fit_intercept=True, **TIGHT).fit(form(X), labels)
    used = model.support_
    assert 10 < len(used) < len(X)
    np.testing.assert_array_equal(used, np.unique(used))
    alone = SupportVectorMachine(loss=loss, fit_intercept=True, **TIGHT)
    alone.fit(form(X[used]), labels[used])
    np.testing.assert_allclose(alone.coef_, model.coef_, atol=1e-3)
    np.testing.assert_allclose(alone.intercept_, model.intercept_, atol=1e-3)


@LOSSES
def test_rows_without_weight_are_none(loss, solver):
    weights = np.arange(120) % 2
    model = support_vector_machine.SupportedSVC(loss=loss).fit(X, Y, weights)
    assert model.is_support.any()
    assert not model.is_support[weights == 0].any()


def test_partitions_have_them_too(tmp_path):
    compat.dump_to_snap_format(X, Y, tmp_path / "rows.snap")
    data = compat.load_from_snap_format(tmp_path / "rows.snap")
    model = SupportVectorMachine(tol=1e-6).fit(data)
    own = SupportVectorMachine(tol=1e-6).fit(X.astype(np.float32), Y)
    assert len(np.setxor1d(model.support_, own.support_)) <= 2


def test_the_public_estimator_inside_knows_nothing_of_them():
    model = SupportVectorMachine().fit(X, Y)
    assert type(model.estimator_).__name__ == "LinearSVC"
    assert not {"is_support", "_solved"} & set(vars(model.estimator_))
