"""Parameters: Spark's, with its names and defaults, and those that `pyspark.ml` does not have."""

from __future__ import annotations

import math
from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasAggregationDepth,
    HasElasticNetParam,
    HasFitIntercept,
    HasLabelCol,
    HasMaxBlockSizeInMB,
    HasMaxIter,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
    HasRegParam,
    HasStandardization,
    HasThreshold,
    HasThresholds,
    HasTol,
    HasWeightCol,
)

from snapml.data.memory_limit import resolve_memory_limit
from snapml.distributed.spark.checkpoint_folder import check_checkpoint_dir
from snapml.distributed.spark.errors import InvalidInput

__all__ = [
    "ACCEPTED",
    "BOUNDS",
    "PASSED_ON",
    "REFUSED",
    "LinearParams",
    "LinearRegressionParams",
    "LinearSVCParams",
    "LogisticRegressionParams",
]

PASSED_ON = {
    "maxIter": "most reads of the data",
    "regParam": "factor of the penalty",
    "elasticNetParam": "share of the L1 norm in the penalty",
    "tol": "relative duality gap at which a fit ends",
    "fitIntercept": "an intercept without penalty",
    "standardization": "penalise coefficients in units of their columns' standard deviations",
    "family": "'auto', 'binomial' or 'multinomial'",
    "weightCol": "weights of rows",
    "featuresCol": "a column of vectors or arrays, or a list of columns of numbers",
    "labelCol": "labels",
    "threshold": "predictions, not the fit",
    "thresholds": "predictions, not the fit",
    "predictionCol": "names a column of predictions",
    "rawPredictionCol": "names a column of predictions",
    "probabilityCol": "names a column of predictions",
    "solver": "'auto', 'pqn' or 'sdca'; Spark's 'normal' and 'l-bfgs' choose like 'auto'",
    "numWorkers": "tasks; as many as the cluster runs at once where it is not set",
    "useGpu": "whether tasks train on GPUs: those that Spark gives them, or deviceIds",
    "deviceIds": "numbers of the GPUs of each host, one a task; those that Spark gives if not set",
    "memoryLimit": "memory for the rows of a task; more stream from its disk",
    "nThreads": "threads of a task; the cores that Spark gives it where it is not set",
    "checkpointDir": "folder that all machines see; from it a stage that is started again goes on",
    "checkpointInterval": "seconds between two writes to checkpointDir",
    "timeout": "seconds that a task waits for another before it fails",
    "float32": "keep features in float32 instead of float64",
}
"""What decides a fit or its predictions."""

ACCEPTED = {
    "aggregationDepth": "sums go from task to task, without a tree",
    "maxBlockSizeInMB": "tasks lay their rows out by themselves",
    "loss": "'squaredError' only; 'huber' is refused",
    "epsilon": "belongs to the loss 'huber'",
    "dual": "the answer is the same; solver='sdca' asks for dual coordinate ascent",
}
"""What is accepted so that programs for `pyspark.ml` run, and has no effect."""

BOUNDS = (
    "lowerBoundsOnCoefficients",
    "upperBoundsOnCoefficients",
    "lowerBoundsOnIntercepts",
    "upperBoundsOnIntercepts",
)

REFUSED = dict.fromkeys(BOUNDS, "there is no solver with bounds: use pyspark.ml's class")
"""What raises when it is set."""


def _column_or_columns(value: Any) -> Any:
    """Return the name of a column, or a list of names."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
        return list(value)
    raise TypeError(f"expected the name of a column or a list of names, got {value!r}")


def _bytes_or_text(value: Any) -> Any:
    if isinstance(value, int | str) and not isinstance(value, bool):
        return value
    raise TypeError(f"expected bytes or text such as '4GB', got {value!r}")


class _HasFeatures(Params):
    featuresCol: Any = Param(
        Params._dummy(),
        "featuresCol",
        "features column name: of vectors or arrays; or a list of names of columns of numbers",
        typeConverter=_column_or_columns,
    )

    def getFeaturesCol(self) -> Any:
        """Return the name of the features column, or the list of names."""
        return self.getOrDefault(self.featuresCol)


class _OwnParams(Params):
    """Parameters that `pyspark.ml` does not have."""

    numWorkers: Any = Param(
        Params._dummy(), "numWorkers", PASSED_ON["numWorkers"], typeConverter=TypeConverters.toInt
    )
    useGpu: Any = Param(
        Params._dummy(), "useGpu", PASSED_ON["useGpu"], typeConverter=TypeConverters.toBoolean
    )
    deviceIds: Any = Param(
        Params._dummy(), "deviceIds", PASSED_ON["deviceIds"], typeConverter=TypeConverters.toListInt
    )
    memoryLimit: Any = Param(
        Params._dummy(), "memoryLimit", PASSED_ON["memoryLimit"], typeConverter=_bytes_or_text
    )
    dual: Any = Param(
        Params._dummy(),
        "dual",
        "accepted, without effect: " + ACCEPTED["dual"],
        typeConverter=TypeConverters.toBoolean,
    )
    solver: Any = Param(
        Params._dummy(), "solver", PASSED_ON["solver"], typeConverter=TypeConverters.toString
    )
    nThreads: Any = Param(
        Params._dummy(), "nThreads", PASSED_ON["nThreads"], typeConverter=TypeConverters.toInt
    )
    checkpointDir: Any = Param(
        Params._dummy(),
        "checkpointDir",
        PASSED_ON["checkpointDir"],
        typeConverter=TypeConverters.toString,
    )
    checkpointInterval: Any = Param(
        Params._dummy(),
        "checkpointInterval",
        PASSED_ON["checkpointInterval"],
        typeConverter=TypeConverters.toFloat,
    )
    timeout: Any = Param(
        Params._dummy(), "timeout", PASSED_ON["timeout"], typeConverter=TypeConverters.toFloat
    )
    float32: Any = Param(
        Params._dummy(), "float32", PASSED_ON["float32"], typeConverter=TypeConverters.toBoolean
    )

    def getNumWorkers(self) -> int | None:
        """Return the number of tasks, None for all that the cluster runs at once."""
        return self.getOrDefault(self.numWorkers)

    def getUseGpu(self) -> bool:
        """Return whether tasks train on GPUs."""
        return self.getOrDefault(self.useGpu)

    def getDeviceIds(self) -> list[int] | None:
        """Return the numbers of the GPUs of each host, None for those that Spark gives."""
        return self.getOrDefault(self.deviceIds)

    def getMemoryLimit(self) -> int | str | None:
        """Return what the rows of a task may take, None for what is usual."""
        return self.getOrDefault(self.memoryLimit)

    def getDual(self) -> bool:
        """Return a value that has no effect."""
        return self.getOrDefault(self.dual)

    def getSolver(self) -> str:
        """Return the name of the solver."""
        return self.getOrDefault(self.solver)

    def getNThreads(self) -> int | None:
        """Return the threads of a task, None for the cores that Spark gives it."""
        return self.getOrDefault(self.nThreads)

    def getCheckpointDir(self) -> str | None:
        """Return the folder of checkpoints."""
        return self.getOrDefault(self.checkpointDir)

    def getCheckpointInterval(self) -> float:
        """Return the seconds between two checkpoints."""
        return self.getOrDefault(self.checkpointInterval)

    def getTimeout(self) -> float:
        """Return the seconds that a task waits for another."""
        return self.getOrDefault(self.timeout)

    def getFloat32(self) -> bool:
        """Return whether features are kept in float32."""
        return self.getOrDefault(self.float32)


class LinearParams(
    _HasFeatures,
    HasLabelCol,
    HasPredictionCol,
    HasMaxIter,
    HasRegParam,
    HasTol,
    HasFitIntercept,
    HasStandardization,
    HasWeightCol,
    HasAggregationDepth,
    HasMaxBlockSizeInMB,
    _OwnParams,
):
    """What all estimators and their models have."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._setDefault(
            featuresCol="features",
            labelCol="label",
            predictionCol="prediction",
            maxIter=100,
            regParam=0.0,
            tol=1e-6,
            fitIntercept=True,
            standardization=True,
            aggregationDepth=2,
            maxBlockSizeInMB=0.0,
            numWorkers=None,
            useGpu=False,
            deviceIds=None,
            memoryLimit=None,
            dual=False,
            solver="auto",
            nThreads=None,
            checkpointDir=None,
            checkpointInterval=600.0,
            timeout=1800.0,
            float32=False,
        )

    def _check(self) -> None:
        """Refuse values that no fit can take."""
        for name in BOUNDS:
            if self.hasParam(name) and self.isSet(self.getParam(name)):
                raise InvalidInput(f"{name}: {REFUSED[name]}")
        self._check_at_least("maxIter", 0)
        self._check_at_least("regParam", 0.0)
        self._check_at_least("tol", 0.0)
        self._check_at_least("numWorkers", 1)
        self._check_at_least("nThreads", 1)
        if self.hasParam("elasticNetParam"):
            self._check_at_least("elasticNetParam", 0.0)
            if self.getElasticNetParam() > 1.0:
                raise InvalidInput(
                    f"elasticNetParam: expected a number from 0 to 1, got "
                    f"{self.getElasticNetParam()}"
                )
        self._check_at_least("checkpointInterval", 0.0)
        self._check_at_least("timeout", 1.0)
        check_checkpoint_dir(self.getCheckpointDir())
        self._solver_name()
        self._memory_limit()
        self._devices()

    def _check_at_least(self, name: str, least: float) -> None:
        value = self.getOrDefault(name)
        if value is not None and not (value >= least and math.isfinite(value)):
            raise InvalidInput(f"{name}: expected a finite number of at least {least}, got {value}")

    def _solver_name(self) -> str:
        """Return the solver in the job's terms."""
        names = {"auto": "auto", "normal": "auto", "l-bfgs": "auto", "pqn": "pqn", "sdca": "sdca"}
        if self.getSolver() not in names:
            raise InvalidInput(f"solver: expected one of {list(names)}, got {self.getSolver()!r}")
        return names[self.getSolver()]

    def _memory_limit(self) -> int | None:
        """Return the limit in bytes; 'auto' is each task's own choice."""
        limit = self.getMemoryLimit()
        if limit is None or limit == "auto":
            return None
        try:
            return resolve_memory_limit(limit)
        except (TypeError, ValueError) as error:
            reason = str(error).removeprefix("memory_limit: ")
            raise InvalidInput(f"memoryLimit: {reason}") from None

    def _devices(self) -> tuple[int, ...] | None:
        """Return the numbers of the GPUs that the user names."""
        devices = self.getDeviceIds()
        if devices is None:
            return None
        if not devices or min(devices) < 0:
            raise InvalidInput(f"deviceIds: expected a list of integers >= 0, got {devices}")
        if not self.getUseGpu():
            raise InvalidInput(f"deviceIds={devices}: expected useGpu=True, got False")
        return tuple(devices)

    def _weight_column(self) -> str | None:
        """Return the name of the column of weights; Spark takes '' as none."""
        return (self.getWeightCol() or None) if self.isDefined(self.weightCol) else None


class LogisticRegressionParams(
    HasProbabilityCol,
    HasThresholds,
    HasRawPredictionCol,
    LinearParams,
    HasElasticNetParam,
    HasThreshold,
):
    """Parameters of `LogisticRegression` and its model."""

    family: Any = Param(
        Params._dummy(),
        "family",
        "'binomial', 'multinomial', or 'auto': binomial for up to two classes",
        typeConverter=TypeConverters.toString,
    )
    lowerBoundsOnCoefficients: Any = Param(
        Params._dummy(), BOUNDS[0], REFUSED[BOUNDS[0]], typeConverter=TypeConverters.toMatrix
    )
    upperBoundsOnCoefficients: Any = Param(
        Params._dummy(), BOUNDS[1], REFUSED[BOUNDS[1]], typeConverter=TypeConverters.toMatrix
    )
    lowerBoundsOnIntercepts: Any = Param(
        Params._dummy(), BOUNDS[2], REFUSED[BOUNDS[2]], typeConverter=TypeConverters.toVector
    )
    upperBoundsOnIntercepts: Any = Param(
        Params._dummy(), BOUNDS[3], REFUSED[BOUNDS[3]], typeConverter=TypeConverters.toVector
    )

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._setDefault(
            elasticNetParam=0.0,
            rawPredictionCol="rawPrediction",
            probabilityCol="probability",
            threshold=0.5,
            family="auto",
        )

    def getFamily(self) -> str:
        """Return the distribution of the labels."""
        return self.getOrDefault(self.family)

    def setThreshold(self, value: float) -> Any:
        """Set the probability of class 1 from which on it is predicted; clears `thresholds`."""
        self._set(threshold=value)
        self.clear(self.thresholds)
        return self

    def setThresholds(self, value: list[float]) -> Any:
        """Set what divides each class's probability before the largest wins; clears `threshold`."""
        self._set(thresholds=value)
        self.clear(self.threshold)
        return self

    def getThreshold(self) -> float:
        """Return `threshold`, or what `thresholds` of two classes amount to."""
        self._check_thresholds()
        if not self.isSet(self.thresholds):
            return self.getOrDefault(self.threshold)
        pair = self.getOrDefault(self.thresholds)
        if len(pair) != 2:
            raise InvalidInput(f"threshold: thresholds of {len(pair)} classes amount to no single")
        return pair[1] / (pair[0] + pair[1])

    def getThresholds(self) -> list[float]:
        """Return `thresholds`, or what `threshold` amounts to."""
        self._check_thresholds()
        if not self.isSet(self.thresholds) and self.isSet(self.threshold):
            threshold = self.getOrDefault(self.threshold)
            return [1.0 - threshold, threshold]
        return self.getOrDefault(self.thresholds)

    def _check_thresholds(self) -> None:
        """Refuse thresholds out of range, and a threshold that contradicts them."""
        threshold = self.getOrDefault(self.threshold)
        if not 0.0 <= threshold <= 1.0:
            raise InvalidInput(f"threshold: expected a number from 0 to 1, got {threshold}")
        if not self.isSet(self.thresholds):
            return
        values = self.getOrDefault(self.thresholds)
        if any(not value >= 0.0 for value in values) or values.count(0.0) > 1 or len(values) < 2:
            raise InvalidInput(
                "thresholds: expected a number of at least 0 for each class, at most one of them 0,"
                f" got {values}"
            )
        if self.isSet(self.threshold) and (
            len(values) != 2 or abs(values[1] / (values[0] + values[1]) - threshold) > 1e-5
        ):
            raise InvalidInput(
                f"threshold={threshold} and thresholds={values}: expected one of them, or a pair "
                "[1 - threshold, threshold]"
            )

    def _check(self) -> None:
        super()._check()
        self._check_thresholds()
        if self.getFamily().lower() not in ("auto", "binomial", "multinomial"):
            raise InvalidInput(
                f"family: expected 'auto', 'binomial' or 'multinomial', got {self.getFamily()!r}"
            )


class LinearSVCParams(HasRawPredictionCol, LinearParams, HasThreshold):
    """Parameters of `LinearSVC` and its model."""

    threshold: Any = Param(
        Params._dummy(),
        "threshold",
        "raw prediction above which class 1 is predicted: any number, or an infinite one",
        typeConverter=TypeConverters.toFloat,
    )

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._setDefault(rawPredictionCol="rawPrediction", threshold=0.0)

    def setThreshold(self, value: float) -> Any:
        """Set the raw prediction above which class 1 is predicted."""
        return self._set(threshold=value)


class LinearRegressionParams(LinearParams, HasElasticNetParam):
    """Parameters of `LinearRegression` and its model."""

    loss: Any = Param(
        Params._dummy(), "loss", ACCEPTED["loss"], typeConverter=TypeConverters.toString
    )
    epsilon: Any = Param(
        Params._dummy(),
        "epsilon",
        "accepted, without effect: " + ACCEPTED["epsilon"],
        typeConverter=TypeConverters.toFloat,
    )

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._setDefault(elasticNetParam=0.0, loss="squaredError", epsilon=1.35)

    def getLoss(self) -> str:
        """Return the name of the loss."""
        return self.getOrDefault(self.loss)

    def getEpsilon(self) -> float:
        """Return a value that has no effect."""
        return self.getOrDefault(self.epsilon)

    def _check(self) -> None:
        super()._check()
        if self.getLoss() != "squaredError":
            raise InvalidInput(
                f"loss: expected 'squaredError', got {self.getLoss()!r}: use pyspark.ml's class"
            )
