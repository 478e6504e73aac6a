"""The linear support vector machine on a DataFrame."""

from __future__ import annotations

from typing import Any

from pyspark import keyword_only
from pyspark.ml.classification import ClassificationModel, Classifier
from pyspark.ml.linalg import DenseVector

from snapml.distributed.spark.estimator import SparkEstimator
from snapml.distributed.spark.model import SparkModel
from snapml.distributed.spark.model_numbers import ModelNumbers, decided
from snapml.distributed.spark.params import LinearSVCParams
from snapml.distributed.spark.summaries.classification_summary import BinarySummary, Labelled
from snapml.distributed.spark.tasks.request import FitOutcome
from snapml.distributed.spark.transform import Outputs

__all__ = ["LinearSVC", "LinearSVCModel"]


class LinearSVC(LinearSVCParams, SparkEstimator, Classifier):
    """`pyspark.ml.classification.LinearSVC`, trained where the rows are.

    Minimises the mean hinge loss plus ``regParam ||w||^2 / 2``, w in units of the columns'
    standard deviations where `standardization` is true, and certifies how far from the minimum the
    answer can be. All parameters are in the table of docs/spark.md.
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
        tol: float = 1e-6,
        rawPredictionCol: str = "rawPrediction",
        fitIntercept: bool = True,
        standardization: bool = True,
        threshold: float = 0.0,
        weightCol: str | None = None,
        aggregationDepth: int = 2,
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
        tol: float = 1e-6,
        rawPredictionCol: str = "rawPrediction",
        fitIntercept: bool = True,
        standardization: bool = True,
        threshold: float = 0.0,
        weightCol: str | None = None,
        aggregationDepth: int = 2,
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

    def _model_name(self) -> str:
        return "svm"

    def _make_model(self, numbers: ModelNumbers) -> LinearSVCModel:
        return LinearSVCModel(numbers)


class LinearSVCModel(LinearSVCParams, SparkModel, ClassificationModel):
    """What `LinearSVC` has fitted."""

    @property
    def numClasses(self) -> int:
        """Number of classes."""
        return 2

    def setRawPredictionCol(self, value: str) -> Any:
        """Set the name of the column of margins."""
        return self._set(rawPredictionCol=value)

    def predict(self, value: Any) -> float:
        """Return the class of one vector."""
        return float(decided(self._raw(value), self.getThreshold(), None)[0])

    def predictRaw(self, value: Any) -> DenseVector:
        """Return the margins of one vector."""
        return DenseVector(self._raw(value)[0])

    def _outputs(self) -> Outputs:
        names = self.getPredictionCol(), self.getRawPredictionCol()
        return Outputs(*names, threshold=self.getThreshold())

    # A method as in pyspark.ml, where the other models have a property.
    def summary(self) -> BinarySummary:
        """Return metrics on the rows that the model was fitted to."""
        return self._training_summary()

    def _make_summary(self, dataset: Any, outcome: FitOutcome | None) -> BinarySummary:
        columns = Labelled(self.getLabelCol(), self._weight_column(), self.getPredictionCol())
        return BinarySummary(self, dataset, outcome, columns, self.getRawPredictionCol())
