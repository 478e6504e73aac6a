"""Estimators, models, pipelines and validators come back from their folders as they were."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import StandardScaler

import snapml
from snapml.distributed import spark as snapml_spark

from .data import arrays

pytestmark = pytest.mark.spark


def test_estimators_come_back(spark, tmp_path):
    estimator = snapml_spark.LogisticRegression(
        featuresCol=["a", "b"], regParam=0.3, thresholds=[0.2, 0.8], memoryLimit="1GB", numWorkers=2
    )
    estimator.save(str(tmp_path / "estimator"))
    found = snapml_spark.LogisticRegression.load(str(tmp_path / "estimator"))
    assert found.uid == estimator.uid
    assert {p.name: v for p, v in found.extractParamMap().items()} == {
        p.name: v for p, v in estimator.extractParamMap().items()
    }
    assert found.isSet("regParam")
    assert not found.isSet("maxIter")
    with pytest.raises(ValueError, match=r"expected a .*LinearSVC, got a .*LogisticRegression"):
        snapml_spark.LinearSVC.load(str(tmp_path / "estimator"))


@pytest.mark.parametrize(
    ("estimator", "n_classes", "kind"),
    [
        (
            snapml_spark.LogisticRegression(regParam=0.1, elasticNetParam=0.2),
            4,
            "LogisticRegression",
        ),
        (snapml_spark.LogisticRegression(family="multinomial"), 2, "LogisticRegression"),
        (snapml_spark.LinearSVC(regParam=0.1), 2, "LinearSVC"),
        (snapml_spark.LinearRegression(), 0, "LinearRegression"),
        (snapml_spark.LinearRegression(regParam=0.1), 0, "Ridge"),
        (snapml_spark.LinearRegression(regParam=0.1, elasticNetParam=0.5), 0, "ElasticNet"),
    ],
)
def test_models_come_back_and_predict_the_same_without_spark(
    spark, frames, tmp_path, estimator, n_classes, kind
):
    model = estimator.fit(frames(n_classes))
    folder = tmp_path / "model"
    model.save(str(folder))
    with pytest.raises(Exception, match="exist"):
        model.save(str(folder))
    model.write().overwrite().save(str(folder))
    found = type(model).load(str(folder))
    assert found.uid == model.uid
    assert np.array_equal(found._numbers.coef, model._numbers.coef)
    assert np.array_equal(found._numbers.intercept, model._numbers.intercept)
    assert (found.gap, found.objective) == (model.gap, model.objective)
    assert not found.hasSummary
    with pytest.raises(RuntimeError, match="No training summary"):
        _ = found.summary() if kind == "LinearSVC" else found.summary
    (file,) = Path(folder / "model").glob("part-*")
    inner = snapml.load(file)
    assert type(inner).__name__ == kind
    X, _, _ = arrays(n_classes)
    ours = inner.predict(X[:50])
    theirs = [found.predict(x) for x in X[:50]]
    assert ours == pytest.approx(theirs, rel=1e-9)
    if hasattr(inner, "predict_proba"):
        expected = [found.predictProbability(x).toArray() for x in X[:50]]
        assert np.allclose(inner.predict_proba(X[:50]), expected)


def test_pipelines_come_back(frames, tmp_path):
    scaler = StandardScaler(inputCol="features", outputCol="scaled")
    ours = snapml_spark.LogisticRegression(featuresCol="scaled", regParam=0.1)
    pipeline = Pipeline(stages=[scaler, ours])
    pipeline.save(str(tmp_path / "pipeline"))
    stages = Pipeline.load(str(tmp_path / "pipeline")).getStages()
    assert (type(stages[1]), stages[1].getRegParam()) == (type(ours), 0.1)
    model = pipeline.fit(frames(2))
    model.write().overwrite().save(str(tmp_path / "model"))
    found = PipelineModel.load(str(tmp_path / "model"))
    rows = frames(2).limit(20)
    assert found.transform(rows).collect() == model.transform(rows).collect()
