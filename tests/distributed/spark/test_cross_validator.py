"""CrossValidator: the grid of a fold is one job, and chooses what Spark's own model would."""

import pytest

pytest.importorskip("pyspark")

from pyspark.ml import classification
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.tuning import CrossValidator, CrossValidatorModel, ParamGridBuilder

from snapml.distributed import spark as snapml_spark
from snapml.distributed.spark.driver import job

pytestmark = pytest.mark.spark


@pytest.fixture
def requests(monkeypatch):
    """The requests of the jobs of a test."""
    seen, fit = [], job.fit

    def counted(dataframe, request):
        seen.append(request)
        return fit(dataframe, request)

    monkeypatch.setattr(job, "fit", counted)
    return seen


def test_the_grid_of_a_fold_is_one_job(frames, requests, tmp_path):
    def validator(estimator):
        grid = ParamGridBuilder().addGrid(estimator.regParam, [0.001, 0.1, 10.0])
        return CrossValidator(
            estimator=estimator,
            estimatorParamMaps=grid.addGrid(estimator.elasticNetParam, [0.0, 0.5]).build(),
            evaluator=BinaryClassificationEvaluator(),
            numFolds=2,
            parallelism=2,
            seed=3,
        )

    model = validator(snapml_spark.LogisticRegression(tol=1e-8)).fit(frames(2))
    assert [len(request.reg_params) for request in requests] == [6, 6, 1]
    theirs = validator(classification.LogisticRegression()).fit(frames(2))
    assert model.avgMetrics == pytest.approx(theirs.avgMetrics, abs=1e-3)
    assert model.bestModel.getRegParam() == theirs.bestModel.getRegParam()
    model.write().overwrite().save(str(tmp_path / "validated"))
    found = CrossValidatorModel.load(str(tmp_path / "validated"))
    assert found.avgMetrics == model.avgMetrics
    assert found.bestModel.coefficients == model.bestModel.coefficients


def test_other_parameters_have_a_job_each_and_keep_their_order(frames, requests):
    estimator = snapml_spark.LogisticRegression()
    maps = [
        {estimator.regParam: 0.1},
        {estimator.regParam: 0.2, estimator.standardization: False},
        {estimator.regParam: 0.3, estimator.threshold: 0.9},
        {estimator.regParam: 0.4, estimator.maxIter: 0},
    ]
    with pytest.warns(Warning, match="duality gap"):
        models = estimator.fit(frames(2), maps)
    assert [request.reg_params for request in requests] == [(0.1, 0.3), (0.2,), (0.4,)]
    assert [model.getRegParam() for model in models] == [0.1, 0.2, 0.3, 0.4]
    assert [model.getThreshold() for model in models] == [0.5, 0.5, 0.9, 0.5]
    assert [model.getStandardization() for model in models] == [True, False, True, True]
    single = snapml_spark.LogisticRegression(regParam=0.3).fit(frames(2))
    assert models[2].coefficients.toArray() == pytest.approx(
        single.coefficients.toArray(), abs=1e-3
    )


def test_a_map_that_is_out_of_range_fails_where_it_is_asked_for(frames):
    estimator = snapml_spark.LogisticRegression()
    models = estimator.fitMultiple(frames(2), [{estimator.regParam: -1.0}])
    with pytest.raises(ValueError, match="regParam"):
        next(models)
    with pytest.raises(StopIteration):
        next(models)
