"""Seeded generators of the synthetic design matrices and of planted labels.

Every generator returns float32 data and takes the random generator first, so that one seed
fixes a problem. Sizes are arguments; the sizes that the benchmark uses stand in `problems.py`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Matrix: TypeAlias = Any  # scipy.sparse.csr_matrix or C-ordered ndarray, float32

_ROWS_PER_CHUNK = 4096


def zipf_text(
    rng: np.random.Generator, n_rows: int, n_features: int, n_per_row: int, exponent: float
) -> sparse.csr_matrix:
    """Bag-of-words rows: distinct Zipf-distributed words, idf weights, unit length.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of all randomness.
    n_rows, n_features : int
        Shape of the result.
    n_per_row : int
        Non-zeros in every row; at most ``n_features``.
    exponent : float
        The word of rank k is drawn with probability proportional to ``k ** -exponent``.

    Returns
    -------
    scipy.sparse.csr_matrix of shape (n_rows, n_features)
        float32 values, int32 sorted indices.
    """
    cdf = np.cumsum(np.arange(1, n_features + 1, dtype=np.float64) ** -exponent)
    cdf /= cdf[-1]
    ranks = np.empty((n_rows, n_per_row), dtype=np.int32)
    for start in range(0, n_rows, _ROWS_PER_CHUNK):
        stop = min(start + _ROWS_PER_CHUNK, n_rows)
        ranks[start:stop] = _draw_distinct(rng, cdf, stop - start, n_per_row)
    # Words are numbered at random: a frequency-sorted vocabulary would give every library a
    # cache locality that real vocabularies do not have.
    columns = rng.permutation(n_features).astype(np.int32)[ranks]
    columns.sort(axis=1)
    indptr = np.arange(0, n_rows * n_per_row + 1, n_per_row, dtype=np.int32)
    document_counts = np.bincount(columns.ravel(), minlength=n_features)
    idf = np.log((1.0 + n_rows) / (1.0 + document_counts)) + 1.0
    values = idf[columns]
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    parts = (values.ravel().astype(np.float32), columns.ravel(), indptr)
    return sparse.csr_matrix(parts, shape=(n_rows, n_features))


def _draw_distinct(
    rng: np.random.Generator, cdf: NDArray[np.float64], n_rows: int, n_per_row: int
) -> NDArray[np.int32]:
    """Draw the first `n_per_row` distinct values of a random sequence, for every row."""
    result = np.empty((n_rows, n_per_row), dtype=np.int32)
    open_rows = np.arange(n_rows)
    n_draws = 6 * n_per_row
    while open_rows.size:
        draws = np.searchsorted(cdf, rng.random((open_rows.size, n_draws))).astype(np.int32)
        order = np.argsort(draws, axis=1, kind="stable")
        in_order = np.take_along_axis(draws, order, axis=1)
        starts_run = np.ones_like(draws, dtype=bool)
        starts_run[:, 1:] = in_order[:, 1:] != in_order[:, :-1]
        is_first = np.empty_like(starts_run)
        np.put_along_axis(is_first, order, starts_run, axis=1)
        rank = np.cumsum(is_first, axis=1)
        is_complete = rank[:, -1] >= n_per_row
        is_kept = is_first & (rank <= n_per_row) & is_complete[:, None]
        result[open_rows[is_complete]] = draws[is_kept].reshape(-1, n_per_row)
        open_rows = open_rows[~is_complete]
        n_draws *= 2  # only rows that repeated one word very often come here
    return result


def dense_spectrum(
    rng: np.random.Generator, n_rows: int, n_features: int, decay: float, mean_scale: float
) -> NDArray[np.float32]:
    """Gaussian rows whose k-th principal standard deviation is ``k ** -decay``.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of all randomness.
    n_rows, n_features : int
        Shape of the result.
    decay : float
        Exponent of the spectrum; 0 gives white rows.
    mean_scale : float
        Column means are drawn from a normal distribution with this standard deviation.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        float32, C-ordered.
    """
    deviations = np.arange(1, n_features + 1, dtype=np.float64) ** -decay
    rotation, _ = np.linalg.qr(rng.standard_normal((n_features, n_features)))
    transform = (deviations[:, None] * rotation.T).astype(np.float32)
    means = (mean_scale * rng.standard_normal(n_features)).astype(np.float32)
    X = np.empty((n_rows, n_features), dtype=np.float32)
    for start in range(0, n_rows, _ROWS_PER_CHUNK):
        stop = min(start + _ROWS_PER_CHUNK, n_rows)
        white = rng.standard_normal((stop - start, n_features), dtype=np.float32)
        X[start:stop] = white @ transform + means
    return X


def particle_collisions(rng: np.random.Generator, n_rows: int) -> NDArray[np.float32]:
    """Raw measurements shaped like the 28 columns of the HIGGS data, nothing standardised.

    Momenta and masses are log-normal with a mean near 1, directions normal or uniform, tags have
    three values; a common factor of every row correlates momenta and masses.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of all randomness.
    n_rows : int
        Rows.

    Returns
    -------
    ndarray of shape (n_rows, 28)
        float32, C-ordered.
    """
    n_momenta, n_directions, n_tags, n_masses = 6, 11, 4, 7
    X = np.empty((n_rows, n_momenta + n_directions + n_tags + n_masses), dtype=np.float32)
    tag_values = np.array([0.0, 1.09, 2.17], dtype=np.float32)
    for start in range(0, n_rows, _ROWS_PER_CHUNK):
        stop = min(start + _ROWS_PER_CHUNK, n_rows)
        size = stop - start
        energy = rng.standard_normal((size, 1), dtype=np.float32)
        momenta = np.exp(0.35 * rng.standard_normal((size, n_momenta)) + 0.35 * energy)
        directions = np.where(
            np.arange(n_directions) % 2,
            rng.standard_normal((size, n_directions)),
            rng.uniform(-1.74, 1.74, (size, n_directions)),
        )
        tags = tag_values[rng.integers(0, 3, (size, n_tags))]
        masses = np.exp(0.3 * rng.standard_normal((size, n_masses)) + 0.25 * energy)
        X[start:stop] = np.hstack([momenta, directions, tags, masses])
    return X


def lognormal_mixed_scales(
    rng: np.random.Generator, n_rows: int, n_features: int, share_filled: float
) -> NDArray[np.float32]:
    """Log-normal columns of scales 1e-2 to 1e2; every other one is mostly zeros.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of all randomness.
    n_rows, n_features : int
        Shape of the result.
    share_filled : float
        Share of non-zeros in every other column.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        float32, C-ordered.
    """
    scales = (10.0 ** rng.uniform(-2.0, 2.0, n_features)).astype(np.float32)
    is_thin = np.arange(n_features) % 2 == 1
    X = np.empty((n_rows, n_features), dtype=np.float32)
    for start in range(0, n_rows, _ROWS_PER_CHUNK):
        stop = min(start + _ROWS_PER_CHUNK, n_rows)
        values = np.exp(rng.standard_normal((stop - start, n_features), dtype=np.float32))
        is_kept = ~is_thin | (rng.random((stop - start, n_features)) < share_filled)
        X[start:stop] = values * is_kept * scales
    return X


def unit_rows(X: Matrix) -> Matrix:
    """Return a copy of `X` with rows of unit Euclidean length (zero rows stay zero).

    Parameters
    ----------
    X : csr_matrix or ndarray of shape (n_rows, n_features)
        float32 data.

    Returns
    -------
    csr_matrix or ndarray of shape (n_rows, n_features)
        float32, same layout as `X`.
    """
    if sparse.issparse(X):
        norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel())
        norms[norms == 0.0] = 1.0
        result = X.copy()
        result.data = (X.data / np.repeat(norms, np.diff(X.indptr))).astype(np.float32)
        return result
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    lengths[lengths == 0.0] = 1.0
    return np.ascontiguousarray(X / lengths, dtype=np.float32)


def planted_margins(rng: np.random.Generator, X: Matrix) -> NDArray[np.float64]:
    """Margins of a random normal coefficient vector, centred, standard deviation 2.

    A deviation of 2 leaves roughly one label in five on the wrong side of the planted plane:
    the optimum is finite and no library profits from separable data.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the coefficients.
    X : csr_matrix or ndarray of shape (n_rows, n_features)
        Design matrix.

    Returns
    -------
    ndarray of shape (n_rows,)
        float64 margins.
    """
    coef = rng.standard_normal(X.shape[1]).astype(np.float32)
    margins: NDArray[np.float64] = np.asarray(X @ coef, dtype=np.float64)
    margins -= margins.mean()
    margins *= 2.0 / margins.std()
    return margins


def logistic_labels(rng: np.random.Generator, margins: NDArray[np.float64]) -> NDArray[np.int32]:
    """Draw labels 0 or 1 from the logistic model of given margins.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the labels.
    margins : ndarray of shape (n_rows,)
        Log-odds of label 1.

    Returns
    -------
    ndarray of shape (n_rows,)
        int32 labels.
    """
    return (rng.random(margins.size) < 1.0 / (1.0 + np.exp(-margins))).astype(np.int32)


def class_labels(rng: np.random.Generator, X: Matrix, n_classes: int) -> NDArray[np.int32]:
    """Draw classes from a multinomial logistic model with planted coefficients.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the coefficients and the labels.
    X : csr_matrix or ndarray of shape (n_rows, n_features)
        Design matrix.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_rows,)
        int32 labels 0 to n_classes - 1.
    """
    margins = np.stack([planted_margins(rng, X) for _ in range(n_classes)], axis=1)
    noisy = margins + rng.gumbel(size=margins.shape)
    labels: NDArray[np.int32] = noisy.argmax(axis=1).astype(np.int32)
    return labels
