"""Random problems of the check, made on the host."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from snapml.data import CompressedMatrix, Dataset, DenseMatrix
from snapml.problems import Intercept, Logistic, Problem

__all__ = ["Shape", "click_log", "dense_rows", "logistic"]


_PIECE_ROWS = 50_000


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
    values = np.empty((shape.n_rows, shape.n_cols), np.float32)
    scale = np.float32(1.0 / np.sqrt(shape.n_cols))

    def fill(rows: slice, rng: np.random.Generator) -> None:
        rng.standard_normal(out=values[rows], dtype=np.float32)
        values[rows] *= scale

    _on_all_cores(fill, shape.n_rows, seed)
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
    indices = np.empty((shape.n_rows, shape.n_entries), np.int32)
    width = np.float32(shape.n_cols // shape.n_entries)
    firsts = np.arange(shape.n_entries, dtype=np.int32) * np.int32(width)

    def fill(rows: slice, rng: np.random.Generator) -> None:
        chosen = width ** rng.random(indices[rows].shape, dtype=np.float32)
        indices[rows] = firsts + np.minimum(chosen.astype(np.int32), np.int32(width)) - 1

    _on_all_cores(fill, shape.n_rows, seed)
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
    matrix = click_log(shape, seed) if shape.n_entries else dense_rows(shape, seed)
    rng = np.random.default_rng(seed + 1)
    truth = 2.0 * rng.standard_normal(shape.n_cols, dtype=np.float32)
    labels = np.empty(shape.n_rows, np.float32)

    def draw(rows: slice, own: np.random.Generator) -> None:
        if isinstance(matrix, DenseMatrix):
            margins = matrix.values[rows] @ truth
        else:
            columns = matrix.indices.reshape(shape.n_rows, -1)[rows]
            margins = truth[columns].sum(axis=1) / np.float32(np.sqrt(shape.n_entries))
        noise = own.logistic(size=len(margins))
        labels[rows] = np.where(margins + noise > 0, np.float32(1), np.float32(-1))

    _on_all_cores(draw, shape.n_rows, seed + 2)
    return Problem(Logistic(), Intercept.FREE), Dataset(matrix, labels, None, cost)


def _on_all_cores(
    work: Callable[[slice, np.random.Generator], None], n_rows: int, seed: int
) -> None:
    """Call `work` for pieces of the rows, each with random numbers that depend on the piece."""
    pieces = [slice(first, first + _PIECE_ROWS) for first in range(0, n_rows, _PIECE_ROWS)]
    rngs = [np.random.default_rng([seed, piece.start]) for piece in pieces]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(work, pieces, rngs))
