"""How much of a device's memory a fit takes, told before anything is copied there."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapml.data import ChunkedMatrix, Dataset, DenseMatrix
from snapml.kernels import DenseRows, Device, ResidentMatrix
from snapml.kernels.losses.fused_pass import DensePassShape
from snapml.problems import Problem
from snapml.solvers.dual_ascent.gpu_engine import SAMPLED_ROWS
from snapml.solvers.fit_settings import Settings
from snapml.solvers.newton.curvature import HOT_COLUMNS, MOST_DENSE_COLUMNS, MOST_JOINT_COLUMNS
from snapml.solvers.newton.preconditioners import KroneckerCurvature
from snapml.solvers.newton.quasi_newton import suits_products
from snapml.solvers.newton.sample_size import sample_rows
from snapml.solvers.rows.device_dataset import BLOCK_ENTRIES
from snapml.solvers.rows.scaled_rows import MOST_WIDE_COLUMNS
from snapml.solvers.rows.streamed_dataset import CHUNK_BYTES

__all__ = [
    "check_limit",
    "check_room",
    "column_bytes",
    "dual_bytes",
    "primal_bytes",
    "room_for_rows",
    "row_bytes",
]

_logger = logging.getLogger("snapml")

# Parts that the blocks of a launch leave behind, and vectors of the columns.
_PARTS_BYTES = 2**19
_BYTES_OF_COLUMN = 80
# What the continuation of a hinge keeps of a row beside its margins: two stages' dual points and
# offsets, and what the first are made of.
_BYTES_OF_CORNER = 64


def check_room(devices: Sequence[Device], needed: Sequence[int]) -> None:
    """Refuse what cannot fit, before anything is copied.

    Parameters
    ----------
    devices : sequence of Device
        One a shard; shards may share one.
    needed : sequence of int
        Bytes that each shard takes.

    Raises
    ------
    MemoryError
        With both sizes.
    """
    for device in {id(device): device for device in devices}.values():
        pairs = zip(devices, needed, strict=False)
        n_bytes = sum(size for other, size in pairs if other is device)
        free = device.free_bytes()
        if n_bytes > free:
            raise MemoryError(
                f"the fit needs {n_bytes / 1e9:.3g} GB of {device.description}, which has "
                f"{free / 1e9:.3g} GB free; use more devices, float32, or device_ids=None"
            )


def check_limit(dataset: Dataset, n_shards: int, settings: Settings) -> None:
    """Refuse a limit below the rows where these cannot stream.

    Parameters
    ----------
    dataset : Dataset
        All rows, labels and weights.
    n_shards : int
        Into how many the rows go.
    settings : Settings
        Says how many bytes rows may take.

    Raises
    ------
    MemoryError
        With both sizes, and what streams.
    """
    limit, n_bytes = settings.memory_limit, row_bytes(dataset, n_shards)
    if limit is not None and n_bytes > limit and not isinstance(dataset.matrix, ResidentMatrix):
        raise MemoryError(
            f"memory_limit allows rows {limit:,} bytes of each GPU, and they take {n_bytes:,}: "
            "this version keeps all of them there for coordinate ascent and for an L1 penalty; "
            "rows of other losses stream with an L2 penalty and solver='auto', those of the hinge "
            "with solver='pqn'"
        )


def room_for_rows(
    devices: Sequence[Device], dataset: Dataset, needed: int, rest: int, settings: Settings
) -> int | None:
    """Return what rows may take of each device where they stream, None where all are copied.

    Parameters
    ----------
    devices : sequence of Device
        One a shard; shards may share one.
    dataset : Dataset
        All rows, labels and weights.
    needed : int
        Bytes that each shard takes with all its rows on its device.
    rest : int
        The same without rows, which stream.
    settings : Settings
        Says how many bytes rows may take.

    Returns
    -------
    int or None
        Bytes.
    """
    if isinstance(dataset.matrix, ResidentMatrix):
        return None  # the rows are on the device
    free = min(device.free_bytes() // list(devices).count(device) for device in devices)
    of_rows = row_bytes(dataset, len(devices))
    limit = of_rows if settings.memory_limit is None else settings.memory_limit
    is_stored = isinstance(dataset.matrix, ChunkedMatrix)
    if not is_stored and of_rows <= limit and needed <= free:
        return None
    room = max(0, min(limit, free - rest))
    _logger.info(
        "rows of %.3g GB have %.3g GB on %s: the rest is sent there in each pass",
        of_rows / 1e9,
        room / 1e9,
        devices[0].description,
    )
    return room


def column_bytes(dataset: Dataset) -> int:
    """Return what working-set descent takes of one device before it knows its working sets.

    Their columns come on top: of a few columns next to nothing, of all of them the rows again.

    Parameters
    ----------
    dataset : Dataset
        Rows, labels and weights.

    Returns
    -------
    int
        Bytes.
    """
    shard = _Shard.of(dataset, 1)
    # Compressed rows are there twice: for products, and to pack columns from.
    copies = 2 if shard.is_sparse else 1
    return copies * shard.rows + shard.targets + 64 * shard.n_rows + _fixed_bytes(shard, 1)


def dual_bytes(dataset: Dataset, n_shards: int = 1) -> int:
    """Return what coordinate ascent takes of one of several equal shards.

    Parameters
    ----------
    dataset : Dataset
        All rows, labels and weights.
    n_shards : int, default=1
        Into how many the rows go.

    Returns
    -------
    int
        Bytes, at least the peak.
    """
    shard = _Shard.of(dataset, n_shards)
    # States, their copy, norms; margins, and the order of the rows or the dual variables.
    of_rows = shard.n_rows * (3 * shard.itemsize + 16)
    # The rows that tell how many may step at once, and where compressed ones' entries are.
    sample = shard.part(min(1.0, SAMPLED_ROWS / max(1, shard.n_rows)))
    of_rows = max(of_rows, sample.rows + (40 * sample.n_stored if shard.is_sparse else 0))
    return shard.rows + shard.targets + of_rows + _fixed_bytes(shard, 1)


def row_bytes(dataset: Dataset, n_shards: int = 1) -> int:
    """Return what the rows of one of several equal shards take.

    Parameters
    ----------
    dataset : Dataset
        All rows, labels and weights.
    n_shards : int, default=1
        Into how many the rows go.

    Returns
    -------
    int
        Bytes.
    """
    return _Shard.of(dataset, n_shards).rows


def primal_bytes(
    device: Device,
    problem: Problem,
    dataset: Dataset,
    n_shards: int = 1,
    *,
    streams: bool = False,
) -> int:
    """Return what the quasi-Newton method takes of one of several equal shards.

    A sample of the rows that grows during the fit, because it shows too little, is not foreseen.

    Parameters
    ----------
    device : Device
        Whose shared memory decides whether dense rows are read once or twice.
    problem : Problem
        What to solve.
    dataset : Dataset
        All rows, labels and weights.
    n_shards : int, default=1
        Into how many the rows go.
    streams : bool, default=False
        Whether rows stream to the device: they do not count then, and are worked on chunk by chunk.

    Returns
    -------
    int
        Bytes, at least the peak.
    """
    shard = _Shard.of(dataset, n_shards)
    part = shard.part(min(1.0, CHUNK_BYTES / max(1, shard.rows))) if streams else shard
    n_outputs = problem.n_outputs(dataset.labels.shape)
    dtype = np.dtype(f"f{shard.itemsize}")
    sizes: Any = _Sizes(problem, shard.n_features, shard.is_sparse, n_outputs, dtype, device)
    margins = 8 * n_outputs * shard.n_rows
    resident = shard.targets + 2 * margins + _fixed_bytes(shard, n_outputs)
    if not problem.loss.is_smooth:
        resident += (_BYTES_OF_CORNER + shard.itemsize) * shard.n_rows
    resident += 0 if streams else shard.rows
    making = _ranking_bytes(part) if shard.is_sparse else 0
    of_part = 16 * n_outputs * part.n_rows
    is_read_once = DensePassShape.fits(device, shard.n_features, n_outputs, shard.itemsize)
    of_pass = 0 if is_read_once and not shard.is_sparse else of_part
    work = max(of_pass, 16 * part.n_rows)  # norms and weights of the first pass
    if suits_products(sizes, shard.n_rows * n_shards):
        products = margins + of_part + 16 * part.n_rows + _squares_bytes(part)
        if KroneckerCurvature.suits(sizes):  # steps of few products do without
            square, (moments, gram) = 8 * (shard.n_features + 1) ** 2, _scaled_bytes(part)
            factors = 3 * margins + max(2 * square + gram, (n_outputs + 7) * square)
            products = max(products, moments, factors)
        return resident + max(making, work, products)
    n_rows = shard.n_rows * n_shards
    wanted = sample_rows(sizes, n_rows) if problem.loss.is_smooth else n_rows
    sample = shard.part(min(1.0, wanted / max(1, n_rows)))
    if sample.n_rows < shard.n_rows:
        resident += sample.rows + sample.targets + 16 * n_outputs * sample.n_rows
    if shard.n_features > (HOT_COLUMNS if shard.is_sparse else MOST_DENSE_COLUMNS):
        return resident + max(making, work, _hot_bytes(sample, n_outputs))
    moments, gram, square = *_scaled_bytes(sample), _hessian_bytes(sizes)
    n_factors = 1 if square > 8 * (shard.n_features + 1) ** 2 else n_outputs
    # Former factors and new Hessians, with what forms or factors one of them.
    hessians = 2 * n_factors * square + max(2 * square + gram, 6 * square)
    curvatures = 8 * n_outputs * sample.n_rows + 32 * sample.n_rows
    late = max(work, curvatures + hessians)
    return resident + max(n_factors * square + making, moments, late)


@dataclass(frozen=True)
class _Sizes:
    """What the choice of steps looks at (parts of the protocol `PrimalEngine`)."""

    problem: Problem
    n_features: int
    is_sparse: bool
    n_outputs: int
    dtype: np.dtype
    device: Device


@dataclass(frozen=True)
class _Shard:
    """Sizes of some rows; `rows` and `targets` in bytes."""

    n_rows: int
    n_features: int
    n_stored: int
    is_sparse: bool
    itemsize: int
    index_size: int
    rows: int
    targets: int

    @classmethod
    def of(cls, dataset: Dataset, n_shards: int) -> _Shard:
        """Return the largest of equal shards."""
        matrix: Any = dataset.matrix
        if isinstance(matrix, ChunkedMatrix):
            return cls._of_store(dataset, matrix).part(1.0 / max(1, n_shards))
        is_there = isinstance(matrix, ResidentMatrix)
        rows = matrix.rows if is_there else matrix
        is_sparse = not isinstance(rows, DenseMatrix | DenseRows)
        if is_sparse:
            # Ranks in the place of column numbers are a copy of what is there.
            arrays = [rows.indptr, rows.indices, rows.values]
        else:
            arrays = [] if is_there else [rows.values]
        whole = cls(
            matrix.shape[0],
            matrix.shape[1],
            matrix.n_stored,
            is_sparse,
            matrix.dtype.itemsize,
            rows.indices.dtype.itemsize if is_sparse else 0,
            sum(array.nbytes for array in arrays if array is not None),
            _target_bytes(dataset),
        )
        return whole.part(1.0 / max(1, min(n_shards, whole.n_rows)))

    @classmethod
    def _of_store(cls, dataset: Dataset, matrix: ChunkedMatrix) -> _Shard:
        index_size = matrix.index_dtype.itemsize if matrix.index_dtype is not None else 0
        of_entry = index_size + (matrix.dtype.itemsize if matrix.has_values else 0)
        return cls(
            matrix.shape[0],
            matrix.shape[1],
            matrix.n_stored,
            matrix.is_sparse,
            matrix.dtype.itemsize,
            index_size,
            of_entry * matrix.n_stored + index_size * (matrix.shape[0] + 1),
            _target_bytes(dataset),
        )

    def part(self, share: float) -> _Shard:
        """Return the sizes of a share of the rows."""
        counts = (self.n_rows, self.n_stored, self.rows, self.targets)
        n_rows, n_stored, rows, targets = (int(np.ceil(count * share)) for count in counts)
        kinds = (self.is_sparse, self.itemsize, self.index_size)
        return _Shard(n_rows, self.n_features, n_stored, *kinds, rows, targets)


def _target_bytes(dataset: Dataset) -> int:
    given = (dataset.labels, dataset.row_weights, dataset.offsets)
    return sum(array.nbytes for array in given if array is not None)


def _fixed_bytes(shard: _Shard, n_outputs: int) -> int:
    return _PARTS_BYTES + _BYTES_OF_COLUMN * n_outputs * (shard.n_features + 1)


def _ranking_bytes(shard: _Shard) -> int:
    """Return what it takes beside compressed rows to number their columns by frequency."""
    narrowed = 4 * shard.n_stored if shard.index_size == 8 else 0
    return narrowed + 8 * (shard.n_rows + 1) + 48 * (shard.n_features + 1)


def _hot_bytes(sample: _Shard, n_outputs: int) -> int:
    """Return what the block of the heaviest columns needs: rows laid out, Grams and factors."""
    size = HOT_COLUMNS + 1
    n_rows = min(sample.n_rows, BLOCK_ENTRIES // size)
    entries = 40 * (sample.n_stored * n_rows // max(1, sample.n_rows))
    return (16 + sample.itemsize) * n_rows * size + entries + 8 * (2 * n_outputs + 4) * size**2


def _squares_bytes(shard: _Shard) -> int:
    """Return what sums of squared entries of dense rows need: blocks in float64."""
    if shard.is_sparse:
        return 0
    entries = shard.n_rows * shard.n_features
    return 16 * entries if entries <= BLOCK_ENTRIES else 24 * BLOCK_ENTRIES


def _hessian_bytes(sizes: _Sizes) -> int:
    """Return what one Hessian takes: of an output, or of all where the softmax couples them."""
    size, count = sizes.n_features + 1, sizes.n_outputs
    if sizes.problem.loss.is_joint and count * size <= MOST_JOINT_COLUMNS:
        size *= count
    return 8 * size * size


def _scaled_bytes(sample: _Shard) -> tuple[int, int]:
    """Return what blocks of rows in scaled columns take: for their moments, for a Gram matrix."""
    size = sample.n_features + 1
    is_wide = sample.itemsize == 8 or sample.n_features <= MOST_WIDE_COLUMNS
    n_rows = min(sample.n_rows, max(BLOCK_ENTRIES // size, 2 * size))
    taken = sample.itemsize * n_rows * size
    if sample.is_sparse:  # and their entries' numbers, places and rows
        taken += 40 * (sample.n_stored * n_rows // max(1, sample.n_rows))
    several = 2 if n_rows < sample.n_rows else 1  # the last block lives until the next is made
    copied = taken if sample.is_sparse else 0  # kernels read dense rows where they are
    return several * copied, (8 if is_wide else 4) * n_rows * size + copied
