"""Losses at known margins against plain NumPy."""

import numpy as np
import pytest
from reference.data import rounding
from reference.losses import ORACLES
from reference.softmax import softmax_loss, softmax_probabilities

from snapml.kernels import Targets
from snapml.kernels.losses.losses import MarginLosses
from snapml.kernels.products import transposed

from .layouts import LAYOUTS, SHAPES, make_matrix

pytestmark = pytest.mark.pairwise

TOLERANCE = dict(rtol=1000 * rounding(np.float64), atol=1000 * rounding(np.float64))
LOSSES = [(name, n) for name in ORACLES for n in (1, 4)] + [("Softmax", 2), ("Softmax", 7)]


class Case:
    """Margins of two points of one problem, and what NumPy says about them."""

    def __init__(self, core_name, n_outputs, weights="each row", n_rows=70, dtype=np.float64):
        rng = np.random.default_rng(2)
        self.core_name, shape = core_name, (n_outputs, n_rows)
        self.z, self.trial = rng.normal(size=shape), rng.normal(size=shape)
        if core_name == "Softmax":
            self.y = rng.integers(0, n_outputs, n_rows).astype(dtype)
        else:
            self.y = np.sign(rng.normal(size=shape)).astype(dtype)
            self.y = abs(self.y) if ORACLES[core_name].labels in ("count", "positive") else self.y
        given = {
            "none": None,
            "each row": rng.integers(0, 3, n_rows),
            "each row and output": rng.integers(0, 3, shape),
        }[weights]
        self.c = np.broadcast_to(0.5 if given is None else given, shape).astype(float)
        given = None if given is None else given.astype(dtype)
        self.targets = Targets(self.y, given, 0.5, n_outputs)

    def losses(self, device):
        return MarginLosses(device, self.core_name, self.targets, self.z.shape[1])

    def exact(self, z):
        if self.core_name == "Softmax":
            classes = self.y.astype(int)
            slopes = softmax_probabilities(z)
            slopes[classes, np.arange(z.shape[1])] -= 1
            return self.c[0] @ softmax_loss(z, classes), self.c * slopes
        oracle = ORACLES[self.core_name]
        y = self.y.astype(np.float64)
        return np.sum(self.c * oracle.value(z, y)), self.c * oracle.gradient(z, y)


@pytest.mark.parametrize(
    ("core_name", "n_outputs", "weights"),
    [
        (*loss, weights)
        for loss in LOSSES
        for weights in ("none", "each row", "each row and output")
        if loss[0] != "Softmax" or weights != "each row and output"  # one loss for all outputs
    ],
)
def test_line_point_is_loss_and_slope_between_the_margins(device, core_name, n_outputs, weights):
    case = Case(core_name, n_outputs, weights)
    for step in (0.0, 0.3, 1.0):
        value, slope = case.losses(device).line_point(case.z, case.trial, step)
        change = case.trial - case.z
        loss, slopes = case.exact(case.z + step * change)
        np.testing.assert_allclose([value, slope], [loss, np.sum(slopes * change)], **TOLERANCE)


@pytest.mark.parametrize("n_rows", [0, 1, 600])
@pytest.mark.parametrize(("core_name", "n_outputs"), LOSSES)
def test_slopes_and_curvatures_are_those_of_every_row(device, core_name, n_outputs, n_rows, dtype):
    case = Case(core_name, n_outputs, n_rows=n_rows, dtype=dtype)
    slopes, loss = case.losses(device).slopes(case.z)
    if n_rows:
        exact_loss, exact = case.exact(case.z)
        np.testing.assert_allclose(slopes, exact, **TOLERANCE)
        np.testing.assert_allclose(loss, [exact_loss], **TOLERANCE)
        found = case.losses(device).curvatures(case.z)
        direction = case.trial.copy()
        case.losses(device).multiply_by_curvature(case.z, direction)
        if core_name == "Softmax":
            p = softmax_probabilities(case.z)
            mean = (p * case.trial).sum(axis=0)
            exact, product = p, case.c * p * (case.trial - mean)
        else:
            exact = case.c * ORACLES[core_name].curvature(case.z, case.y.astype(np.float64))
            product = exact * case.trial
        np.testing.assert_allclose(found, exact, **TOLERANCE)
        np.testing.assert_allclose(direction, product, **TOLERANCE)
    else:
        np.testing.assert_array_equal(loss, [0.0])


def test_more_outputs_than_shared_memory_holds_are_refused_by_number(device):
    # The outputs of a warp's rows, an odd number of each, must fit a block.
    most = (device.shared_bytes_per_block // (32 * 8) - 1) | 1
    case = Case("Softmax", most + 2)
    with pytest.raises(ValueError, match=rf"{most + 2} outputs: .* need {8 * (most + 2)} bytes"):
        case.losses(device).curvatures(case.z)
    Case("Softmax", most).losses(device).curvatures(Case("Softmax", most).z)


def test_margins_of_another_shape_are_refused(device):
    with pytest.raises(ValueError, match=r"margins: expected shape \(1, 70\), got \(1, 71\)"):
        Case("Logistic", 1).losses(device).curvatures(np.zeros((1, 71)))


@pytest.mark.parametrize("shape", [*SHAPES, (700, 5)], ids=str)
@pytest.mark.parametrize("n_vectors", [1, 6])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_of_the_transpose_are_the_plain_ones(device, layout, shape, n_vectors, dtype):
    matrix, X = make_matrix(layout, dtype, *shape)
    X = X.astype(dtype).astype(float)
    vectors = np.random.default_rng(0).normal(size=(n_vectors, shape[0]))
    exact = np.column_stack([vectors @ X, 0.5 * vectors.sum(axis=1)])
    found = transposed.transposed_products(device, matrix, vectors, 0.5)
    np.testing.assert_allclose(found, exact, **TOLERANCE)
