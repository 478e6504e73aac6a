"""Curves over the thresholds of a score, as DataFrames of bounded length."""

from __future__ import annotations

from typing import Any

from pyspark.ml.functions import vector_to_array
from pyspark.sql import Window
from pyspark.sql import functions as F

__all__ = ["N_BINS", "by_threshold", "points", "precision_recall", "roc"]

N_BINS = 1000
"""About the most thresholds of a curve; fewer scores than twice that all count."""


def points(predictions: Any, score: str, label: Any, weight: Any) -> Any:
    """Return the weights of positives and negatives at or above each threshold.

    Parameters
    ----------
    predictions : pyspark.sql.DataFrame
        Rows with scores.
    score : str
        The column of vectors of two scores, as SQL quotes it.
    label, weight : pyspark.sql.Column
        Of the rows.

    Returns
    -------
    pyspark.sql.DataFrame
        Columns ``threshold``, ``tp``, ``fp``, ``positives`` and ``negatives``.
    """
    each = predictions.select(
        vector_to_array(F.col(score)).getItem(1).alias("score"),
        F.when(label > 0.5, weight).otherwise(0.0).alias("positive"),
        F.when(label > 0.5, 0.0).otherwise(weight).alias("negative"),
    )
    sums = F.sum("positive").alias("positive"), F.sum("negative").alias("negative")
    binned = _binned(each.groupBy("score").agg(*sums)).groupBy("bin")
    binned = binned.agg(F.min("score").alias("threshold"), *sums)
    # The bins are few: one task may sort them all.
    above = Window.partitionBy(F.lit(0)).orderBy(F.desc("threshold"))
    whole = Window.partitionBy(F.lit(0))
    return binned.select(
        "threshold",
        F.sum("positive").over(above).alias("tp"),
        F.sum("negative").over(above).alias("fp"),
        F.sum("positive").over(whole).alias("positives"),
        F.sum("negative").over(whole).alias("negatives"),
    )


def _binned(scores: Any) -> Any:
    """Return different scores with a bin each, or the bins of quantiles where there are many."""
    if scores.count() < 2 * N_BINS:
        return scores.withColumn("bin", F.col("score"))
    shares = [k / N_BINS for k in range(1, N_BINS)]
    bounds = sorted(set(scores.approxQuantile("score", shares, 0.1 / N_BINS)))
    search = F.array(*map(F.lit, bounds))
    return scores.withColumn("bin", F.size(F.filter(search, lambda b: b <= F.col("score"))))


def roc(found: Any) -> Any:
    """Return false and true positive rates, from (0, 0) to (1, 1).

    Parameters
    ----------
    found : pyspark.sql.DataFrame
        From `points`.

    Returns
    -------
    pyspark.sql.DataFrame
        Columns ``FPR`` and ``TPR``.
    """
    rates = found.select(
        (-F.col("threshold")).alias("order"),
        (F.col("fp") / F.col("negatives")).alias("FPR"),
        (F.col("tp") / F.col("positives")).alias("TPR"),
    )
    session = found.sparkSession
    ends = session.createDataFrame(
        [(float("-inf"), 0.0, 0.0), (float("inf"), 1.0, 1.0)],
        "order double, FPR double, TPR double",
    )
    return rates.union(ends).orderBy("order").select("FPR", "TPR")


def precision_recall(found: Any) -> Any:
    """Return recalls and precisions, from recall 0 on.

    Parameters
    ----------
    found : pyspark.sql.DataFrame
        From `points`.

    Returns
    -------
    pyspark.sql.DataFrame
        Columns ``recall`` and ``precision``.
    """
    rates = found.select(
        (-F.col("threshold")).alias("order"), _recall().alias("recall"), _precision()
    )
    # The curve begins at the precision of the highest threshold.
    first = rates.orderBy("order").limit(1)
    start = first.select(
        F.lit(float("-inf")).alias("order"), F.lit(0.0).alias("recall"), F.col("precision")
    )
    return rates.union(start).orderBy("order").select("recall", "precision")


def by_threshold(found: Any, metric: str) -> Any:
    """Return a metric by threshold, from the highest on.

    Parameters
    ----------
    found : pyspark.sql.DataFrame
        From `points`.
    metric : str
        'precision', 'recall' or 'F-Measure'.

    Returns
    -------
    pyspark.sql.DataFrame
        Columns ``threshold`` and the metric.
    """
    columns = {"precision": _precision(), "recall": _recall(), "F-Measure": _f_measure()}
    return found.select("threshold", columns[metric].alias(metric)).orderBy(F.desc("threshold"))


def _precision() -> Any:
    return (F.col("tp") / (F.col("tp") + F.col("fp"))).alias("precision")


def _recall() -> Any:
    return F.col("tp") / F.col("positives")


def _f_measure() -> Any:
    return 2.0 * F.col("tp") / (F.col("tp") + F.col("fp") + F.col("positives"))
