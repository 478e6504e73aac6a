"""Tasks of a barrier stage, each on a thread of this process; without Spark."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import issparse

from snapml.distributed.spark.tasks import worker

from .test_tcp import KEY

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

__all__ = ["KEY", "Tasks", "answers", "batches_of", "given"]


def given(*addresses):
    """Return what Spark says of the GPUs that a task has."""
    return {"gpu": SimpleNamespace(addresses=list(addresses))}


class Tasks:
    """Stands for the tasks of a barrier stage on one host."""

    def __init__(self, addresses):
        self.addresses = addresses
        self.barrier = threading.Barrier(len(addresses), timeout=20.0)
        self.cards = [None] * len(addresses)

    def context(self, number):
        resources = {} if self.addresses[number] is None else given(*self.addresses[number])
        hosts = [SimpleNamespace(address="127.0.0.1:77")] * len(self.addresses)
        return SimpleNamespace(
            partitionId=lambda: number,
            getTaskInfos=lambda: hosts,
            allGather=lambda card: self.gather(number, card),
            cpus=lambda: 1,
            resources=lambda: resources,
        )

    def gather(self, number, card):
        self.cards[number] = card
        self.barrier.wait()
        return self.cards


def batches_of(X, y):
    """Return rows as tasks get them: lists of numbers, or sparse vectors."""
    if issparse(X):
        indptr = pa.array(X.indptr, pa.int32())
        fields = {
            "type": pa.array(np.zeros(len(y), np.int8)),
            "size": pa.array(np.full(len(y), X.shape[1], np.int32)),
            "indices": pa.ListArray.from_arrays(indptr, pa.array(X.indices, pa.int32())),
            "values": pa.ListArray.from_arrays(indptr, pa.array(X.data)),
        }
        features = pa.StructArray.from_arrays(list(fields.values()), list(fields))
    else:
        arrays = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
        features = arrays.cast(pa.list_(pa.float64()))
    return [pa.RecordBatch.from_arrays([features, pa.array(y)], names=["features", "label"])]


def answers(request, parts, addresses=None, timeout_s=10.0):
    """Return what each task answers or raises."""
    tasks = Tasks([None] * len(parts) if addresses is None else addresses)
    request = replace(request, timeout=timeout_s)

    def run(number):
        batches = iter(batches_of(*parts[number]))
        try:
            with worker.removing_temporary_stores():
                return worker._answer(batches, request, KEY, tasks.context(number))
        except Exception as error:
            return error

    gc.collect()
    gc.disable()  # what only a collection would free counts as left
    try:
        with ThreadPoolExecutor(len(parts)) as pool:
            return list(pool.map(run, range(len(parts))))
    finally:
        gc.enable()
