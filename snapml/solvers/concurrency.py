"""How many rows may step at once, and how much shorter their steps must be for that.

Rows that step from the same vector do not see each other's changes. Their steps are safe if the
stiffness is multiplied by a factor sigma' of at least

    needed = ||sum_i d_i x_i||^2 / sum_i d_i^2 ||x_i||^2,      d_i the change of beta_i,

over the rows of a round (docs/algorithms.md, section 16).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_matrix

__all__ = ["Concurrency", "coupling_of", "measure_coupling", "rows_in_flight"]

_POWER_ITERATIONS = 5
# Rows in flight beyond this number hide no more of the memory's latency.
_MOST_ROWS = 4096
# Rounds of an epoch, at least: with fewer, coordinate ascent becomes a gradient method.
_ROUNDS = 8
# More rows step at once as long as their steps are at most this many times shorter.
_CHEAP_SIGMA = 4.0
# A round may need a little more than the last epoch on average.
_MARGIN = 1.1


def measure_coupling(rows: np.ndarray | csr_matrix, column: float, seed: int = 0) -> float:
    """Return (lambda - 1) / (n - 1), lambda being the largest eigenvalue of X X^T.

    Parameters
    ----------
    rows : ndarray or csr_matrix of shape (n_rows, n_columns)
        A sample of the rows.
    column : float
        Value of one more, constant column. Rows are then scaled to unit length.
    seed : int, default=0
        Where the power iteration begins.

    Returns
    -------
    float
        From 0, where no two rows overlap, to 1, where all are parallel. A few steps of the power
        iteration approach it from below: closely where one direction stands out, and that is where
        it matters.
    """
    if not isinstance(rows, np.ndarray):
        rows = rows.astype(np.float64)
        squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    else:
        rows = rows.astype(np.float64)
        squares = np.einsum("ij,ij->i", rows, rows)
    lengths = np.sqrt(squares + column**2)
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    n_used = int(np.count_nonzero(inverse))

    def product(point: np.ndarray) -> np.ndarray:
        scaled = inverse * point
        return np.asarray(inverse * (rows @ (rows.T @ scaled) + column**2 * scaled.sum()))

    return coupling_of(product, len(lengths), n_used, seed)


def coupling_of(
    product: Callable[[np.ndarray], np.ndarray], size: int, n_used: int, seed: int = 0
) -> float:
    """Return (lambda - 1) / (n - 1), lambda being the largest eigenvalue of scalar products.

    Parameters
    ----------
    product : callable
        Multiplies the matrix of scalar products of n vectors of unit length with a vector.
    size : int
        Rows of the matrix: those of the n vectors, and rows of zeros.
    n_used : int
        n.
    seed : int, default=0
        Where the power iteration begins.

    Returns
    -------
    float
        From 0 to 1, as of `measure_coupling`.
    """
    if n_used < 2:
        return 1.0
    # Positive, as the largest eigenvector of rows that overlap in frequent columns is.
    point = 0.5 + np.random.default_rng(seed).random(size)
    largest = 0.0
    for _ in range(_POWER_ITERATIONS):
        point /= np.linalg.norm(point)
        point = product(point)
        largest = float(np.linalg.norm(point))
        if not largest > 0.0:
            break
    return min(1.0, max(0.0, largest - 1.0) / (n_used - 1))


def rows_in_flight(coupling: float, stiffness: float, n_rows: int, least: int, most: int) -> int:
    """Return how many rows should step at once.

    Parameters
    ----------
    coupling : float
        `measure_coupling` of the rows.
    stiffness : float
        Mean of c_i ||x_i||^2 max l''. Factors up to 1 / stiffness cost no epochs to speak of, for
        then the loss and not the quadratic term bounds a step.
    n_rows : int
        Number of rows.
    least, most : int
        Rows that it takes to use the device at all, and that it can hold.

    Returns
    -------
    int
        At least 1.
    """
    sigma = max(_CHEAP_SIGMA, 1.0 / max(stiffness, 1e-300))
    wanted = 1.0 + (sigma - 1.0) / max(coupling, 1e-300)
    bound = min(most, _MOST_ROWS, max(1, n_rows // _ROUNDS))
    return max(1, min(bound, math.floor(min(max(wanted, least), _MOST_ROWS))))


class Concurrency:
    """The factor sigma' of one engine, as it learns what its rows need.

    Parameters
    ----------
    rows : int
        Rows in flight to begin with.
    coupling : float
        `measure_coupling` of the rows.
    """

    def __init__(self, rows: int, coupling: float) -> None:
        self.rows = rows
        self.sigma = 1.0 + (rows - 1) * coupling

    @property
    def is_safest(self) -> bool:
        """Whether there is nothing left to make safer."""
        return self.rows == 1 and self.sigma == 1.0

    def learn(self, needed: float) -> None:
        """Take the factor that the last epoch needed: rise at once, fall slowly."""
        wanted = min(max(_MARGIN * needed, 1.0), float(self.rows))
        self.sigma = wanted if wanted > self.sigma else 0.5 * (self.sigma + wanted)

    def tighten(self) -> None:
        """Make the next epoch safer than the last, which lowered the dual objective."""
        if self.sigma >= self.rows:  # safe by itself, unless rows are seen even later than that
            self.rows = max(1, self.rows // 2)
            self.sigma = float(self.rows)
        else:
            self.sigma = min(2.0 * self.sigma, float(self.rows))
