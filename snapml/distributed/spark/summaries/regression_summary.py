"""Metrics of linear regression, evaluated by Spark when they are asked for."""

from __future__ import annotations

from typing import Any

from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.sql import functions as F

from snapml._lazy import cached_property
from snapml.distributed.spark.driver.columns import quoted
from snapml.distributed.spark.summaries.standard_errors import StandardErrors
from snapml.distributed.spark.tasks.request import FamilyName, FitOutcome

__all__ = ["RegressionSummary"]


class RegressionSummary(StandardErrors):
    """Metrics of linear regression on a DataFrame.

    Parameters
    ----------
    model : LinearRegressionModel
        The model.
    dataset : pyspark.sql.DataFrame
        Rows with labels.
    outcome : FitOutcome or None
        Of the training; None for other rows.
    """

    def __init__(self, model: Any, dataset: Any, outcome: FitOutcome | None) -> None:
        super().__init__(model, dataset, outcome, FamilyName("gaussian", "identity"), None)
        self._weight = self._request.weight_col
        self._metrics: dict[str, float] = {}

    @property
    def labelCol(self) -> str:
        """Name of the column of labels."""
        return self._model.getLabelCol()

    @property
    def featuresCol(self) -> Any:
        """Name of the features column, or of the columns."""
        return self._model.getFeaturesCol()

    def _rows(self) -> Any:
        """Return what evaluators read, by names without dots, at which they split names."""
        names = {"label": self.labelCol, "prediction": self._prediction}
        columns = [F.col(quoted(name)).cast("double").alias(own) for own, name in names.items()]
        return self.predictions.select(*columns, self._weights().alias("weight"))

    def _weights(self) -> Any:
        return F.lit(1.0) if self._weight is None else F.col(quoted(self._weight)).cast("double")

    def _metric(self, name: str) -> float:
        """Return what Spark's evaluator says, asked once."""
        if name not in self._metrics:
            evaluator = RegressionEvaluator(
                weightCol="weight",
                metricName=name,
                throughOrigin=not self._model.getFitIntercept(),
            )
            self._metrics[name] = float(evaluator.evaluate(self._rows()))
        return self._metrics[name]

    @property
    def explainedVariance(self) -> float:
        """Mean square of the predictions' distance from the labels' mean."""
        return self._metric("var")

    @property
    def meanAbsoluteError(self) -> float:
        """Mean absolute error."""
        return self._metric("mae")

    @property
    def meanSquaredError(self) -> float:
        """Mean squared error."""
        return self._metric("mse")

    @property
    def rootMeanSquaredError(self) -> float:
        """Root of the mean squared error."""
        return self._metric("rmse")

    @property
    def r2(self) -> float:
        """Coefficient of determination."""
        return self._metric("r2")

    @property
    def r2adj(self) -> float:
        """Coefficient of determination, adjusted for the number of coefficients."""
        n_free = int(self._model.getFitIntercept())
        return 1.0 - (1.0 - self.r2) * (self.numInstances - n_free) / self.degreesOfFreedom

    @cached_property
    def numInstances(self) -> int:
        """Number of rows."""
        return int(self.predictions.count())

    @property
    def degreesOfFreedom(self) -> int:
        """Rows beyond those that the coefficients and the intercept use up."""
        return self.numInstances - self._model.numFeatures - int(self._model.getFitIntercept())

    @property
    def dispersion(self) -> float:
        """Weighted squares of the residuals by the degrees of freedom."""
        return self.meanSquaredError * self._training().weight_sum / self.degreesOfFreedom

    def _residual(self) -> Any:
        return F.col(quoted(self.labelCol)) - F.col(quoted(self._prediction))

    @property
    def residuals(self) -> Any:
        """DataFrame of labels less predictions."""
        return self.predictions.select(self._residual().alias("residuals"))

    @cached_property
    def devianceResiduals(self) -> list[float]:
        """The least and the largest residual, by the root of the weight."""
        weighted = self._residual() * F.sqrt(self._weights())
        row = self.predictions.agg(F.min(weighted).alias("least"), F.max(weighted).alias("most"))
        found = row.collect()[0]
        return [float(found.least), float(found.most)]
