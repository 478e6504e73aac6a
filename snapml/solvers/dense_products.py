"""Products of large dense matrices: several threads, BLAS on one in each.

BLAS's own threads wait for each other at every panel, and OpenBLAS's go on looking for work when
there is none: beside another process that takes a core, fits made of such products took up to 2.0
times one thread's time on two of them (benchmarks/results/busy_machine_before.csv). Here a thread
that is free takes the next part. What is computed depends on the number of threads, not on which
of them was free.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from snapml.solvers.threads import limit_blas_threads

__all__ = [
    "MOST_SHARED_COLUMNS",
    "PARTS_A_THREAD",
    "add_blocks",
    "add_gram",
    "add_grams",
    "each_part",
    "matmul",
]

PARTS_A_THREAD = 4
"""Parts of a product for each thread, so that none waits long for another's last one."""
MOST_SHARED_COLUMNS = 1024
"""Columns up to which each thread has products and rows of its own; more would take much memory."""

# Multiplications and additions that are worth a further thread: one to some milliseconds.
_LEAST_OPERATIONS = 5e7

_Item = TypeVar("_Item")


def matmul(a: np.ndarray, b: np.ndarray, n_threads: int, out: np.ndarray | None = None) -> Any:
    """Return the product of two matrices.

    Parameters
    ----------
    a : ndarray of shape (m, k)
        Either of its orders may be the memory's.
    b : ndarray of shape (k, n)
        Of the same dtype.
    n_threads : int
        Threads to use at most.
    out : ndarray of shape (m, n), default=None
        Receives the product.

    Returns
    -------
    ndarray of shape (m, n)
        The product.
    """
    (m, k), n = a.shape, b.shape[1]
    n_threads = _worth(2.0 * m * k * n, n_threads)
    if out is None:
        out = np.empty((m, n), np.result_type(a, b))
    if n_threads == 1:
        with limit_blas_threads(1):
            return np.matmul(a, b, out=out)
    if m >= k:

        def multiply(part: slice) -> None:
            np.matmul(a[part], b, out=out[part])

        each_part(multiply, m, 2.0 * m * k * n, n_threads)
        return out
    out[...] = 0

    def add(part: slice, own: np.ndarray) -> None:
        own += a[:, part] @ b[part]

    return add_blocks(add, list(_slices(k, n_threads)), out, 2.0 * m * k * n, n_threads)


def add_gram(rows: np.ndarray, gram: np.ndarray, n_threads: int) -> None:
    """Add rows^T rows to a symmetric matrix.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, size)
        Of any order.
    gram : ndarray of shape (size, size)
        Of a dtype as wide as the rows', or wider.
    n_threads : int
        Threads to use at most.
    """
    n_rows, size = rows.shape
    n_operations = float(n_rows) * size * size
    n_threads = _worth(n_operations, n_threads)
    if n_threads == 1:
        with limit_blas_threads(1):
            gram += rows.T @ rows  # NumPy takes BLAS's symmetric product for it
        return
    if n_threads * size * size <= rows.size:  # room for sums of each thread's own
        add_blocks(
            lambda part, own: np.add(own, rows[part].T @ rows[part], out=own),
            list(_slices(n_rows, n_threads)),
            gram,
            n_operations,
            n_threads,
        )
        return
    columns = list(_slices(size, 2 * n_threads))

    def multiply(tile: tuple[slice, slice]) -> None:
        left, right = tile
        product = rows[:, left].T @ rows[:, right]
        gram[left, right] += product
        if left != right:
            gram[right, left] += product.T

    _each(multiply, [(a, b) for k, a in enumerate(columns) for b in columns[k:]], n_threads)


def add_grams(
    parts: Sequence[Any],
    rows_of: Callable[[Any, np.ndarray], np.ndarray],
    room: np.ndarray,
    gram: np.ndarray,
    n_threads: int,
) -> None:
    """Add rows^T rows of all parts to a symmetric matrix.

    Parameters
    ----------
    parts : sequence
        Of rows, as `rows_of` knows them.
    rows_of : callable
        Gets a part and room for its rows, where it may write them; returns them. Called by several
        threads at once, each with room of its own.
    room : ndarray of shape (n_most, size)
        For the largest part.
    gram : ndarray of shape (size, size)
        As of `add_gram`.
    n_threads : int
        Threads to use at most.
    """
    size = len(gram)
    n_operations = float(len(parts)) * room.size * size
    is_shared = size <= MOST_SHARED_COLUMNS and 2 * n_threads <= len(parts)
    n_sharing = _worth(n_operations, n_threads) if is_shared else 1
    if n_sharing == 1:
        for part in parts:
            add_gram(rows_of(part, room), gram, n_threads)
        return

    def add_share(share: slice, own: np.ndarray) -> None:
        own_room = np.empty_like(room)
        for part in parts[share]:
            add_gram(rows_of(part, own_room), own, 1)

    shares = list(_slices(len(parts), n_sharing))
    add_blocks(add_share, shares, gram, n_operations, n_sharing)


def add_blocks(
    add: Callable[[slice, np.ndarray], None],
    blocks: Sequence[slice],
    out: np.ndarray,
    n_operations: float,
    n_threads: int,
) -> np.ndarray:
    """Return a sum over blocks of rows.

    Parameters
    ----------
    add : callable
        Gets a block and an array like `out` to add to; called by several threads at once.
    blocks : sequence of slice
        Of rows.
    out : ndarray
        The sum before, to which the blocks' is added.
    n_operations : float
        Multiplications and additions of all blocks.
    n_threads : int
        Threads to use at most.

    Returns
    -------
    ndarray
        `out`.
    """
    n_threads = min(_worth(n_operations, n_threads), len(blocks))
    sums = [out] + [np.zeros_like(out) for _ in range(1, n_threads)]

    def add_share(item: tuple[int, slice]) -> None:
        for block in blocks[item[1]]:
            add(block, sums[item[0]])

    _each(add_share, enumerate(_slices(len(blocks), n_threads)), n_threads)
    for own in sums[1:]:
        out += own
    return out


def each_part(
    work: Callable[[slice], None], n_rows: int, n_operations: float, n_threads: int
) -> None:
    """Call a function for parts of rows that make up all of them.

    Parameters
    ----------
    work : callable
        Gets a part; called by several threads at once, BLAS on one in each.
    n_rows : int
        Number of rows.
    n_operations : float
        Multiplications and additions of all parts.
    n_threads : int
        Threads to use at most.
    """
    n_threads = _worth(n_operations, n_threads)
    n_parts = 1 if n_threads == 1 else n_threads * PARTS_A_THREAD
    _each(work, list(_slices(n_rows, n_parts)), n_threads)


def _worth(n_operations: float, n_threads: int) -> int:
    return max(1, min(n_threads, int(n_operations / _LEAST_OPERATIONS)))


def _slices(size: int, n_parts: int) -> Iterator[slice]:
    ends = [size * part // n_parts for part in range(n_parts + 1)]
    return (slice(first, end) for first, end in itertools.pairwise(ends))


def _each(work: Callable[[_Item], None], items: Iterable[_Item], n_threads: int) -> None:
    """Call work(item) for all, the next one by whichever thread is free."""
    state = np.geterr()

    def work_alone(item: _Item) -> None:
        with limit_blas_threads(1), np.errstate(**state):
            work(item)

    if n_threads == 1:
        for item in items:
            work_alone(item)
        return
    with limit_blas_threads(1), ThreadPoolExecutor(n_threads, "snapml-products") as pool:
        for _ in pool.map(work_alone, items):
            pass
