"""What a task of the barrier stage does: read its rows, meet the others, train, answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from snapml.data.growing_array import can_share
from snapml.data.memory_limit import resolve_memory_limit
from snapml.data.store.temporary_store import removing_temporary_stores
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
from snapml.distributed.spark.tasks.fitting import fit
from snapml.distributed.spark.tasks.local_rows import LocalRows
from snapml.distributed.spark.tasks.meeting import Meeting
from snapml.distributed.spark.tasks.request import FitRequest
from snapml.distributed.spark.tasks.team import Team
from snapml.distributed.tcp import Listener, Mesh
from snapml.distributed.tcp.communicator import TcpCommunicator
from snapml.distributed.tcp.values import to_bytes
from snapml.solvers.range_checks import NonFiniteError
from snapml.solvers.threads import multiply_blas_threads

__all__ = ["ANSWER_PIECE", "run"]

ANSWER_PIECE = 64 * 2**20
"""Bytes of an answer in one row: a row of Spark's must stay below 2 GiB."""

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
            outcomes = [asdict(one) for one in fit(rows, team.n_features, request, ranks, devices)]
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
