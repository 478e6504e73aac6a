"""Parameters have Spark's names and defaults; what has no effect is listed, the rest is refused."""

import inspect

import pytest

pytest.importorskip("pyspark")

from pyspark.ml import classification, regression
from pyspark.ml.linalg import DenseMatrix
from pyspark.ml.param import Params

from snapml.distributed import spark as snapml_spark
from snapml.distributed.spark.param_effects import ACCEPTED, PASSED_ON, REFUSED

NAMES = {
    "LogisticRegression": classification,
    "LinearSVC": classification,
    "LinearRegression": regression,
    "GeneralizedLinearRegression": regression,
}


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def test_constructors_take_what_those_of_spark_take_with_the_same_defaults(name):
    theirs = inspect.signature(getattr(NAMES[name], name).setParams).parameters
    ours = inspect.signature(getattr(snapml_spark, name).setParams).parameters
    assert set(theirs) <= set(ours)
    for key, parameter in theirs.items():
        assert ours[key].default == parameter.default, key
    assert set(ours) - {"self"} == {param.name for param in getattr(snapml_spark, name)().params}
    init = inspect.signature(getattr(snapml_spark, name).__init__).parameters
    assert list(init) == list(ours)


def test_defaults_of_the_signature_are_those_of_the_parameters(name):
    estimator = getattr(snapml_spark, name)()
    for key, parameter in inspect.signature(type(estimator).setParams).parameters.items():
        if key != "self" and parameter.default is not None:
            assert estimator.getOrDefault(key) == parameter.default, key


def test_every_parameter_is_passed_on_accepted_or_refused(name):
    known = PASSED_ON.keys() | ACCEPTED.keys() | REFUSED.keys()
    assert {param.name for param in getattr(snapml_spark, name)().params} <= known
    assert not PASSED_ON.keys() & ACCEPTED.keys()


def test_every_parameter_has_a_setter_and_a_getter_or_is_refused(name):
    estimator = getattr(snapml_spark, name)()
    for param in estimator.params:
        capital = param.name[0].upper() + param.name[1:]
        assert hasattr(estimator, f"set{capital}"), param.name
        if param.name in REFUSED:
            continue
        assert hasattr(estimator, f"get{capital}"), param.name
        value = estimator.getOrDefault(param) if estimator.isDefined(param) else None
        if value is not None:
            assert getattr(estimator, f"set{capital}")(value) is estimator
            assert getattr(estimator, f"get{capital}")() == value


def test_unknown_parameters_raise(name):
    with pytest.raises(TypeError, match="maxIterations"):
        getattr(snapml_spark, name)(maxIterations=3)
    with pytest.raises(TypeError, match=r"positional|Method"):
        getattr(snapml_spark, name)("features")


def test_bounds_are_refused_at_once():
    matrix = DenseMatrix(1, 1, [0.0])
    with pytest.raises(ValueError, match="lowerBoundsOnCoefficients"):
        snapml_spark.LogisticRegression(lowerBoundsOnCoefficients=matrix)
    with pytest.raises(ValueError, match="upperBoundsOnIntercepts"):
        snapml_spark.LogisticRegression().setUpperBoundsOnIntercepts([1.0])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"regParam": -1.0}, "regParam: expected .* at least 0"),
        ({"elasticNetParam": 1.5}, "elasticNetParam: expected a number from 0 to 1"),
        ({"maxIter": -1}, "maxIter"),
        ({"tol": float("nan")}, "tol"),
        ({"numWorkers": 0}, "numWorkers: expected .* at least 1"),
        ({"family": "poisson"}, "family: expected 'auto'"),
        ({"solver": "saga"}, "solver: expected one of"),
        ({"memoryLimit": "4 parsecs"}, "memoryLimit: expected"),
        ({"deviceIds": [0]}, r"deviceIds=\[0\]: expected useGpu=True, got False"),
        ({"deviceIds": [], "useGpu": True}, r"deviceIds: expected a list .* got \[\]"),
        ({"deviceIds": [0, -1], "useGpu": True}, r"deviceIds: expected .* >= 0, got \[0, -1\]"),
        ({"checkpointDir": "x"}, "checkpointDir: expected the absolute path .* got 'x'"),
        ({"checkpointDir": "hdfs:///fits"}, "checkpointDir: expected .* got 'hdfs:///fits'"),
        ({"checkpointDir": "/no such"}, "checkpointDir: there is no folder '/no such'"),
        ({"checkpointInterval": -1.0}, "checkpointInterval: expected .* at least 0"),
        ({"timeout": 0.5}, "timeout: expected .* at least 1"),
        ({"threshold": 1.5}, "threshold: expected a number from 0 to 1"),
        ({"thresholds": [0.0, 0.0]}, "at most one of them 0"),
    ],
)
def test_values_out_of_range_name_the_parameter(params, message):
    with pytest.raises(ValueError, match=message):
        snapml_spark.LogisticRegression(**params)._check()


def test_wrong_types_raise():
    for params in (
        {"maxIter": "many"},
        {"featuresCol": 3},
        {"featuresCol": []},
        {"useGpu": 1},
        {"deviceIds": 0},
    ):
        with pytest.raises(TypeError):
            snapml_spark.LogisticRegression(**params)


def test_the_huber_loss_is_refused():
    with pytest.raises(ValueError, match="loss: expected 'squaredError', got 'huber'"):
        snapml_spark.LinearRegression(loss="huber")._check()


def test_thresholds_and_threshold_clear_each_other():
    estimator = snapml_spark.LogisticRegression(threshold=0.3)
    assert estimator.getThresholds() == [0.7, 0.3]
    assert estimator.setThresholds([0.2, 0.8]).getThreshold() == pytest.approx(0.8)
    assert not estimator.isSet("threshold")
    assert estimator.setThreshold(0.4).getThreshold() == 0.4
    assert not estimator.isSet("thresholds")
    with pytest.raises(ValueError, match="expected one of them"):
        snapml_spark.LogisticRegression(threshold=0.3, thresholds=[0.5, 0.5])


def test_copies_keep_parameters_and_take_others(name):
    estimator = getattr(snapml_spark, name)(regParam=0.5, numWorkers=2)
    copied = estimator.copy({estimator.maxIter: 7})
    assert (copied.getRegParam(), copied.getMaxIter(), copied.getNumWorkers()) == (0.5, 7, 2)
    assert estimator.getMaxIter() == getattr(snapml_spark, name)().getMaxIter()
    assert isinstance(copied, Params)
    assert "numWorkers" in estimator.explainParams()


def test_only_known_names_are_public():
    assert all(hasattr(snapml_spark, each) for each in snapml_spark.__all__)
    with pytest.raises(AttributeError, match="RandomForest"):
        _ = snapml_spark.RandomForest
