"""The read of the data that the primal methods share, against plain NumPy, in every layout."""

import numpy as np
import pytest
from reference.data import make_labels, make_rows, make_weights, rounding
from reference.losses import ORACLES
from reference.softmax import softmax_loss, softmax_probabilities

from snapml import _native
from snapml.problems import Logistic, Softmax, Squared

from .shards import CONSTANT, CONSTANT_ENTRY, DENSE, LAYOUTS, make_native_rows

FLOAT64 = np.dtype(np.float64)
# Both sides work in float64, whatever the type of the data; only the order of sums differs.
TOLERANCE = dict(rtol=1000 * rounding(FLOAT64), atol=1000 * rounding(FLOAT64))
USER_LAYOUTS = [layout for layout in LAYOUTS if layout != "centred"]  # only the descent centres


class Pass:
    """One call of the extension, and the same numbers by NumPy."""

    def __init__(
        self,
        loss,
        dtype,
        layout="row-major",
        *,
        n_threads=1,
        n_outputs=1,
        n_rows=77,
        n_features=9,
        weights="each row",
        bias_column=0.5,
    ):
        density = 1.0 if layout in DENSE else 0.4
        X = make_rows(n_rows, n_features, density=density)
        if layout in CONSTANT:
            X = np.where(X != 0, CONSTANT_ENTRY, 0.0)
        self.is_softmax = isinstance(loss, Softmax)
        rng = np.random.default_rng(5)
        if self.is_softmax:
            self.y = rng.integers(0, n_outputs, n_rows).astype(np.float64)
        else:
            kind = dict(labels=loss.labels)
            self.y = np.array([make_labels(X, seed=k, **kind) for k in range(n_outputs)])
        if weights == "none":
            self.c, given = np.full((n_outputs, n_rows), 0.5), None
        elif weights == "each row":
            given = make_weights(n_rows)
            self.c = np.tile(given, (n_outputs, 1))
        else:
            self.c = given = np.array([make_weights(n_rows, seed=k) for k in range(n_outputs)])
        self.loss = loss
        self.n_outputs = n_outputs
        self.pool = _native.ThreadPool(n_threads)
        self.rows, _ = make_native_rows(X.astype(dtype), layout, self.pool)
        labels = np.ascontiguousarray(self.y, dtype=dtype)
        given = None if given is None else np.ascontiguousarray(given, dtype=dtype)
        self.targets = _native.Targets.make(
            labels, given, 0.5, n_outputs, self.is_softmax, bias_column
        )
        self.A = np.column_stack([X, np.full(n_rows, bias_column)])
        self.coef = rng.normal(size=(n_outputs, n_features + 1))
        self.margins = np.full((n_outputs, n_rows), np.nan)
        gradients = np.full((n_threads, n_outputs, n_features + 1), np.nan)
        self.value, self.stiffness = _native.fused_pass(
            self.pool,
            self.rows,
            loss.core_name,
            self.targets,
            self.coef,
            True,
            self.margins,
            gradients,
        )
        self.gradient = gradients[0]
        self.norms = (X**2).sum(axis=1)

    def exact(self, z):
        """Return the loss, and its slopes in the margins."""
        if self.is_softmax:
            slopes = softmax_probabilities(z)
            slopes[self.y.astype(int), np.arange(z.shape[1])] -= 1
            return self.c[0] @ softmax_loss(z, self.y.astype(int)), self.c * slopes
        oracle = ORACLES[self.loss.core_name]
        return np.sum(self.c * oracle.value(z, self.y)), self.c * oracle.gradient(z, self.y)

    def curvature_products(self, u):
        """Return the losses' Hessian in the margins, times directions u of these."""
        if self.is_softmax:
            p = softmax_probabilities(self.margins)
            return self.c * p * (u - (p * u).sum(axis=0))
        return self.c * ORACLES[self.loss.core_name].curvature(self.margins, self.y) * u

    def check(self):
        z = self.coef @ self.A.T
        value, slopes = self.exact(z)
        np.testing.assert_allclose(self.margins, z, **TOLERANCE)
        np.testing.assert_allclose(self.value, value, **TOLERANCE)
        np.testing.assert_allclose(self.gradient, slopes @ self.A, **TOLERANCE)
        np.testing.assert_allclose(self.stiffness, np.sum(self.c @ self.norms), **TOLERANCE)


@pytest.mark.parametrize("layout", USER_LAYOUTS)
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(
    ("loss", "n_outputs"), [(Logistic(), 1), (Squared(), 3), (Softmax(3), 3)], ids=str
)
def test_pass_equals_the_plain_sums(loss, n_outputs, dtype, layout, n_threads):
    Pass(loss, dtype, layout, n_threads=n_threads, n_outputs=n_outputs).check()


@pytest.mark.parametrize("n_outputs", [2, 7, 8, 9, 16, 17])
@pytest.mark.parametrize("layout", [layout for layout in USER_LAYOUTS if layout not in DENSE])
def test_outputs_side_by_side_are_all_counted_once(n_outputs, dtype, layout):
    Pass(Softmax(n_outputs), dtype, layout, n_outputs=n_outputs).check()
    Pass(Logistic(), dtype, layout, n_threads=2, n_outputs=n_outputs).check()


@pytest.mark.parametrize("layout", USER_LAYOUTS)
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(
    ("loss", "n_outputs"), [(Logistic(), 1), (Logistic(), 3), (Softmax(9), 9)], ids=str
)
def test_hessian_product_equals_the_plain_sums(loss, n_outputs, dtype, layout, n_threads):
    at = Pass(loss, dtype, layout, n_threads=n_threads, n_outputs=n_outputs)
    direction = np.random.default_rng(0).normal(size=at.coef.shape)
    products = np.full((n_threads, *direction.shape), np.nan)
    _native.hessian_product(
        at.pool, at.rows, loss.core_name, at.targets, at.margins, direction, products
    )
    exact = at.curvature_products(direction @ at.A.T) @ at.A
    np.testing.assert_allclose(products[0], exact, **TOLERANCE)


@pytest.mark.parametrize("weights", ["none", "each row", "each row and output"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_every_loss_takes_every_kind_of_weights(loss, weights, n_outputs):
    if loss.core_name in ORACLES:
        Pass(loss, FLOAT64, weights=weights, n_outputs=n_outputs).check()


@pytest.mark.parametrize("n_features", range(1, 41))
def test_last_lanes_of_every_width_are_counted_once(dtype, n_features):
    for layout in ("row-major", "column-major"):
        Pass(Logistic(), dtype, layout, n_rows=21, n_features=n_features).check()


@pytest.mark.parametrize("n_outputs", [2, 5])
@pytest.mark.parametrize("n_features", [384, 385, 391, 769, 1160])
def test_columns_that_several_outputs_share_in_parts_are_counted_once(dtype, n_features, n_outputs):
    for layout in ("row-major", "column-major"):
        given = dict(n_rows=21, n_features=n_features, n_outputs=n_outputs)
        Pass(Softmax(n_outputs), dtype, layout, **given).check()


@pytest.mark.parametrize("n_rows", [1, 5, 16, 77])
@pytest.mark.parametrize("n_features", [9, 512, 515, 1100])
@pytest.mark.parametrize("layout", ["row-major", "column-major"])
def test_weighted_squares_equal_the_plain_sums(dtype, layout, n_features, n_rows):
    rng, n_outputs, n_threads = np.random.default_rng(3), 3, 2
    X, weights = make_rows(n_rows, n_features).astype(dtype), rng.random((n_outputs, n_rows))
    pool = _native.ThreadPool(n_threads)
    rows, _ = make_native_rows(X, layout, pool)
    sums = np.zeros((n_threads, n_outputs, n_features))
    _native.weighted_squares(pool, rows, weights, n_outputs, sums)
    np.testing.assert_allclose(sums.sum(axis=0), weights @ X.astype(float) ** 2, rtol=1e-13)


@pytest.mark.parametrize("n_rows", range(1, 41))
@pytest.mark.parametrize("n_threads", [1, 2])
def test_last_block_of_every_size_is_counted_once(n_rows, n_threads):
    Pass(Logistic(), FLOAT64, n_rows=n_rows, n_threads=n_threads).check()
    Pass(Softmax(3), FLOAT64, n_rows=n_rows, n_threads=n_threads, n_outputs=3).check()


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("step", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("loss", "n_outputs"), [(Logistic(), 2), (Softmax(3), 3)], ids=str)
def test_line_point_is_loss_and_slope_between_two_points(loss, n_outputs, step, n_threads):
    at = Pass(loss, FLOAT64, n_outputs=n_outputs, n_threads=n_threads)
    trial = np.random.default_rng(0).normal(size=at.margins.shape)
    found = _native.line_point(at.pool, loss.core_name, at.targets, at.margins, trial, step)
    change = trial - at.margins
    value, slopes = at.exact(at.margins + step * change)
    np.testing.assert_allclose(found, [value, np.vdot(slopes, change)], **TOLERANCE)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_curvatures_are_those_of_the_textbook(n_threads):
    at = Pass(Logistic(), FLOAT64, n_outputs=2, n_threads=n_threads)
    out = np.full(at.margins.shape, np.nan)
    _native.curvatures(at.pool, "Logistic", at.targets, at.margins, out)
    exact = at.c * ORACLES["Logistic"].curvature(at.margins, at.y)
    np.testing.assert_allclose(out, exact, **TOLERANCE)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_curvatures_of_the_softmax_are_its_probabilities(n_threads):
    at = Pass(Softmax(3), FLOAT64, n_outputs=3, n_threads=n_threads)
    out = np.full(at.margins.shape, np.nan)
    _native.curvatures(at.pool, "Softmax", at.targets, 100 * at.margins, out)
    exact = softmax_probabilities(100 * at.margins)
    np.testing.assert_allclose(out, exact, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("layout", ["row-major", "column-major", "compressed-int32"])
@pytest.mark.parametrize("name", ["SquaredHinge", "Hinge", "Logistic", "Squared"])
def test_entry_that_is_not_a_number_leaves_a_mark_on_the_sums(layout, name):
    X = make_rows(20, 9)
    X[7, 3] = np.nan
    pool = _native.ThreadPool(1)
    rows, _ = make_native_rows(X, layout, pool)
    targets = _native.Targets.make(np.ones(20), None, 1.0, 1, False, 1.0)
    sums = _native.fused_pass(
        pool, rows, name, targets, np.ones((1, 10)), True, np.empty((1, 20)), np.empty((1, 1, 10))
    )
    assert np.isnan(sums[1])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (dict(coef=np.zeros(9)), "coef"),
        (dict(coef=np.zeros(10, np.float32)), "coef"),
        (dict(margins=np.zeros(76)), "margins"),
        (dict(gradients=np.zeros(9)), "gradients"),
        (dict(labels=np.ones(76)), "labels"),
        (dict(labels=np.ones(77, np.float32)), "labels"),
        (dict(row_weights=np.ones(76)), "row_weights"),
        (dict(loss="LogCosh"), r"expected a loss \(.*Hinge, .*\), got 'LogCosh'"),
    ],
    ids=str,
)
def test_arrays_that_do_not_fit_are_refused(changed, message):
    pool = _native.ThreadPool(1)
    given = dict(
        labels=np.ones(77),
        row_weights=np.ones(77),
        coef=np.zeros(10),
        margins=np.zeros(77),
        gradients=np.zeros(10),
        loss="Logistic",
    )
    given |= changed
    rows = _native.Rows.dense(make_rows(77, 9))
    targets = _native.Targets.make(given["labels"], given["row_weights"], 1.0, 1, False, 1.0)
    sums = given["margins"], given["gradients"]
    with pytest.raises(ValueError, match=message):
        _native.fused_pass(pool, rows, given["loss"], targets, given["coef"], False, *sums)


@pytest.mark.parametrize("label", [-1.0, 3.0, np.nan, np.inf])
def test_class_numbers_beyond_the_classes_are_refused(label):
    with pytest.raises(ValueError, match="class numbers below 3"):
        _native.Targets.make(np.array([0.0, label]), None, 1.0, 3, True, 1.0)


def test_no_outputs_are_refused():
    with pytest.raises(ValueError, match="n_outputs"):
        _native.Targets.make(np.ones(3), None, 1.0, 0, False, 1.0)
