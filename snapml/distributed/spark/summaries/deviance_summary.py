"""What a generalized linear model says about rows, summed by Spark when it is asked for."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import functions as F

from snapml._lazy import cached_property
from snapml.distributed.spark.driver import job
from snapml.distributed.spark.driver.columns import quoted
from snapml.distributed.spark.driver.errors import InvalidInput
from snapml.distributed.spark.summaries.standard_errors import StandardErrors
from snapml.distributed.spark.tasks import sums
from snapml.distributed.spark.tasks.request import FamilyName, FitOutcome
from snapml.distributed.spark.tasks.targets import family_of
from snapml.estimators.deviance.links import margin_of

__all__ = ["DevianceSummary"]

_NOTHING = "_snapml_nothing"
# The null model's deviance is compared with others to many digits.
_NULL_TOL = 1e-11


class DevianceSummary(StandardErrors):
    """Deviances, dispersion and standard errors of a model on a DataFrame, as Spark has them.

    Parameters
    ----------
    model : GeneralizedLinearRegressionModel
        The model.
    dataset : pyspark.sql.DataFrame
        Rows with labels.
    outcome : FitOutcome or None
        Of the training; None for other rows.
    """

    def __init__(self, model: Any, dataset: Any, outcome: FitOutcome | None) -> None:
        super().__init__(model, dataset, outcome, model._spark_family(), model._offset_column())
        self._family = self._asked.name

    @cached_property
    def _sums(self) -> dict[str, float]:
        """Sums over the rows, by one job."""
        sought = sums.Deviances(self._asked, self._coef, self._intercept, self._null_intercept)
        names = ("rows", "weight", "log_weight", "deviance", "null", "pearson")
        found = job.sums(self._dataset, self._request, sought)
        return dict(zip(names, found.tolist(), strict=True))

    @cached_property
    def _null_intercept(self) -> float:
        """Intercept of the best model without columns, but with the offsets."""
        if not self._model.getFitIntercept():
            return 0.0
        if self._request.offset_col is None or self._family == "gaussian":
            weight, total, _ = job.sums(self._dataset, self._request, sums.label_moments)
            return margin_of(self._own.link, total / weight)
        request = replace(self._request, features_col=_NOTHING, tol=_NULL_TOL)
        rows = self._dataset.withColumn(_NOTHING, F.array(F.lit(0.0)))
        return float(job.fit(rows, request)[0].intercept[0])

    @property
    def numInstances(self) -> int:
        """Number of rows."""
        return int(self._sums["rows"])

    @property
    def rank(self) -> int:
        """Number of coefficients, the intercept among them."""
        return len(self._coef) + int(self._model.getFitIntercept())

    @property
    def degreesOfFreedom(self) -> int:
        """Rows beyond those that the coefficients and the intercept use up."""
        return self.numInstances - self.rank

    @property
    def residualDegreeOfFreedom(self) -> int:
        """The same."""
        return self.degreesOfFreedom

    @property
    def residualDegreeOfFreedomNull(self) -> int:
        """Those of the model without columns."""
        return self.numInstances - int(self._model.getFitIntercept())

    @property
    def deviance(self) -> float:
        """Weighted deviance of the labels from the predictions."""
        return self._sums["deviance"]

    @property
    def nullDeviance(self) -> float:
        """That of the best model without columns, which has the offsets."""
        return self._sums["null"]

    @property
    def dispersion(self) -> float:
        """1 for 'binomial' and 'poisson'; else Pearson's statistic by its degrees of freedom."""
        if not self._own.has_dispersion:
            return 1.0
        return self._sums["pearson"] / self.degreesOfFreedom

    @cached_property
    def aic(self) -> float:
        """Akaike's criterion, by Spark's conventions for each family.

        Raises
        ------
        RuntimeError
            For 'tweedie', whose density is an infinite series.
        """
        n_free = 2.0 * self.rank
        if self._family == "gaussian":
            n, found = self.numInstances, self._sums
            logs = n * (math.log(found["deviance"] / n * 2.0 * math.pi) + 1.0)
            return logs + 2.0 - found["log_weight"] + n_free
        if self._family == "tweedie":
            raise RuntimeError("No AIC available for the tweedie family")
        scale = self._sums["deviance"] / self._sums["weight"] if self._family == "gamma" else 1.0
        sought = sums.LogDensities(self._asked, self._coef, self._intercept, scale)
        log_likelihood = float(job.sums(self._dataset, self._request, sought)[0])
        return -2.0 * log_likelihood + (2.0 if self._family == "gamma" else 0.0) + n_free

    def residuals(self, residualsType: str = "deviance") -> Any:
        """Return the residuals of the rows.

        Parameters
        ----------
        residualsType : {'deviance', 'pearson', 'working', 'response'}, default='deviance'
            Of which kind.

        Returns
        -------
        pyspark.sql.DataFrame
            One column, named by the kind.

        Raises
        ------
        InvalidInput
            If there is no such kind.
        """
        kinds = ("deviance", "pearson", "working", "response")
        if residualsType not in kinds:
            raise InvalidInput(f"residualsType: expected one of {kinds}, got {residualsType!r}")
        mean = F.col(quoted(self._prediction))
        label = F.col(quoted(self._request.label_col)).cast("double")
        weight = F.lit(1.0)
        if self._request.weight_col is not None:
            weight = F.col(quoted(self._request.weight_col)).cast("double")
        function = _residual_function(self._asked, residualsType)
        column = function(label, mean, weight).alias(f"{residualsType}Residuals")
        return self.predictions.select(column)

    @property
    def numIterations(self) -> int:
        """Reads of the data beyond the first."""
        return self.totalIterations


def _residual_function(asked: FamilyName, kind: str) -> Any:
    """Return the function of labels, means and weights."""

    @F.pandas_udf("double")
    def residuals(labels: pd.Series, means: pd.Series, weights: pd.Series) -> pd.Series:
        own = family_of(asked)
        y, mean, w = (each.to_numpy(np.float64) for each in (labels, means, weights))
        if kind == "deviance":
            found = np.sign(y - mean) * np.sqrt(2.0 * w * own.half_deviances(y, mean))
        elif kind == "pearson":
            found = (y - mean) * np.sqrt(w / own.variances(mean))
        elif kind == "working":
            found = (y - mean) / own.rates(mean)
        else:
            found = y - mean
        return pd.Series(found)

    return residuals
