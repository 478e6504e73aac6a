"""Generalized linear models and their summaries equal those of `pyspark.ml`."""

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.ml import regression
from pyspark.ml.linalg import Vectors

import snapml
from snapml.distributed import spark as snapml_spark

pytestmark = pytest.mark.spark

N_ROWS = 250
FACTS = (
    "deviance",
    "nullDeviance",
    "dispersion",
    "numInstances",
    "rank",
    "degreesOfFreedom",
    "residualDegreeOfFreedom",
    "residualDegreeOfFreedomNull",
    "coefficientStandardErrors",
    "tValues",
    "pValues",
)
WEIGHTED = {"weightCol": "weight", "offsetCol": "moved"}
CASES = [
    ({"family": "gaussian"}, {**WEIGHTED, "regParam": 0.3}),
    ({"family": "binomial", "link": "cloglog"}, {"weightCol": "weight"}),
    ({"family": "poisson"}, WEIGHTED),
    ({"family": "gamma", "link": "log"}, {"fitIntercept": False, "regParam": 0.1}),
    ({"family": "tweedie", "variancePower": 1.5, "linkPower": 0.0}, {"regParam": 0.2}),
]


@pytest.fixture(scope="module")
def portfolio(spark):
    """Return a DataFrame with a column of labels for each family."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 3)) * [1.0, 10.0, 0.1]
    weight, moved = rng.integers(1, 4, N_ROWS).astype(float), 0.3 * rng.normal(size=N_ROWS)
    margins = X @ [0.3, -0.02, 2.0] + 0.3 + moved
    gamma = rng.gamma(2.0, np.exp(margins) / 2.0) + 1e-3
    labels = {
        "gaussian": margins + rng.normal(size=N_ROWS),
        "binomial": (rng.random(N_ROWS) < 1.0 / (1.0 + np.exp(-margins))).astype(float),
        "poisson": rng.poisson(np.exp(margins)).astype(float),
        "gamma": gamma,
        "tweedie": np.where(rng.random(N_ROWS) < 0.3, 0.0, gamma),
    }
    numbers = np.column_stack([weight, moved, *labels.values()]).tolist()
    rows = [(Vectors.dense(x), *values) for x, values in zip(X, numbers, strict=True)]
    return (
        spark.createDataFrame(rows, ["features", "weight", "moved", *labels]).repartition(2).cache()
    )


def numbers_of(frame, *names):
    return np.array([list(row) for row in frame.select(*names).collect()])


@pytest.mark.parametrize(("family", "params"), CASES)
def test_models_and_summaries_equal_those_of_spark(portfolio, family, params):
    given = {"labelCol": family["family"], "linkPredictionCol": "margin", **family, **params}
    ours = snapml_spark.GeneralizedLinearRegression(tol=1e-13, **given).fit(portfolio)
    theirs = regression.GeneralizedLinearRegression(tol=1e-11, maxIter=100, **given).fit(portfolio)
    assert ours.coefficients.toArray() == pytest.approx(theirs.coefficients.toArray(), abs=1e-7)
    assert ours.intercept == pytest.approx(theirs.intercept, abs=1e-7)
    assert ours.gap < 1e-9
    summary, expected = ours.summary, theirs.summary
    # Of labels near 0 Spark takes the deviance of 0.1: not what the documents of either say.
    left_out = {"deviance", "nullDeviance"} if family["family"] == "tweedie" else set()
    for name in FACTS:
        if name not in left_out:
            found = getattr(summary, name)
            assert found == pytest.approx(getattr(expected, name), rel=1e-6, abs=1e-9), name
    if family["family"] == "tweedie":
        with pytest.raises(RuntimeError, match="No AIC available for the tweedie family"):
            _ = summary.aic
    else:
        assert summary.aic == pytest.approx(expected.aic, rel=1e-9)
    for kind in ("deviance", "pearson", "working", "response"):
        if kind != "deviance" or not left_out:
            frames = [each.residuals(kind) for each in (summary, expected)]
            residuals = [np.sort(numbers_of(each, *each.columns)[:, 0]) for each in frames]
            assert residuals[0] == pytest.approx(residuals[1], abs=1e-5)
    columns = [*portfolio.columns, "prediction", "margin"]
    scored = [model.transform(portfolio).select(columns) for model in (ours, theirs)]
    assert scored[0].schema.names == scored[1].schema.names
    numbers = [numbers_of(each, "prediction", "margin") for each in scored]
    assert np.sort(numbers[0], axis=0) == pytest.approx(np.sort(numbers[1], axis=0), abs=1e-5)


def test_models_go_elsewhere(portfolio, tmp_path):
    params = {"family": "poisson", "labelCol": "poisson", "offsetCol": "moved", "regParam": 0.1}
    model = snapml_spark.GeneralizedLinearRegression(tol=1e-9, **params).fit(portfolio)
    model.save(str(tmp_path / "model"))
    loaded = snapml_spark.GeneralizedLinearRegressionModel.load(str(tmp_path / "model"))
    X = np.array([row.features.toArray() for row in portfolio.select("features").collect()])
    y, moved = numbers_of(portfolio, "poisson", "moved").T
    found = numbers_of(model.transform(portfolio), "prediction")[:, 0]
    assert np.array_equal(numbers_of(loaded.transform(portfolio), "prediction")[:, 0], found)
    alone = model.to_sklearn()
    assert isinstance(alone, snapml.GeneralizedLinearRegressor)
    assert alone.predict(X, offset=moved) == pytest.approx(found, rel=1e-12)
    again = snapml.GeneralizedLinearRegressor(**alone.get_params()).fit(X, y, offset=moved)
    assert again.coef_ == pytest.approx(alone.coef_, abs=1e-4)  # alpha is that of the estimator
    theirs = numbers_of(model.to_pyspark().transform(portfolio), "prediction")[:, 0]
    assert theirs == pytest.approx(found, rel=1e-12)
    assert model.predict(Vectors.dense(X[0])) == pytest.approx(alone.predict(X[:1], offset=0.0)[0])
    other = model.evaluate(portfolio)
    assert other.deviance == pytest.approx(model.summary.deviance)
    with pytest.raises(RuntimeError, match="expected the summary of a training"):
        _ = other.coefficientStandardErrors


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"family": "weibull"}, "family: expected one of"),
        ({"family": "gamma"}, "link: expected 'log' with family='gamma', got none, which is"),
        ({"family": "poisson", "link": "sqrt"}, "link: expected 'log' .* got 'sqrt'"),
        ({"family": "tweedie", "variancePower": 1.5}, "linkPower: expected 0.0.* got none"),
        ({"family": "tweedie", "variancePower": 3.0}, "variancePower: expected 0, or from 1 to 2"),
    ],
)
def test_what_is_not_fitted_is_refused_before_a_job(params, message):
    with pytest.raises(ValueError, match=message):
        snapml_spark.GeneralizedLinearRegression(**params)._check()


def test_offsets_that_are_none_name_their_column(spark):
    rows = [(1.0, 0.5, float("nan")), (2.0, 1.5, 0.0)]
    frame = spark.createDataFrame(rows, ["label", "x", "moved"])
    estimator = snapml_spark.GeneralizedLinearRegression(
        featuresCol=["x"], family="poisson", offsetCol="moved", numWorkers=1
    )
    with pytest.raises(ValueError, match="offsetCol='moved': expected finite numbers"):
        estimator.fit(frame)
    with pytest.raises(ValueError, match="offsetCol: expected one of the columns"):
        estimator.setOffsetCol("nothing").fit(frame)
