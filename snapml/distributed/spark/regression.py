"""Linear regression on a DataFrame."""

from __future__ import annotations

from typing import Any

from pyspark import keyword_only
from pyspark.ml.regression import RegressionModel, Regressor

from snapml.distributed.spark.estimator import SparkEstimator
from snapml.distributed.spark.model import SparkModel
from snapml.distributed.spark.model_numbers import ModelNumbers
from snapml.distributed.spark.params import LinearRegressionParams
from snapml.distributed.spark.summaries.regression_summary import RegressionSummary
from snapml.distributed.spark.tasks.request import FitOutcome

__all__ = ["LinearRegression", "LinearRegressionModel"]


class LinearRegression(LinearRegressionParams, SparkEstimator, Regressor):
    """`pyspark.ml.regression.LinearRegression` with the squared loss, trained where the rows are.

    Minimises half the mean squared error plus `regParam` times ``elasticNetParam ||w||_1 + (1 -
    elasticNetParam) ||w||^2 / (2 s)``, w in units of the columns' standard deviations where
    `standardization` is true and s the labels' standard deviation, as Spark and glmnet have it. All
    parameters are in the table of docs/spark.md.
    """

    @keyword_only
    def __init__(
        self,
        *,
        featuresCol: str | list[str] = "features",
        labelCol: str = "label",
        predictionCol: str = "prediction",
        maxIter: int = 100,
        regParam: float = 0.0,
        elasticNetParam: float = 0.0,
        tol: float = 1e-6,
        fitIntercept: bool = True,
        standardization: bool = True,
        solver: str = "auto",
        weightCol: str | None = None,
        aggregationDepth: int = 2,
        loss: str = "squaredError",
        epsilon: float = 1.35,
        maxBlockSizeInMB: float = 0.0,
        numWorkers: int | None = None,
        useGpu: bool = False,
        deviceIds: list[int] | None = None,
        memoryLimit: int | str | None = None,
        dual: bool = False,
        nThreads: int | None = None,
        checkpointDir: str | None = None,
        checkpointInterval: float = 600.0,
        timeout: float = 1800.0,
        float32: bool = False,
    ) -> None:
        super().__init__()
        self.setParams(**self._input_kwargs)

    @keyword_only
    def setParams(
        self,
        *,
        featuresCol: str | list[str] = "features",
        labelCol: str = "label",
        predictionCol: str = "prediction",
        maxIter: int = 100,
        regParam: float = 0.0,
        elasticNetParam: float = 0.0,
        tol: float = 1e-6,
        fitIntercept: bool = True,
        standardization: bool = True,
        solver: str = "auto",
        weightCol: str | None = None,
        aggregationDepth: int = 2,
        loss: str = "squaredError",
        epsilon: float = 1.35,
        maxBlockSizeInMB: float = 0.0,
        numWorkers: int | None = None,
        useGpu: bool = False,
        deviceIds: list[int] | None = None,
        memoryLimit: int | str | None = None,
        dual: bool = False,
        nThreads: int | None = None,
        checkpointDir: str | None = None,
        checkpointInterval: float = 600.0,
        timeout: float = 1800.0,
        float32: bool = False,
    ) -> Any:
        """Set the parameters that are given; the others stay."""
        return self._set_checked(self._input_kwargs)

    def setElasticNetParam(self, value: float) -> Any:
        """Set the share of the L1 norm in the penalty."""
        return self._set(elasticNetParam=value)

    def setLoss(self, value: str) -> Any:
        """Set the loss: 'squaredError'."""
        return self._set(loss=value)

    def setEpsilon(self, value: float) -> Any:
        """Set a value that has no effect."""
        return self._set(epsilon=value)

    def _model_name(self) -> str:
        return "linear"

    def _deviations(self) -> str:
        return {"normal": "normal equations", "l-bfgs": "sample"}.get(self.getSolver(), "auto")

    def _make_model(self, numbers: ModelNumbers) -> LinearRegressionModel:
        return LinearRegressionModel(numbers)


class LinearRegressionModel(LinearRegressionParams, SparkModel, RegressionModel):
    """What `LinearRegression` has fitted."""

    @property
    def scale(self) -> float:
        """1, as of Spark's models with the squared loss."""
        return 1.0

    def predict(self, value: Any) -> float:
        """Return the prediction for one vector."""
        return float(self._raw(value)[0, 0])

    def _make_summary(self, dataset: Any, outcome: FitOutcome | None) -> RegressionSummary:
        return RegressionSummary(self, dataset, outcome)
