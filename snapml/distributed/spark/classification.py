"""Logistic regression on a DataFrame."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark import keyword_only
from pyspark.ml.classification import ProbabilisticClassificationModel, ProbabilisticClassifier
from pyspark.ml.linalg import DenseMatrix, DenseVector

from snapml.distributed.spark.driver.errors import InvalidInput
from snapml.distributed.spark.estimator import SparkEstimator
from snapml.distributed.spark.model import SparkModel
from snapml.distributed.spark.model_numbers import ModelNumbers, decided
from snapml.distributed.spark.params import LogisticRegressionParams
from snapml.distributed.spark.summaries.classification_summary import (
    BinaryLogisticSummary,
    ClassificationSummary,
    Labelled,
    LogisticSummary,
)
from snapml.distributed.spark.tasks.request import FitOutcome
from snapml.distributed.spark.transform import Outputs

__all__ = ["LogisticRegression", "LogisticRegressionModel"]


class LogisticRegression(LogisticRegressionParams, SparkEstimator, ProbabilisticClassifier):
    """`pyspark.ml.classification.LogisticRegression`, trained where the rows are.

    Minimises the mean loss plus `regParam` times ``elasticNetParam ||w||_1 + (1 -
    elasticNetParam) ||w||^2 / 2``, w in units of the columns' standard deviations where
    `standardization` is true, and certifies how far from the minimum the answer can be. All
    parameters are in the table of docs/spark.md.

    Examples
    --------
    >>> from snapml.distributed.spark import LogisticRegression
    >>> model = LogisticRegression(regParam=0.01).fit(df)  # doctest: +SKIP
    >>> model.summary.areaUnderROC, model.gap  # doctest: +SKIP
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
        threshold: float = 0.5,
        thresholds: list[float] | None = None,
        probabilityCol: str = "probability",
        rawPredictionCol: str = "rawPrediction",
        standardization: bool = True,
        weightCol: str | None = None,
        aggregationDepth: int = 2,
        family: str = "auto",
        lowerBoundsOnCoefficients: Any = None,
        upperBoundsOnCoefficients: Any = None,
        lowerBoundsOnIntercepts: Any = None,
        upperBoundsOnIntercepts: Any = None,
        maxBlockSizeInMB: float = 0.0,
        numWorkers: int | None = None,
        useGpu: bool = False,
        deviceIds: list[int] | None = None,
        memoryLimit: int | str | None = None,
        dual: bool = False,
        solver: str = "auto",
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
        threshold: float = 0.5,
        thresholds: list[float] | None = None,
        probabilityCol: str = "probability",
        rawPredictionCol: str = "rawPrediction",
        standardization: bool = True,
        weightCol: str | None = None,
        aggregationDepth: int = 2,
        family: str = "auto",
        lowerBoundsOnCoefficients: Any = None,
        upperBoundsOnCoefficients: Any = None,
        lowerBoundsOnIntercepts: Any = None,
        upperBoundsOnIntercepts: Any = None,
        maxBlockSizeInMB: float = 0.0,
        numWorkers: int | None = None,
        useGpu: bool = False,
        deviceIds: list[int] | None = None,
        memoryLimit: int | str | None = None,
        dual: bool = False,
        solver: str = "auto",
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

    def setFamily(self, value: str) -> Any:
        """Set the distribution of the labels."""
        return self._set(family=value)

    def setLowerBoundsOnCoefficients(self, value: Any) -> Any:
        """Raise: there are no bounds."""
        return self._set_checked({"lowerBoundsOnCoefficients": value})

    def setUpperBoundsOnCoefficients(self, value: Any) -> Any:
        """Raise: there are no bounds."""
        return self._set_checked({"upperBoundsOnCoefficients": value})

    def setLowerBoundsOnIntercepts(self, value: Any) -> Any:
        """Raise: there are no bounds."""
        return self._set_checked({"lowerBoundsOnIntercepts": value})

    def setUpperBoundsOnIntercepts(self, value: Any) -> Any:
        """Raise: there are no bounds."""
        return self._set_checked({"upperBoundsOnIntercepts": value})

    def _model_name(self) -> str:
        family = self.getFamily().lower()
        return "logistic" if family == "auto" else family

    def _make_model(self, numbers: ModelNumbers) -> LogisticRegressionModel:
        return LogisticRegressionModel(numbers)


class LogisticRegressionModel(
    LogisticRegressionParams, SparkModel, ProbabilisticClassificationModel
):
    """What `LogisticRegression` has fitted."""

    @property
    def numClasses(self) -> int:
        """Number of classes."""
        return self._numbers.n_classes

    @property
    def coefficientMatrix(self) -> DenseMatrix:
        """Coefficients: one row for two classes, else one a class."""
        coef = self._numbers.coef
        return DenseMatrix(*coef.shape, coef.ravel(), True)

    @property
    def interceptVector(self) -> DenseVector:
        """Intercepts, one a row of `coefficientMatrix`."""
        return DenseVector(self._numbers.intercept)

    def setRawPredictionCol(self, value: str) -> Any:
        """Set the name of the column of margins."""
        return self._set(rawPredictionCol=value)

    def setProbabilityCol(self, value: str) -> Any:
        """Set the name of the column of probabilities."""
        return self._set(probabilityCol=value)

    def predict(self, value: Any) -> float:
        """Return the class of one vector."""
        found = decided(self._probability(value), *self._decision())
        return float(found[0])

    def predictRaw(self, value: Any) -> DenseVector:
        """Return the margins of one vector."""
        return DenseVector(self._raw(value)[0])

    def predictProbability(self, value: Any) -> DenseVector:
        """Return the probabilities of one vector's classes."""
        return DenseVector(self._probability(value)[0])

    def _probability(self, value: Any) -> np.ndarray:
        return self._sent.scores.probability(self._raw(value))

    def _decision(self) -> tuple[float | None, list[float] | None]:
        """Return the threshold of one output, or the thresholds of several."""
        if len(self._numbers.coef) == 1:
            return self.getThreshold(), None
        self._check_thresholds()
        if not self.isSet(self.thresholds):
            return None, None
        thresholds = self.getOrDefault(self.thresholds)
        if len(thresholds) != self.numClasses:
            raise InvalidInput(
                f"thresholds: expected one for each of {self.numClasses} classes, got {thresholds}"
            )
        return None, thresholds

    def _outputs(self) -> Outputs:
        threshold, thresholds = self._decision()
        return Outputs(
            self.getPredictionCol(),
            self.getRawPredictionCol(),
            self.getProbabilityCol(),
            threshold=threshold,
            thresholds=thresholds,
            is_probability_decided=True,
        )

    def _make_summary(self, dataset: Any, outcome: FitOutcome | None) -> ClassificationSummary:
        columns = Labelled(self.getLabelCol(), self._weight_column(), self.getPredictionCol())
        kind = BinaryLogisticSummary if self.numClasses == 2 else LogisticSummary
        return kind(self, dataset, outcome, columns, self.getProbabilityCol())
