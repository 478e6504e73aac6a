"""Metrics of classifiers, evaluated by Spark when asked for: no rows come to the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.sql import functions as F

from snapml._lazy import cached_property
from snapml.distributed.spark.driver.columns import check_number, quoted
from snapml.distributed.spark.summaries import curves
from snapml.distributed.spark.summaries.training import TrainingFacts
from snapml.distributed.spark.tasks.request import FitOutcome

__all__ = [
    "BinaryLogisticSummary",
    "BinarySummary",
    "ClassificationSummary",
    "Labelled",
    "LogisticSummary",
]

_PREDICTION, _SCORE, _WEIGHT = "_snapml_prediction", "_snapml_score", "_snapml_weight"


@dataclass(frozen=True)
class Labelled:
    """Names of columns; no weights without a name."""

    label: str
    weight: str | None
    prediction: str


class ClassificationSummary(TrainingFacts):
    """Metrics of a classifier on a DataFrame.

    Parameters
    ----------
    model : SparkModel
        The classifier.
    dataset : pyspark.sql.DataFrame
        Rows with labels.
    outcome : FitOutcome or None
        Of the training; None for other rows.
    columns : Labelled
        Names of columns.
    score : str
        The column of scores, '' where the model adds none.
    """

    def __init__(
        self,
        model: Any,
        dataset: Any,
        outcome: FitOutcome | None,
        columns: Labelled,
        score: str,
    ) -> None:
        super().__init__(outcome)
        check_number(dataset.schema, "labelCol", columns.label)
        if columns.weight is not None:
            check_number(dataset.schema, "weightCol", columns.weight)
        self._columns = columns
        self._score = score or _SCORE
        self._prediction = columns.prediction or _PREDICTION
        self._n_classes = model.numClasses
        self._model = self._with_all_columns(model)
        self._dataset = dataset

    def _with_all_columns(self, model: Any) -> Any:
        """Return a model that adds what metrics need."""
        return model.copy().setPredictionCol(self._prediction)

    @cached_property
    def predictions(self) -> Any:
        """The DataFrame with the model's columns."""
        return self._model.transform(self._dataset)

    @property
    def labelCol(self) -> str:
        """Name of the column of labels."""
        return self._columns.label

    @property
    def predictionCol(self) -> str:
        """Name of the column of predictions."""
        return self._prediction

    @property
    def weightCol(self) -> str:
        """Name of the column of weights; 'weightCol' without any, as Spark says."""
        return self._columns.weight or "weightCol"

    @property
    def labels(self) -> list[float]:
        """Labels in ascending order."""
        return [float(k) for k in self._found_labels]

    def _labels(self) -> Any:
        return F.col(quoted(self.labelCol)).cast("double")

    def _weights(self) -> Any:
        name = self._columns.weight
        return F.lit(1.0) if name is None else F.col(quoted(name)).cast("double")

    @cached_property
    def _counts(self) -> np.ndarray:
        """Weights of rows by label and prediction: one row of numbers for each pair."""
        label = self._labels().alias("label")
        prediction = F.col(quoted(self._prediction)).alias("prediction")
        rows = self.predictions.select(label, prediction, self._weights().alias("weight"))
        sums = rows.groupBy("label", "prediction").agg(F.sum("weight").alias("weight")).collect()
        return np.array([[row.label, row.prediction, row.weight] for row in sums], np.float64)

    @cached_property
    def _found_labels(self) -> np.ndarray:
        return np.unique(self._counts[:, 0])

    def _by_label(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Return the weights of true positives, predictions and labels, and of all rows."""
        label, prediction, weight = self._counts.T
        known = self._found_labels
        is_right = label == prediction
        true = np.array([weight[is_right & (label == k)].sum() for k in known])
        predicted = np.array([weight[prediction == k].sum() for k in known])
        actual = np.array([weight[label == k].sum() for k in known])
        return true, predicted, actual, float(weight.sum())

    @property
    def accuracy(self) -> float:
        """Share of rows whose class is predicted."""
        true, _, _, total = self._by_label()
        return float(true.sum() / total)

    @property
    def precisionByLabel(self) -> list[float]:
        """Share of true ones among the predictions of each label."""
        true, predicted, _, _ = self._by_label()
        return _ratios(true, predicted)

    @property
    def recallByLabel(self) -> list[float]:
        """Share of the rows of each label that are predicted."""
        true, _, actual, _ = self._by_label()
        return _ratios(true, actual)

    @property
    def truePositiveRateByLabel(self) -> list[float]:
        """Another name for `recallByLabel`."""
        return self.recallByLabel

    @property
    def falsePositiveRateByLabel(self) -> list[float]:
        """Share of the rows of other labels that are predicted to have each label."""
        true, predicted, actual, total = self._by_label()
        return _ratios(predicted - true, total - actual)

    def fMeasureByLabel(self, beta: float = 1.0) -> list[float]:
        """Return the F-measure of each label.

        Parameters
        ----------
        beta : float, default=1.0
            Weight of the recall beside the precision.

        Returns
        -------
        list of float
            In the order of `labels`.
        """
        precision, recall = np.array(self.precisionByLabel), np.array(self.recallByLabel)
        weighted = (1.0 + beta**2) * precision * recall
        return _ratios(weighted, beta**2 * precision + recall)

    @property
    def weightedPrecision(self) -> float:
        """Mean of `precisionByLabel`, weighted by the labels' rows."""
        return self._mean(self.precisionByLabel)

    @property
    def weightedRecall(self) -> float:
        """Mean of `recallByLabel`, weighted by the labels' rows."""
        return self._mean(self.recallByLabel)

    @property
    def weightedTruePositiveRate(self) -> float:
        """Another name for `weightedRecall`."""
        return self.weightedRecall

    @property
    def weightedFalsePositiveRate(self) -> float:
        """Mean of `falsePositiveRateByLabel`, weighted by the labels' rows."""
        return self._mean(self.falsePositiveRateByLabel)

    def weightedFMeasure(self, beta: float = 1.0) -> float:
        """Return the mean of `fMeasureByLabel`, weighted by the labels' rows.

        Parameters
        ----------
        beta : float, default=1.0
            Weight of the recall beside the precision.

        Returns
        -------
        float
            The mean.
        """
        return self._mean(self.fMeasureByLabel(beta))

    def _mean(self, values: list[float]) -> float:
        _, _, actual, total = self._by_label()
        return float(np.dot(values, actual) / total)


class LogisticSummary(ClassificationSummary):
    """Metrics of logistic regression."""

    def _with_all_columns(self, model: Any) -> Any:
        return super()._with_all_columns(model).setProbabilityCol(self._score)

    @property
    def probabilityCol(self) -> str:
        """Name of the column of probabilities."""
        return self._score

    @property
    def featuresCol(self) -> Any:
        """Name of the features column, or of the columns."""
        return self._model.getFeaturesCol()


class BinarySummary(ClassificationSummary):
    """Metrics of a classifier of two classes: curves over the thresholds of a score."""

    def _with_all_columns(self, model: Any) -> Any:
        return super()._with_all_columns(model).setRawPredictionCol(self._score)

    @property
    def scoreCol(self) -> str:
        """Name of the column of scores."""
        return self._score

    @cached_property
    def areaUnderROC(self) -> float:
        """Area under `roc`, by Spark's evaluator."""
        evaluator = BinaryClassificationEvaluator(
            rawPredictionCol="score", weightCol="weight", numBins=curves.N_BINS
        )
        # Evaluators split names at dots.
        score = F.col(quoted(self._score)).alias("score")
        rows = self.predictions.select(
            score, self._labels().alias("label"), self._weights().alias("weight")
        )
        return float(evaluator.evaluate(rows))

    @cached_property
    def _points(self) -> Any:
        label = self._labels()
        return curves.points(self.predictions, quoted(self._score), label, self._weights())

    @property
    def roc(self) -> Any:
        """DataFrame of false and true positive rates, from (0, 0) to (1, 1)."""
        return curves.roc(self._points)

    @property
    def pr(self) -> Any:
        """DataFrame of recalls and precisions."""
        return curves.precision_recall(self._points)

    @property
    def precisionByThreshold(self) -> Any:
        """DataFrame of thresholds and precisions."""
        return curves.by_threshold(self._points, "precision")

    @property
    def recallByThreshold(self) -> Any:
        """DataFrame of thresholds and recalls."""
        return curves.by_threshold(self._points, "recall")

    @property
    def fMeasureByThreshold(self) -> Any:
        """DataFrame of thresholds and F-measures."""
        return curves.by_threshold(self._points, "F-Measure")


class BinaryLogisticSummary(BinarySummary, LogisticSummary):
    """Metrics of logistic regression with two classes."""

    def _with_all_columns(self, model: Any) -> Any:
        return LogisticSummary._with_all_columns(self, model)


def _ratios(above: np.ndarray, below: np.ndarray) -> list[float]:
    """Return quotients, 0 where nothing is below."""
    ratios = np.divide(above, below, out=np.zeros(len(above)), where=below > 0)
    return [float(value) for value in ratios]
