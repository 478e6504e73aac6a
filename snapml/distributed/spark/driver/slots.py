"""How many tasks a cluster runs at once: the tasks of a barrier stage must all start together."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["WAIT_S", "is_local", "n_tasks"]

WAIT_S = 30.0
"""Seconds to wait for executors: they register one by one after a session has begun."""

_PAUSE_S = 0.5

# With these, the number of partitions that Spark makes by itself is not the number of slots.
_HIDING = (
    "spark.default.parallelism",
    "spark.sql.leafNodeDefaultParallelism",
    "spark.task.resource.gpu.amount",
)


def n_tasks(session: Any, asked: int | None, *, use_gpu: bool = False, profile: Any = None) -> int:
    """Return the number of tasks that a barrier stage starts.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Classic or of Spark Connect.
    asked : int or None
        numWorkers; None takes all that the cluster runs at once now.
    use_gpu : bool, default=False
        Whether each task gets GPUs from Spark.
    profile : pyspark.resource.ResourceProfile or None, default=None
        What each task gets; None is what the settings of the session say.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    RuntimeError
        If executors come and go, if there are too few of them after `WAIT_S` seconds, or if
        numWorkers is not set where Spark Connect does not show how many there are.
    """
    has_all = is_local(session)
    if not has_all and _is_true(session, "spark.dynamicAllocation.enabled"):
        raise RuntimeError(
            "spark.dynamicAllocation.enabled=true: expected a fixed number of executors, since all "
            "tasks of a fit start together; set it to false, and spark.executor.instances"
        )
    needed = 1 if asked is None else asked
    end = time.monotonic() + (0.0 if has_all else WAIT_S)
    n_slots = _n_slots(session, use_gpu, profile)
    while n_slots is not None and n_slots < needed:
        if time.monotonic() >= end:
            raise RuntimeError(_too_few(asked, n_slots, has_all, use_gpu))
        time.sleep(_PAUSE_S)
        n_slots = _n_slots(session, use_gpu, profile)
    if asked is not None:
        return asked
    if n_slots is None:
        raise RuntimeError(
            "numWorkers: expected a number over Spark Connect with useGpu=True or where one of "
            f"{', '.join(_HIDING)} is set, which hide how many tasks the cluster runs at once; got "
            "None"
        )
    return n_slots


def is_local(session: Any) -> bool:
    """Return whether a session runs its tasks in the driver's process.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Classic or of Spark Connect.

    Returns
    -------
    bool
        False for clusters, and for those of one machine.
    """
    master = session.conf.get("spark.master", "")
    return bool(master == "local" or master.startswith("local["))


def _too_few(asked: int | None, n_slots: int, has_all: bool, use_gpu: bool) -> str:
    waited = "" if has_all else f", after {WAIT_S:g} s of waiting for executors"
    terms = "its cores divided by spark.task.cpus"
    if use_gpu:
        terms += ", or its GPUs by those of a task, whichever are fewer"
    if asked is None:
        return f"expected a cluster that runs at least one task at once ({terms}), got none{waited}"
    return (
        f"numWorkers={asked}: expected at most the {n_slots} tasks that the cluster runs at once "
        f"({terms}){waited}"
    )


def _n_slots(session: Any, use_gpu: bool, profile: Any) -> int | None:
    """Return how many tasks run at once now, None where the session does not show it."""
    from snapml.distributed.spark.driver.columns import is_connect

    if is_connect(session):
        return None if use_gpu else _n_slots_by_query(session)
    context = session.sparkContext._jsc.sc()
    profiles = context.resourceProfileManager()
    if profile is None:
        return int(context.maxNumConcurrentTasks(profiles.defaultResourceProfile()))
    profiles.addResourceProfile(profile._java_resource_profile)
    return int(context.maxNumConcurrentTasks(profile._java_resource_profile))


def _n_slots_by_query(session: Any) -> int | None:
    """Count the partitions that Spark makes where nobody says how many: one for each core."""
    from pyspark.sql import functions as F

    if any(session.conf.get(name, None) is not None for name in _HIDING):
        return None
    cores = session.range(1 << 20).select(F.spark_partition_id()).distinct().count()
    return int(cores) // int(session.conf.get("spark.task.cpus", "1"))


def _is_true(session: Any, name: str) -> bool:
    return str(session.conf.get(name, "false")).strip().lower() == "true"
