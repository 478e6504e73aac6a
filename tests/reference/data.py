"""Small data of known shape, all of whose numbers are exact in float32."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snapml.data import CompressedMatrix, DenseMatrix

PUBLIC_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def public_file(name: str) -> Path:
    """Return the path of a public data set beside the checkout; without it the test is skipped."""
    path = PUBLIC_DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not in the data folder beside the checkout")
    return path


def in_float32(values: np.ndarray) -> np.ndarray:
    """Return float64 numbers rounded to float32: both types then hold the same data."""
    return np.asarray(values).astype(np.float32).astype(np.float64)


def make_rows(
    n_rows: int, n_features: int, *, density: float = 1.0, scale: float = 1.0, seed: int = 0
) -> np.ndarray:
    """Return normal entries, the share `density` of which are not zero."""
    rng = np.random.default_rng([1, seed])
    X = scale * rng.normal(size=(n_rows, n_features))
    return in_float32(np.where(rng.random(X.shape) < density, X, 0.0))


def make_labels(X: np.ndarray, *, labels: str, seed: int = 0) -> np.ndarray:
    """Return noisy labels of a planted linear model, more positive than negative ones.

    What they are, `labels` says as `snapml.problems.Loss` does.
    """
    rng = np.random.default_rng([2, seed])
    w = np.resize([1.0, -0.5, 2.0], X.shape[1])
    z = X @ w + 0.3 + 0.5 * rng.normal(size=len(X))
    if labels == "count":
        return np.asarray(rng.poisson(np.exp(np.clip(0.5 * z, -2.0, 2.0))), dtype=np.float64)
    return np.where(z > 0, 1.0, -1.0) if labels == "sign" else in_float32(z)


def make_weights(n_rows: int, *, seed: int = 0) -> np.ndarray:
    """Return weights between 0.25 and 4, every seventh of them zero."""
    rng = np.random.default_rng([3, seed])
    weights = in_float32(np.exp2(rng.uniform(-2, 2, size=n_rows)))
    weights[::7] = 0.0
    return weights


def rounding(dtype: np.dtype) -> float:
    """Return the distance from 1 to the next number: tolerances are multiples of it."""
    return float(np.finfo(dtype).eps)


def dense(matrix: DenseMatrix | CompressedMatrix) -> np.ndarray:
    """Return a matrix of the library as an array."""
    if isinstance(matrix, DenseMatrix):
        return matrix.values
    values = np.ones(matrix.n_stored) if matrix.values is None else matrix.values
    return csr_matrix((values, matrix.indices, matrix.indptr), shape=matrix.shape).toarray()
