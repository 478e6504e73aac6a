"""Which GPUs a task of a fit works on, and how they are left after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from snapml.distributed.spark.tasks.request import FitRequest
from snapml.solvers.plan import device_choice

__all__ = ["RESOURCE", "in_spark_terms", "placed", "release"]

RESOURCE = "gpu"
"""Spark's name of the resource."""


def placed(
    request: FitRequest, resources: Mapping[str, Any], hosts: Sequence[str], rank: int
) -> tuple[int, ...]:
    """Return the numbers of the GPUs of a task, none for the CPU.

    Parameters
    ----------
    request : FitRequest
        Whether there are any, and which the user has named.
    resources : mapping of str to pyspark.resource.ResourceInformation
        What Spark has given to the task.
    hosts : sequence of str
        Where the tasks are, in their order.
    rank : int
        The task's number.

    Returns
    -------
    tuple of int
        As CUDA counts the devices that this process sees. Those that Spark has given to the task;
        or, of those that the user has named for each host, the one of the task's place there.

    Raises
    ------
    ValueError
        If Spark has given it none, a host has more tasks than the user has named GPUs, CuPy is
        missing, or no such GPU is visible; with the settings that would help.
    """
    if not request.use_gpu:
        return ()
    try:
        if request.device_ids is not None:
            found = _named(request.device_ids, hosts, rank)
        else:
            found = _given(resources)
        for number in found:
            device_choice.make_device(number)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"useGpu=True: task {rank} on {hosts[rank]}: {error}") from error
    return found


@contextmanager
def in_spark_terms(device_ids: tuple[int, ...]) -> Iterator[None]:
    """Let what no GPU solves name the parameter that asks for one.

    Parameters
    ----------
    device_ids : tuple of int
        Of the task; none for the CPU.
    """
    try:
        yield
    except NotImplementedError as error:
        if not device_ids:
            raise
        raise NotImplementedError(f"useGpu=True: {error}; in Spark, useGpu=False") from error


def release(device_ids: tuple[int, ...]) -> None:
    """Give the memory of GPUs back that no array uses: Spark keeps the process for other tasks.

    Parameters
    ----------
    device_ids : tuple of int
        Of the task.
    """
    for number in device_ids:
        device_choice.make_device(number).free_unused()


def _given(resources: Mapping[str, Any]) -> tuple[int, ...]:
    if RESOURCE not in resources:
        raise ValueError(
            "expected a GPU from Spark, got none: set spark.executor.resource.gpu.amount, "
            "spark.executor.resource.gpu.discoveryScript and spark.task.resource.gpu.amount, or "
            "name the GPUs of each host by deviceIds"
        )
    addresses = list(resources[RESOURCE].addresses)
    if not all(address.isdecimal() for address in addresses):
        raise ValueError(
            "expected numbers of GPUs from spark.executor.resource.gpu.discoveryScript, got "
            f"{addresses}"
        )
    return tuple(map(int, addresses))


def _named(device_ids: tuple[int, ...], hosts: Sequence[str], rank: int) -> tuple[int, ...]:
    n_beside = hosts.count(hosts[rank])
    if n_beside > len(device_ids):
        raise ValueError(
            f"deviceIds={list(device_ids)}: expected a GPU for each of the {n_beside} tasks of "
            f"this fit there, got {len(device_ids)}: set numWorkers, or name a GPU twice for two "
            "tasks to share it"
        )
    return (device_ids[hosts[:rank].count(hosts[rank])],)
