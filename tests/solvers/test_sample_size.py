"""How many rows a curvature is made of, on a host and on a device."""

from types import SimpleNamespace

import numpy as np
import pytest

from snapml.problems import Intercept, Logistic, Problem, Softmax
from snapml.solvers.newton.sample_size import reads_of_hessian, sample_rows


def sizes(n_features, *, device=None, is_sparse=False, dtype=np.float32, n_classes=1):
    loss = Logistic() if n_classes == 1 else Softmax(n_classes)
    return SimpleNamespace(
        n_features=n_features,
        device=device,
        is_sparse=is_sparse,
        dtype=np.dtype(dtype),
        n_outputs=n_classes,
        problem=Problem(loss, Intercept.FREE),
    )


@pytest.mark.parametrize("n_features", [1, 28, 300, 784, 2000, 4000])
@pytest.mark.parametrize("n_rows", [10, 3_000, 60_000, 1_000_000, 50_000_000])
@pytest.mark.parametrize("n_classes", [1, 3])
def test_a_device_s_sample_is_all_rows_or_at_most_half(n_features, n_rows, n_classes):
    engine = sizes(n_features, device="a card", n_classes=n_classes)
    found = sample_rows(engine, n_rows)
    assert found == n_rows or 2 * n_features <= found <= n_rows // 2
    assert found >= min(n_rows, 2000)


def test_a_device_takes_more_rows_of_wide_data_and_fewer_of_narrow():
    for n_rows, n_features in ((60_000, 2000), (400_000, 2000), (1_000_000, 784)):
        host, device = (sample_rows(sizes(n_features, device=d), n_rows) for d in (None, "a card"))
        assert device >= 2 * host
    assert sample_rows(sizes(28, device="a card"), 11_000_000) < sample_rows(sizes(28), 11_000_000)


def test_a_device_takes_fewer_rows_where_their_products_cost_more():
    coarse, exact = (
        sizes(2000, device="a card", dtype=dtype) for dtype in (np.float32, np.float64)
    )
    assert sample_rows(exact, 400_000) < sample_rows(coarse, 400_000)


def test_reads_of_a_hessian_grow_with_its_rows():
    for engine in (sizes(100), sizes(100, is_sparse=True), sizes(100, device="a card")):
        few, many = (reads_of_hessian(engine, n, 10_000, 100_000) for n in (1000, 4000))
        assert 0.0 < few == pytest.approx(many / 4)
