"""Columns of predictions: values, types and attributes of Spark's, and clear errors."""

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.ml import classification
from pyspark.ml.linalg import SparseVector, Vectors, VectorUDT
from pyspark.sql.types import ArrayType, DoubleType, StructField, StructType

from snapml.distributed import spark as snapml_spark
from snapml.distributed.spark.model_numbers import LinearScores, decided

pytestmark = pytest.mark.spark


def assert_same_columns(ours, theirs, n_added):
    assert ours.columns == theirs.columns
    for mine, other in zip(
        ours.schema.fields[-n_added:], theirs.schema.fields[-n_added:], strict=True
    ):
        assert (mine.name, mine.dataType, mine.nullable) == (
            other.name,
            other.dataType,
            other.nullable,
        )
        assert mine.metadata == other.metadata
    for mine, other in zip(ours.collect(), theirs.collect(), strict=True):
        for name in ours.columns[-n_added:]:
            assert type(mine[name]) is type(other[name])
            assert np.allclose(np.asarray(mine[name]), np.asarray(other[name]), atol=1e-12)


@pytest.mark.parametrize(("n_classes", "sparse"), [(2, True), (4, False)])
def test_columns_equal_those_of_the_same_model_in_spark(frames, n_classes, sparse):
    model = snapml_spark.LogisticRegression(regParam=0.05).fit(frames(n_classes, sparse))
    theirs = model.to_pyspark()
    assert type(theirs) is classification.LogisticRegressionModel
    assert theirs.getRegParam() == 0.05
    assert theirs.uid == model.uid
    rows = frames(n_classes, sparse).select("label", "features").limit(40)
    assert_same_columns(model.transform(rows), theirs.transform(rows), 3)
    chosen = [0.9, 0.1] if n_classes == 2 else [0.7, 0.1, 0.1, 0.1]
    model.setThresholds(chosen)
    theirs.setThresholds(chosen)
    assert_same_columns(model.transform(rows), theirs.transform(rows), 3)
    vector = rows.head().features
    assert model.predict(vector) == theirs.predict(vector)
    assert np.allclose(model.predictRaw(vector).toArray(), theirs.predictRaw(vector).toArray())
    assert np.allclose(
        model.predictProbability(vector).toArray(), theirs.predictProbability(vector).toArray()
    )


def test_columns_of_the_other_models_equal_those_of_spark(frames):
    rows = frames(2).select("label", "features").limit(40)
    machine = snapml_spark.LinearSVC(regParam=0.1, threshold=0.2).fit(frames(2))
    assert_same_columns(machine.transform(rows), machine.to_pyspark().transform(rows), 2)
    line = snapml_spark.LinearRegression(regParam=0.1).fit(frames(0))
    rows = frames(0).select("label", "features").limit(40)
    assert_same_columns(line.transform(rows), line.to_pyspark().transform(rows), 1)
    vector = rows.head().features
    assert line.predict(vector) == pytest.approx(line.to_pyspark().predict(vector), rel=1e-12)


def test_empty_names_leave_columns_out(binary_model, frames):
    rows = frames(2).select("features").limit(3)
    model = binary_model.copy().setRawPredictionCol("").setProbabilityCol("")
    assert model.transform(rows).columns == ["features", "prediction"]
    assert model.setPredictionCol("class").transform(rows).columns == ["features", "class"]
    assert binary_model.getPredictionCol() == "prediction"


def test_dense_and_sparse_vectors_mix(spark, binary_model):
    x = np.array([0.0, 2.0, 0.0, -1.0, 0.5])
    stored = np.flatnonzero(x)
    rows = [(Vectors.dense(x),), (SparseVector(5, stored, x[stored]),), (Vectors.dense(2 * x),)]
    schema = StructType([StructField("features", VectorUDT())])
    found = binary_model.transform(spark.createDataFrame(rows, schema).coalesce(1)).collect()
    assert found[0].probability == found[1].probability != found[2].probability
    assert found[0].prediction == binary_model.predict(rows[0][0])


def test_rows_are_scored_once_for_all_columns(frames, binary_model):
    scored = binary_model.transform(frames(2))
    plan = scored._jdf.queryExecution().executedPlan().toString()
    assert plan.count("ArrowEvalPython") == 1
    assert "pythonUDF0" in plan
    assert "pythonUDF1" not in plan


def test_a_model_is_sent_once_however_often_it_predicts(spark, frames, binary_model):
    sent = binary_model._sent.holder(spark)
    binary_model.copy().setPredictionCol("class").transform(frames(2)).count()
    assert binary_model._sent.holder(spark) is sent
    assert binary_model.copy()._sent is binary_model._sent


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (None, "'features': expected a vector in every row"),
        (Vectors.dense([1.0, 2.0]), "'features': expected vectors of 5 entries, got 2"),
        (SparseVector(6, [0], [1.0]), "'features': expected vectors of 5 entries, got 6"),
        (Vectors.dense([1.0, float("nan"), 0.0, 0.0, 0.0]), "'features': expected finite entries"),
        (SparseVector(5, [2], [float("inf")]), "'features': expected finite entries"),
    ],
)
def test_rows_that_have_no_prediction_name_the_column(spark, binary_model, vector, message):
    from pyspark.errors import PythonException

    schema = StructType([StructField("features", VectorUDT())])
    rows = spark.createDataFrame([(Vectors.dense([0.0] * 5),), (vector,)], schema).coalesce(1)
    with pytest.raises(PythonException, match=message):
        binary_model.transform(rows).collect()


def test_nulls_in_arrays_and_columns_of_numbers_name_the_column(spark, frames, binary_model):
    from pyspark.errors import PythonException

    schema = StructType([StructField("values", ArrayType(DoubleType()))])
    rows = spark.createDataFrame([([1.0, None, 0.0, 0.0, 0.0],)], schema)
    with pytest.raises(PythonException, match="'values': expected finite entries"):
        binary_model.copy().setFeaturesCol("values").transform(rows).collect()
    names = [f"x.{k}" for k in range(5)]
    rows = spark.createDataFrame(
        [(1.0, 2.0, None, 0.0, 0.0)], ",".join(f"`{n}` double" for n in names)
    )
    with pytest.raises(PythonException, match=r"column 'x\.2': expected finite numbers"):
        binary_model.copy().setFeaturesCol(names).transform(rows).collect()


def test_columns_that_do_not_fit_are_refused_before_any_job(frames, binary_model):
    rows = frames(2)
    for model, message in [
        (binary_model.copy().setFeaturesCol("missing"), "featuresCol: expected one of the columns"),
        (
            binary_model.copy().setFeaturesCol("label"),
            "featuresCol: expected a column of pyspark.ml",
        ),
        (binary_model.copy().setPredictionCol("Label"), "expected no column 'Label' yet"),
        (binary_model.copy().setPredictionCol("probability"), "expected no column 'probability'"),
    ]:
        with pytest.raises(snapml_spark.InvalidInput, match=message):
            model.transform(rows)
    with pytest.raises(ValueError, match=r"expected a vector of 5 entries, got \(2,\)"):
        binary_model.predict(Vectors.dense([1.0, 2.0]))
    wide = snapml_spark.LogisticRegression(family="multinomial").fit(rows)
    wide.setThresholds([0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="thresholds: expected one for each of 2 classes"):
        wide.transform(rows)


def test_classes_are_decided_by_the_rules_of_spark():
    probability = np.array([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0]])
    assert decided(probability, None, None).tolist() == [0.0, 1.0]
    assert decided(probability, None, [1.0, 0.5, 0.1]).tolist() == [2.0, 1.0]
    # A threshold of zero wins, unless the probability is zero too.
    assert decided(probability, None, [0.0, 0.5, 0.5]).tolist() == [0.0, 1.0]
    assert decided(np.array([[0.4, 0.6]]), 0.6, None).tolist() == [0.0]


def test_probabilities_stay_finite_at_any_margin():
    for coef in ([[1.0]], [[1.0], [-1.0]]):
        scores = LinearScores(np.array(coef), np.zeros(len(coef)), 2)
        probability = scores.probability(scores.raw(np.array([[1e4], [-1e4], [0.0]])))
        assert np.allclose(probability.sum(axis=1), 1.0)
        assert set(probability[:2].ravel()) == {0.0, 1.0}
