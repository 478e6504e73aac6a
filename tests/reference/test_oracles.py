"""The oracles themselves, against definitions that are plainer still."""

import numpy as np
import pytest

from reference.data import make_labels, make_rows, make_weights
from reference.losses import ORACLES
from reference.objective import Objective, find_optimum
from snapml.problems import Intercept

KINDS = [kind.value for kind in Intercept]


def test_every_registered_loss_has_an_oracle(loss):
    assert loss.core_name in ORACLES


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_conjugate_is_the_supremum_over_margins(name, y):
    oracle = ORACLES[name]
    if oracle.labels == "count":
        y = abs(y)
    z = np.linspace(-30, 30, 60_001)
    for a in (0.01, 0.25, 0.5, 0.9, 0.99):
        if oracle.labels == "real" and oracle.states is not None and a > oracle.states[1]:
            assert oracle.conjugate(np.array(-a * y), y) == np.inf
            continue
        supremum = np.max(-a * y * z - oracle.value(z, y))
        assert oracle.conjugate(np.array(-a * y), y) == pytest.approx(supremum, abs=1e-6)


@pytest.mark.parametrize("name", ["Logistic", "Hinge", "SquaredHinge"])
def test_conjugate_is_infinite_where_the_supremum_is(name):
    assert ORACLES[name].conjugate(np.array(0.1), 1.0) == np.inf
    assert ORACLES[name].conjugate(np.array(-0.1), -1.0) == np.inf


@pytest.mark.parametrize("name", ["Logistic", "Squared", "SquaredHinge", "Poisson"])
def test_gap_of_a_row_is_the_fenchel_gap(name):
    oracle = ORACLES[name]
    state, z = np.meshgrid(np.linspace(-3, 0.9, 14), np.linspace(-4, 4, 17))
    beta = oracle.dual(state, 1.0)
    fenchel = oracle.value(z, 1.0) + oracle.conjugate(-beta, 1.0) + beta * z
    np.testing.assert_allclose(oracle.gap(state, z, 1.0), fenchel, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_no_step_away_from_the_optimum_lowers_the_objective(loss, kind):
    X = make_rows(40, 3)
    y = make_labels(X, labels=loss.labels)
    problem = Objective(ORACLES[loss.core_name], X, y, make_weights(40), kind, scaling=2.0)
    best = find_optimum(problem)
    rng = np.random.default_rng(0)
    for size in (1.0, 1e-1, 1e-2, 1e-3):
        for _ in range(100):
            step = size * rng.normal(size=4)
            b = best.intercept + step[3] if kind != "none" else 0.0
            assert problem.primal(best.coef + step[:3], b) > best.objective
