"""Generalized linear models on a DataFrame."""

from __future__ import annotations

from typing import Any

from pyspark import keyword_only
from pyspark.ml.regression import RegressionModel, Regressor

from snapml.distributed.spark.driver.columns import check_number
from snapml.distributed.spark.estimator import SparkEstimator
from snapml.distributed.spark.family_params import GeneralizedLinearParams
from snapml.distributed.spark.model import SparkModel
from snapml.distributed.spark.model_numbers import ModelNumbers
from snapml.distributed.spark.summaries.deviance_summary import DevianceSummary
from snapml.distributed.spark.tasks.request import FitOutcome
from snapml.distributed.spark.transform import Outputs

__all__ = ["GeneralizedLinearRegression", "GeneralizedLinearRegressionModel"]


class GeneralizedLinearRegression(GeneralizedLinearParams, SparkEstimator, Regressor):
    """`pyspark.ml.regression.GeneralizedLinearRegression`, trained where the rows are.

    Minimises half the mean deviance plus ``s regParam`` times ``elasticNetParam ||w||_1 + (1 -
    elasticNetParam) ||w||^2 / 2``, where s is the mean of the model's working weights: Spark's
    iteratively reweighted least squares end at this model. With the log link s is Poisson's mean
    label and Gamma's 1. The family 'gaussian' has `LinearRegression`'s penalty, of standardised
    columns. All parameters are in the table of docs/spark.md.
    """

    @keyword_only
    def __init__(
        self,
        *,
        labelCol: str = "label",
        featuresCol: str | list[str] = "features",
        predictionCol: str = "prediction",
        family: str = "gaussian",
        link: str | None = None,
        fitIntercept: bool = True,
        maxIter: int = 25,
        tol: float = 1e-6,
        regParam: float = 0.0,
        weightCol: str | None = None,
        solver: str = "irls",
        linkPredictionCol: str | None = None,
        variancePower: float = 0.0,
        linkPower: float | None = None,
        offsetCol: str | None = None,
        aggregationDepth: int = 2,
        elasticNetParam: float = 0.0,
        standardization: bool | None = None,
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
        labelCol: str = "label",
        featuresCol: str | list[str] = "features",
        predictionCol: str = "prediction",
        family: str = "gaussian",
        link: str | None = None,
        fitIntercept: bool = True,
        maxIter: int = 25,
        tol: float = 1e-6,
        regParam: float = 0.0,
        weightCol: str | None = None,
        solver: str = "irls",
        linkPredictionCol: str | None = None,
        variancePower: float = 0.0,
        linkPower: float | None = None,
        offsetCol: str | None = None,
        aggregationDepth: int = 2,
        elasticNetParam: float = 0.0,
        standardization: bool | None = None,
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

    def setFamily(self, value: str) -> Any:
        """Set the distribution of the labels."""
        return self._set(family=value)

    def setLink(self, value: str) -> Any:
        """Set the function of the mean that is linear."""
        return self._set(link=value)

    def setVariancePower(self, value: float) -> Any:
        """Set the power of the mean that the variance of 'tweedie' is proportional to."""
        return self._set(variancePower=value)

    def setLinkPower(self, value: float) -> Any:
        """Set the power of the mean that is linear, of 'tweedie'."""
        return self._set(linkPower=value)

    def setLinkPredictionCol(self, value: str) -> Any:
        """Set the name of the column of linear predictions."""
        return self._set(linkPredictionCol=value)

    def setOffsetCol(self, value: str) -> Any:
        """Set the name of the column of offsets."""
        return self._set(offsetCol=value)

    def setElasticNetParam(self, value: float) -> Any:
        """Set the share of the L1 norm in the penalty."""
        return self._set(elasticNetParam=value)

    def _model_name(self) -> str:
        return "linear" if self._is_gaussian() else "glm"

    def _deviations(self) -> str:
        return "normal equations"  # which Spark solves for 'gaussian'

    def _family_terms(self, schema: Any) -> dict[str, Any]:
        offset = self._offset_column()
        if offset is not None:
            offset = check_number(schema, "offsetCol", offset)
        return {"family": self._spark_family(), "offset_col": offset}

    def _link(self) -> str:
        return self._own_family().link

    def _make_model(self, numbers: ModelNumbers) -> GeneralizedLinearRegressionModel:
        return GeneralizedLinearRegressionModel(numbers)


class GeneralizedLinearRegressionModel(GeneralizedLinearParams, SparkModel, RegressionModel):
    """What `GeneralizedLinearRegression` has fitted."""

    def setLinkPredictionCol(self, value: str) -> Any:
        """Set the name of the column of linear predictions."""
        return self._set(linkPredictionCol=value)

    def predict(self, value: Any) -> float:
        """Return the mean for one vector, without an offset."""
        return float(self._numbers.scores().mean(self._raw(value)[:, 0])[0])

    def _outputs(self) -> Outputs:
        margin, offset = self.getLinkPredictionCol(), self.getOffsetCol()
        return Outputs(self.getPredictionCol(), margin=margin, offset=offset)

    def _make_summary(self, dataset: Any, outcome: FitOutcome | None) -> DevianceSummary:
        return DevianceSummary(self, dataset, outcome)
