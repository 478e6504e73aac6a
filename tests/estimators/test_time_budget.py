"""max_time_s: a fit ends in time, with the best model so far and what is certain of it."""

import re
import threading
import time
import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from snapml import (
    ElasticNet,
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    RidgeClassifier,
)
from snapml.data import ChunkedDataset, ChunkWriter
from tests.solvers.simulated import solve_shards

RNG = np.random.default_rng(0)
X = RNG.standard_normal((600, 60))
MARGINS = X[:, :5].sum(axis=1) + RNG.standard_normal(600)
Y = (MARGINS > 0).astype(int)
Y3 = np.digitize(MARGINS, [-1.0, 1.0])
WIDE = scipy.sparse.random(400, 5000, 0.01, format="csr", random_state=0)
WIDE_Y = (np.asarray(WIDE[:, :500].sum(axis=1)).ravel() > 2.4).astype(int)
COUNTS = RNG.poisson(np.exp(0.3 * MARGINS)).astype(float)
NOISY = MARGINS + 20.0 * (RNG.random(600) < 0.05)

FITS = {
    "quasi-Newton": (LogisticRegression(tol=1e-12), X, Y),
    "in the span of the rows": (LogisticRegression(tol=1e-12), X[:40], Y[:40]),
    "coordinate ascent": (LogisticRegression(tol=1e-12, solver="sdca"), X, Y),
    "conjugate gradients": (LogisticRegression(tol=1e-12, solver="pqn", C=1e3), WIDE, WIDE_Y),
    "smoothed hinges": (LinearSVC(loss="hinge", tol=1e-12), X, Y),
    "one by one": (LinearSVC(loss="hinge", tol=1e-12), X, Y3),
    "softmax": (LogisticRegression(tol=1e-12), X, Y3),
    "working sets": (LogisticRegression(tol=1e-12, l1_ratio=0.9, C=0.1), X, Y),
    "multinomial working sets": (LogisticRegression(tol=1e-12, l1_ratio=0.9, C=0.1), X, Y3),
    "ridge": (Ridge(tol=1e-11, solver="pqn"), X, MARGINS),
    "ridge of several targets": (
        Ridge(tol=1e-11, solver="pqn", alpha=[1.0, 2.0]),
        X,
        np.column_stack([MARGINS, -MARGINS]),
    ),
    "ridge classifier": (RidgeClassifier(tol=1e-11, solver="sdca"), X, Y3),
    "lasso": (Lasso(alpha=0.01, tol=1e-12), X, MARGINS),
    "elastic net": (ElasticNet(alpha=0.01, tol=1e-12), X, MARGINS),
    "counts": (PoissonRegressor(alpha=0.01, tol=1e-12), X, COUNTS),
    "amounts": (GammaRegressor(alpha=0.01, l1_ratio=0.5, tol=1e-12), X, COUNTS + 1.0),
    "quantiles": (QuantileRegressor(quantile=[0.2, 0.7], alpha=0.01, tol=1e-10), X, MARGINS),
    "tube": (LinearSVR(epsilon=0.1, C=0.1, tol=1e-10, max_iter=10_000), X, MARGINS),
    "concomitant scale": (HuberRegressor(tol=1e-8), X, NOISY),
}


@pytest.mark.parametrize("name", FITS)
def test_fit_out_of_time_ends_after_its_first_read_and_certifies_its_model(name):
    made, rows, targets = FITS[name]
    model = made.__class__(**{**made.get_params(), "max_time_s": 1e-9})
    with pytest.warns(ConvergenceWarning, match="max_time_s=1e-09 ended the fit after") as seen:
        model.fit(rows, targets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # coordinate ascent at rounding level
        best = made.fit(rows, targets)
    assert seen[0].filename == __file__
    if len(seen) == 1:  # several problems warn one by one
        told = float(re.search(r"the certified gap is (\S+),", str(seen[0].message))[1])
        assert told == pytest.approx(model.gap_, rel=0.01)
    assert np.max(model.n_iter_) < np.max(best.n_iter_)
    # The certificate is about the model that came back: the minimum lies within its gap.
    assert model.gap_ > 0
    assert model.objective_ - model.gap_ <= best.objective_ * (1 + 1e-9)
    assert best.objective_ <= model.objective_ * (1 + 1e-9)


@pytest.mark.filterwarnings("ignore:relative duality gap")
@pytest.mark.parametrize("name", ["quasi-Newton", "coordinate ascent", "working sets"])
def test_fit_with_time_enough_is_the_fit_without_a_bound(name):
    made, rows, targets = FITS[name]
    free = made.fit(rows, targets)
    coef, n_iter = free.coef_.copy(), np.copy(free.n_iter_)
    bounded = made.__class__(**{**made.get_params(), "max_time_s": 1000.0}).fit(rows, targets)
    np.testing.assert_array_equal(bounded.coef_, coef)
    np.testing.assert_array_equal(bounded.n_iter_, n_iter)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.9])
def test_bound_holds_for_rows_that_stream_from_a_store(tmp_path, l1_ratio):
    with ChunkWriter(tmp_path / "store", chunk_bytes=40_000) as writer:
        writer.append(X, Y)
    store = ChunkedDataset.open(tmp_path / "store", memory_limit=0)
    assert store.n_chunks > 3
    model = LogisticRegression(tol=1e-12, max_time_s=1e-9, l1_ratio=l1_ratio)
    n_threads = threading.active_count()
    with pytest.warns(ConvergenceWarning, match="max_time_s=1e-09 ended the fit"):
        model.fit(store)
    assert np.isfinite(model.objective_)
    assert threading.active_count() <= n_threads


def test_fit_that_takes_long_ends_soon_after_its_time():
    rows = RNG.standard_normal((3000, 400))
    labels = (RNG.random(3000) < 0.5).astype(int)
    model = LogisticRegression(solver="sdca", tol=0, max_iter=10**6, C=1e3, max_time_s=0.3)
    began = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match=r"max_time_s=0.3 ended the fit after 0\.\d+ s"):
        model.fit(rows, labels)
    assert 0.3 <= time.perf_counter() - began < 3.0
    assert model.n_iter_[0] > 5


@pytest.mark.parametrize("bad", [0, -1.0, np.nan, "1s", True])
def test_bound_that_is_no_time_is_refused(bad):
    with pytest.raises((TypeError, ValueError), match="max_time_s"):
        LogisticRegression(max_time_s=bad).fit(X, Y)


def test_shards_end_at_the_same_pass_though_only_the_first_has_a_clock_that_has_run_out():
    from snapml.data import Dataset, DenseMatrix
    from snapml.problems import Logistic, Problem
    from snapml.solvers.control import Control
    from snapml.solvers.newton.quasi_newton import solve
    from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
    from snapml.solvers.stopping import StoppingRule

    class Slow(Control):
        """Its clock tells every thread another time; each would end at another pass."""

        def _elapsed_s(self):
            calls = self.__dict__.setdefault("calls", {})
            own = threading.get_ident()
            calls[own] = calls.get(own, 0) + 1
            return float(calls[own])

    def engine(rows):
        labels = np.where(Y[rows] > 0, 1.0, -1.0)
        return CpuPrimalEngine(
            Problem(Logistic()), Dataset(DenseMatrix(X[rows]), labels, None, 1.0), n_threads=1
        )

    control = Slow(max_time_s=3.0)
    shards = [lambda: engine(slice(0, 300)), lambda: engine(slice(300, 600))]
    results = solve_shards(shards, StoppingRule(1e-15, 100, control=control), solve)
    assert [len(result.history) for result in results] == [3, 3]
    np.testing.assert_array_equal(results[0].coef, results[1].coef)
