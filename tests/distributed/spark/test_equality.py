"""Models equal those of `pyspark.ml`, on the objective that both pose."""

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.ml import classification, regression

from snapml.distributed import spark as snapml_spark

from .data import arrays

pytestmark = pytest.mark.spark

TIGHT = {"maxIter": 1000}
LOGISTIC = [
    # n_classes, sparse, parameters
    (2, False, {}),
    (2, True, {"regParam": 0.1, "weightCol": "weight"}),
    (2, False, {"regParam": 0.05, "elasticNetParam": 0.5, "standardization": False}),
    (2, True, {"regParam": 0.02, "elasticNetParam": 1.0, "fitIntercept": False}),
    (2, False, {"regParam": 0.1, "family": "multinomial"}),
    (4, False, {"regParam": 0.01, "weightCol": "weight"}),
    (4, True, {"regParam": 0.1, "standardization": False}),
    (4, False, {}),
    (4, False, {"regParam": 0.02, "elasticNetParam": 0.5}),
]


def both(module, name, params, dataset):
    ours = getattr(snapml_spark, name)(tol=1e-11, **TIGHT, **params).fit(dataset)
    theirs = getattr(module, name)(tol=1e-10, **TIGHT, **params).fit(dataset)
    return ours, theirs


@pytest.mark.parametrize(("n_classes", "sparse", "params"), LOGISTIC)
def test_logistic_regression_equals_that_of_spark(frames, n_classes, sparse, params):
    ours, theirs = both(classification, "LogisticRegression", params, frames(n_classes, sparse))
    assert ours.numClasses == theirs.numClasses == n_classes
    expected = theirs.coefficientMatrix.toArray()
    assert ours.coefficientMatrix.toArray() == pytest.approx(expected, abs=1e-4)
    assert ours.interceptVector.toArray() == pytest.approx(
        theirs.interceptVector.toArray(), abs=1e-4
    )
    assert ours.objective == pytest.approx(theirs.summary.objectiveHistory[-1], rel=1e-6)


@pytest.mark.parametrize(
    ("sparse", "params"),
    [
        (False, {}),
        (True, {"regParam": 0.3, "weightCol": "weight"}),
        (True, {"regParam": 0.3, "solver": "l-bfgs"}),
        (False, {"regParam": 0.3, "elasticNetParam": 0.5, "solver": "l-bfgs"}),
        (False, {"regParam": 0.3, "elasticNetParam": 0.5, "weightCol": "weight"}),
        (False, {"regParam": 0.2, "elasticNetParam": 1.0, "standardization": False}),
        (False, {"regParam": 0.3, "fitIntercept": False, "standardization": False}),
    ],
)
def test_linear_regression_equals_that_of_spark(frames, sparse, params):
    ours, theirs = both(regression, "LinearRegression", params, frames(0, sparse))
    assert ours.coefficients.toArray() == pytest.approx(theirs.coefficients.toArray(), abs=1e-4)
    assert ours.intercept == pytest.approx(theirs.intercept, abs=1e-4)


@pytest.mark.parametrize(
    ("sparse", "params"),
    [(False, {"regParam": 0.1}), (True, {"regParam": 0.1, "standardization": False})],
)
def test_the_support_vector_machine_equals_that_of_spark(frames, sparse, params):
    rows = frames(2, sparse)
    ours = snapml_spark.LinearSVC(tol=1e-8, **TIGHT, **params).fit(rows)
    theirs = classification.LinearSVC(tol=1e-13, maxIter=15, **params).fit(rows)
    # The hinge has no slope at its kink: Spark's method stops near the minimum, not at it, and
    # each iteration searches longer along its line than the one before.
    above = theirs.summary().objectiveHistory[-1] - (ours.objective - ours.gap)
    assert ours.gap <= above < 1e-4 * ours.objective
    scale = arrays(2)[0].std(axis=0, ddof=1) if ours.getStandardization() else 1.0
    distance = scale * (ours.coefficients.toArray() - theirs.coefficients.toArray())
    bound = np.sqrt(2.0 * above / params["regParam"]) + np.sqrt(2.0 * ours.gap / params["regParam"])
    assert np.linalg.norm(distance) <= bound


@pytest.mark.parametrize("features", ["array", [f"x.{k}" for k in range(5)]])
def test_arrays_and_columns_of_numbers_give_the_model_of_vectors(frames, features):
    estimator = snapml_spark.LogisticRegression(regParam=0.05, tol=1e-10)
    expected = estimator.fit(frames(2)).coefficients.toArray()
    model = estimator.setFeaturesCol(features).setLabelCol("LABEL").fit(frames(2))
    assert model.coefficients.toArray() == pytest.approx(expected, abs=1e-8)
    scored = model.transform(frames(2)).select("prediction", "features").limit(20).collect()
    assert [row.prediction for row in scored] == [model.predict(row.features) for row in scored]
