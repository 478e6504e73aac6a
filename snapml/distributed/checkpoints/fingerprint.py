"""By what a checkpoint recognises its data, on any number of ranks: sums over the rows.

Rows are multiplied with one fixed random vector. Sums of the products, alone, squared, with the
labels and with numbers that depend on the rows' places tell data apart, and rows in another order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from snapml.data import ChunkedMatrix, CompressedMatrix, Dataset, DenseMatrix, Matrix
from snapml.solvers.communicator import Communicator
from snapml.solvers.rows import cpu_rows

__all__ = ["Fingerprints", "difference", "is_same_order"]

_SEED = 20_240_229
# Relative to the sum of absolute terms: what adding in another order may change, with room.
_ROUNDING = 1e-11
_GOLDEN = 0.6180339887498949
_NAMES = ("weights", "labels", "rows", "squares of rows", "rows with labels", "order of rows")


class Fingerprints:
    """Makes the fingerprints of one fit's problems, which have the same rows."""

    def __init__(self) -> None:
        self._matrix: Any = None
        self._products = np.empty(0)

    def of(self, dataset: Dataset, communicator: Communicator) -> dict[str, Any]:
        """Return the fingerprint of the rows of all ranks, the same on each.

        Parameters
        ----------
        dataset : Dataset
            This rank's rows; those on the host are read once.
        communicator : Communicator
            The other ranks.

        Returns
        -------
        dict
            Numbers and text.
        """
        n_rows, n_features = dataset.matrix.shape
        counts = communicator.exchange(n_rows)
        first = sum(counts[: communicator.rank])
        if self._matrix is not dataset.matrix:
            self._matrix = dataset.matrix
            self._products = _products(dataset.matrix)
        with np.errstate(over="ignore", invalid="ignore"):
            own = _terms(dataset, self._products, first)
            sums = communicator.allreduce_sum(np.array(own).reshape(-1))
        return {
            "n_rows": sum(counts),
            "n_features": n_features,
            "dtype": str(dataset.labels.dtype),
            "n_outputs": dataset.labels.ndim == 2 and len(dataset.labels),
            "sums": sums,
        }


def difference(found: dict[str, Any], kept: dict[str, Any]) -> str | None:
    """Return what is another in the data at hand than in the kept ones.

    Parameters
    ----------
    found, kept : dict
        Fingerprints.

    Returns
    -------
    str or None
        In words; None where the data are the same, in whatever order.
    """
    for name in ("n_rows", "n_features", "dtype", "n_outputs"):
        if found[name] != kept[name]:
            return f"{name} {kept[name]}, got {found[name]}"
    for number, name in enumerate(_NAMES[:-1]):
        if not _is_close(found, kept, number):
            expected, got = kept["sums"][2 * number], found["sums"][2 * number]
            return f"the same {name} (their sum is {expected:.12g}), got others ({got:.12g})"
    return None


def is_same_order(found: dict[str, Any], kept: dict[str, Any]) -> bool:
    """Return whether the rows of all ranks, one rank after the other, are in the kept order."""
    return _is_close(found, kept, len(_NAMES) - 1)


def _is_close(found: dict[str, Any], kept: dict[str, Any], number: int) -> bool:
    (a, size_a), (b, size_b) = (one["sums"][2 * number : 2 * number + 2] for one in (found, kept))
    # What is not a number is refused by the fit itself, with a better message.
    return not abs(a - b) > _ROUNDING * max(size_a, size_b)


def _terms(dataset: Dataset, products: np.ndarray, first: int) -> list[tuple[float, float]]:
    """Return this rank's sums, each with that of the absolute terms."""
    n_rows, c = dataset.matrix.shape[0], dataset.wide_weights
    y = np.atleast_2d(dataset.labels).astype(np.float64)
    # One number a row also of several outputs, none of which can be exchanged for another.
    y = (np.arange(1.0, len(y) + 1.0) @ y) * c
    if dataset.offsets is not None:
        y += _GOLDEN * c * np.atleast_2d(dataset.offsets).sum(axis=0)
    places = np.modf((np.arange(first, first + n_rows) + 1.0) * _GOLDEN)[0] - 0.5
    rows = products * c
    terms = (c, y, rows, products * rows, y * products, places * (rows + y))
    return [(float(term.sum()), float(np.abs(term).sum())) for term in terms]


def _products(matrix: Matrix) -> np.ndarray:
    """Return each row's product with the fixed vector; zeros of rows that are not on the host."""
    n_rows, n_features = matrix.shape
    vector = np.random.default_rng(_SEED).normal(size=n_features)
    with np.errstate(all="ignore"):
        if isinstance(matrix, ChunkedMatrix):
            out = np.empty(n_rows)
            for number, rows in matrix.chunks():
                out[matrix.rows_of(number)] = cpu_rows.margins(rows, vector, 0.0)
            return out
        if isinstance(matrix, DenseMatrix | CompressedMatrix):
            return cpu_rows.margins(matrix, vector, 0.0)
    return np.zeros(n_rows)
