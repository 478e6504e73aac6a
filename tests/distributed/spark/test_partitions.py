"""Rows are read where they lie where that is possible, and give one model wherever they lie."""

from importlib.metadata import version

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from snapml.distributed.spark import LogisticRegression
from snapml.distributed.spark.driver.batch_size import small_batches
from snapml.distributed.spark.driver.partitions import in_partitions

pytestmark = pytest.mark.spark


def with_an_empty_partition(frame):
    return frame.repartition(2, frame["label"] < 0.0)


def two_together(frame):
    parts = [frame.filter(f"label = {k}").repartition(1) for k in (0, 1)]
    return parts[0].union(parts[1])


LAYOUTS = {
    "one": lambda frame: frame.repartition(1),
    "five": lambda frame: frame.repartition(5).cache(),
    "one is empty": with_an_empty_partition,
    "two together": two_together,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_model_is_the_same_however_rows_are_parted(frames, binary_model, layout):
    frame = LAYOUTS[layout](frames(2))
    model = LogisticRegression(regParam=0.05, weightCol="weight", tol=1e-9).fit(frame)
    assert model.coefficients.toArray() == pytest.approx(
        binary_model.coefficients.toArray(), abs=1e-6
    )


def test_batches_of_a_few_rows_from_tasks_without_room_give_the_same_model(
    spark, frames, binary_model
):
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    estimator = LogisticRegression(
        regParam=0.05, weightCol="weight", tol=1e-9, memoryLimit=2000, maxIter=300
    )
    before = spark.conf.get(name)
    spark.conf.set(name, 7)
    try:
        model = estimator.fit(with_an_empty_partition(frames(2)).cache())
    finally:
        spark.conf.set(name, before)
    assert "chunks in memory" in model.summary.solver
    expected = binary_model.coefficients.toArray()
    assert model.coefficients.toArray() == pytest.approx(expected, abs=1e-6)


@pytest.mark.skipif(version("pyspark") < "4", reason="Spark 3.5 does not know the setting")
def test_batches_of_wide_rows_are_small(spark):
    def counted(batches):
        import pyarrow as pa

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"n_bytes": [batch.nbytes]})

    wide = spark.range(0, 400, 1, 1).select(F.array_repeat(F.lit(1.0), 2000).alias("features"))
    with small_batches(spark):
        found = wide.mapInArrow(counted, "n_bytes long").collect()
    sizes = [row["n_bytes"] for row in found]
    assert sum(sizes) >= 400 * 2000 * 8
    assert max(sizes) < 2**21


def test_rows_stay_where_a_gang_of_tasks_can_read_them(spark, frames):
    cached = frames(2)
    assert in_partitions(cached, 2) is cached
    chosen = cached.select("label")
    assert in_partitions(chosen, 2) is chosen
    scanned = spark.range(0, 10, 1, 2)
    assert in_partitions(scanned, 2) is scanned
    shuffled = spark.range(0, 9, 1, 1).groupBy("id").count()
    together = spark.range(0, 5, 1, 1).union(spark.range(5, 10, 1, 1))
    for rows in (cached.repartition(3).cache(), scanned.repartition(5), shuffled, together):
        parted = in_partitions(rows, 2)
        assert parted is not rows
        assert parted.rdd.getNumPartitions() == 2
        assert parted.count() == rows.count()
