"""Predictions as columns: one vectorised function of the features, in Spark's types."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyspark.ml.functions import array_to_vector
from pyspark.sql import functions as F

from snapml.distributed.spark.driver.columns import (
    check_features,
    check_free,
    check_number,
    features_struct,
    is_connect,
    quoted,
)
from snapml.distributed.spark.model_numbers import LinearScores, decided
from snapml.distributed.spark.pandas_rows import feature_rows, finite_offsets

__all__ = ["Outputs", "SentOnce", "with_predictions"]


@dataclass(frozen=True)
class Outputs:
    """Which columns to add, and how classes are decided.

    Attributes
    ----------
    prediction, raw, probability, margin : str
        Names of columns; '' adds none. Margins are those of regression.
    offset : str
        Name of the column that is added to margins of regression; '' adds none.
    threshold, thresholds : float or list of float, or None
        For `model_numbers.decided`.
    is_probability_decided : bool
        Whether the thresholds are those of probabilities rather than of margins.
    """

    prediction: str
    raw: str = ""
    probability: str = ""
    margin: str = ""
    offset: str = ""
    threshold: float | None = None
    thresholds: list[float] | None = None
    is_probability_decided: bool = False

    def names(self) -> list[str]:
        """Return the names of the columns, in Spark's order."""
        names = (self.raw, self.probability, self.prediction, self.margin)
        return [name for name in names if name]


class SentOnce:
    """A model's scores, sent to each executor once however often the model is used.

    Parameters
    ----------
    scores : LinearScores
        The model.
    """

    def __init__(self, scores: LinearScores) -> None:
        self.scores = scores
        self._application, self._broadcast = "", None

    def holder(self, session: Any) -> Any:
        """Return what has the scores as its ``value`` on executors.

        Parameters
        ----------
        session : pyspark.sql.SparkSession
            A broadcast needs a classic one; with Spark Connect the function carries the scores.

        Returns
        -------
        object
            To be captured by a function.
        """
        if is_connect(session):
            return _Carried(self.scores)
        context = session.sparkContext
        if self._application != context.applicationId:
            self._broadcast = context.broadcast(self.scores)
            self._application = context.applicationId
        return self._broadcast

    def __getstate__(self) -> dict[str, Any]:
        return {"scores": self.scores, "_application": "", "_broadcast": None}


@dataclass(frozen=True)
class _Carried:
    value: LinearScores


def with_predictions(dataset: Any, features: Any, sent: SentOnce, outputs: Outputs) -> Any:
    """Return a DataFrame with a model's columns behind its own.

    Parameters
    ----------
    dataset : pyspark.sql.DataFrame
        The rows.
    features : str or list of str
        Names of the features.
    sent : SentOnce
        The model.
    outputs : Outputs
        The columns.

    Returns
    -------
    pyspark.sql.DataFrame
        Evaluated where and when Spark likes.

    Raises
    ------
    InvalidInput
        If columns are missing, of another type, or exist already.
    """
    schema = dataset.schema
    check_features(schema, features)
    check_free(schema, outputs.names())
    function = _scoring(sent.holder(dataset.sparkSession), features, outputs)
    held = "_snapml_" + "_".join(outputs.names())
    read = [features_struct(schema, features)]
    if outputs.offset:
        name = check_number(schema, "offsetCol", outputs.offset)
        read.append(F.col(quoted(name)).cast("double"))
    scored = dataset.withColumn(held, function(*read))
    return scored.select("*", *_columns(held, outputs, sent.scores.n_classes)).drop(held)


def _columns(held: str, outputs: Outputs, n_classes: int) -> list[Any]:
    """Return the new columns, with the attributes that Spark's own models give them."""
    found, part = [], F.col(quoted(held))
    vector = {"ml_attr": {"num_attrs": n_classes}}
    if outputs.raw:
        raw = array_to_vector(part.getField("raw"))
        found.append(raw.alias(outputs.raw, metadata=vector))
    if outputs.probability:
        probability = array_to_vector(part.getField("probability"))
        found.append(probability.alias(outputs.probability, metadata=vector))
    if outputs.prediction:
        kind = {"type": "nominal", "num_vals": n_classes} if n_classes else {}
        # Without nulls by its type, as Spark's is.
        number = F.coalesce(part.getField("prediction"), F.lit(float("nan")))
        found.append(number.alias(outputs.prediction, metadata={"ml_attr": kind}))
    if outputs.margin:
        found.append(F.coalesce(part.getField("margin"), F.lit(float("nan"))).alias(outputs.margin))
    return found


def _scoring(holder: Any, features: Any, outputs: Outputs) -> Any:
    """Return the function of the features column."""
    fields = ["prediction double"]
    fields += ["raw array<double>"] if outputs.raw else []
    fields += ["probability array<double>"] if outputs.probability else []
    fields += ["margin double"] if outputs.margin else []
    made = F.pandas_udf(f"struct<{','.join(fields)}>")
    if not outputs.offset:

        @made
        def score(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            scores = holder.value
            for batch in batches:
                yield _scored(scores, batch, features, outputs)

        return score

    @made
    def score_with_offsets(
        batches: Iterator[tuple[pd.DataFrame, pd.Series]],
    ) -> Iterator[pd.DataFrame]:
        scores = holder.value
        for batch, offsets in batches:
            yield _scored(scores, batch, features, outputs, offsets)

    return score_with_offsets


def _scored(
    scores: LinearScores, batch: Any, features: Any, outputs: Outputs, offsets: Any = None
) -> pd.DataFrame:
    """Return the columns of a batch of rows."""
    raw = scores.raw(feature_rows(batch, scores.coef.shape[1], features))
    if not scores.n_classes:
        margins = raw[:, 0]
        if offsets is not None:
            margins = margins + finite_offsets(offsets, outputs.offset)
        predicted = pd.DataFrame({"prediction": scores.mean(margins)})
        return predicted.assign(margin=margins) if outputs.margin else predicted
    probability = None
    if outputs.probability or outputs.is_probability_decided:
        probability = scores.probability(raw)
    decisive = probability if outputs.is_probability_decided else raw
    found: dict[str, Any] = {
        "prediction": decided(np.asarray(decisive), outputs.threshold, outputs.thresholds)
    }
    if outputs.raw:
        found["raw"] = list(raw)
    if outputs.probability and probability is not None:
        found["probability"] = list(probability)
    return pd.DataFrame(found)
