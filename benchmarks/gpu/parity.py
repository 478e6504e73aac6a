"""Every verb of the engine, and every estimator, against the CPU in float64.

The CPU's engine is the oracle: tests hold it against plain NumPy.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from sklearn.base import clone

from benchmarks.gpu.measurement import Measurement
from snapml import LinearSVC, LogisticRegression, Ridge
from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.kernels import Device
from snapml.problems import Intercept, Logistic, Problem, Softmax, Squared, SquaredHinge
from snapml.solvers.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.gpu_primal_engine import GpuPrimalEngine

__all__ = ["LAYOUTS", "check_estimators", "check_verbs"]

# Sums of products of numbers about one, in float64.
_ALLOWED = 1e-10
# Rows of the last but one are too long for one read.
LAYOUTS = (("dense", 28), ("dense", 300), ("dense", 9000), ("sparse", 400))
_KINDS = ((Logistic(), 1), (Squared(), 3), (SquaredHinge(), 1), (Softmax(4), 4))


def check_verbs(device: Device, seed: int, n_rows: int = 5000) -> Iterator[Measurement]:
    """Compare all verbs for losses, layouts and types.

    Parameters
    ----------
    device : Device
        Runs the kernels.
    seed : int
        Of the data.
    n_rows : int, default=5000
        Of the data.

    Yields
    ------
    Measurement
        The largest error of each verb beside what is allowed, relative to the largest entry.
    """
    rng = np.random.default_rng(seed)
    for layout, n_cols in LAYOUTS:
        rows = min(n_rows, 4_000_000 // n_cols)
        X = rng.normal(size=(rows, n_cols)) / np.sqrt(n_cols)
        X[rng.random(X.shape) < (0.9 if layout == "sparse" else 0.0)] = 0.0
        for dtype in (np.float32, np.float64):
            for loss, n_outputs in _KINDS:
                dataset = _dataset(X.astype(dtype), layout, loss, n_outputs, rng)
                problem = Problem(loss, Intercept.PENALISED, 0.5)
                case = f"{layout}, {n_cols} columns, {np.dtype(dtype)}, {loss.core_name}"
                errors = _verb_errors(device, problem, dataset, n_outputs, rng)
                for name, error in errors.items():
                    is_good = error <= _ALLOWED
                    yield Measurement("parity", name, case, error, "", _ALLOWED, is_good)


def check_estimators(device_id: int, seed: int, n_rows: int = 20_000) -> Iterator[Measurement]:
    """Compare the objectives of fits with those of the CPU, and look at the certificates.

    Parameters
    ----------
    device_id : int
        For ``device_ids``.
    seed : int
        Of the data.
    n_rows : int, default=20_000
        Of the data.

    Yields
    ------
    Measurement
        The relative difference of the objectives beside the sum of the certified gaps.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 40)).astype(np.float32)
    scores = X[:, :3] + rng.normal(size=(n_rows, 3))
    models = (
        (LogisticRegression(tol=1e-5), scores.argmax(axis=1) > 0),
        (LogisticRegression(tol=1e-5), scores.argmax(axis=1)),
        (LogisticRegression(tol=1e-5, multi_class="ovr"), scores.argmax(axis=1)),
        (LinearSVC(tol=1e-5), scores[:, 0] > 0),
        (Ridge(tol=1e-5), scores[:, 0]),
    )
    for model, y in models:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a fit that did not converge fails the check
            cpu = clone(model).fit(X, y)
            gpu = clone(model).set_params(device_ids=[device_id]).fit(X, y)
        difference = abs(gpu.objective_ - cpu.objective_) / cpu.objective_
        allowed = (gpu.gap_ + cpu.gap_) / cpu.objective_ + 1e-7
        name = f"{type(model).__name__}, {len(np.unique(y)) if y.dtype != float else 'real'} labels"
        is_good = difference <= allowed
        yield Measurement(
            "estimators", name, f"{X.shape}", difference, "", allowed, is_good, gpu.solver_
        )


def _dataset(X, layout, loss, n_outputs, rng) -> Dataset:  # type: ignore[no-untyped-def]
    if isinstance(loss, Softmax):
        labels = rng.integers(0, n_outputs, len(X)).astype(X.dtype)
    else:
        labels = np.sign(rng.normal(size=(n_outputs, len(X)))).astype(X.dtype)
    weights = rng.integers(0, 3, len(X)).astype(X.dtype)
    if layout == "dense":
        return Dataset(DenseMatrix(X), labels, weights, 1.0)
    where = X != 0
    indptr = np.append(0, np.cumsum(where.sum(axis=1)))
    matrix = CompressedMatrix(
        indptr, np.ascontiguousarray(np.nonzero(where)[1]), X.shape[1], X[where]
    )
    return Dataset(matrix, labels, weights, 1.0)


def _verb_errors(  # type: ignore[no-untyped-def]
    device: Device, problem: Problem, dataset: Dataset, n_outputs: int, rng
) -> dict[str, float]:
    """Return the largest relative error of every verb."""
    matrix, wide = dataset.matrix, np.float64
    if isinstance(matrix, DenseMatrix):
        matrix = DenseMatrix(matrix.values.astype(wide))
    else:
        matrix = replace(matrix, values=matrix.values.astype(wide), dtype=wide)
    labels, weights = dataset.labels.astype(wide), dataset.row_weights.astype(wide)
    oracle = CpuPrimalEngine(problem, Dataset(matrix, labels, weights, 1.0))
    gpu = GpuPrimalEngine(problem, dataset, device)
    coef, direction = rng.normal(size=(2, n_outputs, oracle.n_features + 1))
    spots = np.arange(0, oracle.n_rows, max(1, oracle.n_rows // 50))
    factors = rng.normal(size=(n_outputs, len(spots)))
    answers = []
    for engine in (gpu, oracle):
        loss, gradient, stiffness = engine.fused_pass(coef, wants_stiffness=True)
        engine.accept()
        engine.fused_pass(coef + direction)
        answers.append(
            {
                "loss": np.array(loss),
                "gradient": gradient,
                "stiffness": np.array(stiffness),
                "line_point": np.array(engine.line_point(0.3)),
                "hessian_product": engine.hessian_product(direction),
                "curvatures": engine.to_host(engine.curvatures()),
                "curvatures of some": engine.curvatures(spots),
                "weighted_rows": engine.weighted_rows(spots, factors),
                "sample": engine.sample(500).fused_pass(coef)[1],
            }
        )
    return {name: _relative_error(answers[0][name], exact) for name, exact in answers[1].items()}


def _relative_error(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.abs(found - exact).max() / max(np.abs(exact).max(), 1e-300))
