"""Metrics equal those of the same model in `pyspark.ml`."""

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.ml import regression
from pyspark.sql import functions as F

from snapml.distributed import spark as snapml_spark
from snapml.distributed.spark.summaries import curves

pytestmark = pytest.mark.spark

BY_LABEL = [
    "precisionByLabel",
    "recallByLabel",
    "truePositiveRateByLabel",
    "falsePositiveRateByLabel",
]
WEIGHTED = [
    "accuracy",
    "weightedPrecision",
    "weightedRecall",
    "weightedTruePositiveRate",
    "weightedFalsePositiveRate",
]


def assert_same_metrics(ours, theirs):
    assert ours.labels == theirs.labels
    for name in BY_LABEL + WEIGHTED:
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-9), name
    assert ours.fMeasureByLabel(0.5) == pytest.approx(theirs.fMeasureByLabel(0.5), rel=1e-9)
    assert ours.weightedFMeasure() == pytest.approx(theirs.weightedFMeasure(), rel=1e-9)


def assert_same_curve(ours, theirs):
    assert ours.columns == theirs.columns
    mine, other = np.array(ours.collect()), np.array(theirs.collect())
    assert mine.shape == other.shape
    assert np.allclose(mine, other, rtol=1e-9, atol=1e-12)


def test_metrics_of_two_classes(binary_model, frames):
    ours, theirs = binary_model.summary, binary_model.to_pyspark().evaluate(frames(2))
    assert_same_metrics(ours, theirs)
    assert ours.areaUnderROC == pytest.approx(theirs.areaUnderROC, rel=1e-9)
    for name in ("roc", "pr", "precisionByThreshold", "recallByThreshold", "fMeasureByThreshold"):
        assert_same_curve(getattr(ours, name), getattr(theirs, name))
    for name in (
        "labelCol",
        "predictionCol",
        "probabilityCol",
        "scoreCol",
        "featuresCol",
        "weightCol",
    ):
        assert getattr(ours, name) == getattr(theirs, name), name


def test_metrics_of_more_classes_and_of_the_support_vector_machine(frames):
    model = snapml_spark.LogisticRegression(regParam=0.05).fit(frames(4))
    assert_same_metrics(model.summary, model.to_pyspark().evaluate(frames(4)))
    assert not hasattr(model.summary, "areaUnderROC")
    machine = snapml_spark.LinearSVC(regParam=0.1).fit(frames(2))
    ours, theirs = machine.evaluate(frames(2)), machine.to_pyspark().evaluate(frames(2))
    assert_same_metrics(ours, theirs)
    assert ours.areaUnderROC == pytest.approx(theirs.areaUnderROC, rel=1e-9)
    assert machine.summary().accuracy == ours.accuracy


def test_metrics_of_regression(frames):
    model = snapml_spark.LinearRegression(regParam=0.1, weightCol="weight").fit(frames(0))
    ours, theirs = model.summary, model.to_pyspark().evaluate(frames(0))
    for name in (
        "explainedVariance",
        "meanAbsoluteError",
        "meanSquaredError",
        "rootMeanSquaredError",
        "r2",
        "r2adj",
        "numInstances",
        "degreesOfFreedom",
        "devianceResiduals",
    ):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-9), name
    mine, other = (sorted(r.residuals for r in s.residuals.collect()) for s in (ours, theirs))
    assert mine == pytest.approx(other, abs=1e-12)
    params = {"regParam": 0.1, "weightCol": "weight"}
    theirs = regression.LinearRegression(solver="normal", **params).fit(frames(0)).summary
    for name in ("coefficientStandardErrors", "tValues", "pValues"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-5), name
    net = snapml_spark.LinearRegression(elasticNetParam=0.5, **params).fit(frames(0)).summary
    with pytest.raises(RuntimeError, match="no standard errors with an L1 penalty"):
        _ = net.pValues


def test_facts_of_the_training_are_those_of_the_fit(binary_model, frames):
    summary = binary_model.summary
    assert binary_model.hasSummary
    assert summary.objectiveHistory[-1] == pytest.approx(summary.objective)
    assert summary.totalIterations >= 1
    assert 0.0 <= summary.gap <= 1e-9 * summary.objective
    with pytest.raises(RuntimeError, match="got one of other rows"):
        _ = binary_model.evaluate(frames(2)).objectiveHistory


def test_a_summary_names_its_own_columns_where_the_model_adds_none(binary_model, frames):
    model = binary_model.copy().setPredictionCol("").setProbabilityCol("").setRawPredictionCol("")
    assert model.evaluate(frames(2)).accuracy == binary_model.summary.accuracy
    assert model.transform(frames(2)).columns == frames(2).columns


def dotted(model, rows):
    """Return a model and rows whose columns have names with dots."""
    names = {name: f"the.{name}" for name in ("label", "weight", "prediction", "rawPrediction")}
    for name, new in names.items():
        if model.hasParam(f"{name}Col"):
            model = model.copy({model.getParam(f"{name}Col"): new})
        if name in rows.columns:
            rows = rows.withColumnRenamed(name, new)
    return model, rows


def test_names_of_columns_may_have_dots(binary_model, frames):
    model, rows = dotted(binary_model, frames(2))
    expected = binary_model.evaluate(frames(2))
    assert model.evaluate(rows).areaUnderROC == pytest.approx(expected.areaUnderROC, rel=1e-9)
    linear = snapml_spark.LinearRegression(regParam=0.1, weightCol="weight").fit(frames(2))
    model, rows = dotted(linear, frames(2))
    assert model.evaluate(rows).r2 == pytest.approx(linear.summary.r2, rel=1e-9)


def test_curves_of_many_scores_are_short_and_lie_on_the_whole_curve(spark):
    from pyspark.ml.functions import array_to_vector

    n_rows = 5 * curves.N_BINS
    rows = (
        spark.range(n_rows).withColumn("p", F.rand(1)).withColumn("label", F.col("p") > F.rand(2))
    )
    scores = rows.withColumn("score", array_to_vector(F.array(1.0 - F.col("p"), "p"))).cache()
    label = F.col("label").cast("double")
    points = curves.points(scores, "score", label, F.lit(1.0))
    found = points.orderBy("threshold").collect()
    assert curves.N_BINS / 2 < len(found) <= curves.N_BINS
    data = np.array([(row.p, row.label) for row in scores.select("p", "label").collect()])
    for row in found[:: len(found) // 7]:
        above = data[:, 0] >= row.threshold
        assert row.tp == (above & (data[:, 1] == 1)).sum()
        assert row.fp == (above & (data[:, 1] == 0)).sum()
    assert found[0].tp == found[0].positives
