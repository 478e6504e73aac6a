"""What all fitted models share: numbers, predictions as columns, conversions, files."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from pyspark.ml.linalg import DenseVector
from pyspark.ml.util import MLReadable, MLWritable

from snapml.distributed.spark.conversion import sklearn_estimator, spark_model
from snapml.distributed.spark.driver.columns import is_connect
from snapml.distributed.spark.driver.errors import InvalidInput
from snapml.distributed.spark.model_numbers import ModelNumbers
from snapml.distributed.spark.params import LinearParams
from snapml.distributed.spark.persistence import ModelReader, ModelWriter
from snapml.distributed.spark.tasks.request import FitOutcome
from snapml.distributed.spark.transform import Outputs, SentOnce, with_predictions

__all__ = ["SparkModel"]


class SparkModel(LinearParams, MLWritable, MLReadable):
    """A model that a `SparkEstimator` has fitted.

    Parameters
    ----------
    numbers : ModelNumbers or None
        What was fitted; None makes what loading fills.
    """

    def __init__(self, numbers: ModelNumbers | None = None) -> None:
        super().__init__()
        self._outcome: FitOutcome | None = None
        self._dataset: Any = None
        if numbers is not None:
            self._take(numbers)

    def _take(self, numbers: ModelNumbers) -> None:
        self._numbers = numbers
        self._sent = SentOnce(numbers.scores())

    def _remember(self, dataset: Any, outcome: FitOutcome) -> None:
        """Keep what the summary of the training needs."""
        self._dataset, self._outcome = dataset, outcome

    def __repr__(self) -> str:
        if getattr(self, "_numbers", None) is None:  # being loaded
            return str(self.uid)
        numbers = f"numFeatures={self.numFeatures}"
        if self._numbers.n_classes:
            numbers = f"numClasses={self._numbers.n_classes}, {numbers}"
        gap = f"objective={self.objective:.6g}, gap={self.gap:.2g}"
        return f"{type(self).__name__}: uid={self.uid}, {numbers}, {gap}"

    @property
    def numFeatures(self) -> int:
        """Number of features."""
        return int(self._numbers.coef.shape[1])

    @property
    def coefficients(self) -> DenseVector:
        """Coefficients, one a feature."""
        return DenseVector(self._single().coef[0])

    @property
    def intercept(self) -> float:
        """The intercept, 0 where none was fitted."""
        return float(self._single().intercept[0])

    def _single(self) -> ModelNumbers:
        if len(self._numbers.coef) > 1:
            raise RuntimeError(
                "expected a model of one vector of coefficients, got a multinomial one: see "
                "coefficientMatrix and interceptVector"
            )
        return self._numbers

    @property
    def gap(self) -> float:
        """Certified bound of the objective's distance from its least value."""
        return self._numbers.gap

    @property
    def objective(self) -> float:
        """Mean loss plus penalty at the model."""
        return self._numbers.objective

    @property
    def hasSummary(self) -> bool:
        """Whether the model was fitted in this session, rather than loaded."""
        return self._outcome is not None

    @property
    def summary(self) -> Any:
        """Metrics on the rows that the model was fitted to."""
        return self._training_summary()

    def _training_summary(self) -> Any:
        if self._outcome is None:
            raise RuntimeError(f"No training summary available for this {type(self).__name__}")
        return self._make_summary(self._dataset, self._outcome)

    def evaluate(self, dataset: Any) -> Any:
        """Return metrics on other rows.

        Parameters
        ----------
        dataset : pyspark.sql.DataFrame
            Rows with labels.

        Returns
        -------
        summary
            Evaluated when a metric is asked for.
        """
        return self._make_summary(dataset, None)

    @abstractmethod
    def _make_summary(self, dataset: Any, outcome: FitOutcome | None) -> Any:
        """Return a summary of rows; with the outcome of the fit where they are its own."""

    def _outputs(self) -> Outputs:
        """Return which columns to add."""
        return Outputs(self.getPredictionCol())

    def _transform(self, dataset: Any) -> Any:
        return with_predictions(dataset, self.getFeaturesCol(), self._sent, self._outputs())

    def _raw(self, value: Any) -> np.ndarray:
        """Return the margins of one vector."""
        row = np.asarray(value.toArray() if hasattr(value, "toArray") else value, np.float64)
        if row.shape != (self.numFeatures,):
            raise InvalidInput(f"expected a vector of {self.numFeatures} entries, got {row.shape}")
        return self._sent.scores.raw(row[None, :])

    def setFeaturesCol(self, value: str | list[str]) -> Any:
        """Set the name of the features column, or of the columns of numbers."""
        return self._set(featuresCol=value)

    def setPredictionCol(self, value: str) -> Any:
        """Set the name of the column of predictions."""
        return self._set(predictionCol=value)

    def write(self) -> ModelWriter:
        """Return what saves the model: parameters, and a file that `snapml.load` reads."""
        return ModelWriter(self)

    @classmethod
    def read(cls) -> ModelReader:
        """Return what loads it."""
        return ModelReader(cls)

    def to_sklearn(self) -> Any:
        """Return the same model as an estimator of `snapml`, without Spark.

        Returns
        -------
        estimator
            Fitted; it predicts and saves. A fit of it is one without standardisation.
        """
        return sklearn_estimator(type(self).__name__, self._numbers, self)

    def to_pyspark(self) -> Any:
        """Return the same model as one of `pyspark.ml`.

        Returns
        -------
        pyspark.ml.Model
            Of the class of the same name, with this model's parameters where it has them.

        Raises
        ------
        RuntimeError
            Without a classic session: the model is made in the JVM.
        """
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is None or is_connect(session):
            raise RuntimeError(
                "to_pyspark: expected a classic Spark session, whose JVM makes the model, got "
                + ("none" if session is None else "Spark Connect: save the model and load it there")
            )
        return spark_model(self, self._numbers)
