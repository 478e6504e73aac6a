"""The multinomial coordinate step against the problem on the simplex that it claims to solve."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given
from scipy.optimize import brentq
from scipy.special import logsumexp, xlogy

from snapml import _native

MARGINS = st.lists(st.floats(-60, 60), min_size=2, max_size=9)
STIFFNESS = st.just(0.0) | st.floats(1e-9, 1e6)
NEVER = -1e30


def roots(z, q, stiffness):
    """Return p with log p + k p = z + k q - lambda on the simplex, by nested bisection."""
    target = z + stiffness * q

    def entry(t):
        bent = np.log(t / stiffness) if min(t, stiffness) > 0.0 else t
        top = max(0.0, min(t, bent)) + 1.0
        return brentq(lambda s: s + stiffness * np.exp(s) - t, min(t, 0.0) - stiffness - 1, top)

    def logs(lam):
        return np.array([entry(t - lam) for t in target])

    def excess(lam):
        return np.exp(logs(lam)).sum() - 1.0

    low, high = target.min() - stiffness - 10.0, target.max() + 10.0
    return np.exp(logs(brentq(excess, low, high, xtol=1e-13)))


def dual(p, q, z, stiffness):
    return float(-xlogy(p, p).sum() + (p - q) @ z - stiffness / 2 * np.sum((p - q) ** 2))


def step(z, log_p, stiffness):
    gap, log_p = _native.core_softmax_step(list(z), list(log_p), stiffness)
    return gap, np.array(log_p)


def start(n_classes, chosen, spread):
    """Return logarithms of probabilities: a corner of the simplex, or a point inside."""
    if spread is None:
        return np.where(np.arange(n_classes) == chosen % n_classes, 0.0, NEVER)
    logs = spread * np.sin(1.0 + chosen + np.arange(n_classes))
    return logs - logsumexp(logs)


@given(z=MARGINS, k=STIFFNESS, chosen=st.integers(0, 8), spread=st.none() | st.floats(0, 40))
@example(z=[0.0, 0.0], k=0.0, chosen=0, spread=None)
@example(z=[60.0, -60.0, 0.0], k=1e6, chosen=1, spread=None)
@example(z=[60.0, -60.0, 0.0], k=1e-9, chosen=1, spread=40.0)
def test_step_is_the_maximum_on_the_simplex(z, k, chosen, spread):
    z, log_q = np.array(z), start(len(z), chosen, spread)
    q = np.exp(log_q)
    _, log_p = step(z, log_q, k)
    p = np.exp(log_p)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    best = roots(z, q, k)
    reached, most = dual(p, q, z, k), dual(best, q, z, k)
    assert reached >= most - 1e-8 * (1 + abs(most))
    assert reached >= dual(q, q, z, k) - 1e-12 * (1 + np.abs(z).max())


@given(z=MARGINS, k=STIFFNESS, chosen=st.integers(0, 8), spread=st.none() | st.floats(0, 40))
@example(z=[60.0, -60.0, 0.0], k=1.0, chosen=1, spread=None)
def test_gap_is_fenchels(z, k, chosen, spread):
    z, log_q = np.array(z), start(len(z), chosen, spread)
    q = np.exp(log_q)
    gap, _ = step(z, log_q, k)
    expected = logsumexp(z) - q @ z + xlogy(q, q).sum()
    assert gap == pytest.approx(expected, rel=1e-9, abs=1e-12 * (1 + np.abs(z).max()))


def test_short_row_takes_the_softmax_of_its_margins():
    z = np.array([0.3, -2.0, 1.5, 0.0])
    _, log_p = step(z, start(4, 2, None), 0.0)
    np.testing.assert_allclose(np.exp(log_p), np.exp(z - logsumexp(z)), rtol=1e-12)


def test_roots_stay():
    z = np.array([0.3, -2.0, 1.5, 0.0])
    log_p = z - logsumexp(z)
    _, after = step(z, log_p, 3.0)
    np.testing.assert_allclose(after, log_p, rtol=1e-9)
