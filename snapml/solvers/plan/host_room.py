"""How much of the machine's memory a fit takes beside its rows, told before anything is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from snapml.problems import Problem
from snapml.solvers.dense_products import MOST_SHARED_COLUMNS
from snapml.solvers.newton.curvature import HOT_COLUMNS, MOST_DENSE_COLUMNS, MOST_JOINT_COLUMNS
from snapml.solvers.newton.preconditioners import KroneckerCurvature
from snapml.solvers.newton.quasi_newton import suits_products
from snapml.solvers.newton.sample_size import sample_rows
from snapml.solvers.newton.small_newton import may_finish
from snapml.solvers.rows.cpu_primal_engine import (
    FEWEST_IN_PANELS,
    MOST_CURVED_BYTES,
    CpuPrimalEngine,
)
from snapml.solvers.rows.scaled_rows import MOST_WIDE_COLUMNS, part_rows

__all__ = ["RowSizes", "working_bytes"]

# Coefficients, gradients, steps, ten pairs of them, and what is formed from these.
_VECTORS = 18
# What a library, a thread's stack and a few small arrays take.
_FIXED_BYTES = 4 * 2**20
# What the allocator keeps of memory given back.
_SLACK = 1.08


@dataclass(frozen=True)
class RowSizes:
    """Sizes of rows, and the problem on them (what the solver's own choices look at).

    Attributes
    ----------
    problem : Problem
        What to solve.
    n_rows, n_features, n_stored, n_outputs : int
        Counts; `n_stored` entries are read in a sweep.
    is_sparse, has_weights : bool
        Whether rows are compressed; whether they have weights.
    itemsize, row_bytes : int
        Bytes of an entry, and of all rows.
    chunk_stored : int
        Entries of the largest chunk of a store; 0 where all rows are in memory.
    kept_bytes : int
        Bytes a row of what an estimator keeps beside labels and weights: targets, offsets.
    device : None
        The host.
    """

    problem: Problem
    n_rows: int
    n_features: int
    n_stored: int
    n_outputs: int
    is_sparse: bool
    has_weights: bool
    itemsize: int
    row_bytes: int
    chunk_stored: int = 0
    kept_bytes: int = 0
    device: None = None


def working_bytes(sizes: RowSizes, n_threads: int) -> int:
    """Return what the quasi-Newton method and what comes before it take beside the rows.

    A sample of the rows that grows during the fit, because it shows too little, is not foreseen.

    Parameters
    ----------
    sizes : RowSizes
        Rows and problem.
    n_threads : int
        Each has a gradient of its own.

    Returns
    -------
    int
        Bytes, at least the peak.
    """
    n_rows, n_outputs, item = sizes.n_rows, sizes.n_outputs, sizes.itemsize
    is_joint = sizes.problem.loss.is_joint
    # Labels, weights, margins of two points; before these the copies that labels are checked in.
    targets = item * ((1 if is_joint else n_outputs) + sizes.has_weights) + 16 * n_outputs
    targets += sizes.kept_bytes
    checks = 8 * max(2, n_outputs) + item * n_outputs + 8
    of_rows = n_rows * max(targets, checks)
    if sizes.chunk_stored:
        of_rows += 8 * n_rows  # labels as the store has them
    vectors = 8 * n_outputs * (sizes.n_features + 1) * (_VECTORS + n_threads)
    engine: Any = sizes
    if suits_products(engine, sizes.n_rows):
        curvature = max(_diagonal_bytes(sizes, n_threads), _factor_bytes(sizes, n_threads))
        curvature += _curved_bytes(sizes) + _call_bytes(sizes)
    else:
        curvature = _sample_bytes(sizes, n_threads)
    return _FIXED_BYTES + int(_SLACK * (of_rows + vectors + curvature))


def _diagonal_bytes(sizes: RowSizes, n_threads: int) -> int:
    """Return what the Hessian's diagonal takes: sums of every thread, or squares of the entries."""
    curvatures = 8 * sizes.n_outputs * sizes.n_rows
    if sizes.chunk_stored:
        return curvatures  # the threads' sums take the place of a pass's
    if sizes.n_outputs < FEWEST_IN_PANELS:
        return curvatures + 8 * n_threads * sizes.n_outputs * sizes.n_features
    return curvatures + 20 * sizes.n_stored


def _factor_bytes(sizes: RowSizes, n_threads: int) -> int:
    """Return what factors of all classes take; steps of few products do without."""
    engine: Any = sizes
    if not KroneckerCurvature.suits(engine):
        return 0
    square = 8 * (sizes.n_features + 1) ** 2
    curvatures = 32 * sizes.n_outputs * sizes.n_rows
    forming = 2 * square + _block_bytes(sizes, sizes.n_rows, n_threads)
    return curvatures + max(forming, (sizes.n_outputs + 5) * square)


def _curved_bytes(sizes: RowSizes) -> int:
    """Return what a copy of the rows that have curvature takes, and the choice of them."""
    if sizes.chunk_stored:
        return 0
    return min(sizes.row_bytes // 2, MOST_CURVED_BYTES) + (40 + 12 * sizes.n_outputs) * sizes.n_rows


def _call_bytes(sizes: RowSizes) -> int:
    """Return what one call that may go on takes: entries by columns, vectors, the Hessian."""
    is_one = sizes.is_sparse and sizes.n_outputs == 1 and not sizes.chunk_stored
    if not (is_one and may_finish(sizes.problem, sizes.n_rows, sizes.n_features)):
        return 0
    return (
        16 * (sizes.n_stored + sizes.n_rows) + 80 * sizes.n_rows + 8 * (sizes.n_features + 8) ** 2
    )


def _block_bytes(sizes: RowSizes, n_rows: int, n_threads: int) -> int:
    """Return what a Gram matrix of rows in scaled columns takes beside itself."""
    if sizes.is_sparse:
        return 24 * int(sizes.n_stored * n_rows / max(1, sizes.n_rows))
    size = sizes.n_features + 1
    is_wide = sizes.itemsize == 8 or sizes.n_features <= MOST_WIDE_COLUMNS
    step = min(n_rows, part_rows(size, n_rows, CpuPrimalEngine.block_entries, n_threads))
    part = step * size * ((8 if is_wide else 4) + sizes.itemsize)
    if size > MOST_SHARED_COLUMNS:
        return part
    return n_threads * (part + 8 * size**2)


def _sample_bytes(sizes: RowSizes, n_threads: int) -> int:
    """Return what the sample takes, and the curvature that is made from it."""
    engine: Any = sizes
    n_rows = min(sizes.n_rows, sample_rows(engine, sizes.n_rows))
    share = n_rows / max(1, sizes.n_rows)
    n_stored, n_outputs = int(sizes.n_stored * share), sizes.n_outputs
    copied = 0 if share == 1.0 else int(sizes.row_bytes * share)
    # Parts from the chunks, beside these in one piece, are gone when the curvature is made.
    parts = copied if sizes.chunk_stored else 0
    taken = copied + (16 + 16 * n_outputs) * n_rows
    most = HOT_COLUMNS if sizes.is_sparse else MOST_DENSE_COLUMNS
    if sizes.n_features > most:  # rows as float64, their squares, both ways
        block = 8 * (2 * n_outputs + 4) * (HOT_COLUMNS + 1) ** 2
        return taken + max(parts, (40 * n_stored if sizes.is_sparse else 0) + block)
    size = sizes.n_features + 1
    coupled = size * n_outputs
    is_coupled = sizes.problem.loss.is_joint and coupled <= MOST_JOINT_COLUMNS
    square = 8 * (coupled if is_coupled else size) ** 2
    hessians = (1 if is_coupled else n_outputs) * square + 3 * square + 8 * size**2
    return taken + max(parts, hessians + _block_bytes(sizes, n_rows, n_threads))
