"""The driver gets a model and an objective an iteration: no sums come to it."""

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F
from sklearn.exceptions import ConvergenceWarning

from snapml.distributed import spark as snapml_spark

pytestmark = pytest.mark.spark

N_FEATURES = 500


@pytest.fixture(scope="module")
def wide(spark):
    """Rows of many columns, whose labels are drawn: under a weak penalty many iterations."""
    entries = F.transform(F.sequence(F.lit(1), F.lit(N_FEATURES)), lambda k: F.sin(k * F.col("id")))
    rows = spark.range(100).select(entries.alias("features"), (F.rand(1) < 0.5).alias("label"))
    rows = rows.withColumn("label", F.col("label").cast("double")).cache()
    rows.count()
    return rows


def bytes_to_driver(spark, rows, max_iter):
    """Return the bytes of the results of all tasks of a fit, and its model."""
    context, group = spark.sparkContext, f"bytes {max_iter}"
    context.setJobGroup(group, "")
    estimator = snapml_spark.LogisticRegression(tol=0.0, maxIter=max_iter, regParam=1e-8)
    with pytest.warns(ConvergenceWarning, match="duality gap"):
        model = estimator.fit(rows)
    context._jsc.sc().listenerBus().waitUntilEmpty()
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = {stage for job in jobs for stage in job.stageIds}
    return sum(store.lastStageAttempt(stage).resultSize() for stage in stages), model


def test_bytes_to_the_driver_do_not_grow_with_iterations(spark, wide):
    few, early = bytes_to_driver(spark, wide, 2)
    many, late = bytes_to_driver(spark, wide, 26)
    n_more = late.summary.totalIterations - early.summary.totalIterations
    assert n_more >= 15
    assert few > 8 * N_FEATURES  # the coefficients, which come once
    assert abs(many - few) < 64 * n_more  # the objective of each iteration, and sizes of timings
