"""Random problems of the check, made on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Problem

__all__ = ["Shape", "click_log", "dense_rows", "logistic"]


@dataclass(frozen=True)
class Shape:
    """Rows and columns, and entries a row of sparse data (0 for dense)."""

    n_rows: int
    n_cols: int
    n_entries: int = 0

    def __str__(self) -> str:
        kind = f", {self.n_entries} ones a row" if self.n_entries else " dense"
        return f"{self.n_rows:,} x {self.n_cols:,}{kind}"


def dense_rows(shape: Shape, seed: int) -> DenseMatrix:
    """Return normal float32 entries, scaled so that rows have length about one.

    Parameters
    ----------
    shape : Shape
        How many.
    seed : int
        Of the random numbers.

    Returns
    -------
    DenseMatrix
        The rows.
    """
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((shape.n_rows, shape.n_cols), dtype=np.float32)
    values *= np.float32(1.0 / np.sqrt(shape.n_cols))
    return DenseMatrix(values)


def click_log(shape: Shape, seed: int) -> CompressedMatrix:
    """Return rows of ones: each field has its own columns, chosen by a power law.

    Parameters
    ----------
    shape : Shape
        How many; the columns are divided among the fields.
    seed : int
        Of the random numbers.

    Returns
    -------
    CompressedMatrix
        Without values.
    """
    rng = np.random.default_rng(seed)
    width = shape.n_cols // shape.n_entries
    indices = np.empty((shape.n_rows, shape.n_entries), np.int32)
    for field in range(shape.n_entries):
        chosen = width ** rng.random(shape.n_rows, dtype=np.float32)
        indices[:, field] = field * width + np.minimum(chosen.astype(np.int32), width) - 1
    indptr = np.arange(shape.n_rows + 1, dtype=np.int64) * shape.n_entries
    if indptr[-1] <= np.iinfo(np.int32).max:
        return CompressedMatrix(indptr.astype(np.int32), indices.ravel(), shape.n_cols)
    return CompressedMatrix(indptr, indices.ravel().astype(np.int64), shape.n_cols)


def logistic(shape: Shape, seed: int, cost: float = 1.0) -> tuple[Problem, Dataset]:
    """Return a logistic regression with an intercept on random rows.

    Parameters
    ----------
    shape : Shape
        Of the rows.
    seed : int
        Of the random numbers.
    cost : float, default=1.0
        C.

    Returns
    -------
    problem : Problem
        What to solve.
    dataset : Dataset
        Rows and labels drawn from a logistic model.
    """
    rng = np.random.default_rng(seed + 1)
    truth = 2.0 * rng.standard_normal(shape.n_cols, dtype=np.float32)
    if shape.n_entries:
        sparse = click_log(shape, seed)
        margins = np.zeros(shape.n_rows, np.float32)
        for column in sparse.indices.reshape(shape.n_rows, -1).T:
            margins += truth[column] / np.float32(np.sqrt(shape.n_entries))
        matrix: CompressedMatrix | DenseMatrix = sparse
    else:
        matrix = dense_rows(shape, seed)
        margins = matrix.values @ truth
    noise = rng.logistic(size=shape.n_rows)
    labels = np.where(margins + noise > 0, np.float32(1), np.float32(-1))
    return Problem(Logistic(), Intercept.FREE), Dataset(matrix, labels, None, cost)
