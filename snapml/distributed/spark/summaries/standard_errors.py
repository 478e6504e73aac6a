"""Predictions of rows, and standard errors of coefficients from sums over them."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import stats
from scipy.linalg import inv

from snapml._lazy import cached_property
from snapml.distributed.spark.driver import job
from snapml.distributed.spark.driver.columns import check_features, check_number
from snapml.distributed.spark.summaries.training import TrainingFacts
from snapml.distributed.spark.tasks import sums
from snapml.distributed.spark.tasks.request import FamilyName, FitOutcome, FitRequest
from snapml.distributed.spark.tasks.targets import family_of

__all__ = ["StandardErrors"]

_PREDICTION = "_snapml_prediction"
# As many columns as Spark's normal equations take: their matrix comes to the driver.
_MOST_COLUMNS = 4096


class StandardErrors(TrainingFacts):
    """Base of summaries of models with one vector of coefficients.

    Parameters
    ----------
    model : SparkModel
        The model.
    dataset : pyspark.sql.DataFrame
        Rows with labels.
    outcome : FitOutcome or None
        Of the training; None for other rows, which have no errors.
    asked : FamilyName
        The model's family.
    offset : str or None
        Name of its column of offsets.
    """

    def __init__(
        self,
        model: Any,
        dataset: Any,
        outcome: FitOutcome | None,
        asked: FamilyName,
        offset: str | None,
    ) -> None:
        super().__init__(outcome)
        schema, weight = dataset.schema, model._weight_column()
        self._asked, self._own = asked, family_of(asked)
        self._model, self._dataset = model, dataset
        self._request = FitRequest(
            model="linear" if asked.name == "gaussian" else "glm",
            features_col=check_features(schema, model.getFeaturesCol()),
            label_col=check_number(schema, "labelCol", model.getLabelCol()),
            weight_col=None if weight is None else check_number(schema, "weightCol", weight),
            offset_col=None if offset is None else check_number(schema, "offsetCol", offset),
            family=asked,
            standardization=False,
        )
        self._coef = model.coefficients.toArray()
        self._intercept = model.intercept
        self._prediction = model.getPredictionCol() or _PREDICTION
        self._predicting = model.copy().setPredictionCol(self._prediction)

    @cached_property
    def predictions(self) -> Any:
        """The DataFrame with the column of predictions."""
        return self._predicting.transform(self._dataset)

    @property
    def predictionCol(self) -> str:
        """Name of the column of predictions."""
        return self._prediction

    @property
    @abstractmethod
    def dispersion(self) -> float:
        """Factor of the variances of labels."""

    @property
    @abstractmethod
    def degreesOfFreedom(self) -> int:
        """Rows beyond those that the coefficients and the intercept use up."""

    @cached_property
    def coefficientStandardErrors(self) -> list[float]:
        """Standard errors of the coefficients, and behind them of the intercept.

        Raises
        ------
        RuntimeError
            With an L1 penalty, for more than 4,096 columns, or if columns depend on each other.
        """
        self._training()
        n_features = len(self._coef)
        numbers = self._model._numbers
        if numbers.reg_param * numbers.elastic_net_param > 0.0:
            raise RuntimeError("no standard errors with an L1 penalty: elasticNetParam=0 has them")
        if n_features > _MOST_COLUMNS:
            raise RuntimeError(
                f"standard errors: expected at most {_MOST_COLUMNS} columns, got {n_features}"
            )
        found = job.sums(self._dataset, self._request, sums.column_moments)
        mean, squares = found[1:].reshape(2, n_features) / found[0]
        spread = np.sqrt(np.maximum(squares - mean**2, 0.0))
        scale = np.where(spread > 0.0, spread, 1.0)
        if not self._model.getFitIntercept():
            mean = np.zeros(n_features)
        sought = sums.Information(self._asked, self._coef, self._intercept, mean, scale)
        information = job.sums(self._dataset, self._request, sought)
        return self._errors(information.reshape(n_features + 1, n_features + 1), mean, scale)

    def _errors(self, information: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> list[float]:
        """Return the errors in the units of the columns."""
        rows = np.arange(len(mean))
        units = 1.0 if self._model._is_standardised() else 1.0 / scale**2
        information[rows, rows] += information[-1, -1] * self._strength() * units
        back = np.diag(np.append(1.0 / scale, 1.0))
        back[-1, :-1] = -mean / scale
        if not self._model.getFitIntercept():
            information, back = information[:-1, :-1], back[:-1, :-1]
        try:
            covariance = back @ inv(information) @ back.T
        except np.linalg.LinAlgError as error:
            raise RuntimeError("no standard errors: columns depend on each other") from error
        return np.sqrt(self.dispersion * np.diag(covariance)).tolist()

    def _strength(self) -> float:
        """Return what squares are penalised by, beside the mean over working weights."""
        strength = float(self._model._numbers.reg_param)
        if self._asked.name == "gaussian" and strength > 0.0:
            weight, total, squares = job.sums(self._dataset, self._request, sums.label_moments)
            strength /= math.sqrt(squares / weight - (total / weight) ** 2)
        return strength

    @property
    def tValues(self) -> list[float]:
        """Coefficients, and the intercept behind them, in units of their standard errors."""
        own = self._coef
        if self._model.getFitIntercept():
            own = np.append(own, self._intercept)
        return (own / np.array(self.coefficientStandardErrors)).tolist()

    @property
    def pValues(self) -> list[float]:
        """Two-sided: of the normal law for 'binomial' and 'poisson', else of Student's."""
        sizes = np.abs(self.tValues)
        if not self._own.has_dispersion:
            return (2.0 * stats.norm.sf(sizes)).tolist()
        return (2.0 * stats.t.sf(sizes, self.degreesOfFreedom)).tolist()
