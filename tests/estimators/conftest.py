"""Data, oracles and probes that several files of this folder share."""

import contextlib
import functools
import os
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix, issparse, random_array
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from snapml import LinearSVC, LogisticRegression, Ridge

ESTIMATORS = {
    "LogisticRegression": LogisticRegression,
    "LinearSVC": LinearSVC,
    "Ridge": Ridge,
}
# The same by dual coordinate ascent, whose epochs can be counted and last.
ITERATIVE = {name: functools.partial(make, solver="sdca") for name, make in ESTIMATORS.items()}
BINARY_DATA = ("breast_cancer", "digits_1_8", "sparse")


def _frozen(*arrays):
    """Make arrays read-only: no test, estimator or reference may change shared data."""
    for array in arrays:
        array.flags.writeable = False
    return arrays


def _exact_in_float32(X):
    """Round, so that float32 and float64 copies hold the same numbers."""
    return X.astype(np.float32).astype(np.float64)


def standardised(X):
    scale = X.std(axis=0)
    return _exact_in_float32((X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0))


@functools.cache
def binary_data(name):
    """Return dense float64 X, exact in float32, and labels 0 and 1."""
    if name == "breast_cancer":
        X, y = datasets.load_breast_cancer(return_X_y=True)
        X = standardised(X)
    elif name == "digits_1_8":
        X, y = datasets.load_digits(return_X_y=True)
        rows = (y == 1) | (y == 8)
        X, y = X[rows] / 16, (y[rows] == 8).astype(np.int64)
    elif name == "sparse":
        rng = np.random.default_rng(3)
        X = random_array((400, 200), density=0.05, rng=rng, data_sampler=rng.standard_normal)
        X = _exact_in_float32(X.toarray())
        y = (X @ rng.normal(size=200) + 0.3 * rng.normal(size=400) > 0.2).astype(np.int64)
    else:
        raise ValueError(f"expected one of {BINARY_DATA}, got {name!r}")
    return _frozen(np.ascontiguousarray(X), y)


@functools.cache
def regression_data():
    """Return standardised diabetes data and three targets, all exact in float32."""
    X, y = datasets.load_diabetes(return_X_y=True)
    X = standardised(X)
    noise = np.random.default_rng(5).normal(scale=20, size=(2, len(y)))
    Y = np.column_stack([y, 0.5 * y + noise[0], 300 - y + noise[1]])
    return _frozen(np.ascontiguousarray(X), _exact_in_float32(Y))


@functools.cache
def iris_data():
    """Return standardised iris data: three classes."""
    X, y = datasets.load_iris(return_X_y=True)
    return _frozen(np.ascontiguousarray(standardised(X)), y)


def as_layout(X, layout, dtype):
    """Return a copy of a dense matrix as dense or CSR in another dtype."""
    return csr_matrix(X, dtype=dtype) if layout == "csr" else np.array(X, dtype=dtype)


def example(n_rows=60, n_features=5, seed=0):
    """Return a small dense matrix and labels 0 and 1 that suit every estimator."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    y = (X[:, 0] + 0.5 * rng.normal(size=n_rows) > 0).astype(np.int64)
    return X, y


def bulky_example(n_rows=60_000, n_features=40, n_informative=40, noise=1.0, seed=1):
    """Return float32 data of more than a million entries: fits are not polished to rounding."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    signal = X[:, :n_informative] @ rng.normal(size=n_informative).astype(np.float32)
    y = (signal + noise * rng.standard_normal(n_rows, dtype=np.float32) > 0).astype(np.int64)
    return X, y


def relative_error(actual, expected):
    """Return the norm of the difference relative to the norm of what was expected."""
    expected = np.asarray(expected, dtype=np.float64)
    return np.linalg.norm(np.asarray(actual) - expected) / np.linalg.norm(expected)


def row_losses(loss, margins, y):
    """Return l(z_i, y_i) of docs/notation.md; y is -1 and 1 except for the squared loss."""
    if loss == "squared":
        return (margins - y) ** 2 / 2
    if loss == "logistic":
        return np.logaddexp(0.0, -y * margins)
    shortfall = np.maximum(0.0, 1.0 - y * margins)
    return shortfall if loss == "hinge" else shortfall**2


def objective(loss, coef, intercept, X, y, row_weights, intercept_scaling=None):
    """Return P(w, b) of docs/notation.md; a given scaling means a penalised intercept."""
    coef = np.asarray(coef, dtype=np.float64).ravel()
    intercept = float(np.ravel(intercept)[0])
    X = X.astype(np.float64)
    losses = row_losses(loss, X @ coef + intercept, y)
    value = np.sum(np.broadcast_to(row_weights, losses.shape) * losses) + coef @ coef / 2
    return value + (intercept / intercept_scaling) ** 2 / 2 if intercept_scaling else value


@contextlib.contextmanager
def unconverged():
    """Let a fit stop early without a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def fitted_names(estimator):
    """Return the names of fitted attributes, those about the shape of X left out."""
    names = {name for name in vars(estimator) if name.endswith("_") and not name.startswith("__")}
    return names - {"n_features_in_", "feature_names_in_"}


def live_threads():
    """Return the number of this process's threads, native ones and all those of BLAS included."""
    # A fork ends OpenBLAS's threads in the parent too, and setting a limit starts them again.
    with threadpool_limits(limits=1, user_api="blas"):
        pass
    try:
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - a virtual file system
    except FileNotFoundError:
        pytest.skip("no /proc/self/task on this platform: native threads cannot be counted")


def assert_threads_end_at(expected):
    """Assert that all but `expected` threads are gone; the system takes a moment to bury one."""
    deadline = time.monotonic() + 1.0
    while live_threads() > expected and time.monotonic() < deadline:
        time.sleep(0.005)
    assert live_threads() == expected


def margins_of(X, coef, intercept):
    """Return X @ coef.T + intercept in float64."""
    X = X.toarray() if issparse(X) else np.asarray(X)
    return X.astype(np.float64) @ np.atleast_2d(coef).astype(np.float64).T + intercept


def run_python(code, *, timeout_s=60, env=None):
    """Run code in a fresh interpreter and return its standard output; it must exit with 0."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "faulthandler", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=None if env is None else {**os.environ, **env},
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
