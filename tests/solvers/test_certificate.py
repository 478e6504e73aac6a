"""The certificate at states that have nothing to do with an optimum, against plain NumPy."""

import numpy as np
import pytest
from reference.data import in_float32

from snapml.problems import Hinge, Intercept, Logistic, Squared, SquaredHinge
from snapml.solvers.certificate import certified_gap, certify, minimise_shift
from snapml.solvers.communicator import SerialCommunicator
from snapml.solvers.dual_ascent.cpu_engine import CpuEngine

from .cases import Case

TOLERANCE = 1e-12


@pytest.fixture(params=Intercept, ids=lambda kind: kind.value)
def intercept(request):
    return request.param


def engine_at_random_states(case, seed=0):
    """Return an engine whose states and shared vector are legal, but made up."""
    engine = case.engine()
    rng = np.random.default_rng([5, seed])
    numbers = in_float32(rng.normal(size=case.n_rows))
    if case.loss.core_name == "Hinge":
        numbers = np.clip(np.abs(numbers), 0, 1)
    elif case.loss.core_name == "SquaredHinge":
        numbers = case.objective.y * (1 - np.abs(numbers))
    engine.duals[:] = numbers
    engine.shared[:] = in_float32(rng.normal(size=len(engine.shared)))
    return engine


def feasible_beta(case, engine):
    """Return beta', and whether it differs from beta."""
    objective = case.objective
    beta = objective.c * objective.loss.dual(engine.duals.astype(np.float64), objective.y)
    if case.intercept is not Intercept.FREE:
        return beta, False
    positive, negative = beta[beta > 0].sum(), -beta[beta < 0].sum()
    smaller = min(positive, negative)
    return beta * np.where(beta > 0, smaller / positive, smaller / negative), True


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("seed", range(3))
def test_certificate_equals_the_plain_sums(loss, intercept, dtype, is_sparse, seed):
    case = Case(loss, intercept, dtype.name, is_sparse)
    engine = engine_at_random_states(case, seed)
    certificate = certify(engine, SerialCommunicator())
    w = engine.shared[:-1].astype(np.float64)
    beta, is_scaled = feasible_beta(case, engine)
    objective = case.objective

    primal = objective.primal(w, certificate.intercept)
    assert certificate.objective == pytest.approx(primal, rel=TOLERANCE)
    assert certificate.lower_bound == pytest.approx(objective.dual(beta), rel=1e-10)
    assert certificate.is_scaled == is_scaled
    image = np.append(objective.X.T @ beta, beta.sum())
    np.testing.assert_allclose(certificate.adjoint, image, rtol=TOLERANCE, atol=1e-10)
    if intercept is Intercept.FREE:
        assert abs(certificate.adjoint[-1]) <= TOLERANCE * np.abs(beta).sum()
    elif intercept is Intercept.PENALISED:
        bias = case.intercept_scaling * float(engine.shared[-1])
        assert certificate.intercept == pytest.approx(bias, rel=TOLERANCE)
    else:
        assert certificate.intercept == 0.0


@pytest.mark.parametrize("start", [0.0, 100.0, -1e6])
def test_free_intercept_of_a_certificate_is_the_best_for_its_coefficients(loss, start):
    case = Case(loss, Intercept.FREE)
    engine = engine_at_random_states(case)
    engine.offset = start  # where the search begins
    certificate = certify(engine, SerialCommunicator())
    w = engine.shared[:-1]
    around = [-10.0, -1.0, -1e-2, -1e-4, 1e-4, 1e-2, 1.0, 10.0]
    others = [case.objective.primal(w, certificate.intercept + step) for step in around]
    # The search ends within 1e-9; at a kink of the loss that is of first order.
    assert certificate.objective <= min(others) + 1e-7


@pytest.mark.parametrize("loss", [Logistic(), Squared(), SquaredHinge()], ids=str)
def test_gap_at_the_optimum_is_rounding(loss, intercept):
    case = Case(loss, intercept)
    objective, optimum = case.objective, case.optimum
    y = objective.y
    z = objective.X @ optimum.coef + optimum.intercept
    engine = case.engine()
    engine.duals[:] = y * np.minimum(1, y * z) if loss.core_name == "SquaredHinge" else z
    engine.shared[:-1] = optimum.coef
    if intercept is Intercept.PENALISED:
        engine.shared[-1] = optimum.intercept / case.intercept_scaling
    certificate = certify(engine, SerialCommunicator())
    gap = certified_gap(certificate.objective, certificate.lower_bound)
    assert 0 < gap <= 1e-12 * certificate.objective
    assert certificate.intercept == pytest.approx(optimum.intercept, abs=1e-7)


@pytest.mark.parametrize("loss", [Logistic(), Hinge(), Squared()], ids=str)
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_labels_that_are_all_alike_are_certified(loss, label):
    """With a free intercept the loss can be made as small as one likes."""
    case = Case(loss, Intercept.FREE)
    dataset = case.dataset()
    dataset.labels[:] = label
    engine = CpuEngine(case.problem, dataset)
    engine.dual_epoch(0)
    certificate = certify(engine, SerialCommunicator())
    assert np.isfinite([certificate.objective, certificate.intercept]).all()
    # No dual variable has a partner of the other sign: D(beta') = 0, P* = 0.
    if loss.labels == "sign":
        assert certificate.lower_bound == 0.0


def test_sums_over_margins_need_a_sweep_first():
    with pytest.raises(RuntimeError, match="exact sweep"):
        Case().engine().loss_value(0.0)


@pytest.mark.parametrize(("objective", "lower_bound"), [(3.0, 1.0), (1e10, 1e10 - 1), (1.0, -5.0)])
def test_certified_gap_is_the_difference_of_the_bounds(objective, lower_bound):
    assert certified_gap(objective, lower_bound) == objective - lower_bound


def test_certified_gap_is_never_below_rounding():
    assert certified_gap(100.0, 100.0) > 0
    assert certified_gap(100.0, np.nextafter(100.0, 200.0)) > 0
    assert certified_gap(100.0, 100.0) < 1e-12
    assert certified_gap(0.0, 0.0) == 0.0


@pytest.mark.parametrize("bounds", [(np.nan, 1.0), (1.0, np.nan), (np.inf, np.inf), (1.0, -np.inf)])
def test_what_is_not_a_number_proves_nothing(bounds):
    assert certified_gap(*bounds) == np.inf


def test_shift_at_its_optimum_stays_where_rounding_keeps_its_slope_from_zero():
    best = 152.1334841622896
    assert minimise_shift(lambda shift: (shift - best + 1e-14, 1.0), best) == best


def test_a_shift_far_from_its_guess_is_known_to_its_own_rounding():
    best = 152133.4841622896

    def slopes(shift):
        bound = 1.0 / (1.0 + np.exp(-np.clip(shift - best, -30.0, 30.0)))
        return bound - 0.5, bound * (1.0 - bound)

    assert abs(minimise_shift(slopes, 0.0) - best) <= 1e-9
