"""Rows in as many partitions as a barrier stage has tasks, where they lie if that is possible."""

from __future__ import annotations

from typing import Any

from snapml.distributed.spark.driver.columns import is_connect

__all__ = ["in_partitions"]


def in_partitions(rows: Any, n_tasks: int) -> Any:
    """Return the rows in as many partitions as there are tasks.

    A shuffle costs more than all else that brings rows to tasks, so that those of a DataFrame with
    as many partitions stay where they are, however many each of them holds.

    Parameters
    ----------
    rows : pyspark.sql.DataFrame
        The rows.
    n_tasks : int
        How many partitions.

    Returns
    -------
    pyspark.sql.DataFrame
        The same one, or one whose rows Spark deals out.
    """
    return rows if _suits(rows, n_tasks) else rows.repartition(n_tasks)


def _suits(rows: Any, n_tasks: int) -> bool:
    """Return whether a barrier stage can read the rows where they are."""
    if is_connect(rows.sparkSession):
        return False  # which hides partitions
    query = rows._jdf.queryExecution()
    # Spark settles partitions behind a shuffle while it runs; what is in a cache lies there.
    plan = query.executedPlan().getClass().getSimpleName()
    if plan == "AdaptiveSparkPlanExec" and not _is_cached(query):
        return False
    return _is_gang(query.toRdd(), n_tasks)


def _is_cached(query: Any) -> bool:
    """Return whether all rows come from caches."""
    leaves = query.withCachedData().collectLeaves()
    kinds = {leaves.apply(k).getClass().getSimpleName() for k in range(leaves.size())}
    return kinds == {"InMemoryRelation"}


def _is_gang(rdd: Any, n_tasks: int) -> bool:
    """Return whether all that runs in the stage has as many partitions, as Spark asks of gangs."""
    if rdd.getNumPartitions() != n_tasks:
        return False
    found = rdd.dependencies()
    for number in range(found.size()):
        dependency = found.apply(number)
        is_shuffle = dependency.getClass().getSimpleName() == "ShuffleDependency"
        if not is_shuffle and not _is_gang(dependency.rdd(), n_tasks):
            return False
    return True
