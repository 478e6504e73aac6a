"""What a fit refuses before or in its job names the column, and the session lives on."""

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import IllegalArgumentException
from pyspark.ml.linalg import Vectors

from snapml.distributed import spark as snapml_spark
from snapml.distributed.spark import job

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"featuresCol": "missing"}, "featuresCol: expected one of the columns .*'missing'"),
        ({"labelCol": "missing"}, "labelCol: expected one of the columns .*'missing'"),
        ({"weightCol": "missing"}, "weightCol: expected one of the columns .*'missing'"),
        ({"labelCol": "features"}, "labelCol: expected a column of numbers, got 'features'"),
        ({"labelCol": "text"}, "labelCol: expected a column of numbers, got 'text' of type string"),
        ({"featuresCol": "text"}, "featuresCol: expected a column of pyspark.ml vectors"),
        (
            {"featuresCol": ["weight", "text"]},
            "featuresCol: expected a column of numbers, got 'text'",
        ),
        ({"featuresCol": ["weight", "weight"]}, "featuresCol: expected different columns"),
    ],
)
def test_columns_are_checked_before_any_job(frames, monkeypatch, params, message):
    monkeypatch.setattr(job, "fit", lambda *_: pytest.fail("a job was started"))
    from pyspark.sql import functions as F

    rows = frames(2).withColumn("text", F.lit("a"))
    with pytest.raises(IllegalArgumentException, match=message) as caught:
        snapml_spark.LogisticRegression(**params).fit(rows)
    assert isinstance(caught.value, ValueError)


def test_columns_of_the_same_name_are_ambiguous(frames):
    rows = frames(2).select("*", frames(2).label.alias("LABEL"))
    with pytest.raises(ValueError, match="labelCol: expected one column 'label', got 2"):
        snapml_spark.LogisticRegression().fit(rows)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(1.0, Vectors.dense([1.0])), (None, Vectors.dense([2.0]))], "labelCol='label'"),
        ([(1.0, Vectors.dense([1.0])), (0.0, None)], "featuresCol='features'"),
        (
            [(1.0, Vectors.dense([float("nan")])), (0.0, Vectors.dense([1.0]))],
            "featuresCol='features'",
        ),
        ([(1.0, Vectors.dense([1.0])), (0.5, Vectors.dense([1.0]))], "labelCol='label'"),
        ([(-1.0, Vectors.dense([1.0])), (1.0, Vectors.dense([1.0]))], "labelCol='label'"),
    ],
)
def test_rows_that_no_fit_takes_name_the_column(spark, frames, rows, message):
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql.types import DoubleType, StructField, StructType

    schema = StructType([StructField("label", DoubleType()), StructField("features", VectorUDT())])
    with pytest.raises(ValueError, match=message):
        snapml_spark.LogisticRegression().fit(spark.createDataFrame(rows, schema))


def test_the_session_survives_and_conversion_needs_no_active_fit(spark, binary_model):
    assert spark.range(3).count() == 3
    assert binary_model.to_pyspark().numClasses == 2
