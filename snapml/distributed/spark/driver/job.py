"""One barrier stage that reads a DataFrame and trains on its rows."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from snapml.distributed.spark.driver import slots
from snapml.distributed.spark.driver.batch_size import small_batches
from snapml.distributed.spark.driver.cancellation import cancelled_on_error
from snapml.distributed.spark.driver.checkpoint_folder import own_folder
from snapml.distributed.spark.driver.errors import InvalidInput
from snapml.distributed.spark.driver.gpu_profile import gpu_profile
from snapml.distributed.spark.driver.partitions import in_partitions
from snapml.distributed.spark.driver.worker_python import check_worker_python
from snapml.distributed.spark.tasks import worker
from snapml.distributed.spark.tasks.batches import FEATURES, LABEL, OFFSET, WEIGHT, RowBatch
from snapml.distributed.spark.tasks.request import FitOutcome, FitRequest
from snapml.distributed.spark.tasks.sums import run as partial_sums
from snapml.distributed.tcp.values import from_bytes

__all__ = ["fit", "sums"]


def fit(dataframe: Any, request: FitRequest) -> list[FitOutcome]:
    """Fit the models of a request on the rows of a DataFrame, where they are.

    Parameters
    ----------
    dataframe : pyspark.sql.DataFrame
        The rows; classic or of Spark Connect.
    request : FitRequest
        What to fit.

    Returns
    -------
    list of FitOutcome
        One per pair of penalties.

    Raises
    ------
    InvalidInput
        If a column holds what it must not; with its name, and the content of a row.
    RuntimeError
        If the workers' Python cannot run this package, there are fewer slots than workers, or the
        stage cannot be run as a gang; or if its tasks are to train on GPUs, of which Spark knows
        none.
    pyspark.errors.PySparkException
        If tasks failed beyond Spark's retries.
    """
    session, resources = dataframe.sparkSession, {}
    check_worker_python(session)
    takes_gpus = request.use_gpu and request.device_ids is None
    if takes_gpus and (profile := gpu_profile(session)) is not None:
        resources["profile"] = profile
    n_workers = slots.n_tasks(session, request.n_workers, use_gpu=takes_gpus, **resources)
    rows = in_partitions(_selected(dataframe, request), n_workers)
    key = secrets.token_bytes(32)
    with own_folder(request.checkpoint_dir) as folder, cancelled_on_error(session):
        request = replace(request, n_workers=n_workers, checkpoint_dir=folder)
        task = partial(worker.run, request=request, key=key)
        answers = rows.mapInArrow(task, "number long, piece binary", barrier=True, **resources)
        # Spark starts a barrier stage again only where it ends in a shuffle.
        with small_batches(session):
            found = answers.repartition(1).collect()
    if not found:  # Spark starts no task where it sees by itself that there are no rows
        raise InvalidInput("expected at least one row, got an empty DataFrame")
    pieces = sorted((row["number"], bytes(row["piece"])) for row in found)
    answer = from_bytes(b"".join(piece for _, piece in pieces))
    if "error" in answer:
        raise InvalidInput(answer["error"])
    return [FitOutcome(**one) for one in answer["outcomes"]]


def sums(
    dataframe: Any, request: FitRequest, function: Callable[[RowBatch], np.ndarray]
) -> np.ndarray:
    """Return what a function of rows adds up to, where the rows are.

    Parameters
    ----------
    dataframe : pyspark.sql.DataFrame
        The rows; classic or of Spark Connect.
    request : FitRequest
        Names its columns.
    function : callable
        Of a `RowBatch`; returns an array of float64, of one shape for all. Goes to the tasks.

    Returns
    -------
    ndarray of float64
        Flat.

    Raises
    ------
    InvalidInput
        If there are no rows.
    pyspark.errors.PySparkException
        If a column holds what it must not; with its name, and the content of a row.
    """
    check_worker_python(dataframe.sparkSession)
    task = partial(partial_sums, request=request, sums=function)
    found = _selected(dataframe, request).mapInArrow(task, "sums binary").collect()
    if not found:
        raise InvalidInput("expected at least one row, got an empty DataFrame")
    total: np.ndarray = np.sum([np.frombuffer(row["sums"]) for row in found], axis=0)
    return total


def _selected(dataframe: Any, request: FitRequest) -> Any:
    """Return the columns that tasks read, as numbers, lists, or what vectors are made of."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import UserDefinedType

    from snapml.distributed.spark.driver.columns import quoted

    label = F.col(quoted(request.label_col)).cast("double")
    columns = []
    if request.offset_col is not None:
        offset = F.col(quoted(request.offset_col)).cast("double")
        columns.append(offset.alias(OFFSET))
        if request.model == "linear":
            label = label - offset
    columns.append(label.alias(LABEL))
    if request.weight_col is not None:
        columns.append(F.col(quoted(request.weight_col)).cast("double").alias(WEIGHT))
    if not isinstance(request.features_col, str):
        for k, name in enumerate(request.features_col):
            columns.append(F.col(quoted(name)).cast("double").alias(f"{FEATURES}{k}"))
    elif isinstance(dataframe.schema[request.features_col].dataType, UserDefinedType):
        columns.append(F.unwrap_udt(quoted(request.features_col)).alias(FEATURES))
    else:
        columns.append(F.col(quoted(request.features_col)).cast("array<double>").alias(FEATURES))
    return dataframe.select(*columns)
