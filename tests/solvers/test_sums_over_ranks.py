"""How much the quasi-Newton method adds up over ranks, and that its certificate loses nothing."""

import numpy as np
import pytest

import snapml
from snapml.data import make_click_log
from snapml.solvers.communicator import SerialCommunicator


class FirstOfTwo(SerialCommunicator):
    """A rank that has all rows, beside one that has none."""

    size = 2

    def __init__(self):
        self.sizes = []

    def allreduce_sum(self, array):
        self.sizes.append(array.size)
        return array

    def exchange(self, value):
        return [value, value]


class Counted(snapml.LogisticRegression):
    """The estimator on such a rank."""

    def _communicator(self):
        if not hasattr(self, "sums"):
            self.sums = FirstOfTwo()
        return self.sums


@pytest.fixture(scope="module")
def click_log():
    return make_click_log(n_rows=20_000, n_features=20_000, random_state=0)


def test_sums_of_vectors_are_those_of_the_passes(click_log, monkeypatch):
    X, y = click_log
    monkeypatch.setattr("snapml.solvers.newton.newton_steps._PRODUCTS_A_READ", 1)
    model = Counted(solver="pqn", C=0.1, tol=1e-6, n_threads=1, max_iter=500).fit(X, y)
    n_vectors = sum(size >= X.shape[1] for size in model.sums.sizes)
    n_passes = int(np.max(model.n_iter_)) + 1
    assert n_passes > 40
    assert n_passes <= n_vectors <= 1.1 * n_passes  # the diagonal of each Newton step is one more


def test_certificate_of_one_ranks_rows_is_that_of_one_machine(click_log):
    X, y = click_log
    settings = {"solver": "pqn", "C": 0.1, "tol": 1e-6, "n_threads": 1, "max_iter": 500}
    model, whole = Counted(**settings).fit(X, y), snapml.LogisticRegression(**settings).fit(X, y)
    assert model.gap_ == whole.gap_ < 1e-6 * whole.objective_
    np.testing.assert_array_equal(model.n_iter_, whole.n_iter_)


def test_certificate_of_several_classes_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 40))
    y = (X[:, :3] + rng.normal(size=(3000, 3))).argmax(axis=1)
    settings = {"C": 0.1, "tol": 1e-8, "n_threads": 1, "solver": "pqn"}
    model, whole = Counted(**settings).fit(X, y), snapml.LogisticRegression(**settings).fit(X, y)
    assert model.gap_ == whole.gap_ < 1e-6 * whole.objective_
