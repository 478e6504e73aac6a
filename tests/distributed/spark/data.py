"""Rows for the tests, as arrays and as a DataFrame."""

import numpy as np

N_ROWS, N_FEATURES = 300, 5
_SCALES = np.array([1.0, 10.0, 0.1, 3.0, 1.0])
_COEF = np.array(
    [[1.0, -0.2, 5.0, 0.0, 0.5], [-1.0, 0.1, 0.0, 0.3, 0.0], [0.0, 0.0, 8.0, -0.3, 1.0]]
)


def arrays(n_classes, seed=0):
    """Return rows with zeros, labels (numbers for 0 classes) and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, N_FEATURES)) * _SCALES * (rng.random((N_ROWS, N_FEATURES)) < 0.7)
    if n_classes == 0:
        y = X @ _COEF[0] + 2.0 + 0.5 * rng.normal(size=N_ROWS)
    else:
        margins = (X @ _COEF[: n_classes - 1].T).T
        scores = np.vstack([np.zeros(N_ROWS), margins])
        y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=0).astype(float)
    return X, y, rng.integers(1, 4, N_ROWS).astype(float)


def frame(spark, n_classes, sparse=False, seed=0):
    """Return a DataFrame of label, features, weight, and the features as array and numbers."""
    from pyspark.ml.linalg import SparseVector, Vectors

    X, y, w = arrays(n_classes, seed)
    rows = []
    for x, label, weight in zip(X, y, w, strict=True):
        stored = np.flatnonzero(x)
        vector = SparseVector(N_FEATURES, stored, x[stored]) if sparse else Vectors.dense(x)
        rows.append((float(label), vector, float(weight), x.tolist(), *map(float, x)))
    names = ["label", "features", "weight", "array", *(f"x.{k}" for k in range(N_FEATURES))]
    return spark.createDataFrame(rows, names).repartition(2).cache()
