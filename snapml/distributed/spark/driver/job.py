"""One barrier stage that reads a DataFrame and trains on its rows."""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import partial
from typing import Any

from snapml.distributed.spark.driver import slots
from snapml.distributed.spark.driver.batch_size import small_batches
from snapml.distributed.spark.driver.cancellation import cancelled_on_error
from snapml.distributed.spark.driver.checkpoint_folder import own_folder
from snapml.distributed.spark.driver.errors import InvalidInput
from snapml.distributed.spark.driver.gpu_profile import gpu_profile
from snapml.distributed.spark.driver.partitions import in_partitions
from snapml.distributed.spark.driver.worker_python import check_worker_python
from snapml.distributed.spark.tasks import worker
from snapml.distributed.spark.tasks.batches import FEATURES, LABEL, WEIGHT
from snapml.distributed.spark.tasks.request import FitOutcome, FitRequest
from snapml.distributed.tcp.values import from_bytes

__all__ = ["fit"]


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


def _selected(dataframe: Any, request: FitRequest) -> Any:
    """Return the columns that tasks read, as numbers, lists, or what vectors are made of."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import UserDefinedType

    from snapml.distributed.spark.driver.columns import quoted

    columns = [F.col(quoted(request.label_col)).cast("double").alias(LABEL)]
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
