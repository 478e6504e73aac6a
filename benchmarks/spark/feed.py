"""How long rows take from a DataFrame into the memory of tasks, without a fit."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from snapml.data.store.temporary_store import removing_temporary_stores
from snapml.distributed.spark.driver.batch_size import small_batches
from snapml.distributed.spark.driver.job import _selected
from snapml.distributed.spark.driver.partitions import in_partitions
from snapml.distributed.spark.tasks.batches import rows_of
from snapml.distributed.spark.tasks.local_rows import LocalRows
from snapml.distributed.spark.tasks.request import FitRequest

__all__ = ["feed_seconds"]

_LIMIT = 2**40


def feed_seconds(frame: Any, n_tasks: int) -> float:
    """Bring all rows to tasks, which hold them as for a fit, and let them go.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Columns ``label`` and ``features``.
    n_tasks : int
        As many as a fit has.

    Returns
    -------
    float
        Seconds.
    """
    start = time.perf_counter()
    request = FitRequest("binomial", "features", "label")
    rows = in_partitions(_selected(frame, request), n_tasks)
    with small_batches(frame.sparkSession):
        found = rows.mapInArrow(partial(_held, request=request), "n_rows long").collect()
    seconds = time.perf_counter() - start
    n_rows = sum(row["n_rows"] for row in found)
    if n_rows != frame.count():
        raise RuntimeError(f"expected {frame.count()} rows, got {n_rows}")
    return seconds


def _held(batches: Iterable[Any], request: FitRequest) -> Iterator[Any]:
    import pyarrow as pa

    with removing_temporary_stores():
        parts = (part for batch in batches for part in rows_of(batch, request))
        rows = LocalRows(parts, np.dtype(np.float64), _LIMIT)
    yield pa.RecordBatch.from_pydict({"n_rows": [rows.n_rows]})
