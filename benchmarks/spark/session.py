"""One local session for both libraries, and the DataFrames that they are given."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_matrix

from benchmarks.records import REPOSITORY_ROOT

__all__ = ["cached_frame", "make_session", "save_rows"]

_ROWS_PER_GROUP = 50_000
# Spark's own layout of a vector (`VectorUDT.sqlType`), so that nothing has to be converted.
_VECTOR = pa.struct(
    {
        "type": pa.int8(),
        "size": pa.int32(),
        "indices": pa.list_(pa.int32()),
        "values": pa.list_(pa.float64()),
    }
)


def make_session(n_slots: int, memory: str) -> Any:
    """Start Spark in this process' Java, with workers on this machine.

    Parameters
    ----------
    n_slots : int
        Tasks that run at once.
    memory : str
        Of Java, like "6g".

    Returns
    -------
    pyspark.sql.SparkSession
        Without a web page or progress bars.
    """
    from pyspark.sql import SparkSession

    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise SystemExit("no Java: install a JRE of version 17, or set JAVA_HOME")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    paths = [str(REPOSITORY_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.host": "localhost",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(n_slots),
        # A partition for each file, however small.
        "spark.sql.files.openCostInBytes": "1g",
        "spark.sql.files.maxPartitionBytes": "1g",
    }
    builder = SparkSession.builder.master(f"local[{n_slots}]").appName("benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def save_rows(folder: Path, X: Any, y: np.ndarray, n_files: int) -> None:
    """Write rows as Parquet files of vectors and labels, as many to each.

    Parameters
    ----------
    folder : pathlib.Path
        Gets the files.
    X : ndarray or csr_matrix of shape (n_rows, n_features)
        The rows.
    y : ndarray of shape (n_rows,)
        Labels.
    n_files : int
        How many files.
    """
    for number, rows in enumerate(np.array_split(np.arange(len(y)), n_files)):
        table = _table(X[rows[0] : rows[-1] + 1], y[rows])
        path = folder / f"part-{number:05d}.parquet"
        pq.write_table(table, path, row_group_size=_ROWS_PER_GROUP, compression="none")


def _table(X: Any, y: np.ndarray) -> pa.Table:
    n_rows, n_features = X.shape
    if isinstance(X, csr_matrix):
        offsets = pa.array(X.indptr.astype(np.int32))
        values = pa.ListArray.from_arrays(offsets, pa.array(X.data.astype(np.float64)))
        indices = pa.ListArray.from_arrays(offsets, pa.array(X.indices.astype(np.int32)))
        sizes = pa.array(np.full(n_rows, n_features, np.int32))
        kinds = np.zeros(n_rows, np.int8)
    else:
        offsets = pa.array(np.arange(n_rows + 1, dtype=np.int32) * n_features)
        values = pa.ListArray.from_arrays(offsets, pa.array(X.ravel().astype(np.float64)))
        indices = pa.nulls(n_rows, pa.list_(pa.int32()))
        sizes = pa.nulls(n_rows, pa.int32())
        kinds = np.ones(n_rows, np.int8)
    parts = [pa.array(kinds), sizes, indices, values]
    vectors = pa.StructArray.from_arrays(parts, fields=list(_VECTOR))
    return pa.table({"label": pa.array(y.astype(np.float64)), "features": vectors})


def cached_frame(session: Any, folder: Path) -> Any:
    """Return the rows of `save_rows`, in memory.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Whose frame it is.
    folder : pathlib.Path
        With the files.

    Returns
    -------
    pyspark.sql.DataFrame
        Columns ``label`` and ``features``; a partition for each file.
    """
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql.types import DoubleType, StructType

    schema = StructType().add("label", DoubleType()).add("features", VectorUDT())
    frame = session.read.schema(schema).parquet(str(folder)).cache()
    frame.count()
    return frame
