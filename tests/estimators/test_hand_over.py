"""The solver is revised on the way: where coordinate ascent is slow, and where that was worse."""

from functools import cache, partial

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array

from snapml import LinearSVC, LogisticRegression
from snapml.solvers.newton import small_newton
from snapml.solvers.plan import choice, rules

from .conftest import unconverged

HANDED_OVER = "epochs of dual coordinate ascent, whose gap shrank too slowly"
MOST_READS_OF_A_STEP = 4  # two directions, each tried whole and once shortened
HANDED_BACK = "reads that ended in a quasi-Newton method too slow"


@cache
def sparse_rows():
    """Return more columns than the quasi-Newton method is given at once, and classes."""
    rng = np.random.default_rng(8)
    X = csr_matrix(random_array((2000, 600), density=0.05, rng=rng, data_sampler=rng.normal))
    t = X @ rng.normal(size=600) + 0.5 * rng.normal(size=2000)
    return X, (t > 0).astype(np.int64)


@cache
def dense_rows():
    """Return dense rows, most of them far longer than those that are looked at to choose."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(1200, 520))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X[np.arange(len(X)) % 4 != 0] *= 30  # every fourth row is looked at
    t = X @ rng.normal(size=520) + 0.5 * rng.normal(size=1200)
    return X, (t > 0).astype(np.int64)


@cache
def mixed_rows():
    """Return dense rows of classes that overlap: most of them stay within the margin."""
    rng = np.random.default_rng(10)
    X = rng.normal(size=(2600, 520))
    t = X @ rng.normal(size=520) + 10 * rng.normal(size=2600)
    return X, (t > 0).astype(np.int64)


CASES = {
    "logistic, sparse": (LogisticRegression, sparse_rows, 10.0),
    "squared hinge, dense": (LinearSVC, mixed_rows, 0.3),
}


def distance_bound(*models):
    """Return how far the coefficients of two models of one problem can be apart."""
    return sum(np.sqrt(2 * model.gap_) for model in models)


@pytest.mark.parametrize("case", CASES)
def test_slow_coordinate_ascent_hands_over_and_says_so(case):
    make, rows, C = CASES[case]
    model = make(C=C).fit(*rows())
    assert model.solver_.startswith(("quasi-Newton", "Newton's method"))
    assert HANDED_OVER in model.solver_
    assert model.gap_ <= model.tol * model.objective_


@pytest.mark.parametrize("case", CASES)
def test_answer_after_a_hand_over_is_that_of_either_solver(case):
    make, rows, C = CASES[case]
    X, y = rows()
    model = make(C=C).fit(X, y)
    assert HANDED_OVER in model.solver_
    for solver in ("sdca", "pqn"):
        alone = make(C=C, solver=solver, max_iter=5000).fit(X, y)
        assert np.linalg.norm(model.coef_ - alone.coef_) <= distance_bound(model, alone)


@pytest.mark.parametrize("case", CASES)
def test_history_counts_the_epochs_of_both_solvers(case):
    make, rows, C = CASES[case]
    model = make(C=C).fit(*rows())
    n_ascent = int(model.solver_.split("after ")[1].split()[0])
    epochs = [entry["epoch"] for entry in model.history_]
    times = [entry["time_s"] for entry in model.history_]
    assert epochs[:n_ascent] == list(range(1, n_ascent + 1))
    assert epochs == sorted(epochs)
    assert times == sorted(times)
    assert n_ascent < epochs[-1] <= np.max(model.n_iter_)


@pytest.mark.parametrize("case", CASES)
def test_fit_goes_on_from_where_coordinate_ascent_ended(case, monkeypatch):
    make, rows, C = CASES[case]
    starts, ends = [], []
    solve, ascend = choice.quasi_newton.solve, choice.dual_coordinate_ascent.solve

    def spy_on_ascent(*args, **kwargs):
        ends.append(ascend(*args, **kwargs))
        return ends[-1]

    def spy(engine, communicator, rule, *, start=None):
        starts.append(start)
        return solve(engine, communicator, rule, start=start)

    monkeypatch.setattr(choice.quasi_newton, "solve", spy)
    monkeypatch.setattr(choice.dual_coordinate_ascent, "solve", spy_on_ascent)
    make(C=C).fit(*rows())
    assert len(starts) == len(ends) == 1
    np.testing.assert_array_equal(starts[0][0, :-1], ends[0].coef)
    assert starts[0].any()


@pytest.mark.parametrize("solver", ["auto", "sdca"])
@pytest.mark.parametrize("make", [LogisticRegression, LinearSVC])
def test_easy_data_are_left_to_coordinate_ascent(make, solver):
    for rows in (sparse_rows, dense_rows):
        model = make(C=1e-3, solver=solver).fit(*rows())
        assert model.solver_.startswith("dual coordinate ascent")
        assert "after" not in model.solver_


@pytest.mark.parametrize("case", CASES)
def test_solver_that_was_asked_for_never_hands_over(case):
    make, rows, C = CASES[case]
    model = make(C=C, solver="sdca", max_iter=5000).fit(*rows())
    assert model.solver_.startswith("dual coordinate ascent")
    assert model.solver_.endswith(": as asked for")


@pytest.mark.parametrize("case", CASES)
def test_no_step_begins_after_max_iter_reads_of_both_solvers(case):
    make, rows, C = CASES[case]
    for max_iter in (3, 5, 30, 60):
        with unconverged():
            model = make(C=C, max_iter=max_iter, tol=1e-12).fit(*rows())
        assert np.max(model.n_iter_) <= max_iter + MOST_READS_OF_A_STEP - 1


# --- and back --------------------------------------------------------------------------------

ALMOST_SEPARABLE = {
    "few columns": lambda: (sparse_rows()[0][:1000, :450], sparse_rows()[1][:1000]),
    "dense": dense_rows,
}


@pytest.fixture
def newton_first(monkeypatch):
    """Leave nothing to coordinate ascent, or to one call, that the quasi-Newton method can try."""
    monkeypatch.setattr(rules, "_FEW_ROWS_A_COLUMN", 0.0)
    monkeypatch.setattr(small_newton, "_MOST_ENTRIES", 0)
    monkeypatch.setattr(choice, "_TRIAL_READS", 60)


@pytest.mark.parametrize("data", ALMOST_SEPARABLE)
@pytest.mark.parametrize("C", [100.0, 1e4])
def test_squared_hinge_of_almost_separable_classes_has_a_certificate(data, C):
    X, y = ALMOST_SEPARABLE[data]()
    model = LinearSVC(C=C, max_iter=2000).fit(X, y)
    assert model.gap_ <= model.tol * model.objective_
    assert np.max(model.n_iter_) < 250


@pytest.mark.parametrize("data", ALMOST_SEPARABLE)
@pytest.mark.parametrize("C", [100.0, 1e4])
@pytest.mark.usefixtures("newton_first")
def test_squared_hinge_of_almost_separable_classes_ends_with_coordinate_ascent(data, C):
    X, y = ALMOST_SEPARABLE[data]()
    model = LinearSVC(C=C, max_iter=2000).fit(X, y)
    assert HANDED_BACK in model.solver_
    assert model.gap_ <= model.tol * model.objective_
    alone = LinearSVC(C=C, solver="sdca", max_iter=5000).fit(X, y)
    assert np.linalg.norm(model.coef_ - alone.coef_) <= distance_bound(model, alone)


@pytest.mark.usefixtures("newton_first")
def test_squared_hinge_of_sparse_rows_ends_with_either():
    """By products with the Hessian, which do not get there in 3000 with C = 100, or back again."""
    X, y = sparse_rows()
    for C, words in ((1.0, "dual coordinate ascent"), (100.0, HANDED_BACK)):
        model = LinearSVC(C=C, max_iter=2000).fit(X, y)
        assert words in model.solver_
        assert model.gap_ <= model.tol * model.objective_


def test_quasi_newton_method_that_was_asked_for_is_not_left():
    X, y = sparse_rows()
    with unconverged():
        model = LinearSVC(C=100.0, solver="pqn", max_iter=70).fit(X, y)
    assert model.solver_.startswith("Newton's method")


def test_model_after_a_hand_back_that_helped_nothing_is_the_better_one():
    X, y = sparse_rows()
    make = partial(LinearSVC, C=100.0)
    with unconverged():
        trial = make(solver="pqn", max_iter=60).fit(X[:, :450], y)
        model = make(max_iter=62, tol=1e-14).fit(X[:, :450], y)
    assert model.objective_ <= trial.objective_ * (1 + 1e-12)
