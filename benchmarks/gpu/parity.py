"""Every verb of the primal engine against the CPU's in float64, on fresh random data.

The CPU's engine is the oracle: tests hold it against plain NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from benchmarks.gpu.measurement import Measurement
from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.kernels import Device
from snapml.problems import Intercept, Logistic, Loss, Problem, Softmax, Squared, SquaredHinge
from snapml.solvers.rows.cpu_primal_engine import CpuPrimalEngine
from snapml.solvers.rows.gpu_primal_engine import GpuPrimalEngine

__all__ = ["LAYOUTS", "VERBS", "check_verbs", "make_matrix", "relative_error", "widened"]

# Sums of products of numbers about one, in float64.
_ALLOWED = 1e-10
# Rows of the third are too long for one read; "ones" stores no values, "int64" long indices.
LAYOUTS = (
    ("dense", 28),
    ("dense", 300),
    ("dense", 9000),
    ("sparse", 400),
    ("int64", 400),
    ("ones", 400),
)
KINDS: tuple[tuple[Loss, int], ...] = (
    (Logistic(), 1),
    (Squared(), 3),
    (SquaredHinge(), 1),
    (Softmax(4), 4),
)


@dataclass(frozen=True)
class Question:
    """What the verbs are asked, the same of both engines.

    Attributes
    ----------
    coef, direction : ndarray of shape (n_outputs, n_features + 1)
        A point and a way to go from it.
    rows : ndarray of int64
        A few rows.
    factors, weights : ndarray of shape (n_outputs, number of these rows, or of all)
        For sums over rows.
    """

    coef: np.ndarray
    direction: np.ndarray
    rows: np.ndarray
    factors: np.ndarray
    weights: np.ndarray


def _gradients(engine: Any, asked: Question) -> Any:
    is_softmax = isinstance(engine.problem.loss, Softmax)
    return np.zeros(1) if is_softmax else engine.gradients(asked.rows)


def _pass(engine: Any, coef: np.ndarray) -> np.ndarray:
    """Return a pass's gradient, on the host whatever `vectors` is, and its loss."""
    loss, gradient, _ = engine.fused_pass(coef)
    return np.append(engine.to_host(gradient), loss)


def _dense(rows: Any) -> np.ndarray:
    return rows.toarray() if isinstance(rows, csr_matrix) else np.asarray(rows)


# Asked in this order: the present point is `coef`, the trial `coef + direction`.
VERBS: dict[str, Callable[[Any, Question], Any]] = {
    "fused_pass": lambda e, q: _pass(e, q.coef),
    "stiffness": lambda e, q: e.fused_pass(q.coef, wants_stiffness=True)[2],
    "accept": lambda e, q: e.accept() or np.zeros(1),
    "fused_pass of the trial": lambda e, q: _pass(e, q.coef + q.direction),
    "line_point": lambda e, q: np.array([e.line_point(step) for step in (0.0, 0.3, 1.0)]),
    "hessian_product": lambda e, q: e.to_host(e.hessian_product(q.direction)),
    "curvatures": lambda e, q: e.to_host(e.curvatures()),
    "curvatures of some rows": lambda e, q: e.curvatures(q.rows),
    "gradients of some rows": _gradients,
    "labels": lambda e, q: e.labels(q.rows),
    "row_weights": lambda e, q: e.row_weights(q.rows),
    "total_weight": lambda e, q: e.total_weight,
    "weighted_rows": lambda e, q: e.to_host(e.weighted_rows(q.rows, q.factors)),
    "weighted_squares": lambda e, q: e.to_host(e.weighted_squares(e.to_rows(q.weights))),
    "dense_rows": lambda e, q: e.to_host(e.dense_rows(e.to_rows(q.rows))),
    "host_rows": lambda e, q: _dense(e.host_rows()),
    "sample": lambda e, q: _pass(e.sample(500), q.coef),
}


def check_verbs(
    device: Device,
    seed: int,
    n_rows: int = 3000,
    *,
    layouts: Iterable[tuple[str, int]] = LAYOUTS,
    dtypes: Iterable[type] = (np.float32, np.float64),
) -> Iterator[Measurement]:
    """Compare all verbs for losses, layouts and types, and equal passes bit for bit.

    Parameters
    ----------
    device : Device
        Runs the kernels.
    seed : int
        Of the data.
    n_rows : int, default=3000
        Of the data; fewer where they are long.
    layouts : iterable of (str, int)
        Which of `LAYOUTS`, or others like them: kind and number of columns.
    dtypes : iterable of type
        Types of the entries.

    Yields
    ------
    Measurement
        The largest error of each verb beside what is allowed, relative to the largest entry.
    """
    rng = np.random.default_rng(seed)
    for layout, n_cols in layouts:
        X = random_rows(layout, min(n_rows, 2_000_000 // n_cols), n_cols, rng)
        for dtype in dtypes:
            for loss, n_outputs in KINDS:
                dataset = _dataset(X.astype(dtype), layout, loss, n_outputs, rng)
                problem = Problem(loss, Intercept.PENALISED, 0.5)
                case = f"{layout}, {n_cols} columns, {np.dtype(dtype)}, {loss.core_name}"
                yield from _compare(device, problem, dataset, n_outputs, case, rng)


def random_rows(
    layout: str, n_rows: int, n_cols: int, rng: np.random.Generator, density: float = 0.1
) -> np.ndarray:
    """Return entries whose rows have length about one, mostly zeros unless dense."""
    X = rng.normal(size=(n_rows, n_cols)) / np.sqrt(n_cols)
    if layout != "dense":
        X[rng.random(X.shape) > density] = 0.0
    return (X != 0).astype(float) if layout == "ones" else X


def make_matrix(X: np.ndarray, layout: str) -> DenseMatrix | CompressedMatrix:
    """Return entries in a layout of `LAYOUTS`, in their own type."""
    if layout == "dense":
        return DenseMatrix(X)
    stored = csr_matrix(X)
    index = np.int64 if layout == "int64" else np.int32
    arrays = stored.indptr.astype(index), stored.indices.astype(index)
    values = None if layout == "ones" else stored.data
    return CompressedMatrix(*arrays, X.shape[1], values, X.dtype)


def widened(dataset: Dataset) -> Dataset:
    """Return the same numbers in float64."""
    matrix: Any = dataset.matrix
    if isinstance(matrix, DenseMatrix):
        matrix = DenseMatrix(matrix.values.astype(np.float64))
    else:
        values = None if matrix.values is None else matrix.values.astype(np.float64)
        arrays = matrix.indptr, matrix.indices
        matrix = CompressedMatrix(*arrays, matrix.n_features, values, np.dtype(np.float64))
    weights = dataset.row_weights
    weights = None if weights is None else weights.astype(np.float64)
    return Dataset(matrix, dataset.labels.astype(np.float64), weights, dataset.weight)


def relative_error(found: Any, exact: Any) -> float:
    """Return the largest error over the largest entry; inf where the shapes differ."""
    found, exact = np.asarray(found, np.float64), np.asarray(exact, np.float64)
    if found.shape != exact.shape:
        return float("inf")
    if found.size == 0:
        return 0.0
    return float(np.abs(found - exact).max() / max(np.abs(exact).max(), 1e-300))


def _dataset(
    X: np.ndarray, layout: str, loss: Loss, n_outputs: int, rng: np.random.Generator
) -> Dataset:
    if isinstance(loss, Softmax):
        labels = rng.integers(0, n_outputs, len(X)).astype(X.dtype)
    else:
        labels = np.sign(rng.normal(size=(n_outputs, len(X)))).astype(X.dtype)
    weights = rng.integers(0, 3, len(X)).astype(X.dtype)
    return Dataset(make_matrix(X, layout), labels, weights, 1.0)


def _compare(
    device: Device,
    problem: Problem,
    dataset: Dataset,
    n_outputs: int,
    case: str,
    rng: np.random.Generator,
) -> Iterator[Measurement]:
    oracle = CpuPrimalEngine(problem, widened(dataset))
    engine: Any = GpuPrimalEngine(problem, dataset, device)
    rows = np.arange(0, oracle.n_rows, max(1, oracle.n_rows // 50))
    shape = n_outputs, oracle.n_features + 1
    asked = Question(
        rng.normal(size=shape),
        rng.normal(size=shape),
        rows,
        rng.normal(size=(n_outputs, len(rows))),
        rng.random((n_outputs, oracle.n_rows)),
    )
    allowed = dict.fromkeys(VERBS, _ALLOWED)
    # Squares are formed in the type of the entries.
    eps = float(np.finfo(dataset.matrix.dtype).eps)
    allowed["weighted_squares"] = max(_ALLOWED, 4 * eps)
    allowed["sample"] = max(_ALLOWED, eps)  # so are the weights of the rows that are taken
    for name, verb in VERBS.items():
        exact = verb(oracle, asked)
        error = relative_error(verb(engine, asked), exact)
        is_good = error <= allowed[name]
        yield Measurement("parity", name, case, error, "", allowed[name], is_good)
    first, again = (_pass(engine, asked.coef) for _ in range(2))
    n_different = float(np.count_nonzero(first != again))
    yield Measurement(
        "parity", "equal passes, different bits", case, n_different, "", None, n_different == 0
    )
