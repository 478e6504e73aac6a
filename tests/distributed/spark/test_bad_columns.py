"""What a fit refuses before or in its job names the column, and the session lives on."""

import re
import sys

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import IllegalArgumentException
from pyspark.ml.linalg import SparseVector, Vectors, VectorUDT
from pyspark.sql.types import DoubleType, StructField, StructType

from snapml.distributed import spark as snapml_spark
from snapml.distributed.spark.driver import job

pytestmark = pytest.mark.spark

SCHEMA = StructType(
    [
        StructField("label", DoubleType()),
        StructField("weight", DoubleType()),
        StructField("features", VectorUDT()),
    ]
)


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


def label(*values):
    return [(value, 1.0, Vectors.dense([float(k)])) for k, value in enumerate(values)]


def features(*vectors):
    return [(float(k % 2), 1.0, vector) for k, vector in enumerate(vectors)]


def weight(*values):
    return [(float(k % 2), value, Vectors.dense([1.0])) for k, value in enumerate(values)]


ONE, NAN = Vectors.dense([1.0]), Vectors.dense([float("nan")])
LABEL, FEATURES, WEIGHT = "labelCol='label'", "featuresCol='features'", "weightCol='weight'"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (label(1.0, None), f"{LABEL}: expected numbers, got 1 nulls"),
        (label(1.0, float("nan")), f"{LABEL}: expected finite numbers, got nan in row"),
        (label(1.0, 0.5), f"{LABEL}: expected classes 0, 1, 2, ..., got 0.5 in row"),
        (label(-1.0, 1.0), f"{LABEL}: expected classes 0, 1, 2, ..., got -1. in row"),
        (label(1.0, 1.0), f"{LABEL}: expected at least two classes, got only 1"),
        (features(ONE, None), f"{FEATURES}: expected a vector in every row, got 1 nulls"),
        (features(ONE, NAN), f"{FEATURES}: expected finite entries, got [nan] in row"),
        (
            features(ONE, SparseVector(1, [0], [float("inf")])),
            f"{FEATURES}: expected finite entries, got inf in row",
        ),
        (features(ONE, Vectors.dense([1.0, 2.0])), f"{FEATURES}: expected vectors of one size"),
        (features(ONE, SparseVector(3, [0], [1.0])), f"{FEATURES}: expected vectors of one size"),
        (weight(1.0, None), f"{WEIGHT}: expected numbers, got 1 nulls"),
        (weight(1.0, -0.5), f"{WEIGHT}: expected weights of at least 0, got -0.5 in row"),
        (weight(0.0, 0.0), f"{WEIGHT}: expected a positive sum, got 0"),
        ([], "expected at least one row, got an empty DataFrame"),
    ],
)
def test_rows_that_no_fit_takes_name_the_column(spark, rows, message):
    frame = spark.createDataFrame(rows, SCHEMA)
    with pytest.raises(IllegalArgumentException, match=re.escape(message)) as caught:
        snapml_spark.LogisticRegression(weightCol="weight").fit(frame)
    assert isinstance(caught.value, ValueError)


def test_rows_that_are_found_to_be_none_by_a_task_are_an_empty_frame(frames):
    rows = frames(2).where("rand() > 2")
    with pytest.raises(ValueError, match="expected at least one row, got an empty DataFrame"):
        snapml_spark.LogisticRegression().fit(rows)


def test_tasks_and_partitions_without_rows_take_part(spark):
    rows = spark.createDataFrame([(3.0, 1.0, ONE)], SCHEMA).repartition(8)
    model = snapml_spark.LinearRegression(regParam=1.0, numWorkers=2).fit(rows)
    assert model.predict(ONE) == pytest.approx(3.0)


def test_a_driver_without_pyarrow_says_so(frames, monkeypatch):
    rows = frames(2)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"PyArrow .* must be installed"):
        snapml_spark.LogisticRegression().fit(rows)


def test_the_session_survives_and_conversion_needs_no_active_fit(spark, binary_model):
    assert spark.range(3).count() == 3
    assert binary_model.to_pyspark().numClasses == 2
