"""Of how many rows a curvature is made, and what that costs beside a read of the data."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from snapml.solvers.engine import PrimalEngine
from snapml.solvers.newton.curvature import MOST_JOINT_COLUMNS
from snapml.solvers.rows.scaled_rows import MOST_WIDE_COLUMNS

__all__ = [
    "CHEAP_COLUMNS",
    "products_of_dense_factor",
    "products_of_factors",
    "reads_of_hessian",
    "sample_rows",
]

# Up to this many columns a Hessian of 10,000 rows costs less than the reads that it saves
# (benchmarks/results/passes.csv).
_MODERATE_COLUMNS = 640
# Up to this many columns a Hessian of all rows costs no more than a few reads of them.
CHEAP_COLUMNS = 128
# How far from the minimum, beside the objective, fits end: under a weak penalty a certificate asks
# for a point far nearer than the tolerance that it proves.
_TOL = 1e-10
# Hessians and passes over a sample that a start on a device takes, and nanoseconds of the host for
# each row that is drawn.
_START_HESSIANS, _START_PASSES, _DRAWN_ROW_NS = 2, 8, 20.0


class _Costs(NamedTuple):
    """Nanoseconds of an entry; ratios matter, and those to a factor of two.

    Attributes
    ----------
    dense, sparse : float
        In a read of the rows.
    scaled : float
        In a scaled copy of them.
    product, sparse_product : float
        In the product of that, for each column; in that of sparse rows, for each entry of the row.
    read : float
        Of a read, however short.
    factor : float
        Of a factor, for each of its columns, however few.
    """

    dense: float
    sparse: float
    scaled: float
    product: float
    sparse_product: float
    read: float
    factor: float


_OF_A_CORE = _Costs(0.35, 1.2, 5.0, 0.02, 0.5, 0.0, 0.0)
# An H200's (benchmarks/results/gpu_check_h200.csv), with products in float64, and in TF32.
# Sparse rows are multiplied as dense ones there, and a short read is the host's time to ask for it.
_OF_A_DEVICE = _Costs(0.002, 0.018, 0.006, 5e-5, math.inf, 5e5, 4e3)
_COARSE_PRODUCT_NS = 8e-6
# Reads for one output that a product with the Hessian of several takes, for each output: an entry
# is fetched once for all of them.
_READS_A_PRODUCT = 0.6


def _costs(engine: PrimalEngine) -> _Costs:
    if engine.device is None:
        return _OF_A_CORE
    if engine.dtype == np.float64 or engine.n_features <= MOST_WIDE_COLUMNS:
        return _OF_A_DEVICE
    return _OF_A_DEVICE._replace(product=_COARSE_PRODUCT_NS)


def sample_rows(engine: PrimalEngine, total: int) -> int:
    """Return how many of all shards' rows the curvature is made from at first.

    On a host enough for a good one (20 a column), and as many as cost no more than a read of the
    data. On a device, where products cost less, as many dense rows as make the whole fit shortest.

    Parameters
    ----------
    engine : PrimalEngine
        A shard: its type, columns, outputs and place count, on all shards the same.
    total : int
        Rows of all shards.

    Returns
    -------
    int
        `total` where a sample would not be much less.
    """
    n_features = engine.n_features
    if engine.device is not None and not engine.is_sparse:
        return _quickest_sample(engine, total)
    if engine.is_sparse and n_features > _MODERATE_COLUMNS:
        wanted = 20_000
    else:
        affordable = 10_000 if n_features <= _MODERATE_COLUMNS else 6_000
        wanted = min(20 * n_features, max(affordable, 2 * n_features))
        if engine.is_sparse:
            wanted *= 2  # rare columns are in few of them
        elif n_features <= CHEAP_COLUMNS:
            wanted = max(wanted, total // 32)
    wanted = max(wanted, 2_000, 20 * engine.n_outputs)
    if (1.0 if n_features > 4 * CHEAP_COLUMNS else 2.0) * wanted > total:
        return total
    return wanted


def _quickest_sample(engine: PrimalEngine, total: int) -> int:
    """Return the sample whose start, and the reads after it, take least time together."""
    n_features, costs = engine.n_features, _costs(engine)
    least = max(2_000, 20 * engine.n_outputs, 2 * n_features)
    sizes = [least << k for k in range(40) if 2 * (least << k) <= total]
    if not sizes:
        return total
    n_hessians = n_outputs = engine.n_outputs
    if engine.problem.loss.is_joint and n_outputs * (n_features + 1) <= MOST_JOINT_COLUMNS:
        n_hessians = n_outputs * (n_outputs + 1) // 2  # of all pairs of classes
    row_ns = n_features * costs.dense
    read_ns = total * row_ns + costs.read

    def seconds(n_rows: int) -> float:
        hessian_ns = n_rows * n_features * (costs.scaled + costs.product * n_features)
        start_ns = _START_HESSIANS * n_hessians * hessian_ns
        start_ns += n_rows * (_START_PASSES * row_ns + _DRAWN_ROW_NS)
        return start_ns + read_ns * _reads_after(n_rows / max(1, n_features))

    return min(sizes, key=seconds)


def _reads_after(rows_a_column: float) -> float:
    """Return how many reads it takes from the minimum over a sample to that over all rows.

    It begins at half a column's share of the sample, and each step leaves a column's share.
    """
    return 1.0 + max(0.0, math.log(0.5 / (_TOL * rows_a_column)) / math.log(rows_a_column))


def reads_of_hessian(engine: PrimalEngine, n_rows: int, total: int, n_stored: int) -> float:
    """Return how many reads of the data take as long as the Hessian of some rows.

    Parameters
    ----------
    engine : PrimalEngine
        A shard of the data.
    n_rows : int
        Rows of all shards whose Hessian is to be made.
    total, n_stored : int
        Rows and stored entries of all shards.

    Returns
    -------
    float
        About.
    """
    n_columns, costs = engine.n_features, _costs(engine)
    entries = max(1, n_stored) / max(1, total)  # of a row
    scaled = n_columns * (costs.scaled + costs.product * n_columns)
    read = entries * (costs.sparse if engine.is_sparse else costs.dense)
    if engine.is_sparse:
        scaled = min(scaled, entries * entries * costs.sparse_product)
    return n_rows * scaled / (max(1, total) * read + costs.read)


def products_of_factors(engine: PrimalEngine, total: float, n_stored: float) -> float:
    """Return how many products with the Hessian take as long as a Gram matrix and its factors.

    Parameters
    ----------
    engine : PrimalEngine
        A shard of the data.
    total, n_stored : float
        Rows and stored entries of all shards.

    Returns
    -------
    float
        About; a factor for each output.
    """
    n_columns, n_outputs, costs = engine.n_features, engine.n_outputs, _costs(engine)
    reads = reads_of_hessian(engine, int(total), int(total), int(n_stored))
    read_ns = n_stored * (costs.sparse if engine.is_sparse else costs.dense) + costs.read
    return _products(reads, read_ns, n_columns, n_outputs, costs)


def products_of_dense_factor(n_rows: int, n_features: int, n_outputs: int = 1) -> float:
    """Return how many products with the Hessian of dense rows in memory take as long as its factor.

    Parameters
    ----------
    n_rows, n_features : int
        Of the rows.
    n_outputs : int, default=1
        Of a product, and factors to make.

    Returns
    -------
    float
        About, with the Gram matrix that is factored.
    """
    costs = _OF_A_CORE
    reads = (costs.scaled + costs.product * n_features) / costs.dense
    return _products(reads, n_rows * n_features * costs.dense, n_features, n_outputs, costs)


def _products(reads: float, read_ns: float, n_columns: int, n_outputs: int, costs: _Costs) -> float:
    """Return the products that take as long as so many reads for a Hessian, and its factors."""
    factor_ns = n_columns * (costs.product * n_columns * n_columns / 3.0 + costs.factor)
    return (reads + n_outputs * factor_ns / read_ns) / (_READS_A_PRODUCT * n_outputs)
