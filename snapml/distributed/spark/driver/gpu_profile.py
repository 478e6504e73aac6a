"""What Spark is asked for so that it gives each task of a fit a GPU."""

from __future__ import annotations

from typing import Any

import pyspark

from snapml.distributed.spark.driver.slots import is_local
from snapml.distributed.spark.tasks.gpus import RESOURCE

__all__ = ["gpu_profile"]

_OF_EXECUTORS = f"spark.executor.resource.{RESOURCE}.amount"
_OF_TASKS = f"spark.task.resource.{RESOURCE}.amount"


def gpu_profile(session: Any) -> Any:
    """Return the resources of the stage of a fit, one GPU a task.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Classic or of Spark Connect.

    Returns
    -------
    pyspark.resource.ResourceProfile or None
        None where ``spark.task.resource.gpu.amount`` says what the tasks of all stages get.

    Raises
    ------
    RuntimeError
        If the executors of the session have no GPUs, or Spark is of version 3 and the setting is
        missing; with the settings that would help.
    """
    if session.conf.get(_OF_EXECUTORS, None) is None or is_local(session):
        raise RuntimeError(
            f"useGpu=True: expected a cluster whose executors have GPUs: set {_OF_EXECUTORS} and "
            f"spark.executor.resource.{RESOURCE}.discoveryScript, or name the GPUs of each host by "
            f"deviceIds; got {_OF_EXECUTORS}={session.conf.get(_OF_EXECUTORS, None)} with "
            f"spark.master={session.conf.get('spark.master', '')}"
        )
    if session.conf.get(_OF_TASKS, None) is not None:
        return None
    if pyspark.__version__.startswith("3."):
        raise RuntimeError(
            f"useGpu=True: expected {_OF_TASKS}, since a stage cannot ask for resources of its own "
            f"before Spark 4; got None with Spark {pyspark.__version__}"
        )
    from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

    n_cpus = int(session.conf.get("spark.task.cpus", "1"))
    tasks = TaskResourceRequests().cpus(n_cpus).resource(RESOURCE, 1)
    return ResourceProfileBuilder().require(tasks).build
