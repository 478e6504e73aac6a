"""Parameters of each estimator and its model, with Spark's names, defaults and checks."""

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
from snapml.distributed.spark.driver.checkpoint_folder import check_checkpoint_dir
from snapml.distributed.spark.driver.errors import InvalidInput
from snapml.distributed.spark.own_params import HasFeatures, OwnParams
from snapml.distributed.spark.param_effects import ACCEPTED, BOUNDS, REFUSED

__all__ = [
    "LinearParams",
    "LinearRegressionParams",
    "LinearSVCParams",
    "LogisticRegressionParams",
]


_SPARKS_SOLVERS = ("auto", "normal", "l-bfgs", "irls")


class LinearParams(
    HasFeatures,
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
    OwnParams,
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

    def _is_standardised(self) -> bool:
        """Return whether coefficients are penalised in units of their columns' deviations."""
        return bool(self.getStandardization())

    def _check_at_least(self, name: str, least: float) -> None:
        value = self.getOrDefault(name)
        if value is not None and not (value >= least and math.isfinite(value)):
            raise InvalidInput(f"{name}: expected a finite number of at least {least}, got {value}")

    def _solver_name(self) -> str:
        """Return the solver in the job's terms."""
        names = {**dict.fromkeys(_SPARKS_SOLVERS, "auto"), "pqn": "pqn", "sdca": "sdca"}
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
