"""What a task of the barrier stage does: read its rows, meet the others, train, answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from snapml.data import Dataset
from snapml.data.growing_array import can_share
from snapml.data.memory_limit import resolve_memory_limit
from snapml.data.store.temporary_store import removing_temporary_stores
from snapml.distributed.checkpoints import Checkpoints
from snapml.distributed.ranks import RankError, Ranks
from snapml.distributed.spark.tasks import gpus
from snapml.distributed.spark.tasks.batches import rows_of
from snapml.distributed.spark.tasks.cards import (
    Card,
    Contact,
    errors_of,
    own_versions,
    team_name,
    version_errors,
)
from snapml.distributed.spark.tasks.local_rows import LocalRows
from snapml.distributed.spark.tasks.meeting import Meeting
from snapml.distributed.spark.tasks.objective import Columns, loss_of, outcome_of, problem_of
from snapml.distributed.spark.tasks.request import FitOutcome, FitRequest
from snapml.distributed.spark.tasks.team import Team
from snapml.distributed.tcp import Listener, Mesh
from snapml.distributed.tcp.communicator import TcpCommunicator
from snapml.distributed.tcp.values import to_bytes
from snapml.solvers.communicator import Communicator
from snapml.solvers.fit_settings import Settings, Start
from snapml.solvers.observer import SILENT, Observer
from snapml.solvers.plan import choice
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.stopping import StoppingRule
from snapml.solvers.threads import multiply_blas_threads

__all__ = ["ANSWER_PIECE", "run"]

ANSWER_PIECE = 64 * 2**20
"""Bytes of an answer in one row: a row of Spark's must stay below 2 GiB."""

# Spark's LinearRegression(solver="auto") solves normal equations up to so many columns.
_MOST_NORMAL_COLUMNS = 4096
# What the user's data or parameters have caused: another try would end alike.
_ANSWERED = (ValueError, TypeError, MemoryError, NotImplementedError, ArithmeticError)


def run(batches: Iterable[Any], request: FitRequest, key: bytes) -> Iterator[Any]:
    """Train on the rows of a task together with the other tasks.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        The rows.
    request : FitRequest
        What to fit.
    key : bytes
        The job's secret.

    Yields
    ------
    pyarrow.RecordBatch
        The answer, from the first task: its bytes in rows.

    Raises
    ------
    PeerError, OSError
        Which another try may not meet: Spark starts the stage again.
    """
    import pyarrow as pa
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    with removing_temporary_stores():
        answer = _answer(batches, request, key, context)
    if context.partitionId() != 0:
        return
    data = to_bytes(answer)
    for first in range(0, len(data), ANSWER_PIECE):
        piece = data[first : first + ANSWER_PIECE]
        yield pa.RecordBatch.from_arrays(
            [pa.array([first // ANSWER_PIECE], pa.int64()), pa.array([piece], pa.binary())],
            names=["number", "piece"],
        )


def _answer(
    batches: Iterable[Any], request: FitRequest, key: bytes, context: Any
) -> dict[str, Any]:
    rank = context.partitionId()
    hosts = [info.address.rsplit(":", 1)[0] for info in context.getTaskInfos()]
    with ExitStack() as stack:
        to_all, to_shards, to_team = (_listener(hosts[rank], stack) for _ in range(3))
        addresses = to_all.address, to_shards.address, to_team.address
        contact = Contact(*addresses, own_versions())
        meeting = Meeting(context, contact, to_all, key, request.timeout)
        stack.callback(meeting.close)
        rows, devices, error = _read(batches, request, context, hosts)
        stack.callback(gpus.release, devices)
        contacts = meeting.contacts()
        if errors := version_errors(contacts):
            return {"error": errors[0]}
        name = None if devices else team_name(rows, hosts.count(hosts[rank]))
        n_features = None if rows is None else rows.n_features
        cards = meeting.cards(Card(error, n_features, name))
        errors = errors_of(cards, request)
        if rows is None or errors:
            return {"error": errors[0]}
        team = Team(cards, contacts, rank, to_team, key, request.timeout)
        stack.callback(team.close)
        if not team.is_first:
            team.hand_over(rows)
            return {}
        n_threads = (request.n_threads or context.cpus()) * team.size
        request = replace(request, n_threads=n_threads)
        mesh = Mesh(to_shards, team.shard_addresses, team.shard, key, request.timeout)
        stack.callback(mesh.close)  # ranks that break off in a sum leave it open
        with team.waiting(), multiply_blas_threads(team.size):
            return _outcome_on_all(rows, request, TcpCommunicator(mesh), devices, team)


def _read(
    batches: Iterable[Any], request: FitRequest, context: Any, hosts: list[str]
) -> tuple[LocalRows | None, tuple[int, ...], str | None]:
    """Return the rows, the task's GPUs, and what rows or parameters have caused."""
    rows, error = None, None
    devices: tuple[int, ...] = ()
    rank = context.partitionId()
    try:
        devices = gpus.placed(request, context.resources(), hosts, rank)
        dtype = np.dtype(np.float32 if request.float32 else np.float64)
        own = (part for batch in batches if batch.num_rows for part in rows_of(batch, request))
        n_beside = hosts.count(hosts[rank])
        limit, name = _memory_limit(request, n_beside), f"featuresCol={request.features_col!r}"
        is_shared = n_beside > 1 and not devices and can_share()
        rows = LocalRows(own, dtype, limit, name, is_shared)
    except _ANSWERED as failure:
        error = _text(failure)
    for _ in batches:  # Spark waits for those that read nothing
        pass
    return rows, devices, error


def _listener(host: str, stack: ExitStack) -> Listener:
    listener = Listener(host)
    stack.callback(listener.close)
    return listener


def _outcome_on_all(
    rows: LocalRows, request: FitRequest, ranks: Ranks, devices: tuple[int, ...], team: Team
) -> dict[str, Any]:
    """Return the models, or what the data or parameters of any task have caused."""
    try:
        team.take_over(rows, request.n_threads or 1)
        with gpus.in_spark_terms(devices):
            outcomes = [asdict(one) for one in _fit(rows, team.n_features, request, ranks, devices)]
        ranks.finish()
    except RankError as failure:
        return {"error": str(failure)}
    except BaseException as failure:
        # NaN in one task's rows is an overflow in the sums of all.
        is_cause = isinstance(failure.__context__, NonFiniteError)
        cause = ranks.fail(failure, is_cause=is_cause)
        if not isinstance(failure, _ANSWERED):
            raise
        return {"error": _text(failure) if cause is None else str(cause)}
    finally:
        ranks.close()
    return {"outcomes": outcomes}


def _memory_limit(request: FitRequest, n_beside: int) -> int:
    """Return the bytes of rows in memory, which tasks on one machine share where nobody says."""
    if request.memory_limit is not None:
        return int(request.memory_limit)
    return resolve_memory_limit("auto") // n_beside


def _text(error: BaseException) -> str:
    return str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"


def _fit(
    rows: LocalRows,
    n_features: int,
    request: FitRequest,
    communicator: Communicator,
    devices: tuple[int, ...] = (),
) -> list[FitOutcome]:
    columns = _columns(rows, n_features, request, communicator)
    matrix = rows.matrix(communicator, n_features, columns.scale, request.n_threads or 1)
    loss = loss_of(request, columns.n_classes)
    labels = rows.labels()
    if loss.labels == "sign":
        labels = 2.0 * labels - 1.0
    weights = rows.weights()
    shares = None if weights is None else (weights / columns.weight_sum).astype(matrix.dtype)
    weight = 1.0 / columns.weight_sum if shares is None else 1.0
    labels = labels.astype(matrix.dtype)
    observer = _observer(request, communicator, devices)
    rule = StoppingRule(tol=request.tol, max_iter=request.max_iter, observer=observer)
    settings = Settings(request.solver, request.n_threads, device_ids=devices)
    outcomes, start = [], Start()
    for number in range(len(request.reg_params)):
        problem, unit = problem_of(request, number, columns)
        own = None if shares is None else shares / shares.dtype.type(unit)
        dataset = Dataset(matrix, labels, own, weight / unit)
        result = choice.fit(problem, dataset, communicator, rule, settings, start)
        outcomes.append(outcome_of(problem, unit, result, columns))
        start = Start(coef=result.point(problem.bias_column))
    return outcomes


def _observer(
    request: FitRequest, communicator: Communicator, devices: tuple[int, ...]
) -> Observer:
    """Return what keeps the state of the fit; an attempt that Spark starts again finds it."""
    if request.checkpoint_dir is None:
        return SILENT
    if len(devices) > 1:
        raise NotImplementedError(
            f"checkpointDir: expected one GPU a task, got {len(devices)}: use as many numWorkers"
        )
    path = Path(request.checkpoint_dir) / "state"
    every = f"{request.checkpoint_interval:f}s"
    try:
        return Checkpoints(path, every, {}, communicator, begins_anew=True)
    except (FileNotFoundError, PermissionError) as error:
        raise ValueError(
            "checkpointDir: expected a folder that the driver and all executors see and may write "
            f"into, got on an executor: {error}"
        ) from error


def _columns(
    rows: LocalRows, n_features: int, request: FitRequest, communicator: Communicator
) -> Columns:
    """Agree on classes, scales and sums."""
    n_classes = 0 if request.model == "linear" else _n_classes(rows, request, communicator)
    n_samples = int(sum(communicator.exchange(rows.n_rows)))
    label_moments = rows.label_moments()
    weight_sum = float(sum(communicator.exchange(label_moments.weight)))
    if not weight_sum > 0.0:
        raise ValueError(f"weightCol={request.weight_col!r}: expected a positive sum, got 0")
    is_unbiased = request.deviations == "sample"
    if request.deviations == "auto":
        is_unbiased = n_features > _MOST_NORMAL_COLUMNS
    scale = None
    if request.standardization:
        moments = rows.moments(n_features, request.n_threads or 1)
        variance = moments.agreed(communicator, is_unbiased=is_unbiased)[1]
        with np.errstate(divide="ignore"):
            scale = np.where(variance > 0.0, 1.0 / np.sqrt(variance), 0.0)
    labels = label_moments.agreed(communicator, is_unbiased=is_unbiased)
    mean, spread = (float(found[0]) for found in labels)
    label_scale = math.sqrt(spread) or abs(mean) or 1.0
    return Columns(n_classes, scale, label_scale, weight_sum, n_samples)


def _n_classes(rows: LocalRows, request: FitRequest, communicator: Communicator) -> int:
    found = communicator.exchange(rows.label_range())
    least, largest = min(one[0] for one in found), max(one[1] for one in found)
    name = f"labelCol={request.label_col!r}"
    n_classes = max(2, int(largest) + 1)
    if n_classes > 2 and request.model in ("binomial", "svm"):
        raise ValueError(f"{name}: expected two classes, 0 and 1, got labels up to {largest:g}")
    if least == largest:
        raise ValueError(f"{name}: expected at least two classes, got only {least:g}")
    return n_classes
